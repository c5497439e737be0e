package openclawtest

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"maps"
	"net"
	"net/http"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// Options configure a gateway. The zero Options have no model, and allow only what OpenClaw allows
// by default.
type Options struct {
	// Allow and Deny are names of node commands.
	Allow, Deny []string
	// Model is the base URL of a chat API such as that of openaitest, with a model fake-1; empty:
	// none.
	Model string
	// Manual requires an approval of every device, even of those on this machine.
	Manual bool
	// TLS makes it a wss:// gateway with the certificate that OpenClaw makes for itself.
	TLS bool
	// Settings are merged into the other settings, member by member.
	Settings map[string]any
}

// RealGateway is a gateway of OpenClaw on the loopback interface.
type RealGateway struct {
	*Program
	Port  int
	URL   string // ws://127.0.0.1:…, or wss:// with TLS
	Token string // the shared secret

	home homeDir
	tls  bool
}

// Gateway starts a real gateway, waits until it is ready, and stops it when the test ends. That
// takes 20 seconds and 800 MB of memory, so tests should share it among their subtests.
func Gateway(t testing.TB, o Options) *RealGateway {
	t.Helper()
	port := freePort(t)
	g := &RealGateway{Port: port, URL: "ws://127.0.0.1:" + strconv.Itoa(port), Token: "token-of-a-test", tls: o.TLS}
	if o.TLS {
		g.URL = strings.Replace(g.URL, "ws:", "wss:", 1)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context())) // Stop ends it
	t.Cleanup(cancel)
	g.home = newHomeDir(t, o.settings(g))
	g.Program = run(t, "the gateway", g.home.command(t, ctx, "gateway", "run", "--port", strconv.Itoa(port)))
	g.AwaitOutput("[gateway] ready")
	g.mustBeReady(t)
	return g
}

// mustBeReady checks the gateway's own readiness endpoint.
func (g *RealGateway) mustBeReady(t testing.TB) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), Timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet,
		strings.Replace(g.URL, "ws", "http", 1)+"/readyz", nil)
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{DisableKeepAlives: true,
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}} //nolint:gosec // it is on this machine
	res, err := (&http.Client{Timeout: Timeout, Transport: transport}).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		t.Fatalf("the gateway says that it is ready, and /readyz %s", res.Status)
	}
}

// CLI runs OpenClaw's command line with the gateway and returns its output. If it fails, the test
// fails. With TLS it runs in the gateway's own home directory, because most of its commands have no
// option for a fingerprint.
func (g *RealGateway) CLI(t testing.TB, args ...string) []byte {
	t.Helper()
	if !g.tls {
		return CLI(t, g.URL, g.Token, args...)
	}
	out, err := g.home.cli(t, args...)
	if err != nil {
		t.Fatalf("openclaw %q: %v\n%s", args, err, out)
	}
	return out
}

// Shell runs commands of a shell where the gateway runs, with openclaw as its owner has it, and
// returns their output. It ends at the first that fails, with an error.
func (g *RealGateway) Shell(t testing.TB, script string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), Timeout)
	defer cancel()
	openclaw := g.home.command(t, ctx)
	program := `"` + strings.Join(openclaw.Args, `" "`) + `"`
	cmd := exec.CommandContext(ctx, "sh", "-ec", "openclaw() { "+program+" \"$@\"; }\n"+script)
	cmd.Dir, cmd.Env = openclaw.Dir, openclaw.Env
	ownGroup(cmd)
	cmd.Cancel = func() error {
		stopGroup(cmd)
		return nil
	}
	cmd.WaitDelay = stopTimeout
	out, err := cmd.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%s: %w\n%s", script, err, out)
	}
	return string(out), err
}

// Files are the names of the files of a gateway's certificate and of its key.
func (g *RealGateway) Files() (cert, key string) {
	folder := filepath.Join(g.home.state(), "gateway", "tls")
	return filepath.Join(folder, "gateway-cert.pem"), filepath.Join(folder, "gateway-key.pem")
}

// Home is the gateway's home directory.
func (g *RealGateway) Home() string { return g.home.dir }

// settings returns the content of openclaw.json.
func (o Options) settings(g *RealGateway) map[string]any {
	type m = map[string]any
	list := func(l []string) []string { return append([]string{}, l...) }
	pairing := m{"sshVerify": false} // it would log in to every connecting host
	if o.Manual {
		pairing["autoApproveLocal"] = false
	}
	all := m{
		"gateway": m{
			"mode": "local", "port": g.Port, "bind": "loopback", "auth": m{"mode": "token", "token": g.Token},
			"nodes": m{"commands": m{"allow": list(o.Allow), "deny": list(o.Deny)}, "pairing": pairing},
		},
		"update":    m{"checkOnStart": false},
		"discovery": m{"mdns": m{"mode": "off"}},
		"models":    m{"catalogRefresh": m{"enabled": false}},
		"agents":    m{"defaults": m{"heartbeat": m{"every": "0m"}}},
	}
	if o.TLS {
		merge(all, m{"gateway": m{"tls": m{"enabled": true}}})
	}
	if o.Model != "" {
		merge(all, m{
			"models": m{"mode": "merge", "providers": m{"fake": m{
				"baseUrl": o.Model, "apiKey": "sk-fake", "api": "openai-completions",
				"models": []m{{
					// A voice transcript is answered with thinking level low; OpenClaw does not
					// call a model without thinking for it.
					"id": "fake-1", "name": "Fake", "reasoning": true, "input": []string{"text"},
					"contextWindow": 128000, "maxTokens": 4096,
					"cost": m{"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0},
				}},
			}}},
			"agents": m{"defaults": m{"model": m{"primary": "fake/fake-1"}, "skipBootstrap": true}},
		})
	}
	merge(all, o.Settings)
	return all
}

// merge merges settings into others.
func merge(to, from map[string]any) {
	for name, v := range maps.All(from) {
		inner, ok := v.(map[string]any)
		old, both := to[name].(map[string]any)
		if ok && both {
			merge(old, inner)
		} else {
			to[name] = v
		}
	}
}

// CLI runs OpenClaw's command line with the gateway at a URL and returns its output. If it fails,
// the test fails. Do not run "gateway probe", which searches the whole network for gateways.
func CLI(t testing.TB, url, token string, args ...string) []byte {
	t.Helper()
	out, err := TryCLI(t, url, token, args...)
	if err != nil {
		t.Fatalf("openclaw %q: %v\n%s", args, err, out)
	}
	return out
}

// TryCLI is CLI for calls that may fail. The error has the exit code, and the output then includes
// stderr.
func TryCLI(t testing.TB, url, token string, args ...string) ([]byte, error) {
	t.Helper()
	return newHomeDir(t, map[string]any{}).cli(t, append(args, "--url", url, "--token", token)...)
}

// cli runs OpenClaw's command line with the settings of a home directory, and returns its output.
// If it fails, that includes stderr.
func (h homeDir) cli(t testing.TB, args ...string) ([]byte, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), Timeout)
	defer cancel()
	cmd := h.command(t, ctx, args...)
	var out, complaints bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &complaints
	if err := cmd.Run(); err != nil {
		return append(out.Bytes(), complaints.Bytes()...), err
	}
	return out.Bytes(), nil
}

// Command returns OpenClaw's command line with the gateway at a URL, for a program that is spoken
// to over its standard input and output. It is killed when the test ends.
func Command(t testing.TB, url, token string, args ...string) *exec.Cmd {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	t.Cleanup(cancel)
	return newHomeDir(t, map[string]any{}).command(t, ctx, append(args, "--url", url, "--token", token)...)
}

// HostOptions configure a node host.
type HostOptions struct {
	Name string // display name
	// Servers are the MCP servers that it publishes, in the form of the setting
	// nodeHost.mcp.servers: {"demo": {"command": "…", "args": […]}}.
	Servers map[string]any
	// Settings are merged into the other settings.
	Settings map[string]any
	// Pair is a setup code, and Join a join URL, with which it connects instead of with the token
	// of the gateway.
	Pair, Join string
}

// NodeHost starts OpenClaw's node host, which connects to the gateway on a port of the loopback
// interface. It connects after ten seconds; wait for it at the gateway. It is stopped when the test
// ends.
func NodeHost(t testing.TB, port int, token string, o HostOptions) *Program {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context())) // Stop ends it
	t.Cleanup(cancel)
	settings := map[string]any{"update": map[string]any{"checkOnStart": false},
		"discovery": map[string]any{"mdns": map[string]any{"mode": "off"}}}
	if o.Servers != nil {
		settings["nodeHost"] = map[string]any{"mcp": map[string]any{"servers": o.Servers}}
	}
	merge(settings, o.Settings)
	h := newHomeDir(t, settings)
	args := []string{"node", "run", "--host", "127.0.0.1", "--port", strconv.Itoa(port)}
	switch {
	case o.Pair != "":
		args = []string{"node", "run", "--pair", o.Pair}
	case o.Join != "":
		args = []string{"connect", o.Join}
	}
	cmd := h.command(t, ctx, append(args, "--display-name", o.Name)...)
	if token != "" {
		cmd.Env = append(cmd.Env, "OPENCLAW_GATEWAY_TOKEN="+token)
	}
	return run(t, "the node host "+o.Name, cmd)
}

// LampServer returns an MCP server for [HostOptions.Servers]. It has one tool, self.lamp.set,
// with an argument, on.
func LampServer(t testing.TB) map[string]any {
	t.Helper()
	return map[string]any{"command": Node(t), "args": []string{filepath.Join(peersFolder(t), "tools.mjs")}}
}

// freePort returns an unused port. If another process takes it before the gateway does, the test
// fails.
func freePort(t testing.TB) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}
