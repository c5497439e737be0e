package learn

import (
	"fmt"
	"testing"

	"patchbay/internal/store"
)

// addKin adds notes of several points each, which are kin.
func (r *rig) addKin(person, tag string, notes, each int) {
	r.t.Helper()
	l, err := r.Learner(ctx, person)
	r.must(err)
	var rows []store.NewPoint
	for note := range notes {
		for i := range each {
			name := fmt.Sprintf("%s %d.%d", tag, note, i)
			n := store.NewPoint{Point: store.Point{ID: name, Question: name, Answer: "a", InPlan: true,
				Kin: fmt.Sprintf("%s %d", tag, note), Created: r.now, Updated: r.now, Words: []string{}, Tags: []string{tag}}}
			startPlan(&n.Point, &n.Sittings, l)
			rows = append(rows, n)
		}
	}
	r.must(r.Store.Learn.Add(ctx, person, rows))
}

// What is left falls by one with each point that is done, though the review of one hides its kin;
// with a tag, and in one deck, too. What waits behind the limits takes the places of hidden ones.
func TestLeftCountsKinOnce(t *testing.T) {
	each(t, func(t *testing.T, r *rig) {
		r.addKin("ada", "pairs", 4, 2)
		home := ""
		for name, f := range map[string]QueueFilter{"all": {}, "tag": {Tag: "pairs"}, "deck": {Deck: &home}} {
			f.Limit, f.Count = 1, true
			q, err := r.Queue(ctx, "ada", f)
			r.must(err)
			if q.Matching != 4 || q.Left.HeldBack != 0 {
				t.Errorf("%s: %d match, and %+v", name, q.Matching, q.Left)
			}
		}
		for left := 4; left > 0; left-- {
			q, err := r.Queue(ctx, "ada", QueueFilter{Limit: 1, Count: true, Tag: "pairs"})
			r.must(err)
			if q.Left.Total() != left || q.Matching != left {
				t.Errorf("%+v and %d are left instead of %d", q.Left, q.Matching, left)
			}
			r.grade("ada", q.Entries[0].ID, store.Easy)
		}
		r.settings("ada", `{"defaults":{"new_per_day":7}}`)
		r.addKin("ada", "limited", 4, 2)
		for _, f := range []QueueFilter{{}, {Tag: "limited"}} { // three were taken from the limit
			f.Limit, f.Count = 20, true
			q, err := r.Queue(ctx, "ada", f)
			r.must(err)
			if q.Matching != 3 || q.Left.HeldBack != 1 {
				t.Errorf("%d match, and %+v", q.Matching, q.Left)
			}
		}
		r.settings("ada", `{"defaults":{"bury":false}}`)
		if q, err := r.Queue(ctx, "ada", QueueFilter{Limit: 20, Count: true}); err != nil || q.Left.HeldBack != 5 ||
			len(q.Entries) != q.Matching {
			t.Errorf("if nothing is hidden, %d of %+v: %v", len(q.Entries), q.Left, err)
		}
	})
}

// The number that is told for the next day is what that day shows: with new points that were held
// back, with those that were hidden, and within its limits.
func TestNextDay(t *testing.T) {
	each(t, func(t *testing.T, r *rig) {
		r.settings("ada", `{"defaults":{"new_per_day":3,"reviews_per_day":2}}`)
		r.addKin("ada", "pairs", 5, 2)
		for range 4 { // days
			for _, question := range r.due("ada") {
				r.grade("ada", question, store.Easy)
			}
			for q := r.due("ada"); len(q) > 0; q = r.due("ada") {
				r.grade("ada", q[0], store.Easy)
			}
			l, err := r.Learner(ctx, "ada")
			r.must(err)
			day, n, err := r.NextDay(ctx, l)
			r.must(err)
			if n == 0 || day <= l.Today {
				t.Fatalf("next is %s with %d", day, n)
			}
			r.now = r.now.AddDate(0, 0, int(day-l.Today))
			s, err := r.Stats(ctx, "ada", 1, 0)
			r.must(err)
			if s.Today != day || s.Left.Total() != n {
				t.Errorf("%d were told for %s, and there are %+v", n, day, s.Left)
			}
		}
		l, err := r.Learner(ctx, "bob")
		r.must(err)
		if day, n, err := r.NextDay(ctx, l); err != nil || n != 0 {
			t.Errorf("nothing is ever due, but %s has %d: %v", day, n, err)
		}
		r.settings("bob", `{"defaults":{"new_per_day":0}}`)
		r.addKin("bob", "never", 1, 1)
		if day, n, err := r.NextDay(ctx, l); err != nil || n != 1 { // as the learner was read before
			t.Errorf("%s has %d: %v", day, n, err)
		}
		l, err = r.Learner(ctx, "bob")
		r.must(err)
		if day, n, err := r.NextDay(ctx, l); err != nil || n != 0 {
			t.Errorf("no new ones are wanted, but %s has %d: %v", day, n, err)
		}
	})
}
