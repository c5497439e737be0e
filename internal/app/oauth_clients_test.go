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
)

// peers is where the programs of others are installed.
const peers = "../../test/peers/mcp"

// program is a running program of others that is let in by OAuth.
type program struct {
	t      *testing.T
	in     io.WriteCloser
	events chan map[string]any
}

func startOAuthProgram(t *testing.T, version, at, redirect, tool string) *program {
	t.Helper()
	// It ends with its input.
	cmd := exec.Command(mcptest.Node(t), filepath.Join(peers, "ts-oauth.mjs"), at, version, redirect)
	cmd.Env = append(os.Environ(), "TOOL="+tool)
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

// Both generations of the TypeScript SDK come without a token, list, call, refresh and are revoked.
func TestOAuthTypeScript(t *testing.T) {
	for _, version := range []string{"1", "2"} {
		t.Run(version, func(t *testing.T) {
			const redirect = "http://127.0.0.1:47111/callback"
			s := newOAuthServer(t, Options{TokenLife: time.Second})
			p := startOAuthProgram(t, version, s.url+"/mcp", redirect, "list_bots")
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
			keys, err := s.base.Store.Keys.ByPerson(t.Context(), s.person)
			must(t, err)
			must(t, s.base.Store.Keys.Revoke(t.Context(), keys[len(keys)-1].ID, time.Now()))
			must(t, netx.Wait(t.Context(), 1100*time.Millisecond)) // until all instances know
			p.send("")
			// It asks for consent again, or stops.
			if e := <-p.events; e["event"] != "authorize" && e["event"] != "refused" {
				t.Errorf("a revoked program: %v", e)
			}
		})
	}
}

var authorizeURL = regexp.MustCompile(`http://127\.0\.0\.1:\d+/oauth/authorize\?[^\s"']+`)

// TestOAuthPrograms has the programs that people install sign in, and list the tools.
func TestOAuthPrograms(t *testing.T) {
	node := mcptest.Node(t)
	for name, c := range map[string]struct {
		args func(s *oauthServer) []string
		want string // in the output
	}{
		"mcp-remote": {func(s *oauthServer) []string {
			return []string{filepath.Join(peers, "node_modules/mcp-remote/dist/client.js"), s.url + "/mcp", "--allow-http"}
		}, "list_bots"},
		"inspector": {func(s *oauthServer) []string {
			return []string{filepath.Join(peers, "node_modules/@modelcontextprotocol/inspector/clients/cli/build/index.js"),
				s.url + "/mcp", "--transport", "http", "--method", "tools/list"}
		}, "list_bots"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newOAuthServer(t, Options{})
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			cmd := exec.CommandContext(ctx, node, c.args(s)...)
			home := t.TempDir()
			must(t, os.WriteFile(filepath.Join(home, "xdg-open"), []byte("#!/bin/sh\nexit 0\n"), 0o700))
			cmd.Env = append(os.Environ(), "HOME="+home, "MCP_REMOTE_CONFIG_DIR="+home, "BROWSER="+home+"/xdg-open",
				"PATH="+home+":"+os.Getenv("PATH"), "MCP_AUTO_OPEN_ENABLED=true",
				"MCP_OAUTH_CALLBACK_URL=http://127.0.0.1:47112/oauth/callback")
			in, err := cmd.StdinPipe() // some programs end with their input
			must(t, err)
			defer in.Close()
			read, write := io.Pipe()
			cmd.Stdout, cmd.Stderr = write, write
			must(t, cmd.Start())
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				_ = cmd.Wait()
				write.Close()
			}()
			var all strings.Builder
			asked := false
			lines := bufio.NewScanner(read)
			for lines.Buffer(nil, 16<<20); lines.Scan(); { // a list of tools is one line
				fmt.Fprintln(&all, lines.Text())
				if at := authorizeURL.FindString(lines.Text()); at != "" && !asked {
					asked = true
					s.answerProgram(ctx, at)
				}
				if strings.Contains(lines.Text(), c.want) {
					cancel() // it has what it wanted
				}
			}
			<-ended
			if !strings.Contains(all.String(), c.want) {
				t.Errorf("the program says:\n%s", all.String())
			}
		})
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
