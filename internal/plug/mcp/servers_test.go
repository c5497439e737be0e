package mcp

//lint:file-ignore SA1019 servers still ask for roots and sampling, and log

import (
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"patchbay/internal/plug/mcp/mcptest"
	"patchbay/internal/plug/mcp/upstream"
)

// peerServer is a server of the reference implementations, and what is asked of it.
type peerServer struct {
	name string
	args []string
	// calls are the arguments of tools; the others are called without. A tool whose result changes
	// from call to call has the value "".
	calls map[string]string
	// prompts are the arguments of prompts.
	prompts map[string]map[string]string
}

// Reference servers are the same through Patchbay as directly, item by item.
func TestServersThrough(t *testing.T) {
	folder, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(folder, "notes.txt"), "first\nsecond\n")
	file := `{"path":"` + filepath.Join(folder, "notes.txt") + `"}`
	dir := `{"path":"` + folder + `"}`
	for _, p := range []peerServer{
		{name: "server-everything", calls: map[string]string{
			"echo": `{"message":"hello"}`, "get-sum": `{"a":1,"b":2}`, "get-annotated-message": `{"messageType":"success","includeImage":true}`,
			"get-resource-links": `{"count":3}`, "get-resource-reference": `{"resourceType":"Text","resourceId":1}`,
			"get-structured-content": `{"location":"New York"}`, "trigger-long-running-operation": `{"duration":1,"steps":3}`,
			"trigger-sampling-request": `{"prompt":"hi","maxTokens":5}`, "get-env": "",
			"simulate-research-query": `{"topic":"x"}`, "trigger-url-elicitation": `{"url":"https://example.com/","elicitationId":"e1"}`,
		}, prompts: map[string]map[string]string{
			"args-prompt": {"city": "Bern", "state": "BE"}, "completable-prompt": {"department": "Sales", "name": "David"},
			"resource-prompt": {"resourceType": "Text", "resourceId": "1"},
		}},
		{name: "server-filesystem", args: []string{folder}, calls: map[string]string{
			"read_file": file, "read_text_file": file, "read_media_file": file, "get_file_info": "", "list_directory": dir,
			"list_directory_with_sizes": dir, "directory_tree": dir, "list_allowed_directories": `{}`,
			"search_files": `{"path":"` + folder + `","pattern":"**/*.txt"}`, "read_multiple_files": `{"paths":["` + folder + `/notes.txt"]}`,
			"move_file":  `{"source":"` + folder + `/none","destination":"` + folder + `/other"}`,
			"edit_file":  `{"path":"` + folder + `/notes.txt","edits":[{"oldText":"first","newText":"1"}],"dryRun":true}`,
			"write_file": `{"path":"` + folder + `/new.txt","content":"x"}`, "create_directory": `{"path":"` + folder + `/sub"}`,
		}},
		{name: "server-memory", calls: map[string]string{
			"create_entities": `{"entities":[{"name":"Ada","entityType":"person","observations":["counts"]}]}`,
			"search_nodes":    `{"query":"Ada"}`, "open_nodes": `{"names":["Ada"]}`,
			"create_relations":    `{"relations":[{"from":"Ada","to":"Bob","relationType":"knows"}]}`,
			"add_observations":    `{"observations":[{"entityName":"Ada","contents":["x"]}]}`,
			"delete_entities":     `{"entityNames":["Bob"]}`,
			"delete_observations": `{"deletions":[{"entityName":"Ada","observations":["x"]}]}`,
			"delete_relations":    `{"relations":[{"from":"Ada","to":"Bob","relationType":"knows"}]}`,
		}},
		{name: "server-basic-vanillajs", args: []string{"--stdio"}, calls: map[string]string{"get-time": ""}},
	} {
		t.Run(p.name, func(t *testing.T) { compareServer(t, p) })
	}
}

// The official file system server asks for roots after the handshake, and then works in the folder
// that its owner has granted.
func TestServerGetsRoots(t *testing.T) {
	granted, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	cmd := serverCommand(t, mcptest.ServerProgram(t, "server-filesystem"), []string{t.TempDir()})
	env := map[string]string{}
	for _, kv := range cmd.Env {
		name, value, _ := strings.Cut(kv, "=")
		env[name] = value
	}
	r := newRig(t, rigOptions{})
	addUpstream(t, r, upstream.Spec{Slug: "files", Settings: upstream.Settings{Command: cmd.Path, Args: cmd.Args[1:],
		Env: env, Roots: []string{"file://" + granted}}})
	client := connectClient(t, &sdk.StreamableClientTransport{Endpoint: r.url + "/mcp",
		HTTPClient: &http.Client{Transport: keyed(r.addKey(t, "all", ""))}})
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for limit := time.After(30 * time.Second); ; {
		res, err := client.CallTool(t.Context(), &sdk.CallToolParams{Name: "files_list_allowed_directories"})
		must(t, err)
		text := res.Content[0].(*sdk.TextContent).Text
		if strings.Contains(text, granted) {
			return
		}
		select {
		case <-tick.C: // it asks in the background
		case <-limit:
			t.Fatalf("it works in %q", text)
		}
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func compareServer(t *testing.T, p peerServer) {
	program := mcptest.ServerProgram(t, p.name)
	direct := connectClient(t, &sdk.CommandTransport{Command: serverCommand(t, program, p.args)})
	r := newRig(t, rigOptions{})
	cmd := serverCommand(t, program, p.args)
	env := map[string]string{}
	for _, kv := range cmd.Env {
		name, value, _ := strings.Cut(kv, "=")
		env[name] = value
	}
	addUpstream(t, r, upstream.Spec{Slug: "srv", Settings: upstream.Settings{Command: cmd.Path, Args: cmd.Args[1:], Env: env}})
	through := connectClient(t, &sdk.StreamableClientTransport{Endpoint: r.url + "/mcp",
		HTTPClient: &http.Client{Transport: keyed(r.addKey(t, "all", `{"dangerous":["*"]}`))}})

	tools := list(t, func(c *sdk.ClientSession) any {
		res, err := c.ListTools(t.Context(), nil)
		must(t, err)
		return res.Tools
	}, direct, through, "tools")
	for _, name := range tools {
		args, given := p.calls[name]
		if given && args == "" {
			continue
		}
		if !given {
			args = "{}"
		}
		same(t, "call of "+name, func(c *sdk.ClientSession, prefix string) (any, error) {
			return c.CallTool(t.Context(), &sdk.CallToolParams{Name: prefix + name, Arguments: json.RawMessage(args)})
		}, direct, through)
	}
	uris := list(t, func(c *sdk.ClientSession) any {
		if c.InitializeResult().Capabilities.Resources == nil {
			return nil
		}
		res, err := c.ListResources(t.Context(), nil)
		must(t, err)
		return res.Resources
	}, direct, through, "resources")
	for _, uri := range uris {
		same(t, "resource "+uri, func(c *sdk.ClientSession, prefix string) (any, error) {
			if prefix != "" {
				scheme, rest, _ := strings.Cut(uri, "://")
				return c.ReadResource(t.Context(), &sdk.ReadResourceParams{URI: scheme + "://srv/" + rest})
			}
			return c.ReadResource(t.Context(), &sdk.ReadResourceParams{URI: uri})
		}, direct, through)
	}
	list(t, func(c *sdk.ClientSession) any {
		if c.InitializeResult().Capabilities.Resources == nil {
			return nil
		}
		res, err := c.ListResourceTemplates(t.Context(), nil)
		must(t, err)
		return res.ResourceTemplates
	}, direct, through, "templates")
	prompts := list(t, func(c *sdk.ClientSession) any {
		if c.InitializeResult().Capabilities.Prompts == nil {
			return nil
		}
		res, err := c.ListPrompts(t.Context(), nil)
		must(t, err)
		return res.Prompts
	}, direct, through, "prompts")
	for _, name := range prompts {
		same(t, "prompt "+name, func(c *sdk.ClientSession, prefix string) (any, error) {
			return c.GetPrompt(t.Context(), &sdk.GetPromptParams{Name: prefix + name, Arguments: p.prompts[name]})
		}, direct, through)
	}
}

// serverCommand returns a command that starts a server with its own folder for what it stores.
func serverCommand(t *testing.T, program []string, args []string) *exec.Cmd {
	cmd := exec.CommandContext(context.Background(), program[0], append(program[1:], args...)...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "MEMORY_FILE_PATH=" + filepath.Join(t.TempDir(), "memory.json")}
	return cmd
}

// connectClient returns a client that can be asked for everything.
func connectClient(t *testing.T, transport sdk.Transport) *sdk.ClientSession {
	t.Helper()
	c := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, &sdk.ClientOptions{
		Capabilities: &sdk.ClientCapabilities{RootsV2: &sdk.RootCapabilities{},
			Elicitation: &sdk.ElicitationCapabilities{Form: &sdk.FormElicitationCapabilities{},
				URL: &sdk.URLElicitationCapabilities{}}},
		CreateMessageHandler: func(context.Context, *sdk.CreateMessageRequest) (*sdk.CreateMessageResult, error) {
			return &sdk.CreateMessageResult{Model: "m", Role: "assistant", Content: &sdk.TextContent{Text: "sampled"}}, nil
		},
		ElicitationHandler: func(context.Context, *sdk.ElicitRequest) (*sdk.ElicitResult, error) {
			return &sdk.ElicitResult{Action: "decline"}, nil
		},
	})
	s, err := c.Connect(t.Context(), transport, &sdk.ClientSessionOptions{ProtocolVersion: "2025-11-25"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// clock matches the time of day, which some servers put into their results.
var clock = regexp.MustCompile(`\d{1,2}:\d\d:\d\d`)

// normal returns a value as JSON without what Patchbay maps and adds.
func normal(t *testing.T, v any) any {
	t.Helper()
	text, err := json.Marshal(v)
	must(t, err)
	text = clock.ReplaceAll(text, []byte("TIME"))
	text = []byte(strings.ReplaceAll(strings.ReplaceAll(string(text), "srv_", ""), "://srv/", "://"))
	var out any
	must(t, json.Unmarshal(text, &out))
	return withoutOurs(out)
}

func withoutOurs(v any) any {
	switch v := v.(type) {
	case []any:
		for i := range v {
			v[i] = withoutOurs(v[i])
		}
	case map[string]any:
		for name := range v {
			if v[name] = withoutOurs(v[name]); strings.HasPrefix(name, "patchbay/") || name == "_meta" && v[name] == nil ||
				name == "execution" { // tasks are not passed on
				delete(v, name)
			}
		}
		if len(v) == 0 {
			return nil
		}
	}
	return v
}

// list compares a list of both, sorted by name, and returns the names or URIs.
func list(t *testing.T, of func(*sdk.ClientSession) any, direct, through *sdk.ClientSession,
	what string) (out []string) {
	t.Helper()
	byName := func(v any) map[string]any {
		all := map[string]any{}
		entries, _ := v.([]any)
		for _, e := range entries {
			m, _ := e.(map[string]any)
			name, _ := m["uri"].(string)
			if name == "" {
				name, _ = m["name"].(string)
			}
			all[name] = e
		}
		return all
	}
	want, got := byName(normal(t, of(direct))), byName(normal(t, of(through)))
	if what == "prompts" {
		delete(got, "use") // the one of Patchbay
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s, - directly, + through Patchbay:\n%s", what, diff)
	}
	out = slices.Sorted(maps.Keys(want)) // both get the calls in the same order
	t.Logf("%d %s", len(out), what)
	return out
}

// same compares a result of both.
func same(t *testing.T, what string, do func(c *sdk.ClientSession, prefix string) (any, error), direct,
	through *sdk.ClientSession) {
	t.Helper()
	want, err := do(direct, "")
	got, err2 := do(through, "srv_")
	if (err == nil) != (err2 == nil) {
		t.Errorf("%s: directly %v, through Patchbay %v", what, err, err2)
		return
	}
	if err != nil {
		return
	}
	if diff := cmp.Diff(normal(t, want), normal(t, got)); diff != "" {
		t.Errorf("%s, - directly, + through Patchbay:\n%.3000s", what, diff)
	}
}
