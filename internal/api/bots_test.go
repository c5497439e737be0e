package api_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"patchbay/internal/account"
	"patchbay/internal/control"
	"patchbay/internal/store"
	"patchbay/internal/talk"
)

// bots makes a request about bots, and decodes the answer if it succeeds.
func (h *testServer) bots(into any, key, method, path, body string) int {
	h.t.Helper()
	r, err := http.NewRequestWithContext(h.t.Context(), method, h.url+"/api/v1/bots"+path, strings.NewReader(body))
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
	if resp.StatusCode == http.StatusOK && into != nil {
		if err := json.Unmarshal(text, into); err != nil {
			h.t.Fatalf("%s %s: %v in %s", method, path, err, text)
		}
	}
	return resp.StatusCode
}

func TestBots(t *testing.T) {
	h := newTestServer(t)
	var added control.AddedBot
	if got := h.bots(&added, h.operator, "POST", "",
		`{"name":"claw","kind":"plugin","settings":{"shared":true,"concurrent":3,"allow_tools":["a","b"],"idle":"30s"}}`); got != http.StatusOK || len(added.SDKToken) != 64 || added.Owner != h.Person.ID {
		t.Fatalf("%d %+v", got, added)
	}
	path := fmt.Sprintf("/%d", added.Number)
	var v control.BotView
	h.bots(&v, h.operator, "GET", "/claw", "")
	if v.Number != added.Number || string(v.Settings["shared"]) != "true" || string(v.Settings["concurrent"]) != "3" ||
		string(v.Settings["allow_tools"]) != `["a","b"]` {
		t.Errorf("it is %+v", v)
	}
	v = control.BotView{}
	if got := h.bots(&v, h.operator, "PATCH", path,
		`{"name":"crab","settings":{"concurrent":null,"shared":"false"}}`); got != http.StatusOK || v.Name != "crab" ||
		v.Settings["concurrent"] != nil || string(v.Settings["shared"]) != "false" {
		t.Errorf("%d: it is now %+v", got, v)
	}
	for body, want := range map[string]int{
		`{"settings":{"concurrent":"many"}}`: http.StatusBadRequest,
		`{"settings":{"colour":"red"}}`:      http.StatusBadRequest,
		`{"settings":[]}`:                    http.StatusBadRequest,
		`{"name":""}`:                        http.StatusBadRequest,
		`{"owner":"me"}`:                     http.StatusBadRequest,
	} {
		if got := h.bots(nil, h.operator, "PATCH", path, body); got != want {
			t.Errorf("%s: %d", body, got)
		}
	}
	var rotated control.RotatedBot
	if got := h.bots(&rotated, h.operator, "POST", path+"/rotate", ""); got != http.StatusOK ||
		rotated.SDKToken == added.SDKToken {
		t.Errorf("%d %+v", got, rotated)
	}
	if b, err := h.Registry.ByToken(t.Context(), rotated.SDKToken); err != nil || b.Number != added.Number {
		t.Errorf("the new token leads to %+v, %v", b, err)
	}
	if got := h.bots(nil, h.operator, "POST", fmt.Sprintf("/%d/rotate", h.bot.Number),
		""); got != http.StatusBadRequest {
		t.Errorf("a bot without a token: %d", got)
	}
	// The machine's own key acts for nobody, so that with two people somebody has to be named.
	for _, c := range []struct {
		key, user string
		want      int
	}{
		{h.local, "", http.StatusBadRequest}, {h.local, "eve", http.StatusNotFound}, {h.local, "bob", http.StatusOK},
		{h.operator, "bob", http.StatusForbidden}, {h.bobs, "bob", http.StatusConflict}, // he has one named so
		{h.admin, "nobody", http.StatusNotFound},
	} {
		var made control.AddedBot
		got := h.bots(&made, c.key, "POST", "", fmt.Sprintf(`{"name":"x","kind":"script","user":%q}`, c.user))
		if got != c.want || got == http.StatusOK && (made.Owner != h.bob.ID || made.OwnerName != "bob") {
			t.Errorf("a bot for %q: %d %+v, want %d", c.user, got, made, c.want)
		}
	}
	if got := h.bots(nil, h.operator, "DELETE", path, ""); got != http.StatusOK {
		t.Errorf("%d", got)
	}
	if got := h.bots(nil, h.operator, "GET", path, ""); got != http.StatusNotFound {
		t.Errorf("it is there still: %d", got)
	}
}

func TestBotTrial(t *testing.T) {
	h := newTestServer(t)
	good := h.AddScript(t, nil, func(_ context.Context, _ *talk.Turn,
		emit talk.Emit) error {
		return emit(talk.Text("here I am"))
	})
	bad := h.AddScript(t, nil, func(context.Context, *talk.Turn, talk.Emit) error {
		return talk.Fail(talk.BotFailed, "no model", errors.New("404"))
	})
	var tr control.Trial
	if got := h.bots(&tr, h.operator, "POST", fmt.Sprintf("/%d/test", good.Number), ""); got != http.StatusOK ||
		!tr.OK() || tr.Text != "here I am" || tr.First <= 0 {
		t.Errorf("%d %+v", got, tr)
	}
	tr = control.Trial{}
	if got := h.bots(&tr, h.operator, "POST", fmt.Sprintf("/%d/test", bad.Number), ""); got != http.StatusOK ||
		tr.Code != talk.BotFailed || !strings.Contains(tr.Problem, "no model") || tr.Do == "" {
		t.Errorf("%d %+v", got, tr)
	}
	var turns control.BotTurnList
	if h.bots(&turns, h.operator, "GET", fmt.Sprintf("/%d/turns", bad.Number), ""); len(turns.Turns) != 1 ||
		turns.Turns[0].Code != "bot_failed" || turns.Turns[0].Person != "" {
		t.Errorf("its turns are %+v", turns)
	}
}

func TestWearers(t *testing.T) {
	h := newTestServer(t)
	path := fmt.Sprintf("/%d", h.bot.Number)
	var inv account.Invitation
	var state control.InvitationState
	h.bots(&inv, h.operator, "POST", path+"/invite", "")
	if got := h.bots(&state, h.operator, "GET", path+"/invite/"+inv.ID, ""); got != http.StatusOK || state.Used ||
		!state.Expires.Equal(inv.Expires.Truncate(1e6)) {
		t.Errorf("%d %+v of %+v", got, state, inv)
	}
	if _, err := h.Accounts.RedeemCode(t.Context(), store.Wearer{Publisher: h.Person.ID, UserID: "A/B"},
		"", inv.Code); err != nil {
		t.Fatal(err)
	}
	if h.bots(&state, h.operator, "GET", path+"/invite/"+inv.ID, ""); !state.Used || state.UserID != "A/B" {
		t.Errorf("used: %+v", state)
	}
	var list control.WearerList
	if h.bots(&list, h.operator, "GET", path+"/wearers", ""); len(list.Wearers) != 1 ||
		list.Wearers[0].UserID != "A/B" {
		t.Errorf("bound are %+v", list)
	}
	if got := h.bots(nil, h.operator, "DELETE", path+"/wearers/A%2FB?publisher=somebody",
		""); got != http.StatusNotFound {
		t.Errorf("another publisher's: %d", got)
	}
	var gone control.UnboundWearers
	if got := h.bots(&gone, h.operator, "DELETE", path+"/wearers/A%2FB", ""); got != http.StatusOK ||
		gone.Unbound != 1 {
		t.Errorf("%d %+v", got, gone)
	}
	var key control.AddedKey
	if got := h.bots(&key, h.operator, "POST", path+"/keys", `{"name":"ak","only":true}`); got != http.StatusOK ||
		key.Bot != h.bot.Number {
		t.Errorf("%d %+v", got, key)
	}
	if _, err := h.Accounts.Authenticate(t.Context(), key.Secret, account.ScopeLingzhu); err != nil {
		t.Error(err)
	}
	if got := h.bots(nil, h.operator, "DELETE", path+"/keys/"+key.ID, ""); got != http.StatusOK {
		t.Errorf("%d", got)
	}
	if _, err := h.Accounts.Authenticate(t.Context(), key.Secret, account.ScopeLingzhu); !errors.Is(err,
		account.ErrRevoked) {
		t.Error(err)
	}
}

// A bot of somebody else's looks as if there were none, and so does every other to a key
// for one bot. Who runs the installation reaches all.
func TestBotsOfOthers(t *testing.T) {
	h := newTestServer(t)
	only := h.Key(t, account.NewKey{Person: h.Person.ID, Scopes: []string{account.ScopeOperator}, Bot: h.bot.Number})
	another := h.AddScript(t, nil, nil)
	hers, his := fmt.Sprintf("/%d", h.bot.Number), fmt.Sprintf("/%d", h.bobsBot.Number)
	for _, c := range []struct{ method, path, body string }{
		{"GET", "", ""}, {"PATCH", "", `{"name":"stolen"}`}, {"DELETE", "", ""}, {"POST", "/rotate", ""},
		{"POST", "/test", ""}, {"POST", "/invite", ""},
		{"GET", "/invite/x", ""}, {"GET", "/wearers", ""}, {"DELETE", "/wearers/x", ""}, {"GET", "/keys", ""},
		{"POST", "/keys", `{"name":"x"}`},
		{"DELETE", "/keys/x", ""}, {"GET", "/turns", ""},
	} {
		for key, bot := range map[string]string{h.bobs: hers, h.operator: his,
			only: fmt.Sprintf("/%d", another.Number)} {
			if got := h.bots(nil, key, c.method, bot+c.path, c.body); got != http.StatusNotFound {
				t.Errorf("%s %s%s: %d", c.method, bot, c.path, got)
			}
		}
	}
	for key, want := range map[string]int{h.bobs: 1, h.operator: 2, h.admin: 3, h.local: 3, only: 1} {
		var list control.BotList
		if h.bots(&list, key, "GET", "", ""); len(list.Bots) != want {
			t.Errorf("%d bots are listed, want %d", len(list.Bots), want)
		}
	}
	if got := h.bots(nil, only, "POST", "", `{"name":"x","kind":"script"}`); got != http.StatusForbidden {
		t.Errorf("a key for one bot adds another: %d", got)
	}
	if got := h.bots(nil, h.admin, "PATCH", his, `{"description":"seen"}`); got != http.StatusOK {
		t.Errorf("who runs the installation: %d", got)
	}
}

// Programs are told what is wrong with settings in the language that they ask for.
func TestWrongInBothLanguages(t *testing.T) {
	h := newTestServer(t)
	for lang, want := range map[string]string{"en": "hangup is finish or cancel, not \"maybe\"",
		"zh-CN,zh;q=0.9": "hangup 只能是 finish 或 cancel，不能是 \"maybe\"", "": "hangup is finish or cancel, not \"maybe\""} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPatch,
			fmt.Sprintf("%s/api/v1/bots/%d", h.url, h.bot.Number), strings.NewReader(`{"settings":{"hangup":"maybe"}}`))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+h.operator)
		r.Header.Set("Accept-Language", lang)
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		var answer struct{ Error string }
		err = json.NewDecoder(resp.Body).Decode(&answer)
		resp.Body.Close()
		if err != nil || resp.StatusCode != http.StatusBadRequest || answer.Error != want {
			t.Errorf("%q: %d %q, %v", lang, resp.StatusCode, answer.Error, err)
		}
	}
}
