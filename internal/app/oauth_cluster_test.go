package app

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"patchbay/internal/bus/bustest"
	"patchbay/internal/seal"
	"patchbay/internal/slowtest"
	"patchbay/internal/store/storetest"
)

// A program that was let in at one instance has a stream open at another one. When its access is
// revoked at the first, the stream ends and the token is refused everywhere.
func TestOAuthRevokedOnTwoInstances(t *testing.T) {
	urls, o, secret := strings.Split(bustest.Cluster(t, 2), ","), storetest.Postgres(t), seal.NewSecret()
	with := func(bus string) map[string]string {
		return map[string]string{"database.url": o.URL, "bus.url": bus, "secret": secret}
	}
	one := newOAuthServerWith(t, Options{}, with(urls[0]))
	two := serveOAuth(t, Options{}, with(urls[1]))
	access := one.letIn()

	open := func(s *oauthServer) *http.Response {
		t.Helper()
		session := s.rpc(access, "", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":`+
			`"2025-11-25","capabilities":{},"clientInfo":{"name":"p","version":"1"}}}`)
		io.Copy(io.Discard, session.Body) //nolint:errcheck // only the headers matter
		session.Body.Close()
		stream := s.rpc(access, session.Header.Get("Mcp-Session-Id"), "")
		if stream.StatusCode != http.StatusOK || stream.Header.Get("Content-Type") != "text/event-stream" {
			t.Fatalf("%s: %s", stream.Status, stream.Header)
		}
		return stream
	}
	streams := []*http.Response{open(one), open(two)}
	ended := make(chan time.Time, len(streams))
	for _, x := range streams {
		go func() {
			defer x.Body.Close()
			_, err := io.Copy(io.Discard, x.Body)
			ended <- time.Now()
			if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Error(err)
			}
		}()
	}
	keys, err := one.base.Store.Keys.ByPerson(t.Context(), one.person)
	must(t, err)
	before := time.Now()
	must(t, one.base.Store.Keys.Revoke(t.Context(), keys[len(keys)-1].ID, before))
	revoked := slowtest.Start(t, 2) // the database and the bus
	for range streams {
		end := <-ended
		if end.Before(before) {
			t.Error("a stream has ended before")
		}
		revoked.Check(t, "the end of a stream", end, time.Second)
	}
	for _, s := range []*oauthServer{one, two} {
		resp := s.rpc(access, "", `{"jsonrpc":"2.0","id":2,"method":"ping"}`)
		resp.Body.Close()
		if resp.StatusCode != http.StatusUnauthorized {
			t.Errorf("the token is answered with %s", resp.Status)
		}
	}
}

// letIn lets a program in, and returns its access token.
func (s *oauthServer) letIn() string {
	s.t.Helper()
	p := s.register()
	return p.exchange(s.consent(p.asks(""), allowAll))
}

// plainProgram is a program that has registered itself.
type plainProgram struct {
	s  *oauthServer
	id string
}

const plainRedirect = "http://127.0.0.1:47110/callback"

func (s *oauthServer) register() plainProgram {
	s.t.Helper()
	var client struct {
		ID string `json:"client_id"`
	}
	s.post("/oauth/register", "application/json", `{"client_name":"p","redirect_uris":["`+plainRedirect+
		`"],"token_endpoint_auth_method":"none"}`, &client)
	return plainProgram{s, client.ID}
}

// asks returns the address at which the program asks for a scope.
func (p plainProgram) asks(scope string) string {
	const challenge = "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM" // RFC 7636 appendix B
	return p.s.url + "/oauth/authorize?" + url.Values{"client_id": {p.id}, "response_type": {"code"},
		"redirect_uri": {plainRedirect}, "code_challenge": {challenge}, "code_challenge_method": {"S256"},
		"scope": {scope}, "resource": {p.s.url + "/mcp"}}.Encode()
}

// exchange returns the access token for the answer to a consent.
func (p plainProgram) exchange(got url.Values) string {
	p.s.t.Helper()
	const verifier = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk" // of the challenge
	var tokens struct {
		Access string `json:"access_token"`
	}
	p.s.post("/oauth/token", "application/x-www-form-urlencoded", url.Values{"client_id": {p.id},
		"grant_type": {"authorization_code"}, "code": {got.Get("code")}, "redirect_uri": {plainRedirect},
		"code_verifier": {verifier}}.Encode(), &tokens)
	if tokens.Access == "" {
		p.s.t.Fatal("no token came")
	}
	return tokens.Access
}

// post posts to the authorization server, and reads the answer.
func (s *oauthServer) post(path, kind, body string, into any) {
	s.t.Helper()
	resp, err := http.Post(s.url+path, kind, strings.NewReader(body)) //nolint:noctx // the server is of this test
	must(s.t, err)
	defer resp.Body.Close()
	must(s.t, json.NewDecoder(resp.Body).Decode(into))
}

// rpc posts a message to /mcp, or opens the stream of a session if there is none.
func (s *oauthServer) rpc(token, session, message string) *http.Response {
	s.t.Helper()
	method := http.MethodPost
	if message == "" {
		method = http.MethodGet
	}
	req, err := http.NewRequestWithContext(s.t.Context(), method, s.url+"/mcp", strings.NewReader(message))
	must(s.t, err)
	for name, value := range map[string]string{"Authorization": "Bearer " + token, "Mcp-Session-Id": session,
		"Content-Type": "application/json", "Accept": "application/json, text/event-stream"} {
		if value != "" {
			req.Header.Set(name, value)
		}
	}
	if method == http.MethodGet {
		req.Header.Set("Accept", "text/event-stream")
	}
	resp, err := http.DefaultClient.Do(req)
	must(s.t, err)
	return resp
}
