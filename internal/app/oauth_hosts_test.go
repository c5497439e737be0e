package app

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"
)

// host is how a program that people connect with MCP servers is let in, see testdata/hosts.json.
type host struct {
	Name       string
	Source     []string
	Register   json.RawMessage   // body; nil: a document describes it
	DocumentAt string            `json:"document_at"`
	Document   json.RawMessage   // at that address
	Authorize  map[string]string // parameters, of which those with a $ are values of the run
	Token      map[string]string
	Refresh    map[string]string
	Initialize json.RawMessage // parameters
}

func (h *host) documents(t *testing.T) http.RoundTripper {
	return documents(t, map[string]string{h.DocumentAt: string(h.Document)})
}

// grant is a program of a host that is let in, or about to be.
type grant struct {
	s      *oauthServer
	host   *host
	server serverDocument
	values map[string]string // of the words with a $
	access string
}

// serverDocument is what programs read of the metadata of an authorization server.
type serverDocument struct {
	Issuer    string
	Authorize string   `json:"authorization_endpoint"`
	Token     string   `json:"token_endpoint"`
	Register  string   `json:"registration_endpoint"`
	Revoke    string   `json:"revocation_endpoint"`
	Documents bool     `json:"client_id_metadata_document_supported"`
	Methods   []string `json:"token_endpoint_auth_methods_supported"`
}

// discover finds the authorization server by the refusal of a request.
func (s *oauthServer) discover(h *host) *grant {
	s.t.Helper()
	g := &grant{s: s, host: h, values: map[string]string{"$state": "a state",
		"$verifier":  "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk", // RFC 7636 appendix B
		"$challenge": "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"}}
	resp := s.rpc("", "", g.message("initialize", string(h.Initialize)))
	resp.Body.Close()
	_, rest, _ := strings.Cut(resp.Header.Get("WWW-Authenticate"), `resource_metadata="`)
	document, _, _ := strings.Cut(rest, `"`)
	var resource struct {
		Resource string
		Servers  []string `json:"authorization_servers"`
	}
	s.read(document, &resource)
	if resp.StatusCode != http.StatusUnauthorized || resource.Resource != s.url+"/mcp" || len(resource.Servers) != 1 {
		s.t.Fatalf("%s, the document at %q: %+v", resp.Status, document, resource)
	}
	g.values["$resource"] = resource.Resource
	s.read(resource.Servers[0]+"/.well-known/oauth-authorization-server", &g.server)
	if g.server.Issuer != resource.Servers[0] || !slices.Contains(g.server.Methods, "none") {
		s.t.Fatalf("the server: %+v", g.server)
	}
	return g
}

// read reads a document.
func (s *oauthServer) read(address string, into any) {
	s.t.Helper()
	resp, err := http.Get(address) //nolint:noctx,gosec // of the test's server
	must(s.t, err)
	defer resp.Body.Close()
	must(s.t, json.NewDecoder(resp.Body).Decode(into))
}

// register has the program say who it is: by a registration if it has one.
func (g *grant) register() {
	t := g.s.t
	t.Helper()
	if g.host.Register == nil {
		if !g.server.Documents {
			t.Fatal("the server reads no documents")
		}
		g.values["$client"] = g.host.DocumentAt
		return
	}
	resp, err := http.Post(g.server.Register, "application/json", bytes.NewReader(g.host.Register)) //nolint:noctx // of the test's server
	must(t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	must(t, err)
	var got, sent struct {
		ID        string   `json:"client_id"`
		Redirects []string `json:"redirect_uris"`
	}
	must(t, json.Unmarshal(body, &got))
	must(t, json.Unmarshal(g.host.Register, &sent))
	if resp.StatusCode != http.StatusCreated || got.ID == "" || !slices.Equal(got.Redirects, sent.Redirects) ||
		bytes.Contains(body, []byte("null")) || bytes.Contains(body, []byte("client_secret")) {
		t.Fatalf("registered: %s %s", resp.Status, body)
	}
	g.values["$client"] = got.ID
}

// form fills in the values of the run.
func (g *grant) form(shape map[string]string) url.Values {
	out := url.Values{}
	for name, value := range shape {
		if of, ok := g.values[value]; ok {
			value = of
		}
		if strings.HasPrefix(value, "$") {
			g.s.t.Fatalf("nothing is known of %s", value)
		}
		out.Set(name, value)
	}
	return out
}

// tokens asks for tokens, and keeps them. It returns the error, or "".
func (g *grant) tokens(shape map[string]string) string {
	g.s.t.Helper()
	var got struct {
		Access  string `json:"access_token"`
		Refresh string `json:"refresh_token"`
		Type    string `json:"token_type"`
		Expires int    `json:"expires_in"`
		Error   string
	}
	resp, err := http.PostForm(g.server.Token, g.form(shape)) //nolint:noctx // of the test's server
	must(g.s.t, err)
	defer resp.Body.Close()
	must(g.s.t, json.NewDecoder(resp.Body).Decode(&got))
	if got.Error == "" && (got.Access == "" || got.Refresh == "" || got.Type != "Bearer" || got.Expires <= 0) {
		g.s.t.Fatalf("%s: %+v", resp.Status, got)
	}
	if got.Error == "" {
		g.access, g.values["$refresh"] = got.Access, got.Refresh
	}
	return got.Error
}

// message returns a message of the program.
func (g *grant) message(method, params string) string {
	return `{"jsonrpc":"2.0","id":1,"method":"` + method + `","params":` + params + `}`
}

// ask makes a request in a session, and returns the status and the body.
func (g *grant) ask(session, method, params string) (int, string, string) {
	g.s.t.Helper()
	resp := g.s.rpc(g.access, session, g.message(method, params))
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	must(g.s.t, err)
	return resp.StatusCode, string(body), resp.Header.Get("Mcp-Session-Id")
}

// wholeWay has the person let the program in, which lists, calls, refreshes, goes on in the same
// session, and gives up.
func (g *grant) wholeWay() {
	t := g.s.t
	t.Helper()
	got := g.s.consent(g.server.Authorize+"?"+g.form(g.host.Authorize).Encode(), allowAll)
	if got.Get("state") != "a state" || got.Get("iss") != g.server.Issuer || got.Get("code") == "" {
		t.Fatalf("the program gets %v", got)
	}
	g.values["$code"] = got.Get("code")
	if e := g.tokens(g.host.Token); e != "" {
		t.Fatalf("the code is answered with %s", e)
	}
	_, _, session := g.ask("", "initialize", string(g.host.Initialize))
	if session == "" {
		t.Fatal("there is no session")
	}
	const list, call = "tools/list", "tools/call"
	const tool = `{"name":"list_bots","arguments":{}}`
	if status, body, _ := g.ask(session, list, `{}`); status != http.StatusOK || !strings.Contains(body, `"list_bots"`) {
		t.Errorf("the list: %d %s", status, body)
	}
	if status, body, _ := g.ask(session, call, tool); status != http.StatusOK || !strings.Contains(body, `"content"`) {
		t.Errorf("a call: %d %s", status, body)
	}
	before := g.access
	if e := g.tokens(g.host.Refresh); e != "" || g.access == before {
		t.Fatalf("refreshing is answered with %q", e)
	}
	if status, body, _ := g.ask(session, call, tool); status != http.StatusOK || !strings.Contains(body, `"content"`) {
		t.Errorf("a call in the same session with the new token: %d %s", status, body)
	}
	resp, err := http.PostForm(g.server.Revoke, url.Values{"client_id": {g.values["$client"]}, //nolint:noctx // as above
		"token": {g.values["$refresh"]}, "token_type_hint": {"refresh_token"}})
	must(t, err)
	resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Errorf("giving up: %s", resp.Status)
	}
	if status, body, _ := g.ask(session, call, tool); status != http.StatusUnauthorized {
		t.Errorf("a program that gave up: %d %s", status, body)
	}
	if e := g.tokens(g.host.Refresh); e != "invalid_grant" {
		t.Errorf("refreshing after that is answered with %q", e)
	}
}

// Each host that people connect is let in with requests of the shape of its own.
func TestOAuthHosts(t *testing.T) {
	text, err := os.ReadFile("../oauth/testdata/hosts.json")
	must(t, err)
	var all struct{ Hosts []host }
	must(t, json.Unmarshal(text, &all))
	byAddress := map[string]string{}
	for _, h := range all.Hosts {
		if h.Document != nil {
			byAddress[h.DocumentAt] = string(h.Document)
		}
		if len(h.Source) == 0 {
			t.Errorf("%s has no source", h.Name)
		}
	}
	s := newOAuthServer(t, Options{Documents: documents(t, byAddress)})
	for _, h := range all.Hosts {
		t.Run(h.Name, func(t *testing.T) {
			s := s.of(t)
			g := s.discover(&h)
			g.register()
			g.wholeWay()
		})
	}
	if len(all.Hosts) < 5 {
		t.Errorf("only %d hosts", len(all.Hosts))
	}
}

// of returns the server for a test within this one.
func (s *oauthServer) of(t *testing.T) *oauthServer {
	within := *s
	within.t = t
	return &within
}

// As Visual Studio Code does: the refusal of a call leads to the document of the resource, that to
// the server's. If the server reads documents, the editor names its own, and else it registers four
// redirects. The answer comes on another port if the wanted one is taken, or by a page
// (github.com/microsoft/vscode, src/vs/workbench/api/common/extHostMcp.ts).
func TestOAuthVSCode(t *testing.T) {
	const document = "https://vscode.dev/oauth/client-metadata.json"
	const redirects = `["https://insiders.vscode.dev/redirect","https://vscode.dev/redirect","http://127.0.0.1/",` +
		`"http://127.0.0.1:33418/"]`
	const about = `"client_name":"Visual Studio Code","client_uri":"https://code.visualstudio.com","grant_types":` +
		`["authorization_code","refresh_token","urn:ietf:params:oauth:grant-type:device_code"],"response_types":["code"],` +
		`"token_endpoint_auth_method":"none","application_type":"native","redirect_uris":` + redirects
	byDocument := host{DocumentAt: document, Document: []byte(`{"client_id":"` + document + `",` + about + `}`)}
	byRegistration := host{Register: []byte(`{"scope":"mcp",` + about + `}`)}
	s := newOAuthServer(t, Options{Documents: byDocument.documents(t)})
	for way, h := range map[string]host{"document": byDocument, "registration": byRegistration} {
		t.Run(way, func(t *testing.T) {
			s := s.of(t)
			h.Initialize = []byte(`{"protocolVersion":"2025-11-25","capabilities":{"roots":{"listChanged":true},` +
				`"sampling":{},"elicitation":{}},"clientInfo":{"name":"Visual Studio Code","version":"1.106.0"}}`)
			h.Refresh = map[string]string{"client_id": "$client", "grant_type": "refresh_token",
				"refresh_token": "$refresh"}
			for _, redirect := range []string{"http://127.0.0.1:33418/", "http://127.0.0.1:51234/",
				"https://vscode.dev/redirect"} {
				h.Authorize = map[string]string{"client_id": "$client", "response_type": "code",
					"redirect_uri": redirect, "state": "$state", "code_challenge": "$challenge", "code_challenge_method": "S256",
					"resource": "$resource", "scope": "mcp"}
				h.Token = map[string]string{"client_id": "$client", "grant_type": "authorization_code", "code": "$code",
					"redirect_uri": redirect, "code_verifier": "$verifier"}
				g := s.discover(&h)
				g.register()
				g.wholeWay()
			}
			key := s.newestKey()
			if (key.Client == document) != (way == "document") || key.Name != "Visual Studio Code" {
				t.Errorf("the program is %+v", key)
			}
		})
	}
}
