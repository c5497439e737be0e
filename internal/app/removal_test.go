package app

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"patchbay/internal/account"
	"patchbay/internal/hub"
	plugins "patchbay/internal/plug/eyeclaw/sim"
	homes "patchbay/internal/plug/mcp/sim"
	nodes "patchbay/internal/plug/openclaw/sim"
	"patchbay/internal/plug/openclaw/wire"
	"patchbay/internal/plug/rokid/sim"
	boards "patchbay/internal/plug/xiaozhi/sim"
	"patchbay/internal/store"
	"patchbay/internal/store/storetest"
)

func TestMain(m *testing.M) { storetest.Main(m) }

// cutOff is the time within which all connections of a removed person have to end. Streams of
// browsers take longest: they are checked every 20 seconds.
const cutOff = 40 * time.Second

// A member is removed while everything of theirs is connected, and a question and a call are
// active: all of it ends, nothing gives them access again, and the database keeps nothing of them
// but the record of the removal.
func TestRemovedWhileConnected(t *testing.T) {
	storetest.Each(t, func(t *testing.T, o store.Options) {
		d := newDesk(t, map[string]string{"database.url": o.URL, "nodes.approve_local": "true",
			"nodes.allow": "kitchen.wait", "trace.content": "true", "lingzhu.push_url": "",
			"fetch.private_hosts": "127.0.0.1"})
		m := newMember(d)
		if at, text := d.send("/settings/people/"+m.ID+"/remove", "name", m.Name); !strings.HasPrefix(at,
			"/settings/people") || strings.Contains(text, m.Name+"</h1>") {
			t.Fatalf("at %s there is\n%s", at, text)
		}
		m.cutOff()
		m.shutOut()
		if o.URL == "" {
			o.Folder = d.folder
		}
		d.stop() // the last writes are done by now
		for table, rows := range storetest.Rows(t, o) {
			for _, row := range rows {
				if table == "admin_events" && strings.Contains(row, "person.removed") {
					continue // the record of admin events stays
				}
				for what, of := range m.known {
					if strings.Contains(row, of) {
						t.Errorf("%s knows the %s still: %.300s", table, what, row)
					}
				}
			}
		}
	})
}

// member is a person with one of everything, connected.
type member struct {
	store.Person
	d       *desk
	known   map[string]string // values in records that only this member has
	key     string            // for programs and glasses
	cookie  string
	glasses *sim.Glasses
	hub     *boards.Board
	node    *nodes.Node
	home    string // the address for their tool server

	// ends has the channels of everything that has to end, by name.
	ends map[string]<-chan error
}

func newMember(d *desk) *member {
	t, ctx, b := d.t, d.t.Context(), d.base
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	m := &member{d: d, ends: map[string]<-chan error{}}
	var err error
	m.Person, err = b.Accounts.AddPerson(ctx, "mira-zq8", account.RoleMember, "en", "battery staple")
	must(err)
	m.known = map[string]string{"person": m.ID, "name": m.Name, "words": "zq8 words"}
	k, key, err := b.Accounts.AddKey(ctx, account.NewKey{Person: m.ID,
		Name: "all", Scopes: []string{account.ScopeMCP, account.ScopeNode, account.ScopeLingzhu,
			account.ScopeOperator}})
	must(err)
	m.key, m.known["key"] = key, k.ID
	m.cookie, err = b.Accounts.Admit(ctx, m.Person, account.Browser{Agent: "of zq8"})
	must(err)

	// A question that stays unanswered.
	asked := make(chan struct{}, 9)
	model := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body) //nolint:errcheck // discarded
		asked <- struct{}{}
		<-r.Context().Done()
	}))
	t.Cleanup(model.Close)
	bot, _, err := b.Registry.Add(ctx, hub.NewBot{Owner: m.ID,
		Name: "thinker", Kind: "openai", Set: map[string]string{"base_url": model.URL, "model": "m"}})
	must(err)
	m.glasses = sim.New(sim.Options{URL: d.url + "/sse/rokid", Key: key,
		UserID: "wearer-zq8", AgentID: fmt.Sprint(bot.Number), Lang: "en-US"})
	t.Cleanup(m.glasses.Close)
	m.known["wearer"] = "wearer-zq8"
	m.begins("question", func() error {
		a, err := m.glasses.Ask(ctx, "zq8 words", nil)
		if err == nil && a.Err == "" && a.Text == "" {
			err = errors.New("it is over without a word")
		}
		return err
	})
	<-asked

	// A voice board in a conversation.
	m.hub = boards.New(boards.Options{OTA: d.url + "/xiaozhi/ota/", Scale: 0.01, Slack: time.Minute,
		OnEvent: func(e boards.Event) {
			if e.Kind == boards.EventCode {
				// The second code no longer belongs to anybody.
				if _, err := b.Accounts.ApproveDevice(ctx, account.NewDevice{Person: m.ID, Code: e.Text,
					Name: "desk", Bot: bot.Number}); err != nil {
					t.Logf("the board is not approved: %v", err)
				}
			}
		}})
	t.Cleanup(m.hub.Close)
	must(m.hub.Boot(ctx))
	must(m.hub.Wake(ctx))
	m.begins("conversation", func() error {
		_, err := m.hub.Await(ctx, func(v boards.View) bool { return v.SessionID == "" })
		return err
	})

	// A node, and a program that runs a long command on it.
	began := make(chan struct{}, 1)
	m.node = nodes.NewNode(nodes.Options{
		URL: "ws" + strings.TrimPrefix(d.url, "http"), Token: key, Name: "zq8 node", Commands: []string{"kitchen.wait"},
		MinBackoff: 10 * time.Millisecond, MaxBackoff: 200 * time.Millisecond,
		Handler: func(ctx context.Context, _ string, _ json.RawMessage) (json.RawMessage, error) {
			began <- struct{}{}
			<-ctx.Done()
			return nil, ctx.Err()
		},
	})
	t.Cleanup(m.node.Close)
	m.known["node"] = m.node.ID()
	must(m.node.AwaitConnected(ctx))
	asks, err := b.Store.Peers.RequestOf(ctx, store.RequestSurface, m.node.ID(), time.Now())
	must(err)
	_, _, err = b.Store.Peers.Approve(ctx, store.PeerDecision{ID: asks.ID, Owner: m.ID, At: time.Now()})
	must(err)
	m.begins("node", func() error {
		return m.node.Await(ctx, func(s nodes.State) bool { return !s.Connected && s.Refused != nil })
	})
	operator, err := nodes.Dial(ctx, "ws"+strings.TrimPrefix(d.url, "http"),
		nodes.Operator(key, wire.ScopeRead, wire.ScopeWrite), nil, nil)
	must(err)
	t.Cleanup(operator.Cut)
	m.begins("operator", func() error { <-operator.Done(); return nil })

	// A program with a session, which listens, and waits for the node.
	session := m.session()
	listens := m.stream(http.MethodGet, "/mcp", session, "", "Accept", "text/event-stream")
	m.begins("session", func() error { _, err := io.Copy(io.Discard, listens.Body); return errIfLate(err) })
	name := ""
	d.waits("the node's command is a tool", func() bool {
		var list struct {
			Result struct{ Tools []struct{ Name string } }
		}
		m.rpc(session, `{"jsonrpc":"2.0","id":2,"method":"tools/list"}`, &list)
		for _, x := range list.Result.Tools {
			if strings.Contains(x.Name, "wait") {
				name = x.Name
			}
		}
		return name != ""
	})
	m.begins("call", func() error {
		resp := m.stream(http.MethodPost, "/mcp", session,
			fmt.Sprintf(`{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":%q,"arguments":{"say":"zq8 words"}}}`, name), "Content-Type", "application/json", "Accept", "application/json, text/event-stream")
		_, err := io.Copy(io.Discard, resp.Body)
		return errIfLate(err)
	})
	<-began

	// A plugin's bot, an inbound tool server, and an open page.
	_, token, err := b.Registry.Add(ctx, hub.NewBot{Owner: m.ID, Name: "lobster", Kind: "eyeclaw"})
	must(err)
	here, gone := make(chan struct{}, 9), make(chan struct{}, 9)
	plugin := plugins.New(plugins.Options{Server: d.url, Token: token, Watch: func(n plugins.Notice) {
		switch n.Kind {
		case plugins.Subscribed:
			here <- struct{}{}
		case plugins.Closed:
			gone <- struct{}{}
		}
	}})
	pctx, cancel := context.WithCancel(ctx)
	over := make(chan struct{})
	go func() {
		defer close(over)
		plugin.Run(pctx) //nolint:errcheck // it ends with the test
	}()
	t.Cleanup(func() { cancel(); <-over })
	<-here
	m.begins("plugin", func() error { <-gone; return nil })
	_, upToken, err := b.AddUpstream(ctx, m.Person, "robot", UpstreamDialsIn, &EndpointSettings{})
	must(err)
	m.home = "ws" + strings.TrimPrefix(d.url, "http") + "/mcp_endpoint/mcp/?token=" + url.QueryEscape(upToken)
	robot := dial(t, m.home)
	m.begins("tool server", func() error { <-robot.Done(); return nil })
	page := m.stream(http.MethodGet, "/bots/live", "", "", "Cookie", "patchbay="+m.cookie)
	first, err := bufio.NewReader(page.Body).ReadString('\n')
	if err != nil || first != ": hello\n" {
		t.Fatalf("the page is told %q, %v", first, err)
	}
	m.begins("page", func() error { _, err := io.Copy(io.Discard, page.Body); return errIfLate(err) })
	return m
}

// errIfLate ignores the error of a stream that was cut off.
func errIfLate(err error) error {
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// begins starts something that runs until it is cut off.
func (m *member) begins(what string, f func() error) {
	done := make(chan error, 1)
	go func() { done <- f() }()
	m.ends[what] = done
}

// stream sends a request without waiting for the end of the response.
func (m *member) stream(method, path, session, body string, headers ...string) *http.Response {
	m.d.t.Helper()
	req, err := http.NewRequestWithContext(m.d.t.Context(), method, m.d.url+path, strings.NewReader(body))
	if err != nil {
		m.d.t.Fatal(err)
	}
	if !slices.Contains(headers, "Cookie") {
		req.Header.Set("Authorization", "Bearer "+m.key)
	}
	if session != "" {
		req.Header.Set("Mcp-Session-Id", session)
		req.Header.Set("Mcp-Protocol-Version", "2025-06-18")
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := (&http.Client{Timeout: 2 * time.Minute, Transport: http.DefaultTransport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}).Do(req)
	if err != nil {
		m.d.t.Errorf("%s %s: %v", method, path, err)
		return &http.Response{Body: http.NoBody}
	}
	m.d.t.Cleanup(func() { resp.Body.Close() })
	return resp
}

// session starts an MCP session and returns its id.
func (m *member) session() string {
	m.d.t.Helper()
	resp := m.rpc("",
		`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"zq8 program","version":"1"}}}`, nil)
	m.rpc(resp.Header.Get("Mcp-Session-Id"), `{"jsonrpc":"2.0","method":"notifications/initialized"}`, nil)
	return resp.Header.Get("Mcp-Session-Id")
}

func (m *member) rpc(session, body string, into any) *http.Response {
	m.d.t.Helper()
	resp := m.stream(http.MethodPost, "/mcp", session, body, "Content-Type", "application/json", "Accept",
		"application/json, text/event-stream")
	text, err := io.ReadAll(resp.Body)
	if err == nil && into != nil {
		text = []byte(strings.TrimSpace(string(text)))
		if i := strings.Index(string(text), "data: "); i >= 0 {
			text = text[i+len("data: "):]
		}
		err = json.Unmarshal(text, into)
	}
	if err != nil {
		m.d.t.Errorf("%s is answered with %s: %v", body, text, err)
	}
	return resp
}

// cutOff checks that everything has ended.
func (m *member) cutOff() {
	m.d.t.Helper()
	began := time.Now()
	late := time.After(cutOff)
	for len(m.ends) > 0 {
		for _, what := range slices.Sorted(maps.Keys(m.ends)) {
			select {
			case err := <-m.ends[what]:
				m.d.t.Logf("after %v, the %s has ended: %v", time.Since(began).Round(time.Millisecond), what, err)
				delete(m.ends, what)
				continue
			default:
			}
			select {
			case err := <-m.ends[what]:
				m.d.t.Logf("after %v, the %s has ended: %v", time.Since(began).Round(time.Millisecond), what, err)
				delete(m.ends, what)
			case <-time.After(50 * time.Millisecond):
			case <-late:
				m.d.t.Fatalf("these have not ended after %v: %v", cutOff, slices.Sorted(maps.Keys(m.ends)))
			}
		}
	}
}

// shutOut checks that none of the member's credentials is accepted.
func (m *member) shutOut() {
	m.d.t.Helper()
	t := m.d.t
	if a, err := m.glasses.Ask(t.Context(), "zq8 words", nil); err == nil && a.Err == "" {
		t.Errorf("the glasses are answered with %q", a.Text)
	}
	for _, path := range []string{"/mcp", "/api/v1/bots", "/api/v1/devices"} {
		if resp := m.stream(http.MethodGet, path, "", ""); resp.StatusCode != http.StatusUnauthorized {
			t.Errorf("%s is answered with %s", path, resp.Status)
		}
	}
	if resp := m.stream(http.MethodGet, "/bots", "", "", "Cookie",
		"patchbay="+m.cookie); resp.StatusCode != http.StatusSeeOther {
		t.Errorf("the browser is answered with %s", resp.Status)
	}
	if robot, err := homes.Dial(t.Context(), m.home); err == nil {
		robot.Close()
		t.Error("the tool server is let in")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if _, err := m.hub.Ask(ctx, boards.GoodMorning()); err == nil {
		t.Error("the board is answered")
	}
	// The board belongs to whoever types in its code.
	d, code, err := m.d.base.Accounts.DeviceSeen(t.Context(),
		store.DeviceCall{Kind: "xiaozhi", Hardware: m.hub.MAC(), Client: uuid.NewString(), At: time.Now()})
	if err != nil || d.Owner != "" || code == "" {
		t.Errorf("the board is %+v, %v", d, err)
	}
}
