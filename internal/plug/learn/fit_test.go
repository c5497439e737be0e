package learn

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"patchbay/internal/plug/learn/fsrs"
	"patchbay/internal/plug/learn/schedule"
	"patchbay/internal/problem"
	"patchbay/internal/store"
)

// learned adds points that somebody with a better memory than usual has reviewed: a new one each
// day, and each again when the published weights say so.
func (r *rig) learned(person, deck string, points int) {
	r.t.Helper()
	l, err := r.Learner(ctx, person)
	r.must(err)
	id, ok := l.DeckID(deck)
	if !ok {
		r.t.Fatal("there is no deck", deck)
	}
	real := fsrs.Published
	for i := range 4 {
		real[i] *= 3
	}
	random := rand.New(rand.NewPCG(uint64(points), 1))
	var batch []store.NewPoint
	for i := range points {
		p := store.NewPoint{Point: store.Point{ID: fmt.Sprintf("%s-%d", deck, i), Person: person, Deck: id,
			Question: "q", Answer: "a", InPlan: true, Created: r.now, Updated: r.now}}
		day, memory := r.now.AddDate(0, 0, -400+i%300), fsrs.Memory{}
		var last store.Day
		for !day.After(r.now) {
			grade, today, elapsed := fsrs.Good, l.Calendar.Day(day), -1
			if p.Point.Card.Reps > 0 {
				elapsed = int(today - last)
				if random.Float64() >= real.Retrievability(float64(elapsed), memory.Stability) {
					grade = fsrs.Again
				}
				memory = real.Next(memory, elapsed, grade, true)
			} else {
				memory = real.First(grade)
			}
			p.Log = append(p.Log, store.LogEntry{ID: newID(), Person: person, Deck: id, Kind: store.LogReview, At: day,
				Day: today, Grade: store.Grade(grade), Elapsed: elapsed, Channel: "test"})
			card, err := schedule.Next(p.Point.Card, schedule.Settings{Schedule: schedule.FSRS, Retention: 0.9,
				MaxInterval: 36500}, l.Calendar, schedule.Review{Grade: store.Grade(grade), At: day}, 1, nil)
			r.must(err)
			p.Point.Card, last = card, today
			day = day.AddDate(0, 0, int(card.Due-today))
		}
		batch = append(batch, p)
	}
	r.must(r.Store.Learn.Add(ctx, person, batch))
}

func (r *rig) weights(person, deck string) []float64 {
	r.t.Helper()
	l, err := r.Learner(ctx, person)
	r.must(err)
	id, _ := l.DeckID(deck)
	return l.Settings(id).Weights
}

func TestFit(t *testing.T) {
	each(t, func(t *testing.T, r *rig) {
		r.learned("ada", DefaultDeck, 200)
		before, err := r.Get(ctx, "ada", "default-0")
		r.must(err)

		var dry, done, undone FitReport
		r.call("ada", toolFit, `{"dry_run":true}`, &dry)
		if len(dry.Fits) != 1 || dry.Fits[0].Outcome != FitBetter || dry.Fits[0].Applied || !dry.DryRun ||
			r.weights("ada", "") != nil {
			t.Fatalf("a dry run led to %+v", dry)
		}
		r.call("ada", toolFit, `{}`, &done)
		f := done.Fits[0]
		if !f.Applied || f.After.LogLoss >= f.Before.LogLoss || f.Points != 200 || f.Learned >= f.Reviews ||
			!slices.Equal(r.weights("ada", ""), f.Weights) || !slices.Equal(f.Weights, dry.Fits[0].Weights) {
			t.Fatalf("the fit is %+v, the weights %v", f, r.weights("ada", ""))
		}
		after, err := r.Get(ctx, "ada", "default-0")
		r.must(err)
		if after.Card.Stability == before.Card.Stability || after.Card.Due != before.Card.Due ||
			after.Card.Reps != before.Card.Reps {
			t.Errorf("the card is %+v, and was %+v", after.Card, before.Card)
		}
		if last, err := r.LastFit(ctx, "ada"); err != nil || len(last) != 1 || last[0].After.LogLoss != f.After.LogLoss {
			t.Errorf("the last fit is %+v, %v", last, err)
		}

		// A second fit finds nothing better.
		r.call("ada", toolFit, `{}`, &done)
		if done.Fits[0].Outcome != FitNotBetter || done.Fits[0].Applied {
			t.Errorf("a second fit: %+v", done.Fits[0])
		}
		r.call("ada", toolFit, `{"undo":true}`, &undone)
		if undone.Fits[0].Outcome != FitUndone || undone.Fits[0].Points != 200 || r.weights("ada", "") != nil {
			t.Errorf("undone: %+v, weights %v", undone, r.weights("ada", ""))
		}
		if text := r.refusal("ada", toolFit, `{"undo":true}`); text != "There is no fit to undo." {
			t.Error(text)
		}
		if last, err := r.LastFit(ctx, "ada"); err != nil || last != nil {
			t.Errorf("the last fit is %+v, %v", last, err)
		}
		// What was changed since is not undone.
		r.call("ada", toolFit, `{}`, &done)
		r.settings("ada", `{"defaults":{"weights":null}}`)
		if text := r.refusal("ada", toolFit, `{"undo":true}`); text != string(msgFitChanged) {
			t.Error(text)
		}
		// Nothing of it is anybody else's.
		r.call("bob", toolFit, `{}`, &done)
		if len(done.Fits) != 1 || done.Fits[0].Outcome != FitTooFew || done.Fits[0].Reviews != 0 {
			t.Errorf("somebody without reviews: %+v", done)
		}
	})
}

// A deck that has settings and enough reviews of its own gets weights of its own.
func TestFitDecks(t *testing.T) {
	each(t, func(t *testing.T, r *rig) {
		for _, deck := range []string{`{"name":"own","settings":{"retention":0.95}}`,
			`{"name":"few","settings":{"retention":0.95}}`, `{"name":"plain"}`} {
			r.call("ada", toolSaveDeck, deck, nil)
		}
		for deck, n := range map[string]int{"own": 200, "few": 20, "plain": 30, DefaultDeck: 40} {
			r.learned("ada", deck, n)
		}
		var done FitReport
		r.call("ada", toolFit, `{}`, &done)
		if len(done.Fits) != 2 || done.Fits[0].Deck != DefaultDeck || done.Fits[1].Deck != "own" ||
			done.Fits[0].Points != 90 || done.Fits[1].Points != 200 {
			t.Fatalf("the fits are %+v", done.Fits)
		}
		if slices.Equal(r.weights("ada", "own"), r.weights("ada", "few")) ||
			!slices.Equal(r.weights("ada", "few"), r.weights("ada", DefaultDeck)) {
			t.Error("the weights of the decks are mixed up")
		}
		r.call("ada", toolFit, `{"undo":true}`, &done)
		if len(done.Fits) != 2 || r.weights("ada", "own") != nil || r.weights("ada", "") != nil {
			t.Errorf("undone: %+v", done)
		}
		// A deck that is named is fitted for itself.
		r.call("ada", toolFit, `{"deck":"few"}`, &done)
		if len(done.Fits) != 1 || done.Fits[0].Deck != "few" || done.Fits[0].Points != 20 || r.weights("ada", "few") == nil ||
			r.weights("ada", "") != nil {
			t.Errorf("one deck: %+v", done)
		}
		r.refusal("ada", toolFit, `{"deck":"nothing"}`)
	})
}

func TestFitEnds(t *testing.T) {
	each(t, func(t *testing.T, r *rig) {
		r.learned("ada", DefaultDeck, 100)
		stopping, cancel := context.WithCancel(ctx)
		_, err := r.Fit(stopping, "ada", FitOptions{Progress: func(done, _ int) {
			if done > 0 {
				cancel()
			}
		}})
		if !errors.Is(err, context.Canceled) || r.weights("ada", "") != nil {
			t.Errorf("cancelled: %v, %v", err, r.weights("ada", ""))
		}
		_, err = r.Fit(ctx, "ada", FitOptions{DryRun: true, Progress: func(int, int) {
			if _, err := r.Fit(ctx, "ada", FitOptions{}); !problem.Is(err, problem.Unavailable) {
				t.Errorf("a second fit meanwhile: %v", err)
			}
		}})
		r.must(err)
	})
}

func TestFitMonthly(t *testing.T) {
	each(t, func(t *testing.T, r *rig) {
		r.learned("ada", DefaultDeck, 50)
		var calls []string
		look := func() {
			r.must(r.fitDue(ctx, func(person string, do func() error) error {
				calls = append(calls, person)
				return do()
			}))
		}
		look()
		r.settings("ada", `{"fit_monthly":true}`)
		look()
		look()
		if !slices.Equal(calls, []string{"ada"}) || r.weights("ada", "") == nil {
			t.Errorf("fitted: %v, %v", calls, r.weights("ada", ""))
		}
		r.now = r.now.AddDate(0, 0, 29)
		look()
		r.now = r.now.AddDate(0, 0, 1)
		release, err := r.reserveFit() // somebody else is fitting
		r.must(err)
		look()
		release()
		look()
		look()
		if !slices.Equal(calls, []string{"ada", "ada", "ada"}) {
			t.Errorf("fitted after a month: %v", calls)
		}
		var settings struct {
			Monthly bool `json:"fit_monthly"`
		}
		if r.call("ada", toolSettings, `{}`, &settings); !settings.Monthly {
			t.Error("the settings do not tell")
		}
	})
}

func TestSimulate(t *testing.T) {
	each(t, func(t *testing.T, r *rig) {
		var out, again SimulationReport
		r.call("ada", toolSimulate, `{"days":30}`, &out)
		if len(out.Results) != 5 || out.NewPoints != imaginedPoints || out.Points != 0 ||
			out.Seconds != defaultSeconds || out.Results[4].Reviews <= out.Results[0].Reviews {
			t.Errorf("somebody without points: %+v", out)
		}
		r.learned("ada", DefaultDeck, 20)
		r.add("ada", Draft{Question: "q", Answer: "a"})
		r.call("ada", toolSimulate, `{"retentions":[0.95,0.9],"seed":7}`, &out)
		if len(out.Results) != 2 || out.Results[0].Retention != 0.9 || out.Points != 20 || out.NewPoints != 1 ||
			out.Days != 365 || out.Remembered < 15 || out.Results[1].Remembered <= out.Results[0].Remembered-1 {
			t.Errorf("20 points: %+v", out)
		}
		r.call("ada", toolSimulate, `{"retentions":[0.95,0.9],"seed":7}`, &again)
		if !slices.Equal(out.Results, again.Results) {
			t.Error("the same seed led to other results")
		}
		for _, args := range []string{`{"retentions":[0.5]}`, `{"days":4000}`, `{"days":-1}`, `{"new_points":-1}`,
			`{"deck":"nothing"}`, `{"retentions":[0.9,0.9,0.9,0.9,0.9,0.9,0.9,0.9,0.9,0.9,0.9]}`} {
			r.refusal("ada", toolSimulate, args)
		}
	})
}

func TestHasSettings(t *testing.T) {
	for text, want := range map[string][2]bool{``: {}, `{}`: {}, `{"retention":0.9}`: {true, false},
		`{"weights":null}`: {true, false}, `{"weights":[1]}`: {true, true}} {
		l := &Learner{Decks: []store.Deck{{ID: "d", Settings: json.RawMessage(text)}}}
		if any, weights := hasSettings(json.RawMessage(text)), l.hasOwnWeights("d"); [2]bool{any, weights} != want {
			t.Errorf("%s: %v, %v", text, any, weights)
		}
	}
}
