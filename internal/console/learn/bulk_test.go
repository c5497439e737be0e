package learn_test

import (
	"fmt"
	"strings"
	"testing"

	learning "patchbay/internal/plug/learn"
)

// Points are chosen in the list and changed together, those that match all at once after a
// question, and the last change is undone from the page, also later.
func TestBulkEdit(t *testing.T) {
	r := newRig(t)
	var drafts []learning.Draft
	for i := range 60 {
		drafts = append(drafts, learning.Draft{Question: fmt.Sprint("Q", i), Answer: "A", Tags: []string{"t"}})
	}
	made := r.add(t, r.Person.ID, drafts...)
	bobs := r.add(t, r.Bob.ID, learning.Draft{Question: "Q", Answer: "A", Tags: []string{"t"}})
	b := r.SignedInAs(r.Person)
	count := func(query string) int {
		t.Helper()
		l, err := r.points.Learner(t.Context(), r.Person.ID)
		if err != nil {
			t.Fatal(err)
		}
		x, err := learning.ParseExpression(query)
		if err != nil {
			t.Fatal(err)
		}
		n, err := r.points.Count(t.Context(), l, x)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	if p := b.Get("/learn/points?q=tag:t"); !p.Contains(`aria-label="Choose: Q59"`, `name="all"`, `form="bulk"`) {
		t.Fatalf("%d: %s", p.Status, p.Text)
	}
	p := b.Post("/learn/points/edit", "q", "tag:t", "what", "flag", "value", "3", "id", made[0].ID, "id", bobs[0].ID)
	if p.Status != 200 || !strings.Contains(p.Path, "edited=1&skipped=1") ||
		!p.Contains("Changed: 1.", "Could not be changed: 1.", "Last change of many points: flag 3 (1).", "Undo it") {
		t.Fatalf("%d %s: %s", p.Status, p.Path, p.Text)
	}
	if p := b.Get("/learn/points?q=flag:3"); !p.Contains("Flag 3", "Q0") || p.Contains("Q1<") {
		t.Errorf("%d: %s", p.Status, p.Text)
	}
	if p := b.Post("/learn/points/edit", "q", "tag:t", "what", "suspend", "all", "1"); p.Status != 200 ||
		!p.Contains("60 points match. Change all of them?", `name="sure"`) || count("is:suspended") != 0 {
		t.Fatalf("%d: %s", p.Status, p.Text)
	}
	if p := b.Post("/learn/points/edit", "q", "tag:t", "what", "suspend", "all", "1", "sure", "1"); p.Status != 200 ||
		!p.Contains("Changed: 60.") || count("is:suspended") != 60 {
		t.Fatalf("%d: %s", p.Status, p.Text)
	}
	if p := b.Post("/learn/points/undo", "q", "tag:t"); p.Status != 200 || !p.Contains("Undone for 60.") ||
		count("is:suspended") != 0 {
		t.Fatalf("%d: %s", p.Status, p.Text)
	}
	if p := b.Post("/learn/points/undo"); p.Status != 422 && p.Status != 400 || !p.Contains("no edit of many points") {
		t.Errorf("%d: %s", p.Status, p.Text)
	}
	for _, c := range []struct{ what, value, id, told string }{
		{"flag", "x", made[0].ID, "0 (none) to 7"}, {"due", "soon", made[0].ID, "like 2026-12-24"},
		{"tag", "", made[0].ID, "say what to change"}, {"flag", "1", "", "Choose points first."},
	} {
		args := []string{"what", c.what, "value", c.value}
		if c.id != "" {
			args = append(args, "id", c.id)
		}
		if p := b.Post("/learn/points/edit", args...); p.Status < 400 || !p.Contains(c.told) {
			t.Errorf("%+v: %d %s", c, p.Status, p.Text)
		}
	}
	if p := b.Get("/learn/points?q=is:odd"); p.Status != 200 || !p.Contains(`role="alert"`, "is: knows buried") {
		t.Errorf("%d: %s", p.Status, p.Text)
	}
	for what, value := range map[string]string{"deck": "D", "tag": "x", "untag": "t", "due": "2090-01-01", "bury": "",
		"unbury": "", "resume": "", "delete": ""} {
		if p := b.Post("/learn/points/edit", "what", what, "value", value, "id", made[1].ID); p.Status != 200 ||
			!p.Contains("Changed: ") && !p.Contains("Could not") {
			t.Errorf("%s: %d %s", what, p.Status, p.Text)
		}
		if e, err := r.points.Get(t.Context(), r.Person.ID, made[1].ID); what == "delete" && err == nil {
			t.Errorf("not deleted: %+v", e)
		} else if what == "delete" {
			b.Post("/learn/points/edit", "what", "restore", "id", made[1].ID, "state", "trash")
		}
	}
}

// A review by a query asks what is due of it, and keeps to it from question to question.
func TestReviewByQuery(t *testing.T) {
	r := newRig(t)
	r.add(t, r.Person.ID, learning.Draft{Question: "First?", Answer: "A", Tags: []string{"x"}},
		learning.Draft{Question: "Other?", Answer: "A"}, learning.Draft{Question: "Second?", Answer: "A", Tags: []string{"x"}})
	b := r.SignedInAs(r.Person)
	if p := b.Get("/learn/points?q=tag:x"); !p.Contains("Review what is due of these", "/learn/review?began=0&amp;q=tag%3Ax") {
		t.Fatalf("%d: %s", p.Status, p.Text)
	}
	p := b.Get("/learn/review?q=tag%3Ax")
	if p.Status != 200 || !p.Contains("First?", `name="q" value="tag:x"`) && !p.Contains("Second?", `name="q" value="tag:x"`) {
		t.Fatalf("%d: %s", p.Status, p.Text)
	}
	if p := b.Get("/learn/review?q=tag%3Anone"); p.Status != 200 || p.Contains("First?") || p.Contains("Other?") {
		t.Errorf("%d: %s", p.Status, p.Text)
	}
	if p := b.Get("/learn/review?q=is%3Aodd"); p.Status != 422 && p.Status != 400 {
		t.Errorf("%d: %s", p.Status, p.Text)
	}
}
