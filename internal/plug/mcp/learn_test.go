package mcp

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"patchbay/internal/account"
	"patchbay/internal/hub"
	"patchbay/internal/plug/mcp/mcptest"
	"patchbay/internal/tool"
)

// learnRig is a rig with Learn and other tools. Its key is valid for the Learn endpoint only.
type learnRig struct {
	*rig
	mcpKey       string // valid for the other endpoints only
	registration *hub.Registration
	tools        []tool.Tool
	stopped      chan string
}

func newLearn(t testing.TB) *learnRig {
	t.Helper()
	stopped := make(chan string, 10)
	learn := mcptest.NewFakeLearn(stopped)
	r := &learnRig{rig: newRig(t, rigOptions{mcp: Options{LearnTools: learn.Names()}}), tools: learn.Tools(),
		stopped: stopped}
	r.registration = r.register(t, hub.ProviderRef{ID: "learn", Kind: "learn"}, learn, r.tools...)
	all := mcptest.New(mcptest.Options{})
	r.register(t, hub.ProviderRef{ID: "fixtures", Kind: "fixtures"}, all, all.Tools()...)
	r.mcpKey, r.key = r.key, r.learnKey(t, "")
	return r
}

func (r *learnRig) learnKey(t testing.TB, rules string, scopes ...string) string {
	t.Helper()
	return r.Key(t, account.NewKey{Scopes: append(scopes, account.ScopeLearn), Rules: rules})
}

// answer is the response to raw bytes on a connection.
type answer struct {
	*http.Response
	body string
}

// write writes a request unchanged, and reads the response.
func (r *rig) write(t testing.TB, request string) answer {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(r.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(testTimeout)) //nolint:errcheck // an error shows below
	if _, err := io.WriteString(conn, request); err != nil {
		t.Fatal(err)
	}
	method, _, _ := strings.Cut(request, " ")
	resp, err := http.ReadResponse(bufio.NewReader(conn), &http.Request{Method: method})
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer{resp, string(text)}
}

// raw sends a request to the Learn endpoint as a hand-written client does: without Accept and MCP
// headers. An empty key sends none.
func (r *learnRig) raw(t testing.TB, method, path, key, body string) answer {
	t.Helper()
	auth := ""
	if key != "" {
		auth = "Authorization: Bearer " + key + "\r\n"
	}
	return r.write(t,
		fmt.Sprintf("%s %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\n%sContent-Length: %d\r\n\r\n%s", method, path, auth, len(body), body))
}

// The bodies of the documented examples, with their white space, and the expected responses.
var learnExamples = []struct{ name, body, want string }{
	{"initialize", "{\n    \"jsonrpc\": \"2.0\",\n    \"id\": 1,\n    \"method\": \"initialize\",\n    \"params\": {}\n  }",
		`{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2024-11-05","capabilities":{"tools":{}},"serverInfo":{"name":"learn-assistant","version":"1.0.0"}}}`},
	{"tools/list", "{\n    \"jsonrpc\": \"2.0\",\n    \"id\": 2,\n    \"method\": \"tools/list\",\n    \"params\": {}\n  }", ""},
	{"list_reviews",
		"{\n    \"jsonrpc\": \"2.0\",\n    \"id\": 3,\n    \"method\": \"tools/call\",\n    \"params\": {\n      \"name\": \"list_reviews\",\n      \"arguments\": {}\n    }\n  }",
		`{"jsonrpc":"2.0","id":3,"result":{"content":[{"type":"text","text":"[]"}]}}`},
	{"create_knowledge_point",
		"{\n    \"jsonrpc\": \"2.0\",\n    \"id\": 4,\n    \"method\": \"tools/call\",\n    \"params\": {\n      \"name\": \"create_knowledge_point\",\n      \"arguments\": {\n        \"question\": \"什么是主动回忆？\",\n        \"answer\": \"主动回忆是一种学习技巧...\"\n      }\n    }\n  }",
		`{"jsonrpc":"2.0","id":4,"result":{"content":[{"type":"text","text":"{\n  \"id\": \"point-001\",\n  \"question\": \"什么是主动回忆？\",\n  \"answer\": \"主动回忆是一种学习技巧...\"\n}"}]}}`},
}

// names returns the names of the tools in an answer to tools/list.
func names(t *testing.T, list string) (all []string) {
	t.Helper()
	var m struct {
		Result struct {
			Tools      []struct{ Name, Description string }
			NextCursor *string
		}
	}
	if err := json.Unmarshal([]byte(list), &m); err != nil || m.Result.NextCursor != nil {
		t.Errorf("%v: %s", err, list)
	}
	for _, x := range m.Result.Tools {
		all = append(all, x.Name)
	}
	return all
}

func sorted(list []string) []string { return slices.Sorted(slices.Values(list)) }

// The documented examples, byte for byte, and with curl.
func TestLearnExamples(t *testing.T) {
	check := func(t *testing.T, r *learnRig, name, got, want string) {
		t.Helper()
		if name == "tools/list" {
			if all := names(t, got); !slices.Equal(all, r.server.LearnTools) {
				t.Errorf("it lists %q", all)
			}
			if !strings.Contains(got, "查询今日需要复习的列表") || !strings.HasPrefix(got,
				`{"jsonrpc":"2.0","id":2,"result":{"tools":[{"name":`) {
				t.Errorf("got %.200s", got)
			}
			return
		}
		if got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
	t.Run("as bytes", func(t *testing.T) {
		r := newLearn(t)
		for _, c := range learnExamples {
			got := r.raw(t, "POST", "/api/mcp", r.key, c.body)
			if got.StatusCode != http.StatusOK || got.Header.Get("Content-Type") != "application/json" {
				t.Errorf("%s: %s, %s", c.name, got.Status, got.Header)
			}
			check(t, r, c.name, got.body, c.want)
		}
	})
	t.Run("by curl", func(t *testing.T) {
		curl, err := exec.LookPath("curl")
		if err != nil {
			t.Skip("there is no curl")
		}
		r := newLearn(t)
		for _, c := range learnExamples {
			got, err := exec.CommandContext(t.Context(), curl, "-sS", "--fail", "-X", "POST", r.url+"/api/mcp",
				"-H", "Content-Type: application/json", "-H", "Authorization: Bearer "+r.key, "-d", c.body).Output()
			if err != nil {
				t.Errorf("%s: %v", c.name, err)
			}
			check(t, r, c.name, string(got), c.want)
		}
	})
}

// The cases that the first server at this address had (github.com/MrYang2016/learn-assistant at
// 1c398d0), with the responses of this one.
func TestLearnPlain(t *testing.T) {
	r := newLearn(t)
	const hello = `"result":{"protocolVersion":"2024-11-05","capabilities":{"tools":{}},"serverInfo":{"name":"learn-assistant","version":"1.0.0"}}}`
	call := func(id, name, args string) string {
		return `{"jsonrpc":"2.0","id":` + id + `,"method":"tools/call","params":{"name":"` + name + `","arguments":` +
			args + `}}`
	}
	for _, c := range []struct {
		name, body string
		status     int
		want       string // of the body; with … at the end, a prefix
	}{
		{"id 0", `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25"}}`, 200,
			`{"jsonrpc":"2.0","id":0,` + hello},
		{"a text as id", `{"jsonrpc":"2.0","id":"ä","method":"initialize"}`, 200, `{"jsonrpc":"2.0","id":"ä",` + hello},
		{"no parameters are null", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":null}`, 200,
			`{"jsonrpc":"2.0","id":1,` + hello},
		{"notification", `{"jsonrpc":"2.0","method":"notifications/initialized"}`, 202, ``},
		{"unknown notification", `{"jsonrpc":"2.0","method":"nope"}`, 202, ``},
		{"an answer", `{"jsonrpc":"2.0","id":1,"result":{}}`, 202, ``},
		{"ping", `{"jsonrpc":"2.0","id":1,"method":"ping"}`, 200, `{"jsonrpc":"2.0","id":1,"result":{}}`},
		{"unknown method", `{"jsonrpc":"2.0","id":5,"method":"nope"}`, 400,
			`{"jsonrpc":"2.0","id":5,"error":{"code":-32601,"message":"Method not found: nope"}}`},
		{"of MCP", `{"jsonrpc":"2.0","id":5,"method":"resources/list"}`, 400,
			`{"jsonrpc":"2.0","id":5,"error":{"code":-32601,"message":"Method not found: resources/list"}}`},
		{"no JSON", `{"jsonrpc":`, 400, `{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"Parse error: …`},
		{"nothing", ``, 400, `{"jsonrpc":"2.0","id":null,"error":{"code":-32700,…`},
		{"no message", `{"id":3}`, 400, `{"jsonrpc":"2.0","id":3,"error":{"code":-32600,"message":"Invalid Request: …`},
		{"id null", `{"jsonrpc":"2.0","id":null,"method":"ping"}`, 400,
			`{"jsonrpc":"2.0","id":null,"error":{"code":-32600,…`},
		{"call of nothing", `{"jsonrpc":"2.0","id":1,"method":"tools/call"}`, 200,
			`{"jsonrpc":"2.0","id":1,"error":{"code":-32602,…`},
		{"parameters in an array", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":[]}`, 200,
			`{"jsonrpc":"2.0","id":1,"error":{"code":-32602,…`},
		{"unknown tool", call("1", "nope", "{}"), 200,
			`{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"Unknown tool: nope"}}`},
		{"a tool of another's", call("1", "test_echo", `{"text":"x"}`), 200,
			`{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"Unknown tool: test_echo"}}`},
		{"argument missing", call("1", "get_knowledge_point", "{}"), 200,
			`{"jsonrpc":"2.0","id":1,"error":{"code":-32602,…`},
		{"argument of another kind", call("1", "get_knowledge_point", `{"id":7}`), 200,
			`{"jsonrpc":"2.0","id":1,"error":{"code":-32602,…`},
		{"arguments that are none", call("1", "get_knowledge_point", `"x"`), 200,
			`{"jsonrpc":"2.0","id":1,"error":{"code":-32602,…`},
		{"arguments null", call("1", "next_review", `null`), 200,
			`{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"{\"note\":\"Nothing is due.\"}"}],"structuredContent":{"note":"Nothing is due."}}}`},
		{"the tool fails", call("1", "get_knowledge_point", `{"id":"x"}`), 200,
			`{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"Knowledge point not found: x"}],"isError":true}}`},
		{"several", `[{"jsonrpc":"2.0","id":0,"method":"ping"},{"jsonrpc":"2.0","method":"x"},7,{"jsonrpc":"2.0","id":"b","method":"nope"}]`, 200,
			`[{"jsonrpc":"2.0","id":0,"result":{}},{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"Invalid Request: this is no JSON-RPC 2.0 message"}},{"jsonrpc":"2.0","id":"b","error":{"code":-32601,"message":"Method not found: nope"}}]`},
		{"several without answers", ` [{"jsonrpc":"2.0","method":"x"}]`, 202, ``},
		{"none of several", `[]`, 400, `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,…`},
		{"too many", `[` + strings.Repeat(`{"jsonrpc":"2.0","id":0,"method":"ping"},`, maxBatch) + `1]`, 400,
			`{"jsonrpc":"2.0","id":null,"error":{"code":-32600,…`},
		{"as many as there may be", `[` + strings.Repeat(`{"jsonrpc":"2.0","method":"ping"},`, maxBatch-1) +
			`{"jsonrpc":"2.0","id":0,"method":"ping"}]`, 200, `[{"jsonrpc":"2.0","id":0,"result":{}}]`},
		{"several that break off", `[{"jsonrpc":"2.0","id":0,"method":"ping"}`, 400,
			`{"jsonrpc":"2.0","id":null,"error":{"code":-32700,…`},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := r.raw(t, "POST", "/api/mcp", r.key, c.body)
			begins, open := strings.CutSuffix(c.want, "…")
			if got.StatusCode != c.status || got.body != c.want && !(open && strings.HasPrefix(got.body, begins)) ||
				got.body != "" && !json.Valid([]byte(got.body)) {
				t.Errorf("%d %s, want %d %s", got.StatusCode, got.body, c.status, c.want)
			}
			if got.Header.Get("Access-Control-Allow-Origin") != "*" {
				t.Error("web pages cannot read it")
			}
		})
	}
	for name, header := range map[string]string{
		"any Accept":     "Accept: */*\r\n",
		"JSON":           "Accept: application/json\r\n",
		"no type":        "Content-Type: text/plain\r\n",
		"strange MCP":    "Mcp-Session-Id: gone\r\nMcp-Protocol-Version: 1999-01-01\r\nMcp-Method: other\r\n",
		"stateless MCP":  "Mcp-Protocol-Version: 2026-07-28\r\n",
		"a page's":       "Origin: https://elsewhere.example\r\n",
		"a form's":       "Content-Type: application/x-www-form-urlencoded\r\nCookie: a=b\r\n",
		"a small Bearer": "X: y\r\n",
	} {
		auth := "Authorization: Bearer "
		if name == "a small Bearer" {
			auth = "authorization: bearer  "
		}
		body := `{"jsonrpc":"2.0","id":1,"method":"ping"}`
		got := r.write(t,
			fmt.Sprintf("POST /api/mcp HTTP/1.1\r\nHost: 127.0.0.1:3001\r\nConnection: close\r\n%s%s%s\r\nContent-Length: %d\r\n\r\n%s", header, auth, r.key, len(body), body))
		if got.StatusCode != 200 || got.body != `{"jsonrpc":"2.0","id":1,"result":{}}` {
			t.Errorf("%s: %s %s", name, got.Status, got.body)
		}
	}
	big := r.write(t,
		fmt.Sprintf("POST /api/mcp HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\nExpect: 100-continue\r\nContent-Length: %d\r\n\r\n", r.key, 4<<20+1))
	if big.StatusCode != http.StatusRequestEntityTooLarge {
		t.Errorf("too large: %s %.100s", big.Status, big.body)
	}
}

// Plain clients do not support paging, and get the whole list however long it is. Their requests
// are counted as at every endpoint.
func TestLearnPlainList(t *testing.T) {
	var tools []tool.Tool
	var all []string
	for i := range 150 {
		all = append(all, fmt.Sprintf("tool_%03d", i))
		tools = append(tools, tool.Tool{Name: all[i], Description: strings.Repeat("long ", pageBytes/500)})
	}
	r := &learnRig{rig: newRig(t, rigOptions{mcp: Options{LearnTools: all}})}
	r.register(t, hub.ProviderRef{ID: "learn", Kind: "learn"},
		providerFunc(func(context.Context, *tool.Call) (*tool.Result, error) { return tool.Text("x"), nil }), tools...)
	got := r.raw(t, "POST", "/api/mcp", r.learnKey(t, ""), `{"jsonrpc":"2.0","id":2,"method":"tools/list"}`)
	if listed := names(t, got.body); !slices.Equal(listed, all) {
		t.Errorf("%d tools are listed", len(listed))
	}
	families, err := r.server.Registerer.(*prometheus.Registry).Gather()
	if err != nil {
		t.Fatal(err)
	}
	counted := ""
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == "patchbay_mcp_requests_total" {
				counted += fmt.Sprint(m.GetLabel(), m.GetCounter().GetValue())
			}
		}
	}
	if !strings.Contains(counted, `"learn"`) || !strings.Contains(counted, `"tools/list"`) {
		t.Errorf("counted is %s", counted)
	}
}

// Every form of an invalid key is refused before the body is read.
func TestLearnKeys(t *testing.T) {
	r := newLearn(t)
	revoked, expired, none := r.learnKey(t,
		""), "", `{"error":{"code":-32000,"message":"Unauthorized: API key required"}}`
	bad := `{"error":{"code":-32000,"message":"Unauthorized: Invalid API key"}}`
	p, err := r.Accounts.Authenticate(context.Background(), revoked, account.ScopeLearn)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Store.Keys.Revoke(context.Background(), p.Key.ID, time.Now()); err != nil {
		t.Fatal(err)
	}
	expired = r.Key(t, account.NewKey{Scopes: []string{account.ScopeLearn}, Expires: time.Nanosecond})
	for _, c := range []struct{ name, auth, want string }{
		{"none", "", none},
		{"another scheme", "Basic YTpi", none},
		{"nothing behind it", "Bearer ", none},
		{"unknown", "Bearer sk_0123456789", bad},
		{"revoked", "Bearer " + revoked, bad},
		{"expired", "Bearer " + expired, bad},
		{"of the other endpoints", "Bearer " + r.mcpKey, bad},
	} {
		t.Run(c.name, func(t *testing.T) {
			auth := ""
			if c.auth != "" {
				auth = "Authorization: " + c.auth + "\r\n"
			}
			for _, head := range []string{
				"POST /api/mcp HTTP/1.1\r\n",
				"POST /api/mcp HTTP/1.1\r\nAccept: application/json, text/event-stream\r\n",
				"DELETE /api/mcp HTTP/1.1\r\n", "GET /api/mcp HTTP/1.1\r\nAccept: text/event-stream\r\n",
				"POST /api/mcp/messages?sessionId=x HTTP/1.1\r\n",
			} {
				// The client sends the body only after 100 Continue, which the server must not
				// send.
				got := r.write(t, head+"Host: localhost\r\nExpect: 100-continue\r\nContent-Length: 1000\r\n"+auth+
					"\r\n")
				if got.StatusCode != 401 || got.body != c.want ||
					got.Header.Get("Content-Type") != "application/json" ||
					!strings.HasPrefix(got.Header.Get("WWW-Authenticate"), "Bearer ") ||
					got.Header.Get("Access-Control-Allow-Origin") != "*" {
					t.Errorf("%s: %s %v %s", head, got.Status, got.Header, got.body)
				}
			}
			got := r.write(t, "GET /api/mcp/sse HTTP/1.1\r\nHost: localhost\r\n"+auth+"\r\n")
			var want struct{ Error struct{ Message string } }
			if err := json.Unmarshal([]byte(c.want), &want); err != nil {
				t.Fatal(err)
			}
			if got.StatusCode != 401 || got.body != want.Error.Message ||
				!strings.HasPrefix(got.Header.Get("Content-Type"), "text/plain") ||
				got.Header.Get("Access-Control-Allow-Origin") != "*" {
				t.Errorf("the stream: %s %v %s", got.Status, got.Header, got.body)
			}
		})
	}
	t.Run("of Learn, elsewhere", func(t *testing.T) {
		status, body := r.post(t, "/mcp",
			`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"raw","version":"1"}}}`,
			http.Header{"Authorization": {"Bearer " + r.key}, "Accept": {"application/json, text/event-stream"}})
		if status != http.StatusUnauthorized {
			t.Errorf("%d %s", status, body)
		}
	})
	t.Run("guessed", func(t *testing.T) {
		r := newLearn(t)
		r.server.Guard = account.NewGuard(3, nil)
		for i := range 5 {
			got := r.raw(t, "POST", "/api/mcp", fmt.Sprintf("sk_%d", i), "")
			if i < 3 && got.StatusCode != 401 {
				t.Errorf("guess %d: %s", i, got.Status)
			}
			if i >= 3 && (got.StatusCode != 429 || got.Header.Get("Retry-After") != "60" ||
				!strings.HasPrefix(got.body, `{"error":{"code":-32000,"message":"`)) {
				t.Errorf("guess %d: %s %v %s", i, got.Status, got.Header, got.body)
			}
		}
		if got := r.raw(t, "POST", "/api/mcp", r.key,
			`{"jsonrpc":"2.0","id":1,"method":"ping"}`); got.StatusCode != 200 {
			t.Errorf("the good key: %s", got.Status)
		}
	})
}

// The responses to browsers, without a key.
func TestLearnOpen(t *testing.T) {
	r := newLearn(t)
	about := `{"name":"learn-assistant","version":"1.0.0","protocol":"json-rpc-2.0","endpoint":"/api/mcp","authentication":{"type":"bearer","header":"Authorization"}}`
	for _, c := range []struct {
		request string
		status  int
		body    string
	}{
		{"GET /api/mcp HTTP/1.1\r\nHost: localhost\r\n\r\n", 200, about},
		{"GET /api/mcp HTTP/1.1\r\nHost: localhost\r\nAccept: text/html,*/*\r\nOrigin: https://elsewhere.example\r\n\r\n", 200, about},
		{"OPTIONS /api/mcp HTTP/1.1\r\nHost: localhost\r\nOrigin: https://elsewhere.example\r\nAccess-Control-Request-Method: POST\r\nAccess-Control-Request-Headers: authorization,mcp-session-id\r\n\r\n", 200, ""},
		{"OPTIONS /api/mcp/sse HTTP/1.1\r\nHost: localhost\r\nOrigin: null\r\n\r\n", 200, ""},
		{"OPTIONS /api/mcp/messages?sessionId=1 HTTP/1.1\r\nHost: localhost\r\n\r\n", 200, ""},
		{"PUT /api/mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n", 405, "*"},
		{"POST /api/mcp/sse HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n", 405, "*"},
		{"GET /api/mcp/messages HTTP/1.1\r\nHost: localhost\r\n\r\n", 405, "*"},
		{"GET /api/mcp HTTP/1.1\r\nHost: rebound.example\r\n\r\n", 403, "*"},
		{"POST /api/mcp HTTP/1.1\r\nHost: rebound.example\r\nContent-Length: 0\r\nAuthorization: Bearer " + r.key +
			"\r\n\r\n", 403, "*"},
		{"GET /api/mcp/sse HTTP/1.1\r\nHost: rebound.example\r\nAuthorization: Bearer " + r.key + "\r\n\r\n", 403, "*"},
	} {
		got := r.write(t, c.request)
		if got.StatusCode != c.status || c.body != "*" && got.body != c.body {
			t.Errorf("%q: %s %s", c.request, got.Status, got.body)
		}
		allow := got.Header.Get("Access-Control-Allow-Headers")
		if got.Header.Get("Access-Control-Allow-Origin") != "*" ||
			!strings.HasPrefix(allow, "Content-Type, Authorization") || !strings.Contains(allow, "Mcp-Session-Id") ||
			!strings.Contains(got.Header.Get("Access-Control-Allow-Methods"), "OPTIONS") ||
			!strings.Contains(got.Header.Get("Access-Control-Expose-Headers"), "Mcp-Session-Id") {
			t.Errorf("%q: %v", c.request, got.Header)
		}
	}
	if got := r.write(t, "OPTIONS /api/mcp HTTP/1.1\r\nHost: localhost\r\n\r\n").
		Header.Get("Access-Control-Allow-Methods"); !strings.HasPrefix(got, "POST, OPTIONS, GET") {
		t.Errorf("methods %q", got)
	}
}

// The rules of a key restrict the endpoint further, and never extend it.
func TestLearnRules(t *testing.T) {
	r := newLearn(t)
	for _, c := range []struct {
		rules string
		want  []string
	}{
		{`{"allow":["list_*","test_*"]}`, []string{"list_reviews", "list_knowledge_points"}},
		{`{"allow":["test_*"]}`, nil},
		{`{"allow":["get_knowledge_point","next_review"],"deny":["next_*"],"keep_args":true}`,
			[]string{"get_knowledge_point"}},
	} {
		key := r.learnKey(t, c.rules, account.ScopeMCP)
		got := r.raw(t, "POST", "/api/mcp", key, `{"jsonrpc":"2.0","id":2,"method":"tools/list"}`)
		if all := names(t, got.body); !slices.Equal(all, c.want) {
			t.Errorf("%s shows %q", c.rules, all)
		}
		got = r.raw(t, "POST", "/api/mcp", key,
			`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"delete_knowledge_point","arguments":{"id":"x"}}}`)
		if !strings.Contains(got.body, "is not allowed here") || !strings.Contains(got.body, `"isError":true`) {
			t.Errorf("%s: a tool that the key may not use: %s", c.rules, got.body)
		}
	}
}
