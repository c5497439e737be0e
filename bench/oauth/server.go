package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"patchbay/internal/account"
	"patchbay/internal/app"
	"patchbay/internal/config"
)

// server is a running server, with a person who is signed in in a browser and has a key.
type server struct {
	url, cookie, key string
	client           *http.Client
	stop             func()
}

// grant is a program that was let in.
type grant struct{ client, access, refresh string }

const redirect = "http://127.0.0.1:47110/callback"

func start(ctx context.Context, database string) (*server, error) {
	folder, err := os.MkdirTemp("", "patchbay-bench-")
	if err != nil {
		return nil, err
	}
	c, _, err := config.Load(config.Sources{Env: []string{"HOME=" + folder}, Flags: map[string]string{
		"data": folder, "listen": "127.0.0.1:0", "database.url": database, "log.level": "error",
		"limits.call_rate": "0", "xiaozhi.mqtt": "127.0.0.1:0", "xiaozhi.audio": "127.0.0.1:0",
	}})
	if err != nil {
		return nil, err
	}
	s := &server{client: &http.Client{Timeout: time.Minute, Transport: &http.Transport{MaxIdleConnsPerHost: 64},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
	running, cancel := context.WithCancel(ctx)
	ready, done := make(chan *app.Base, 1), make(chan error, 1)
	go func() {
		done <- app.Serve(running, c, app.Options{Version: "bench", Logs: os.Stderr,
			Ready: func(url string, b *app.Base) { s.url = url; ready <- b }})
	}()
	s.stop = func() {
		s.client.CloseIdleConnections()
		cancel()
		<-done
		os.RemoveAll(folder)
	}
	select {
	case b := <-ready:
		if err := s.signIn(ctx, b); err != nil {
			s.stop()
			return nil, err
		}
		return s, nil
	case err := <-done:
		done <- err
		s.stop()
		return nil, err
	}
}

func (s *server) signIn(ctx context.Context, b *app.Base) error {
	p, err := b.Accounts.AddPerson(ctx, "bench", account.RoleAdmin, "en", "")
	if err != nil {
		return err
	}
	token, err := b.Accounts.Admit(ctx, p, account.Browser{Agent: "bench"})
	if err != nil {
		return err
	}
	s.cookie = "patchbay=" + token + "; patchbay-lang=en"
	_, s.key, err = b.Accounts.AddKey(ctx, account.NewKey{Person: p.ID, Name: "bench",
		Scopes: []string{account.ScopeMCP}})
	return err
}

// send sends a request, and returns the answer and its body.
func (s *server) send(ctx context.Context, method, path, body string,
	headers ...string) (*http.Response, []byte, error) {
	req, err := http.NewRequestWithContext(ctx, method, s.url+path, strings.NewReader(body))
	if err != nil {
		return nil, nil, err
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := s.client.Do(req)
	if err != nil {
		return nil, nil, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode >= http.StatusBadRequest {
		err = fmt.Errorf("%s %s: %s: %.300s", method, path, resp.Status, text)
	}
	return resp, text, err
}

const formType = "application/x-www-form-urlencoded"

// letIn registers a program, lets it in n times, and returns how long the page of consent took from
// the program's request on.
func (s *server) letIn(ctx context.Context, n int) (pages []time.Duration, grants []*grant, err error) {
	_, text, err := s.send(ctx, http.MethodPost, "/oauth/register", `{"client_name":"bench",`+
		`"redirect_uris":["`+redirect+`"],"token_endpoint_auth_method":"none"}`, "Content-Type", "application/json")
	if err != nil {
		return nil, nil, err
	}
	var program struct {
		ID string `json:"client_id"`
	}
	if err := json.Unmarshal(text, &program); err != nil {
		return nil, nil, err
	}
	for range n {
		g := &grant{client: program.ID}
		took, err := s.consent(ctx, g)
		if err != nil {
			return nil, nil, err
		}
		pages, grants = append(pages, took), append(grants, g)
	}
	return pages, grants, nil
}

// consent opens the page of consent, answers it, and exchanges the code.
func (s *server) consent(ctx context.Context, g *grant) (page time.Duration, err error) {
	verifier := strings.Repeat("v", 43)
	challenge := sha256.Sum256([]byte(verifier))
	ask := "/oauth/authorize?" + url.Values{"response_type": {"code"}, "client_id": {g.client},
		"redirect_uri": {redirect}, "code_challenge": {base64.RawURLEncoding.EncodeToString(challenge[:])},
		"code_challenge_method": {"S256"},
		"resource":              {s.url + "/mcp"}}.Encode()
	begin := time.Now()
	resp, _, err := s.send(ctx, http.MethodGet, ask, "", "Cookie", s.cookie)
	if err != nil {
		return 0, err
	}
	cookies := s.cookie
	for _, c := range resp.Cookies() {
		cookies += "; " + c.Name + "=" + c.Value
	}
	at := resp.Header.Get("Location")
	if _, _, err = s.send(ctx, http.MethodGet, at, "", "Cookie", cookies); err != nil {
		return 0, err
	}
	page = time.Since(begin)
	resp, text, err := s.send(ctx, http.MethodPost, at, "decision=allow&access=all&days=0", "Cookie", cookies,
		"Content-Type", formType, "Sec-Fetch-Site", "same-origin")
	if err != nil {
		return 0, err
	}
	to, err := url.Parse(resp.Header.Get("Location"))
	if err != nil || to.Query().Get("code") == "" {
		return 0, fmt.Errorf("no code came back: %s: %.300s", resp.Status, text)
	}
	return page, s.token(ctx, g, "grant_type", "authorization_code", "code", to.Query().Get("code"), "code_verifier",
		verifier, "redirect_uri", redirect)
}

// token fetches the next tokens of a program.
func (s *server) token(ctx context.Context, g *grant, form ...string) error {
	values := url.Values{"client_id": {g.client}}
	for i := 0; i < len(form); i += 2 {
		values.Set(form[i], form[i+1])
	}
	_, text, err := s.send(ctx, http.MethodPost, "/oauth/token", values.Encode(), "Content-Type", formType)
	if err != nil {
		return err
	}
	var got struct {
		Access  string `json:"access_token"`
		Refresh string `json:"refresh_token"`
	}
	err = json.Unmarshal(text, &got)
	g.access, g.refresh = got.Access, got.Refresh
	return err
}

// callTool lists the bots, without a session (MCP 2026-07-28).
func (s *server) callTool(ctx context.Context, secret string) error {
	const body = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"list_bots","arguments":{},"_meta":{` +
		`"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},` +
		`"io.modelcontextprotocol/clientInfo":{"name":"bench","version":"1"}}}}`
	_, text, err := s.send(ctx, http.MethodPost, "/mcp", body, "Content-Type", "application/json",
		"Accept", "application/json, text/event-stream", "Authorization", "Bearer "+secret,
		"MCP-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/call", "Mcp-Name", "list_bots")
	if err == nil && (!bytes.Contains(text, []byte(`"result"`)) || bytes.Contains(text, []byte(`"isError":true`))) {
		err = fmt.Errorf("a call was answered with %.300s", text)
	}
	return err
}
