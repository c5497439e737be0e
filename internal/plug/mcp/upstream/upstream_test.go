package upstream

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"patchbay/internal/tool"
)

// kinds are all kinds of servers.
var kinds = []struct {
	name  string
	begin func(t *testing.T) Settings
	// expected values
	protocol, transport string
	// pushes means that the server can announce tool changes.
	pushes bool
	// off means that the cancellation of a call is visible in this process.
	off bool
}{
	{"streamable with sessions", func(t *testing.T) Settings {
		return Settings{URL: serve(t, streamableServer(newPeer(), nil)).URL}
	}, "2025-11-25", HTTP, true, true},
	{"streamable with sessions, in one piece", func(t *testing.T) Settings {
		return Settings{URL: serve(t, streamableServer(newPeer(), &mcp.StreamableHTTPOptions{JSONResponse: true})).URL}
	}, "2025-11-25", HTTP, true, true},
	{"streamable with sessions and an event store", func(t *testing.T) Settings {
		return Settings{URL: serve(t, streamableServer(newPeer(),
			&mcp.StreamableHTTPOptions{EventStore: mcp.NewMemoryEventStore(nil)})).URL}
	}, "2025-11-25", HTTP, true, true},
	{"old revision", func(t *testing.T) Settings {
		return Settings{URL: serve(t, streamableServer(newPeer("2025-03-26"), nil)).URL}
	}, "2025-03-26", HTTP, true, true},
	{"both, without sessions", func(t *testing.T) Settings {
		return Settings{URL: serve(t, streamableServer(newPeer(),
			&mcp.StreamableHTTPOptions{Stateless: true, PropagateRequestCancellation: true})).URL}
	}, "2026-07-28", HTTP, true, true},
	{"2026-07-28 only", func(t *testing.T) Settings {
		h := streamableServer(newPeer("2026-07-28"), &mcp.StreamableHTTPOptions{Stateless: true,
			PropagateRequestCancellation: true})
		return Settings{URL: serve(t, refuseInitialize(h)).URL}
	}, "2026-07-28", HTTP, true, true},
	{"old revision without sessions", func(t *testing.T) Settings {
		return Settings{URL: serve(t, streamableServer(newPeer("2025-06-18"),
			&mcp.StreamableHTTPOptions{Stateless: true})).URL}
	}, "2025-06-18", HTTP, false, false},
	{"HTTP+SSE", func(t *testing.T) Settings {
		peer := newPeer()
		return Settings{URL: serve(t, mcp.NewSSEHandler(func(*http.Request) *mcp.Server { return peer }, nil)).URL +
			"/sse"}
	}, "2025-11-25", SSE, true, true},
	{"HTTP+SSE behind an address that does not say so", func(t *testing.T) Settings {
		peer := newPeer()
		return Settings{URL: serve(t, mcp.NewSSEHandler(func(*http.Request) *mcp.Server { return peer }, nil)).URL +
			"/mcp"}
	}, "2025-11-25", SSE, true, true},
	{"command", func(*testing.T) Settings { return command("sdk") }, "2025-11-25", Stdio, true, false},
}

// refuseInitialize makes a server reject initialize.
func refuseInitialize(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Mcp-Method") == "" {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusBadRequest)
			_, _ = w.Write([]byte(`{"jsonrpc":"2.0","id":null,"error":{"code":-32022,"message":"unsupported protocol version","data":{"supported":["2026-07-28"]}}}`))
			return
		}
		h.ServeHTTP(w, r)
	})
}

// Everything works with every kind of server.
func TestKinds(t *testing.T) {
	for _, kind := range kinds {
		t.Run(kind.name, func(t *testing.T) {
			r := newRig(t, kind.begin(t), fastTimings()).ready()
			st := r.state(Ready)
			if st.Protocol != kind.protocol || st.Transport != kind.transport || st.Tools != 9 || st.Err != nil {
				t.Fatalf("status %+v", st)
			}
			if got := r.must("echo", `{"a":"<b> & 你好"}`); got != `{"a":"<b> & 你好"}` {
				t.Errorf("echo: %s", got)
			}
			if r.must("echo", "") != "{}" {
				t.Error("no arguments are not {}")
			}
			checkErrors(r)
			checkProgress(r)
			checkCallOff(r, kind.off)
			if kind.protocol == modernVersion {
				checkNeed(r)
			} else if kind.protocol != "2025-06-18" {
				if got := r.must("ask", "{}"); got != "ping <nil>, roots <nil>" {
					t.Errorf("what the server asks is answered with %s", got)
				}
			}
			r.must("grow", "{}")
			if kind.pushes {
				r.tools("the new tool", has("grown"))
				if got := r.must("grown", "{}"); got != "new" {
					t.Errorf("grown: %s", got)
				}
			}
			r.m.Close()
			if len(r.hub.registrations) != 0 || r.hub.unregistered != 1 {
				t.Errorf("after the end %d are plugged in, %d were unplugged", len(r.hub.registrations),
					r.hub.unregistered)
			}
		})
	}
}

func checkErrors(r *rig) {
	r.t.Helper()
	res, err := r.call(r.t.Context(), "fail", "{}")
	if err != nil || !res.IsError || res.PlainText() != "no such file" {
		r.t.Errorf("fail: %+v, %v", res, err)
	}
	e := r.fails(tool.Refused, "refuse", "{}")
	if e.RPC != -32007 || e.Told != "not on Sundays" || string(e.Data) != `{"day":"Sunday"}` {
		r.t.Errorf("refuse: %+v", e)
	}
	r.fails(tool.Refused, "nosuch", "{}")
}

func checkProgress(r *rig) {
	r.t.Helper()
	var got []tool.Progress
	res, err := r.do(r.t.Context(), &tool.Call{Tool: "progress",
		Progress: func(p tool.Progress) { got = append(got, p) }})
	if err != nil || res.PlainText() != "over" {
		r.t.Errorf("progress: %+v, %v", res, err)
	}
	want := []tool.Progress{{Done: 1, Total: 3, Message: "step"}, {Done: 2, Total: 3, Message: "step"},
		{Done: 3, Total: 3, Message: "step"}}
	if strings.Contains(r.t.Name(), "one_piece") { // progress comes on another stream, and may come too late
		want = want[:min(len(got), len(want))]
	}
	if !slices.Equal(got, want) {
		r.t.Errorf("progress was %v", got)
	}
}

// checkCallOff checks that a canceled call returns at once, and that the server is notified.
func checkCallOff(r *rig, noticed bool) {
	r.t.Helper()
	ctx, cancel := context.WithCancel(r.t.Context())
	for len(waiting)+len(calledOff) > 0 { // from another server
		select {
		case <-waiting:
		case <-calledOff:
		}
	}
	if noticed {
		go func() {
			<-waiting
			cancel()
		}()
	} else {
		time.AfterFunc(50*time.Millisecond, cancel)
	}
	began := time.Now()
	_, err := r.call(ctx, "wait", "{}")
	if !errors.Is(err, context.Canceled) || time.Since(began) > time.Second {
		r.t.Errorf("a call that was called off: %v after %v", err, time.Since(began))
	}
	if !noticed {
		return
	}
	select {
	case <-calledOff:
	case <-time.After(time.Second):
		r.t.Error("the server did not hear that nobody waits any more")
	}
}

// checkNeed checks that a server's request for input reaches the caller, and the answer the server.
func checkNeed(r *rig) {
	r.t.Helper()
	c := &tool.Call{Tool: "need", Capabilities: tool.Capabilities{Elicit: true}}
	res, err := r.do(r.t.Context(), c)
	if err != nil || res.InputRequired == nil || res.InputRequired.State != "round 1" ||
		res.InputRequired.Requests["name"].Method != "elicitation/create" {
		r.t.Fatalf("need: %+v, %v", res, err)
	}
	if !strings.Contains(string(res.InputRequired.Requests["name"].Params), "Your name?") {
		r.t.Errorf("the question is %s", res.InputRequired.Requests["name"].Params)
	}
	c.State, c.Answers = res.InputRequired.State,
		map[string]json.RawMessage{"name": json.RawMessage(`{"action":"accept","content":{"name":"Li"}}`)}
	if res, err = r.do(r.t.Context(), c); err != nil || res.PlainText() != "hello Li, state round 1" {
		r.t.Errorf("need, the second time: %+v, %v", res, err)
	}
	if got := r.must("region", `{"where":" 北京","deep":{"n":5}}`); got != "=?base64?IOWMl+S6rA==?=/5" {
		r.t.Errorf("arguments that are to be in headers: %s", got)
	}
}

// A stateless server that is a command.
func TestModernCommand(t *testing.T) {
	r := newRig(t, command("modern"), fastTimings()).ready()
	if st := r.state(Ready); st.Protocol != modernVersion {
		t.Errorf("status %+v", st)
	}
	r.must("do", "{}")
}

// Check returns what an upstream would have.
func TestCheck(t *testing.T) {
	for _, kind := range kinds {
		t.Run(kind.name, func(t *testing.T) {
			s := kind.begin(t)
			s.Deny = []string{"gr*"}
			r := newRig(t, s, nil)
			rep, err := Check(t.Context(), r.spec, r.m.opt)
			if err != nil {
				t.Fatal(err)
			}
			if rep.Server != "peer" || rep.Version != "9" || rep.Protocol != kind.protocol ||
				rep.Transport != kind.transport || len(rep.Tools) != 8 || rep.Hidden != 1 {
				t.Errorf("found %+v", rep)
			}
		})
	}
}

// Set starts, replaces and stops upstreams, and does not touch unchanged ones.
func TestSet(t *testing.T) {
	o := newScriptedServer(t, nil)
	b := newFakeHub()
	r := newRig(t, o.settings(), fastTimings())
	m := New(Options{Register: b.register, Logger: r.m.opt.Logger, times: fastTimings()})
	defer m.Close()
	spec := func(id string, version int64) Spec {
		return Spec{ID: id, Slug: id, Version: version, Settings: o.settings()}
	}
	plugged := func(want map[string]int64) func(b *fakeHub) bool {
		return func(b *fakeHub) bool {
			for id, version := range want {
				if s := b.registrations[id]; s == nil || s.spec.Version != version || len(s.offers) == 0 {
					return false
				}
			}
			return len(b.registrations) == len(want)
		}
	}
	m.Set([]Spec{spec("a", 1), spec("b", 1)})
	b.await(t, "a and b", plugged(map[string]int64{"a": 1, "b": 1}))
	m.Set([]Spec{spec("b", 2), spec("c", 1)})
	b.await(t, "b anew and c", plugged(map[string]int64{"b": 2, "c": 1}))
	if b.registered != 4 {
		t.Errorf("%d were plugged in, want 4", b.registered)
	}
	m.Set([]Spec{spec("b", 2), spec("c", 1)})
	for v := range int64(20) {
		m.Set([]Spec{spec("b", 3+v)})
	}
	b.await(t, "the last b", plugged(map[string]int64{"b": 22}))
	if _, ok := m.Status("c"); ok {
		t.Error("c still has a status")
	}
	m.Close()
	m.Set([]Spec{spec("z", 1)})
	if len(b.registrations) != 0 {
		t.Errorf("after the end %d are plugged in", len(b.registrations))
	}
	if _, ok := m.Status("z"); ok {
		t.Error("after the end there is an upstream")
	}
}
