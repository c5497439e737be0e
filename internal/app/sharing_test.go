package app

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	"patchbay/internal/account"
	"patchbay/internal/control"
	"patchbay/internal/hub"
	"patchbay/internal/store"
	"patchbay/internal/tool"
)

// A shared bot calls the tools of the person who asks, and those that its owner lends, within the
// limits of that person.
func TestSharedBotCalls(t *testing.T) {
	k := newKeep(t)
	ctx := t.Context()
	kid, err := k.base.Accounts.AddPerson(ctx, "kid", account.RoleMember, "en", "")
	k.must(err)
	toys, err := k.hub.Register(hub.ProviderRef{ID: "test/toy", Slug: "toy", Kind: "test", Owner: kid.ID, Title: "toy"},
		ledger{k, "toy"})
	k.must(err)
	input := json.RawMessage(`{"type":"object","properties":{"tag":{"type":"string"}}}`)
	toys.SetTools([]tool.Tool{{Name: "beep", Input: input}, {Name: "zap", Input: input, Dangerous: true}})
	_, adas := k.key(account.NewKey{Scopes: []string{account.ScopeAdmin}})
	_, kids, err := k.base.Accounts.AddKey(ctx, account.NewKey{Person: kid.ID, Name: "kid",
		Scopes: []string{account.ScopeOperator}})
	k.must(err)
	able, relay := strconv.FormatInt(k.able.Number, 10), strconv.FormatInt(k.relay.Number, 10)
	change := func(method, path string, body any) {
		t.Helper()
		if status, text := k.do(adas, method, path, body); status != http.StatusOK {
			t.Fatalf("%s %s: %d %s", method, path, status, text)
		}
	}
	tags := 0
	ask := func(secret, bot, question string, want ...string) {
		t.Helper()
		tags++
		tag := fmt.Sprintf("tag%d", tags)
		k.do(secret, http.MethodPost, "ask", map[string]any{"bot": bot, "text": question + " " + tag})
		if got := k.called(tag); !slices.Equal(got, want) {
			t.Errorf("%q to %s has called %q, want %q", question, bot, got, want)
		}
	}
	ask(kids, able, "call toy_beep") // not shared
	change(http.MethodPut, "bots/"+able+"/sharing", map[string]any{"users": []string{"kid"}})
	ask(kids, able, "call toy_beep", "toy_beep")
	ask(kids, "able", "call toy_beep", "toy_beep")
	ask(kids, able, "call toy_zap") // dangerous, and the kid has not allowed it
	ask(kids, able, "call lamp_on") // ada's
	ask(adas, able, "call lamp_on", "lamp_on")
	ask(adas, able, "call toy_beep")
	change(http.MethodPatch, "bots/"+able, map[string]any{"settings": map[string]any{"lend_tools": "lamp_on,ear_*"}})
	ask(kids, able, "call lamp_on", "lamp_on")
	ask(kids, able, "call lamp_off")
	ask(kids, able, "call ear_record", "ear_record") // dangerous, and ada lends it and lets the bot call it
	ask(kids, able, "call toy_beep", "toy_beep")
	// Through another shared bot: a bot is asked by whoever asked the first one.
	change(http.MethodPut, "bots/"+relay+"/sharing", map[string]any{"everybody": true})
	ask(kids, relay, "ask "+able+": call toy_beep", "toy_beep")
	ask(kids, relay, "ask "+strconv.FormatInt(k.only.Number, 10)+": call lamp_on")

	limits := func(l store.PersonLimits) {
		t.Helper()
		change(http.MethodPatch, "people/"+kid.ID, map[string]any{"limits": l})
	}
	limits(store.PersonLimits{DenyTools: []string{"ear_*", "toy_*"}})
	ask(kids, able, "call lamp_on", "lamp_on")
	ask(kids, able, "call ear_record")
	ask(kids, able, "call toy_beep")
	fit, err := k.api.Control.MatchingTools(control.Caller{Person: k.ada.ID, Admin: true}, kid.ID,
		[]string{"ear_*", "toy_*"})
	if want := []string{"ear_level", "ear_record", "toy_beep", "toy_zap"}; err != nil || !slices.Equal(fit, want) {
		t.Errorf("tools that fit: %q, %v; want %q", fit, err, want)
	}
	// Also behind a lent tool that asks a bot, which acts for its owner.
	change(http.MethodPatch, "bots/"+relay, map[string]any{"settings": map[string]any{"lend_tools": "send_message"}})
	only := strconv.FormatInt(k.only.Number, 10)
	change(http.MethodPatch, "bots/"+only, map[string]any{"settings": map[string]any{"allow_tools": "lamp_*,ear_*"}})
	change(http.MethodPatch, "bots/"+relay, map[string]any{"settings": map[string]any{"allow_tools": ""}})
	ask(kids, relay, "ask "+only+": call lamp_on", "lamp_on")
	ask(kids, relay, "ask "+only+": call ear_record")
	_, text := k.do(kids, http.MethodPost, "tools/toy_beep/call",
		map[string]any{"arguments": map[string]string{"tag": "direct"}})
	if len(k.called("direct")) > 0 || !strings.Contains(text, "toy_beep") {
		t.Errorf("a tool that the kid may never call: %s", text)
	}
	limits(store.PersonLimits{AllowTools: []string{"toy_*"}, SharedOnly: true})
	ask(kids, able, "call toy_beep", "toy_beep")
	ask(kids, able, "call lamp_on")
	for path, body := range map[string]map[string]any{
		"bots":      {"name": "x", "kind": "openai", "settings": map[string]any{"base_url": "https://a.example", "model": "m"}},
		"keys":      {"name": "x", "scopes": []string{"mcp"}},
		"upstreams": {"name": "x", "kind": "mcp", "settings": map[string]any{"url": "https://a.example"}},
	} {
		status, text := k.do(kids, http.MethodPost, path, body)
		if status != http.StatusForbidden || !strings.Contains(text, "what is shared") {
			t.Errorf("%s: %d %s", path, status, text)
		}
	}

	// The records are the kid's; calls of lent tools are ada's, with the name of the kid.
	k.hub.WaitForCallRecords(ctx)
	_, text = k.do(adas, http.MethodGet, "calls?tool=lamp_on&limit=50", nil)
	var calls control.CallPage
	k.must(json.Unmarshal([]byte(text), &calls))
	lent := 0
	for _, c := range calls.Calls {
		if c.Actor == kid.ID && c.Person == k.ada.ID {
			lent++
		}
	}
	if lent != 2 {
		t.Errorf("%d calls of a lent tool are recorded: %s", lent, text)
	}
	if _, text = k.do(kids, http.MethodGet, "turns?limit=50", nil); !strings.Contains(text, `"bot_name":"able"`) {
		t.Errorf("the turns of the kid: %s", text)
	}

	// The owner sees that a shared bot was asked and by whom, but not what was said, nor the calls
	// of the other's tools. As an administrator she sees these calls.
	_, owners := k.key(account.NewKey{Scopes: []string{account.ScopeOperator}})
	var turns control.TurnPage
	_, text = k.do(kids, http.MethodGet, "turns?limit=50", nil)
	k.must(json.Unmarshal([]byte(text), &turns))
	seen := 0
	for _, turn := range turns.Turns {
		status, text := k.do(owners, http.MethodGet, "turns/"+turn.Turn, nil)
		if status != http.StatusOK || !strings.Contains(text, `"owner_name":"kid"`) ||
			strings.Contains(text, "call toy") || strings.Contains(text, `"toy_beep"`) {
			t.Errorf("the owner sees of a turn: %d %s", status, text)
		}
		_, his := k.do(kids, http.MethodGet, "turns/"+turn.Turn, nil)
		_, all := k.do(adas, http.MethodGet, "turns/"+turn.Turn, nil)
		if strings.Contains(his, `"toy_beep"`) && strings.Contains(all, `"toy_beep"`) {
			seen++
		}
	}
	if seen == 0 {
		t.Error("no turn has a call of the kid's own tool")
	}
	// An account whose limits are no good is not opened.
	for _, body := range []map[string]any{
		{"name": "eve", "limits": map[string]any{"deny_tools": []string{"bad pattern"}}},
		{"name": "eve", "role": "admin", "limits": map[string]any{"shared_only": true}},
		{"name": "eve", "bots": []string{"nobody's"}},
	} {
		if status, text := k.do(adas, http.MethodPost, "people", body); status == http.StatusOK {
			t.Errorf("%v: %s", body, text)
		}
	}
	if _, err := k.base.Store.People.ByName(ctx, "eve"); err == nil {
		t.Error("an account was opened without its limits")
	}
	change(http.MethodPatch, "people/"+kid.ID, map[string]any{"paused": true})
	if status, _ := k.do(kids, http.MethodGet, "bots", nil); status != http.StatusUnauthorized {
		t.Errorf("a key of who is paused: %d", status)
	}
}
