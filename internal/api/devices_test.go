package api_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"patchbay/internal/account"
	"patchbay/internal/api"
	"patchbay/internal/control"
	"patchbay/internal/hub"
	"patchbay/internal/hub/hubtest"
	"patchbay/internal/oauth"
	"patchbay/internal/store"
	"patchbay/internal/tool"
)

// testServer is a server with two people, each with a device and a bot, and keys: ada
// runs the installation, bob is a member.
type testServer struct {
	*hubtest.Rig
	t      *testing.T
	url    string
	bob    store.Person
	kettle store.Device // ada's, number 1
	lamp   store.Device // bob's, number 2

	local, admin, operator, bobs string // keys
	bot, bobsBot                 store.Bot
	operations                   []api.Operation
	asked                        chan struct{} // if not nil, hears of a request
	listen                       func(ctx context.Context, device int64, w io.Writer) error
}

func newTestServer(t *testing.T) *testServer {
	t.Helper()
	h := &testServer{Rig: hubtest.New(t, hubtest.Options{}), t: t}
	var err error
	if h.bob, err = h.Accounts.AddPerson(t.Context(), "bob", account.RoleMember, "en", ""); err != nil {
		t.Fatal(err)
	}
	h.bot = h.AddScript(t, nil, nil)
	if h.bobsBot, _, err = h.Registry.Add(t.Context(), hub.NewBot{Owner: h.bob.ID,
		Name: "bobs", Kind: "script"}); err != nil {
		t.Fatal(err)
	}
	h.kettle = h.own(h.Person, "aa:aa:aa:aa:aa:01", "kettle")
	h.lamp = h.own(h.bob, "aa:aa:aa:aa:aa:02", "lamp")
	h.admin = h.Key(t, account.NewKey{Name: "admin", Scopes: []string{account.ScopeAdmin}})
	h.operator = h.Key(t, account.NewKey{Name: "operator", Scopes: []string{account.ScopeOperator}})
	h.bobs = h.Key(t, account.NewKey{Person: h.bob.ID, Scopes: []string{account.ScopeOperator}})
	s, err := api.New(api.Options{
		Control: control.New(control.Options{
			OAuth: oauth.New(oauth.Options{Store: h.Store}),
			Hub:   h.Hub, Accounts: h.Accounts, Upstreams: keepUpstreams(h), Disconnect: func(int64) {},
			Voice: keepEngines(), BoardVoice: speedOnly(),
			SecretActions: control.SecretActions{
				State:   func() []control.SecretState { return []control.SecretState{{ID: "current"}, {ID: "old"}} },
				Current: func() (id, secret string) { return "current", "hidden" },
				Rotate:  func(context.Context, string) (int, error) { return 0, nil },
				Forget:  func(context.Context) error { return nil },
			},
			Nodes: func(context.Context, control.NodeAction) (json.RawMessage, error) {
				return json.RawMessage(`{}`),
					nil
			},
			Listen: func(ctx context.Context, device int64, _ tool.Caller, w io.Writer) error {
				return h.listen(ctx, device, w)
			},
		}),
		Guard: account.NewGuard(100, nil), Logger: slog.New(slog.NewTextHandler(t.Output(), nil)),
		Address: func(*http.Request) netip.Addr {
			if h.asked != nil {
				select {
				case h.asked <- struct{}{}:
				default: // it has heard of one
				}
			}
			return netip.MustParseAddr("127.0.0.1")
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	h.local, h.operations = s.Key(), s.Operations()
	srv := httptest.NewServer(s)
	t.Cleanup(srv.Close)
	h.url = srv.URL
	return h
}

// shows has a device call home, and returns the code that it shows.
func (h *testServer) shows(hardware, client string) string {
	h.t.Helper()
	_, code, err := h.Accounts.DeviceSeen(h.t.Context(), store.DeviceCall{Kind: "xiaozhi", Hardware: hardware,
		Client: client, Article: "bread", Version: "2.0.3"})
	if err != nil || code == "" {
		h.t.Fatalf("%s shows %q (%v)", hardware, code, err)
	}
	return code
}

func (h *testServer) own(p store.Person, hardware, name string) store.Device {
	h.t.Helper()
	code := h.shows(hardware, "client-of-"+name)
	// Some time ago, so that nobody waits for it to be plugged in.
	past := account.New(h.Store, h.Box, func() time.Time { return time.Now().Add(-time.Minute) })
	d, err := past.ApproveDevice(h.t.Context(), account.NewDevice{Person: p.ID, Code: code, Name: name})
	if err != nil {
		h.t.Fatal(err)
	}
	return d
}

// answer is what the server says to a request.
type answer struct {
	status int
	header http.Header
	body   string
}

func (h *testServer) do(key, method, path, body string) answer {
	h.t.Helper()
	r, err := http.NewRequestWithContext(h.t.Context(), method, h.url+"/api/v1/devices"+path, strings.NewReader(body))
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
	return answer{resp.StatusCode, resp.Header, string(text)}
}

// ok makes a request that must succeed, and decodes the answer.
func (h *testServer) ok(into any, key, method, path, body string) {
	h.t.Helper()
	a := h.do(key, method, path, body)
	if a.status != http.StatusOK {
		h.t.Fatalf("%s %s: %d %s", method, path, a.status, a.body)
	}
	if err := json.Unmarshal([]byte(a.body), into); err != nil {
		h.t.Fatalf("%s %s: %v in %s", method, path, err, a.body)
	}
}

func (h *testServer) names(key string) string {
	h.t.Helper()
	var list control.Devices
	h.ok(&list, key, "GET", "", "")
	var names []string
	for _, d := range list.Devices {
		names = append(names, fmt.Sprintf("%s/%s/%v", d.OwnerName, d.Name, d.Online))
	}
	return strings.Join(names, " ")
}

func TestDevicesOfTwoPeople(t *testing.T) {
	h := newTestServer(t)
	for key, want := range map[string]string{
		h.local: "ada/kettle/false bob/lamp/false", h.admin: "ada/kettle/false bob/lamp/false",
		h.operator: "ada/kettle/false", h.bobs: "bob/lamp/false",
	} {
		if got := h.names(key); got != want {
			t.Errorf("listed are %q, want %q", got, want)
		}
	}
	var d control.Device
	h.ok(&d, h.bobs, "GET", "/AA-AA-AA-AA-AA-02", "")
	if d.Number != h.lamp.Number || d.OwnerName != "bob" || d.Version != "2.0.3" || d.Waiting {
		t.Errorf("the lamp is %+v", d)
	}
}

// Devices of others look as if they did not exist, whatever is done to them.
func TestForeignDevices(t *testing.T) {
	h := newTestServer(t)
	plugged(t, h, &provider{})
	for _, c := range []struct{ method, path, body string }{
		{"GET", "", ""}, {"PATCH", "", `{"name":"mine"}`}, {"DELETE", "", ""}, {"GET", "/tools", ""},
		{"POST", "/tools/status/call", "{}"}, {"GET", "/listen", ""},
	} {
		for _, ref := range []string{"kettle", "1", "aa:aa:aa:aa:aa:01"} {
			foreign := h.do(h.bobs, c.method, "/"+ref+c.path, c.body)
			none := h.do(h.bobs, c.method, "/nothing"+c.path, c.body)
			if foreign.status != http.StatusNotFound || foreign.body != strings.ReplaceAll(none.body, "nothing", ref) {
				t.Errorf("%s %s%s: %d %s, but of none %d %s", c.method, ref, c.path, foreign.status, foreign.body,
					none.status, none.body)
			}
		}
		if a := h.do("pb_wrong", c.method, "/kettle"+c.path, c.body); a.status != http.StatusUnauthorized {
			t.Errorf("%s kettle%s without a key: %d %s", c.method, c.path, a.status, a.body)
		}
	}
	if got := h.names(h.local); got != "ada/kettle/true bob/lamp/false" {
		t.Errorf("afterwards there are %q", got)
	}
}

// failing makes a request that must fail with a status, in words.
func (h *testServer) failing(status int, want, key, method, path, body string) answer {
	h.t.Helper()
	a := h.do(key, method, path, body)
	if a.status != status || !strings.Contains(a.body, want) {
		h.t.Errorf("%s %s %s: %d %s, want %d and %q", method, path, body, a.status, a.body, status, want)
	}
	return a
}

func TestApprove(t *testing.T) {
	h := newTestServer(t)
	code := h.shows("aa:aa:aa:aa:aa:03", "c3")
	wrong := fmt.Sprintf("%06d", (num(code)+1)%1_000_000)
	for _, c := range []struct {
		status int
		want   string
		key    string
		body   string
	}{
		{404, "no device shows this code", h.bobs, `{"code":"` + wrong + `"}`},
		{404, "no device shows this code", h.bobs, `{"code":"hello"}`},
		{404, `has no bot \"nobody\"`, h.bobs, `{"code":"` + code + `","bot":"nobody"}`},
		{404, "has no bot", h.bobs, fmt.Sprintf(`{"code":"%s","bot":"%d"}`, code, h.bot.Number)},
		{409, "another device of the same owner has this name", h.bobs, `{"code":"` + code + `","name":"lamp"}`},
		{400, "60 characters", h.bobs, `{"code":"` + code + `","name":"` + strings.Repeat("字", 61) + `"}`},
		{400, "control characters", h.bobs, `{"code":"` + code + `","name":"a\u0007"}`},
		{400, "cannot be empty", h.bobs, `{"code":"` + code + `","name":" "}`},
		{400, "body is invalid", h.bobs, `{"code":123456}`},
		{400, "body is invalid", h.bobs, strings.Repeat(" ", 100<<10)},
		{403, "scope admin", h.bobs, `{"code":"` + code + `","user":"ada"}`},
		{400, "2 people", h.local, `{"code":"` + code + `"}`},
		{404, "there is no user", h.local, `{"code":"` + code + `","user":"eve"}`},
	} {
		h.failing(c.status, c.want, c.key, "POST", "/approve", c.body)
	}
	var d control.Device
	h.ok(&d, h.bobs, "POST", "/approve", fmt.Sprintf(`{"code":"%s-%s ","name":"radio","bot":"bobs"}`, code[:3],
		code[3:]))
	if d.OwnerName != "bob" || d.Name != "radio" || d.Bot != h.bobsBot.Number || d.BotName != "bobs" || d.Waiting {
		t.Errorf("approved is %+v", d)
	}
	// A device that was erased shows a code, but is still its owner's.
	code = h.shows("aa:aa:aa:aa:aa:01", "erased")
	h.failing(409, "belongs to somebody else", h.bobs, "POST", "/approve", `{"code":"`+code+`"}`)
	d = control.Device{}
	if h.ok(&d, h.admin, "GET", "/kettle", ""); !d.Waiting {
		t.Errorf("a device that shows a code is %+v", d)
	}
	d = control.Device{}
	h.ok(&d, h.local, "POST", "/approve", `{"code":"`+code+`","user":"ada"}`)
	if d.Name != "kettle" || d.Number != h.kettle.Number || d.Waiting {
		t.Errorf("approved again is %+v", d)
	}
	for range 20 {
		h.do(h.bobs, "POST", "/approve", `{"code":"000000"}`)
	}
	a := h.failing(429, "too many codes", h.bobs, "POST", "/approve", `{"code":"000000"}`)
	if a.header.Get("Retry-After") != "600" {
		t.Errorf("it says %v", a.header)
	}
}

func num(code string) (n int) {
	fmt.Sscanf(code, "%d", &n) //nolint:errcheck // it is six digits
	return n
}

func TestWaiting(t *testing.T) {
	h := newTestServer(t)
	code := h.shows("aa:aa:aa:aa:aa:03", "its-client-id")
	d, err := h.Store.Devices.ByHardware(t.Context(), "xiaozhi", "aa:aa:aa:aa:aa:03")
	if err != nil {
		t.Fatal(err)
	}
	for key, devices := range map[string]int{h.bobs: 0, h.operator: 0, h.admin: 1, h.local: 1} {
		var w control.Waiting
		h.ok(&w, key, "GET", "/waiting", "")
		if w.Count != 1 || len(w.Devices) != devices || devices > 0 && w.Devices[0].Hardware != "aa:aa:aa:aa:aa:03" {
			t.Errorf("waiting are %+v, want %d of them listed", w, devices)
		}
		for _, path := range []string{"", "/waiting", "/1", "/2"} {
			text := h.do(key, "GET", path, "").body
			for _, secret := range []string{code, d.CodeHash, "its-client-id", "client-of-"} {
				if strings.Contains(text, secret) {
					t.Errorf("%s tells %q:\n%s", path, secret, text)
				}
			}
		}
	}
}

func TestChangeDevice(t *testing.T) {
	h := newTestServer(t)
	h.own(h.bob, "aa:aa:aa:aa:aa:03", "radio")
	for _, c := range []struct {
		status     int
		want, body string
	}{
		{400, "nothing to change", `{}`},
		{400, "body is invalid", `{"name":1}`},
		{400, "websocket, mqtt or default", `{"transport":"pigeon","name":"x"}`},
		{404, "has no bot", `{"name":"x","bot":"nobody"}`},
		{404, "has no bot", fmt.Sprintf(`{"name":"x","bot":"%d"}`, h.bot.Number)},
		{400, "cannot be empty", `{"name":"","bot":"bobs"}`},
		{409, "has this name", `{"name":"radio","room":"cellar","bot":"bobs"}`},
		{400, "control characters", `{"name":"x","room":"a\nb"}`},
		{400, "60 characters", `{"room":"` + strings.Repeat("x", 61) + `"}`},
	} {
		h.failing(c.status, c.want, h.bobs, "PATCH", "/lamp", c.body)
	}
	now, err := h.Store.Devices.ByNumber(t.Context(), h.lamp.Number)
	if err != nil || now.Name != "lamp" || now.Room != "" || now.Bot != 0 || now.Transport != "" {
		t.Errorf("what failed has changed it to %+v (%v)", now, err)
	}
	for _, c := range []struct{ key, path, body, want string }{
		{h.bobs, "/lamp", `{"name":"desk","room":" study ","bot":"bobs","transport":"mqtt"}`, "desk bobs mqtt study"},
		{h.admin, "/desk", `{"transport":"default"}`, "desk bobs  study"},
		{h.local, "/2", fmt.Sprintf(`{"bot":"none","name":"%s"}`, "a/b c"), "a/b c   study"},
		{h.local, "/2", `{"room":""}`, "a/b c   "},
		{h.bobs, "/a%2Fb%20c", fmt.Sprintf(`{"bot":"%d","transport":"websocket"}`, h.bobsBot.Number),
			"a/b c bobs websocket "},
	} {
		var d control.Device
		h.ok(&d, c.key, "PATCH", c.path, c.body)
		if got := d.Name + " " + d.BotName + " " + d.Transport + " " + d.Room; got != c.want || d.Number != h.lamp.Number {
			t.Errorf("%s makes it %q", c.body, got)
		}
	}
	var gone struct{ Removed bool }
	if h.ok(&gone, h.bobs, "DELETE", "/2", ""); !gone.Removed {
		t.Error("it is not said to be removed")
	}
	h.failing(404, "there is no device", h.bobs, "GET", "/2", "")
}

// A name that two people use is no name for an admin.
func TestVagueDevice(t *testing.T) {
	h := newTestServer(t)
	h.own(h.Person, "aa:aa:aa:aa:aa:03", "lamp")
	h.failing(409, "use its number", h.admin, "GET", "/lamp", "")
	var d control.Device
	if h.ok(&d, h.bobs, "GET", "/lamp", ""); d.Number != h.lamp.Number {
		t.Errorf("bob's lamp is %+v", d)
	}
}

func TestPagesOfDevices(t *testing.T) {
	h := newTestServer(t)
	h.own(h.bob, "aa:aa:aa:aa:aa:03", "radio")
	for _, c := range []struct {
		key, query string
		count      int
		next       int64
	}{
		{h.local, "", 3, 0}, {h.local, "?limit=2", 2, 2}, {h.admin, "?limit=2&after=2", 1, 0},
		{h.admin, "?limit=3", 3, 0}, {h.admin, "?after=3", 0, 0},
		{h.admin, "?limit=-1", 3, 0}, {h.bobs, "?limit=1", 1, 2},
	} {
		var page control.Devices
		if h.ok(&page, c.key, "GET", c.query, ""); len(page.Devices) != c.count || page.Next != c.next ||
			page.Devices == nil {
			t.Errorf("%s lists %d, and then from %d", c.query, len(page.Devices), page.Next)
		}
	}
	h.failing(400, "it must be a number", h.admin, "GET", "?limit=x", "")
}

// plugged plugs a device's provider in for ada's kettle, awake.
func plugged(t *testing.T, h *testServer, p tool.Provider) *hub.Registration {
	t.Helper()
	socket, err := h.Hub.Register(hub.ProviderRef{ID: "board:1", Owner: h.Person.ID,
		Slug: "kettle", Kind: "xiaozhi", Title: "kettle", Held: true}, p)
	if err != nil {
		t.Fatal(err)
	}
	schema := json.RawMessage(`{"type":"object","properties":{"volume":{"type":"integer"}}}`)
	socket.SetTools([]tool.Tool{
		{Name: "self.audio_speaker.set_volume", Description: "Loudness", Input: schema},
		{Name: "status", Description: "How it is", Hints: tool.ReadOnlyHints()},
		{Name: "record", Description: "Record"},
		{Name: "reboot", Description: "Start again", Dangerous: true},
	})
	return socket
}
