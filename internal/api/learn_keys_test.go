package api

import (
	"context"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"patchbay/internal/account"
	"patchbay/internal/control"
	"patchbay/internal/hub"
	"patchbay/internal/i18n"
	"patchbay/internal/tool"
)

// Keys whose only scope for this API is learn call Learn's tools, and nothing else of any
// operation.
func TestLearnKeysReachLearnAlone(t *testing.T) {
	r, s, _ := described(t)
	lamp, err := r.Hub.Register(hub.ProviderRef{ID: "upstream:1", Owner: r.Person.ID, Slug: "lamp", Kind: "upstream"},
		lampProvider{})
	if err != nil {
		t.Fatal(err)
	}
	lamp.SetTools([]tool.Tool{{Name: "set", Description: "Set it."}})
	if _, err := r.Accounts.AddPerson(t.Context(), "bob", account.RoleMember, "en", ""); err != nil {
		t.Fatal(err)
	}
	bot := r.AddScript(t, nil, nil)
	send := func(key, method, path, body string) (int, string) {
		t.Helper()
		req := httptest.NewRequest(method, path, strings.NewReader(body))
		req.Header.Set("Authorization", "Bearer "+key)
		w := httptest.NewRecorder()
		s.ServeHTTP(w, req)
		return w.Code, w.Body.String()
	}
	key := r.Key(t, account.NewKey{Scopes: []string{account.ScopeLearn, account.ScopeMCP, account.ScopeLingzhu}})
	wildcards := regexp.MustCompile(`\{\w+\}`)
	others := 0
	for _, o := range s.Operations() {
		if o.Open || o.Scope == account.ScopeLearn {
			continue
		}
		others++
		if code, text := send(key, o.Method, wildcards.ReplaceAllString(o.Path, "1"),
			""); code != http.StatusUnauthorized {
			t.Errorf("%s %s: %d %s", o.Method, o.Path, code, text)
		}
	}
	if others < 50 {
		t.Errorf("only %d operations were tried", others)
	}
	ruled := func(rules string) string {
		return r.Key(t, account.NewKey{Scopes: []string{account.ScopeLearn}, Rules: rules})
	}
	for _, c := range []struct {
		key, tool, body string
		status          int
		want            string
	}{
		{key, "next_review", "", 200, `"result"`},
		{key, "next_review", `{"user":"` + r.Person.Name + `"}`, 200, `"result"`},
		{key, "next_review", `{"user":"bob"}`, 403, "scope admin"},
		{key, "lamp_set", "", 200, "Unknown tool: lamp_set"},
		{key, "send_message", "", 200, "Unknown tool: send_message"},
		{ruled(`{"deny":["next_*"]}`), "next_review", "", 200, "denied"},
		{ruled(`{"allow":["lamp_*"]}`), "lamp_set", "", 200, "Unknown"},
		{ruled(`{"allow":["lamp_*"]}`), "next_review", "", 200, "denied"},
		{r.Key(t, account.NewKey{Scopes: []string{"learn"}, Bot: bot.Number}), "next_review", "", 200, "denied"},
		{r.Key(t, account.NewKey{Scopes: []string{"mcp"}}), "next_review", "", 401, "scope learn"},
		{r.Key(t, account.NewKey{Scopes: []string{"learn", "operator"}}), "lamp_set", "", 200, "lamp is set"},
	} {
		if code, text := send(c.key, "POST", "/api/v1/tools/"+c.tool+"/call", c.body); code != c.status ||
			!strings.Contains(text, c.want) {
			t.Errorf("%s %s: %d %s, want %d and %s", c.tool, c.body, code, text, c.status, c.want)
		}
	}
}

type lampProvider struct{}

func (lampProvider) Call(context.Context, *tool.Call) (*tool.Result, error) {
	return tool.Text("the lamp is set"), nil
}

// The operator of the machine names whose files they are, and nobody else does.
func TestLearnFilesOfSomebody(t *testing.T) {
	r, s, _ := described(t)
	if _, err := r.Accounts.AddPerson(t.Context(), "bob", account.RoleMember, "en", ""); err != nil {
		t.Fatal(err)
	}
	machine, _ := NewLocalClient(s, s.Key(), i18n.English)
	admin, _ := NewLocalClient(s, r.Key(t, account.NewKey{Scopes: []string{account.ScopeAdmin}}), i18n.English)
	const table = "question,answer\nq,a\n"
	load := func(c *Client, user string) (*control.LearnImported, error) {
		return c.ImportPoints(t.Context(), control.LearnImportFile{User: user, Format: "csv"},
			strings.NewReader(table), -1)
	}
	for _, c := range []struct {
		client *Client
		user   string
		want   string
	}{{machine, "bob", ""}, {machine, "", "2 people"}, {machine, "eve", "there is no user"},
		{admin, "bob", "key of that person"}, {admin, "", ""}} {
		out, err := load(c.client, c.user)
		if err == nil && out.Added != 1 || (err == nil) != (c.want == "") ||
			err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("for %q: %+v, %v; want %q", c.user, out, err, c.want)
		}
	}
	file, _, points, err := machine.ExportPoints(t.Context(), control.LearnExport{User: "bob", Format: "csv"})
	if err != nil || points != 1 {
		t.Fatalf("%d points, %v", points, err)
	}
	file.Close()
	calls, err := r.Store.Calls.Newest(t.Context(), "", time.Now().Add(time.Minute), 9)
	if err != nil || len(calls) != 3 {
		t.Fatalf("the trail has %+v, %v", calls, err)
	}
	actors := map[string]int{}
	for _, c := range calls {
		actors[c.Tool+" "+c.Actor+" "+c.Channel]++
	}
	if actors["import - learn-files"] != 1 || actors["import  learn-files"] != 1 ||
		actors["export - learn-files"] != 1 {
		t.Errorf("the trail has %v", actors)
	}
	// A calendar's key may be the password of Basic authentication, and a file's not.
	key := r.Key(t, account.NewKey{Scopes: []string{account.ScopeLearn}})
	for path, want := range map[string]int{"calendar.ics": http.StatusOK, "export": http.StatusUnauthorized} {
		req := httptest.NewRequest(http.MethodGet, "/api/v1/learn/"+path, nil)
		req.SetBasicAuth("anybody", key)
		w := httptest.NewRecorder()
		s.ServeHTTP(w, req)
		if w.Code != want {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
	}
	w := httptest.NewRecorder()
	s.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/api/v1/learn/calendar.ics", nil))
	if asks := w.Header().Values("WWW-Authenticate"); w.Code != http.StatusUnauthorized || len(asks) != 2 {
		t.Errorf("without a key: %d %q", w.Code, asks)
	}
}
