package quiz

import (
	"context"
	"strings"
	"testing"
	"time"

	"patchbay/internal/plug/learn"
	"patchbay/internal/store"
)

// A cram session by voice asks all points with a tag, due or not, takes the last one back, and
// records nothing.
func TestCramByVoice(t *testing.T) {
	each(t, func(t *testing.T, r *rig) {
		one := r.put(learn.Draft{Question: "q1?", Answer: "a1", Tags: []string{"verbs"}, Deck: "Spanish"})
		r.put(learn.Draft{Question: "q2?", Answer: "a2", Tags: []string{"verbs"}})
		r.put(learn.Draft{Question: "q3?", Answer: "a3", Tags: []string{"动词"}})
		_, err := r.service.Submit(ctx, "ada", learn.Submission{Point: one, Grade: store.Easy, Score: -1, ID: "before"})
		r.must(err)
		before, err := r.service.Get(ctx, "ada", one)
		r.must(err)

		r.expect("cram tag nothing", toBot)
		r.expect("practise what you preach", toBot)
		r.expect("cram verbs", "Cramming 2. Nothing is recorded", "Question 1, 1 more: q1?")
		r.expect("RIGHT", "Well said.", "Question 2, the last: q2?")
		r.expect("undo", "Undone.", "Question 1, 1 more: q1?")
		r.expect("I don't know", "Answer: a1", "Question 2, the last: q2?")
		r.expect("how many left", "1 left", "q2?")
		r.expect("answer", "Answer: a2", "How well did you know it?")
		r.expect("good", "That was all: 2 asked, 1 of them not known. Nothing was recorded.")
		r.expect("and the weather?", toBot)

		r.expect("突击复习动词", "Cramming 1", "Question 1, the last: q3?")
		r.expect("stop", "Stopped: 0 asked")
		r.expect("cram deck Spanish", "Cramming 1", "q1?")
		r.expect("skip", "That was all: 0 asked, 0 of them not known")
		r.expect("cram Spanish cards", "Cramming 1", "q1?")
		r.expect("goodbye", "Stopped", "Goodbye!")

		after, err := r.service.Get(ctx, "ada", one)
		r.must(err)
		if after.Card != before.Card || len(r.reviews(one)) != 1 {
			t.Errorf("%+v became %+v, with %d reviews", before.Card, after.Card, len(r.reviews(one)))
		}
	})
}

// The last recall of a cram session, if repeated, does not reach the bot.
func TestTheLastRecallOfACramRepeated(t *testing.T) {
	r := newRig(t, store.Options{Folder: t.TempDir()})
	r.put(learn.Draft{Question: "q1?", Answer: "a1", Tags: []string{"verbs"}})
	r.expect("cram verbs", "q1?")
	first := ask(t, r.Quiz, r.bot, request("1", "RIGHT"))
	r.pass(time.Second)
	if again := ask(t, r.Quiz, r.bot, request("1", "RIGHT")); again != first || !strings.Contains(first, "That was all") {
		t.Fatalf("again: %q, first: %q", again, first)
	}
}

// What sounds like a cram session goes to the bot if the person's tags cannot be read.
func TestCramWithoutADatabase(t *testing.T) {
	r := newRig(t, store.Options{Folder: t.TempDir()})
	r.put(learn.Draft{Question: "q1?", Answer: "a1", Tags: []string{"verbs"}})
	gone, cancel := context.WithCancel(ctx)
	cancel()
	if c, err := r.Quiz.cramTarget(gone, "ada", "verbs"); c != nil || err == nil {
		t.Errorf("%+v, %v", c, err)
	}
}
