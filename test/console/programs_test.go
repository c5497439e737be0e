package console

import (
	"context"
	"encoding/json"
	"fmt"
	"html"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"patchbay/internal/plug/openclaw/openclawtest"
)

// keyPage signs ada in, creates a key on the page, and returns the key and the text of every
// copyable element of the page, by ID.
func keyPage(h *testServer, scopes ...string) (key string, texts map[string]string) {
	h.t.Helper()
	jar, err := cookiejar.New(nil)
	must(h.t, err)
	browser := &http.Client{Jar: jar, Timeout: patience}
	post := func(path string, form url.Values) string {
		resp, err := browser.PostForm(h.url+path, form)
		must(h.t, err)
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		must(h.t, err)
		if resp.StatusCode != http.StatusOK {
			h.t.Fatalf("%s: %s: %s", path, resp.Status, text)
		}
		return string(text)
	}
	post("/signin", url.Values{"name": {ada}, "password": {adaPassword}})
	page := post("/keys/new", url.Values{"name": {"desk"}, "scope": scopes})
	texts = map[string]string{}
	for _, m := range regexp.MustCompile(`(?s)<(?:code|pre)[^>]* id="([^"]+)"[^>]*>(.*?)</(?:code|pre)>|<(?:code|pre) id="([^"]+)"[^>]*>(.*?)</(?:code|pre)>`).FindAllStringSubmatch(page, -1) {
		texts[m[1]+m[3]] = html.UnescapeString(m[2] + m[4])
	}
	if key = texts["secret"]; key == "" {
		h.t.Fatalf("the page shows no key: %s", page)
	}
	return key, texts
}

// What the makers of programs say that their configurations look like.
//
// Cursor: cursor.com/docs/mcp. Claude Desktop: modelcontextprotocol.io, “Connect to local
// MCP servers”; support.claude.com says that it connects to no address in that file.
// VS Code: code.visualstudio.com, “MCP configuration reference”, and the schema by which
// it checks the file itself.
const (
	cursorFile = `{"type": "object", "additionalProperties": false, "required": ["mcpServers"], "properties": {"mcpServers": {
		"type": "object", "minProperties": 1, "additionalProperties": {
			"type": "object", "additionalProperties": false, "required": ["url"], "properties": {
				"url": {"type": "string", "format": "uri"},
				"headers": {"type": "object", "additionalProperties": {"type": "string"}}}}}}}`

	claudeDesktopFile = `{"type": "object", "additionalProperties": false, "required": ["mcpServers"], "properties": {"mcpServers": {
		"type": "object", "minProperties": 1, "additionalProperties": {
			"type": "object", "additionalProperties": false, "required": ["command"], "properties": {
				"command": {"type": "string", "minLength": 1},
				"args": {"type": "array", "items": {"type": "string"}},
				"env": {"type": "object", "additionalProperties": {"type": "string"}}}}}}}`

	vsCodeFile = `{"type": "object", "additionalProperties": false, "required": ["servers"], "properties": {
		"servers": {"type": "object", "minProperties": 1, "additionalProperties": {
			"type": "object", "additionalProperties": false, "required": ["type", "url"], "properties": {
				"type": {"enum": ["http", "sse"]},
				"url": {"type": "string", "format": "uri", "pattern": "^https?://.+"},
				"headers": {"type": "object", "additionalProperties": {"type": "string"}}}}},
		"inputs": {"type": "array", "items": {
			"type": "object", "additionalProperties": false, "required": ["id", "type", "description"], "properties": {
				"id": {"type": "string"}, "type": {"const": "promptString"}, "description": {"type": "string"},
				"default": {"type": "string"}, "password": {"type": "boolean"}}}}}}`
)

// configured is a server in any of the configuration files.
type configured struct {
	URL     string
	Headers map[string]string
	Command string
	Args    []string
	Env     map[string]string
}

// readFile validates a file and returns the only server in it. answers holds the user's input, by
// the ID of the prompt.
func readFile(schema, text string, answers map[string]string) (server configured, err error) {
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	parsed, err := jsonschema.UnmarshalJSON(strings.NewReader(schema))
	if err != nil {
		return server, err
	}
	if err := c.AddResource("file.json", parsed); err != nil {
		return server, err
	}
	compiled, err := c.Compile("file.json")
	if err != nil {
		return server, err
	}
	file, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	if err != nil {
		return server, err
	}
	if err := compiled.Validate(file); err != nil {
		return server, err
	}
	var f struct {
		Inputs     []struct{ ID string }
		MCPServers map[string]configured
		Servers    map[string]configured
	}
	if err := json.Unmarshal([]byte(text), &f); err != nil {
		return server, err
	}
	for _, servers := range []map[string]configured{f.MCPServers, f.Servers} {
		for name, s := range servers {
			if !regexp.MustCompile(`^[a-zA-Z][a-zA-Z0-9]*$`).MatchString(name) {
				return server, fmt.Errorf("a server is called %q", name)
			}
			server = s
		}
	}
	for header, value := range server.Headers {
		for _, in := range f.Inputs {
			value = strings.ReplaceAll(value, "${input:"+in.ID+"}", answers[in.ID])
		}
		if strings.Contains(value, "${") {
			return server, fmt.Errorf("nobody is asked for what is in %q", value)
		}
		server.Headers[header] = value
	}
	return server, nil
}

// with sends headers with every request.
type with map[string]string

func (w with) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	for name, value := range w {
		r.Header.Set(name, value)
	}
	return http.DefaultTransport.RoundTrip(r)
}

// byAddress connects like a program that takes a URL.
func (s configured) byAddress() sdk.Transport {
	return &sdk.StreamableClientTransport{Endpoint: s.URL, HTTPClient: &http.Client{Transport: with(s.Headers)}}
}

// byCommand connects like Claude Desktop: it starts the command with little more than the env of
// the file, in an arbitrary folder, and uses its standard input and output. Here the folder is the
// one in which the pinned npm program is installed; npx runs it from there and must not access the
// registry.
func (s configured) byCommand(t *testing.T, folder string) sdk.Transport {
	t.Helper()
	home := t.TempDir()
	cmd := exec.CommandContext(t.Context(), "/usr/bin/env", append([]string{s.Command}, s.Args...)...)
	cmd.Dir = folder
	cmd.Env = []string{"PATH=" + filepath.Dir(binary) + ":" + os.Getenv("PATH"), "HOME=" + home,
		"npm_config_offline=true", "npm_config_update_notifier=false"}
	for name, value := range s.Env {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	said, err := os.Create(filepath.Join(home, "said"))
	must(t, err)
	t.Cleanup(func() {
		said.Close()
		if text, err := os.ReadFile(said.Name()); err == nil && t.Failed() {
			t.Logf("%s said:\n%s", s.Command, text)
		}
	})
	cmd.Stderr = said
	return &sdk.CommandTransport{Command: cmd}
}

// tried connects, lists the tools, and calls one that must answer with the given text.
func tried(t *testing.T, transport sdk.Transport, tool string, args map[string]any, words string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	// The protocol revision with a handshake, which these programs use.
	session, err := sdk.NewClient(&sdk.Implementation{Name: "desk", Version: "1"}, nil).Connect(ctx, transport,
		&sdk.ClientSessionOptions{ProtocolVersion: "2025-11-25"})
	if err != nil {
		t.Error(err)
		return
	}
	defer session.Close()
	var names []string
	for x, err := range session.Tools(ctx, nil) {
		if err != nil {
			t.Error(err)
			return
		}
		names = append(names, x.Name)
	}
	if !slices.Contains(names, tool) {
		t.Errorf("%s is not among the tools: %s", tool, names)
	}
	res, err := session.CallTool(ctx, &sdk.CallToolParams{Name: tool, Arguments: args})
	if err != nil {
		t.Error(err)
		return
	}
	text, err := json.Marshal(res.Content)
	must(t, err)
	if res.IsError || !strings.Contains(string(text), words) {
		t.Errorf("%s answers %s", tool, text)
	}
}

// missing skips a test that lacks something, except in continuous integration.
func missing(t *testing.T, what string) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatal(what)
	}
	t.Skip(what)
}

// bridgeFolder returns the folder with the npm program that the page names, in the version that the
// page names.
func bridgeFolder(t *testing.T, args []string) string {
	t.Helper()
	folder, err := filepath.Abs("../peers/mcp")
	must(t, err)
	var pinned struct{ Dependencies map[string]string }
	text, err := os.ReadFile(filepath.Join(folder, "package.json"))
	must(t, err)
	must(t, json.Unmarshal(text, &pinned))
	if want := "mcp-remote@" + pinned.Dependencies["mcp-remote"]; !slices.Contains(args, want) {
		t.Errorf("the page names another version than %s, the one that is tried: %q", want, args)
	}
	if _, err := os.Stat(filepath.Join(folder, "node_modules", ".package-lock.json")); err != nil {
		missing(t, "run `npm ci` in test/peers/mcp to try the configuration of Claude Desktop")
	}
	if _, err := exec.LookPath("npx"); err != nil {
		missing(t, "npx is not installed; it starts what the configuration of Claude Desktop names")
	}
	return folder
}

// Every configuration on the page of a new key has the form that the program's makers document, and
// connects unchanged.
func TestConfigurationsOfAKey(t *testing.T) {
	h := newServerWithAda(t)
	h.run("bot", "add", "--user", ada, "--name", "parrot", "--kind", "echo")
	key, texts := keyPage(h, "mcp", "learn", "operator", "node")

	for _, endpoint := range []struct {
		prefix, name, tool string
		args               map[string]any
		words              string
	}{
		{"mcp", "patchbay", "send_message", map[string]any{"botId": "parrot", "message": "hello"}, `"text":"hello"`},
		{"learn", "learn", "create_knowledge_point", map[string]any{"question": "Who wrote Faust?", "answer": "Goethe"},
			"Who wrote Faust?"},
	} {
		text := func(t *testing.T, program string) string {
			t.Helper()
			text, ok := texts[endpoint.prefix+"-"+program]
			if !ok {
				t.Fatalf("the page has nothing for %s", program)
			}
			return text
		}
		try := func(t *testing.T, transport sdk.Transport) {
			t.Helper()
			tried(t, transport, endpoint.tool, endpoint.args, endpoint.words)
		}
		t.Run(endpoint.prefix+" Cursor", func(t *testing.T) {
			server, err := readFile(cursorFile, text(t, "cursor"), nil)
			must(t, err)
			try(t, server.byAddress())
		})
		t.Run(endpoint.prefix+" VS Code", func(t *testing.T) {
			server, err := readFile(vsCodeFile, text(t, "vscode"), map[string]string{endpoint.name + "-key": key})
			must(t, err)
			try(t, server.byAddress())
		})
		t.Run(endpoint.prefix+" Claude Code", func(t *testing.T) {
			try(t, claudeCode(t, text(t, "code"), endpoint.name).byAddress())
		})
		t.Run(endpoint.prefix+" Claude Desktop", func(t *testing.T) {
			server, err := readFile(claudeDesktopFile, text(t, "desktop"), nil)
			must(t, err)
			folder := t.TempDir()
			if server.Command == "npx" {
				folder = bridgeFolder(t, server.Args)
			}
			try(t, server.byCommand(t, folder))
		})
	}
	for id, want := range map[string]string{"learn-hand": "Who wrote Faust?", "oper-script": "parrot",
		"oper-patchbay": "parrot"} {
		t.Run(id, func(t *testing.T) {
			if _, err := exec.LookPath("curl"); err != nil && id != "oper-patchbay" {
				missing(t, "curl is not installed")
			}
			if out := shell(t, "", texts[id]); !strings.Contains(out, want) {
				t.Errorf("%s\nprints %s", texts[id], out)
			}
		})
	}
	site, err := url.Parse(h.url)
	must(t, err)
	t.Run("openclaw node run", func(t *testing.T) { // test/openclaw_peers_test.go runs it
		got := words(t, "openclaw", `echo "$OPENCLAW_GATEWAY_TOKEN"`, texts["node-run"])
		if want := []string{key, "node", "run", "--host", site.Hostname(), "--port", site.Port(), "--display-name",
			"study"}; !slices.Equal(got, want) {
			t.Errorf("its words are %q, not %q", got, want)
		}
	})
	t.Run("openclaw nodes status", func(t *testing.T) {
		got := words(t, "openclaw", "", texts["oper-openclaw"])
		if len(got) != 6 || got[2] != "--url" || got[4] != "--token" {
			t.Fatalf("its words are %q", got)
		}
		if out := openclawtest.CLI(t, got[3], got[5], got[0], got[1], "--json"); !json.Valid(out) {
			t.Errorf("it prints %s", out)
		}
	})
}

// words returns the arguments that a program gets from copied lines, one by one, after the output
// of our own lines.
func words(t *testing.T, program, ours, lines string) []string {
	t.Helper()
	if ours == "" {
		ours = ":"
	}
	out := shell(t, program+`() { `+ours+`; printf '%s\n' "$@"; }`, lines)
	return strings.Split(strings.TrimSuffix(out, "\n"), "\n")
}

// shell runs copied lines after some of ours.
func shell(t *testing.T, ours, lines string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "sh", "-e", "-c", ours+"\n"+lines)
	cmd.Dir = t.TempDir()
	cmd.Env = []string{"PATH=" + filepath.Dir(binary) + ":" + os.Getenv("PATH"), "HOME=" + cmd.Dir, "LANG=en_US.UTF-8"}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s\nends with %v: %s", lines, err, out)
	}
	return string(out)
}

// claudeCode parses a command line as Claude Code does: in `claude mcp add --help`, --scope and
// --transport take one value, and --header takes all that follow, so it comes last.
func claudeCode(t *testing.T, line, name string) configured {
	t.Helper()
	got := words(t, "claude", "", line)
	if len(got) != 10 || !slices.Equal(got[:7], []string{"mcp", "add", "--scope", "user", "--transport",
		"http", name}) || got[8] != "--header" {
		t.Fatalf("its words are %q", got)
	}
	header, value, ok := strings.Cut(got[9], ": ")
	if !ok {
		t.Fatalf("the header is %q", got[9])
	}
	return configured{URL: got[7], Headers: map[string]string{header: value}}
}

// The checks detect errors in a file.
func TestWrongConfigurations(t *testing.T) {
	for name, c := range map[string]struct{ schema, text string }{
		"VS Code with Cursor's file":     {vsCodeFile, `{"mcpServers": {"patchbay": {"url": "http://x/mcp"}}}`},
		"VS Code with no kind of server": {vsCodeFile, `{"servers": {"patchbay": {"url": "http://x/mcp"}}}`},
		"VS Code that asks for nothing": {vsCodeFile,
			`{"servers": {"patchbay": {"type": "http", "url": "http://x/mcp", "headers": {"Authorization": "Bearer ${input:key}"}}}}`},
		"VS Code with a question unsaid": {vsCodeFile,
			`{"inputs": [{"id": "key", "type": "promptString"}], "servers": {"patchbay": {"type": "http", "url": "http://x/mcp"}}}`},
		"Claude Desktop with an address": {claudeDesktopFile,
			`{"mcpServers": {"patchbay": {"url": "http://x/mcp"}}}`},
		"Cursor with a command": {cursorFile, `{"mcpServers": {"patchbay": {"command": "npx"}}}`},
		"Cursor with a header of no value": {cursorFile,
			`{"mcpServers": {"patchbay": {"url": "http://x/mcp", "headers": {"Authorization": null}}}}`},
	} {
		if _, err := readFile(c.schema, c.text, nil); err == nil {
			t.Errorf("%s passes", name)
		}
	}
}
