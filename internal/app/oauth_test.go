package app

import (
	"context"
	"errors"
	"fmt"
	"html"
	"io"
	"maps"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/modelcontextprotocol/go-sdk/oauthex"

	"patchbay/internal/account"
	"patchbay/internal/config"
	"patchbay/internal/control"
	"patchbay/internal/netx"
	"patchbay/internal/slowtest"
	"patchbay/internal/store/storetest"
)

// oauthServer is a running server with a person who is signed in with a browser.
type oauthServer struct {
	t       *testing.T
	url     string
	base    *Base
	person  string
	browser *http.Client
	// declines means that the person declines whatever a program asks.
	declines bool
	// client is the id under which SDKs ask; empty: they register themselves.
	client string
	// document describes the SDKs; nil: they register themselves, too.
	document *auth.ClientIDMetadataDocumentConfig
	// provider is the OpenID provider at which the person signs in; empty: with the password.
	provider string
	stop     func() // stops the server, and waits for it
}

func newOAuthServer(t *testing.T, o Options) *oauthServer {
	t.Helper()
	return newOAuthServerWith(t, o, nil)
}

// newOAuthServerWith is newOAuthServer with further settings.
func newOAuthServerWith(t *testing.T, o Options, more map[string]string) *oauthServer {
	t.Helper()
	s := serveOAuth(t, o, more)
	p, err := s.base.Accounts.AddPerson(t.Context(), "ada", account.RoleAdmin, "en", "correct horse")
	must(t, err)
	s.person = p.ID
	return s
}

// serveOAuth starts the server, without a person.
func serveOAuth(t *testing.T, o Options, more map[string]string) *oauthServer {
	t.Helper()
	s := &oauthServer{t: t, provider: more["oidc.issuer"]}
	flags := map[string]string{"data": storetest.Folder(t, t.TempDir()), "listen": "127.0.0.1:0",
		"lingzhu.push_url": "", "mcp.origins": "https://app.example"}
	maps.Copy(flags, more)
	c, _, err := config.Load(config.Sources{Flags: flags})
	must(t, err)
	o.Version = "test"
	if o.Logs, err = os.Create(t.TempDir() + "/log"); err != nil {
		t.Fatal(err)
	}
	ready, stopped := make(chan struct{}), make(chan error, 1)
	o.Ready = func(url string, b *Base) { s.url, s.base = url, b; close(ready) }
	ctx, stop := context.WithCancel(context.Background())
	go func() { stopped <- Serve(ctx, c, o) }()
	select {
	case <-ready:
	case err := <-stopped:
		t.Fatal(err)
	}
	s.stop = sync.OnceFunc(func() { stop(); must(t, <-stopped) })
	t.Cleanup(s.stop)
	jar, err := cookiejar.New(nil)
	must(t, err)
	s.browser = &http.Client{Jar: jar, CheckRedirect: func(r *http.Request, _ []*http.Request) error {
		to := r.URL.String()
		if !strings.HasPrefix(to, s.url) && (s.provider == "" || !strings.HasPrefix(to, s.provider)) {
			return http.ErrUseLastResponse // the program's
		}
		return nil
	}}
	return s
}

// page returns the path and the text of a page, or where the browser was sent.
func (s *oauthServer) page(method, address string, form url.Values) (path, text, away string) {
	s.t.Helper()
	req, err := http.NewRequestWithContext(s.t.Context(), method, address, strings.NewReader(form.Encode()))
	must(s.t, err)
	if form != nil {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		req.Header.Set("Sec-Fetch-Site", "same-origin")
	}
	resp, err := s.browser.Do(req)
	must(s.t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	must(s.t, err)
	return resp.Request.URL.Path, string(body), resp.Header.Get("Location")
}

// consent opens a program's address in the browser, signs in if it is asked to, and answers. It
// returns what the program gets.
func (s *oauthServer) consent(address string, answer url.Values) url.Values {
	s.t.Helper()
	path, text, away := s.page(http.MethodGet, address, nil)
	if path == "/signin" && s.provider != "" {
		_, rest, _ := strings.Cut(text, `href="/signin/oidc/start`)
		query, _, _ := strings.Cut(rest, `"`)
		path, text, away = s.page(http.MethodGet, s.url+"/signin/oidc/start"+html.UnescapeString(query), nil)
	}
	if path == "/signin" {
		next := s.url + "/signin"
		path, text, away = s.page(http.MethodPost, next, url.Values{"name": {"ada"}, "password": {"correct horse"},
			"next": {nextOf(text)}})
	}
	if away == "" {
		if !strings.HasPrefix(path, "/oauth/consent/") {
			s.t.Fatalf("the browser shows %s: %.300s", path, text)
		}
		_, text, away = s.page(http.MethodPost, s.url+path, answer)
	}
	u, err := url.Parse(away)
	must(s.t, err)
	if away == "" {
		s.t.Fatalf("the browser was not sent to the program: %s", text)
	}
	return u.Query()
}

// nextOf returns where the page of sign-in leads.
func nextOf(text string) string {
	_, rest, _ := strings.Cut(text, `name="next" value="`)
	next, _, _ := strings.Cut(rest, `"`)
	return strings.ReplaceAll(next, "&amp;", "&")
}

var allowAll = url.Values{"decision": {"allow"}, "access": {"all"}, "days": {"0"}}

// sdkRedirect is where SDKs want to get their answers.
const sdkRedirect = "http://127.0.0.1:47110/callback"

// sdk connects the client of the official SDK, without a key.
func (s *oauthServer) sdk(endpoint string, answer url.Values) (*mcp.ClientSession, error) {
	s.t.Helper()
	return s.sdkAnswering(endpoint, func() url.Values { return answer })
}

// sdkAnswering is sdk with an answer for each consent.
func (s *oauthServer) sdkAnswering(endpoint string, answers func() url.Values) (*mcp.ClientSession, error) {
	s.t.Helper()
	var registered *oauthex.ClientCredentials
	if s.client != "" {
		registered = &oauthex.ClientCredentials{ClientID: s.client}
	}
	handler, err := auth.NewAuthorizationCodeHandler(&auth.AuthorizationCodeHandlerConfig{
		RedirectURL: sdkRedirect, RequestRefreshToken: true, PreregisteredClient: registered,
		ClientIDMetadataDocumentConfig: s.document,
		DynamicClientRegistrationConfig: &auth.DynamicClientRegistrationConfig{
			Metadata: &oauthex.ClientRegistrationMetadata{ClientName: "The SDK", RedirectURIs: []string{sdkRedirect},
				GrantTypes: []string{"authorization_code", "refresh_token"}, TokenEndpointAuthMethod: "none"}},
		AuthorizationCodeFetcher: func(_ context.Context, a *auth.AuthorizationArgs) (*auth.AuthorizationResult,
			error) {
			answer := answers()
			if s.declines {
				answer = url.Values{"decision": {"deny"}}
			}
			q := s.consent(a.URL, answer)
			if q.Get("code") == "" {
				return nil, fmt.Errorf("%w: %s", errDeclined, q.Get("error"))
			}
			return &auth.AuthorizationResult{Code: q.Get("code"), State: q.Get("state"), Iss: q.Get("iss")}, nil
		},
	})
	must(s.t, err)
	client := mcp.NewClient(&mcp.Implementation{Name: "sdk", Version: "1"}, nil)
	return client.Connect(s.t.Context(), &mcp.StreamableClientTransport{Endpoint: s.url + endpoint,
		OAuthHandler: handler, MaxRetries: -1}, nil)
}

var errDeclined = errors.New("the person has declined")

// The official SDK comes without a token, lists, calls, refreshes, and is revoked.
func TestOAuthSDK(t *testing.T) {
	s := newOAuthServer(t, Options{TokenLife: time.Second})
	for endpoint, tool := range map[string]string{"/mcp": "list_bots", "/api/mcp": "learn_stats"} {
		session, err := s.sdk(endpoint, allowAll)
		must(t, err)
		tools, err := session.ListTools(t.Context(), nil)
		must(t, err)
		if len(tools.Tools) == 0 {
			t.Fatalf("%s: no tools", endpoint)
		}
		found := ""
		for _, x := range tools.Tools {
			if x.Name == tool || found == "" {
				found = x.Name
			}
		}
		must(t, netx.Wait(t.Context(), 1100*time.Millisecond)) // until the token has expired
		if _, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: found}); err != nil {
			t.Errorf("%s: %s with a new token: %v", endpoint, found, err)
		}
		keys, err := s.base.Store.Keys.ByPerson(t.Context(), s.person)
		must(t, err)
		key := keys[len(keys)-1]
		if key.Name != "The SDK" || key.Client == "" {
			t.Fatalf("the newest key is %+v", key)
		}
		must(t, s.base.Store.Keys.Revoke(t.Context(), key.ID, time.Now()))
		revoked := slowtest.Start(t, 0)
		s.declines = true // it asks again
		for err = nil; err == nil; {
			_, err = session.ListTools(t.Context(), nil)
		}
		s.declines = false
		if !errors.Is(err, errDeclined) {
			t.Errorf("%s: a revoked program is told: %v", endpoint, err)
		}
		revoked.Check(t, endpoint+": the end of a revoked program", time.Now(), time.Second)
		session.Close()
	}
	if _, err := s.sdk("/mcp", url.Values{"decision": {"deny"}}); !errors.Is(err, errDeclined) {
		t.Errorf("the person declines: %v", err)
	}
	events, err := s.base.Store.AdminEvents.Newest(t.Context(), "", 10)
	must(t, err)
	n := 0
	for _, e := range events {
		if e.Action == control.EventOAuthAllowed && e.About == "The SDK → 127.0.0.1" {
			n++
		}
	}
	if n != 2 {
		t.Errorf("%d of two consents are recorded: %+v", n, events)
	}
}

// A page of an origin that is allowed calls the endpoints; others do not.
func TestOAuthPages(t *testing.T) {
	s := newOAuthServer(t, Options{})
	ask := func(method, path, origin string) *http.Response {
		req, err := http.NewRequestWithContext(t.Context(), method, s.url+path, strings.NewReader("{}"))
		must(t, err)
		req.Header.Set("Origin", origin)
		resp, err := http.DefaultClient.Do(req)
		must(t, err)
		resp.Body.Close()
		return resp
	}
	for _, path := range []string{"/mcp", "/mcp/sse", "/mcp/messages"} {
		resp := ask(http.MethodOptions, path, "https://app.example")
		if resp.StatusCode != http.StatusNoContent || resp.Header.Get("Access-Control-Allow-Origin") != "https://app.example" ||
			!strings.HasPrefix(resp.Header.Get("Access-Control-Allow-Headers"), "Authorization") {
			t.Errorf("%s: preflight %d %v", path, resp.StatusCode, resp.Header)
		}
		if resp := ask(http.MethodOptions, path, "https://evil.example"); resp.StatusCode != http.StatusForbidden ||
			resp.Header.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("%s: preflight of a strange page %d %v", path, resp.StatusCode, resp.Header)
		}
	}
	resp := ask(http.MethodPost, "/mcp", "https://app.example")
	want := `Bearer realm="patchbay", scope="mcp", resource_metadata="` + s.url + `/.well-known/oauth-protected-resource/mcp"`
	if got := resp.Header.Get("WWW-Authenticate"); got != want || resp.StatusCode != http.StatusUnauthorized ||
		!strings.Contains(resp.Header.Get("Access-Control-Expose-Headers"), "WWW-Authenticate") {
		t.Errorf("without a key: %d %s %v", resp.StatusCode, got, resp.Header)
	}
}
