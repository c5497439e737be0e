package api

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"patchbay/internal/account"
	"patchbay/internal/console/toolwords"
	"patchbay/internal/control"
	"patchbay/internal/i18n"
)

// learnLeavesNoRow are operations of Learn that are no GET and leave no row, and why.
var learnLeavesNoRow = map[string]string{
	"POST /api/v1/learn/points/{point}/judge": "compares, and changes nothing",
}

// Every operation that changes knowledge points leaves a row in the audit trail that names
// whose they are, the key and the address. The list of operations says which there are.
func TestEveryChangeOfLearnLeavesARow(t *testing.T) {
	r, s, _ := described(t)
	key := r.Key(t, account.NewKey{Scopes: []string{account.ScopeOperator}})
	rows := func() int {
		t.Helper()
		r.Hub.WaitForCallRecords(t.Context())
		calls, err := r.Store.Calls.Newest(t.Context(), "", time.Now().Add(time.Minute), 500)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range calls {
			if c.Person != r.Person.ID || c.Key == "" || c.Address != "127.0.0.1" || c.Channel == "" ||
				c.Provider != "learn" {
				t.Fatalf("the audit trail has %+v", c)
			}
		}
		return len(calls)
	}
	send := func(method, path, body string) (id string) {
		t.Helper()
		req := httptest.NewRequest(method, path, strings.NewReader(body))
		req.Header.Set("Authorization", "Bearer "+key)
		w := httptest.NewRecorder()
		s.ServeHTTP(w, req)
		var of struct{ ID string }
		if w.Code != http.StatusOK || json.Unmarshal(w.Body.Bytes(), &of) != nil {
			t.Fatalf("%s %s: %d %.500s", method, path, w.Code, w.Body)
		}
		return of.ID
	}
	point, deck := "", ""
	tried := map[string]bool{}
	for _, c := range []struct{ pattern, body string }{
		{"POST /api/v1/learn/points", `{"question":"q","answer":"a","tags":["t"]}`},
		{"PATCH /api/v1/learn/points/{point}", `{"answer":"b"}`},
		{"POST /api/v1/learn/points/{point}/due", `{"date":"2040-01-02"}`},
		{"DELETE /api/v1/learn/points/{point}", ""},
		{"POST /api/v1/learn/points/{point}/restore", ""},
		{"POST /api/v1/learn/reviews", `{"knowledge_point_id":"{point}","grade":"good","early":true}`},
		{"POST /api/v1/learn/undo", `{}`},
		{"POST /api/v1/learn/sync", `{"reviews":[{"review_id":"r","knowledge_point_id":"{point}","grade":3,"at":"2026-01-02T03:04:05Z"}]}`},
		{"POST /api/v1/learn/edits", `{"ids":["{point}"],"flag":1}`},
		{"POST /api/v1/learn/edits/undo", `{}`},
		{"POST /api/v1/learn/decks", `{"name":"d"}`},
		{"PATCH /api/v1/learn/decks/{deck}", `{"name":"e"}`},
		{"DELETE /api/v1/learn/decks/{deck}", ""},
		{"PATCH /api/v1/learn/tags/{tag}", `{"name":"u"}`},
		{"PATCH /api/v1/learn/settings", `{"day_start":"05:00"}`},
		{"POST /api/v1/learn/fit", `{}`},
		{"POST /api/v1/learn/import", "question,answer\nq,a\n"},
		{"POST /api/v1/learn/media?name=a.gif", "GIF89a"},
		{"DELETE /api/v1/learn/media/{name}", ""},
		{"POST /api/v1/learn/media/clean", "{}"},
	} {
		method, path, _ := strings.Cut(c.pattern, " ")
		names := strings.NewReplacer("{point}", point, "{deck}", deck, "{tag}", "t", "{name}", "a.gif")
		before := rows()
		id := send(method, names.Replace(path), names.Replace(c.body))
		if rows() == before {
			t.Errorf("%s leaves no row", c.pattern)
		}
		switch {
		case strings.HasSuffix(path, "/points"):
			point = id
		case strings.HasSuffix(path, "/decks"):
			deck = id
		}
		pattern, _, _ := strings.Cut(c.pattern, "?")
		tried[pattern] = true
	}
	list, err := s.Control.Calls(t.Context(), control.Caller{Person: r.Person.ID, Program: "api"}, control.CallQuery{})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range list.Calls {
		if _, ok := toolwords.Lookup(i18n.Chinese, c.Title); !ok {
			t.Errorf("people see %s, which has the title %q", c.Tool, c.Title)
		}
	}
	for _, o := range s.Operations() {
		pattern := o.Method + " " + o.Path
		if !strings.HasPrefix(o.Path, "/api/v1/learn/") || o.Method == http.MethodGet || tried[pattern] ||
			learnLeavesNoRow[pattern] != "" {
			continue
		}
		t.Errorf("%s changes something: try it here, or say why it leaves no row", pattern)
	}
}
