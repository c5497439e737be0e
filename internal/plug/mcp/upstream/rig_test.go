package upstream

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"patchbay/internal/tool"
)

// testTimeout limits each wait of a test.
const testTimeout = time.Minute

// fastTimings are timings for tests: delays are short, while limits that must not be reached by
// accident stay long.
func fastTimings() *timings {
	t := defaultTimings
	t.minBackoff, t.maxBackoff, t.maxAuthBackoff = 10*time.Millisecond, 50*time.Millisecond, 100*time.Millisecond
	t.refreshDelay = 10 * time.Millisecond
	return &t
}

// fakeHub records registrations.
type fakeHub struct {
	mu            sync.Mutex
	changed       chan struct{}
	registrations map[string]*fakeRegistration
	registered    int
	unregistered  int
	holds         int
}

type fakeRegistration struct {
	b        *fakeHub
	spec     Spec
	provider tool.Provider
	offers   [][]tool.Tool

	contentChanges int
	updated        []string // URIs
	logs           []tool.Log
}

func newFakeHub() *fakeHub {
	return &fakeHub{changed: make(chan struct{}), registrations: make(map[string]*fakeRegistration)}
}

func (b *fakeHub) register(spec Spec, p tool.Provider) Registration {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.registrations[spec.ID] != nil {
		panic("plugged in twice: " + spec.ID)
	}
	s := &fakeRegistration{b: b, spec: spec, provider: p}
	b.registrations[spec.ID] = s
	b.registered++
	b.change()
	return s
}

func (b *fakeHub) change() {
	close(b.changed)
	b.changed = make(chan struct{})
}

func (s *fakeRegistration) SetTools(tools []tool.Tool) {
	s.b.mu.Lock()
	defer s.b.mu.Unlock()
	s.offers = append(s.offers, tools)
	s.b.change()
}

func (s *fakeRegistration) NotifyContentChanged() {
	s.b.mu.Lock()
	defer s.b.mu.Unlock()
	s.contentChanges++
	s.b.change()
}

func (s *fakeRegistration) NotifyResourceUpdated(uri string) {
	s.b.mu.Lock()
	defer s.b.mu.Unlock()
	s.updated = append(s.updated, uri)
	s.b.change()
}

func (s *fakeRegistration) NotifyLog(l tool.Log) {
	s.b.mu.Lock()
	defer s.b.mu.Unlock()
	s.logs = append(s.logs, l)
	s.b.change()
}

func (s *fakeRegistration) Unregister() {
	s.b.mu.Lock()
	defer s.b.mu.Unlock()
	delete(s.b.registrations, s.spec.ID)
	s.b.unregistered++
	s.b.change()
}

func (s *fakeRegistration) Hold(bool) int64 {
	s.b.mu.Lock()
	defer s.b.mu.Unlock()
	s.b.holds++
	return int64(s.b.holds)
}

// await waits for a condition on the hub.
func (b *fakeHub) await(t testing.TB, what string, cond func(b *fakeHub) bool) {
	t.Helper()
	deadline := time.After(testTimeout)
	for {
		b.mu.Lock()
		ok, changed := cond(b), b.changed
		b.mu.Unlock()
		if ok {
			return
		}
		select {
		case <-changed:
		case <-deadline:
			t.Fatalf("still not: %s", what)
		}
	}
}

// rig is a manager with one upstream.
type rig struct {
	t    testing.TB
	m    *Manager
	hub  *fakeHub
	spec Spec
	log  *logBuffer
}

// logBuffer records log output.
type logBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

func newRig(t testing.TB, settings Settings, times *timings) *rig {
	t.Helper()
	log := &logBuffer{}
	b := newFakeHub()
	r := &rig{t: t, hub: b, log: log, spec: Spec{ID: "u1", Slug: "up", Title: "Up", Owner: "o", Version: 1,
		Settings: settings}}
	r.m = New(Options{
		Register: b.register,
		Logger:   slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug})),
		Version:  "1.2.3",
		times:    times,
	})
	t.Cleanup(func() {
		r.m.Close()
		if t.Failed() {
			t.Logf("log:\n%s", log)
		}
	})
	return r
}

func (r *rig) start() *rig {
	r.t.Helper()
	validate := r.spec.Settings.Validate
	if r.spec.Inbound {
		validate = r.spec.Settings.ValidateInbound
	}
	if err := validate(); err != nil {
		r.t.Fatal(err)
	}
	r.m.Set([]Spec{r.spec})
	return r
}

// tools waits until the upstream offers matching tools, and returns them.
func (r *rig) tools(what string, fits func([]tool.Tool) bool) []tool.Tool {
	r.t.Helper()
	var got []tool.Tool
	r.hub.await(r.t, what, func(b *fakeHub) bool {
		s := b.registrations[r.spec.ID]
		if s == nil || len(s.offers) == 0 {
			return false
		}
		got = s.offers[len(s.offers)-1]
		return fits(got)
	})
	return got
}

func some(list []tool.Tool) bool { return len(list) > 0 }
func none(list []tool.Tool) bool { return len(list) == 0 }

func has(name string) func([]tool.Tool) bool {
	return func(list []tool.Tool) bool {
		return slices.ContainsFunc(list, func(t tool.Tool) bool { return t.Name == name })
	}
}

func (r *rig) offers() int {
	r.hub.mu.Lock()
	defer r.hub.mu.Unlock()
	return len(r.hub.registrations[r.spec.ID].offers)
}

// ready starts the upstream, and waits for its tools and its connection.
func (r *rig) ready() *rig {
	r.t.Helper()
	r.start().tools("tools are offered", some)
	r.state(Ready)
	return r
}

// state waits for a state.
func (r *rig) state(want ...State) Status {
	r.t.Helper()
	return r.status(fmt.Sprint(want), func(st Status) bool { return slices.Contains(want, st.State) })
}

// status waits for a matching status. It polls, since no event reports changes.
func (r *rig) status(what string, fits func(Status) bool) Status {
	r.t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(testTimeout)
	for {
		st, ok := r.m.Status(r.spec.ID)
		if ok && fits(st) {
			return st
		}
		select {
		case <-tick.C:
		case <-deadline:
			r.t.Fatalf("the status is not %s but %+v (%v)", what, st, st.Err)
		}
	}
}

func (r *rig) call(ctx context.Context, name, args string) (*tool.Result, error) {
	return r.do(ctx, &tool.Call{Tool: name, Args: json.RawMessage(args)})
}

func (r *rig) do(ctx context.Context, c *tool.Call) (*tool.Result, error) {
	r.hub.mu.Lock()
	s := r.hub.registrations[r.spec.ID]
	r.hub.mu.Unlock()
	return s.provider.Call(ctx, c)
}

// must makes a call that must succeed, and returns its text.
func (r *rig) must(name, args string) string {
	r.t.Helper()
	res, err := r.call(r.t.Context(), name, args)
	if err != nil {
		r.t.Fatalf("%s: %v", name, err)
	}
	return res.PlainText()
}

// fails makes a call that must fail with a code.
func (r *rig) fails(code tool.Code, name, args string) *tool.Error {
	r.t.Helper()
	res, err := r.call(r.t.Context(), name, args)
	if err == nil {
		r.t.Fatalf("%s: no error but %s", name, res.PlainText())
	}
	e := tool.AsError(err)
	if e.Code != code {
		r.t.Fatalf("%s: failed with %s (%v), want %s", name, e.Code, err, code)
	}
	return e
}

// scriptedServer is a hand-written Streamable HTTP server with sessions. The test overrides single
// methods; the others work.
type scriptedServer struct {
	t testing.TB
	// on handles methods. A handler returns a result, or "" if it has responded itself.
	on map[string]func(w http.ResponseWriter, r *http.Request, m *message) string
	// get handles GET; the default is 405.
	get http.HandlerFunc

	mu      sync.Mutex
	session string
	seen    []string // methods, in order
	srv     *httptest.Server
}

type scriptedHandler = func(w http.ResponseWriter, r *http.Request, m *message) string

func newScriptedServer(t testing.TB, on map[string]scriptedHandler) *scriptedServer {
	t.Helper()
	o := &scriptedServer{t: t, on: on, session: "s1"}
	o.srv = httptest.NewServer(o)
	t.Cleanup(func() {
		o.srv.CloseClientConnections()
		o.srv.Close()
	})
	return o
}

func (o *scriptedServer) settings() Settings {
	return Settings{URL: o.srv.URL + "/mcp", Transport: HTTP}
}

func (o *scriptedServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet && o.get != nil {
		o.get(w, r)
		return
	}
	if r.Method == http.MethodDelete {
		o.note("DELETE")
		return
	}
	if r.Method != http.MethodPost {
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	m, err := readMessage(body)
	if err != nil {
		o.t.Errorf("the client sent %q", body)
		return
	}
	o.note(m.Method)
	o.mu.Lock()
	session := o.session
	o.mu.Unlock()
	if got := r.Header.Get("Mcp-Session-Id"); m.Method != "initialize" && got != session {
		http.Error(w, `{"detail":"who?"}`, http.StatusNotFound)
		return
	}
	result := o.answer(w, r, &m)
	if result == "" {
		return
	}
	if m.Method == "initialize" {
		w.Header().Set("Mcp-Session-Id", session)
	}
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, result)
}

func (o *scriptedServer) note(method string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.seen = append(o.seen, method)
}

func (o *scriptedServer) count(method string) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	n := 0
	for _, s := range o.seen {
		if s == method {
			n++
		}
	}
	return n
}

func (o *scriptedServer) answer(w http.ResponseWriter, r *http.Request, m *message) string {
	if f := o.on[m.Method]; f != nil {
		return f(w, r, m)
	}
	if m.ID == nil {
		w.WriteHeader(http.StatusAccepted)
		return ""
	}
	switch m.Method {
	case "initialize":
		return initialized
	case "tools/list":
		return oneTool
	case "tools/call":
		return `{"content":[{"type":"text","text":"fine"}]}`
	}
	return `{}`
}

const (
	initialized = `{"protocolVersion":"2025-06-18","capabilities":{"tools":{"listChanged":true}},"serverInfo":{"name":"odd","version":"7"}}`
	oneTool     = `{"tools":[{"name":"do","inputSchema":{"type":"object"}}]}`
)

func result(text string) scriptedHandler {
	return func(http.ResponseWriter, *http.Request, *message) string { return text }
}

// hold returns a handler that blocks until the client disconnects or the test ends.
func hold(t *testing.T) (scriptedHandler, <-chan struct{}) {
	begun := make(chan struct{}, 100)
	return func(_ http.ResponseWriter, r *http.Request, _ *message) string {
		begun <- struct{}{}
		select {
		case <-r.Context().Done():
		case <-t.Context().Done():
		}
		return ""
	}, begun
}

// TestMain runs the test binary as a server when a test starts it as one.
func TestMain(m *testing.M) {
	if script := os.Getenv("UPSTREAM_TEST_PEER"); script != "" {
		peers[script]()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// command returns the settings that start the test binary as a server.
func command(script string) Settings {
	self, err := os.Executable()
	if err != nil {
		panic(err)
	}
	return Settings{Command: self, Env: map[string]string{"UPSTREAM_TEST_PEER": script}}
}

// lines is a hand-written server on standard input and output. Handlers in on override the default,
// and write lines themselves.
func lines(on map[string]func(m *message, write func(format string, args ...any))) {
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(nil, 1<<20)
	var mu sync.Mutex
	write := func(format string, args ...any) {
		mu.Lock()
		defer mu.Unlock()
		fmt.Printf(format+"\n", args...)
	}
	for in.Scan() {
		m, err := readMessage(in.Bytes())
		if err != nil {
			continue
		}
		if f := on[m.Method]; f != nil {
			f(&m, write)
			continue
		}
		switch {
		case m.ID == nil || m.Method == "":
		case m.Method == "initialize":
			write(`{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, initialized)
		case m.Method == "tools/list":
			write(`{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, oneTool)
		default:
			write(`{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"fine"}]}}`, m.ID)
		}
	}
}

// lacks checks that a text contains none of the secrets.
func lacks(t *testing.T, where, text string, secrets ...string) {
	t.Helper()
	for _, s := range secrets {
		if strings.Contains(text, s) {
			t.Errorf("%s tells the secret %q: %s", where, s, text)
		}
	}
}
