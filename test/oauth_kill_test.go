package test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"strings"
	"testing"

	"patchbay/internal/store"
	"patchbay/internal/store/storetest"
)

// When the server is killed between a program's code and its tokens, the code is worth one grant
// after the restart or none, never two: killed before the program asks, while it asks, and after it
// got tokens that it may have lost.
func TestKillBetweenCodeAndToken(t *testing.T) {
	storetest.Each(t, func(t *testing.T, o store.Options) {
		p := newInstallation(o)
		add := p.command("user", "add", "ada", "--password-stdin")
		add.Stdin = strings.NewReader("correct horse\n")
		if out, err := add.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		s := p.serve(t)
		v := newVisitor(t, s)
		client := v.register()

		// Before the program asks: the code is good, once.
		code := v.code(client)
		s.kill()
		s = p.serve(t)
		tokens := exchangeCode(t, s, client, code)
		if tokens.Access == "" {
			t.Errorf("after the restart the code is answered with %+v", tokens)
		}
		expectGrants(t, o, 1, 1)
		if again := exchangeCode(t, s, client, code); again.Error != "invalid_grant" {
			t.Errorf("its second use is answered with %+v", again)
		}
		expectGrants(t, o, 1, 0) // two that have the code: both lose

		// After the program got its tokens: the code is used up, also at the new process, and the
		// tokens that were acknowledged are good until somebody tries it.
		code = newVisitor(t, s).code(client)
		tokens = exchangeCode(t, s, client, code)
		s.kill()
		s = p.serve(t)
		if status := statusOf(t, s, tokens.Access); status != http.StatusOK {
			t.Errorf("a token that was issued before the kill is answered with %d", status)
		}
		if again := exchangeCode(t, s, client, code); again.Error != "invalid_grant" {
			t.Errorf("a code that was used before the kill is answered with %+v", again)
		}
		if status := statusOf(t, s, tokens.Access); status != http.StatusUnauthorized {
			t.Errorf("the token of a code that was used twice is answered with %d", status)
		}
		expectGrants(t, o, 2, 0)

		// While the program asks: several requests with the same code are under way, so that the
		// kill meets one of them in whatever state.
		for round := range 3 {
			code = newVisitor(t, s).code(client)
			got := make(chan issued, 8)
			for range cap(got) {
				go func() {
					tokens, err := tryExchange(s, client, code)
					if err != nil {
						tokens.Error = "killed"
					}
					got <- tokens
				}()
			}
			first := <-got // the others may be under way
			s.kill()
			issuedBefore := 0
			for i := range cap(got) {
				if i > 0 {
					first = <-got
				}
				if first.Access != "" {
					issuedBefore++
				}
			}
			s = p.serve(t)
			after := exchangeCode(t, s, client, code)
			if issuedBefore > 1 || issuedBefore == 1 && after.Access != "" ||
				after.Access == "" && after.Error != "invalid_grant" {
				t.Errorf("round %d: %d tokens before the kill, then %+v", round, issuedBefore, after)
			}
			valid := 0
			if after.Access != "" {
				valid = 1
			}
			expectGrants(t, o, 3+round, valid)
		}
	})
}

// expectGrants expects that many grants were ever made at most, and that many are valid.
func expectGrants(t *testing.T, o store.Options, most, valid int) {
	t.Helper()
	db := storetest.Open(t, o)
	defer db.Close()
	keys, err := db.Keys.ByPerson(ctx, "")
	must(t, err)
	made, good := 0, 0
	for _, k := range keys {
		if k.Client == "" {
			continue
		}
		if made++; k.Revoked.IsZero() {
			good++
		}
	}
	if made > most || good != valid {
		t.Errorf("%d grants, of which %d are valid; want at most %d, and %d valid", made, good, most, valid)
	}
}

// visitor is a person with a browser, signed in.
type visitor struct {
	t   *testing.T
	s   *server
	web *http.Client
}

func newVisitor(t *testing.T, s *server) *visitor {
	t.Helper()
	jar, err := cookiejar.New(nil)
	must(t, err)
	v := &visitor{t, s, &http.Client{Jar: jar,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
	if to := v.post("/signin", url.Values{"name": {"ada"}, "password": {"correct horse"}, "next": {"/"}}); to != "/" {
		t.Fatalf("signing in leads to %q", to)
	}
	return v
}

// post submits a form, and returns where the browser is sent, with status 303.
func (v *visitor) post(path string, form url.Values) string {
	v.t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, v.s.url+path, strings.NewReader(form.Encode()))
	must(v.t, err)
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Header.Set("Sec-Fetch-Site", "same-origin")
	resp, err := v.web.Do(req)
	must(v.t, err)
	resp.Body.Close()
	if resp.StatusCode != http.StatusSeeOther {
		v.t.Fatalf("%s: %s", path, resp.Status)
	}
	return resp.Header.Get("Location")
}

const programAt = "http://127.0.0.1:47120/callback"

// register registers a program.
func (v *visitor) register() string {
	v.t.Helper()
	resp, err := v.web.Post(v.s.url+"/oauth/register", "application/json", //nolint:noctx // the server is of this test
		strings.NewReader(`{"client_name":"p","redirect_uris":["`+programAt+`"],"token_endpoint_auth_method":"none"}`))
	must(v.t, err)
	defer resp.Body.Close()
	var client struct {
		ID string `json:"client_id"`
	}
	must(v.t, json.NewDecoder(resp.Body).Decode(&client))
	return client.ID
}

// code has the person let the program in, and returns the program's code.
func (v *visitor) code(client string) string {
	v.t.Helper()
	const challenge = "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"                              // RFC 7636 appendix B
	resp, err := v.web.Get(v.s.url + "/oauth/authorize?" + url.Values{"response_type": {"code"}, //nolint:noctx // as above
		"client_id": {client}, "redirect_uri": {programAt}, "code_challenge": {challenge},
		"code_challenge_method": {"S256"}}.Encode())
	must(v.t, err)
	resp.Body.Close()
	to := v.post(resp.Header.Get("Location"), url.Values{"decision": {"allow"}, "access": {"all"}, "days": {"0"}})
	u, err := url.Parse(to)
	must(v.t, err)
	if u.Query().Get("code") == "" {
		v.t.Fatalf("the browser is sent to %s", to)
	}
	return u.Query().Get("code")
}

// issued is what a program gets for its code.
type issued struct {
	Access string `json:"access_token"`
	Error  string `json:"error"`
}

func tryExchange(s *server, client, code string) (got issued, err error) {
	const verifier = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"                                    // of the challenge
	resp, err := http.PostForm(s.url+"/oauth/token", url.Values{"grant_type": {"authorization_code"}, //nolint:noctx // as above
		"client_id": {client}, "code": {code}, "redirect_uri": {programAt}, "code_verifier": {verifier}})
	if err != nil {
		return got, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err == nil {
		err = json.Unmarshal(text, &got)
	}
	if err != nil {
		err = fmt.Errorf("%s: %q: %w", resp.Status, text, err)
	}
	return got, err
}

func exchangeCode(t *testing.T, s *server, client, code string) issued {
	t.Helper()
	got, err := tryExchange(s, client, code)
	must(t, err)
	return got
}

// statusOf returns how the MCP endpoint answers a token.
func statusOf(t *testing.T, s *server, token string) int {
	t.Helper()
	status, _, _ := (&program{url: s.url, key: token}).post(t, "/mcp", initialize)
	return status
}
