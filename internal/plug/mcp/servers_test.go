package mcp

//lint:file-ignore SA1019 servers still ask for roots and sampling, and log

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

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
	// templates are the values of the variables of templates of resources.
	templates map[string]string
	// completions are what is asked to be completed: the type of the reference, what it names, an
	// argument and its beginning.
	completions [][4]string
	// web means that the server runs over HTTP, and version is the revision of the client.
	web     bool
	version string
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
	servers := []peerServer{
		{name: "server-everything", calls: map[string]string{
			"echo": `{"message":"hello"}`, "get-sum": `{"a":1,"b":2}`, "get-annotated-message": `{"messageType":"success","includeImage":true}`,
			"get-resource-links": `{"count":3}`, "get-resource-reference": `{"resourceType":"Text","resourceId":1}`,
			"get-structured-content": `{"location":"New York"}`, "trigger-long-running-operation": `{"duration":1,"steps":3}`,
			"trigger-sampling-request": `{"prompt":"hi","maxTokens":5}`, "get-env": "",
			"simulate-research-query": `{"topic":"x"}`, "trigger-url-elicitation": `{"url":"https://example.com/","elicitationId":"e1"}`,
		}, prompts: map[string]map[string]string{
			"args-prompt": {"city": "Bern", "state": "BE"}, "completable-prompt": {"department": "Sales", "name": "David"},
			"resource-prompt": {"resourceType": "Text", "resourceId": "1"},
		}, templates: map[string]string{"resourceId": "1"}, completions: [][4]string{
			{"ref/prompt", "completable-prompt", "department", "S"}, {"ref/prompt", "completable-prompt", "name", ""},
			{"ref/prompt", "resource-prompt", "resourceType", "T"}, {"ref/prompt", "none", "x", ""},
			{"ref/resource", "demo://resource/dynamic/text/{resourceId}", "resourceId", "7"},
			{"ref/resource", "demo://resource/dynamic/blob/{resourceId}", "resourceId", "x"},
			{"ref/resource", "demo://resource/none/{resourceId}", "resourceId", "7"},
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
	}
	for i, p := range servers {
		for _, p.version = range []string{"2025-11-25", statelessVersion} {
			if i == 0 || p.version != statelessVersion || os.Getenv("CHECK_ALL") != "" {
				t.Run(p.name+" "+p.version, func(t *testing.T) { compareServer(t, p) })
			}
		}
	}
	web := servers[0]
	web.web, web.version = true, "2025-11-25"
	t.Run(web.name+" over HTTP", func(t *testing.T) { compareServer(t, web) })
}

// webServer starts a reference server that serves HTTP, and returns its address.
func webServer(t *testing.T, program []string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	_, port, err := net.SplitHostPort(l.Addr().String())
	must(t, err)
	must(t, l.Close())
	cmd := serverCommand(t, program, []string{"streamableHttp"})
	cmd.Env = append(cmd.Env, "PORT="+port)
	out, err := cmd.StderrPipe()
	must(t, err)
	must(t, cmd.Start())
	ready, read := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(read)
		once := sync.OnceFunc(func() { close(ready) })
		for lines := bufio.NewScanner(out); lines.Scan(); {
			if strings.Contains(lines.Text(), "listening on port") {
				once()
			}
		}
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-read
		_ = cmd.Wait()
	})
	select {
	case <-ready:
	case <-read:
		t.Fatal("the server has ended")
	case <-time.After(30 * time.Second):
		t.Fatal("the server does not listen")
	}
	return "http://127.0.0.1:" + port + "/mcp"
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
		HTTPClient: &http.Client{Transport: keyed(r.addKey(t, "all", ""))}}, "2025-11-25")
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
	r := newRig(t, rigOptions{})
	c := &compared{T: t, links: map[string]bool{}}
	settings := upstream.Settings{}
	if p.web {
		c.direct = connectClient(t, &sdk.StreamableClientTransport{Endpoint: webServer(t, program)}, "2025-11-25")
		settings.URL = webServer(t, program)
	} else {
		c.direct = connectClient(t, &sdk.CommandTransport{Command: serverCommand(t, program, p.args)}, "2025-11-25")
		cmd := serverCommand(t, program, p.args)
		settings.Command, settings.Args, settings.Env = cmd.Path, cmd.Args[1:], map[string]string{}
		for _, kv := range cmd.Env {
			name, value, _ := strings.Cut(kv, "=")
			settings.Env[name] = value
		}
	}
	addUpstream(t, r, upstream.Spec{Slug: "srv", Settings: settings})
	c.through = connectClient(t, &sdk.StreamableClientTransport{Endpoint: r.url + "/mcp",
		HTTPClient: &http.Client{Transport: keyed(r.addKey(t, "all", `{"dangerous":["*"]}`))}}, p.version)

	for _, name := range c.list("tools", func(x *sdk.ClientSession) (any, error) {
		res, err := x.ListTools(t.Context(), nil)
		return res.Tools, err
	}) {
		args, given := p.calls[name]
		if given && args == "" {
			continue
		}
		if !given {
			args = "{}"
		}
		c.same("call of "+name, func(x *sdk.ClientSession, own ours) (any, error) {
			return x.CallTool(t.Context(), &sdk.CallToolParams{Name: own.name(name), Arguments: json.RawMessage(args)})
		})
	}
	var templates []string
	if c.direct.InitializeResult().Capabilities.Resources != nil {
		for _, uri := range c.list("resources", func(x *sdk.ClientSession) (any, error) {
			res, err := x.ListResources(t.Context(), nil)
			return res.Resources, err
		}) {
			c.links[uri] = true
		}
		templates = c.list("templates", func(x *sdk.ClientSession) (any, error) {
			res, err := x.ListResourceTemplates(t.Context(), nil)
			return res.ResourceTemplates, err
		})
		c.links["demo://resource/none"] = true // is missing
	}
	for _, uri := range templates {
		for name, value := range p.templates {
			uri = strings.ReplaceAll(uri, "{"+name+"}", value)
		}
		if strings.Contains(uri, "{") {
			t.Errorf("no value is given for the template %s", uri)
		}
		c.links[uri] = true
	}
	if c.direct.InitializeResult().Capabilities.Prompts != nil {
		for _, name := range c.list("prompts", func(x *sdk.ClientSession) (any, error) {
			res, err := x.ListPrompts(t.Context(), nil)
			return res.Prompts, err
		}) {
			get := func(args map[string]string) func(x *sdk.ClientSession, own ours) (any, error) {
				return func(x *sdk.ClientSession, own ours) (any, error) {
					return x.GetPrompt(t.Context(), &sdk.GetPromptParams{Name: own.name(name), Arguments: args})
				}
			}
			c.same("prompt "+name, get(p.prompts[name]))
			if p.prompts[name] != nil {
				c.same("prompt "+name+" without arguments", get(nil))
			}
		}
	}
	for _, of := range p.completions {
		c.same(fmt.Sprintf("completion of %q", of), func(x *sdk.ClientSession, own ours) (any, error) {
			ref := &sdk.CompleteReference{Type: of[0]}
			if of[0] == "ref/prompt" {
				ref.Name = own.name(of[1])
			} else {
				ref.URI = own.uri(of[1])
			}
			return x.Complete(t.Context(), &sdk.CompleteParams{Ref: ref,
				Argument: sdk.CompleteParamsArgument{Name: of[2], Value: of[3]}})
		})
	}
	// Every link that came in a list, a result or a prompt leads to the same.
	for _, uri := range slices.Sorted(maps.Keys(c.links)) {
		c.same("resource "+uri, func(x *sdk.ClientSession, own ours) (any, error) {
			return x.ReadResource(t.Context(), &sdk.ReadResourceParams{URI: own.uri(uri)})
		})
	}
	t.Logf("%d links", len(c.links))
}

// serverCommand returns a command that starts a server with its own folder for what it stores.
func serverCommand(t *testing.T, program []string, args []string) *exec.Cmd {
	cmd := exec.CommandContext(context.Background(), program[0], append(program[1:], args...)...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "MEMORY_FILE_PATH=" + filepath.Join(t.TempDir(), "memory.json")}
	return cmd
}

// connectClient returns a client that can be asked for everything.
func connectClient(t *testing.T, transport sdk.Transport, version string) *sdk.ClientSession {
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
	s, err := c.Connect(t.Context(), transport, &sdk.ClientSessionOptions{ProtocolVersion: version})
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
