package learn

import (
	"strings"
	"testing"
	"time"

	"patchbay/internal/plug/learn/note"
)

// A change of templates that was interrupted is completed by the next call, past notes that cannot
// show it, and what shows it already is not written again.
func TestInterruptedTypeChange(t *testing.T) {
	each(t, func(t *testing.T, r *rig) {
		typ, err := r.SaveNewType(ctx, "ada", NewNoteType(r.now, "Mine", false, []string{"Word", "Hint", "Long"}, nil,
			note.Template{Name: "One", Front: "{{Word}}", Back: "{{Hint}}"},
			note.Template{Name: "Two", Front: "{{Hint}}", Back: "{{Word}}"}))
		r.must(err)
		l, err := r.Learner(ctx, "ada")
		r.must(err)
		read := func(id int64) *AnkiNote {
			t.Helper()
			notes, err := r.AnkiNotes(ctx, l, []int64{id})
			r.must(err)
			if notes[id] == nil {
				t.Fatalf("note %d is gone", id)
			}
			return notes[id]
		}
		first := r.addAnki("", "", "Mine", "first", "h", "")
		long := r.addAnki("", "", "Mine", "long", "h", strings.Repeat("word ", MaxText/4))
		bare := r.addAnki("", "", "Mine", "bare", "h", "no")
		last := r.addAnki("", "", "Mine", "last", "h", "")
		r.must(r.Delete(ctx, "ada", read(bare).Points[1].ID))

		// With it, the card of bare that is left has no question.
		typ.Templates[0].Front = "{{^Long}}Say {{Word}}{{/Long}}"
		typ.Templates[1].Front = "What is {{Hint}}? {{Long}}"
		r.must(r.SaveStyle(ctx, "ada", typ)) // as if it ended before the first note
		r.now = r.now.Add(time.Hour)
		r.must(r.SaveType(ctx, "ada", typ))
		for _, id := range []int64{first, last} {
			if p := read(id).Points; len(p) != 2 || !strings.HasPrefix(p[0].Question, "Say ") || p[1].Question != "What is h?" {
				t.Errorf("%+v", p)
			}
		}
		if p := read(long).Points; len(p) != 2 || p[0].Question != "long" {
			t.Errorf("the long one: %d cards", len(p))
		}
		if p := read(bare).Points; len(p) != 1 || p[0].Question != "bare" {
			t.Errorf("the one with a card in the trash: %+v", p)
		}
		done := read(first)
		r.now = r.now.Add(time.Hour)
		r.must(r.SaveType(ctx, "ada", typ))
		again := read(first)
		if !again.Updated.Equal(done.Updated) || !again.Points[0].Updated.Equal(done.Points[0].Updated) {
			t.Errorf("what did not change was written: %v, %v", again.Updated, done.Updated)
		}
	})
}

// A new point with gaps does not write its note type over what its owner has changed.
func TestClozeStyleStays(t *testing.T) {
	each(t, func(t *testing.T, r *rig) {
		r.add("ada", Draft{Question: "{{c1::one}}", Answer: "1"})
		stored := must(r.clozeType(ctx, "ada"))(t)
		stored.CSS = ".card { color: teal }"
		r.must(r.SaveStyle(ctx, "ada", stored))
		second := r.add("ada", Draft{Question: "{{c1::two}}", Answer: "2"})
		if got := must(r.clozeType(ctx, "ada"))(t); got.CSS != stored.CSS || got.Number != stored.Number {
			t.Errorf("number %d, style %q; want %d", got.Number, got.CSS, stored.Number)
		}
		if second.Note == 0 || second.Answer == "" {
			t.Errorf("%+v", second)
		}
	})
}
