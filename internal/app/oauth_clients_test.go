package app

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"patchbay/internal/netx"
	"patchbay/internal/oauth"
	"patchbay/internal/plug/mcp/mcptest"
	"patchbay/internal/slowtest"
	"patchbay/internal/store"
)

// peers is where the programs of others are installed.
const peers = "../../test/peers/mcp"

// program is a running program of others that is let in by OAuth.
type program struct {
	t      *testing.T
	in     io.WriteCloser
	events chan map[string]any
}

func startOAuthProgram(t *testing.T, version, at, redirect, tool string, env ...string) *program {
	t.Helper()
	// It ends with its input.
	cmd := exec.Command(mcptest.Node(t), filepath.Join(peers, "ts-oauth.mjs"), at, version, redirect)
	cmd.Env = append(append(os.Environ(), "TOOL="+tool), env...)
	var errors bytes.Buffer
	cmd.Stderr = &errors
	p := &program{t: t, events: make(chan map[string]any, 10)}
	var err error
	p.in, err = cmd.StdinPipe()
	must(t, err)
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	var reading sync.WaitGroup
	reading.Go(func() {
		defer close(p.events)
		lines := bufio.NewScanner(out)
		for lines.Buffer(nil, 16<<20); lines.Scan(); {
			e := map[string]any{}
			if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
				t.Errorf("the program says %q", lines.Text())
				continue
			}
			p.events <- e
		}
	})
	t.Cleanup(func() {
		_ = p.in.Close()
		reading.Wait()
		if err := cmd.Wait(); err != nil || t.Failed() {
			t.Errorf("%v: %s", err, errors.String())
		}
	})
	return p
}

// next returns the next event, which has to have a name.
func (p *program) next(name string) map[string]any {
	p.t.Helper()
	e, ok := <-p.events
	if !ok || e["event"] != name {
		p.t.Fatalf("%v, want %s", e, name)
	}
	return e
}

func (p *program) send(line string) {
	p.t.Helper()
	_, err := io.WriteString(p.in, line+"\n")
	must(p.t, err)
}

// Both generations of the TypeScript SDK come without a token, list, call, refresh and are revoked:
// as a program that registers itself, and as one that a document describes.
func TestOAuthTypeScript(t *testing.T) {
	const redirect = "http://127.0.0.1:47111/callback"
	const document = "https://app.example/client.json"
	for _, version := range []string{"1", "2"} {
		for way, env := range map[string][]string{"registered": nil, "document": {"DOCUMENT=" + document}} {
			t.Run(version+" "+way, func(t *testing.T) {
				s := newOAuthServer(t, Options{TokenLife: time.Second, Documents: documents(t, map[string]string{
					document: documentOf(document, "The SDK", redirect)})})
				p := startOAuthProgram(t, version, s.url+"/mcp", redirect, "list_bots", env...)
				q := s.consent(p.next("authorize")["url"].(string), allowAll)
				p.send(redirect + "?" + q.Encode())
				if tools := p.next("listed")["tools"].([]any); !slices.Contains(tools, any("list_bots")) {
					t.Fatalf("it sees %v", tools)
				}
				must(t, netx.Wait(t.Context(), 1100*time.Millisecond)) // until the token has expired
				p.send("")
				if e := p.next("called"); e["tokens"].(float64) < 2 {
					t.Errorf("the program did not refresh: %v", e)
				}
				if key := s.newestKey(); (key.Client == document) != (env != nil) {
					t.Errorf("the program is %q", key.Client)
				}
				s.revokeNewest()
				p.send("")
				// It may ask for consent first, which nobody gives.
				e := <-p.events
				if e["event"] == "authorize" {
					e = <-p.events
				}
				if e["event"] != "refused" {
					t.Errorf("a revoked program: %v", e)
				}
			})
		}
	}
}

var authorizeURL = regexp.MustCompile(`http://127\.0\.0\.1:\d+/oauth/authorize\?[^\s"']+`)

// installed is a program that people install, in a home of its own.
type installed struct {
	s    *oauthServer
	home string
	args []string
}

func (s *oauthServer) install(script string, args ...string) *installed {
	s.t.Helper()
	p := &installed{s, s.t.TempDir(), append([]string{filepath.Join(peers, "node_modules", script)}, args...)}
	must(s.t, os.WriteFile(filepath.Join(p.home, "xdg-open"), []byte("#!/bin/sh\nexit 0\n"), 0o700))
	return p
}

// running is a running program.
type running struct {
	in    io.WriteCloser
	lines <-chan string // of both outputs
	ended <-chan struct{}
	err   error // after ended
	stop  func()
}

// start starts the program, with further arguments.
func (p *installed) start(more ...string) *running {
	t := p.s.t
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	cmd := exec.CommandContext(ctx, mcptest.Node(t), append(slices.Clone(p.args), more...)...)
	cmd.Env = append(os.Environ(), "HOME="+p.home, "MCP_REMOTE_CONFIG_DIR="+p.home, "BROWSER="+p.home+"/xdg-open",
		"PATH="+p.home+":"+os.Getenv("PATH"), "MCP_AUTO_OPEN_ENABLED=true", "MCP_INSPECTOR_SECRET_STORE=file",
		"MCP_OAUTH_CALLBACK_URL=http://127.0.0.1:27112/oauth/callback")
	in, err := cmd.StdinPipe() // some programs end with their input
	must(t, err)
	read, write := io.Pipe()
	cmd.Stdout, cmd.Stderr = write, write
	must(t, cmd.Start())
	lines, ended := make(chan string, 10_000), make(chan struct{})
	r := &running{in: in, lines: lines, ended: ended}
	var work sync.WaitGroup
	work.Go(func() {
		defer close(lines)
		scan := bufio.NewScanner(read)
		for scan.Buffer(nil, 16<<20); scan.Scan(); { // a list of tools is one line
			lines <- scan.Text()
		}
		_, _ = io.Copy(io.Discard, read) // what is too long
	})
	work.Go(func() {
		defer close(ended)
		r.err = cmd.Wait()
		write.Close()
	})
	r.stop = func() {
		cancel()
		work.Wait()
	}
	t.Cleanup(r.stop)
	return r
}

// until returns the line that contains a text. The person consents the first time that the program
// asks, if mayAsk. The text is empty if the program ends before, and all is what it said.
func (p *installed) until(r *running, want string, mayAsk bool) (found, all string, asked int) {
	p.s.t.Helper()
	var text strings.Builder
	for line := range r.lines {
		fmt.Fprintln(&text, line)
		if at := authorizeURL.FindString(line); at != "" {
			if asked++; mayAsk && asked == 1 {
				p.s.answerProgram(p.s.t.Context(), at)
			}
		}
		if strings.Contains(line, want) {
			return line, text.String(), asked
		}
	}
	return "", text.String(), asked
}

// mcp-remote, as desktop programs run it, signs in, lists, calls, refreshes, and gets nothing after
// it was revoked.
func TestOAuthRemote(t *testing.T) {
	s := newOAuthServer(t, Options{TokenLife: 2 * time.Second})
	p := s.install("mcp-remote/dist/proxy.js", s.url+"/mcp", "--allow-http")
	r := p.start()
	send := func(message string) {
		_, err := io.WriteString(r.in, message+"\n")
		must(t, err)
	}
	ask := func(id int, method, params, want string, mayAsk bool) {
		t.Helper()
		send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%q,"params":%s}`, id, method, params))
		answer, all, asked := p.until(r, fmt.Sprintf(`"id":%d`, id), mayAsk)
		if !strings.Contains(answer, want) || asked > 0 != mayAsk {
			t.Fatalf("%s is answered with %.300q, and the person was asked %d times:\n%s", method, answer, asked, all)
		}
	}
	ask(1, "initialize", `{"protocolVersion":"2025-06-18","capabilities":{},`+
		`"clientInfo":{"name":"claude-ai","version":"0.1.0"}}`, "protocolVersion", true)
	send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	ask(2, "tools/list", `{}`, `"list_bots"`, false)
	const call = `{"name":"list_bots","arguments":{}}`
	ask(3, "tools/call", call, `"content"`, false)
	must(t, netx.Wait(t.Context(), 2100*time.Millisecond)) // until the token has expired
	ask(4, "tools/call", call, `"content"`, false)
	s.revokeNewest()
	send(`{"jsonrpc":"2.0","id":5,"method":"tools/call","params":` + call + `}`)
	// It waits for consent again, and nobody consents here, or it reports an error.
	for line := range r.lines {
		if strings.Contains(line, `"content"`) {
			t.Errorf("a revoked program gets %s", line)
		}
		if authorizeURL.MatchString(line) || strings.Contains(line, `"error"`) {
			return
		}
	}
}

// The Inspector's command line signs in and calls, calls with what it has stored when its token has
// expired, and is refused when it was revoked.
func TestOAuthInspector(t *testing.T) {
	s := newOAuthServer(t, Options{TokenLife: 2 * time.Second})
	p := s.install("@modelcontextprotocol/inspector/clients/cli/build/index.js", s.url+"/mcp", "--transport", "http",
		"--method", "tools/call", "--tool-name", "list_bots")
	finish := func(mayAsk bool, more ...string) (all string, asked int, err error) {
		r := p.start(more...)
		_, all, asked = p.until(r, "\x00", mayAsk) // all of it
		<-r.ended
		return all, asked, r.err
	}
	if all, asked, err := finish(true); err != nil || asked == 0 || !strings.Contains(all, `"content"`) {
		t.Fatalf("at first: %v, %s", err, all)
	}
	must(t, netx.Wait(t.Context(), 2100*time.Millisecond)) // until the token has expired
	all, asked, err := finish(false, "--stored-auth-only")
	if err != nil || asked != 0 || !strings.Contains(all, `"content"`) {
		t.Errorf("with an expired token: %v, asked %d times: %s", err, asked, all)
	}
	s.revokeNewest()
	all, asked, err = finish(false, "--stored-auth-only")
	if err == nil || asked != 0 || strings.Contains(all, `"content"`) {
		t.Errorf("revoked: %v, asked %d times: %s", err, asked, all)
	}
}

// newestKey returns the newest key of the person.
func (s *oauthServer) newestKey() store.Key {
	s.t.Helper()
	keys, err := s.base.Store.Keys.ByPerson(s.t.Context(), s.person)
	must(s.t, err)
	if len(keys) == 0 {
		s.t.Fatal("there is no key")
	}
	return keys[len(keys)-1]
}

// revokeNewest revokes the newest key, and waits until the server knows.
func (s *oauthServer) revokeNewest() {
	s.t.Helper()
	must(s.t, s.base.Store.Keys.Revoke(s.t.Context(), s.newestKey().ID, time.Now()))
	// Until the server knows, which it promises within a second.
	for revoked := slowtest.Start(s.t, 0); !revoked.Over(time.Second); {
		must(s.t, netx.Wait(s.t.Context(), 50*time.Millisecond))
	}
}

// answerProgram consents, and sends the browser to the program.
func (s *oauthServer) answerProgram(ctx context.Context, address string) {
	s.t.Helper()
	u, err := url.Parse(address)
	must(s.t, err)
	q := s.consent(address, allowAll)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.Query().Get("redirect_uri")+"?"+q.Encode(), nil)
	must(s.t, err)
	resp, err := http.DefaultClient.Do(req)
	must(s.t, err)
	resp.Body.Close()
}

// The official suite for authorization servers.
func TestOAuthConformance(t *testing.T) {
	node := mcptest.Node(t)
	s := newOAuthServer(t, Options{})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	_, port, err := net.SplitHostPort(l.Addr().String())
	must(t, err)
	must(t, l.Close())
	client, _, err := oauth.New(oauth.Options{Store: s.base.Store}).AddClient(t.Context(), "the suite",
		[]string{"http://127.0.0.1:" + port + "/callback", "http://localhost:" + port + "/callback"}, false)
	must(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	suite, err := filepath.Abs(filepath.Join(peers, "node_modules/@modelcontextprotocol/conformance/dist/index.js"))
	must(t, err)
	cmd := exec.CommandContext(ctx, node, suite, "authorization", "--url", s.url, "--client-id", client.ID, "-p", port)
	cmd.Dir = t.TempDir()
	out, err := cmd.StdoutPipe()
	must(t, err)
	cmd.Stderr = cmd.Stdout
	must(t, cmd.Start())
	var all strings.Builder
	for lines := bufio.NewScanner(out); lines.Scan(); {
		fmt.Fprintln(&all, lines.Text())
		if at := authorizeURL.FindString(lines.Text()); at != "" {
			s.answerProgram(ctx, at)
		}
	}
	err = cmd.Wait()
	if err != nil || !strings.Contains(all.String(), "3 passed, 0 failed") {
		t.Errorf("%v:\n%s", err, all.String())
	}
}
