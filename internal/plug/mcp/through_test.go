package mcp

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"patchbay/internal/hub"
	"patchbay/internal/jsonrpc"
	"patchbay/internal/plug/mcp/mcptest"
	"patchbay/internal/plug/mcp/upstream"
	"patchbay/internal/tool"
)

// addUpstream has a rig's hub offer what a server has, and waits until it does.
func addUpstream(t testing.TB, r *rig, spec upstream.Spec) *upstream.Manager {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	m := upstream.New(upstream.Options{
		Register: func(s upstream.Spec, p tool.Provider) upstream.Registration {
			registration, err := r.Hub.Register(hub.ProviderRef{ID: s.ID, Kind: "upstream", Owner: s.Owner, Slug: s.Slug,
				Title: s.Title}, p)
			if err != nil {
				panic(err)
			}
			return registration
		},
		Logger:       logger(t),
		Installation: r.Hub.Installation,
	})
	t.Cleanup(m.Close)
	spec.ID, spec.Title, spec.Version = "server", "Server", 1
	m.Set([]upstream.Spec{spec})
	for limit := time.After(testTimeout); ; {
		if st, ok := m.Status("server"); ok && st.State == upstream.Ready {
			return m
		}
		select {
		case <-tick.C:
		case <-limit:
			st, _ := m.Status("server")
			t.Fatalf("the server is not connected: %+v, %v", st, st.Err)
		}
	}
}

// everythingServer starts the server that the official Go SDK is tested with.
func everythingServer(t testing.TB, stateless bool) (address string) {
	t.Helper()
	program := filepath.Join(t.TempDir(), "everything")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", program,
		"github.com/modelcontextprotocol/go-sdk/conformance/everything-server")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	at := l.Addr().String()
	_ = l.Close()
	cmd := exec.CommandContext(t.Context(), program, "-http", at)
	if !stateless {
		cmd.Args = append(cmd.Args, "-stateless=false")
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	for limit := time.Now().Add(testTimeout); ; {
		c, err := net.DialTimeout("tcp", at, time.Second)
		if err == nil {
			_ = c.Close()
			return "http://" + at + "/mcp"
		}
		if time.Now().After(limit) {
			t.Fatal(err)
		}
	}
}

// beyondSDK is a check that the SDK's server fails in a session: its bridge for older clients asks
// once, and returns the second question as a result (modelcontextprotocol/go-sdk v1.8.0,
// mcp/mrtr.go). Without a session in between, the suite does not get as far.
const beyondSDK = "input-required-result-multi-round: sep-2322-multi-round-r2"

// The official suite through this server, in front of the server of the official Go SDK, with each
// of the two eras on both sides and with mapped names: what the server itself passes is not lost.
func TestConformanceThrough(t *testing.T) {
	for _, era := range []struct {
		name      string
		stateless bool
	}{{"sessions", false}, {"no sessions", true}} {
		for _, revision := range []string{"2025-11-25", "2026-07-28"} {
			t.Run(revision+" to a server with "+era.name, func(t *testing.T) {
				direct := mcptest.Failures(t, everythingServer(t, era.stateless), revision)
				r := newRig(t, rigOptions{open: true})
				addUpstream(t, r, upstream.Spec{Slug: "srv",
					Settings: upstream.Settings{URL: everythingServer(t, era.stateless)}})
				for check, why := range mcptest.Failures(t, unmapNames(t, r.url)+"/mcp", revision) {
					if _, itself := direct[check]; !itself && check != beyondSDK {
						t.Errorf("%s: %s", check, why)
					}
				}
			})
		}
	}
}

// unmapNames returns the address of a proxy, behind which the names and URIs of the upstream srv
// are those that its server has, since the suite asks for those.
func unmapNames(t testing.TB, target string) string {
	t.Helper()
	to, err := url.Parse(target)
	if err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile(`"method":"(?:tools/call|prompts/get|completion/complete)"`)
	name := regexp.MustCompile(`"name":"(test_|json_schema|__transient)`)
	outward := func(text string) string {
		return strings.ReplaceAll(text, "test://", "test://srv/")
	}
	proxy := &httputil.ReverseProxy{
		FlushInterval: -1,
		Rewrite: func(p *httputil.ProxyRequest) {
			p.SetURL(to)
			p.Out.Host = p.In.Host
			body, _ := io.ReadAll(p.In.Body)
			if named.Match(body) {
				body = name.ReplaceAll(body, []byte(`"name":"srv_$1`))
			}
			body = []byte(outward(string(body)))
			p.Out.Body, p.Out.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
			if n := p.Out.Header.Get("Mcp-Name"); strings.HasPrefix(n, "test_") || strings.HasPrefix(n, "json_") {
				p.Out.Header.Set("Mcp-Name", "srv_"+n)
			} else {
				p.Out.Header.Set("Mcp-Name", outward(n))
			}
		},
		ModifyResponse: func(r *http.Response) error {
			r.Header.Del("Content-Length")
			r.ContentLength = -1
			r.Body = &unmappedBody{ReadCloser: r.Body}
			return nil
		},
		ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError), // of clients that disconnect
	}
	server := httptest.NewUnstartedServer(proxy)
	server.Config.SetKeepAlivesEnabled(false) // as in mcptest.Proxy
	server.Start()
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	return server.URL
}

// unmappedBody undoes the mapping in a response, line by line.
type unmappedBody struct {
	io.ReadCloser
	lines *bufio.Reader
	rest  []byte
}

func (b *unmappedBody) Read(p []byte) (int, error) {
	if b.lines == nil {
		b.lines = bufio.NewReader(b.ReadCloser)
	}
	if len(b.rest) == 0 {
		line, err := b.lines.ReadString('\n')
		if line == "" {
			return 0, err
		}
		line = strings.ReplaceAll(line, `"name":"srv_`, `"name":"`)
		b.rest = []byte(strings.ReplaceAll(line, "test://srv/", "test://"))
	}
	n := copy(p, b.rest)
	b.rest = b.rest[n:]
	return n, nil
}

// behind starts a second installation with the suite's fixtures, and returns its address.
func behind(t *testing.T) (*rig, *mcptest.Fixtures, upstream.Settings) {
	r := newRig(t, rigOptions{hub: hub.Options{Installation: "behind"}})
	return r, registerFixtures(t, r), upstream.Settings{URL: r.url + "/mcp", Token: r.key}
}

// askStateless sends a request of the revision without sessions.
func (c *client) askStateless(t *testing.T, method, params string) string {
	t.Helper()
	header := c.header.Clone()
	header.Del("Mcp-Session-Id")
	header.Set("Mcp-Protocol-Version", statelessVersion)
	header.Set("Mcp-Method", method)
	var named struct{ Name, URI string }
	if err := json.Unmarshal([]byte(params), &named); err != nil {
		t.Fatal(err)
	}
	header.Set("Mcp-Name", named.Name+named.URI)
	meta := json.RawMessage(`{"` + metaVersion + `":"` + statelessVersion + `","` + metaCapabilities + `":{}}`)
	_, got := c.post(t, "/mcp", `{"jsonrpc":"2.0","id":1,"method":"`+method+`","params":`+
		string(jsonrpc.With(json.RawMessage(params), "_meta", meta))+`}`, header)
	return got
}

// Two installations that have each other as upstreams offer each thing once.
func TestCircle(t *testing.T) {
	front := newRig(t, rigOptions{hub: hub.Options{Installation: "front"}})
	back, _, settings := behind(t)
	addUpstream(t, back, upstream.Spec{Slug: "front", Settings: upstream.Settings{URL: front.url + "/mcp", Token: front.key}})
	addUpstream(t, front, upstream.Spec{Slug: "back", Settings: settings})
	for _, c := range []struct{ method, want string }{
		{"resources/list", "test://back/static-text"}, {"resources/templates/list", "test://back/template"},
		{"prompts/list", "back_test_simple_prompt"}, {"tools/list", "back_test_simple_text"},
	} {
		body := `{"jsonrpc":"2.0","id":1,"method":"` + c.method + `","params":{}}`
		for _, r := range []*rig{front, back} {
			_, got := r.connect(t, r.key, "2025-11-25").ask(t, body)
			if r == front && !strings.Contains(got, c.want) || strings.Contains(got, "front/back") ||
				strings.Contains(got, "back/front") || strings.Contains(got, "front_back") || strings.Contains(got, "back_front") {
				t.Errorf("%s: %s", c.method, got)
			}
		}
	}
	_, got := front.connect(t, front.key, "2025-11-25").ask(t,
		`{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"test://back/front/x"}}`)
	if !strings.Contains(got, "Resource not found") {
		t.Error(got)
	}
}
