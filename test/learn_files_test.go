package test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"patchbay/internal/store"
)

// imported is the response to an import.
type imported struct {
	Format                    string
	Added, Changed, Unchanged int
	Errors                    []struct {
		Row       int
		What, Why string
	}
	Imported bool
}

// load imports a file into a person's points.
func (p pupil) load(t *testing.T, file string, query url.Values) (status int, done imported, text string) {
	t.Helper()
	status, _, text, err := send(http.MethodPost, p.url+"/api/v1/learn/import?"+query.Encode(), p.key, "", file)
	must(t, err)
	if status == http.StatusOK || status == http.StatusUnprocessableEntity {
		if err := json.Unmarshal([]byte(text), &done); err != nil {
			t.Fatalf("%v in %s", err, text)
		}
	}
	return status, done, text
}

// table returns a spreadsheet with n points.
func table(n int) string {
	var b strings.Builder
	b.WriteString("question,answer,tags\n")
	for i := range n {
		fmt.Fprintf(&b, "question %d,answer %d,t%d\n", i, i, i%10)
	}
	return b.String()
}

// Files with points are imported and exported over HTTP: with a size limit, with a key, all or
// nothing unless requested otherwise, and each person's own.
func TestLearnFiles(t *testing.T) {
	place := newInstallation(store.Options{Folder: t.TempDir()}, "PATCHBAY_LEARN_IMPORT_SIZE=1MiB")
	place.run(t, "user", "add", "ada")
	place.run(t, "user", "add", "bob")
	keyOf := func(user, scope string) string {
		var key addedKey
		place.json(t, &key, "key", "add", "--user", user, "--name", "k", "--scope", scope)
		return key.Key
	}
	s := place.serve(t)
	ada, bob := pupil{s.url, keyOf("ada", "learn")}, pupil{s.url, keyOf("bob", "learn")}

	for _, key := range []string{"", "sk_nonsense", keyOf("ada", "mcp")} {
		stranger := pupil{s.url, key}
		if status, _, text := stranger.load(t, "q,a\n", url.Values{"format": {"csv"}}); status != 401 ||
			!strings.Contains(text, "learn") {
			t.Errorf("an import without a key: %d %s", status, text)
		}
		if status, _, text, err := send(http.MethodGet, s.url+"/api/v1/learn/export", key, "", ""); err != nil ||
			status != 401 {
			t.Errorf("an export without a key: %d %s %v", status, text, err)
		}
	}
	if status, _, text := ada.load(t, "question,answer\n"+strings.Repeat("long,question\n", 80_000),
		url.Values{"name": {"large.csv"}}); status != 413 || !strings.Contains(text, "1 MiB") {
		t.Errorf("a large file: %d %s", status, text)
	}
	if points, err := ada.page("list_knowledge_points", given{}); err != nil || len(points) != 0 {
		t.Errorf("%d points, %v", len(points), err)
	}
	t.Run("bad rows", func(t *testing.T) { badRows(t, ada) })
	t.Run("another person", func(t *testing.T) { otherPerson(t, ada, bob) })
}

func badRows(t *testing.T, p pupil) {
	// Rows with an origin are recognized when they are imported again.
	const file = "origin,question,answer,deck,tags\nx:1,首都？,巴黎,地理,a b\nx:2,,没有问题,地理,\nx:3,二加二？,四,新的,\nx:4,没有答案,,地理,\n"
	status, done, text := p.load(t, file, url.Values{"name": {"x.csv"}})
	if status != 422 || done.Imported || len(done.Errors) != 2 || done.Errors[0].Row != 3 || done.Errors[1].Row != 5 ||
		done.Errors[0].Why == "" {
		t.Errorf("%d %s", status, text)
	}
	if !strings.Contains(text, `"row":3`) || !strings.Contains(text, `"why":`) {
		t.Errorf("the report is not written as the rest is: %s", text)
	}
	var stats counted
	if p.call(t, "learning_stats", given{}, &stats); stats.Points != 0 || len(stats.Decks) != 1 {
		t.Errorf("something was imported all the same: %+v", stats)
	}
	for i, want := range []imported{{Added: 2}, {Unchanged: 2}} {
		status, done, text := p.load(t, file, url.Values{"name": {"x.csv"}, "skip_bad": {"true"}})
		if status != 200 || !done.Imported || done.Added != want.Added || done.Unchanged != want.Unchanged ||
			len(done.Errors) != 2 {
			t.Errorf("import %d without the bad rows: %d %s", i, status, text)
		}
	}
	recount(t, p)
}

// otherPerson transfers everything of one person to another, and checks that there is no other way.
func otherPerson(t *testing.T, ada, bob pupil) {
	if status, _, text := ada.load(t, table(300), url.Values{"name": {"x.csv"}}); status != 200 {
		t.Fatalf("%d %s", status, text)
	}
	var next struct{ Card card }
	ada.call(t, "next_review", given{}, &next)
	grades := []string{"good", "easy", "again"}
	for i, grade := range grades {
		ada.call(t, "submit_review", given{"knowledge_point_id": next.Card.Point, "grade": grade, "early": true,
			"review_id": fmt.Sprintf("ada-%d", i)}, &struct{}{})
	}
	mine := recount(t, ada)

	// He has access to nothing of hers.
	for tool, args := range map[string]given{
		"get_knowledge_point": {"id": next.Card.Point}, "update_knowledge_point": {"id": next.Card.Point,
			"question": "x"}, "delete_knowledge_point": {"id": next.Card.Point},
		"submit_recall":    {"schedule_id": next.Card.Schedule, "recall_text": "x"},
		"mark_as_reviewed": {"knowledge_point_id": next.Card.Point},
		"reveal_answer":    {"knowledge_point_id": next.Card.Point},
		"submit_review":    {"knowledge_point_id": next.Card.Point, "grade": "good"},
		"review_history":   {"knowledge_point_id": next.Card.Point}, "restore_knowledge_point": {"id": next.Card.Point},
		"reschedule_knowledge_points": {"ids": []string{next.Card.Point}, "in_days": 1},
	} {
		if l, err := bob.try(tool, args); err != nil || !l.IsError || !strings.Contains(l.text(), "not found") {
			t.Errorf("%s of another's: %+v, %v", tool, l, err)
		}
	}
	if l, err := bob.try("undo_review", given{"review_id": "ada-2"}); err == nil {
		t.Errorf("another's review was undone: %+v", l)
	}
	for tool, args := range map[string]given{"list_knowledge_points": {}, "list_deleted_knowledge_points": {},
		"search_knowledge_points": {"query": "question"}, "list_reviews": {}} {
		if l, err := bob.try(tool, args); err != nil || l.IsError || l.text() != "[]" {
			t.Errorf("%s: of another's: %+v, %v", tool, l, err)
		}
	}

	var file string
	for format, kind := range map[string]string{"json": "application/json", "csv": "text/csv", "md": "text/markdown",
		"apkg": "application/apkg"} {
		status, header, text, err := send(http.MethodGet, ada.url+"/api/v1/learn/export?format="+format, ada.key, "",
			"")
		must(t, err)
		if status != 200 || !strings.HasPrefix(header.Get("Content-Type"), kind) ||
			!strings.Contains(header.Get("Content-Disposition"), "patchbay-learn."+format) || text == "" {
			t.Errorf("%s: %d %v", format, status, header)
		}
		if format == "json" {
			file = text
		}
		if status, _, text, err := send(http.MethodGet, bob.url+"/api/v1/learn/export?format="+format, bob.key, "",
			""); err != nil || status != 200 || strings.Contains(text, "首都") {
			t.Errorf("his export has hers: %d %.300s %v", status, text, err)
		}
	}
	if status, _, text, err := send(http.MethodGet, ada.url+"/api/v1/learn/export?format=exe", ada.key, "",
		""); err != nil || status != 400 {
		t.Errorf("a strange format: %d %s %v", status, text, err)
	}
	for i, want := range []imported{{Added: len(mine)}, {Unchanged: len(mine)}} {
		if status, done, text := bob.load(t, file, url.Values{"name": {"ada.json"}}); status != 200 || !done.Imported ||
			done.Added != want.Added || done.Unchanged != want.Unchanged {
			t.Fatalf("import %d: %d %s", i, status, text)
		}
	}
	samePoints(t, mine, recount(t, bob))
	log := bob.history(t, next.Card.Point)
	for i, grade := range grades {
		if len(log) != len(grades) || log[i].Grade != grade || log[i].Kind != "review" {
			t.Errorf("the history came as %+v", log)
			break
		}
	}
	// His changes now affect only his points.
	bob.call(t, "update_knowledge_point", given{"id": next.Card.Point, "question": "bob's"}, &struct{}{})
	bob.call(t, "delete_knowledge_point", given{"id": mine[0].ID}, &struct{}{})
	samePoints(t, mine, recount(t, ada))
}

func samePoints(t *testing.T, want, got []learned) {
	t.Helper()
	key := func(p learned) string {
		return fmt.Sprint(p.ID, p.Question, p.Answer, p.Deck, p.Tags, p.State, p.Due, p.Plan)
	}
	order := func(a, b learned) int { return cmp.Compare(a.ID, b.ID) }
	want, got = slices.SortedFunc(slices.Values(want), order), slices.SortedFunc(slices.Values(got), order)
	if len(got) != len(want) {
		t.Fatalf("%d points, want %d", len(got), len(want))
	}
	for i := range want {
		if key(got[i]) != key(want[i]) {
			t.Errorf("got %+v\nwant %+v", got[i], want[i])
		}
	}
}

// The rules of a key apply to files as to tools, and the trail records imports and exports.
func TestLearnFileRules(t *testing.T) {
	place := newInstallation(store.Options{Folder: t.TempDir()})
	place.run(t, "user", "add", "ada")
	s := place.serve(t)
	status := func(method, path, key string) int {
		t.Helper()
		status, _, _, err := send(method, s.url+path, key, "", "question,answer\nq,a\n")
		must(t, err)
		return status
	}
	for _, c := range []struct {
		tool                       string
		imported, exported, dueIcs int
	}{{"list_*", 403, 200, 403}, {"create_*", 200, 403, 403}, {"learning_stats", 403, 403, 200}, {"*", 200, 200, 200}} {
		var key addedKey
		place.json(t, &key, "key", "add", "--name", "k", "--scope", "learn", "--allow-tool", c.tool)
		if got := status(http.MethodPost, "/api/v1/learn/import?format=csv", key.Key); got != c.imported {
			t.Errorf("%s: import %d, want %d", c.tool, got, c.imported)
		}
		if got := status(http.MethodGet, "/api/v1/learn/export", key.Key); got != c.exported {
			t.Errorf("%s: export %d, want %d", c.tool, got, c.exported)
		}
		if got := status(http.MethodGet, "/api/v1/learn/calendar.ics", key.Key); got != c.dueIcs {
			t.Errorf("%s: calendar %d, want %d", c.tool, got, c.dueIcs)
		}
	}
	var calls []struct{ Channel, Tool, Outcome string }
	place.json(t, &calls, "calls")
	counts := map[string]int{}
	for _, call := range calls {
		counts[call.Channel+" "+call.Tool+" "+call.Outcome]++
	}
	if counts["learn-files import done"] != 2 || counts["learn-files export done"] != 2 {
		t.Errorf("the trail has %v", counts)
	}
}
