package mcp

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"patchbay/internal/account"
	"patchbay/internal/hub"
	"patchbay/internal/plug/mcp/mcptest"
	"patchbay/internal/tool"
)

// A session belongs to the endpoint where it began, although the key is valid for both.
func TestLearnSessionsStay(t *testing.T) {
	r := newLearn(t)
	key := r.learnKey(t, "", account.ScopeMCP)
	header := http.Header{"Authorization": {"Bearer " + key}, "Accept": {"application/json, text/event-stream"}}
	begin := func(path string) string {
		req := httptest.NewRequestWithContext(t.Context(), http.MethodPost, r.url+path,
			strings.NewReader(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"raw","version":"1"}}}`))
		req.RequestURI, req.Header = "", header
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		return resp.Header.Get("Mcp-Session-Id")
	}
	ids := map[string]string{"/mcp": begin("/mcp"), "/api/mcp": begin("/api/mcp")}
	for _, forgotten := range []bool{false, true} {
		if forgotten { // as after a restart
			r.server.sessions.mu.Lock()
			for _, s := range r.server.sessions.all {
				r.server.sessions.drop(s)
			}
			r.server.sessions.mu.Unlock()
		}
		for from, id := range ids {
			for at := range ids {
				h := header.Clone()
				h.Set("Mcp-Session-Id", id)
				want := http.StatusOK
				if at != from {
					want = http.StatusNotFound
				}
				if status, body := r.post(t, at, `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, h); status != want {
					t.Errorf("forgotten %t: a session of %s at %s: %d %s", forgotten, from, at, status, body)
				}
			}
		}
	}
	status, body := r.post(t, "/api/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`,
		http.Header{"Authorization": {"Bearer " + key}, "Mcp-Session-Id": {ids["/mcp"]}})
	if status != 200 || strings.Contains(body, "test_echo") {
		t.Errorf("a plain client with another endpoint's session: %d %.100s", status, body)
	}
}

// So does a stream: messages posted to another endpoint do not reach it.
func TestLearnStreamsStay(t *testing.T) {
	r := newLearn(t)
	auth := http.Header{"Authorization": {"Bearer " + r.learnKey(t, "", account.ScopeMCP)}}
	for _, c := range []struct{ stream, elsewhere string }{
		{"/api/mcp/sse", "/mcp/messages?session_id="}, {"/mcp/sse", "/api/mcp/messages?sessionId="},
	} {
		s := r.openSeed(t, c.stream, auth)
		s.next(t)
		address := s.next(t)
		_, id, _ := strings.Cut(address, "=")
		if status, body := r.post(t, c.elsewhere+id, `{"jsonrpc":"2.0","id":1,"method":"ping"}`,
			auth); status != http.StatusNotFound {
			t.Errorf("%s%s: %d %s", c.elsewhere, id, status, body)
		}
		if status, body := r.post(t, strings.TrimPrefix(address, "data: "),
			`{"jsonrpc":"2.0","id":1,"method":"ping"}`, auth); status != http.StatusAccepted {
			t.Errorf("%s: %d %s", address, status, body)
		}
	}
}

// The Learn endpoint shows tools only, and notifies of no other changes.
func TestLearnToolsAlone(t *testing.T) {
	r := newRig(t, rigOptions{mcp: Options{LearnTools: []string{"test_echo", "test_slow"}}})
	all := mcptest.New(mcptest.Options{})
	registration := r.register(t, hub.ProviderRef{ID: "learn", Kind: "learn"}, all, all.Tools()...)
	auth := http.Header{"Authorization": {"Bearer " + r.Key(t, account.NewKey{Scopes: []string{account.ScopeLearn}})}}
	s := r.openSeed(t, "/api/mcp/sse", auth)
	s.next(t)
	address := strings.TrimPrefix(s.next(t), "data: ")
	until := func(text string) (seen []string) {
		t.Helper()
		for {
			seen = append(seen, s.next(t))
			if strings.Contains(seen[len(seen)-1], text) {
				return seen
			}
		}
	}
	for _, c := range []struct{ method, params, want string }{
		{"prompts/list", `{}`, `"result":{"prompts":[]}`},
		{"prompts/get", `{"name":"test_simple_prompt"}`, `"code":-32602`},
		{"resources/list", `{}`, `"result":{"resources":[]}`},
		{"resources/templates/list", `{}`, `"result":{"resourceTemplates":[]}`},
		{"resources/read", `{"uri":"test://static-text"}`, `"error":`},
	} {
		r.post(t, address, `{"jsonrpc":"2.0","id":"`+c.method+`","method":"`+c.method+`","params":`+c.params+`}`, auth)
		if seen := until(`"id":"` + c.method + `"`); !strings.Contains(seen[len(seen)-1], c.want) {
			t.Errorf("%s: %s", c.method, seen)
		}
	}
	few := slices.DeleteFunc(all.Tools(), func(x tool.Tool) bool { return x.Name == "test_slow" })
	registration.NotifyContentChanged()
	registration.SetTools(few)
	seen := until("notifications/tools/list_changed")
	r.post(t, address, `{"jsonrpc":"2.0","id":"after","method":"ping"}`, auth)
	for _, l := range append(seen, until(`"id":"after"`)...) {
		if strings.Contains(l, "prompts/") || strings.Contains(l, "resources/") {
			t.Errorf("it tells of a change that is none here: %s", l)
		}
	}

	body := `{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}},` +
		`"notifications":{"toolsListChanged":true,"promptsListChanged":true,"resourcesListChanged":true,"resourceSubscriptions":["test://static-text"]}}}`
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, r.url+"/api/mcp", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header = auth.Clone()
	req.Header.Set("Accept", "application/json, text/event-stream")
	req.Header.Set("Mcp-Protocol-Version", statelessVersion)
	req.Header.Set("Mcp-Method", "subscriptions/listen")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	for in := bufio.NewScanner(resp.Body); in.Scan(); {
		if data, ok := strings.CutPrefix(in.Text(), "data: "); ok {
			if !strings.Contains(data, `"notifications":{"toolsListChanged":true}`) {
				t.Errorf("acknowledged is %s", data)
			}
			break
		}
	}
}

// The HTTP+SSE stream, as documented.
func TestLearnSSE(t *testing.T) {
	r := newLearn(t)
	auth := http.Header{"Authorization": {"Bearer " + r.key}}
	s := r.openSeed(t, "/api/mcp/sse", auth)
	if line := s.next(t); line != "event: endpoint" {
		t.Fatalf("the first line is %q", line)
	}
	address, ok := strings.CutPrefix(s.next(t), "data: ")
	if id, found := strings.CutPrefix(address, "/api/mcp/messages?sessionId="); !ok || !found || id == "" {
		t.Fatalf("the address is %q", address)
	}
	for _, c := range []struct{ body, want string }{
		{`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2024-11-05","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`, `"id":0,"result":{"protocolVersion":"2024-11-05","capabilities":{"tools":{"listChanged":true},"logging":{}},"serverInfo":{"name":"learn-assistant","title":"Patchbay Learn","version":"1.0.0"},"instructions":"`},
		{`{"jsonrpc":"2.0","method":"notifications/initialized"}`, ``},
		{`{"jsonrpc":"2.0","id":"t","method":"tools/call","params":{"name":"list_reviews"}}`,
			`"id":"t","result":{"content":[{"type":"text","text":"[]"}]}`},
		{`{"jsonrpc":"2.0","id":2,"method":"nope"}`,
			`"id":2,"error":{"code":-32601,"message":"Method not found: nope"}`},
		{`{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"test_echo","arguments":{"text":"x"}}}`,
			`"id":3,"error":{"code":-32602,"message":"Unknown tool: test_echo"}`},
		{`{"jsonrpc":"2.0","id":4,"method":"resources/list"}`, `"id":4,"result":{"resources":[]}`},
		{`{"jsonrpc":"2.0","id":5,"method":"prompts/list"}`, `"id":5,"result":{"prompts":[]}`},
		{`{"jsonrpc":"2.0","id":6,"method":"resources/templates/list"}`, `"id":6,"result":{"resourceTemplates":[]}`},
		{`{"jsonrpc":"2.0","id":7,"method":"resources/read","params":{"uri":"test://static-text"}}`, `"id":7,"error":`},
		{`{"jsonrpc":"2.0","id":8,"method":"prompts/get","params":{"name":"test_simple_prompt"}}`,
			`"id":8,"error":{"code":-32602`},
	} {
		if status, body := r.post(t, address, c.body, auth); status != http.StatusAccepted || body != "Accepted" {
			t.Errorf("%s: %d %s", c.body, status, body)
		}
		if c.want == "" {
			continue
		}
		line := s.next(t)
		for strings.HasPrefix(line, ":") {
			line = s.next(t)
		}
		if line != "event: message" {
			t.Fatalf("%s: %q", c.body, line)
		}
		if line = s.next(t); !strings.HasPrefix(line, `data: {"jsonrpc":"2.0",`+c.want) {
			t.Errorf("%s\n got %s\nwant %s", c.body, line, c.want)
		}
	}
	other := r.learnKey(t, "")
	for _, c := range []struct {
		path, key string
		status    int
		want      string
	}{
		{"/api/mcp/messages", r.key, 400,
			`{"jsonrpc":"2.0","error":{"code":-32000,"message":"Missing sessionId parameter"},"id":null}`},
		{"/api/mcp/messages?sessionId=", r.key, 400,
			`{"jsonrpc":"2.0","error":{"code":-32000,"message":"Missing sessionId parameter"},"id":null}`},
		{"/api/mcp/messages?sessionId=6a1d2a5e", r.key, 404,
			`{"jsonrpc":"2.0","error":{"code":-32000,"message":"Session not found"},"id":null}`},
		{address, other, 404, `{"jsonrpc":"2.0","error":{"code":-32000,"message":"Session not found"},"id":null}`},
		{address, "", 401, `{"error":{"code":-32000,"message":"Unauthorized: API key required"}}`},
	} {
		got := r.raw(t, "POST", c.path, c.key, `{"jsonrpc":"2.0","id":1,"method":"ping"}`)
		if got.StatusCode != c.status || got.body != c.want || got.Header.Get("Access-Control-Allow-Origin") != "*" {
			t.Errorf("%s: %s %s", c.path, got.Status, got.body)
		}
	}
}

// Revoking a key ends its stream; streams of valid keys stay open.
func TestLearnListenersKeepTheirScope(t *testing.T) {
	r := newLearn(t)
	l := newListener(hub.Access{}, &hub.View{})
	p, err := r.server.Accounts.Authenticate(t.Context(), r.key, account.ScopeLearn)
	if err != nil {
		t.Fatal(err)
	}
	l.access = r.server.limitToLearn(newCaller(p, channelLearn)).access
	before := l.access.Rules
	if access, ok := r.server.recheckAccess(l); !ok || access.Rules != before ||
		!strings.Contains(before, "next_review") {
		t.Errorf("a good key: %t, %s, before %s", ok, access.Rules, before)
	}
	if err := r.Store.Keys.Revoke(t.Context(), p.Key.ID, time.Now()); err != nil {
		t.Fatal(err)
	}
	r.server.Accounts = account.NewRecent(r.Accounts) // without cached keys
	if _, ok := r.server.recheckAccess(l); ok {
		t.Error("a revoked key goes on listening")
	}
}

// Third-party clients, over every transport of the endpoint.
func TestLearnClients(t *testing.T) {
	for name, connect := range map[string]func(t *testing.T, r *learnRig) *mcptest.Peer{
		"TypeScript, streamable": func(t *testing.T, r *learnRig) *mcptest.Peer {
			return mcptest.TypeScript(t, "streamable", r.url+"/api/mcp", r.key)
		},
		"TypeScript, SSE": func(t *testing.T, r *learnRig) *mcptest.Peer {
			return mcptest.TypeScript(t, "sse", r.url+"/api/mcp/sse", r.key)
		},
		"TypeScript 2, stateless": func(t *testing.T, r *learnRig) *mcptest.Peer {
			return mcptest.TypeScript(t, "modern", r.url+"/api/mcp", r.key)
		},
		"mcp-go, streamable": func(t *testing.T, r *learnRig) *mcptest.Peer {
			return mcptest.MCPGo(t, "streamable", r.url+"/api/mcp", r.key)
		},
		"mcp-go, stateless": func(t *testing.T, r *learnRig) *mcptest.Peer {
			return mcptest.MCPGo(t, "auto", r.url+"/api/mcp", r.key)
		},
		"mcp-go, SSE": func(t *testing.T, r *learnRig) *mcptest.Peer {
			return mcptest.MCPGo(t, "sse", r.url+"/api/mcp/sse", r.key)
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newLearn(t)
			p := connect(t, r)
			var server struct{ Name, Version string }
			about := p.Connected()
			if err := about.Decode("server", &server); err != nil || server.Name != "learn-assistant" {
				t.Errorf("it is connected with %v, %v", about, err)
			}
			var listed []struct{ Name string }
			err := p.Do("list", nil).Decode("tools", &listed)
			var all []string
			for _, x := range listed {
				all = append(all, x.Name)
			}
			if err != nil || !slices.Equal(sorted(all), sorted(r.server.LearnTools)) {
				t.Errorf("it lists %q, %v", all, err)
			}
			p.Call("create_knowledge_point", map[string]any{"question": "什么是主动回忆？", "answer": "…"})
			if got := p.Call("list_knowledge_points", nil).Text(); !strings.Contains(got, "什么是主动回忆？") {
				t.Errorf("it says %q", got)
			}
			if e := p.Finish(p.Start("call", map[string]any{"name": "test_echo",
				"args": map[string]any{"text": "x"}})); e.Name() != "failed" ||
				!strings.Contains(fmt.Sprint(e["message"]), "Unknown tool") {
				t.Errorf("a tool of another's: %v", e)
			}
			if !strings.Contains(name, "stateless") {
				offer := r.tools
				p.Call("list_reviews", nil) // the stream is open by now
				done, ended := make(chan struct{}), make(chan struct{})
				go func() { // repeatedly, since a client may not listen yet
					defer close(ended)
					tick := time.NewTicker(200 * time.Millisecond)
					defer tick.Stop()
					for i := 0; ; i++ {
						r.registration.SetTools(offer[:len(offer)-1-i%2])
						select {
						case <-done:
							return
						case <-tick.C:
						}
					}
				}()
				p.Until("notified",
					func(e mcptest.Event) bool { return e["method"] == "notifications/tools/list_changed" })
				close(done)
				<-ended
			}
		})
	}
}

// The official Go SDK, in all revisions.
func TestLearnGoSDK(t *testing.T) {
	for name, transport := range map[string]func(r *learnRig) sdk.Transport{
		"streamable": func(r *learnRig) sdk.Transport {
			return &sdk.StreamableClientTransport{Endpoint: r.url + "/api/mcp", HTTPClient: withKey(r.key)}
		},
		"SSE": func(r *learnRig) sdk.Transport {
			return &sdk.SSEClientTransport{Endpoint: r.url + "/api/mcp/sse", HTTPClient: withKey(r.key)}
		},
	} {
		for _, version := range []string{"", "2025-11-25", "2024-11-05"} {
			if version == "" && name == "SSE" {
				continue // it has sessions
			}
			t.Run(name+" "+version, func(t *testing.T) {
				r := newLearn(t)
				ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
				defer cancel()
				session, err := sdk.NewClient(&sdk.Implementation{Name: "go-sdk", Version: "1"}, nil).Connect(ctx,
					transport(r), &sdk.ClientSessionOptions{ProtocolVersion: version})
				if err != nil {
					t.Fatal(err)
				}
				defer session.Close()
				if got := session.InitializeResult(); got != nil &&
					(got.Capabilities.Resources != nil || got.Capabilities.Prompts != nil ||
						got.Capabilities.Tools == nil || !strings.Contains(got.Instructions, "next_review")) {
					t.Errorf("the endpoint says of itself %+v", got)
				}
				var all []string
				for x, err := range session.Tools(ctx, nil) {
					if err != nil {
						t.Fatal(err)
					}
					all = append(all, x.Name)
				}
				if !slices.Equal(sorted(all), sorted(r.server.LearnTools)) {
					t.Errorf("it lists %q", all)
				}
				res, err := session.CallTool(ctx, &sdk.CallToolParams{Name: "create_knowledge_point",
					Arguments: map[string]any{"question": "q", "answer": "a"}})
				if err != nil || res.IsError {
					t.Errorf("%+v, %v", res, err)
				}
				if res, err = session.CallTool(ctx, &sdk.CallToolParams{Name: "test_echo",
					Arguments: map[string]any{"text": "x"}}); err == nil {
					t.Errorf("a tool of another's: %+v", res)
				}
				calling, stop := context.WithCancel(ctx)
				time.AfterFunc(100*time.Millisecond, stop)
				if _, err := session.CallTool(calling, &sdk.CallToolParams{Name: "mark_as_reviewed",
					Arguments: map[string]any{"knowledge_point_id": "point-001",
						"recall_text": "slow"}}); !errors.Is(err, context.Canceled) {
					t.Errorf("a cancelled call: %v", err)
				}
				select {
				case <-r.stopped:
				case <-time.After(testTimeout):
					t.Error("the tool was not told that its call is cancelled")
				}
			})
		}
	}
}

// When a plain client disconnects, its call is canceled.
func TestLearnHangUp(t *testing.T) {
	r := newLearn(t)
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost,
		r.url+"/api/mcp",
		strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"submit_recall","arguments":{"schedule_id":"x","recall_text":"slow"}}}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+r.key)
	if resp, err := http.DefaultClient.Do(req); err == nil {
		resp.Body.Close()
		t.Fatal(resp.Status)
	}
	select {
	case <-r.stopped:
	case <-time.After(testTimeout):
		t.Error("the call goes on")
	}
}

// FuzzLearn posts any body to the Learn endpoint, as a plain client and as an MCP client. Each
// response is empty, a message, or several.
func FuzzLearn(f *testing.F) {
	r := newLearn(f)
	for _, c := range learnExamples {
		f.Add([]byte(c.body), "", "")
	}
	for _, body := range []string{
		`[{"jsonrpc":"2.0","id":0,"method":"ping"},7]`, `{"jsonrpc":"2.0","id":0,"method":"initialize","params":null}`,
		`[[]]`, `{"params":null}`,
		`{"jsonrpc":"2.0","id":"a","method":"tools/call","params":{"name":"get_knowledge_point","arguments":{"id":"x"}}}`, `{"id":{},"params":null,"params":null}`,
	} {
		f.Add([]byte(body), "application/json", "2025-11-25")
		f.Add([]byte(body), "text/event-stream", statelessVersion)
	}
	f.Fuzz(func(t *testing.T, body []byte, accept, version string) {
		if strings.Contains(string(body), "slow") || strings.Contains(string(body), "subscriptions/listen") {
			t.Skip("they take their time")
		}
		req := httptest.NewRequestWithContext(t.Context(), http.MethodPost,
			"http://localhost/api/mcp", strings.NewReader(string(body)))
		req.RemoteAddr = "127.0.0.1:1"
		req.Header["Accept"], req.Header["Mcp-Protocol-Version"], req.Header["Authorization"] = []string{accept},
			[]string{version}, []string{"Bearer " + r.key}
		w := httptest.NewRecorder()
		r.server.ServeLearn(w, req)
		text := w.Body.Bytes()
		if w.Header().Get("Access-Control-Allow-Origin") != "*" || w.Code >= 500 {
			t.Fatalf("%s is answered %d %v", body, w.Code, w.Header())
		}
		if strings.HasPrefix(w.Header().Get("Content-Type"), "text/event-stream") {
			return
		}
		if (w.Code == http.StatusAccepted) != (len(text) == 0) || len(text) > 0 && !json.Valid(text) {
			t.Fatalf("%s is answered %d %q", body, w.Code, text)
		}
	})
}
