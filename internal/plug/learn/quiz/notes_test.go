package quiz

import (
	"slices"
	"strings"
	"testing"
	"time"

	"patchbay/internal/plug/learn"
	"patchbay/internal/store"
)

func TestNotes(t *testing.T) {
	each(t, func(t *testing.T, r *rig) {
		drafts := func() (list []learn.Entry) {
			t.Helper()
			list, err := r.service.List(ctx, "ada", store.PointFilter{}, store.PointKey{}, 100)
			r.must(err)
			return slices.DeleteFunc(list, func(e learn.Entry) bool { return !e.Draft })
		}
		r.expect("remember this: the capital of France is Paris", "Q: Capital of France?\nA: Paris\nSay “save”",
			"[Save|Cancel]")
		if len(drafts()) != 1 {
			t.Fatal("there is no draft")
		}
		r.expect("um", "Q: Capital of France?\nA: Paris")
		r.expect("change it to Lyon", "A: Lyon")
		r.expect("change the question to Second city?", "Q: Second city?\nA: Lyon")
		r.expect("save", "Saved 1.")
		if len(drafts()) != 0 {
			t.Fatal("it is a draft still")
		}
		r.expect("what's due", "1 to review today")
		// Another topic leaves the draft unconfirmed.
		r.expect("note: the capital of France is Paris", "Q: Capital")
		r.expect("what's the weather", toBot)
		r.pass(time.Hour)
		r.expect("save", toBot)
		if d := drafts(); len(d) != 1 {
			t.Fatalf("drafts: %+v", d)
		}
		r.expect("note: two notes", "2 notes, the first:\nQ: One?\nA: 1")
		r.expect("change it to 3", "There are several")
		r.expect("cancel", "All right, discarded.")
		if len(drafts()) != 1 {
			t.Fatal("a draft was not discarded")
		}
		// A repeated turn makes one draft.
		first := ask(t, r.Quiz, r.bot, request("1", "note: two notes"))
		r.pass(time.Second)
		if again := ask(t, r.instance(), r.bot, request("1", "note: two notes")); again != first || len(drafts()) != 3 {
			t.Fatalf("again: %q; %d drafts", again, len(drafts()))
		}
	})
}

func TestPhotos(t *testing.T) {
	r := newRig(t, store.Options{Folder: t.TempDir()})
	show := func(data string) string { return ask(t, r.Quiz, r.bot, photo(data)) }
	if got := show("cat"); got != toBot {
		t.Fatalf("a photo that nobody asked for: %q", got)
	}
	r.expect("Remember this", "<take_photo>All right, taking a photo.")
	if got := show("cat"); !strings.Contains(got, "Q: What is in the picture?\nA: cat") {
		t.Fatalf("the photo: %q", got)
	}
	r.expect("yes", "Saved 1.")
	r.expect("记一下", "What shall I note?")
	r.expect("um", "What shall I note?")
	r.expect("the capital of France is Paris", "Q: Capital of France?")
	r.expect("no", "discarded")
	r.expect("make a note", "What shall I note?")
	r.expect("never mind", "discarded")
	r.expect("hello", toBot)
	both := turn("remember this")
	both.Parts = append(both.Parts, photo("dog").Parts...)
	if got := ask(t, r.Quiz, r.bot, both); !strings.Contains(got, "A: dog") {
		t.Fatalf("words with a photo: %q", got)
	}
	r.broken = learn.ErrNoModel
	r.expect("save", "Saved 1.")
	r.expect("remember this", "<take_photo>")
	if got := show("cat"); !strings.Contains(got, "I could not make a note") &&
		!strings.Contains(got, "no model that reads photos") {
		t.Fatalf("without a model: %q", got)
	}
}

// A note during a review does not end the review.
func TestANoteDuringAReview(t *testing.T) {
	r := newRig(t, store.Options{Folder: t.TempDir()})
	ids := r.add(2)
	r.expect("quiz me", "q1?")
	r.expect("note: the capital of France is Paris", "Q: Capital")
	r.expect("save", "Saved 1.\nQuestion 1, 2 more: q1?")
	r.expect("note: the capital of France is Paris", "Q: Capital")
	r.expect("it is RIGHT", "Well said.", "q2?") // the draft stays unconfirmed
	if r.reps(ids[0]) != 1 {
		t.Fatal("the answer did not count")
	}
	r.expect("take a note", "What shall I note?")
	r.expect("cancel", "discarded.\nQuestion 2", "q2?")
}
