package api_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"patchbay/internal/account"
	"patchbay/internal/control"
	"patchbay/internal/store"
)

// at makes a request, and returns its status and what it answers.
func (h *testServer) at(key, method, path, body string) (int, string) {
	h.t.Helper()
	r, err := http.NewRequestWithContext(h.t.Context(), method, h.url+"/api/v1/"+path, strings.NewReader(body))
	if err != nil {
		h.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+key)
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		h.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		h.t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

// answered is the answer of a request that must succeed.
func answered[T any](h *testServer, key, method, path, body string) (out T) {
	h.t.Helper()
	status, text := h.at(key, method, path, body)
	if status != http.StatusOK {
		h.t.Fatalf("%s %s: %d %s", method, path, status, text)
	}
	if err := json.Unmarshal([]byte(text), &out); err != nil {
		h.t.Fatalf("%s %s: %v in %s", method, path, err, text)
	}
	return out
}

// Keys are made, narrowed and revoked by their person's programs, and by nobody's that
// may do less than the key that is made.
func TestKeys(t *testing.T) {
	h := newTestServer(t)
	made := answered[control.CreatedKey](h, h.operator, "POST", "keys",
		`{"name":"desk","scopes":["mcp","mcp"],"days":30,"rules":{"allow":["home_*"],"per_minute":60}}`)
	if who, err := h.Accounts.Authenticate(t.Context(), made.Secret, account.ScopeMCP); err != nil ||
		who.Person.ID != h.Person.ID {
		t.Fatalf("it is refused: %v", err)
	}
	if len(made.Scopes) != 1 || made.PersonName != "ada" || made.Rules.PerMinute != 60 ||
		time.Until(made.Expires) > 30*24*time.Hour {
		t.Errorf("it is %+v", made)
	}
	list := answered[control.KeyList](h, h.operator, "GET", "keys", "")
	if len(list.Keys) != 3 || list.Keys[0].ID != made.ID {
		t.Errorf("ada has %+v", list.Keys)
	}
	if _, text := h.at(h.operator, "GET", "keys", ""); strings.Contains(text, made.Secret) ||
		strings.Contains(text, "hash") {
		t.Errorf("the list tells %s", text)
	}
	list = answered[control.KeyList](h, h.bobs, "GET", "keys", "")
	if len(list.Keys) != 1 {
		t.Errorf("bob has %+v", list.Keys)
	}
	list = answered[control.KeyList](h, h.admin, "GET", "keys?user=bob", "")
	if len(list.Keys) != 1 || list.Keys[0].PersonName != "bob" {
		t.Errorf("bob has %+v", list.Keys)
	}
	changed := answered[control.KeyRow](h, h.operator, "PATCH", "keys/"+made.ID, `{"rules":{"deny":["home_reset"]}}`)
	if changed.Rules.String() != `{"deny":["home_reset"]}` {
		t.Errorf("it has %+v", changed.Rules)
	}
	onlyBot := h.Key(t, account.NewKey{Scopes: []string{account.ScopeOperator}, Bot: h.bot.Number})
	narrow := h.Key(t, account.NewKey{Scopes: []string{account.ScopeOperator}, Rules: `{"deny":["x"]}`})
	var adminsKey control.KeyRow
	list = answered[control.KeyList](h, h.admin, "GET", "keys?user=ada", "")
	for _, k := range list.Keys {
		if k.Name == "admin" {
			adminsKey = k
		}
	}
	for _, c := range []struct {
		key, method, path, body string
		status                  int
	}{
		{h.bobs, "GET", "keys/" + made.ID, "", http.StatusNotFound},
		{h.bobs, "PATCH", "keys/" + made.ID, `{"rules":{}}`, http.StatusNotFound},
		{h.bobs, "DELETE", "keys/" + made.ID, "", http.StatusNotFound},
		{h.bobs, "GET", "keys?user=ada", "", http.StatusForbidden},
		{h.bobs, "POST", "keys", `{"name":"x","scopes":["mcp"],"user":"ada"}`, http.StatusForbidden},
		{h.bobs, "POST", "keys", `{"name":"x","scopes":["admin"]}`, http.StatusForbidden},
		{h.bobs, "POST", "keys", fmt.Sprintf(`{"name":"x","scopes":["mcp"],"bot":%d}`, h.bot.Number),
			http.StatusBadRequest},
		// it is ada's, but not for everybody's things
		{h.operator, "POST", "keys", `{"name":"x","scopes":["admin"]}`, http.StatusForbidden},
		{h.operator, "PATCH", "keys/" + adminsKey.ID, `{"rules":{}}`, http.StatusForbidden},
		// bob does not run it
		{h.admin, "POST", "keys", `{"name":"x","scopes":["admin"],"user":"bob"}`, http.StatusForbidden},
		{onlyBot, "POST", "keys", `{"name":"x","scopes":["mcp"]}`, http.StatusForbidden},
		{narrow, "POST", "keys", `{"name":"x","scopes":["mcp"]}`, http.StatusForbidden},
		{narrow, "PATCH", "keys/" + made.ID, `{"rules":{}}`, http.StatusForbidden},
		{narrow, "DELETE", "keys/" + made.ID, "", http.StatusForbidden},
		{h.operator, "POST", "keys", `{"name":"x","scopes":[]}`, http.StatusBadRequest},
		{h.operator, "POST", "keys", `{"name":"x","scopes":["mcp"],"rules":{"allow":["a b"]}}`, http.StatusBadRequest},
		{h.operator, "POST", "keys", `{"name":"x","scopes":["mcp"],"expires":"2020-01-01T00:00:00Z"}`,
			http.StatusBadRequest},
		{h.operator, "POST", "keys", `{"name":"x","scopes":["mcp"],"rules":{"alow":["a"]}}`, http.StatusBadRequest},
		{h.operator, "GET", "keys/none", "", http.StatusNotFound},
		{h.admin, "POST", "keys", `{"name":"bobs new one","scopes":["learn"],"user":"bob"}`, http.StatusOK},
		{h.operator, "DELETE", "keys/" + made.ID, "", http.StatusOK},
		{h.operator, "DELETE", "keys/" + made.ID, "", http.StatusOK}, // again does no harm
		{h.operator, "PATCH", "keys/" + made.ID, `{"rules":{}}`, http.StatusConflict},
	} {
		if status, text := h.at(c.key, c.method, c.path, c.body); status != c.status {
			t.Errorf("%s %s %s: %d %s, not %d", c.method, c.path, c.body, status, text, c.status)
		}
	}
	if _, err := h.Accounts.Authenticate(t.Context(), made.Secret, account.ScopeMCP); err == nil {
		t.Error("it is good still")
	}
}

// Records are their person's: listed, counted and deleted.
func TestRecords(t *testing.T) {
	h := newTestServer(t)
	now := time.Now()
	for _, tr := range []store.Trace{
		{Turn: "a1", Owner: h.Person.ID, Bot: h.bot.Number, At: now.Add(-time.Minute),
			Outcome: "done", First: time.Second, Question: "q", Answer: "a"},
		{Turn: "a2", Owner: h.Person.ID, Bot: 77, At: now.Add(-2 * time.Minute), Outcome: "failed", Question: "q"},
		{Turn: "b1", Owner: h.bob.ID, Bot: h.bobsBot.Number, At: now.Add(-3 * time.Minute),
			Outcome: "disconnected", Question: "bobs"},
	} {
		if err := h.Store.Traces.Finish(t.Context(), tr, nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := h.Store.Calls.Add(t.Context(), []store.Call{
		{ID: "c1", Person: h.Person.ID, Turn: "a1", At: now, Tool: "home_lamp", Outcome: "refused", Args: "{}"},
		{ID: "c2", Person: h.bob.ID, Turn: "a1", At: now, Tool: "bobs_lamp", Outcome: "done", Args: "{}"},
	}); err != nil {
		t.Fatal(err)
	}
	onlyBot := h.Key(t, account.NewKey{Scopes: []string{account.ScopeOperator}, Bot: h.bot.Number})
	for _, c := range []struct{ key, path, want string }{
		{h.operator, "turns", "a1 a2"},
		{h.operator, "turns?outcome=wrong", "a2"},
		{h.operator, "turns?limit=1", "a1"},
		{h.operator, "turns?from=" + now.Add(-90*time.Second).UTC().Format(time.RFC3339), "a1"},
		{h.bobs, "turns", "b1"},
		{h.admin, "turns", "a1 a2 b1"},
		{h.admin, "turns?user=bob", "b1"},
		{onlyBot, "turns", "a1"},
		{onlyBot, "turns?bot=77", "a1"},
	} {
		p := answered[control.TurnPage](h, c.key, "GET", c.path, "")
		var got []string
		for _, row := range p.Turns {
			got = append(got, row.Turn)
			if row.Question != "" {
				t.Errorf("%s tells what was said", c.path)
			}
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s gives %v, not %s", c.path, got, c.want)
		}
	}
	p := answered[control.TurnPage](h, h.operator, "GET", "turns?limit=1", "")
	p = answered[control.TurnPage](h, h.operator, "GET", "turns?limit=1&after="+p.Next, "")
	if len(p.Turns) != 1 || p.Turns[0].Turn != "a2" || p.Next != "" {
		t.Errorf("the second page is %+v", p)
	}
	d := answered[control.TurnDetail](h, h.operator, "GET", "turns/a1", "")
	if d.Question != "q" || len(d.Calls) != 1 || d.Calls[0].ID != "c1" || d.BotName != h.bot.Name {
		t.Errorf("the turn is %+v", d)
	}
	d = answered[control.TurnDetail](h, h.admin, "GET", "turns/b1", "")
	if d.Question != "" {
		t.Error("an admin reads what bob said")
	}
	for key, want := range map[string]string{h.bobs: "bobs", h.local: "bobs", h.admin: ""} {
		p := answered[control.BotTurnList](h, key, "GET", fmt.Sprintf("bots/%d/turns", h.bobsBot.Number), "")
		if len(p.Turns) != 1 || p.Turns[0].Question != want || p.Turns[0].OwnerName != "bob" {
			t.Errorf("the turns of bob's bot are %+v, want the question %q", p.Turns, want)
		}
	}
	for path, want := range map[string]string{"calls": "c1", "calls?tool=home_*&outcome=wrong": "c1",
		"calls?outcome=done": ""} {
		p := answered[control.CallPage](h, h.operator, "GET", path, "")
		got := ""
		for _, call := range p.Calls {
			got += call.ID
		}
		if got != want {
			t.Errorf("%s gives %q, not %q", path, got, want)
		}
	}
	s := answered[control.Stats](h, h.operator, "GET", "stats", "")
	var turns, calls int64
	for i := range s.Spans {
		turns += s.Spans[i].Turns()
		calls += s.Spans[i].Calls
	}
	if len(s.Spans) != 24 || turns != 2 || calls != 1 {
		t.Errorf("%d turns and %d calls in %d spans", turns, calls, len(s.Spans))
	}
	for of, want := range map[string]int{"day": 24, "week": 28, "month": 30} {
		s := answered[control.Stats](h, h.operator, "GET", "stats?range="+of, "")
		turns := int64(0)
		for i := range s.Spans {
			turns += s.Spans[i].Turns()
		}
		if len(s.Spans) != want || turns != 2 || s.Range != of || s.Seconds*want < 86400 {
			t.Errorf("%s: %d turns in %d spans of %d s", of, turns, len(s.Spans), s.Seconds)
		}
	}
	for _, c := range []struct {
		key, method, path string
		status            int
	}{
		{h.bobs, "GET", "turns/a1", http.StatusNotFound},
		{onlyBot, "GET", "turns/a2", http.StatusNotFound},
		{h.bobs, "GET", "turns?user=ada", http.StatusForbidden},
		{h.bobs, "GET", "stats?user=ada", http.StatusForbidden},
		{h.operator, "GET", "stats?range=year", http.StatusBadRequest},
		{h.operator, "GET", "turns?limit=1000", http.StatusBadRequest},
		{h.operator, "GET", "turns?outcome=x", http.StatusBadRequest},
		{h.operator, "GET", "turns?bot=x", http.StatusBadRequest},
		{h.operator, "GET", "calls?bot=x", http.StatusBadRequest},
		{h.operator, "DELETE", "records", http.StatusBadRequest},
		{onlyBot, "DELETE", "records?turns=true", http.StatusForbidden},
		{h.bobs, "DELETE", fmt.Sprintf("records?turns=true&bot=%d", h.bot.Number), http.StatusNotFound},
	} {
		if status, text := h.at(c.key, c.method, c.path, ""); status != c.status {
			t.Errorf("%s %s: %d %s, not %d", c.method, c.path, status, text, c.status)
		}
	}
	// an admin's own, not everybody's
	f := answered[control.Forgotten](h, h.admin, "DELETE", "records?turns=true&said=true&arguments=true", "")
	if f.Turns != 2 || f.Arguments != 1 {
		t.Errorf("deleted were %+v", f)
	}
	p = answered[control.TurnPage](h, h.bobs, "GET", "turns", "")
	if len(p.Turns) != 1 {
		t.Error("bob's are gone too")
	}
	for _, of := range []string{"day", "week", "month"} {
		s = answered[control.Stats](h, h.operator, "GET", "stats?range="+of, "")
		for i := range s.Spans {
			if s.Spans[i].Turns() != 0 {
				t.Errorf("the charts of a %s have them still", of)
			}
		}
	}
}
