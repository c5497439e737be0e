package test

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"patchbay/internal/netx"
	"patchbay/internal/plug/openclaw/openclawtest"
)

// Programs run on a computer with OpenClaw's own node host, as its policy allows, and as its owner
// decides.
func TestOpenClawRuns(t *testing.T) {
	if testing.Short() {
		t.Skip("starts OpenClaw")
	}
	openclawtest.LoadSchema(t) // skips the test without it
	h := newClawServer(t)
	_, port, err := net.SplitHostPort(h.listen)
	must(t, err)
	at, err := strconv.Atoi(port)
	must(t, err)
	openclawtest.NodeHost(t, at, h.add("ada", "hall", "node"), openclawtest.HostOptions{Name: "Hall"})
	asked := h.awaitSurface("Hall")
	h.approve(asked.RequestID)
	o := &clawRuns{clawPrograms: &clawPrograms{clawServer: h, hall: asked.NodeID,
		assistant: &program{key: h.add("ada", "assistant", "mcp")}}}
	if t.Run("described", o.described) {
		t.Run("policy", o.policy)
		t.Run("asked", o.asked)
		t.Run("decided", o.decided)
	}
}

// clawRuns is a server with a node host, on which an assistant runs programs.
type clawRuns struct{ *clawPrograms }

// command returns the name of the tool of a command of the node host.
func (o *clawRuns) command(name string) string { return "node-hall-" + o.hall[:6] + "_" + name }

// result is the result of a call of an assistant.
type result struct {
	IsError    bool
	Content    []struct{ Text string }
	Structured json.RawMessage `json:"structuredContent"`
}

// text returns the whole text of a result.
func (r *result) text() (text string) {
	for _, c := range r.Content {
		text += c.Text
	}
	return text
}

// calls calls a tool as an assistant, and returns its result.
func (o *clawRuns) calls(name string, args any) result {
	o.t.Helper()
	text, err := json.Marshal(args)
	must(o.t, err)
	var in struct {
		Result result
		Error  json.RawMessage
	}
	answer := o.mcp(name, string(text))
	decodeJSON(o.t, answer, &in)
	if len(in.Error) > 0 {
		o.t.Fatalf("%s: %s", name, answer)
	}
	return in.Result
}

// described checks that a model that has only the list of tools can call those of the computer.
func (o *clawRuns) described(t *testing.T) {
	o.t = t
	for _, name := range []string{"system_run", "fs_listDir"} {
		o.run(t, "tool", "allow", "--user", "ada", o.command(name))
	}
	type listed struct {
		Name, Description string
		InputSchema       struct {
			Properties map[string]struct{ Type any }
			Required   []string
		}
		Annotations struct{ ReadOnlyHint, DestructiveHint *bool }
	}
	var list struct {
		Result struct{ Tools []listed }
	}
	tools := map[string]listed{}
	o.slowly("the assistant sees the tools", func() bool {
		decodeJSON(t, o.says(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`), &list)
		for _, tool := range list.Result.Tools {
			tools[tool.Name] = tool
		}
		return tools[o.command("system_run")].Name != "" && tools[o.command("fs_listDir")].Name != ""
	})
	folder := t.TempDir()
	must(t, os.Mkdir(filepath.Join(folder, "inner"), 0o755))
	for _, c := range []struct {
		name     string
		values   given // of parameters, by their names
		want     string
		readOnly bool
	}{
		{"system_which", given{"bins": []string{"sh"}}, "/sh", true},
		{"fs_listDir", given{"path": folder}, "inner", true},
		{"system_run", given{"command": []string{"sh", "-c", "echo in $PWD"}, "cwd": folder}, "in " + folder, false},
		{"system_run", given{"command": []string{"printenv", "WORD"}, "env": given{"WORD": "hello"}, "timeoutMs": 20_000},
			"hello", false},
	} {
		tool := tools[o.command(c.name)]
		for name, value := range c.values {
			kind := "string"
			switch value.(type) {
			case []string:
				kind = "array"
			case given:
				kind = "object"
			case int:
				kind = "integer"
			}
			if tool.InputSchema.Properties[name].Type != kind {
				t.Errorf("%s says of %s %+v", c.name, name, tool.InputSchema.Properties[name])
			}
		}
		for _, name := range tool.InputSchema.Required {
			if _, has := c.values[name]; !has {
				t.Errorf("%s wants %s, too", c.name, name)
			}
		}
		if hint := tool.Annotations.ReadOnlyHint; hint == nil || *hint != c.readOnly {
			t.Errorf("%s has the hints %+v", c.name, tool.Annotations)
		}
		if got := o.calls(tool.Name, c.values); got.IsError || !strings.Contains(got.text(), c.want) {
			t.Errorf("%s: %s", c.name, got.text())
		}
	}
	required := slices.Clone(tools[o.command("system_run")].InputSchema.Required)
	if got := o.calls(o.command("system_run"), given{}); !slices.Equal(required, []string{"command"}) ||
		!got.IsError || !strings.Contains(got.text(), "command") {
		t.Errorf("without parameters a model hears: %s", got.text())
	}
}

// runPolicy is the policy of a node as our command line prints it.
type runPolicy struct {
	Mode  string
	Rules []struct {
		Rule, Program, Args string
		Asked               bool
	}
}

// policyOf reads or changes the policy of the node host with our command line.
func (o *clawRuns) policyOf(args ...string) (p runPolicy) {
	o.t.Helper()
	o.json(o.t, &p, append([]string{"node", "policy", "Hall"}, args...)...)
	return p
}

// policy changes which programs run, with OpenClaw's command line and with ours.
func (o *clawRuns) policy(t *testing.T) {
	o.t = t
	program, err := exec.LookPath("printenv")
	must(t, err)
	runs := func() result {
		t.Helper()
		return o.calls(o.command("system_run"), given{"command": []string{program, "HOME"}})
	}
	approvals := func(args ...string) string {
		t.Helper()
		return o.cli(o.operator, append([]string{"approvals"}, args...)...)
	}
	if p := o.policyOf(); p.Mode != "everything" || len(p.Rules) != 0 {
		t.Errorf("at first it is %+v", p)
	}
	var got struct {
		Hash string
		File struct {
			Defaults struct{ Security, Ask string }
			Agents   map[string]struct {
				Allowlist []struct{ Pattern, ArgPattern string }
			}
		}
	}
	decodeJSON(t, approvals("get", "--node", "Hall", "--json"), &got)
	if got.Hash == "" {
		t.Errorf("approvals get: %+v", got)
	}
	file := filepath.Join(t.TempDir(), "policy.json")
	must(t, os.WriteFile(file, []byte(`{version: 1, defaults: {security: "allowlist", ask: "off"}}`), 0o600))
	approvals("set", "--node", "Hall", "--file", file)
	if p := o.policyOf(); p.Mode != "listed" {
		t.Errorf("after approvals set it is %+v", p)
	}
	if res := runs(); !res.IsError || !strings.Contains(res.text(), "SYSTEM_RUN_DENIED: allowlist miss") {
		t.Errorf("a program that is not listed: %s", res.text())
	}
	approvals("allowlist", "add", "--node", "Hall", program)
	if p := o.policyOf(); len(p.Rules) != 1 || p.Rules[0].Program != program || p.Rules[0].Asked {
		t.Errorf("after approvals allowlist add it is %+v", p)
	}
	approvals("allowlist", "remove", "--node", "Hall", program)
	if p := o.policyOf("--set", "ask", "--allow", "git status"); p.Mode != "ask" || len(p.Rules) != 1 ||
		p.Rules[0].Rule != "git ^status$" {
		t.Errorf("our command line made it %+v", p)
	}
	decodeJSON(t, approvals("get", "--node", "Hall", "--json"), &got)
	if got.File.Defaults.Security != "allowlist" || got.File.Defaults.Ask != "on-miss" ||
		got.File.Agents["*"].Allowlist[0].ArgPattern != "^status$" {
		t.Errorf("OpenClaw's command line sees %+v", got)
	}
	if out, err := o.tryCLI(o.operator, "approvals", "set", "--gateway", "--file", file); err == nil ||
		!strings.Contains(out, "runs no programs itself") {
		t.Errorf("a policy of the gateway: %s", out)
	}
}

// asked decides about programs that the computer asks about.
func (o *clawRuns) asked(t *testing.T) {
	o.t = t
	program, err := exec.LookPath("printenv")
	must(t, err)
	o.policyOf("--set", "ask", "--allow", program+" PATH")
	runs := func(name string) result {
		t.Helper()
		return o.calls(o.command("system_run"), given{"command": []string{program, name}, "cwd": "/"})
	}
	// decide decides about the next question, while the call waits.
	decide := func(decision string) <-chan error {
		done := make(chan error, 1)
		go func() {
			done <- func() error {
				for {
					var list struct {
						Approvals []struct{ ID, Kind, Title string }
					}
					if err := o.ask(ctx, http.MethodGet, "/api/v1/approvals", nil, &list); err != nil {
						return err
					}
					if len(list.Approvals) > 0 {
						a := list.Approvals[0]
						if a.Kind != "run" || !strings.Contains(a.Title, "printenv HOME") {
							return fmt.Errorf("asked is %+v", a)
						}
						return o.ask(ctx, http.MethodPost, "/api/v1/approvals/"+a.ID, given{"decision": decision},
							new(given))
					}
					if err := netx.Wait(t.Context(), 50*time.Millisecond); err != nil {
						return err
					}
				}
			}()
		}()
		return done
	}
	if res := runs("PATH"); res.IsError || !strings.Contains(res.text(), "/bin") {
		t.Errorf("what is listed: %s", res.text())
	}
	for _, c := range []struct{ decision, want string }{
		{"once", "exitCode"}, {"always", "exitCode"},
	} {
		done := decide(c.decision)
		res := runs("HOME")
		must(t, <-done)
		if res.IsError || !strings.Contains(res.text(), c.want) {
			t.Errorf("allowed %s: %s", c.decision, res.text())
		}
	}
	if res := runs("HOME"); res.IsError || !strings.Contains(res.text(), "exitCode") {
		t.Errorf("what is always allowed: %s", res.text())
	}
	p := o.policyOf()
	if !slices.ContainsFunc(p.Rules, func(r struct {
		Rule, Program, Args string
		Asked               bool
	}) bool {
		return r.Asked && r.Args != ""
	}) {
		t.Errorf("the computer keeps %+v", p)
	}
	done := decide("no")
	res := o.calls(o.command("system_run"), given{"command": []string{program, "HOME"}, "cwd": t.TempDir()})
	must(t, <-done)
	if !res.IsError || !strings.Contains(res.text(), "does not allow this call") {
		t.Errorf("refused: %s", res.text())
	}
	var calls []struct{ Tool, Outcome, Code string }
	o.json(t, &calls, "calls", "--limit", "50")
	n := map[string]int{}
	for _, c := range calls {
		if strings.HasSuffix(c.Tool, "system_run") {
			n[c.Outcome+" "+c.Code]++
		}
	}
	if n["done "] < 4 || n["refused denied"] != 1 {
		t.Errorf("the trail has %v", n)
	}
}
