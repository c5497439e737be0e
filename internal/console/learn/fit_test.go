package learn_test

import (
	"fmt"
	"os"
	"testing"
	"time"

	"patchbay/internal/console/browsertest"
	"patchbay/internal/console/consoletest"
	learning "patchbay/internal/plug/learn"
	"patchbay/internal/store"
)

// learned adds points that were forgotten oftener than usual.
func learned(t *testing.T, r *rig, points int) {
	t.Helper()
	now := time.Now()
	var batch []store.NewPoint
	for i := range points {
		p := store.NewPoint{Point: store.Point{ID: fmt.Sprint("learned-", i), Person: r.Person.ID, Question: "q",
			Answer: "a", InPlan: true, Created: now, Updated: now}}
		for n, day := range []int{0, 2, 7, 20, 60} {
			at := now.AddDate(0, 0, day-100+i%30)
			e := store.LogEntry{ID: fmt.Sprint(i, "-", n), Person: r.Person.ID, Kind: store.LogReview, At: at,
				Day: store.DateOf(at), Grade: store.Good, Elapsed: day}
			if n == 0 {
				e.Elapsed = -1
			} else if (i+n)%2 == 0 {
				e.Grade = store.Again
			}
			p.Log = append(p.Log, e)
		}
		p.Point.Card = store.Card{Phase: store.Review, Stability: 9, Difficulty: 5, Due: store.DateOf(now), Reps: 5,
			LastAt: now, LastDay: store.DateOf(now)}
		batch = append(batch, p)
	}
	if err := r.points.Store.Learn.Add(t.Context(), r.Person.ID, batch); err != nil {
		t.Fatal(err)
	}
}

// TestFit fits the memory model by the page, with and without a script, and takes it back.
func TestFit(t *testing.T) {
	r := newRig(t)
	b := r.SignedInAs(r.Person)
	page := func(p consoletest.Page, want ...string) {
		t.Helper()
		if p.Status != 200 || !p.Contains(want...) {
			t.Fatalf("%d: %s", p.Status, p.Text)
		}
	}
	page(b.Get("/learn/settings"), "/learn/fit")
	page(b.Get("/learn/fit"), "Fit to my reviews", "Simulate")
	page(b.Post("/learn/fit"), "Not enough reviews yet")
	if p := b.Post("/learn/fit/undo"); p.Status != 404 || !p.Contains("There is no fit to undo.") {
		t.Fatalf("%d: %s", p.Status, p.Text)
	}
	learned(t, r, 100)
	weights := func() int {
		l, err := r.points.Learner(t.Context(), r.Person.ID)
		if err != nil {
			t.Fatal(err)
		}
		return len(l.Settings("").Weights)
	}
	page(b.Post("/learn/fit", "dry", "1"), "What would change", "New weights, which predict better")
	if weights() != 0 {
		t.Fatal("a dry run changed the weights")
	}
	p := b.DoHX("POST", "/learn/fit")
	if !p.Contains("Fitting: 0 %", "New weights, which predict better", "progress") || p.Contains("<html") || weights() != 21 {
		t.Fatalf("%d: %s", p.Status, p.Text)
	}
	page(b.Get("/learn/fit"), "Last fit", "Back to the weights before")
	page(b.Post("/learn/fit/undo"), "The weights before the fit are back.")
	if weights() != 0 {
		t.Fatal("the weights are not back")
	}
	page(b.Post("/learn/fit/monthly", "monthly", "1"), "Saved.")
	if l, err := r.points.Learner(t.Context(), r.Person.ID); err != nil || !l.Profile.FitMonthly {
		t.Fatal(l, err)
	}
	if p := b.Post("/learn/fit", "deck", "nothing"); p.Status != 422 || !p.Contains("there is no deck") {
		t.Fatalf("%d: %s", p.Status, p.Text)
	}
}

func TestSimulation(t *testing.T) {
	r := newRig(t)
	b := r.SignedInAs(r.Person)
	learned(t, r, 20)
	r.add(t, r.Person.ID, learning.Draft{Question: "Q", Answer: "A", Deck: "Other"})
	if p := b.Get("/learn/simulation?days=90"); p.Status != 200 || !p.Contains("Minutes a day", "<rect", "97 %",
		"for 20 points and 1 new ones in 90 days", "Yours is 90 %.") {
		t.Fatalf("%d: %s", p.Status, p.Text)
	}
	if p := b.Get("/learn/simulation?deck=Other"); p.Status != 200 || !p.Contains("for 0 points and 1 new ones") {
		t.Fatalf("%d: %s", p.Status, p.Text)
	}
	if p := b.Get("/learn/simulation?days=5000"); p.Status != 422 || !p.Contains("days must be from 1 to 3650") {
		t.Fatalf("%d: %s", p.Status, p.Text)
	}
}

// A fit shows its progress in a browser, and its result; a simulation draws its charts.
func TestFitInBrowser(t *testing.T) {
	r := newRig(t)
	learned(t, r, 3000)
	b := open(t, r)
	b.SetWidth(390)
	b.Open("/learn/fit")
	b.Script(`window.shares = new Set(); new MutationObserver(() => document.querySelectorAll("#fitted progress")
		.forEach(p => shares.add(p.value))).observe(document.querySelector("#fitted"), {subtree: true, childList: true})`)
	b.Click("form[action='/learn/fit'] button.main")
	b.WaitText("#fitted table", "New weights, which predict better")
	if n := browsertest.Evaluate[int](b, "shares.size"); n < 1 {
		t.Error("the page did not tell how far it was")
	}
	b.Click("form[action='/learn/simulation'] button")
	b.WaitText("#cost", "Remembered in the end")
	if n := browsertest.Evaluate[int](b, "document.querySelectorAll('#cost rect').length"); n != 10 {
		t.Errorf("there are %d bars", n)
	}
	if width := browsertest.Evaluate[int](b, "document.documentElement.scrollWidth"); width > 390 {
		t.Errorf("the page is %d wide", width)
	}
	if file := os.Getenv("FIT_PICTURE"); file != "" {
		b.SetWidth(900)
		b.SaveScreenshot(file)
	}
	b.Open("/learn/fit")
	b.Click("form[action='/learn/fit/undo'] button")
	b.WaitText("main", "The weights before the fit are back.")
}
