package test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"patchbay/internal/store"
	"patchbay/internal/store/storetest"
)

// Acknowledged changes of points survive kill -9; unacknowledged ones can be sent again and count
// once; and however the server died, its counters match its rows.
func TestLearnSurvivesKill(t *testing.T) {
	storetest.Each(t, func(t *testing.T, o store.Options) {
		place := newInstallation(o, "PATCHBAY_LIMITS_CALL_RATE=0")
		p := pupil{key: learning(t, place)}
		s := place.serve(t)
		p.url = s.url
		farFromMidnight(t, p)
		p.call(t, "save_deck", given{"name": "course", "settings": given{"schedule": "classic"}}, &struct{}{})
		students := make([]*student, 4)
		for i := range students {
			students[i] = &student{name: fmt.Sprintf("s%d", i), key: p.key, dice: rand.New(rand.NewPCG(uint64(i), 7))}
		}
		for range 3 {
			studyUntilKilled(t, students, s)
			s = place.serve(t)
			p.url = s.url
			for _, st := range students {
				st.check(t, p) // what was acknowledged
				st.repeat(t, p)
			}
			recount(t, p)
			for _, st := range students {
				st.check(t, p)
			}
		}
		reviews, undone, points, doubtful := 0, 0, 0, 0
		for _, st := range students {
			doubtful += st.doubtful
			for _, f := range st.facts {
				points++
				for _, r := range f.reviews {
					reviews++
					if r.undone {
						undone++
					}
				}
			}
		}
		t.Logf("nothing lost of %d points with %d reviews, %d of them undone; %d calls were cut off", points, reviews,
			undone, doubtful)
	})
}

// farFromMidnight makes the learner's day begin twelve hours from now, so that it does not end
// during a test.
func farFromMidnight(t *testing.T, p pupil) {
	t.Helper()
	p.call(t, "update_learning_settings", given{"time_zone": "UTC",
		"day_start": time.Now().UTC().Add(12 * time.Hour).Format("15:04")}, &struct{}{})
}

// student is one client with the changes it knows to be acknowledged. It has points of its own, so
// that it knows what must be there.
type student struct {
	name, key string
	dice      *rand.Rand
	facts     []*fact
	made      int                 // number of names used
	doubt     func(p pupil) error // repeats the interrupted change; nil: none
	unsure    *fact               // the point of that change; nil: a new one
	doubtful  int
}

// fact is the acknowledged state of a point.
type fact struct {
	id, question string
	deck         string
	deleted      bool
	reviews      []reviewed
}

type reviewed struct {
	id, grade string
	undone    bool
}

// studyUntilKilled has all students work until enough is acknowledged, and kills the server during
// the rest.
func studyUntilKilled(t *testing.T, students []*student, s *server) {
	t.Helper()
	enough := make(chan struct{}, 10_000)
	failures := make(chan error, len(students))
	var work sync.WaitGroup
	for _, st := range students {
		work.Go(func() {
			for {
				about, do := st.next()
				if err := do(pupil{s.url, st.key}); err != nil {
					st.doubt, st.unsure = do, about
					st.doubtful++
					if _, told := errors.AsType[*refusal](err); told {
						failures <- fmt.Errorf("%s: %w", st.name, err)
					}
					return
				}
				select {
				case enough <- struct{}{}:
				default:
				}
			}
		})
	}
	defer work.Wait()
	defer s.kill()
	deadline := time.After(2 * time.Minute)
	for range 200 {
		select {
		case <-enough:
		case err := <-failures:
			t.Fatal(err)
		case <-deadline:
			t.Fatal("too little was acknowledged to prove anything")
		}
	}
}

// next chooses the next change. The returned function can be repeated if its outcome is unknown.
func (st *student) next() (about *fact, do func(pupil) error) {
	st.made++
	name := fmt.Sprintf("%s-%d", st.name, st.made)
	if len(st.facts) < 5 || st.dice.IntN(100) < 15 {
		return nil, st.create(name)
	}
	f := st.facts[st.dice.IntN(len(st.facts))]
	if f.deleted {
		return f, f.restore
	}
	roll := st.dice.IntN(100)
	top := slices.IndexFunc(f.reviews, func(r reviewed) bool { return !r.undone })
	switch {
	case roll < 20 && top >= 0:
		return f, f.undo
	case roll < 35:
		return f, f.move([]string{"alpha", "beta", "course", "default"}[st.dice.IntN(4)])
	case roll < 40:
		return f, f.remove
	}
	return f, f.review(name, []string{"again", "hard", "good", "easy"}[st.dice.IntN(4)])
}

// create adds a point unless it exists.
func (st *student) create(question string) func(pupil) error {
	tried := false
	return func(p pupil) error {
		var made learned
		if tried {
			all, err := p.page("list_knowledge_points", given{})
			if err != nil {
				return err
			}
			for _, x := range all {
				if x.Question == question && made.ID != "" {
					return fmt.Errorf("%s is there twice", question)
				}
				if x.Question == question {
					made = x
				}
			}
		}
		tried = true
		if made.ID == "" {
			if err := p.ask("create_knowledge_point", given{"question": question, "answer": "a", "deck": "alpha",
				"tags": []string{st.name}}, &made); err != nil {
				return err
			}
		}
		st.facts = append(st.facts, &fact{id: made.ID, question: question, deck: "alpha"})
		return nil
	}
}

func (f *fact) review(id, grade string) func(pupil) error {
	return func(p pupil) error {
		l, err := p.try("submit_review", given{"knowledge_point_id": f.id, "grade": grade, "review_id": id,
			"recall_text": id, "early": true})
		switch {
		case err != nil:
			return err
		case l.IsError && strings.Contains(l.text(), "No incomplete review"): // the course is complete
			return nil
		case l.IsError:
			return &refusal{Message: l.text()}
		}
		f.reviews = append(f.reviews, reviewed{id: id, grade: grade})
		return nil
	}
}

// undo takes the last review back.
func (f *fact) undo(p pupil) error {
	for i := len(f.reviews) - 1; i >= 0; i-- {
		if r := &f.reviews[i]; !r.undone {
			if err := p.ask("undo_review", given{"review_id": r.id}, &struct{}{}); err != nil {
				return fmt.Errorf("%+v: %w", *f, err)
			}
			r.undone = true
			return nil
		}
	}
	return nil
}

func (f *fact) move(deck string) func(pupil) error {
	return func(p pupil) error {
		err := p.ask("update_knowledge_point", given{"id": f.id, "deck": deck}, &struct{}{})
		if err == nil {
			f.deck = deck
		}
		return err
	}
}

// remove moves the point to the trash, where it may be already.
func (f *fact) remove(p pupil) error {
	_, err := p.try("delete_knowledge_point", given{"id": f.id})
	if err == nil {
		f.deleted = true
	}
	return err
}

func (f *fact) restore(p pupil) error {
	err := p.ask("restore_knowledge_point", given{"id": f.id}, &struct{}{})
	if err == nil {
		f.deleted = false
	}
	return err
}

// repeat repeats the change that the end of the server interrupted.
func (st *student) repeat(t *testing.T, p pupil) {
	t.Helper()
	if st.doubt != nil {
		must(t, st.doubt(p))
	}
	st.doubt, st.unsure = nil, nil
}

// check looks up everything acknowledged.
func (st *student) check(t *testing.T, p pupil) {
	t.Helper()
	for _, f := range st.facts {
		unsure := st.doubt != nil && st.unsure == f
		var got learned
		err := p.ask("get_knowledge_point", given{"id": f.id}, &got)
		if deleted := err != nil; deleted {
			if !f.deleted && !unsure {
				t.Errorf("%s: %v", f.question, err)
			}
			must(t, p.ask("restore_knowledge_point", given{"id": f.id}, &got))
			defer p.call(t, "delete_knowledge_point", given{"id": f.id}, &struct{}{})
		} else if f.deleted && !unsure {
			t.Errorf("%s was deleted, and is there", f.question)
		}
		if got.Question != f.question || got.Deck != f.deck && !unsure {
			t.Errorf("%s in %s is %+v", f.question, f.deck, got)
		}
		f.compare(t, p.history(t, f.id), unsure)
	}
}

// compare checks the history of a point. An unsure change may have added one entry.
func (f *fact) compare(t *testing.T, log []entry, unsure bool) {
	t.Helper()
	times, undone, others := map[string]int{}, map[string]int{}, 0
	grades := map[string]string{}
	for _, e := range log {
		switch e.Kind {
		case "review":
			times[e.ID]++
			grades[e.ID] = e.Grade
		case "undo":
			undone[e.Undoes]++
		default:
			t.Errorf("%s: %+v", f.question, e)
		}
	}
	for _, r := range f.reviews {
		want := 0
		if r.undone {
			want = 1
		}
		if times[r.id] != 1 || grades[r.id] != r.grade {
			t.Errorf("the review %+v of %s is there %d times, as %s", r, f.question, times[r.id], grades[r.id])
		}
		if undone[r.id] != want {
			if !unsure || undone[r.id] > 1 {
				t.Errorf("the review %+v of %s was undone %d times", r, f.question, undone[r.id])
			}
			others++
		}
		delete(times, r.id)
	}
	for _, n := range times {
		others += n
	}
	if others > 1 || others > 0 && !unsure {
		t.Errorf("%s has %d entries that nobody made: %+v", f.question, others, log)
	}
}
