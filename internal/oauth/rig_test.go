package oauth

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"patchbay/internal/account"
	"patchbay/internal/seal"
	"patchbay/internal/store"
	"patchbay/internal/store/storetest"
)

func TestMain(m *testing.M) { storetest.Main(m) }

// rig is an authorization server with a person, on a clock of its own.
type rig struct {
	*Service
	t        testing.TB
	url      string
	person   string
	accounts *account.Service

	mu     sync.Mutex
	now    time.Time
	reused []string // ids of keys
}

func newRig(t testing.TB, db *store.DB, o Options) *rig {
	t.Helper()
	r := &rig{t: t, now: time.Now().Truncate(time.Millisecond)}
	box, err := seal.New(strings.Repeat("ab", 32))
	must(t, err)
	r.accounts = account.New(db, box, r.clock)
	p, err := r.accounts.AddPerson(t.Context(), "ada", account.RoleAdmin, "en", "")
	must(t, err)
	r.person = p.ID
	o.Store, o.Box, o.Now = db, box, r.clock
	o.IsKnownHost = func(host string) bool {
		name := (&url.URL{Host: host}).Hostname()
		_, err := netip.ParseAddr(name)
		return err == nil || strings.EqualFold(name, "patchbay.example")
	}
	o.IsListedHost = func(host string) bool { return strings.EqualFold(host, "patchbay.example") }
	o.IsProxy = func(r *http.Request) bool { return r.Header.Get("X-Test-Proxy") != "" }
	o.Address = func(r *http.Request) netip.Addr { return netip.MustParseAddr("192.0.2.1") }
	o.Guard = account.NewGuard(1000, r.clock)
	o.Logger = slog.New(slog.DiscardHandler)
	o.Reused = func(_ context.Context, k store.Key) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.reused = append(r.reused, k.ID)
	}
	r.Service = New(o)
	mux := http.NewServeMux()
	r.Register(mux)
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	r.url = server.URL
	return r
}

func (r *rig) clock() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.now
}

func (r *rig) pass(d time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.now = r.now.Add(d)
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// each runs a test on both databases.
func each(t *testing.T, run func(t *testing.T, r *rig)) {
	storetest.Each(t, func(t *testing.T, o store.Options) { run(t, newRig(t, storetest.Open(t, o), Options{})) })
}

// response is the response to a request.
type response struct {
	Status int
	Header http.Header
	Body   map[string]any
}

func (r *rig) send(method, path, kind, body string, headers ...string) response {
	r.t.Helper()
	req, err := http.NewRequestWithContext(r.t.Context(), method, r.url+path, strings.NewReader(body))
	must(r.t, err)
	if kind != "" {
		req.Header.Set("Content-Type", kind)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		if req.Header.Set(headers[i], headers[i+1]); headers[i] == "Host" {
			req.Host = headers[i+1]
		}
	}
	resp, err := http.DefaultClient.Do(req)
	must(r.t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	must(r.t, err)
	out := response{Status: resp.StatusCode, Header: resp.Header}
	if len(text) > 0 {
		must(r.t, json.Unmarshal(text, &out.Body))
	}
	return out
}

// register registers a program and returns its id.
func (r *rig) register(redirects ...string) string {
	r.t.Helper()
	text, err := json.Marshal(map[string]any{"client_name": "a program", "redirect_uris": redirects,
		"token_endpoint_auth_method": "none"})
	must(r.t, err)
	out := r.send(http.MethodPost, RegisterPath, "application/json", string(text))
	if out.Status != http.StatusCreated {
		r.t.Fatalf("registration: %d %v", out.Status, out.Body)
	}
	return out.Body["client_id"].(string)
}

// verifier and its challenge (RFC 7636 appendix B).
const verifier = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"

func challenge() string {
	sum := sha256.Sum256([]byte(verifier))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// request returns a valid request of a program.
func request(client, redirect string) url.Values {
	return url.Values{"response_type": {"code"}, "client_id": {client}, "redirect_uri": {redirect},
		"code_challenge": {challenge()}, "code_challenge_method": {"S256"}, "state": {"s"}}
}

// begin is Begin in a browser.
func (r *rig) begin(q url.Values, browser string) (id, redirect string, err error) {
	req := httptest.NewRequestWithContext(r.t.Context(), http.MethodGet, r.url+AuthorizePath+"?"+q.Encode(), nil)
	return r.Begin(req, browser)
}

// allow has the person consent to a request, and returns what the program gets.
func (r *rig) allow(q url.Values) url.Values {
	r.t.Helper()
	id, to, err := r.begin(q, "browser")
	must(r.t, err)
	if to == "" {
		in, err := r.Request(r.t.Context(), id, "browser")
		must(r.t, err)
		req := httptest.NewRequestWithContext(r.t.Context(), http.MethodPost, r.url+"/", nil)
		to, err = r.Allow(req, &in, r.person, "", 0)
		must(r.t, err)
	}
	u, err := url.Parse(to)
	must(r.t, err)
	return u.Query()
}

// token asks the token endpoint.
func (r *rig) token(q url.Values, headers ...string) response {
	r.t.Helper()
	return r.send(http.MethodPost, TokenPath, "application/x-www-form-urlencoded", q.Encode(), headers...)
}

func exchange(client, redirect, code string) url.Values {
	return url.Values{"grant_type": {"authorization_code"}, "client_id": {client}, "redirect_uri": {redirect},
		"code": {code}, "code_verifier": {verifier}}
}

func refresh(client, token string) url.Values {
	return url.Values{"grant_type": {"refresh_token"}, "client_id": {client}, "refresh_token": {token}}
}

// opens reports whether an access token opens an endpoint that needs a scope.
func (r *rig) opens(token any, scope string) bool {
	r.t.Helper()
	_, err := r.accounts.Authenticate(r.t.Context(), token.(string), scope)
	if err != nil && !account.Refused(err) {
		r.t.Fatal(err)
	}
	return err == nil
}

// pipe returns a dialer to a server for any address, as if its name resolved there.
func pipe(server *httptest.Server) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, server.Listener.Addr().String())
	}
}
