package app

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"patchbay/internal/account"
	"patchbay/internal/config"
	"patchbay/internal/plug/mcp/sim"
	nodes "patchbay/internal/plug/openclaw/sim"
	"patchbay/internal/plug/openclaw/wire"
	"patchbay/internal/store/storetest"
)

// desk is a running server and its administrator's browser.
type desk struct {
	*http.Client
	t    *testing.T
	url  string
	base *Base
	key  string // for nodes

	folder string
	stop   func() // stops the server in order
}

// newDesk runs a server until the test ends.
func newDesk(t *testing.T, flags map[string]string) *desk {
	t.Helper()
	d := &desk{t: t, Client: &http.Client{Timeout: time.Minute}}
	d.folder = storetest.Folder(t, t.TempDir())
	all := map[string]string{"data": d.folder, "listen": "127.0.0.1:0"}
	for name, value := range flags {
		all[name] = value
	}
	c, _, err := config.Load(config.Sources{Flags: all})
	if err != nil {
		t.Fatal(err)
	}
	log, err := os.Create(filepath.Join(d.folder, "log"))
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ready, stopped := make(chan struct{}), make(chan error, 1)
	go func() {
		stopped <- Serve(ctx, c, Options{Version: "test", Logs: log, Ready: func(url string, b *Base) {
			d.url, d.base = url, b
			close(ready)
		}})
	}()
	d.stop = sync.OnceFunc(func() {
		d.CloseIdleConnections()
		stop()
		if err := <-stopped; err != nil {
			t.Error(err)
		}
		log.Close()
	})
	t.Cleanup(d.stop)
	select {
	case <-ready:
	case err := <-stopped:
		stopped <- nil
		t.Fatal(err)
	}
	p, err := d.base.Accounts.AddPerson(t.Context(), "ada", account.RoleAdmin, "en", "correct horse")
	if err != nil {
		t.Fatal(err)
	}
	if _, d.key, err = d.base.Accounts.AddKey(t.Context(), account.NewKey{Person: p.ID,
		Name: "nodes", Scopes: []string{account.ScopeNode}}); err != nil {
		t.Fatal(err)
	}
	token, err := d.base.Accounts.Admit(t.Context(), p, account.Browser{Agent: "test"})
	if err != nil {
		t.Fatal(err)
	}
	site, err := url.Parse(d.url)
	if err != nil {
		t.Fatal(err)
	}
	if d.Jar, err = cookiejar.New(nil); err != nil {
		t.Fatal(err)
	}
	d.Jar.SetCookies(site, []*http.Cookie{{Name: "patchbay", Value: token}})
	return d
}

// look returns the final address of a page and its text.
func (d *desk) look(resp *http.Response, err error) (at, text string) {
	d.t.Helper()
	if err != nil {
		d.t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		d.t.Fatal(err)
	}
	return resp.Request.URL.RequestURI(), string(body)
}

func (d *desk) open(path string) string {
	d.t.Helper()
	_, text := d.look(d.Get(d.url + path))
	return text
}

func (d *desk) send(path string, fields ...string) (at, text string) {
	d.t.Helper()
	form := url.Values{}
	for i := 0; i < len(fields); i += 2 {
		form.Set(fields[i], fields[i+1])
	}
	return d.look(d.PostForm(d.url+path, form))
}

// until reloads a page until it has a text.
func (d *desk) until(path, want string) string {
	d.t.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for limit := time.After(soon); ; {
		text := d.open(path)
		if strings.Contains(text, want) {
			return text
		}
		select {
		case <-tick.C:
		case <-limit:
			d.t.Fatalf("%s never has %q:\n%s", path, want, text)
		}
	}
}

// waits polls a condition.
func (d *desk) waits(what string, so func() bool) {
	d.t.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for limit := time.After(soon); !so(); {
		select {
		case <-tick.C:
		case <-limit:
			d.t.Fatalf("it never happens that %s", what)
		}
	}
}

// find returns the match of a pattern in a text.
func (d *desk) find(pattern, text string) string {
	d.t.Helper()
	m := regexp.MustCompile(pattern).FindStringSubmatch(text)
	if m == nil {
		d.t.Fatalf("there is no %s in\n%s", pattern, text)
	}
	return m[1]
}

// A tool server is checked, added, changed and removed in the console.
func TestServerByPages(t *testing.T) {
	d, h := newDesk(t, nil), home(t)
	fields := func(address string) []string {
		return []string{"way", "url", "name", "haus", "url", address, "token", "s3cret-token", "deny", "get_*"}
	}
	if _, text := d.send("/tools/upstreams/look", fields(h.URL)...); !strings.Contains(text, "Connected to home 1.0") ||
		!strings.Contains(text, "haus_set_lamp") || strings.Contains(text, "haus_get") ||
		strings.Contains(text, "s3cret") {
		t.Errorf("the look says\n%s", text)
	}
	at, text := d.send("/tools/upstreams", fields("http://127.0.0.1:1/mcp")...)
	if at != "/tools/upstreams" || !strings.Contains(text, "Nothing was saved") ||
		!strings.Contains(text, `value="haus"`) || !strings.Contains(text, "get_*") ||
		strings.Contains(text, "s3cret") {
		t.Errorf("it goes to %s and says\n%s", at, text)
	}
	at, _ = d.send("/tools/upstreams", fields(h.URL)...)
	if at != "/tools/upstreams/1" {
		t.Fatalf("it goes to %s", at)
	}
	text = d.until("/tools/upstreams/1", "See its tools")
	if !strings.Contains(text, "connected") || !strings.Contains(text, "left out by your choice: 1 more") ||
		strings.Contains(text, "s3cret") {
		t.Errorf("its page is\n%s", text)
	}
	if _, text = d.send("/tools/haus_set_lamp/call", "arg.room", "study", "arg.level", "40"); !strings.Contains(text,
		"The lamp in study is at 40.") {
		t.Errorf("the lamp says\n%s", text)
	}
	if text = d.open("/tools/upstreams/1/edit"); strings.Contains(text, "s3cret") ||
		!strings.Contains(text, "One is kept") || !strings.Contains(text, "get_*") {
		t.Errorf("its form is\n%s", text)
	}
	if at, _ = d.send("/tools/upstreams/1/change", "url", h.URL, "deny", "", "timeout",
		"30"); at != "/tools/upstreams/1" {
		t.Errorf("it goes to %s", at)
	}
	d.until("/tools?q=haus", "haus_get_temperature")
	u, err := d.base.Store.Upstreams.ByOwner(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	if s, err := d.base.ReadUpstream(u[0]); err != nil {
		t.Error(err)
	} else if text, _ := json.Marshal(s); !strings.Contains(string(text), "s3cret-token") ||
		!strings.Contains(string(text), `"30s"`) {
		t.Errorf("its settings are %s", text)
	}
	if at, text = d.send("/tools/upstreams/1/change", "url", h.URL, "concurrent", "many"); !strings.Contains(text,
		"no whole number") {
		t.Errorf("at %s it says\n%s", at, text)
	}
	if at, _ = d.send("/tools/upstreams/1/remove"); at != "/tools/upstreams" {
		t.Errorf("it goes to %s", at)
	}
	d.until("/tools?q=haus", "No tool fits")
	// One that connects to us.
	_, text = d.send("/tools/upstreams", "way", "endpoint", "name", "robot")
	robot, err := sim.Dial(t.Context(), d.find(`<code id="endpoint">(ws://[^<]+)</code>`, text))
	if err != nil {
		t.Fatal(err)
	}
	defer robot.Close()
	d.until("/tools/upstreams/2", "See its tools")
	if text = d.open("/tools/upstreams/2"); strings.Contains(text, "token=") {
		t.Error("the token is shown again")
	}
	if _, text = d.send("/tools/upstreams/2/rotate"); !strings.Contains(text, `id="endpoint"`) {
		t.Errorf("the new token is not shown:\n%s", text)
	}
	<-robot.Done()
}

// A node is paired, allowed its commands, sent one, and removed in the console.
func TestNodeByPages(t *testing.T) {
	d := newDesk(t, map[string]string{"nodes.approve_local": "false", "nodes.deny": "system.run"})
	me := wire.NewIdentity()
	n := nodes.NewNode(nodes.Options{
		URL: "ws" + strings.TrimPrefix(d.url, "http"), Token: d.key, Identity: me,
		Name: "Study", MinBackoff: 10 * time.Millisecond, MaxBackoff: 50 * time.Millisecond,
		Commands: []string{"system.which", "system.run", "camera.snap"},
		Handler: func(_ context.Context, command string, params json.RawMessage) (json.RawMessage, error) {
			if string(params) != `{"bins":["git"]}` {
				return nil, nodes.Fail("INVALID", "which bins?")
			}
			return json.RawMessage(`{"bins":{"git":"/usr/bin/git"}}`), nil
		},
	})
	defer n.Close()
	text := d.until("/gateway", "wants to connect, as node")
	if !strings.Contains(text, "Study") || !strings.Contains(text, "openclaw node run --host 127.0.0.1") ||
		!strings.Contains(text, "system.run") {
		t.Errorf("the gateway is\n%s", text)
	}
	approve := `action="(/gateway/pairs/[^"]+/approve)"`
	d.send(d.find(approve, text))
	text = d.until("/gateway", "wants to run these commands")
	page := "/gateway/nodes/" + me.ID()
	if !strings.Contains(text, page) || !strings.Contains(text, "<code>system.which</code>") {
		t.Errorf("the gateway is\n%s", text)
	}
	if waits := d.open(page); !strings.Contains(waits, "waits for your approval") ||
		!strings.Contains(waits, "There is no command that can be called yet") {
		t.Errorf("as long as nothing is approved it is\n%s", waits)
	}
	if strings.Contains(text, "wants to connect, as node") {
		t.Errorf("who is let in wants in still:\n%s", text)
	}
	d.send(d.find(approve, text))
	text = d.until(page, "Run: system.which")
	for _, want := range []string{"approved", "connected", "linux"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in\n%s", want, text)
		}
	}
	if _, text = d.send(page+"/invoke", "command", "system.which", "params",
		`{"bins":["git"]}`); !strings.Contains(text, "/usr/bin/git") {
		t.Errorf("what came is\n%s", text)
	}
	for params, want := range map[string]string{"{": "The parameters are no JSON", "{}": "which bins?"} {
		if _, text = d.send(page+"/invoke", "command", "system.which", "params", params); !strings.Contains(text,
			want) {
			t.Errorf("%s: %q is not in\n%s", params, want, text)
		}
	}
	if _, text = d.send(page+"/invoke", "command", "camera.snap"); !strings.Contains(text, "camera.snap") ||
		!strings.Contains(text, `role="alert"`) {
		t.Errorf("what is refused is\n%s", text)
	}
	if _, text = d.send(page+"/rename", "name", "Attic"); !strings.Contains(text, "<h1>Attic</h1>") {
		t.Errorf("it is called\n%s", text)
	}
	if at, text := d.send(page + "/remove"); at != "/gateway" || strings.Contains(text, page) {
		t.Errorf("at %s there is\n%s", at, text)
	}
	if text = d.open(page); !strings.Contains(text, "There is no such node") {
		t.Errorf("what is gone is\n%s", text)
	}
}

// Programs can do the same through the JSON API.
func TestServerByAPI(t *testing.T) {
	d, h := newDesk(t, nil), home(t)
	p, err := d.base.Store.People.ByName(t.Context(), "ada")
	if err != nil {
		t.Fatal(err)
	}
	_, key, err := d.base.Accounts.AddKey(t.Context(), account.NewKey{Person: p.ID,
		Name: "operator", Scopes: []string{account.ScopeOperator}})
	if err != nil {
		t.Fatal(err)
	}
	ask := func(method, path, body string, want int, into any) string {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, d.url+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+key)
		resp, err := d.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_, text := d.look(resp, nil)
		if resp.StatusCode != want {
			t.Errorf("%s %s is answered with %d: %s", method, path, resp.StatusCode, text)
		}
		if into != nil {
			if err := json.Unmarshal([]byte(text), into); err != nil {
				t.Errorf("%s: %v", text, err)
			}
		}
		return text
	}
	var found struct {
		Tools   []string
		Problem string
	}
	ask(http.MethodPost, "/api/v1/upstreams/check", `{"name":"haus","kind":"mcp","settings":{"url":"`+h.URL+`"}}`,
		http.StatusOK, &found)
	if len(found.Tools) != 3 || found.Problem != "" {
		t.Errorf("%+v", found)
	}
	ask(http.MethodPost, "/api/v1/upstreams/check",
		`{"name":"haus","kind":"mcp","settings":{"url":"http://127.0.0.1:1"}}`, http.StatusOK, &found)
	if !strings.Contains(found.Problem, "Nothing listens") {
		t.Errorf("%+v", found)
	}
	ask(http.MethodPost, "/api/v1/upstreams", `{"name":"haus","kind":"mcp","settings":{"url":"http://127.0.0.1:1"}}`,
		http.StatusServiceUnavailable, nil)
	ask(http.MethodPost, "/api/v1/upstreams", `{"name":"haus","kind":"mcp","settings":{"command":"true"}}`,
		http.StatusForbidden, nil)
	ask(http.MethodPost, "/api/v1/upstreams", `{"name":"haus","kind":"mcp","settings":{"url":7}}`,
		http.StatusBadRequest, nil)
	var added struct{ ID int64 }
	ask(http.MethodPost, "/api/v1/upstreams", `{"name":"haus","kind":"mcp","settings":{"url":"`+h.URL+
		`","token":"s3cret-token"}}`, http.StatusOK, &added)
	if added.ID != 1 {
		t.Fatalf("%+v", added)
	}
	if text := ask(http.MethodGet, "/api/v1/upstreams/1", "", http.StatusOK, nil); strings.Contains(text, "s3cret") ||
		!strings.Contains(text, `"url":"`+h.URL) {
		t.Error(text)
	}
	ask(http.MethodPatch, "/api/v1/upstreams/1", `{"settings":{"deny":["reset"]}}`, http.StatusOK, nil)
	d.until("/tools?q=haus", "Found: 2.")
	var decided struct{ Matches int }
	ask(http.MethodPost, "/api/v1/tools/haus_*/rule", `{"rule":"deny"}`, http.StatusOK, &decided)
	if decided.Matches != 2 {
		t.Errorf("%+v", decided)
	}
	if text := ask(http.MethodGet, "/api/v1/rules", "", http.StatusOK, nil); !strings.Contains(text, `"haus_*"`) ||
		!strings.Contains(text, `"owner_name":"ada"`) {
		t.Error(text)
	}
	if text := ask(http.MethodGet, "/api/v1/tools?name=haus_set_lamp", "", http.StatusOK, nil); !strings.Contains(text,
		`"state":"denied"`) {
		t.Error(text)
	}
	ask(http.MethodPost, "/api/v1/tools/haus_*/rule", `{"rule":""}`, http.StatusOK, nil)
	ask(http.MethodPost, "/api/v1/tools/haus_*/rule", `{"rule":"maybe"}`, http.StatusBadRequest, nil)
	ask(http.MethodPost, "/api/v1/upstreams/1/rotate", "", http.StatusBadRequest, nil)
	ask(http.MethodDelete, "/api/v1/upstreams/1", "", http.StatusOK, nil)
	ask(http.MethodDelete, "/api/v1/upstreams/1", "", http.StatusNotFound, nil)
}
