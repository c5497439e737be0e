package learn_test

import (
	"context"
	"errors"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"

	"patchbay/internal/console/browsertest"
	"patchbay/internal/console/consoletest"
	learning "patchbay/internal/plug/learn"
	"patchbay/internal/store"
)

// A point is flagged, marked as a leech, buried and suspended while it is reviewed; each is taken
// back, the last first, and nothing of it is a review.
func TestMarksInReview(t *testing.T) {
	r := newRig(t)
	list := r.add(t, r.Person.ID, learning.Draft{Question: "Q1", Answer: "A1"},
		learning.Draft{Question: "Q2", Answer: "A2"}, learning.Draft{Question: "Q3", Answer: "A3"})
	b := r.SignedInAs(r.Person)
	do := func(p consoletest.Page, what string, more ...string) consoletest.Page {
		t.Helper()
		action := "/learn/review/" + what
		return b.Post(action, append(form(t, p, action), more...)...)
	}
	state := func(i int) *learning.Entry {
		t.Helper()
		e, err := r.points.Get(t.Context(), r.Person.ID, list[i].ID)
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	p := do(b.Get("/learn/review"), "reveal", "recall", "typed")
	// The answer stays visible, and what was typed stays.
	if p = do(p, "flag", "flag", "2", "recall", "typed"); !p.Contains("A1", "Flag 2", "typed") || state(0).Flag != 2 {
		t.Fatalf("%d: %s", p.Status, p.Text)
	}
	p = do(p, "flag", "flag", "3")
	if p = do(p, "leech", "leech", "1"); !p.Contains("marked as a leech", "#leech") ||
		!slices.Contains(state(0).Tags, "leech") || state(0).Flag != 3 {
		t.Fatalf("%d: %s", p.Status, p.Text)
	}
	if p = do(p, "undo"); len(state(0).Tags) != 0 || !p.Contains("Q1") {
		t.Fatalf("%+v: %s", state(0).Tags, p.Text)
	}
	if p = do(p, "undo"); state(0).Flag != 0 || !p.Contains("Q1") { // both steps of the flag
		t.Fatalf("flag %d: %s", state(0).Flag, p.Text)
	}
	if p = do(p, "flag", "flag", "9"); p.Status != 422 || state(0).Flag != 0 {
		t.Fatalf("%d: %s", p.Status, p.Text)
	}
	// A point on its learning steps is buried, too, and keeps its step.
	p = do(do(b.Get("/learn/review"), "reveal"), "grade", "grade", "1")
	p = do(p, "rest")
	if p = do(p, "tomorrow"); state(1).Suspended != true || state(2).Card.Buried == 0 {
		t.Fatalf("%+v, %+v", state(1), state(2).Card)
	}
	at := state(0).Card.DueAt
	r.later(at.Sub(r.clock()))
	if p = b.Get("/learn/review?" + url.Values{"steps": {"s" + list[1].ID}}.Encode()); !p.Contains("Q1") {
		t.Fatal(p.Text)
	}
	if p = do(p, "tomorrow"); !p.Contains("Nothing is due") && !p.Contains("All done") {
		t.Fatalf("%d: %s", p.Status, p.Text)
	}
	if c := state(0).Card; c.Buried == 0 || !c.DueAt.Equal(at) || c.Phase != store.Learning {
		t.Errorf("buried: %+v", c)
	}
	if p = do(p, "undo"); !p.Contains("Q1") || state(0).Card.Buried != 0 {
		t.Errorf("%+v: %s", state(0).Card, p.Text)
	}
	if s, err := r.points.Stats(t.Context(), r.Person.ID, 1, 0); err != nil || s.Done.Reviews != 1 {
		t.Errorf("%+v, %v", s.Done, err)
	}
}

// Cramming from the list of points asks all that match, counts on the page alone, goes back, and
// changes no date.
func TestCramInConsole(t *testing.T) {
	r := newRig(t)
	list := r.add(t, r.Person.ID, learning.Draft{Question: "Q1", Answer: "A1", Tags: []string{"x"}},
		learning.Draft{Question: "Q2", Answer: "A2", Tags: []string{"x"}}, learning.Draft{Question: "Other", Answer: "A3"})
	for _, e := range list { // none is due
		_, err := r.points.Submit(t.Context(), r.Person.ID, learning.Submission{Point: e.ID,
			Grade: store.Easy, Score: -1})
		if err != nil {
			t.Fatal(err)
		}
	}
	before, err := r.points.Get(t.Context(), r.Person.ID, list[0].ID)
	if err != nil {
		t.Fatal(err)
	}
	b := r.SignedInAs(r.Person)
	do := func(p consoletest.Page, what string, more ...string) consoletest.Page {
		t.Helper()
		action := "/learn/review/" + what
		return b.Post(action, append(form(t, p, action), more...)...)
	}
	p := b.Get("/learn/points?q=tag:x")
	_, address, found := strings.Cut(p.Text, `href="/learn/review?`)
	_, address, found2 := strings.Cut(address, `href="/learn/review?`)
	if address, _, _ = strings.Cut(address, `"`); !found || !found2 || !p.Contains("Cram these now", "leaves their dates alone") {
		t.Fatalf("%d: %s", p.Status, p.Text)
	}
	p = b.Get("/learn/review?" + strings.ReplaceAll(address, "&amp;", "&"))
	if !p.Contains("Q1", "0 of 2 done", "You are cramming", "dates stay as they are") || p.Contains("Not today") {
		t.Fatalf("%d: %s", p.Status, p.Text)
	}
	p = do(p, "reveal", "recall", "A9")
	if !p.Contains("A1", "Not known", "Known") || p.Contains("10 min") {
		t.Fatalf("%d: %s", p.Status, p.Text)
	}
	graded := form(t, p, "/learn/review/grade")
	p = b.Post("/learn/review/grade", append(graded, "grade", "1")...)
	twice := b.Post("/learn/review/grade", append(graded, "grade", "1")...)
	if !p.Contains("Q2", "1 of 2 done") || !twice.Contains("Q2", "1 of 2 done") {
		t.Fatalf("%s\n%s", p.Text, twice.Text)
	}
	if p = do(p, "undo"); !p.Contains("Q1", "0 of 2 done") {
		t.Fatalf("%d: %s", p.Status, p.Text)
	}
	p = do(do(p, "reveal"), "grade", "grade", "1")
	if p = do(p, "flag", "flag", "4"); !p.Contains("Q2", "Flag 4") {
		t.Fatalf("%d: %s", p.Status, p.Text)
	}
	p = do(do(p, "reveal"), "grade", "grade", "3")
	if !p.Contains("Those were all", "2 asked, 1 of them not known", "Nothing was recorded", "Once more") {
		t.Fatalf("%d: %s", p.Status, p.Text)
	}
	after, err := r.points.Get(t.Context(), r.Person.ID, list[0].ID)
	if err != nil || after.Card != before.Card {
		t.Errorf("%+v became %+v, %v", before.Card, after.Card, err)
	}
	if s, err := r.points.Stats(t.Context(), r.Person.ID, 1, 0); err != nil || s.Done.Reviews != 3 {
		t.Errorf("%+v, %v", s.Done, err)
	}
	if p = b.Get("/learn/review?cram=1&q=tag:none"); !p.Contains("Nothing matches") {
		t.Errorf("%d: %s", p.Status, p.Text)
	}
	if p = b.Get("/learn/review?cram=1&q=" + url.QueryEscape("flag:99")); p.Status != 400 && p.Status != 422 {
		t.Errorf("%d: %s", p.Status, p.Text)
	}
}

// What cannot be done to a point leaves the learner at the same step, with the reason: the answer
// stays visible, what was typed and how it was judged stay, and there is nothing to undo.
func TestRefusedInReview(t *testing.T) {
	r := newRig(t)
	var tags []string
	for i := range 20 { // as many as a point may have
		tags = append(tags, "t"+strconv.Itoa(i))
	}
	e := r.add(t, r.Person.ID, learning.Draft{Question: "Q1", Answer: "A1", Tags: tags},
		learning.Draft{Question: "Q2", Answer: "A2"})[0]
	b := r.SignedInAs(r.Person)
	shown := b.Get("/learn/review?steps=rgone")
	shown = b.Post("/learn/review/reveal", append(form(t, shown, "/learn/review/reveal"), "recall", "typed")...)
	shown = b.Post("/learn/review/judge", form(t, shown, "/learn/review/judge")...)
	for _, c := range []struct {
		what, name, value string
		status            int
		told              string
	}{
		{"leech", "leech", "1", 422, "20 tags at most"},
		{"flag", "flag", "8", 422, "a number from 0 (none) to 7"},
		{"flag", "flag", "", 422, "a number from 0 (none) to 7"},
		{"grade", "grade", "9", 422, "Choose a grade."},
		{"undo", "", "", 200, "That step cannot be taken back any more."},
	} {
		action := "/learn/review/" + c.what
		p := b.Post(action, append(form(t, shown, action), c.name, c.value)...)
		if p.Status != c.status || !p.Contains(c.told, "Q1", "A1", "typed", " of 100", `name="review"`) {
			t.Errorf("%s=%s: %d: %s", c.what, c.value, p.Status, p.Text)
		}
		if got, want := form(t, p, "/learn/review/grade"), form(t, shown, "/learn/review/grade"); c.what != "undo" &&
			!slices.Equal(got, want) {
			t.Errorf("%s=%s: the form was %q and is %q", c.what, c.value, want, got)
		}
		if c.what == "undo" && p.Contains("/learn/review/undo") {
			t.Errorf("what cannot be undone is offered again: %s", p.Text)
		}
	}
	if now, err := r.points.Get(t.Context(), r.Person.ID, e.ID); err != nil || now.Flag != 0 || now.Card.Reps != 0 {
		t.Errorf("%+v, %v", now, err)
	}
}

// The score of a judged recall is recorded, also if the point is flagged or marked before it is
// graded; the judgement stays visible, and the next point begins without one.
func TestScoreStays(t *testing.T) {
	r := newRig(t)
	r.add(t, r.Person.ID, learning.Draft{Question: "Q1", Answer: "red green blue"},
		learning.Draft{Question: "Q2", Answer: "A2"})
	b := r.SignedInAs(r.Person)
	p := b.Get("/learn/review")
	do := func(what string, more ...string) {
		t.Helper()
		action := "/learn/review/" + what
		p = b.Post(action, append(form(t, p, action), more...)...)
	}
	do("reveal", "recall", "red green")
	do("judge")
	_, score, _ := strings.Cut(p.Text, `name="score" value="`)
	score, _, _ = strings.Cut(score, `"`)
	if n, err := strconv.Atoi(score); err != nil || n <= 0 || n >= 100 {
		t.Fatalf("%q: %s", score, p.Text)
	}
	do("flag", "flag", "2")
	do("leech", "leech", "1")
	if !p.Contains(score+" of 100", "Suggested: Good", "about 67% of the answer", `name="score" value="`+score+`"`) ||
		p.Contains("Have it judged") {
		t.Errorf("the judgement is gone: %s", p.Text)
	}
	do("grade", "grade", "3")
	if !p.Contains("Q2") || p.Contains(" of 100", `name="score"`) {
		t.Errorf("%d: %s", p.Status, p.Text)
	}
	log, err := r.points.Store.Learn.Reviews(t.Context(), r.Person.ID, nil, 0, 10)
	if err != nil || len(log) != 1 || strconv.Itoa(log[0].Score) != score || log[0].Recall != "red green" {
		t.Errorf("%+v, %v", log, err)
	}
}

// Without a script, too, each flag is a button; nothing is sent by choosing alone.
func TestFlagsAreButtons(t *testing.T) {
	r := newRig(t)
	r.add(t, r.Person.ID, learning.Draft{Question: "Q1", Answer: "A1"})
	p := r.SignedInAs(r.Person).Get("/learn/review")
	for n := range learning.MaxFlag + 1 {
		if button := `name="flag" value="` + strconv.Itoa(n) + `" aria-pressed="` + strconv.FormatBool(n == 0) +
			`"`; !p.Contains(button) {
			t.Errorf("no %s: %s", button, p.Text)
		}
	}
	if p.Contains("<select") || p.Contains("data-submits") {
		t.Error(p.Text)
	}
}

// The goal of a session stays while points come again on their steps, and counts what a tag
// selects: the pages carry it.
func TestGoalStays(t *testing.T) {
	r := newRig(t)
	r.add(t, r.Person.ID, learning.Draft{Question: "Q1", Answer: "A1", Tags: []string{"x"}},
		learning.Draft{Question: "Q2", Answer: "A2", Tags: []string{"x"}}, learning.Draft{Question: "Other", Answer: "A3"})
	b := r.SignedInAs(r.Person)
	p := b.Get("/learn/review?tag=x")
	for i, step := range []struct{ question, grade, done string }{
		{"Q1", "1", "0 of 2 done"}, {"Q2", "4", "0 of 2 done"}, {"Q1", "4", "1 of 2 done"},
	} {
		if !p.Contains(step.question, step.done) {
			t.Fatalf("step %d: not %q with %q: %s", i, step.question, step.done, p.Text)
		}
		open := b.Post("/learn/review/reveal", form(t, p, "/learn/review/reveal")...)
		p = b.Post("/learn/review/grade", append(form(t, open, "/learn/review/grade"), "grade", step.grade)...)
	}
	if !p.Contains("All done for today", "3 reviewed, 1 forgotten") || p.Contains("Other") {
		t.Errorf("%d: %s", p.Status, p.Text)
	}
}

// On a phone the button of the answer and the grades are within reach of the thumb, at the same
// place for a short card and a long one with a picture, and nothing of the card is hidden behind
// them.
func TestGradesAtTheThumb(t *testing.T) {
	r := newRig(t)
	r.add(t, r.Person.ID, learning.Draft{Question: "Short?", Answer: "Yes"},
		learning.Draft{Question: "Long?", Answer: strings.Repeat("word ", 900) + "end"})
	b := open(t, r)
	b.SetWidth(390)
	b.Open("/learn/review")
	const box = `(() => { const r = document.querySelector("%").getBoundingClientRect(); return r.top > innerHeight * 0.6 && r.bottom <= innerHeight ? Math.round(r.top) : -1; })()`
	at := func(selector string) int {
		return browsertest.Evaluate[int](b, strings.Replace(box, "%", selector, 1))
	}
	var tops []int
	for _, q := range []string{"Short?", "Long?"} {
		b.WaitText(".question", q)
		if at(".reveal") < 0 {
			t.Errorf("%s: the button is not at the thumb", q)
		}
		b.Press(" ")
		b.WaitText(".answer", "")
		b.WaitText(".grades", "Good")
		tops = append(tops, at(".grades"))
		b.Script(`scrollTo(0, document.documentElement.scrollHeight)`)
		if free := browsertest.Evaluate[bool](b, `(() => { const g = document.querySelector(".grades").getBoundingClientRect(), a = document.querySelector(".acts").getBoundingClientRect(); return a.bottom <= g.top; })()`); !free {
			t.Errorf("%s: the grades cover the end of the page", q)
		}
		b.Press("f")
		b.WaitText("#review", "Flag 1")
		b.Press("4")
	}
	if tops[0] < 0 || tops[0] != tops[1] {
		t.Errorf("the grades are at %v", tops)
	}
}

// A flag is chosen from the menu by the keyboard alone; what was typed stays.
func TestFlagMenu(t *testing.T) {
	r := newRig(t)
	r.add(t, r.Person.ID, learning.Draft{Question: "Q1", Answer: "A1"})
	b := open(t, r)
	b.Open("/learn/review")
	b.WaitText(".question", "Q1")
	b.Type("textarea[name='recall']", "half of it")
	b.Script(`document.querySelector(".flagging summary").focus()`)
	b.Press("\r")
	b.WaitVisible(".flagging details button")
	b.Press("\t\t\t\t")
	b.WaitUntil(`document.activeElement.value === "3"`)
	b.Press("\r")
	b.WaitText(".flag3", "Flag 3")
	b.WaitText("textarea[name='recall']", "half of it")
}

// A model that fails to judge can be asked again.
func TestJudgedAgain(t *testing.T) {
	r := newRig(t)
	answers := []error{errors.New("no answer"), nil}
	r.points.Model = func(context.Context, string, learning.Prompt) (string, error) {
		err := answers[0]
		answers = answers[1:]
		return `{"score":90,"right":["Paris"],"missing":[],"wrong":[],"advice":"","verdict":"Right"}`, err
	}
	r.add(t, r.Person.ID, learning.Draft{Question: "The capital of France?", Answer: "Paris"})
	b := r.SignedInAs(r.Person)
	p := b.Get("/learn/review")
	p = b.Post("/learn/review/reveal", append(form(t, p, "/learn/review/reveal"), "recall", "it is Paris")...)
	p = b.Post("/learn/review/judge", append(form(t, p, "/learn/review/judge"), "recall", "it is Paris")...)
	if !p.Contains(`class="note warn"`, "Only the words were compared", "Have it judged again") {
		t.Fatalf("%d: %s", p.Status, p.Text)
	}
	kept := b.Post("/learn/review/grade", append(form(t, p, "/learn/review/grade"), "grade", "9")...)
	if kept.Status != 422 || !kept.Contains("Have it judged again") {
		t.Errorf("after a refused grade: %d: %s", kept.Status, kept.Text)
	}
	p = b.Post("/learn/review/judge", append(form(t, p, "/learn/review/judge"), "recall", "it is Paris")...)
	if !p.Contains("90") || p.Contains("Only the words were compared", "Have it judged again") || len(answers) > 0 {
		t.Fatalf("%d: %s", p.Status, p.Text)
	}
}
