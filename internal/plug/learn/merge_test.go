package learn

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"patchbay/internal/problem"
	"patchbay/internal/store"
)

// made is a review of a random course.
type made struct {
	question int
	grade    store.Grade
	at       time.Time
}

// course makes reviews of a week and more, of some points, by time.
func course(random *rand.Rand, points, reviews int) []made {
	out := make([]made, reviews)
	for i := range out {
		out[i] = made{question: random.IntN(points), grade: store.Again + store.Grade(random.IntN(4)),
			at: shanghai.Add(time.Duration(random.IntN(9*24*60))*time.Minute + time.Duration(i)*time.Millisecond)}
	}
	slices.SortFunc(out, func(a, b made) int { return a.at.Compare(b.at) })
	return out
}

// state is all that a course leads to, without random IDs.
type state struct {
	Cards   map[string]store.Card
	Tags    map[string][]string
	Plans   map[string][]store.Sitting
	Reviews map[string][]store.LogEntry
	Days    []store.DayWork
	Recalls []store.DayRecalls
	Waiting []store.Count
}

func (r *rig) state(person string) state {
	r.t.Helper()
	out := state{map[string]store.Card{}, map[string][]string{}, map[string][]store.Sitting{},
		map[string][]store.LogEntry{}, nil, nil, nil}
	l, err := r.Learner(ctx, person)
	r.must(err)
	list, err := r.List(ctx, person, store.PointFilter{}, store.PointKey{}, 500)
	r.must(err)
	for _, e := range list {
		e.Card.LastAt = e.Card.LastAt.Truncate(time.Millisecond)
		out.Cards[e.Question], out.Tags[e.Question] = e.Card, e.Tags
		for _, v := range e.Sittings {
			v.ID, v.Point, v.Created = "", 0, time.Time{}
			out.Plans[e.Question] = append(out.Plans[e.Question], v)
		}
		log, err := r.Log(ctx, person, &e)
		r.must(err)
		undone := map[string]bool{}
		for _, v := range log {
			undone[v.Undoes] = true
		}
		for _, v := range log {
			if v.Kind == store.LogReview && !undone[v.ID] {
				v.ID, v.Point, v.Sitting, v.Before, v.After, v.Deck = "", 0, "", nil, nil, l.DeckName(v.Deck)
				out.Reviews[e.Question] = append(out.Reviews[e.Question], v)
			}
		}
	}
	out.Days, err = r.Store.Learn.Work(ctx, person, 0)
	r.must(err)
	for i := range out.Days {
		out.Days[i].Took = 0 // what was undone took its time all the same
		out.Days[i].Deck = l.DeckName(out.Days[i].Deck)
	}
	out.Recalls, err = r.Store.Learn.Recalls(ctx, person, 0)
	r.must(err)
	out.Waiting, err = r.Store.Learn.Waiting(ctx, person, 99999)
	r.must(err)
	out.Waiting = slices.DeleteFunc(out.Waiting, func(c store.Count) bool { return c.N == 0 })
	for i := range out.Waiting {
		out.Waiting[i].Deck = l.DeckName(out.Waiting[i].Deck)
	}
	slices.SortFunc(out.Waiting, func(a, b store.Count) int {
		return strings.Compare(fmt.Sprint(a), fmt.Sprint(b))
	})
	slices.SortFunc(out.Days, func(a, b store.DayWork) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
	return out
}

// merged sends reviews, and fails unless each is counted or known.
func (r *rig) merged(person string, in Offline) []MergeResult {
	r.t.Helper()
	in.Channel = "test"
	results, err := r.Merge(ctx, person, in)
	r.must(err)
	for _, v := range results {
		if v.Err != nil || v.Status == MergeGone {
			r.t.Fatalf("%+v", v)
		}
	}
	return results
}

// Reviews that arrive late, in any order, in batches of two devices and more than once lead to the
// state that they lead to online.
func TestMergeEqualsOnline(t *testing.T) {
	each(t, func(t *testing.T, r *rig) {
		for person, settings := range map[string]string{
			"ada": `{"defaults": {"balance": false, "leech": 3, "bury": false}}`,
			"bob": `{"defaults": {"schedule": "classic"}}`,
		} {
			t.Run(person, func(t *testing.T) {
				random := rand.New(rand.NewPCG(7, 11))
				const points, reviews = 12, 120
				online, offline := newRig(t, store.Options{Folder: t.TempDir()}), r
				offline.t, online.now, offline.now = t, shanghai, shanghai
				ids := map[*rig][]string{}
				for _, r := range []*rig{online, offline} {
					r.settings(person, settings)
					for i := range points {
						ids[r] = append(ids[r], r.add(person, Draft{Question: fmt.Sprint("Q", i), Answer: "A"}).ID)
					}
				}
				var all []OfflineReview
				var undone []string
				for i, m := range course(random, points, reviews) {
					if person == "bob" && i >= 40 {
						break // the course is short
					}
					id := fmt.Sprint("r", i)
					online.now = m.at
					_, err := online.Submit(ctx, person, Submission{Point: ids[online][m.question], ID: id,
						Grade: m.grade, Recall: id, Score: -1, Channel: "test", Early: true})
					if errors.Is(err, ErrNoPlan) {
						continue // the classic course is done
					}
					online.must(err)
					all = append(all, OfflineReview{ID: id, Point: ids[offline][m.question], Grade: m.grade, At: m.at,
						Recall: id})
					if random.IntN(15) == 0 {
						online.now = m.at.Add(time.Second)
						_, err := online.Undo(ctx, person, id, "test")
						online.must(err)
						undone = append(undone, id)
					}
				}
				offline.now = shanghai.AddDate(0, 0, 9)
				random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
				for from := 0; from < len(all); {
					n := min(1+random.IntN(30), len(all)-from)
					in := Offline{Reviews: append(slices.Clone(all[from:from+n]), all[random.IntN(from+n)])}
					for _, id := range undone {
						known := func(v OfflineReview) bool { return v.ID == id }
						if random.IntN(3) == 0 && slices.ContainsFunc(all[:from+n], known) {
							in.Undone = append(in.Undone, id)
						}
					}
					offline.merged(person, in)
					from += n
				}
				offline.merged(person, Offline{Undone: undone})
				for _, v := range offline.merged(person, Offline{Reviews: all, Undone: undone}) {
					if v.Status != MergeAlready && v.Status != MergeUndone {
						t.Fatalf("again: %+v", v)
					}
				}
				if diff := cmp.Diff(online.state(person), offline.state(person)); diff != "" {
					t.Errorf("online (-) and merged (+):\n%s", diff)
				}
				// Undoing goes on as if all had been done here.
				for range 25 {
					for _, r := range []*rig{online, offline} {
						r.now = shanghai.AddDate(0, 0, 10)
						_, err := r.Undo(ctx, person, "", "test")
						r.must(err)
					}
				}
				if diff := cmp.Diff(online.state(person), offline.state(person)); diff != "" {
					t.Errorf("undone online (-) and merged (+):\n%s", diff)
				}
			})
		}
	})
}

// A late review is counted between an online one and a date set by hand.
func TestMergeBetween(t *testing.T) {
	each(t, func(t *testing.T, r *rig) {
		r.settings("ada", `{"defaults": {"balance": false}}`)
		id := r.add("ada", Draft{Question: "Q", Answer: "A"}).ID
		r.grade("ada", id, store.Easy)
		r.at("2026-11-26 08:00")
		due := r.today(t, "ada") + 30
		_, err := r.Reschedule(ctx, "ada", id, due, "test")
		r.must(err)
		r.merged("ada", Offline{Reviews: []OfflineReview{{ID: "late", Point: id, Grade: store.Again,
			At: r.now.Add(-48 * time.Hour)}}})
		e, err := r.Get(ctx, "ada", id)
		r.must(err)
		if e.Card.Due != due || e.Card.Phase != store.Review || e.Card.Lapses != 1 || e.Card.Reps != 2 {
			t.Errorf("%+v", e.Card)
		}
		if open := e.OpenSitting(); open == nil || open.Day != due || open.Number != 3 {
			t.Errorf("%+v", e.Sittings)
		}
	})
}

// today returns the day of a person.
func (r *rig) today(t *testing.T, person string) store.Day {
	t.Helper()
	l, err := r.Learner(ctx, person)
	r.must(err)
	return l.Today
}

// What is wrong with one review keeps no other from being counted.
func TestMergeRefusals(t *testing.T) {
	each(t, func(t *testing.T, r *rig) {
		a, b := r.add("ada", Draft{Question: "Q", Answer: "A"}).ID, r.add("ada", Draft{Question: "B", Answer: "A"}).ID
		trash := r.add("ada", Draft{Question: "T", Answer: "A"}).ID
		bobs := r.add("bob", Draft{Question: "Q", Answer: "A"}).ID
		r.must(r.Delete(ctx, "ada", trash))
		r.now = r.now.Add(48 * time.Hour)
		at := r.now.Add(-time.Hour)
		results, err := r.Merge(ctx, "ada", Offline{Channel: "test", Reviews: []OfflineReview{
			{ID: "1", Point: a, Grade: store.Good, At: at},
			{ID: "2", Point: "nothing", Grade: store.Good, At: at},
			{ID: "3", Point: bobs, Grade: store.Good, At: at},
			{ID: "4", Point: a, Grade: store.Good, At: r.now.Add(time.Hour)},
			{ID: "5", Point: a, Grade: store.Good, At: r.now.AddDate(-3, 0, 0)},
			{ID: "6", Point: a, Grade: store.Good, At: r.now.Add(-72 * time.Hour)},
			{ID: "7", Point: a, Grade: 9, At: at},
			{ID: "1", Point: b, Grade: store.Good, At: at},
			{ID: "", Point: a, Grade: store.Good, At: at},
			{ID: "8", Point: b, Grade: store.Good, At: at},
			{ID: "9", Point: trash, Grade: store.Good, At: at},
			{ID: "10", Point: b, Grade: store.Good, At: at},
		}, Undone: []string{"10", "never"}})
		r.must(err)
		var got []MergeStatus
		for _, v := range results {
			got = append(got, v.Status)
			if (v.Err != nil) != (v.Status == MergeRefused || v.Status == MergeEarly) ||
				v.Err != nil && !problem.Is(v.Err, problem.Invalid) {
				t.Errorf("%+v", v)
			}
		}
		want := []MergeStatus{MergeCounted, MergeGone, MergeGone, MergeEarly, MergeRefused, MergeRefused, MergeRefused,
			MergeRefused, MergeRefused, MergeCounted, MergeCounted, MergeUndone, MergeUndone, MergeUnknown}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
		if _, err := r.Merge(ctx, "ada", Offline{Reviews: make([]OfflineReview, MaxMerge+1)}); !problem.Is(err, problem.Invalid) {
			t.Errorf("too many: %v", err)
		}
		s, err := r.Stats(ctx, "ada", 1, 5)
		r.must(err)
		if s.Done.Reviews != 3 {
			t.Errorf("%+v", s.Done)
		}
	})
}
