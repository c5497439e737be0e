package mcptest

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"patchbay/internal/netx"
	"patchbay/internal/tool"
)

// jobTime is what a call takes that is to become a task: longer than a client waits for the result
// itself.
const jobTime = 800 * time.Millisecond

// taskFixtures are those of the scenarios about io.modelcontextprotocol/tasks.
var taskFixtures = []fixture{
	newFixture("greet", "Greets at once.",
		func(_ context.Context, _ *Fixtures, c *tool.Call) (*tool.Result, error) {
			var args struct {
				Name string `json:"name"`
			}
			if err := json.Unmarshal(c.Args, &args); err != nil {
				return nil, tool.Fail(tool.BadArgs, "The name is missing.", err)
			}
			return tool.Text("Hello, " + args.Name + "!"), nil
		}).withInput(`{"type":"object","properties":{"name":{"type":"string"}},"required":["name"]}`),
	newFixture("slow_compute", "Computes for as many seconds as it is told.",
		func(ctx context.Context, _ *Fixtures, c *tool.Call) (*tool.Result, error) {
			var args struct {
				Seconds int    `json:"seconds"`
				Label   string `json:"label"`
			}
			if err := json.Unmarshal(c.Args, &args); err != nil {
				return nil, tool.Fail(tool.BadArgs, "The time is no number.", err)
			}
			if err := netx.Wait(ctx, time.Duration(args.Seconds)*time.Second); err != nil {
				return nil, err
			}
			return tool.Text("Computed " + args.Label + "."), nil
		}).withInput(`{"type":"object","properties":{"seconds":{"type":"integer","minimum":0,"maximum":600},"label":{"type":"string"}},"required":["seconds"]}`),
	newFixture("failing_job", "Fails after a while. Only for callers that fetch results later.",
		job(func(c *tool.Call) (*tool.Result, error) { return tool.ErrorResult("The job failed."), nil })),
	newFixture("protocol_error_job", "Ends in an error of the protocol after a while.",
		job(func(*tool.Call) (*tool.Result, error) {
			return nil, &tool.Error{Code: tool.Refused, Told: "The job crashed.", RPC: internalError}
		})),
	newFixture("confirm_delete", "Asks for a confirmation after a while.",
		func(ctx context.Context, _ *Fixtures, c *tool.Call) (*tool.Result, error) {
			if _, ok := formAnswer(c, "confirm"); ok {
				return tool.Text("Deleted."), nil
			}
			if err := netx.Wait(ctx, jobTime); err != nil {
				return nil, err
			}
			return ask(c, "", map[string]tool.Request{"confirm": elicitationRequest("Delete it?", confirmForm)})
		}).withInput(`{"type":"object","properties":{"filename":{"type":"string"}}}`),
	newFixture("multi_input", "Asks for two things at once after a while.",
		func(ctx context.Context, _ *Fixtures, c *tool.Call) (*tool.Result, error) {
			_, first := formAnswer(c, "first")
			_, second := formAnswer(c, "second")
			if first && second {
				return tool.Text("Thank you for both."), nil
			}
			if err := netx.Wait(ctx, jobTime); err != nil {
				return nil, err
			}
			return ask(c, "", map[string]tool.Request{"first": elicitationRequest("Your name?", nameForm),
				"second": elicitationRequest("Sure?", confirmForm)})
		}),
	newFixture("test_tool_with_task", "Asks for a name at once, and then takes a while.",
		func(ctx context.Context, _ *Fixtures, c *tool.Call) (*tool.Result, error) {
			name, ok := formText(c, "user_name", "name")
			if !ok {
				return ask(c, "",
					map[string]tool.Request{"user_name": elicitationRequest("What is your name?", nameForm)})
			}
			if err := netx.Wait(ctx, jobTime); err != nil {
				return nil, err
			}
			return tool.Text(fmt.Sprintf("Done for %s.", name)), nil
		}),
}

// job returns a tool that needs a caller which fetches the result later, and takes a while.
func job(end func(*tool.Call) (*tool.Result, error)) func(context.Context, *Fixtures, *tool.Call) (*tool.Result,
	error) {
	return func(ctx context.Context, _ *Fixtures, c *tool.Call) (*tool.Result, error) {
		if !c.Capabilities.Tasks {
			return nil, missingCapabilityError(map[string]any{
				"extensions": map[string]any{"io.modelcontextprotocol/tasks": map[string]any{}}})
		}
		if err := netx.Wait(ctx, jobTime); err != nil {
			return nil, err
		}
		return end(c)
	}
}
