package app

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"patchbay/internal/account"
	"patchbay/internal/config"
	"patchbay/internal/hub"
	"patchbay/internal/plug/openai/openaitest"
	"patchbay/internal/plug/rokid/sim"
	"patchbay/internal/store/storetest"
	"patchbay/internal/tracing/tracingtest"
)

// Texts and secrets that are in no span.
const (
	secretQuestion = "zq1question"
	secretArgument = "zq2argument"
	secretResult   = "zq3result"
	secretAnswer   = "zq4answer"
	secretKey      = "zq5key"
	secretWearer   = "ZQ6WEARER"
	secretHeader   = "zq7header"
)

// tracedServer is a running server with glasses, a model, and a tool server.
type tracedServer struct {
	t     *testing.T
	url   string
	base  *Base
	stop  func() // the server, and waits for it
	key   string // of its owner, for everything
	model *openaitest.Server
	tools *modernTools
}

func newTracedServer(t *testing.T, settings map[string]string) *tracedServer {
	t.Helper()
	s := &tracedServer{t: t, tools: newModernTools(t)}
	flags := map[string]string{"data": storetest.Folder(t, t.TempDir()), "listen": "127.0.0.1:0",
		"lingzhu.push_url": ""}
	maps.Copy(flags, settings)
	c, _, err := config.Load(config.Sources{Flags: flags})
	must(t, err)
	ready, stopped := make(chan struct{}), make(chan error, 1)
	ctx, stop := context.WithCancel(context.Background())
	go func() {
		stopped <- Serve(ctx, c, Options{Version: "test", Logs: io.Discard,
			Ready: func(url string, b *Base) { s.url, s.base = url, b; close(ready) }})
	}()
	select {
	case <-ready:
	case err := <-stopped:
		t.Fatal(err)
	}
	s.stop = sync.OnceFunc(func() { stop(); must(t, <-stopped) })
	t.Cleanup(s.stop)
	s.model, err = openaitest.Start()
	must(t, err)
	t.Cleanup(s.model.Close)
	s.furnish()
	return s
}

// furnish adds the owner, their key, a bot and the tool server, whose tools it awaits.
func (s *tracedServer) furnish() {
	ctx := s.t.Context()
	ada, err := s.base.Accounts.AddPerson(ctx, "ada", account.RoleAdmin, "en", "correct horse battery")
	must(s.t, err)
	_, s.key, err = s.base.Accounts.AddKey(ctx, account.NewKey{Person: ada.ID, Name: "all",
		Scopes: []string{account.ScopeLingzhu, account.ScopeMCP, account.ScopeOperator, account.ScopeAdmin}})
	must(s.t, err)
	_, _, err = s.base.Registry.Add(ctx, hub.NewBot{Owner: ada.ID, Name: "helper", Kind: "openai",
		Set: map[string]string{"base_url": s.model.URL, "model": "m-1", "api_key": "sk-" + secretKey,
			"allow_tools": "*"}})
	must(s.t, err)
	status, answer := s.post("/api/v1/upstreams", nil, `{"name":"home","kind":"mcp","settings":{"url":"`+
		s.tools.URL+`/mcp?key=`+secretKey+`"}}`)
	if status != http.StatusOK {
		s.t.Fatalf("%d %s", status, answer)
	}
	changes, forget := s.base.tools.hub.Load().WatchTools()
	defer forget()
	for {
		if _, _, tools := s.base.tools.hub.Load().FindProvider("upstream:1"); len(tools) > 0 {
			return
		}
		<-changes
	}
}

// post sends JSON with the owner's key, unless the headers have another.
func (s *tracedServer) post(path string, header http.Header, body string) (int, string) {
	s.t.Helper()
	req, err := http.NewRequestWithContext(s.t.Context(), http.MethodPost, s.url+path, strings.NewReader(body))
	must(s.t, err)
	req.Header = http.Header{"Authorization": {"Bearer " + s.key}, "Content-Type": {"application/json"},
		"Accept": {"application/json, text/event-stream"}}
	maps.Copy(req.Header, header)
	resp, err := http.DefaultClient.Do(req)
	must(s.t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	must(s.t, err)
	return resp.StatusCode, string(text)
}

// callTool calls the tool of the server as a client of 2026-07-28 does, with further members of
// _meta and headers.
func (s *tracedServer) callTool(header http.Header, meta string) (int, string) {
	s.t.Helper()
	h := http.Header{"Mcp-Protocol-Version": {"2026-07-28"}, "Mcp-Method": {"tools/call"},
		"Mcp-Name": {"home_look"}}
	maps.Copy(h, header)
	return s.post("/mcp", h, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"home_look",`+
		`"arguments":{"what":"`+secretArgument+`"},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",`+
		`"io.modelcontextprotocol/clientInfo":{"name":"c","version":"1"},`+
		`"io.modelcontextprotocol/clientCapabilities":{}`+meta+`}}}`)
}

// modernTools is a tool server of 2026-07-28 that keeps the calls that it gets.
type modernTools struct {
	*httptest.Server
	mu    sync.Mutex
	calls []toolRequest
}

// toolRequest is a call that a tool server got.
type toolRequest struct {
	header http.Header
	meta   map[string]any
}

func newModernTools(t *testing.T) *modernTools {
	m := &modernTools{}
	m.Server = httptest.NewServer(m)
	t.Cleanup(m.Close)
	return m
}

func (m *modernTools) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var q struct {
		ID     json.RawMessage
		Method string
		Params struct {
			Meta map[string]any `json:"_meta"`
		}
	}
	if json.NewDecoder(r.Body).Decode(&q) != nil {
		http.Error(w, "this is no JSON", http.StatusBadRequest)
		return
	}
	result := ""
	switch q.Method {
	case "server/discover":
		result = `"supportedVersions":["2026-07-28"],"capabilities":{"tools":{}}`
	case "tools/list":
		result = `"tools":[{"name":"look","description":"looks","inputSchema":{"type":"object"}}]`
	case "tools/call":
		m.mu.Lock()
		m.calls = append(m.calls, toolRequest{r.Header, q.Params.Meta})
		m.mu.Unlock()
		result = `"content":[{"type":"text","text":"` + secretResult + `"}]`
	}
	w.Header().Set("Content-Type", "application/json")
	if result == "" {
		w.WriteHeader(http.StatusNotFound)
		w.Write([]byte(`{"jsonrpc":"2.0","id":` + string(q.ID) + `,"error":{"code":-32601,"message":"no"}}`)) //nolint:errcheck // as below
		return
	}
	w.Write([]byte(`{"jsonrpc":"2.0","id":` + string(q.ID) + `,"result":{"resultType":"complete",` + result + `}}`)) //nolint:errcheck // the client reads it
}

// last returns the last call.
func (m *modernTools) last() toolRequest {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.calls[len(m.calls)-1]
}

// named returns the spans with a name, in the order of their start.
func named(list []tracingtest.Span, name string) (out []tracingtest.Span) {
	for _, s := range list {
		if s.Name == name {
			out = append(out, s)
		}
	}
	slices.SortFunc(out, func(a, b tracingtest.Span) int {
		return int(a.Span.StartTimeUnixNano) - int(b.Span.StartTimeUnixNano)
	})
	return out
}

// linkTo is the traceparent of a span.
func linkTo(s tracingtest.Span) string { return "00-" + s.Trace + "-" + s.ID + "-01" }

// headerKeeper keeps the traceparent of the last request.
type headerKeeper struct{ parent string }

func (k *headerKeeper) RoundTrip(r *http.Request) (*http.Response, error) {
	k.parent = r.Header.Get("Traceparent")
	return http.DefaultTransport.RoundTrip(r)
}

// A question of glasses, the requests to its model, the tool and the tool server are one trace, and
// the trace has no texts and no secrets.
func TestTraceOfAQuestion(t *testing.T) {
	collector := tracingtest.New(t)
	s := newTracedServer(t, map[string]string{"otlp.url": collector.URL, "otlp.headers": "X-Key=" + secretHeader})
	s.model.Script(openaitest.Reply{Steps: []openaitest.Step{openaitest.Calls(openaitest.Call{ID: "c",
		Name:      "home_look",
		Arguments: `{"what":"` + secretArgument + `"}`})}},
		openaitest.Reply{Steps: []openaitest.Step{openaitest.Text(secretAnswer)}})
	kept := &headerKeeper{}
	glasses := sim.New(sim.Options{URL: s.url + "/sse/rokid", Key: s.key, AgentID: "1", UserID: secretWearer,
		Client: &http.Client{Transport: kept}})
	defer glasses.Close()
	answer, err := glasses.Ask(t.Context(), secretQuestion, nil)
	if err != nil || answer.Text != secretAnswer {
		t.Fatalf("%q, %v", answer.Text, err)
	}
	s.stop() // flushes

	spans := collector.Spans()
	one := func(name string, n int) []tracingtest.Span {
		t.Helper()
		found := named(spans, name)
		if len(found) != n {
			t.Fatalf("%d spans %s in %+v", len(found), name, spans)
		}
		return found
	}
	turn, bot, chats := one("turn lingzhu", 1)[0], one("invoke_agent", 1)[0], one("chat m-1", 2)
	call, request := one("execute_tool home_look", 1)[0], one("tools/call look", 1)[0]
	if len(spans) != 6 {
		t.Errorf("%d spans: %+v", len(spans), spans)
	}
	parents := []struct {
		span   tracingtest.Span
		parent string
		kind   string
	}{{turn, kept.parent[36:52], "server"}, {bot, turn.ID, "internal"}, {chats[0], bot.ID, "client"},
		{chats[1], bot.ID, "client"}, {call, bot.ID, "internal"}, {request, call.ID, "client"}}
	for _, p := range parents {
		if p.span.Trace != kept.parent[3:35] || p.span.Parent != p.parent || p.span.Kind != p.kind || p.span.Failed {
			t.Errorf("%+v", p.span)
		}
	}
	if got := s.tools.last(); got.header.Get("Traceparent") != linkTo(request) ||
		got.meta["traceparent"] != linkTo(request) {
		t.Errorf("the tool server got %+v", got)
	}
	for i, r := range s.model.Requests() {
		if r.Header.Get("Traceparent") != linkTo(chats[i]) {
			t.Errorf("the model got %v", r.Header)
		}
	}
	want := map[string]string{"gen_ai.tool.name": "look", "mcp.method.name": "tools/call",
		"server.address":       "127.0.0.1",
		"mcp.protocol.version": "2026-07-28"}
	for name, value := range want {
		if request.Attributes[name] != value {
			t.Errorf("%s: %q", name, request.Attributes[name])
		}
	}
	if turn.Attributes["patchbay.turn.id"] == "" || turn.Attributes["patchbay.outcome"] != "done" ||
		call.Attributes["patchbay.turn.id"] != turn.Attributes["patchbay.turn.id"] ||
		chats[0].Attributes["gen_ai.request.model"] != "m-1" {
		t.Errorf("%+v", spans)
	}
	checkNoSecrets(t, collector)
	if h := collector.Headers(); h[0].Get("X-Key") != secretHeader {
		t.Errorf("%v", h)
	}
}

func checkNoSecrets(t *testing.T, c *tracingtest.Collector) {
	t.Helper()
	for _, secret := range []string{secretQuestion, secretArgument, secretResult, secretAnswer, secretKey, secretWearer,
		secretHeader} {
		if bytes.Contains(bytes.ToLower(c.Bytes()), []byte(strings.ToLower(secret))) {
			t.Errorf("%s was sent", secret)
		}
	}
}

const (
	headerTrace = "4bf92f3577b34da6a3ce929d0e0e4736"
	metaTrace   = "0af7651916cd43dd8448eb211c80319c"
)

// The trace of an MCP client goes on: that of _meta before that of the header, and none without a
// key.
func TestTraceOfAnMCPClient(t *testing.T) {
	collector := tracingtest.New(t)
	s := newTracedServer(t, map[string]string{"otlp.url": collector.URL})
	header := http.Header{"Traceparent": {"00-" + headerTrace + "-00f067aa0ba902b7-00"}, "Tracestate": {"a=1"}}
	meta := `,"traceparent":"00-` + metaTrace + `-b7ad6b7169203331-01","tracestate":"b=2","baggage":"c=3","other":4`
	for _, tt := range []struct {
		trace, state string
		meta         string
		baggage      any
	}{{headerTrace, "a=1", "", nil}, {metaTrace, "b=2", meta, "c=3"},
		{headerTrace, "a=1", `,"traceparent":"00-nonsense","tracestate":"b=2"`, nil}} {
		status, text := s.callTool(header, tt.meta)
		if status != http.StatusOK || !strings.Contains(text, secretResult) {
			t.Fatalf("%d %s", status, text)
		}
		got := s.tools.last()
		parent, _ := got.meta["traceparent"].(string)
		if len(parent) != 55 || parent[3:35] != tt.trace || got.meta["tracestate"] != tt.state ||
			got.header.Get("Traceparent") != parent || got.header.Get("Tracestate") != tt.state ||
			got.meta["baggage"] != tt.baggage {
			t.Errorf("the tool server got %+v", got)
		}
	}
	stranger := maps.Clone(header)
	stranger.Set("Authorization", "Bearer pb_stranger")
	if status, text := s.callTool(stranger, meta); status != http.StatusUnauthorized {
		t.Errorf("%d %s", status, text)
	}
	if status, text := s.callTool(http.Header{"Mcp-Name": {"x"}}, meta); status != http.StatusBadRequest {
		t.Errorf("%d %s", status, text) // the names differ
	}
	s.stop()
	spans := collector.Spans()
	calls, requests := named(spans, "execute_tool home_look"), named(spans, "tools/call look")
	if len(spans) != 6 || len(calls) != 3 || len(requests) != 3 {
		t.Fatalf("%+v", spans)
	}
	if calls[0].Trace != headerTrace || calls[0].Parent != "00f067aa0ba902b7" || calls[1].Trace != metaTrace ||
		calls[1].Parent != "b7ad6b7169203331" || requests[1].Parent != calls[1].ID || requests[1].Trace != metaTrace ||
		calls[0].Kind != "server" || calls[0].Attributes["patchbay.channel"] != "mcp" {
		t.Errorf("%+v", spans)
	}
	checkNoSecrets(t, collector)
}

// A collector that never answers delays the end of the server by no more than the last spans may
// take.
func TestSilentCollectorAtTheEnd(t *testing.T) {
	collector, asked := tracingtest.New(t), make(chan struct{}, 1)
	collector.Respond = func(_ http.ResponseWriter, r *http.Request) bool {
		select {
		case asked <- struct{}{}:
		default:
		}
		io.Copy(io.Discard, r.Body) //nolint:errcheck // the end of the connection is noticed only then
		<-r.Context().Done()
		return true
	}
	s := newTracedServer(t, map[string]string{"otlp.url": collector.URL})
	if status, text := s.callTool(nil, ""); status != http.StatusOK {
		t.Fatalf("%d %s", status, text)
	}
	<-asked
	began := time.Now()
	if s.stop(); time.Since(began) > lastTraces+20*time.Second { // 20 s for a busy machine
		t.Errorf("it took %s", time.Since(began))
	}
}

// Without a collector, what a client says about its trace passes as it is, and nothing is added.
func TestNoTraces(t *testing.T) {
	s := newTracedServer(t, nil)
	own := "00-" + metaTrace + "-b7ad6b7169203331-01"
	meta := `,"traceparent":"` + own + `","tracestate":"b=2","baggage":"c=3",` +
		`"example.org/own":4,"patchbay/invoke":{}`
	if status, text := s.callTool(nil, meta); status != http.StatusOK {
		t.Fatalf("%d %s", status, text)
	}
	got := s.tools.last()
	if got.meta["traceparent"] != own || got.meta["tracestate"] != "b=2" || got.meta["baggage"] != "c=3" ||
		got.meta["example.org/own"] != 4.0 || got.meta["patchbay/invoke"] != nil ||
		got.header.Get("Traceparent") != "" {
		t.Errorf("the tool server got %+v", got)
	}
	if status, text := s.callTool(http.Header{"Traceparent": {own}}, ""); status != http.StatusOK {
		t.Fatalf("%d %s", status, text)
	}
	if got := s.tools.last(); got.meta["traceparent"] != nil || got.header.Get("Traceparent") != "" {
		t.Errorf("the tool server got %+v", got)
	}
}
