package upstream

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"patchbay/internal/i18n"
	"patchbay/internal/settings"
	"patchbay/internal/tool"
)

// If a server disconnects during a call, the call fails at once.
func TestVanishes(t *testing.T) {
	t.Run("streamable", func(t *testing.T) {
		o := newScriptedServer(t, map[string]scriptedHandler{"tools/call": func(w http.ResponseWriter, _ *http.Request,
			_ *message) string {
			conn, _, err := w.(http.Hijacker).Hijack()
			if err == nil {
				conn.Close()
			}
			return ""
		}})
		newRig(t, o.settings(), fastTimings()).ready().vanishes("{}")
	})
	t.Run("in the middle of a stream", func(t *testing.T) {
		o := newScriptedServer(t, map[string]scriptedHandler{"tools/call": func(w http.ResponseWriter, _ *http.Request,
			m *message) string {
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprintf(w, "data: {\"jsonrpc\":\"2.0\",\"id\":%s,\"resu", m.ID)
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		}})
		newRig(t, o.settings(), fastTimings()).ready().vanishes("{}")
	})
	t.Run("at the end of a stream without an answer", func(t *testing.T) {
		o := newScriptedServer(t, map[string]scriptedHandler{"tools/call": func(w http.ResponseWriter, _ *http.Request,
			_ *message) string {
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprint(w, ": nothing\n\n")
			return ""
		}})
		newRig(t, o.settings(), fastTimings()).ready().vanishes("{}")
	})
	t.Run("HTTP+SSE", func(t *testing.T) {
		cut := make(chan struct{})
		old := newOldServer(t, func(e *oldServer, m *message) { close(cut) })
		old.cut = cut
		newRig(t, Settings{URL: old.srv.URL, Transport: SSE}, fastTimings()).ready().vanishes("{}")
	})
	t.Run("command", func(t *testing.T) {
		r := newRig(t, command("misc"), fastTimings()).ready()
		r.vanishes(`{"what":"exit"}`)
		if got := r.must("do", "{}"); got != "fine" { // it was restarted
			t.Errorf("the next call: %s", got)
		}
	})
}

func (r *rig) vanishes(args string) {
	r.t.Helper()
	began := time.Now()
	r.fails(tool.Lost, "do", args)
	if took := time.Since(began); took > 5*time.Second {
		r.t.Errorf("that took %v", took)
	}
}

// oldServer is a hand-written HTTP+SSE server.
type oldServer struct {
	t    *testing.T
	srv  *httptest.Server
	call func(*oldServer, *message)
	cut  <-chan struct{} // ends the stream; may be nil

	out chan string
}

func newOldServer(t *testing.T, call func(*oldServer, *message)) *oldServer {
	o := &oldServer{t: t, call: call, out: make(chan string, 100)}
	o.srv = httptest.NewServer(o)
	t.Cleanup(func() {
		o.srv.CloseClientConnections()
		o.srv.Close()
	})
	return o
}

func (o *oldServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodPost {
		body, _ := io.ReadAll(r.Body)
		m, err := readMessage(body)
		if err != nil || r.URL.Path != "/post" {
			o.t.Errorf("%s came to %s", body, r.URL.Path)
		}
		w.WriteHeader(http.StatusAccepted)
		o.answer(&m)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	fmt.Fprint(w, "event: endpoint\r\ndata: /post?session=1\r\n\r\n")
	for {
		w.(http.Flusher).Flush()
		select {
		case text := <-o.out:
			fmt.Fprintf(w, "event: message\ndata: %s\n\n", text)
		case <-o.cut:
			panic(http.ErrAbortHandler)
		case <-r.Context().Done():
			return
		}
	}
}

func (o *oldServer) answer(m *message) {
	switch {
	case m.ID == nil || m.Method == "":
	case m.Method == "initialize":
		o.say(m, strings.Replace(initialized, "2025-06-18", "2024-11-05", 1))
	case m.Method == "tools/list":
		o.say(m, oneTool)
	case m.Method == "tools/call":
		o.call(o, m)
	default:
		o.say(m, "{}")
	}
}

func (o *oldServer) say(m *message, result string) {
	o.out <- fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, result)
}

// A late response has no effect.
func TestLateAnswer(t *testing.T) {
	late := make(chan *message, 1)
	old := newOldServer(t, func(o *oldServer, m *message) {
		select {
		case first := <-late:
			o.say(first, `{"content":[{"type":"text","text":"late"}]}`)
			o.say(m, `{"content":[{"type":"text","text":"in time"}]}`)
		default:
			late <- m
		}
	})
	for name, s := range map[string]Settings{
		"HTTP+SSE": {URL: old.srv.URL, Transport: SSE},
		"command":  command("misc"),
	} {
		t.Run(name, func(t *testing.T) {
			s.Timeout = settings.Duration(100 * time.Millisecond)
			r := newRig(t, s, fastTimings()).ready()
			r.fails(tool.TimedOut, "do", `{"what":"late"}`)
			if got := r.must("do", `{"what":"now"}`); got == "late" {
				t.Error("the late answer was taken for that of another call")
			}
		})
	}
}

// After three consecutive timeouts, the upstream reconnects.
func TestStuck(t *testing.T) {
	var held atomic.Bool
	held.Store(true)
	wait, _ := hold(t)
	o := newScriptedServer(t, map[string]scriptedHandler{"tools/call": func(w http.ResponseWriter, r *http.Request,
		m *message) string {
		if held.Load() {
			return wait(w, r, m)
		}
		return `{"content":[]}`
	}})
	s := o.settings()
	s.Timeout = settings.Duration(50 * time.Millisecond)
	r := newRig(t, s, fastTimings()).ready()
	for range maxTimeouts {
		r.fails(tool.TimedOut, "do", "{}")
	}
	held.Store(false)
	r.must("do", "{}")
	if n := o.count("initialize"); n != 2 {
		t.Errorf("there were %d connections, want 2", n)
	}
	if o.count("notifications/cancelled") == 0 {
		t.Error("the server did not hear that the calls were called off")
	}
}

// An invalid response has its own error, and does not affect other calls.
func TestBadAnswers(t *testing.T) {
	write := func(kind, format string) scriptedHandler {
		return func(w http.ResponseWriter, _ *http.Request, m *message) string {
			w.Header().Set("Content-Type", kind)
			fmt.Fprintf(w, format, m.ID)
			return ""
		}
	}
	status := func(code int, text string) scriptedHandler {
		return func(w http.ResponseWriter, _ *http.Request, _ *message) string {
			http.Error(w, text, code)
			return ""
		}
	}
	huge := `{"content":[{"type":"text","text":"` + strings.Repeat("x", maxResult) + `"}]}`
	for name, c := range map[string]struct {
		answer scriptedHandler
		want   tool.Code
	}{
		"no JSON":                 {write("application/json", "hello %s"), tool.Garbled},
		"half of it":              {write("application/json", `{"jsonrpc":"2.0","id":%s,"result":{`), tool.Garbled},
		"a web page":              {write("text/html", "<h1>%s</h1>"), tool.Garbled},
		"a stream of no JSON":     {write("text/event-stream", "data: hello %s\n\n"), tool.Garbled},
		"the answer to something": {write("application/json", `{"jsonrpc":"2.0","id":1%s,"result":{}}`), tool.Garbled},
		"no result":               {result(`"words"`), tool.Garbled},
		"no content":              {result(`{}`), tool.Garbled},
		"content is no list":      {result(`{"content":{"type":"text"}}`), tool.Garbled},
		"not UTF-8":               {result("{\"content\":[{\"type\":\"text\",\"text\":\"\xff\"}]}"), tool.Garbled},
		"a result from tomorrow":  {result(`{"resultType":"task","content":[]}`), tool.Garbled},
		"large":                   {result(huge), tool.TooLarge},
		"large, in a stream": {write("text/event-stream", `data: {"jsonrpc":"2.0","id":%s,"result":`+huge+"}\n\n"),
			tool.TooLarge},
		"500": {status(500, "oh"), tool.Failed},
		"503": {status(503, "later"), tool.Busy},
		"refused": {write("application/json", `{"jsonrpc":"2.0","id":%s,"error":{"code":-5,"message":"no"}}`),
			tool.Refused},
	} {
		t.Run(name, func(t *testing.T) {
			o := newScriptedServer(t, nil)
			var bad atomic.Bool
			bad.Store(true)
			o.on = map[string]scriptedHandler{"tools/call": func(w http.ResponseWriter, r *http.Request,
				m *message) string {
				if bad.Load() {
					return c.answer(w, r, m)
				}
				return `{"content":[]}`
			}}
			r := newRig(t, o.settings(), fastTimings()).ready()
			r.fails(c.want, "do", "{}")
			bad.Store(false)
			r.must("do", "{}")
			if n := o.count("initialize"); n != 1 {
				t.Errorf("there were %d connections, want 1", n)
			}
		})
	}
}

// The same over a transport that all calls share.
func TestBadLines(t *testing.T) {
	r := newRig(t, command("misc"), fastTimings()).ready()
	for what, want := range map[string]tool.Code{
		"huge, id first": tool.TooLarge,
		"huge, id last":  tool.TooLarge,
		"large":          tool.TooLarge,
		"garbage":        tool.Garbled,
	} {
		raw, _ := json.Marshal(map[string]string{"what": what})
		r.fails(want, "do", string(raw))
	}
	if got := r.must("do", `{"what":"ask"}`); got != "asked" {
		t.Errorf("asked: %s", got)
	}
	if n := r.count("connected"); n != 1 {
		t.Errorf("there were %d connections, want 1", n)
	}
}

// count returns the number of lines of a kind in the log.
func (r *rig) count(what string) int {
	return strings.Count(r.log.String(), `msg="upstream: `+what+`"`)
}

// Servers with faults during the connect.
func TestNoConnection(t *testing.T) {
	silent, _ := hold(t)
	deaf, err := net.Listen("tcp", "127.0.0.1:0") // accepts connections, and sends nothing
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { deaf.Close() })
	gone, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	gone.Close()
	status := func(code int) scriptedHandler {
		return func(w http.ResponseWriter, _ *http.Request, _ *message) string {
			w.Header().Set("WWW-Authenticate", `Bearer resource_metadata="https://example.com/meta", scope="x"`)
			w.WriteHeader(code)
			return ""
		}
	}
	server := func(on scriptedHandler) Settings {
		return newScriptedServer(t, map[string]scriptedHandler{"initialize": on, "server/discover": on}).settings()
	}
	elsewhere := serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, "event: endpoint\ndata: http://example.com/post\n\n")
	}))
	redirect := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "http://example.com/mcp?key=secret", http.StatusTemporaryRedirect)
	}))
	for name, c := range map[string]struct {
		settings Settings
		state    State
		want     string
	}{
		"silent": {server(silent), Waiting, "did not answer in time"},
		"silent, older": {Settings{URL: "http://" + deaf.Addr().String() + "/sse"}, Waiting,
			"did not answer in time"},
		"silent, command": {command("silent"), Waiting, "did not answer in time"},
		"not there":       {Settings{URL: "http://" + gone.Addr().String()}, Waiting, "Nothing listens"},
		"no such host":    {Settings{URL: "http://nowhere.invalid/"}, Waiting, ""},
		"not https":       {Settings{URL: strings.Replace(server(nil).URL, "http:", "https:", 1)}, Failed, "secure"},
		"401":             {server(status(401)), Failed, "wants a token"},
		"403":             {server(status(403)), Failed, "wants a token"},
		"404":             {server(status(404)), Failed, "404"},
		"500":             {server(status(500)), Waiting, "500"},
		"garbage":         {server(result(`7`)), Failed, "not MCP"},
		"tomorrow":        {server(result(`{"protocolVersion":"2031-01-01"}`)), Failed, "revisions"},
		"points elsewhere, older": {Settings{URL: elsewhere.URL, Transport: SSE}, Failed,
			"another server"},
		"points elsewhere": {Settings{URL: redirect.URL}, Failed, "points elsewhere: http://example.com/mcp."},
		"no such command":  {Settings{Command: "/nowhere/at/all"}, Failed, "cannot be started"},
		"dies":             {command("dies"), Waiting, "ended by itself"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			times := fastTimings()
			times.callWait, times.maxBackoff = 100*time.Millisecond, time.Second
			if strings.HasPrefix(name, "silent") {
				times.connectTimeout, times.startTimeout = 300*time.Millisecond, 300*time.Millisecond
			}
			r := newRig(t, c.settings, times).start()
			st := r.state(c.state)
			if !strings.Contains(st.Err.Message.In(i18n.English), c.want) || st.Err.Message.In(i18n.Chinese) == "" ||
				st.NextTry.IsZero() {
				t.Errorf("status %+v: %v", st, st.Err)
			}
			lacks(t, "the status", st.Err.Error(), "secret", "resource_metadata", "/meta")
			if _, err := Check(t.Context(), r.spec, r.m.opt); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("Check says %v", err)
			}
			if name == "401" && !strings.Contains(r.log.String(), "https://example.com/meta") {
				t.Error("where tokens are to be had is not in the log")
			}
			r.fails(tool.Offline, "do", "{}")
		})
	}
}

// The status explains a token that becomes invalid, and attempts become rare.
func TestTokenExpires(t *testing.T) {
	var expired atomic.Bool
	o := newScriptedServer(t, nil)
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer good-token" {
			t.Errorf("the token is %q", r.Header.Get("Authorization"))
		}
		if expired.Load() {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		o.ServeHTTP(w, r)
	})
	s := Settings{URL: serve(t, h).URL, Token: "good-token"}
	r := newRig(t, s, fastTimings()).ready()
	r.must("do", "{}")
	expired.Store(true)
	r.fails(tool.Offline, "do", "{}")
	if st := r.state(Failed); !st.Err.Auth {
		t.Errorf("status %+v", st.Err)
	}
	expired.Store(false)
	r.must("do", "{}")
}

// Calls above the concurrency limit wait; calls above the queue limit are refused.
func TestBusy(t *testing.T) {
	wait, begun := hold(t)
	o := newScriptedServer(t, map[string]scriptedHandler{"tools/call": wait})
	s := o.settings()
	s.Concurrent = 2
	r := newRig(t, s, fastTimings()).ready()
	ctx, cancel := context.WithCancel(t.Context())
	var calls sync.WaitGroup
	for range 2 + maxWaiting {
		calls.Go(func() {
			if _, err := r.call(ctx, "do", "{}"); err != context.Canceled {
				t.Errorf("a call that was called off: %v", err)
			}
		})
	}
	<-begun
	<-begun
	u := r.m.upstreams["u1"]
	r.status("full", func(Status) bool { return u.waiting.Load() == maxWaiting })
	r.fails(tool.Busy, "do", "{}")
	cancel()
	calls.Wait()
	if n := o.count("tools/call"); n != 2 {
		t.Errorf("%d calls were under way at once, want 2", n)
	}
}

// A command that does not read its input is stopped.
func TestDeafCommand(t *testing.T) {
	s := command("deaf")
	s.Timeout = settings.Duration(50 * time.Millisecond)
	r := newRig(t, s, fastTimings()).ready()
	big := `{"x":"` + strings.Repeat("y", 200_000) + `"}` // more than the capacity of a pipe
	for range maxTimeouts {
		r.fails(tool.TimedOut, "do", big)
	}
	r.status("connected again", func(st Status) bool { return st.State == Ready && r.count("connected") == 2 })
}
