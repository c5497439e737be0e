package app

import (
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"patchbay/internal/account"
	"patchbay/internal/control"
	"patchbay/internal/hub"
	"patchbay/internal/store"
)

// What a program was let in with stays chosen when it asks again, also for how long; and "stay off"
// holds where it was let in before, too.
func TestOAuthConsentAgain(t *testing.T) {
	const more = "mcp mcp:dangerous"
	s := newOAuthServer(t, Options{})
	s.addHome()
	p := s.register()
	first := consentWith("ask")
	first.Set("days", "1")
	first.Set("access", "some")
	first.Set("allow", "haus_*")
	token := p.exchange(s.consent(p.asks("mcp"), first))
	other := s.register() // of the same person, and no business of the first
	otherToken := other.exchange(s.consent(other.asks("mcp"), first))
	if !s.lists(token, "haus_reset") || !s.lists(otherToken, "haus_reset") {
		t.Fatal("the tool is not listed")
	}

	path, text, _ := s.page(http.MethodGet, p.asks(more), nil)
	for _, want := range []string{`value="1" selected`, `value="some" checked`, `value="ask" checked`, `value="allow"`,
		"This also ends “ask me”"} {
		if !strings.Contains(text, want) {
			t.Errorf("the page has no %s: %s", want, text)
		}
	}
	second := consentWith("off")
	second.Set("access", "some") // and no tool: the page says so, and forgets nothing
	second.Set("days", "30")
	if _, text, _ = s.page(http.MethodPost, s.url+path, second); !strings.Contains(text, "Name the tools") ||
		!strings.Contains(text, `value="30" selected`) {
		t.Errorf("a wrong form is answered with %s", text)
	}
	second.Set("access", "all")
	p.exchange(s.consent(p.asks(more), second))
	if s.lists(token, "haus_reset") {
		t.Error("the older grant still lists the tool")
	}
	if !s.lists(otherToken, "haus_reset") {
		t.Error("another program has lost the tool")
	}
	keys, err := s.base.Store.Keys.ByPerson(t.Context(), s.person)
	must(t, err)
	oldest := slices.IndexFunc(keys, func(k store.Key) bool { return k.Client == p.id })
	if rules, err := hub.ParseRules(keys[oldest].Rules); err != nil || rules.Ask != "" ||
		!slices.Equal(rules.Allow, []string{"haus_*"}) {
		t.Errorf("the rules of the older grant: %s, %v", keys[oldest].Rules, err)
	}
	events, err := s.base.Store.AdminEvents.Newest(t.Context(), "", 100)
	must(t, err)
	if !slices.ContainsFunc(events, func(e store.AdminEvent) bool { return e.Action == control.EventKeyRules }) {
		t.Errorf("the admin event about the changed rules is missing: %+v", events)
	}
}

// A program that was never let in before cannot be allowed to call dangerous tools without asking.
func TestOAuthDangerousAtFirst(t *testing.T) {
	s := newOAuthServer(t, Options{})
	p := s.register()
	s.consent(p.asks("mcp"), map[string][]string{"decision": {"deny"}}) // signs in
	path, text, _ := s.page(http.MethodGet, p.asks("mcp "+account.ScopeDangerous), nil)
	if strings.Contains(text, `value="allow"`+" ") && strings.Contains(text, "without asking") ||
		!strings.Contains(text, "ask me before each call") {
		t.Errorf("the page offers what it should not: %s", text)
	}
	if status := s.status(path, consentWith("allow").Encode()); status != http.StatusUnprocessableEntity {
		t.Errorf("a forged form is answered with %d", status)
	}
	p.exchange(s.consent(p.asks("mcp "+account.ScopeDangerous), consentWith("ask")))
	if _, text, _ = s.page(http.MethodGet, p.asks("mcp "+account.ScopeDangerous), nil); !strings.Contains(text,
		"without asking") {
		t.Errorf("a program that is known: %s", text)
	}
}

// status posts a form, and returns the status of the answer.
func (s *oauthServer) status(path, form string) int {
	s.t.Helper()
	req, err := http.NewRequestWithContext(s.t.Context(), http.MethodPost, s.url+path, strings.NewReader(form))
	must(s.t, err)
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Header.Set("Sec-Fetch-Site", "same-origin")
	resp, err := s.browser.Do(req)
	must(s.t, err)
	resp.Body.Close()
	return resp.StatusCode
}

// lists reports whether a tool is in the list for a token.
func (s *oauthServer) lists(token, tool string) bool {
	s.t.Helper()
	hello := s.rpc(token, "", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":`+
		`"2025-11-25","capabilities":{},"clientInfo":{"name":"p","version":"1"}}}`)
	hello.Body.Close()
	resp := s.rpc(token, hello.Header.Get("Mcp-Session-Id"), `{"jsonrpc":"2.0","id":2,"method":"tools/list"}`)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	must(s.t, err)
	if resp.StatusCode != http.StatusOK {
		s.t.Fatalf("%s: %s", resp.Status, body)
	}
	return strings.Contains(string(body), `"`+tool+`"`)
}
