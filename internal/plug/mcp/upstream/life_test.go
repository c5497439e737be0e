package upstream

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"patchbay/internal/fetch"
	"patchbay/internal/i18n"
	"patchbay/internal/tool"
)

// restartingServer is a server that can stop and start again at the same address.
type restartingServer struct {
	t    *testing.T
	addr string
	srv  *httptest.Server
}

func (p *restartingServer) rise() {
	p.t.Helper()
	addr := p.addr
	if addr == "" {
		addr = "127.0.0.1:0"
	}
	l, err := net.Listen("tcp", addr)
	if err != nil {
		p.t.Fatal(err)
	}
	p.addr = l.Addr().String()
	p.srv = httptest.NewUnstartedServer(streamableServer(newPeer(), nil)) // without earlier sessions
	p.srv.Listener.Close()
	p.srv.Listener = l
	p.srv.Start()
}

func (p *restartingServer) die() {
	p.srv.CloseClientConnections()
	p.srv.Close()
}

// A restart of the server does not affect later calls, and changes no list.
func TestRestart(t *testing.T) {
	p := &restartingServer{t: t}
	p.rise()
	defer func() { p.die() }()
	r := newRig(t, Settings{URL: "http://" + p.addr}, fastTimings()).ready()
	for range 3 {
		p.die()
		p.rise()
		// A call that is written to an old connection before its end is noticed is lost: whether it
		// was executed is unknown. This happens.
		for try := 0; ; try++ {
			_, err := r.call(t.Context(), "echo", "{}")
			if err == nil {
				break
			}
			if tool.AsError(err).Code != tool.Lost || try == 5 {
				t.Fatalf("right after the restart: %v", err)
			}
		}
		if got := r.must("echo", `{"a":1}`); got != `{"a":1}` {
			t.Errorf("after the restart: %s", got)
		}
	}
	// A call during the restart waits for the server.
	p.die()
	r.state(Waiting)
	result := make(chan error, 1)
	go func() {
		_, err := r.call(t.Context(), "echo", "{}")
		result <- err
	}()
	p.rise()
	if err := <-result; err != nil {
		t.Errorf("the call that waited: %v", err)
	}
	if n := r.offers(); n != 1 {
		t.Errorf("%d lists were offered, want 1", n)
	}
}

// A session that the server no longer knows is renewed, in whatever form the server reports it.
func TestForgottenSession(t *testing.T) {
	for name, answer := range map[string]func(w http.ResponseWriter){
		"404": func(w http.ResponseWriter) { w.WriteHeader(http.StatusNotFound) },
		"404 in JSON-RPC": func(w http.ResponseWriter) {
			w.WriteHeader(http.StatusNotFound)
			fmt.Fprint(w, `{"jsonrpc":"2.0","id":null,"error":{"code":-32001,"message":"Session not found"}}`)
		},
		"400": func(w http.ResponseWriter) {
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprint(w,
				`{"jsonrpc":"2.0","error":{"code":-32000,"message":"Bad Request: No valid session ID provided"},"id":null}`)
		},
	} {
		t.Run(name, func(t *testing.T) {
			var forget atomic.Bool
			o := newScriptedServer(t, map[string]scriptedHandler{"tools/call": func(w http.ResponseWriter,
				_ *http.Request, _ *message) string {
				if forget.CompareAndSwap(true, false) {
					answer(w)
					return ""
				}
				return `{"content":[]}`
			}})
			r := newRig(t, o.settings(), fastTimings()).ready()
			forget.Store(true)
			r.must("do", "{}")
			if n := o.count("initialize"); n != 2 {
				t.Errorf("there were %d sessions, want 2", n)
			}
		})
	}
}

// The tools of a server that stays away are withdrawn, and offered again when it returns. Calls
// fail after their wait time.
func TestGrace(t *testing.T) {
	p := &restartingServer{t: t}
	p.rise()
	defer func() { p.die() }()
	times := fastTimings()
	times.toolsGrace, times.callWait = 300*time.Millisecond, 50*time.Millisecond
	r := newRig(t, Settings{URL: "http://" + p.addr}, times).ready()
	p.die()
	left := time.Now()
	r.state(Waiting)
	if r.offers() != 1 {
		t.Error("the tools were taken back at once")
	}
	e := r.fails(tool.Offline, "echo", "{}")
	if !strings.Contains(e.Told, "Up is not connected") {
		t.Errorf("told was %q", e.Told)
	}
	r.tools("no tools", none)
	if away := time.Since(left); away < times.toolsGrace {
		t.Errorf("the tools were taken back after %v", away)
	}
	if st, _ := r.m.Status("u1"); st.Tools != 0 || st.Err == nil {
		t.Errorf("status %+v", st)
	}
	p.rise()
	r.tools("tools again", some)
	if st := r.state(Ready); st.Err != nil || st.Tools != 9 {
		t.Errorf("status %+v", st)
	}
	r.must("echo", "{}")
}

// A server that accepts connections and no longer answers is detected.
func TestHealth(t *testing.T) {
	wait, _ := hold(t)
	for name, c := range map[string]struct {
		ping    bool // it answers the first one
		anew    bool
		refused bool
	}{
		"answers no more":    {ping: true, anew: true},
		"never did":          {},
		"does not know ping": {ping: true, refused: true},
	} {
		t.Run(name, func(t *testing.T) {
			var pings atomic.Int32
			o := newScriptedServer(t, nil)
			o.on = map[string]scriptedHandler{"ping": func(w http.ResponseWriter, r *http.Request, m *message) string {
				switch n := pings.Add(1); {
				case c.refused:
					w.Header().Set("Content-Type", "application/json")
					fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"?"}}`, m.ID)
					return ""
				case c.ping && n == 1, o.count("initialize") > 1:
					return `{}`
				}
				return wait(w, r, m)
			}}
			times := fastTimings()
			times.healthInterval, times.healthTimeout = 10*time.Millisecond, 100*time.Millisecond
			r := newRig(t, o.settings(), times).ready()
			r.status("asked", func(Status) bool { return pings.Load() >= 4 })
			if anew := o.count("initialize") > 1; anew != c.anew {
				t.Errorf("connected anew: %v", anew)
			}
			r.must("do", "{}")
		})
	}
}

// A broken stream is resumed, if the server supports that.
func TestResume(t *testing.T) {
	o := newScriptedServer(t, nil)
	id := make(chan string, 1)
	o.on = map[string]scriptedHandler{"tools/call": func(w http.ResponseWriter, _ *http.Request, m *message) string {
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, "id: e1\nretry: 1\ndata:\n\n") // an event without data, as of 2025-11-25
		id <- string(m.ID)
		return ""
	}}
	var gets atomic.Int32
	o.get = func(w http.ResponseWriter, r *http.Request) {
		switch after := r.Header.Get("Last-Event-ID"); after {
		case "":
			w.WriteHeader(http.StatusMethodNotAllowed)
		case "e1":
			w.Header().Set("Content-Type", "text/event-stream")
			if gets.Add(1) < 3 {
				return // retry
			}
			fmt.Fprintf(w,
				"id: e2\ndata: {\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":{\"content\":[{\"type\":\"text\",\"text\":\"resumed\"}]}}\n\n", <-id)
		default:
			t.Errorf("taken up after %q", after)
		}
	}
	if got := newRig(t, o.settings(), fastTimings()).ready().must("do", "{}"); got != "resumed" {
		t.Errorf("got %s", got)
	}
}

// Log messages on the stream of a call are forwarded to its caller; others are dropped.
func TestLog(t *testing.T) {
	o := newScriptedServer(t, map[string]scriptedHandler{"tools/call": func(w http.ResponseWriter, _ *http.Request,
		m *message) string {
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w,
			"data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\"params\":{\"level\":\"info\",\"logger\":\"l\",\"data\":{\"a\":1.0}}}\n\n")
		fmt.Fprintf(w, "data: {\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":{\"content\":[]}}\n\n", m.ID)
		return ""
	}})
	r := newRig(t, o.settings(), fastTimings()).ready()
	var got []tool.Log
	if _, err := r.do(t.Context(), &tool.Call{Tool: "do", Log: func(l tool.Log) { got = append(got, l) }}); err != nil {
		t.Fatal(err)
	}
	if len(got) != 1 || got[0].Level != "info" || got[0].Logger != "l" || string(got[0].Data) != `{"a":1.0}` {
		t.Errorf("the log was %v", got)
	}
}

// Sessions are ended at the server.
func TestGoodbye(t *testing.T) {
	o := newScriptedServer(t, nil)
	r := newRig(t, o.settings(), fastTimings()).ready()
	r.m.Close()
	if o.count("DELETE") != 1 {
		t.Error("the server was not told that the session is over")
	}
}

// Secrets appear in no log, status or error.
func TestSecrets(t *testing.T) {
	const token, key, query = "tok-1234567", "hdr-7654321", "qry%20-abcdef"
	echo := func(w http.ResponseWriter, r *http.Request) {
		text := fmt.Sprint(r.URL, r.URL.Query(), r.Header)
		http.Error(w, text, http.StatusTeapot)
	}
	srv := serve(t, http.HandlerFunc(echo))
	secrets := []string{token, key, query, "qry -abcdef"}
	for name, s := range map[string]Settings{
		"streamable": {URL: srv.URL + "/mcp?key=" + query, Token: token,
			Headers: map[string]string{"X-Key": "Key " + key}},
		"older": {URL: srv.URL + "/sse?key=" + query, Token: token,
			Headers: map[string]string{"X-Key": "Key " + key}},
		"not there": {URL: "http://127.0.0.1:1/?key=" + query, Token: token},
		"no host":   {URL: "http://nowhere.invalid/?key=" + query, Token: token},
	} {
		t.Run(name, func(t *testing.T) {
			times := fastTimings()
			times.callWait = 10 * time.Millisecond
			r := newRig(t, s, times).start()
			st := r.state(Failed, Waiting)
			lacks(t, "the status", fmt.Sprint(st, st.Err), secrets...)
			_, err := Check(t.Context(), r.spec, r.m.opt)
			lacks(t, "Check", err.Error(), secrets...)
			lacks(t, "the call", tool.AsError(r.fails(tool.Offline, "do", "{}")).Error(), secrets...)
			r.m.Close()
			lacks(t, "the log", r.log.String(), secrets...)
			if where := s.DisplayAddress(); strings.Contains(where, "key") {
				t.Errorf("Where tells %s", where)
			}
		})
	}
	t.Run("in a refusal", func(t *testing.T) {
		o := newScriptedServer(t, map[string]scriptedHandler{"tools/call": func(w http.ResponseWriter, _ *http.Request,
			m *message) string {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-1,"message":"bad key %s","data":"%s"}}`, m.ID,
				token, token)
			return ""
		}})
		s := o.settings()
		s.Token = token
		e := newRig(t, s, fastTimings()).ready().fails(tool.Refused, "do", "{}")
		lacks(t, "the error", fmt.Sprintf("%+v %s", e, e.Data), token)
	})
	t.Run("command", func(t *testing.T) {
		s := command("dies")
		s.Env["API_KEY"] = token
		r := newRig(t, s, fastTimings()).start()
		// Writing to the command can fail before all of its output is read.
		st := r.status("stderr", func(st Status) bool {
			return len(st.Stderr) == maxStderrLines && st.Err != nil &&
				slices.Contains(st.Stderr, "giving up") && slices.Contains(st.Stderr, "the key is [secret]")
		})
		for _, line := range st.Stderr {
			if len(line) > maxErrorLine {
				t.Errorf("a line of %d bytes is kept", len(line))
			}
		}
		r.m.Close()
		lacks(t, "the log", r.log.String(), token)
	})
}

// A command inherits only the necessary environment, and its children are killed with it.
func TestCommand(t *testing.T) {
	t.Setenv("PATCHBAY_MASTER_KEY", "ours")
	t.Setenv("DATABASE_URL", "ours too")
	s := command("misc")
	s.Env["MINE"] = "x y"
	s.Dir = t.TempDir()
	r := newRig(t, s, fastTimings()).ready()
	env := r.must("do", `{"what":"env"}`)
	lacks(t, "the environment", env, "ours", "PATCHBAY")
	for _, want := range []string{"MINE=x y", "PATH=" + os.Getenv("PATH")} {
		if !strings.Contains(env, want) {
			t.Errorf("%s is missing in %s", want, env)
		}
	}
	child, self := r.must("do", `{"what":"child"}`), r.must("do", `{"what":"pid"}`)
	for _, pid := range []string{child, self} {
		if !running(pid) {
			t.Fatalf("process %s does not run", pid)
		}
	}
	r.m.Close()
	for _, pid := range []string{child, self} {
		r.waitGone(pid)
	}
}

// running reports whether a process exists and is not a zombie.
func running(pid string) bool {
	stat, err := os.ReadFile("/proc/" + pid + "/stat")
	if err != nil {
		return false
	}
	_, state, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(state, "Z")
}

func (r *rig) waitGone(pid string) {
	r.t.Helper()
	deadline := time.After(testTimeout)
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for running(pid) {
		select {
		case <-tick.C:
		case <-deadline:
			r.t.Fatalf("process %s still runs", pid)
		}
	}
}

// Untrusted upstreams are dialed by Options.Dial, and start no commands.
func TestGuarded(t *testing.T) {
	peer := newPeer()
	for name, h := range map[string]http.Handler{
		HTTP: streamableServer(peer, nil),
		SSE:  mcp.NewSSEHandler(func(*http.Request) *mcp.Server { return peer }, nil),
	} {
		t.Run(name, func(t *testing.T) {
			var dialled atomic.Int32
			r := newRig(t, Settings{URL: serve(t, h).URL, Transport: name}, fastTimings())
			r.spec.Untrusted = true
			r.m.opt.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
				dialled.Add(1)
				return plainDial(ctx, network, address)
			}
			r.ready()
			if dialled.Load() == 0 {
				t.Error("the guard was not asked")
			}
			r.m.opt.Dial = func(context.Context, string, string) (net.Conn, error) { return nil, os.ErrPermission }
			if _, err := Check(t.Context(), r.spec, r.m.opt); err == nil {
				t.Error("the guard said no and was not heard")
			}
			// With the real address guard, the error explains the refusal.
			r.m.opt.Dial = fetch.New(fetch.Options{}).Dial
			_, err := Check(t.Context(), r.spec, r.m.opt)
			if tr, ok := errors.AsType[*ConnectionError](err); !ok || !tr.Lasting ||
				!strings.Contains(tr.Message.In(i18n.English), "private or special network") ||
				!strings.Contains(tr.Message.In(i18n.Chinese), "内网") {
				t.Errorf("a private address is refused with %v", err)
			}
			forbidden := newRig(t, r.spec.Settings, fastTimings())
			forbidden.spec.Untrusted, forbidden.m.opt.Dial = true, r.m.opt.Dial
			if st := forbidden.start().state(Failed); st.Err.Message.Message != msgPrivate {
				t.Errorf("the status is %v", st.Err)
			}
		})
	}
	t.Run("command", func(t *testing.T) {
		r := newRig(t, command("misc"), fastTimings())
		r.spec.Untrusted = true
		if st := r.start().state(Failed); !strings.Contains(st.Err.Message.In(i18n.English), "who runs this server") {
			t.Errorf("status %v", st.Err)
		}
	})
}

// A redirect within the server is followed, with body and token.
func TestRedirect(t *testing.T) {
	o := newScriptedServer(t, nil)
	mux := http.NewServeMux()
	mux.HandleFunc("/mcp", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "/mcp/", http.StatusTemporaryRedirect)
	})
	mux.HandleFunc("/mcp/", func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer token" {
			t.Errorf("the token is %q", r.Header.Get("Authorization"))
		}
		o.ServeHTTP(w, r)
	})
	newRig(t, Settings{URL: serve(t, mux).URL + "/mcp", Token: "token"}, fastTimings()).ready().must("do", "{}")
}

func TestMetrics(t *testing.T) {
	reg := prometheus.NewRegistry()
	p := &restartingServer{t: t}
	p.rise()
	defer func() { p.die() }()
	r := newRig(t, Settings{URL: "http://" + p.addr}, fastTimings())
	r.m.metrics = newMetrics(reg)
	r.ready()
	expect := func(what, want string) {
		t.Helper()
		r.status(what, func(Status) bool {
			return testutil.GatherAndCompare(reg, strings.NewReader(want), "patchbay_upstream_connected") == nil
		})
	}
	const head = "# HELP patchbay_upstream_connected Connections to upstream MCP servers that are ready.\n# TYPE patchbay_upstream_connected gauge\npatchbay_upstream_connected{upstream=\"up\"} "
	expect("one connection", head+"1\n")
	p.die()
	expect("no connection", head+"0\n")
	p.rise()
	expect("one connection again", head+"1\n")
	if n := testutil.ToFloat64(r.m.metrics.reconnects.WithLabelValues("up")); n < 1 {
		t.Errorf("%v reconnects", n)
	}
	r.m.Close()
	if n := testutil.CollectAndCount(r.m.metrics.connected); n != 0 {
		t.Errorf("after the end there are %d gauges", n)
	}
}
