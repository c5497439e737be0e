// Package mcptest provides test fixtures for MCP endpoints: a provider with everything that the
// official conformance suite (npm package @modelcontextprotocol/conformance) requires of a server,
// and the suite and third-party clients as processes.
//
// The external programs are in test/peers/mcp, installed with `npm ci` there, and in
// test/peers/mcpgo. Without them, tests are skipped, but with CI=true they fail.
package mcptest

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	"patchbay/internal/netx"
	"patchbay/internal/tool"
)

// Options are callbacks of [Fixtures]. Each may be nil. They are called by one goroutine at a time,
// during a call, and must not call back.
type Options struct {
	// ToolsChanged is called with all tools after a change.
	ToolsChanged func([]tool.Tool)
	// PromptsChanged is called after the prompts have changed.
	PromptsChanged func()
	// ResourceUpdated is called with the URI of a changed resource.
	ResourceUpdated func(uri string)
	// Stopped is called with the id of a call of test_slow whose context has ended.
	Stopped func(id string)
}

// Fixtures are the tools, resources and prompts that the suite expects by name, for the revisions
// 2025-11-25 and 2026-07-28, and some for other tests: test_echo, test_slow and
// test_trigger_resource_change.
//
// They are a [tool.Provider], a [tool.ResourceProvider] and a [tool.PromptProvider], and safe for
// concurrent use.
type Fixtures struct {
	options Options
	// all are the permanent tools, in the order of the list. The suite calls the first one without
	// arguments and expects a result.
	all    []fixture
	byName map[string]fixture

	mu      sync.Mutex
	tools   int // number of tool changes
	prompts int // number of prompt changes
	watched int // number of changes of the watched resource
}

// New returns the fixtures.
func New(o Options) *Fixtures {
	f := &Fixtures{
		options: o,
		all: slices.Concat(contentFixtures, progressFixtures, askFixtures, roundFixtures, changeFixtures,
			ownFixtures, taskFixtures),
		byName: map[string]fixture{},
	}
	for _, t := range f.all {
		f.byName[t.Name] = t
	}
	return f
}

// fixture is a tool and its function.
type fixture struct {
	tool.Tool
	call func(context.Context, *Fixtures, *tool.Call) (*tool.Result, error)
}

// noArguments is the schema of most tools here.
const noArguments = `{"type":"object"}`

func newFixture(name, description string, call func(context.Context, *Fixtures, *tool.Call) (*tool.Result,
	error)) fixture {
	return fixture{tool.Tool{Name: name, Description: description, Input: json.RawMessage(noArguments)}, call}
}

// withInput returns a tool with another schema.
func (f fixture) withInput(input string) fixture {
	f.Input = json.RawMessage(input)
	return f
}

// Tools returns the current tools.
func (f *Fixtures) Tools() []tool.Tool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.list()
}

// list returns the current tools. The caller holds the lock.
func (f *Fixtures) list() []tool.Tool {
	list := make([]tool.Tool, 0, len(f.all)+1)
	for _, t := range f.all {
		list = append(list, t.Tool)
	}
	if f.tools > 0 {
		list = append(list, newFixture(transient("tool", f.tools),
			"Comes and goes when test_trigger_tool_change is called.", nil).Tool)
	}
	return list
}

// transient returns the name of a temporary tool or prompt. Each change has another name, so that
// two changes in a row do not cancel each other out.
func transient(kind string, n int) string { return fmt.Sprintf("test_transient_%s_%d", kind, n) }

// Call implements [tool.Provider].
func (f *Fixtures) Call(ctx context.Context, c *tool.Call) (*tool.Result, error) {
	if t, ok := f.byName[c.Tool]; ok {
		return t.call(ctx, f, c)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.tools > 0 && c.Tool == transient("tool", f.tools) {
		return tool.Text("I am still here."), nil
	}
	return nil, tool.Fail(tool.Unknown, "There is no tool "+c.Tool+".", nil)
}

// Touch changes the watched resource if uri is [Watched], and reports an update of the resource.
func (f *Fixtures) Touch(uri string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if uri == Watched {
		f.watched++
	}
	if f.options.ResourceUpdated != nil {
		f.options.ResourceUpdated(uri)
	}
}

var changeFixtures = []fixture{
	newFixture("test_trigger_tool_change", "Changes the list of tools.",
		func(_ context.Context, f *Fixtures, _ *tool.Call) (*tool.Result, error) {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.tools++
			if f.options.ToolsChanged != nil {
				f.options.ToolsChanged(f.list())
			}
			return tool.Text("The tools have changed."), nil
		}),
	newFixture("test_trigger_prompt_change", "Changes the list of prompts.",
		func(_ context.Context, f *Fixtures, _ *tool.Call) (*tool.Result, error) {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.prompts++
			if f.options.PromptsChanged != nil {
				f.options.PromptsChanged()
			}
			return tool.Text("The prompts have changed."), nil
		}),
	newFixture("test_trigger_resource_change", "Changes the resource "+Watched+".",
		func(_ context.Context, f *Fixtures, _ *tool.Call) (*tool.Result, error) {
			f.Touch(Watched)
			return tool.Text("The resource has changed."), nil
		}),
}

// ownFixtures are tools that the suite does not use.
var ownFixtures = []fixture{
	{
		tool.Tool{
			Name: "test_echo", Title: "Echo", Description: "Says what it is told, in words and for programs.",
			Hints:  tool.ReadOnlyHints(),
			Input:  json.RawMessage(`{"type":"object","properties":{"text":{"type":"string"}},"required":["text"],"additionalProperties":false}`),
			Output: json.RawMessage(`{"type":"object","properties":{"text":{"type":"string"}},"required":["text"]}`),
		},
		func(_ context.Context, _ *Fixtures, c *tool.Call) (*tool.Result, error) {
			var args struct {
				Text string `json:"text"`
			}
			if err := json.Unmarshal(c.Args, &args); err != nil {
				return nil, tool.Fail(tool.BadArgs, "The text is missing.", err)
			}
			return tool.JSON(args), nil
		},
	},
	newFixture("test_slow", "Takes as many milliseconds as it is told, and stops early when nobody waits any more.",
		func(ctx context.Context, f *Fixtures, c *tool.Call) (*tool.Result, error) {
			var args struct {
				Milliseconds int `json:"ms"`
			}
			if err := json.Unmarshal(c.Args, &args); err != nil {
				return nil, tool.Fail(tool.BadArgs, "The time is no number.", err)
			}
			if c.Progress != nil {
				c.Progress(tool.Progress{Message: "begun"})
			}
			if err := netx.Wait(ctx, time.Duration(args.Milliseconds)*time.Millisecond); err != nil {
				f.mu.Lock()
				defer f.mu.Unlock()
				if f.options.Stopped != nil {
					f.options.Stopped(c.ID)
				}
				return nil, err
			}
			return tool.Text("Done."), nil
		}).withInput(`{"type":"object","properties":{"ms":{"type":"integer","minimum":0,"maximum":600000}},"required":["ms"]}`),
}
