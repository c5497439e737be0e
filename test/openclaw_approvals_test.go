package test

import (
	"context"
	"encoding/json"
	"os/exec"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"patchbay/internal/plug/openclaw/openclawtest"
)

// channelClient connects an MCP client to OpenClaw's MCP server, until the test ends. It returns a
// function that calls a tool, which must succeed.
func (h *clawServer) channelClient(t *testing.T) func(name string, args given, into any) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), openclawtest.Timeout)
	t.Cleanup(cancel)
	c, err := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, nil).Connect(ctx,
		&sdk.CommandTransport{Command: openclawtest.Command(t, h.socket(), h.operator, "mcp", "serve")}, nil)
	must(t, err)
	t.Cleanup(func() { c.Close() })
	return func(name string, args given, into any) {
		t.Helper()
		res, err := c.CallTool(ctx, &sdk.CallToolParams{Name: name, Arguments: args})
		must(t, err)
		if res.IsError {
			t.Fatalf("%s: %+v", name, res.Content)
		}
		text, err := json.Marshal(res.StructuredContent)
		must(t, err)
		must(t, json.Unmarshal(text, into))
	}
}

// decided has OpenClaw's own programs decide about programs that the computer asks about: its
// command line, and its MCP server.
func (o *clawRuns) decided(t *testing.T) {
	o.t = t
	program, err := exec.LookPath("printenv")
	must(t, err)
	o.policyOf("--set", "ask")
	// begins starts a call of the computer. Its result arrives in the channel.
	begins := func(variable string) <-chan result {
		done := make(chan result, 1)
		go func() {
			defer close(done)
			done <- o.calls(o.command("system_run"), given{"command": []string{program, variable}, "cwd": "/"})
		}()
		return done
	}
	call := o.channelClient(t)
	call("conversations_list", given{}, &given{}) // it is connected
	allowed := begins("LANG")
	var event struct {
		Event struct {
			Type string
			Raw  struct {
				ID      string
				Request struct{ Command string }
			}
		}
	}
	call("events_wait", given{"timeout_ms": openclawtest.Timeout.Milliseconds()}, &event)
	asked := event.Event.Raw
	if event.Event.Type != "exec_approval_requested" || !strings.HasSuffix(asked.Request.Command, "printenv LANG") {
		t.Fatalf("the MCP server has heard %+v", event)
	}
	if out := o.cli(o.operator, "approvals", "pending"); !strings.Contains(out, asked.Request.Command) {
		t.Errorf("approvals pending: %s", out)
	}
	if out := o.cli(o.operator, "approvals", "resolve", asked.ID, "allow-once"); !strings.Contains(out,
		"resolved allow-once") {
		t.Errorf("approvals resolve: %s", out)
	}
	if res := <-allowed; !strings.Contains(res.text(), "exitCode") {
		t.Errorf("allowed: %s", res.text())
	}

	denied := begins("TERM")
	var open struct {
		Approvals []struct{ Kind, ID string }
	}
	for len(open.Approvals) == 0 { // it hears of the decision, and of the next call
		call("events_wait", given{"after_cursor": 2, "timeout_ms": openclawtest.Timeout.Milliseconds()}, &event)
		call("permissions_list_open", given{}, &open)
	}
	if len(open.Approvals) != 1 || open.Approvals[0].Kind != "exec" || open.Approvals[0].ID == asked.ID {
		t.Fatalf("open are %+v", open)
	}
	call("permissions_respond", given{"kind": "exec", "id": open.Approvals[0].ID, "decision": "deny"}, &given{})
	if res := <-denied; !res.IsError || !strings.Contains(res.text(), "does not allow this call") {
		t.Errorf("refused: %s", res.text())
	}
	// The assistant's own key decides about nothing that it has called.
	if out, err := o.tryCLI(o.assistant.key, "approvals", "pending"); err == nil {
		t.Errorf("an assistant lists approvals: %s", out)
	}
}
