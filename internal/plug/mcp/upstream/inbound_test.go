package upstream

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"

	"patchbay/internal/i18n"
	"patchbay/internal/settings"
	"patchbay/internal/tool"
)

// Everything works with an inbound server of the official SDK.
func TestDialsIn(t *testing.T) {
	r, url := newHost(t, Settings{}, fastTimings())
	st := r.state(Waiting)
	if !strings.Contains(st.Err.Message.In(i18n.English), "has not connected yet") ||
		st.Err.Message.In(i18n.Chinese) == "" ||
		!st.NextTry.IsZero() {
		t.Errorf("before it connects the status is %+v: %v", st, st.Err)
	}
	if r.hub.registered != 0 {
		t.Error("it is plugged in before it has connected")
	}
	conn, _, err := websocket.Dial(t.Context(), url, nil)
	if err != nil {
		t.Fatal(err)
	}
	session, err := newPeer().Connect(t.Context(), socketTransport{conn}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	r.tools("tools are offered", some)
	st = r.state(Ready)
	if st.Protocol != oldestSessionVersion || st.Transport != WebSocket || st.Tools != 9 || st.Err != nil ||
		st.Server != "peer" || st.ServerVersion != "9" {
		t.Fatalf("status %+v", st)
	}
	if got := r.must("echo", `{"a":"<b> & 你好"}`); got != `{"a":"<b> & 你好"}` {
		t.Errorf("echo: %s", got)
	}
	checkErrors(r)
	checkProgress(r)
	checkCallOff(r, true)
	if got := r.must("ask", "{}"); got != "ping <nil>, roots <nil>" {
		t.Errorf("what the server asks is answered with %s", got)
	}
	r.must("grow", "{}")
	r.tools("the new tool", has("grown"))
	r.must("grown", "{}")
	r.m.Close()
	if len(r.hub.registrations) != 0 || r.hub.unregistered != 1 {
		t.Errorf("after the end %d are plugged in, %d were unplugged", len(r.hub.registrations), r.hub.unregistered)
	}
}

// A server that reconnects soon changes no list, and a call in between waits for it. A server that
// does not is unregistered, and registered again when it connects.
func TestComesBack(t *testing.T) {
	times := fastTimings()
	r, url := newHost(t, Settings{}, times)
	f := dialInbound(t, url, nil)
	r.tools("tools are offered", some)
	r.state(Ready)
	for range 3 {
		f.conn.Close(websocket.StatusGoingAway, "good\nnight")
		st := r.state(Waiting)
		if !strings.Contains(st.Err.Message.In(i18n.English), "not connected") ||
			!strings.Contains(st.Err.Cause, "1001") ||
			st.Tools != 1 {
			t.Errorf("status %+v: %v", st, st.Err)
		}
		result := make(chan error, 1)
		go func() {
			_, err := r.call(t.Context(), "do", "{}")
			result <- err
		}()
		f = dialInbound(t, url, nil)
		if err := <-result; err != nil {
			t.Errorf("the call that waited: %v", err)
		}
	}
	if r.offers() != 1 || r.hub.registered != 1 || r.hub.holds != 4 {
		t.Errorf("%d lists were offered, %d were plugged in, %d connections were held", r.offers(), r.hub.registered,
			r.hub.holds)
	}
}

func TestStaysAway(t *testing.T) {
	times := fastTimings()
	times.toolsGrace, times.callWait = 200*time.Millisecond, 20*time.Millisecond
	r, url := newHost(t, Settings{}, times)
	f := dialInbound(t, url, nil)
	r.tools("tools are offered", some)
	r.state(Ready)
	provider := r.hub.registrations["u1"].provider
	left := time.Now()
	f.conn.CloseNow()
	r.state(Waiting)
	if e := r.fails(tool.Offline, "do", "{}"); !strings.Contains(e.Told, "Up is not connected") {
		t.Errorf("told was %q", e.Told)
	}
	r.hub.await(t, "it is unplugged", func(b *fakeHub) bool { return b.unregistered == 1 })
	if away := time.Since(left); away < times.toolsGrace {
		t.Errorf("it was unplugged after %v", away)
	}
	if st := r.status("no tools", func(st Status) bool { return st.Tools == 0 }); st.State != Waiting || st.Err == nil {
		t.Errorf("status %+v", st)
	}
	// A caller may still have the unregistered provider.
	if _, err := provider.Call(t.Context(), &tool.Call{Tool: "do"}); tool.AsError(err).Code != tool.Offline {
		t.Errorf("a call after the end: %v", err)
	}
	dialInbound(t, url, nil)
	r.tools("tools again", some)
	r.state(Ready)
	r.must("do", "{}")
}

// A newer connection replaces an older one, whose calls fail at once.
func TestReplaced(t *testing.T) {
	r, url := newHost(t, Settings{}, fastTimings())
	hold, begun := asks()
	older := dialInbound(t, url, map[string]inboundHandler{"tools/call": hold})
	r.tools("tools are offered", some)
	r.state(Ready)
	lost := make(chan error, 1)
	go func() {
		_, err := r.call(t.Context(), "do", "{}")
		lost <- err
	}()
	<-begun
	newer := dialInbound(t, url, nil)
	if err := <-lost; tool.AsError(err).Code != tool.Lost {
		t.Errorf("a call by the older connection: %v", err)
	}
	if code := older.told(); code != codeReplaced {
		t.Errorf("the older one was closed with %d", code)
	}
	if got := r.must("do", "{}"); got != "fine" || newer.count("tools/call") != 1 {
		t.Errorf("the call went elsewhere: %s", got)
	}
	if r.offers() != 1 || r.hub.registered != 1 {
		t.Errorf("%d lists were offered, %d were plugged in", r.offers(), r.hub.registered)
	}
	// A silent connection is replaced too, also one that was silent from the beginning.
	mute := dialInbound(t, url, map[string]inboundHandler{"initialize": hold})
	<-begun
	last := dialInbound(t, url, nil)
	if code := mute.told(); code != codeReplaced {
		t.Errorf("the mute one was closed with %d", code)
	}
	newer.told()
	r.must("do", "{}")
	if last.count("tools/call") != 1 {
		t.Error("the last one was not called")
	}
}

// If a connection breaks during a call, the call fails at once.
func TestLostInMidCall(t *testing.T) {
	r, url := newHost(t, Settings{}, fastTimings())
	drop := func(f *inboundServer, _ *message) string {
		f.conn.CloseNow()
		return ""
	}
	dialInbound(t, url, map[string]inboundHandler{"tools/call": drop})
	r.tools("tools are offered", some)
	r.state(Ready)
	r.vanishes("{}")
	r.state(Waiting)
	half := func(f *inboundServer, m *message) string {
		w, err := f.conn.Writer(context.Background(), websocket.MessageText)
		if err == nil {
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"resu%s`, m.ID, strings.Repeat(" ", 10_000))
		}
		f.conn.CloseNow()
		return ""
	}
	dialInbound(t, url, map[string]inboundHandler{"tools/call": half})
	r.state(Ready)
	r.vanishes("{}")
}

// Every change of an upstream closes its connection.
func TestCut(t *testing.T) {
	r, url := newHost(t, Settings{}, fastTimings())
	refused := func(url string, status int) {
		t.Helper()
		_, resp, err := websocket.Dial(t.Context(), url, nil)
		if err == nil || resp == nil || resp.StatusCode != status {
			t.Errorf("dialling was not refused with %d: %v", status, err)
		}
	}
	hold, begun := asks()
	f := dialInbound(t, url, map[string]inboundHandler{"tools/call": hold})
	r.tools("tools are offered", some)
	r.state(Ready)
	lost := make(chan error, 1)
	go func() {
		_, err := r.call(t.Context(), "do", "{}")
		lost <- err
	}()
	<-begun
	r.spec.Version++ // its token was rotated
	r.m.Set([]Spec{r.spec})
	if code := f.told(); code != codeChanged {
		t.Errorf("after a change it was closed with %d", code)
	}
	if err := <-lost; tool.AsError(err).Code != tool.Lost {
		t.Errorf("the call that was running: %v", err)
	}
	r.hub.await(t, "it is unplugged", func(b *fakeHub) bool { return len(b.registrations) == 0 })
	refused(url, http.StatusServiceUnavailable)

	url = r.inboundURL()
	f = dialInbound(t, url, nil)
	r.tools("tools again", some)
	r.state(Ready)
	r.must("do", "{}")
	r.m.Set(nil)
	if code := f.told(); code != codeChanged {
		t.Errorf("after the end it was closed with %d", code)
	}
	r.hub.await(t, "it is unplugged again", func(b *fakeHub) bool { return len(b.registrations) == 0 })
	refused(url, http.StatusServiceUnavailable)

	r.m.Set([]Spec{r.spec})
	f = dialInbound(t, url, nil)
	r.tools("tools again", some)
	r.m.Close()
	if code := f.told(); code != websocket.StatusGoingAway {
		t.Errorf("when we stop it is closed with %d", code)
	}
	refused(url, http.StatusServiceUnavailable)
}

// An upstream that is not inbound accepts no connection.
func TestOutboundUpstreamRefusesInbound(t *testing.T) {
	o := newScriptedServer(t, nil)
	r := newRig(t, o.settings(), fastTimings()).ready()
	_, resp, err := websocket.Dial(t.Context(), r.inboundURL(), nil)
	if err == nil || resp == nil || resp.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("it was let in: %v", err)
	}
	r.moved()
	r.must("do", "{}")
	// A request that is not a WebSocket gets an HTTP error.
	h, url := newHost(t, Settings{}, fastTimings())
	answer, err := http.Get(strings.Replace(url, "ws", "http", 1))
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	if answer.StatusCode != http.StatusUpgradeRequired {
		t.Errorf("it was answered with %d", answer.StatusCode)
	}
	h.state(Waiting)
}

// The faults of an inbound server are in the close reason and in the status.
func TestUnfit(t *testing.T) {
	nothing := func(*inboundServer, *message) string { return "" }
	for name, c := range map[string]struct {
		on    map[string]inboundHandler
		state State
		want  string
	}{
		"mute":    {map[string]inboundHandler{"initialize": nothing}, Waiting, "did not answer in time"},
		"no list": {map[string]inboundHandler{"tools/list": nothing}, Waiting, "did not answer in time"},
		"tomorrow": {map[string]inboundHandler{"initialize": func(*inboundServer,
			*message) string {
			return `{"protocolVersion":"2031-01-01"}`
		}}, Failed, "revisions"},
		"garbage": {map[string]inboundHandler{"initialize": func(*inboundServer, *message) string { return `7` }},
			Failed, "not MCP"},
		"refuses": {map[string]inboundHandler{"initialize": func(f *inboundServer, m *message) string {
			f.write(`{"jsonrpc":"2.0","id":%s,"error":{"code":-1,"message":"not you"}}`, m.ID)
			return ""
		}, "server/discover": func(f *inboundServer, m *message) string {
			f.write(`{"jsonrpc":"2.0","id":%s,"error":{"code":-1,"message":"nor so"}}`, m.ID)
			return ""
		}}, Failed, "not you"},
		"garbled list": {map[string]inboundHandler{"tools/list": func(*inboundServer,
			*message) string {
			return `{"tools":7}`
		}}, Failed, "not MCP"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			times := fastTimings()
			times.connectTimeout, times.listTimeout, times.callWait = 300*time.Millisecond, 300*time.Millisecond,
				10*time.Millisecond
			r, url := newHost(t, Settings{}, times)
			f := dialInbound(t, url, c.on)
			if code := f.told(); code != codeProtocolError {
				t.Errorf("it was closed with %d", code)
			}
			st := r.status("told", func(st Status) bool {
				return st.State == c.state && st.Err != nil && strings.Contains(st.Err.Message.In(i18n.English), c.want)
			})
			if st.Err.Message.In(i18n.Chinese) == "" || r.hub.registered != 0 {
				t.Errorf("status %v, %d plugged in", st.Err, r.hub.registered)
			}
			// The next connection may succeed.
			dialInbound(t, url, nil)
			r.tools("tools are offered", some)
			if st := r.state(Ready); st.Err != nil {
				t.Errorf("status %v", st.Err)
			}
		})
	}
}

// Servers that share a token are limited in how often they connect.
func TestTooOften(t *testing.T) {
	r, url := newHost(t, Settings{}, fastTimings())
	var all []*inboundServer
	for range inboundBurst {
		all = append(all, dialInbound(t, url, nil))
	}
	_, resp, err := websocket.Dial(t.Context(), url, nil)
	if err == nil || resp == nil || resp.StatusCode != http.StatusTooManyRequests {
		t.Errorf("one more was let in: %v", err)
	}
	// All but one are closed; which one came last is unknown.
	r.status("one is left", func(Status) bool {
		open := 0
		for _, f := range all {
			select {
			case <-f.over:
			default:
				open++
			}
		}
		return open == 1
	})
	r.tools("tools are offered", some)
	r.must("do", "{}")
}

// moved reports that the server has connected to another instance.
func (r *rig) moved() {
	r.m.mu.Lock()
	u := r.m.upstreams[r.spec.ID]
	r.m.mu.Unlock()
	u.Moved(math.MaxInt64)
}

// When a server has connected to another instance, its registration here is removed.
func TestMoved(t *testing.T) {
	r, url := newHost(t, Settings{}, fastTimings())
	r.moved() // it was not connected here
	f := dialInbound(t, url, nil)
	r.tools("tools are offered", some)
	r.state(Ready)
	r.moved()
	if code := f.told(); code != codeReplaced {
		t.Errorf("it was closed with %d", code)
	}
	r.hub.await(t, "it is unplugged", func(b *fakeHub) bool { return len(b.registrations) == 0 })
	r.status("moved", func(st Status) bool {
		return st.State == Waiting && strings.Contains(st.Err.Message.In(i18n.English), "another instance")
	})
	// An older connection that remains is closed too.
	f = dialInbound(t, url, nil)
	r.tools("tools again", some)
	r.state(Ready)
	f.conn.CloseNow()
	r.state(Waiting)
	r.moved()
	r.hub.await(t, "it is unplugged again", func(b *fakeHub) bool { return len(b.registrations) == 0 })
	dialInbound(t, url, nil)
	r.tools("tools once more", some)
}

// Connections that arrive during concurrent changes all end.
func TestComingAndGoing(t *testing.T) {
	r, url := newHost(t, Settings{}, fastTimings())
	var dialling sync.WaitGroup
	for range 8 {
		dialling.Go(func() {
			conn, _, err := websocket.Dial(t.Context(), url, nil)
			if err != nil {
				return
			}
			defer conn.CloseNow()
			for err == nil {
				_, _, err = conn.Read(t.Context())
			}
		})
	}
	for range 5 {
		r.moved()
		r.spec.Version++
		r.m.Set([]Spec{r.spec})
	}
	r.m.Close()
	dialling.Wait()
	if len(r.hub.registrations) != 0 {
		t.Error("something is still plugged in")
	}
}

func TestValidateDialsIn(t *testing.T) {
	for name, c := range map[string]struct {
		s    Settings
		want string
	}{
		"nothing": {Settings{}, ""},
		"all of it": {Settings{Allow: []string{"a*"}, Deny: []string{"b"}, Timeout: settings.Duration(time.Second),
			Concurrent: 2, MaxTools: 3}, ""},
		"an address": {Settings{URL: "https://x/?secret"}, "connects to this one"},
		"a command":  {Settings{Command: "x"}, "connects to this one"},
		"a way":      {Settings{Transport: WebSocket}, "connects to this one"},
		"a token":    {Settings{Token: "secret"}, "connects to this one"},
		"a pattern":  {Settings{Allow: []string{""}}, "empty pattern"},
		"a timeout":  {Settings{Timeout: settings.Duration(2 * time.Hour)}, "timeout is"},
	} {
		err := c.s.ValidateInbound()
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
		if err != nil {
			lacks(t, name, err.Error(), "secret")
		}
	}
	s := Settings{Transport: WebSocket}
	if s.Validate() == nil {
		t.Error("an owner can choose a transport that only we give")
	}
}
