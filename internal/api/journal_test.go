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
	"time"

	"patchbay/internal/account"
	"patchbay/internal/control"
	"patchbay/internal/store"
)

// What an administrator does with a member's board is the member's row, and names the
// administrator with key and address, whatever the way.
func TestCallsNameWhoActed(t *testing.T) {
	h := newTestServer(t)
	plugged(t, h, &provider{})
	eve, err := h.Accounts.AddPerson(t.Context(), "eve", account.RoleAdmin, "en", "")
	if err != nil {
		t.Fatal(err)
	}
	eves := h.Key(t, account.NewKey{Person: eve.ID, Name: "eves", Scopes: []string{account.ScopeAdmin}})
	p, err := h.Accounts.Authenticate(t.Context(), eves, account.ScopeAdmin)
	if err != nil {
		t.Fatal(err)
	}
	listens := make(chan struct{})
	h.listen = func(ctx context.Context, _ int64, w io.Writer) error {
		listens <- struct{}{}
		<-ctx.Done()
		return nil
	}
	for _, c := range []struct{ name, key, actor, actorName, keyID string }{
		{"an administrator", eves, eve.ID, "eve", p.Key.ID},
		{"the owner", h.operator, "", "", ""},
		{"whoever runs the machine", h.local, "-", "", ""},
	} {
		h.lines(c.key, "record", `{}`)
		ctx, leave := context.WithCancel(t.Context())
		go func() {
			r, err := http.NewRequestWithContext(ctx, http.MethodGet, h.url+"/api/v1/devices/kettle/listen", nil)
			if err != nil {
				return
			}
			r.Header.Set("Authorization", "Bearer "+c.key)
			if resp, err := http.DefaultClient.Do(r); err == nil {
				resp.Body.Close()
			}
		}()
		<-listens
		// While it lasts.
		page := answered[control.CallPage](h, h.operator, "GET", "calls?limit=2", "")
		leave()
		if len(page.Calls) != 2 || page.Calls[0].Tool != "kettle_listen" || page.Calls[1].Tool != "kettle_record" {
			t.Fatalf("%s: the owner reads %+v", c.name, page.Calls)
		}
		for _, row := range page.Calls {
			if row.Person != h.Person.ID || row.PersonName != "ada" || row.Actor != c.actor ||
				row.ActorName != c.actorName || row.Address != "127.0.0.1" || row.Channel == "" {
				t.Errorf("%s: %+v", c.name, row)
			}
			if c.keyID != "" && row.Key != c.keyID {
				t.Errorf("%s: the key is %q, not %q", c.name, row.Key, c.keyID)
			}
		}
	}
	if page := answered[control.CallPage](h, h.bobs, "GET", "calls", ""); len(page.Calls) != 0 {
		t.Errorf("bob reads %+v", page.Calls)
	}
	if list, err := h.Store.Calls.Find(t.Context(), store.CallFilter{Person: eve.ID}, 9); err != nil || len(list) != 0 {
		t.Errorf("rows of the administrator's own: %+v %v", list, err)
	}
}

// keepUpstreams keeps upstreams as they are.
func keepUpstreams(h *testServer) control.UpstreamActions {
	return control.UpstreamActions{
		Save: func(ctx context.Context, _ store.Person, u store.Upstream,
			_ control.SettingTexts) (control.SavedUpstream, error) {
			if u.Number != 0 {
				return control.SavedUpstream{Upstream: u}, nil
			}
			u.Settings, u.TokenHash, u.Created = json.RawMessage(`{}`), "hash of "+u.Slug, time.Now()
			u, err := h.Store.Upstreams.Add(ctx, u)
			return control.SavedUpstream{Upstream: u}, err
		},
		Rotate: func(context.Context, store.Upstream) (string, error) { return "token", nil },
		Shown:  func(store.Upstream) (map[string]json.RawMessage, error) { return nil, nil },
	}
}

// keepEngines keeps speech engines without settings.
func keepEngines() control.VoiceActions {
	return control.VoiceActions{
		All: func(list []store.SpeechEngine) []store.SpeechEngine { return list },
		Draft: func(e store.SpeechEngine, _ control.SettingTexts) (store.SpeechEngine, []string, error) {
			e.Settings = json.RawMessage(`{}`)
			return e, nil, nil
		},
		Shown:   func(store.SpeechEngine) (map[string]json.RawMessage, error) { return nil, nil },
		Health:  func(store.SpeechEngine) control.EngineHealth { return control.EngineHealth{} },
		Texts:   func(store.SpeechEngine) (map[string]string, error) { return nil, nil },
		Where:   func(store.SpeechEngine) (string, bool, bool) { return "", true, true },
		Check:   func(context.Context, store.SpeechEngine) (f control.EngineFound, err error) { return f, nil },
		Refresh: func(context.Context) error { return nil },
	}
}

// speedOnly has the speed of speech, and recording, as the only settings of a device.
func speedOnly() control.VoiceOptions {
	type settings struct {
		Speed  float64 `json:"speed,omitempty"`
		Record int     `json:"record,omitempty"`
	}
	return control.VoiceOptions{
		Settings:  func() any { return new(settings) },
		Effective: func(context.Context, store.Device) any { return &settings{} },
	}
}

// leavesNoRow are operations that are no GET and write nothing into the journal or the
// audit trail, and why that is right.
var leavesNoRow = map[string]string{
	"POST /api/v1/bots/{bot}/test":                    "a question, which has a record of its own",
	"POST /api/v1/bots/{bot}/chat/stop":               "ends an answer; changes nothing that lasts",
	"POST /api/v1/ask":                                "a question, which has a record of its own",
	"POST /api/v1/upstreams/check":                    "looks, and keeps nothing",
	"POST /api/v1/upstreams/{upstream}/check":         "looks, and keeps nothing",
	"POST /api/v1/upstreams/{upstream}/approve":       "leaves a row, and needs a server that has changed its tools",
	"POST /api/v1/upstreams/{upstream}/signin":        "leaves a row, and needs a server to sign in to",
	"POST /api/v1/upstreams/{upstream}/signin/answer": "leaves a row, and needs a server to sign in to",
	"PUT /api/v1/upstreams/{upstream}/sharing":        "leaves a row, and needs a server to sign in to",
	"DELETE /api/v1/upstreams/{upstream}/signin":      "leaves a row, and needs a server to sign in to",
	"POST /api/v1/nodes/{node}/invoke":                "the call leaves its row in the audit trail",
	"PATCH /api/v1/nodes/{node}/policy":               "leaves a row, and needs a node that has a policy",
	"POST /api/v1/devices/{device}/say":               "the call of the tool leaves its row in the audit trail",
	"POST /api/v1/devices/{device}/music":             "the call of the tool leaves its row in the audit trail",
	"POST /api/v1/devices/{device}/timers":            "the call of the tool leaves its row in the audit trail",
	"DELETE /api/v1/devices/{device}/timers/{timer}":  "the call of the tool leaves its row in the audit trail",
	"POST /api/v1/voice/engines/{engine}/check":       "looks, and keeps nothing",
	"POST /api/v1/voice/engines/{engine}/say":         "speaks, and keeps nothing",
	"POST /api/v1/voice/engines/{engine}/hear":        "listens, and keeps nothing",
	"POST /api/v1/restore":                            "leaves a row, and needs a backup",
	"DELETE /api/v1/restore":                          "leaves a row, and needs a backup",
	"DELETE /api/v1/bots/{bot}/wearers/{user}":        "leaves a row, and needs glasses that are bound",
	"DELETE /api/v1/signins/{signin}":                 "leaves a row, as DELETE /api/v1/signins does, and needs a browser",
}

// letIn adds an OAuth client "program", and the key "grant" with which it acts for a person.
func letIn(t *testing.T, db *store.DB, person string) {
	t.Helper()
	err := errors.Join(db.OAuth.SaveClient(t.Context(), store.OAuthClient{ID: "program", Kind: store.ClientConfigured,
		Name: "program", Redirects: []string{"https://a.example/"}, Created: time.Now()}),
		db.Keys.Add(t.Context(), store.Key{ID: "grant", Person: person, Name: "program", Scopes: []string{"mcp"},
			Hash: "grant", Client: "program", Created: time.Now()}))
	if err != nil {
		t.Fatal(err)
	}
}

// linkOf links a person to somebody of an OpenID provider, and returns the id of the link.
func linkOf(t *testing.T, h *testServer) string {
	t.Helper()
	if err := h.Accounts.Link(t.Context(), store.Linked{Issuer: "https://id.example", Subject: "s",
		Person: h.Person.ID}); err != nil {
		t.Fatal(err)
	}
	var list control.LinkList
	if got := h.send(&list, h.admin, http.MethodGet, "links", ""); got != http.StatusOK || len(list.Links) != 1 {
		t.Fatalf("%d: %+v", got, list)
	}
	return list.Links[0].ID
}

// authenticatorOf gives a person an authenticator app, and returns the person.
func authenticatorOf(t *testing.T, accounts *account.Service, person string) string {
	t.Helper()
	e, err := accounts.Enrol(store.Person{ID: person})
	if err == nil {
		_, err = accounts.AddAuthenticator(t.Context(), store.Person{ID: person}, "", e.Sealed,
			account.ShownCode(e.Secret, time.Now()))
	}
	if err != nil {
		t.Fatal(err)
	}
	return person
}

// Every operation that changes something leaves a row that names who, by which key and from
// where. The list of operations says which there are: a new one is either tried here, or
// has a reason above.
func TestEveryChangeLeavesARow(t *testing.T) {
	h := newTestServer(t)
	plugged(t, h, &provider{})
	code := h.shows("aa:aa:aa:aa:aa:09", "client-9")
	id := func(path string) string { // the id of the only one, or of the last that was made
		var of map[string]any
		if got := h.send(&of, h.admin, http.MethodPost, path, map[string]string{
			"bots": `{"name":"walked","kind":"plugin"}`, "keys": `{"name":"walked","scopes":["mcp"]}`,
			"people":      `{"name":"walked"}`,
			"upstreams":   `{"name":"walked","kind":"mcp","unchecked":true,"settings":{}}`,
			"bots/1/keys": `{"name":"walked","only":true}`,
		}[path]); got != http.StatusOK {
			t.Fatalf("POST %s: %d", path, got)
		}
		return strings.TrimSuffix(fmt.Sprint(of["id"]), ".0")
	}
	rows := func() int {
		h.Hub.WaitForCallRecords(t.Context())
		acts, err := h.Store.AdminEvents.Newest(t.Context(), "", 500)
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range acts {
			if a.Channel != "api" || a.Address != "127.0.0.1" || a.Key == "" || a.Name == "" {
				t.Fatalf("the journal has %+v", a)
			}
		}
		calls, err := h.Store.Calls.Newest(t.Context(), "", time.Now().Add(time.Minute), 500)
		if err != nil {
			t.Fatal(err)
		}
		return len(acts) + len(calls)
	}
	glasses := id("bots/1/keys")
	tried := map[string]bool{}
	try := func(key, pattern, id, body string) {
		t.Helper()
		method, path, _ := strings.Cut(pattern, " /api/v1/")
		open, rest, found := strings.Cut(path, "{")
		if found {
			_, rest, _ = strings.Cut(rest, "}")
			path = open + id + strings.Replace(rest, "{key}", glasses, 1)
		}
		before := rows()
		if got := h.send(nil, key, method, path, body); got != http.StatusOK {
			t.Errorf("%s as %s: %d", pattern, path, got)
		}
		if rows() == before {
			t.Errorf("%s leaves no row", pattern)
		}
		tried[pattern] = true
	}
	if err := h.Accounts.SetPassword(t.Context(), h.Person.ID, "a good password"); err != nil {
		t.Fatal(err)
	}
	bot, key, person, upstream := id("bots"), id("keys"), id("people"), id("upstreams")
	letIn(t, h.Store, h.Person.ID)
	for _, c := range []struct{ pattern, id, body string }{
		{"POST /api/v1/bots", "", `{"name":"other","kind":"plugin"}`},
		{"PATCH /api/v1/bots/{bot}", bot, `{"description":"new"}`},
		{"PUT /api/v1/bots/{bot}/sharing", bot, `{"everybody":true}`},
		{"POST /api/v1/bots/{bot}/rotate", bot, ""},
		{"POST /api/v1/bots/{bot}/invite", bot, ""},
		{"POST /api/v1/bots/{bot}/keys", "1", `{"name":"glasses"}`},
		{"DELETE /api/v1/bots/{bot}/keys/{key}", "1", ""},
		{"DELETE /api/v1/bots/{bot}", bot, ""},
		{"POST /api/v1/devices/approve", "", `{"code":"` + code + `"}`},
		{"POST /api/v1/devices/{device}/tools/{tool}/call", "kettle", `{}`},
		{"PATCH /api/v1/devices/{device}/voice", "kettle", `{"settings":{"speed":"1.5"}}`},
		{"DELETE /api/v1/devices/{device}/recordings", "kettle", ""},
		{"PATCH /api/v1/devices/{device}", "kettle", `{"name":"pot"}`},
		{"DELETE /api/v1/devices/{device}", "pot", ""},
		{"POST /api/v1/tools/{name}/rule", "home_*", `{"rule":"deny"}`},
		{"POST /api/v1/tools/{name}/call", "nothing", `{}`},
		{"POST /api/v1/upstreams", "", `{"name":"more","kind":"mcp","unchecked":true,"settings":{}}`},
		{"PATCH /api/v1/upstreams/{upstream}", upstream, `{"settings":{}}`},
		{"POST /api/v1/upstreams/{upstream}/rotate", upstream, ""},
		{"DELETE /api/v1/upstreams/{upstream}", upstream, ""},
		{"POST /api/v1/voice/engines", "", `{"name":"ear","kind":"openai","unchecked":true}`},
		{"PATCH /api/v1/voice/engines/{engine}", "ear", `{"use":"listen"}`},
		{"POST /api/v1/voice/engines/{engine}/move", "ear", `{"place":1}`},
		{"DELETE /api/v1/voice/engines/{engine}", "ear", ""},
		{"POST /api/v1/voice/setup", "", `{"service":"openai","key":"sk-1","no_bot":true}`},
		{"POST /api/v1/drain", "", ""},
		{"DELETE /api/v1/drain", "", ""},
		{"POST /api/v1/secrets", "", `{"now":true}`},
		{"DELETE /api/v1/secrets", "", ""},
		{"POST /api/v1/keys", "", `{"name":"k","scopes":["mcp"]}`},
		{"PATCH /api/v1/keys/{key}", key, `{"rules":{"deny":["home_*"]}}`},
		{"POST /api/v1/approvals/{approval}", approvalOf(t, h, person), `{"decision":"once"}`},
		{"PUT /api/v1/sets/{set}", "home", `{"tools":["home_*"]}`},
		{"DELETE /api/v1/sets/{set}", "home", ""},
		{"PUT /api/v1/tools/{name}/words", "kettle_record", `{"name":"hear"}`},
		{"DELETE /api/v1/tools/{name}/words", "hear", ""},
		{"DELETE /api/v1/keys/{key}", key, ""},
		{"DELETE /api/v1/oauth/grants/{grant}", "grant", ""},
		{"POST /api/v1/oauth/clients", "", `{"name":"app","redirect_uris":["https://a.example/"]}`},
		{"DELETE /api/v1/oauth/clients/{client}", "program", ""},
		{"POST /api/v1/people", "", `{"name":"carol"}`},
		{"PATCH /api/v1/people/{person}", person, `{"role":"admin"}`},
		{"POST /api/v1/people/{person}/invitation", person, ""},
		{"DELETE /api/v1/people/{person}/invitation", person, ""},
		{"POST /api/v1/people/{person}/password", person, ""},
		{"DELETE /api/v1/people/{person}/second-steps", authenticatorOf(t, h.Accounts, person), ""},
		{"DELETE /api/v1/people/{person}", person + "?name=walked", ""},
		{"PATCH /api/v1/me", "", `{"zone":"Asia/Shanghai"}`},
		{"DELETE /api/v1/signins", "", ""},
		{"DELETE /api/v1/links/{link}", linkOf(t, h), ""},
		{"DELETE /api/v1/records", "?said=true", ""},
		{"POST /api/v1/me/password", "", `{"old":"a good password","new":"another password"}`},
		{"PATCH /api/v1/nodes/{node}", "n", `{"name":"desk"}`},
		{"DELETE /api/v1/nodes/{node}", "n", ""},
		{"POST /api/v1/pairs/{request}/approve", "r", ""},
		{"POST /api/v1/pairs/{request}/reject", "r", ""},
		{"POST /api/v1/pairs/invites", "", `{"url":"https://board.example.org"}`},
		{"DELETE /api/v1/pairs/invites/{code}", invited(t, h), ""},
		{"POST /api/v1/pairs/devices/{device}/revoke", "d", `{"role":"node"}`},
	} {
		if strings.HasPrefix(c.id, "?") {
			before := rows()
			if got := h.send(nil, h.admin, http.MethodDelete, "records"+c.id, ""); got != http.StatusOK ||
				rows() == before {
				t.Errorf("%s: %d", c.pattern, got)
			}
			tried[c.pattern] = true
			continue
		}
		if strings.Contains(c.pattern, "{tool}") {
			before := rows()
			h.lines(h.admin, "record", c.body)
			if rows() == before {
				t.Errorf("%s leaves no row", c.pattern)
			}
			tried[c.pattern] = true
			continue
		}
		try(h.admin, c.pattern, c.id, c.body)
	}
	for _, o := range h.operations {
		pattern := o.Method + " " + o.Path
		switch _, exempt := leavesNoRow[pattern]; {
		case o.Method == http.MethodGet, exempt, tried[pattern]:
		default:
			t.Errorf("%s changes something: try it here, or say why it leaves no row", pattern)
		}
	}
}

// invited returns the id of a setup code of the person's.
func invited(t *testing.T, h *testServer) string {
	t.Helper()
	i, err := h.Accounts.InviteNode(t.Context(), h.Person.ID, "", "wss://board.example.org")
	if err != nil {
		t.Fatal(err)
	}
	return i.ID
}

// approvalOf returns the id of a call that waits for a person.
func approvalOf(t *testing.T, h *testServer, person string) string {
	t.Helper()
	_, _, err := h.Store.Approvals.Ask(t.Context(), store.Approval{ID: "waits", Person: person, Tool: "lamp",
		Asked: time.Now(), Expires: time.Now().Add(time.Hour)}, 9, 9)
	if err != nil {
		t.Fatal(err)
	}
	return "waits"
}
