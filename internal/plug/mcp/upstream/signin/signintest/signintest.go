// Package signintest provides tests with tool servers that want OAuth, and their authorization
// servers.
package signintest

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	jose "github.com/go-jose/go-jose/v4"
)

// timeout limits a request.
const timeout = 20 * time.Second

// Server is an authorization server, and the tool server that it protects. Its fields are changed
// by [Server.Set], or before the first request.
type Server struct {
	// URL is the origin of both.
	URL string

	mu sync.Mutex
	// Issuer is what the metadata say; empty: URL. Named is what the resource names; empty: Issuer.
	Issuer, Named string
	// Iss is what answers carry; "-" means nothing.
	Iss string
	// Scope is what the tool server demands in its challenge.
	Scope string
	// Scopes are those that the authorization server lists.
	Scopes []string
	// Methods are those of the token endpoint.
	Methods []string
	// Life is expires_in of the tokens; 0 leaves it out.
	Life int
	// NoRegister leaves out the registration endpoint, NoRefresh the refresh tokens, and Documents
	// means that clients may be documents.
	NoRegister, NoRefresh, Documents bool
	// Alter changes the metadata and the document about the resource before they are sent.
	Alter func(path string, doc map[string]any)
	// Serve handles requests before anything else does, and reports whether it has.
	Serve func(w http.ResponseWriter, r *http.Request) bool

	// Keys are the public keys of clients that authenticate by assertions.
	Keys map[string]any

	codes    map[string]url.Values // requests, by code
	used     map[string]bool       // ids of assertions
	secrets  map[string]string     // of clients
	access   map[string]string     // scopes, by valid access token
	refresh  map[string]string     // scopes, by valid refresh token
	made     int
	requests []string
}

// New starts a server with tools at /mcp, which may be nil.
func New(t testing.TB, tools http.Handler) *Server {
	s := &Server{codes: map[string]url.Values{}, Keys: map[string]any{}, used: map[string]bool{},
		secrets: map[string]string{}, access: map[string]string{},
		refresh: map[string]string{}, Methods: []string{"none"}, Life: 3600}
	server := httptest.NewServer(s.handler(tools))
	s.URL = server.URL
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	return s
}

// Set changes fields.
func (s *Server) Set(change func(*Server)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(s)
}

// Count returns how many requests began with a text such as "POST /token refresh_token".
func (s *Server) Count(prefix string) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.requests {
		if strings.HasPrefix(r, prefix) {
			n++
		}
	}
	return n
}

// Expire makes the access tokens invalid, and Revoke the refresh tokens too.
func (s *Server) Expire() { s.Set(func(s *Server) { clear(s.access) }) }

// Revoke makes all tokens invalid.
func (s *Server) Revoke() {
	s.Set(func(s *Server) {
		clear(s.access)
		clear(s.refresh)
	})
}

func (s *Server) issuer() string {
	if s.Issuer != "" {
		return s.Issuer
	}
	return s.URL
}

func (s *Server) handler(tools http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /.well-known/oauth-protected-resource/mcp", s.resource)
	mux.HandleFunc("GET /.well-known/oauth-authorization-server", s.metadata)
	mux.HandleFunc("POST /register", s.register)
	mux.HandleFunc("GET /authorize", s.authorize)
	mux.HandleFunc("POST /token", s.token)
	mux.HandleFunc("POST /revoke", s.withdraw)
	mux.HandleFunc("/mcp", func(w http.ResponseWriter, r *http.Request) {
		if s.admit(w, r) && tools != nil {
			tools.ServeHTTP(w, r)
		}
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		what := r.Method + " " + r.URL.Path
		switch r.URL.Path {
		case "/token":
			what += " " + r.FormValue("grant_type")
		case "/revoke":
			what += " " + r.FormValue("token")
		case "/mcp":
			what += " " + strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
		}
		s.requests = append(s.requests, what)
		serve := s.Serve
		s.mu.Unlock()
		if serve == nil || !serve(w, r) {
			mux.ServeHTTP(w, r)
		}
	})
}

// admit checks the token of a request to the tool server.
func (s *Server) admit(w http.ResponseWriter, r *http.Request) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	got, ok := s.access[strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")]
	challenge := fmt.Sprintf(`Bearer resource_metadata="%s/.well-known/oauth-protected-resource/mcp"`, s.URL)
	if s.Scope != "" {
		challenge += fmt.Sprintf(`, scope="%s"`, s.Scope)
	}
	for _, need := range strings.Fields(s.Scope) {
		if ok && !slices.Contains(strings.Fields(got), need) {
			w.Header().Set("WWW-Authenticate", challenge+`, error="insufficient_scope"`)
			w.WriteHeader(http.StatusForbidden)
			return false
		}
	}
	if !ok {
		w.Header().Set("WWW-Authenticate", challenge)
		w.WriteHeader(http.StatusUnauthorized)
	}
	return ok
}

func (s *Server) send(w http.ResponseWriter, path string, status int, doc map[string]any) {
	if s.Alter != nil {
		s.Alter(path, doc)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(doc)
}

func (s *Server) resource(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	named := s.Named
	if named == "" {
		named = s.issuer()
	}
	s.send(w, r.URL.Path, http.StatusOK, map[string]any{"resource": s.URL + "/mcp",
		"authorization_servers": []string{named}})
}

func (s *Server) metadata(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	doc := map[string]any{"issuer": s.issuer(), "authorization_endpoint": s.URL + "/authorize",
		"token_endpoint": s.URL + "/token", "revocation_endpoint": s.URL + "/revoke", "code_challenge_methods_supported": []string{"S256"},
		"token_endpoint_auth_methods_supported": s.Methods, "client_id_metadata_document_supported": s.Documents,
		"authorization_response_iss_parameter_supported": s.Iss != "-", "scopes_supported": s.Scopes}
	if !s.NoRegister {
		doc["registration_endpoint"] = s.URL + "/register"
	}
	s.send(w, r.URL.Path, http.StatusOK, doc)
}

func (s *Server) register(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var in map[string]any
	if json.NewDecoder(r.Body).Decode(&in) != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	s.made++
	id := fmt.Sprintf("client-%d", s.made)
	in["client_id"] = id
	if in["token_endpoint_auth_method"] != "none" {
		s.secrets[id] = fmt.Sprintf("secret-%d", s.made)
		in["client_secret"] = s.secrets[id]
	} else {
		s.secrets[id] = ""
	}
	s.send(w, r.URL.Path, http.StatusCreated, in)
}

// AddClient adds a client that is registered by hand.
func (s *Server) AddClient(id, secret string) { s.Set(func(s *Server) { s.secrets[id] = secret }) }

// ForgetClients forgets who has registered.
func (s *Server) ForgetClients() { s.Set(func(s *Server) { clear(s.secrets) }) }

// withdraw makes a token invalid (RFC 7009).
func (s *Server) withdraw(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, known := s.secrets[r.PostFormValue("client_id")]; !known && !strings.HasPrefix(r.PostFormValue("client_id"), "https://") {
		s.send(w, r.URL.Path, http.StatusUnauthorized, map[string]any{"error": "invalid_client"})
		return
	}
	delete(s.access, r.PostFormValue("token"))
	delete(s.refresh, r.PostFormValue("token"))
}

// authorize consents at once.
func (s *Server) authorize(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	q := r.URL.Query()
	if _, known := s.secrets[q.Get("client_id")]; !known && !strings.HasPrefix(q.Get("client_id"), "https://") ||
		q.Get("code_challenge_method") != "S256" || q.Get("resource") != s.URL+"/mcp" {
		http.Error(w, "not a request that is answered: "+r.URL.RawQuery, http.StatusBadRequest)
		return
	}
	s.made++
	code := fmt.Sprintf("code-%d", s.made)
	s.codes[code] = q
	to, err := url.Parse(q.Get("redirect_uri"))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	back := url.Values{"code": {code}, "state": {q.Get("state")}}
	if s.Iss == "" {
		back.Set("iss", s.issuer())
	} else if s.Iss != "-" {
		back.Set("iss", s.Iss)
	}
	to.RawQuery = back.Encode()
	http.Redirect(w, r, to.String(), http.StatusFound)
}

func (s *Server) token(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	refuse := func(status int, code string) { s.send(w, r.URL.Path, status, map[string]any{"error": code}) }
	id, secret, basic := r.BasicAuth()
	if basic { // RFC 6749 §2.3.1
		id, _ = url.QueryUnescape(id)
		secret, _ = url.QueryUnescape(secret)
	} else {
		id, secret = r.PostFormValue("client_id"), r.PostFormValue("client_secret")
	}
	if key := s.Keys[id]; key != nil {
		if err := s.assertion(r, id, key); err != nil {
			s.send(w, r.URL.Path, http.StatusUnauthorized, map[string]any{"error": "invalid_client",
				"error_description": err.Error()})
			return
		}
	} else if want, known := s.secrets[id]; known && want != secret || !known && !strings.HasPrefix(id, "https://") {
		s.send(w, r.URL.Path, http.StatusUnauthorized, map[string]any{"error": "invalid_client",
			"error_description": "not this secret: " + secret})
		return
	}
	if r.PostFormValue("resource") != s.URL+"/mcp" {
		refuse(http.StatusBadRequest, "invalid_target")
		return
	}
	var scopes string
	switch r.PostFormValue("grant_type") {
	case "authorization_code":
		q, ok := s.codes[r.PostFormValue("code")]
		delete(s.codes, r.PostFormValue("code"))
		sum := sha256.Sum256([]byte(r.PostFormValue("code_verifier")))
		if !ok || q.Get("redirect_uri") != r.PostFormValue("redirect_uri") || q.Get("client_id") != id ||
			q.Get("code_challenge") != base64.RawURLEncoding.EncodeToString(sum[:]) {
			refuse(http.StatusBadRequest, "invalid_grant")
			return
		}
		scopes = q.Get("scope")
	case "client_credentials":
		if scopes = r.PostFormValue("scope"); strings.Contains(scopes, "forbidden") {
			refuse(http.StatusBadRequest, "invalid_scope")
			return
		}
	case "refresh_token":
		old, ok := s.refresh[r.PostFormValue("refresh_token")]
		delete(s.refresh, r.PostFormValue("refresh_token"))
		if !ok {
			refuse(http.StatusBadRequest, "invalid_grant")
			return
		}
		scopes = old
	}
	s.made++
	out := map[string]any{"access_token": fmt.Sprintf("access-%d", s.made), "token_type": "Bearer", "scope": scopes}
	s.access[fmt.Sprintf("access-%d", s.made)] = scopes
	if !s.NoRefresh {
		out["refresh_token"] = fmt.Sprintf("refresh-%d", s.made)
		s.refresh[fmt.Sprintf("refresh-%d", s.made)] = scopes
	}
	if s.Life > 0 {
		out["expires_in"] = s.Life
	}
	s.send(w, r.URL.Path, http.StatusOK, out)
}

// assertion checks what a client has signed (RFC 7523 §3).
func (s *Server) assertion(r *http.Request, id string, key any) error {
	if r.PostFormValue("client_assertion_type") != "urn:ietf:params:oauth:client-assertion-type:jwt-bearer" {
		return errors.New("no assertion")
	}
	signed, err := jose.ParseSignedCompact(r.PostFormValue("client_assertion"),
		[]jose.SignatureAlgorithm{jose.ES256, jose.RS256, jose.EdDSA})
	if err != nil {
		return err
	}
	text, err := signed.Verify(key)
	if err != nil {
		return err
	}
	var c struct {
		Issuer   string `json:"iss"`
		Subject  string `json:"sub"`
		Audience string `json:"aud"`
		ID       string `json:"jti"`
		Made     int64  `json:"iat"`
		Expires  int64  `json:"exp"`
	}
	if err := json.Unmarshal(text, &c); err != nil {
		return err
	}
	if c.Issuer != id || c.Subject != id || c.Audience != s.issuer() || c.ID == "" || s.used[c.ID] ||
		c.Expires-c.Made > 60 {
		return fmt.Errorf("not a statement of %s: %s", id, text)
	}
	s.used[c.ID] = true
	return nil
}

// Consent opens the address of a sign-in as a browser would, and returns where it ends.
func Consent(t testing.TB, address string) string {
	t.Helper()
	to, err := Follow(address)
	if err != nil {
		t.Fatal(err)
	}
	return to
}

// Follow is [Consent] without a test.
func Follow(address string) (string, error) {
	c := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Timeout: timeout}
	resp, err := c.Get(address)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	if resp.StatusCode/100 != 3 {
		return "", fmt.Errorf("the sign-in ended with %s", resp.Status)
	}
	return resp.Header.Get("Location"), nil
}
