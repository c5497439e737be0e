package learn

import (
	"testing"
	"time"

	"patchbay/internal/store"
)

// What the undo of an edit of many points brings back is there after an older review has arrived,
// too: learning steps, which a new date had ended.
func TestBulkUndoIsRepeated(t *testing.T) {
	each(t, func(t *testing.T, r *rig) {
		r.settings("ada", `{"defaults": {"balance": false, "steps": [1, 10]}}`)
		id := r.add("ada", Draft{Question: "Q", Answer: "A"}).ID
		r.grade("ada", id, store.Good)
		before, err := r.Get(ctx, "ada", id)
		r.must(err)
		r.now = r.now.Add(time.Minute)
		today := r.today(t, "ada")
		_, err = r.Bulk(ctx, "ada", BulkTarget{IDs: []string{id}}, BulkEdit{Due: &today}, "test", nil)
		r.must(err)
		r.now = r.now.Add(time.Minute)
		_, err = r.UndoBulk(ctx, "ada", "test", nil)
		r.must(err)
		after, err := r.Get(ctx, "ada", id)
		r.must(err)
		if !sameCard(after.Card, before.Card) {
			t.Fatalf("undone: %+v, want %+v", after.Card, before.Card)
		}
		r.merged("ada", Offline{Reviews: []OfflineReview{{ID: "older", Point: id, Grade: store.Good,
			At: before.Card.LastAt.Add(30 * time.Second)}}})
		e, err := r.Get(ctx, "ada", id)
		r.must(err)
		if e.Card.Reps != 2 || e.Card.Phase != store.Learning || e.Card.DueAt.IsZero() {
			t.Errorf("after the older review: %+v", e.Card)
		}
	})
}

// Points that were reviewed between a move to a deck with another schedule and its undo get dates
// of the schedule that they come back to; those that were moved on stay.
func TestBulkUndoBetweenSchedules(t *testing.T) {
	each(t, func(t *testing.T, r *rig) {
		for _, deck := range []string{"Classic", "Course"} {
			_, err := r.SaveDeck(ctx, "ada", DeckEdit{Name: deck, Settings: []byte(`{"schedule":"classic"}`)}, nil)
			r.must(err)
		}
		id := r.add("ada", Draft{Question: "Q", Answer: "A", Deck: "Classic"}).ID
		moved := r.add("ada", Draft{Question: "R", Answer: "A", Deck: "Classic"}).ID
		_, err := r.Bulk(ctx, "ada", BulkTarget{IDs: []string{id, moved}}, BulkEdit{Deck: ptr("FSRS")}, "test", nil)
		r.must(err)
		r.now = r.now.Add(time.Minute)
		r.grade("ada", id, store.Good)
		_, err = r.Update(ctx, "ada", moved, Edit{Deck: ptr("Course")})
		r.must(err)
		there, err := r.Get(ctx, "ada", moved)
		r.must(err)
		_, err = r.UndoBulk(ctx, "ada", "test", nil)
		r.must(err)
		e, err := r.Get(ctx, "ada", id)
		r.must(err)
		if open := countOpen(e.Sittings); open != 3 || e.Card.Phase != store.Review {
			t.Errorf("the reviewed point has %d open rows of the course, %+v", open, e.Card)
		}
		if e, err = r.Get(ctx, "ada", moved); err != nil || e.Deck != there.Deck || len(e.Sittings) != len(there.Sittings) {
			t.Errorf("the point that was moved on: %+v, %v", e, err)
		}
	})
}

// An undo after a date was set by hand takes the review back and keeps the date; a correction is
// refused then.
func TestUndoAfterDateByHand(t *testing.T) {
	each(t, func(t *testing.T, r *rig) {
		r.settings("ada", `{"defaults": {"balance": false}}`)
		id := r.add("ada", Draft{Question: "Q", Answer: "A"}).ID
		r.grade("ada", id, store.Easy)
		r.now = r.now.Add(24 * time.Hour)
		out, err := r.Submit(ctx, "ada", Submission{ID: "wrong", Point: id, Grade: store.Again, Score: -1, Early: true})
		r.must(err)
		r.now = r.now.Add(time.Minute)
		due := r.today(t, "ada") + 9
		_, err = r.Reschedule(ctx, "ada", id, due, "test")
		r.must(err)
		r.now = r.now.Add(time.Minute)
		if _, err := r.Submit(ctx, "ada", Submission{ID: "wrong", Point: id, Grade: store.Good, Score: -1,
			Early: true}); err == nil {
			t.Error("a review before a date by hand was corrected")
		}
		_, err = r.Undo(ctx, "ada", out.Review.ID, "test")
		r.must(err)
		e, err := r.Get(ctx, "ada", id)
		r.must(err)
		if e.Card.Reps != 1 || e.Card.Lapses != 0 || e.Card.Due != due {
			t.Errorf("undone: %+v", e.Card)
		}
	})
}
