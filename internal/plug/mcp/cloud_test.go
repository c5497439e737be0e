package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"patchbay/internal/fetch"
	"patchbay/internal/hub"
	"patchbay/internal/i18n"
	"patchbay/internal/tool"
)

// fakeCloud is a service like XiaoZhi's: it accepts connections and calls the peer's tools.
type fakeCloud struct {
	url   string
	conns chan *websocket.Conn
}

func newFakeCloud(t *testing.T) *fakeCloud {
	t.Helper()
	f := &fakeCloud{conns: make(chan *websocket.Conn, 10)}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("token") != "secret-token" {
			http.Error(w, "no", http.StatusUnauthorized)
			return
		}
		conn, err := websocket.Accept(w, r, nil)
		if err != nil {
			t.Error(err)
			return
		}
		f.conns <- conn
	}))
	t.Cleanup(s.Close)
	f.url = "ws" + strings.TrimPrefix(s.URL, "http") + "/mcp/?token=secret-token"
	return f
}

// dialled returns the next connection.
func (f *fakeCloud) dialled(t *testing.T) *websocket.Conn {
	t.Helper()
	select {
	case c := <-f.conns:
		t.Cleanup(func() { c.CloseNow() })
		return c
	case <-time.After(testTimeout):
		t.Fatal("nobody dials")
	}
	return nil
}

// ask sends a message and returns the response with the id; it skips other messages.
func ask(t *testing.T, c *websocket.Conn, msg, id string) map[string]any {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
	defer cancel()
	if err := c.Write(ctx, websocket.MessageText, []byte(msg)); err != nil {
		t.Fatal(err)
	}
	for id != "" {
		_, data, err := c.Read(ctx)
		if err != nil {
			t.Fatal(err)
		}
		var m map[string]any
		if err := json.Unmarshal(data, &m); err != nil {
			t.Fatal(err)
		}
		if got, _ := json.Marshal(m["id"]); string(got) == id {
			return m
		}
	}
	return nil
}

func (r *rig) clouds(t *testing.T, instance string) *Clouds {
	t.Helper()
	cs := NewClouds(CloudOptions{
		Server: r.server,
		Lease: func(ctx context.Context, name string, d time.Duration) (bool, error) {
			return r.Store.Leases.Take(ctx, name, instance, time.Now(), time.Now().Add(d))
		},
		Release: func(ctx context.Context, name string) error { return r.Store.Leases.Release(ctx, name, instance) },
	})
	t.Cleanup(cs.Close)
	return cs
}

// A cloud has no key that could end: its connection outlives changes of the tools, of which it is
// told.
func TestCloudHearsOfTools(t *testing.T) {
	r := newRig(t, rigOptions{})
	says := providerFunc(func(context.Context, *tool.Call) (*tool.Result, error) { return tool.Text("here"), nil })
	r.register(t, hub.ProviderRef{ID: "lamp", Slug: "lamp", Kind: "k", Owner: r.Person.ID}, says, tool.Tool{Name: "on"})
	f := newFakeCloud(t)
	r.clouds(t, "here").Set([]Cloud{{ID: "upstream:1", Version: 1, Slug: "xiaozhi", Owner: r.Person.ID, URL: f.url,
		Allow: []string{"*"}}})
	conn := f.dialled(t)
	ask(t, conn, `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2024-11-05",`+
		`"capabilities":{},"clientInfo":{"name":"xiaozhi","version":"1"}}}`, "0")
	ask(t, conn, `{"jsonrpc":"2.0","method":"notifications/initialized"}`, "")
	for i := range 3 {
		slug := fmt.Sprint("lamp", i)
		r.register(t, hub.ProviderRef{ID: slug, Slug: slug, Kind: "k", Owner: r.Person.ID}, says, tool.Tool{Name: "on"})
		for {
			ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
			_, data, err := conn.Read(ctx)
			cancel()
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(string(data), "notifications/tools/list_changed") {
				break
			}
		}
	}
	r.server.refreshListeners() // as it is done every ten seconds
	list, _ := json.Marshal(ask(t, conn, `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{}}`, "1"))
	if !strings.Contains(string(list), "lamp2_on") {
		t.Errorf("it is offered %s", list)
	}
}

// A cloud is dialed, gets the selected tools only, and short results. When it ends the connection,
// it is dialed again, by one instance at a time.
func TestCloud(t *testing.T) {
	r := newRig(t, rigOptions{})
	says := providerFunc(func(_ context.Context, c *tool.Call) (*tool.Result, error) {
		return tool.Text(strings.Repeat("长", 1000)), nil
	})
	r.register(t, hub.ProviderRef{ID: "lamp", Slug: "lamp", Kind: "k", Owner: r.Person.ID}, says, tool.Tool{Name: "on"},
		tool.Tool{Name: "off"}, tool.Tool{Name: "secret"})
	r.register(t, hub.ProviderRef{ID: "door", Slug: "door", Kind: "k", Owner: r.Person.ID}, says,
		tool.Tool{Name: "open"})
	f := newFakeCloud(t)
	here, there := r.clouds(t, "here"), r.clouds(t, "there")
	spec := []Cloud{{ID: "upstream:1", Version: 1, Slug: "xiaozhi", Owner: r.Person.ID, URL: f.url,
		Allow: []string{"lamp_*"}, Deny: []string{"*_secret"}}}
	here.Set(spec)
	conn := f.dialled(t)
	there.Set(spec)

	if m := ask(t, conn,
		`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2024-11-05","capabilities":{},"clientInfo":{"name":"xiaozhi","version":"1"}}}`, "0"); m["result"].(map[string]any)["protocolVersion"] != "2024-11-05" {
		t.Errorf("initialize: %v", m)
	}
	ask(t, conn, `{"jsonrpc":"2.0","method":"notifications/initialized"}`, "")
	list, _ := json.Marshal(ask(t, conn, `{"jsonrpc":"2.0","id":"list-1","method":"tools/list","params":{}}`,
		`"list-1"`))
	if got := string(list); !strings.Contains(got, "lamp_on") || !strings.Contains(got, "lamp_off") ||
		strings.Contains(got, "secret") || strings.Contains(got, "door_open") {
		t.Errorf("it is offered %s", got)
	}
	res, _ := json.Marshal(ask(t, conn,
		`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"lamp_on","arguments":{}}}`, "2"))
	if len(res) > 1200 || !strings.Contains(string(res), "…") {
		t.Errorf("a long result has %d bytes", len(res))
	}
	if m := ask(t, conn, `{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"door_open","arguments":{}}}`,
		"3"); !strings.Contains(toText(m), "not allowed") {
		t.Errorf("a tool that was not chosen: %v", m)
	}
	if m := ask(t, conn, `{"jsonrpc":"2.0","id":4,"method":"ping"}`, "4"); toText(m["result"]) != "{}" {
		t.Errorf("ping: %v", m)
	}
	r.Hub.WaitForCallRecords(t.Context())
	rows, err := r.Store.Calls.Newest(t.Context(), r.Person.ID, time.Now().Add(time.Minute), 9)
	if err != nil || len(rows) == 0 || rows[0].Address == "" || rows[0].Address != hostOf(f.url) {
		t.Errorf("the audit trail has %+v %v", rows, err)
	}
	if s, _ := here.Status("upstream:1"); !s.Connected {
		t.Errorf("status: %+v", s)
	}

	conn.Close(4004, "Internal server error")
	f.dialled(t)
	select {
	case <-f.conns:
		t.Error("the other instance dials too")
	default:
	}
	// The instance stops and releases the lease, so the other one connects at once.
	here.Close()
	f.dialled(t)
}

// The status explains a refused address, and the token appears nowhere.
func TestCloudRefused(t *testing.T) {
	r := newRig(t, rigOptions{})
	f := newFakeCloud(t)
	cs := r.clouds(t, "here")
	cs.Dial = fetch.New(fetch.Options{}).Dial
	cs.Set([]Cloud{
		{ID: "upstream:1", Version: 1, Slug: "x", Owner: r.Person.ID,
			URL: strings.Replace(f.url, "secret-token", "wrong-token", 1), Allow: []string{"*"}},
		{ID: "upstream:2", Version: 1, Slug: "y", Owner: r.Person.ID, URL: f.url, Allow: []string{"*"},
			Untrusted: true},
	})
	for id, say := range map[string]i18n.Message{"upstream:1": msgCloudRefused, "upstream:2": msgCloudPrivate} {
		deadline := time.Now().Add(testTimeout)
		for {
			s, _ := cs.Status(id)
			if s.Problem.Message == say && s.NextTry.After(time.Now()) {
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("status %+v", s)
			}
		}
	}
}

func toText(v any) string {
	text, _ := json.Marshal(v)
	return string(text)
}

// This server offers the same kind of endpoint to clients with a key in the address.
func TestWebSocketChannel(t *testing.T) {
	r := newRig(t, rigOptions{})
	r.register(t, hub.ProviderRef{ID: "a", Kind: "k"}, providerFunc(func(_ context.Context, c *tool.Call) (*tool.Result,
		error) {
		return tool.Text("hi"), nil
	}), tool.Tool{Name: "hello"})
	address := "ws" + strings.TrimPrefix(r.url, "http") + "/mcp_endpoint/call/?token="
	if _, resp, err := websocket.Dial(t.Context(), address+"wrong", nil); err == nil ||
		resp.StatusCode != http.StatusUnauthorized {
		t.Errorf("a wrong token: %v", err)
	}
	conn, _, err := websocket.Dial(t.Context(), address+r.key, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.CloseNow()
	if m := ask(t, conn, callBody(1, "hello", "{}"), "1"); !strings.Contains(toText(m), `"hi"`) {
		t.Errorf("it says %v", m)
	}
	if m := ask(t, conn, `{"jsonrpc":"2.0","id":2}`, "2"); !strings.Contains(toText(m), "-32600") {
		t.Errorf("half a message: %v", m)
	}
	r.register(t, hub.ProviderRef{ID: "b", Slug: "new", Kind: "k"}, providerFunc(nil), tool.Tool{Name: "x"})
	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
	defer cancel()
	if _, data, err := conn.Read(ctx); err != nil || !strings.Contains(string(data), "tools/list_changed") {
		t.Errorf("after a change: %s, %v", data, err)
	}
}
