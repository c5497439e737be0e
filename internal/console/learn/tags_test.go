package learn_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"patchbay/internal/console/consoletest"
	"patchbay/internal/console/learn"
	"patchbay/internal/console/page"
	"patchbay/internal/hub"
	"patchbay/internal/hub/hubtest"
	learning "patchbay/internal/plug/learn"
)

// A tag is renamed; a merge with another needs a confirmation.
func TestRenameTag(t *testing.T) {
	r := newRig(t)
	r.add(t, r.Person.ID, learning.Draft{Question: "Q1", Answer: "A", Tags: []string{"a/b", "x"}},
		learning.Draft{Question: "Q2", Answer: "A", Tags: []string{"a/b", "y"}},
		learning.Draft{Question: "Q3", Answer: "A", Tags: []string{"y"}})
	r.add(t, r.Bob.ID, learning.Draft{Question: "Q", Answer: "A", Tags: []string{"bobs"}})
	b := r.SignedInAs(r.Person)
	if p := b.Get("/learn/tags"); !p.Contains("#a/b", `href="/learn/tags/a%2Fb"`) || p.Contains("bobs") {
		t.Fatalf("%d: %s", p.Status, p.Text)
	}
	if p := b.Get("/learn/tags/a%2Fb"); p.Status != 200 || !p.Contains("<h1>#a/b</h1>", "Points: 2", `value="a/b"`) {
		t.Fatalf("%d: %s", p.Status, p.Text)
	}
	for _, bad := range []string{"", "  #", "a, b", strings.Repeat("x", 101)} {
		if p := b.Post("/learn/tags/a%2Fb", "name", bad); p.Status != 422 || !p.Contains("Write one tag") {
			t.Errorf("%q: %d %s", bad, p.Status, p.Text)
		}
	}
	if p := b.Post("/learn/tags/a%2Fb", "name", "#Verben lernen"); p.Status != 200 ||
		p.Path != "/learn/tags/Verben-lernen?saved=1" || !p.Contains("<h1>#Verben-lernen</h1>", "Saved.") {
		t.Fatalf("%d %s: %s", p.Status, p.Path, p.Text)
	}
	p := b.Post("/learn/tags/Verben-lernen", "name", "y")
	if p.Status != 409 || !p.Contains("points with the tag “y” already (2)", `name="merge" value="y"`, `value="y"`) {
		t.Fatalf("%d: %s", p.Status, p.Text)
	}
	// A confirmation about one name is not valid for another.
	if p := b.Post("/learn/tags/Verben-lernen", "name", "x", "merge", "y"); p.Status != 409 {
		t.Fatalf("%d: %s", p.Status, p.Text)
	}
	if p := b.DoHX(http.MethodPost, "/learn/tags/Verben-lernen", "name", "y"); p.Status != 409 || p.Contains("<html") ||
		!p.Contains(`name="merge"`) {
		t.Fatalf("%d: %s", p.Status, p.Text)
	}
	if p := b.DoHX(http.MethodPost, "/learn/tags/Verben-lernen", "name", "y", "merge", "y"); p.Status != 200 ||
		!p.Contains(`hx-target="#tag"`, "<h1>#y</h1>", "Points: 3") {
		t.Fatalf("%d: %s", p.Status, p.Text)
	}
	list, err := r.points.Store.Learn.Tags(t.Context(), r.Person.ID, "", 10)
	if err != nil || fmt.Sprint(list) != "[{x 1} {y 3}]" {
		t.Errorf("%v, %v", list, err)
	}
	for _, path := range []string{"/learn/tags/bobs", "/learn/tags/nobodys"} {
		if p := b.Get(path); p.Status != 404 {
			t.Errorf("%s: %d", path, p.Status)
		}
		if p := b.Post(path, "name", "mine"); p.Status != 404 {
			t.Errorf("%s: %d", path, p.Status)
		}
	}
}

// Changes by the pages are in the audit trail as calls of the equivalent tools; reads are not.
func TestPagesInTheTrail(t *testing.T) {
	r := &rig{}
	r.Rig = consoletest.New(t, consoletest.Options{Options: hubtest.Options{Hub: hub.Options{KeepArgs: true}}},
		func(c *consoletest.Rig) []page.Route {
			r.points = learning.New(learning.Options{Store: c.Store})
			return learn.Routes(learn.Options{Points: r.points, Largest: largest})
		})
	b := r.SignedInAs(r.Person)
	id := strings.TrimPrefix(b.Post("/learn/points/new", "question", "Q", "answer", "A", "deck", "default", "tags", "t",
		"plan", "1").Path, "/learn/points/")
	b.Post("/learn/points/"+id, "question", "Q?", "answer", "A", "deck", "default", "tags", "t", "plan", "1")
	b.Post("/learn/points/"+id+"/due", "due", r.points.Now().AddDate(0, 0, 3).Format("2006-01-02"))
	b.Post("/learn/points/" + id + "/delete")
	b.Post("/learn/points/" + id + "/delete") // already deleted
	b.Post("/learn/points/" + id + "/restore")
	b.Post("/learn/tags/t", "name", "u")
	b.Post("/learn/decks", "name", "German")
	l, err := r.points.Learner(t.Context(), r.Person.ID)
	if err != nil || len(l.Decks) != 1 {
		t.Fatalf("%+v, %v", l, err)
	}
	b.Post("/learn/decks/"+l.Decks[0].ID, "name", "Deutsch")
	b.Post("/learn/decks/" + l.Decks[0].ID + "/delete")
	b.Post("/learn/settings", "strictness", "strict")
	b.Post("/learn/points/new", "question", "R", "answer", "A", "deck", "default", "plan", "1")
	q := b.Get("/learn/review")
	open := b.Post("/learn/review/reveal", form(t, q, "/learn/review/reveal")...)
	done := b.Post("/learn/review/grade", append(form(t, open, "/learn/review/grade"), "grade", "3", "recall",
		"mine")...)
	b.Post("/learn/review/undo", form(t, done, "/learn/review/undo")...)
	for _, path := range []string{"/learn", "/learn/points", "/learn/points?q=Q", "/learn/tags", "/learn/decks",
		"/learn/stats", "/learn/export?format=json", "/learn/points/" + id} {
		b.Get(path)
	}

	r.Hub.WaitForCallRecords(t.Context())
	calls, err := r.Store.Calls.Newest(t.Context(), r.Person.ID, r.points.Now().AddDate(0, 0, 1), 100)
	if err != nil {
		t.Fatal(err)
	}
	slices.Reverse(calls)
	var got []string
	args := map[string]string{}
	for _, c := range calls {
		got = append(got, c.Tool+" "+c.Outcome)
		args[c.Tool] = c.Args
		if c.Channel != "console" || c.Provider != "learn" || c.Person != r.Person.ID || c.Key != "" ||
			c.Program == "" {
			t.Errorf("%+v", c)
		}
	}
	want := []string{
		"create_knowledge_point done", "update_knowledge_point done", "reschedule_knowledge_points done",
		"delete_knowledge_point done", "delete_knowledge_point tool_error", "restore_knowledge_point done",
		"rename_tag done", "save_deck done", "save_deck done", "delete_deck done", "update_learning_settings done",
		"create_knowledge_point done", "submit_review done", "undo_review done",
	}
	if !slices.Equal(got, want) {
		t.Errorf("the trail has\n%s, want\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	for name, text := range map[string]string{"rename_tag": `{"tag":"t","name":"u"}`,
		"delete_knowledge_point": `{"id":"` + id + `"}`, "submit_review": `"grade":"good"`,
		"update_learning_settings": `"strictness":"strict"`} {
		if !strings.Contains(args[name], text) {
			t.Errorf("%s was called with %s", name, args[name])
		}
	}
}
