package test

import (
	"fmt"
	"sync"
	"testing"

	"patchbay/internal/store"
	"patchbay/internal/store/storetest"
)

// Undoing a review after its point moved to a deck with the other schedule leaves the point with a
// complete plan of that schedule.
func TestLearnUndoInAnotherDeck(t *testing.T) {
	place := newInstallation(store.Options{Folder: t.TempDir()})
	p := pupil{key: learning(t, place)}
	p.url = place.serve(t).url
	farFromMidnight(t, p)
	p.call(t, "save_deck", given{"name": "course", "settings": given{"schedule": "classic"}}, &struct{}{})
	for _, c := range []struct {
		from, to string
		open     int
	}{{"default", "course", 4}, {"course", "default", 1}, {"course", "course", 4}, {"default", "default", 1}} {
		t.Run(fmt.Sprint(c.from, " to ", c.to), func(t *testing.T) {
			var point learned
			p.call(t, "create_knowledge_point", given{"question": "q", "answer": "a", "deck": c.from}, &point)
			for range 2 { // with the same result each time
				review := point.ID + fmt.Sprint(len(p.history(t, point.ID)))
				p.call(t, "submit_review", given{"knowledge_point_id": point.ID, "grade": "good", "early": true,
					"review_id": review}, &struct{}{})
				p.call(t, "update_knowledge_point", given{"id": point.ID, "deck": c.to}, &struct{}{})
				p.call(t, "undo_review", given{"review_id": review}, &struct{}{})
				p.call(t, "get_knowledge_point", given{"id": point.ID}, &point)
				if len(point.Schedules) != c.open || point.State == "done" || point.Due == "" {
					t.Errorf("after the undo: %+v", point)
				}
				for _, s := range point.Schedules {
					if s.Completed {
						t.Errorf("what was taken back is done: %+v", s)
					}
				}
			}
		})
	}
	recount(t, p)
}

// Several clients review one point at the same moment. Whatever the order, undoing everything leads
// back to the start.
func TestLearnManyHands(t *testing.T) {
	storetest.Each(t, func(t *testing.T, o store.Options) {
		place := newInstallation(o, "PATCHBAY_LIMITS_CALL_RATE=0")
		p := pupil{key: learning(t, place)}
		p.url = place.serve(t).url
		farFromMidnight(t, p)
		var point learned
		p.call(t, "create_knowledge_point", given{"question": "q", "answer": "a"}, &point)
		const hands, each = 4, 15
		var all sync.WaitGroup
		for hand := range hands {
			all.Go(func() {
				for i := range each {
					review := given{"knowledge_point_id": point.ID, "grade": "good", "early": true,
						"review_id": fmt.Sprint(hand, "-", i)}
					if err := p.ask("submit_review", review, &struct{}{}); err != nil {
						t.Error(err)
					}
				}
			})
		}
		all.Wait()
		recount(t, p)
		for i := range hands * each {
			var undone struct{ Already bool }
			if p.call(t, "undo_review", given{}, &undone); undone.Already {
				t.Errorf("the undo %d found a review that was undone already", i)
			}
		}
		p.call(t, "get_knowledge_point", given{"id": point.ID}, &point)
		if point.State != "new" || len(point.Schedules) != 1 || point.Schedules[0].Completed {
			t.Errorf("at the end it is %+v", point)
		}
		if _, err := p.try("undo_review", given{}); err == nil {
			t.Error("there was one more to undo")
		}
		recount(t, p)
	})
}
