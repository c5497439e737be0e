package openai

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"testing"

	. "patchbay/internal/plug/openai/openaitest"
	"patchbay/internal/talk"
	"patchbay/internal/tool"
	"patchbay/internal/toolbox"
)

// box is a toolbox whose tools are functions of the test.
type box struct {
	list    []toolbox.Named
	listErr error
	call    func(ctx context.Context, name, args string, progress func(tool.Progress)) (*tool.Result, error)

	mu    sync.Mutex
	calls []string // name and arguments, in the order of the calls
}

func (b *box) List(context.Context, *talk.Turn) ([]toolbox.Named, error) {
	return b.list, b.listErr
}

func (b *box) Call(ctx context.Context, turn *talk.Turn, name string, args json.RawMessage,
	progress func(tool.Progress)) (*tool.Result, error) {
	b.mu.Lock()
	b.calls = append(b.calls, name+string(args))
	b.mu.Unlock()
	return b.call(ctx, name, string(args), progress)
}

func (b *box) called() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	sorted := slices.Clone(b.calls)
	slices.Sort(sorted)
	return strings.Join(sorted, " ")
}

// echoBox returns a toolbox with the named tools, which return their names and arguments.
func echoBox(names ...string) *box {
	b := &box{call: func(_ context.Context, name, args string, _ func(tool.Progress)) (*tool.Result, error) {
		return tool.Text(name + " got " + args), nil
	}}
	for _, name := range names {
		b.list = append(b.list, offered(name, "Tool "+name))
	}
	return b
}

func offered(name, title string) toolbox.Named {
	return toolbox.Named{Name: name, Tool: tool.Tool{
		Name: "its_" + name, Title: title, Description: "Does " + name + " & more.",
		Input: json.RawMessage(`{"$schema":"x","type":"object","properties":{"q":{"type":"string"}},"required":["q"]}`),
	}}
}

// newRigWithToolbox returns a bot with a toolbox.
func newRigWithToolbox(t testing.TB, s *Server, b *box, change func(*Settings)) *rig {
	t.Helper()
	r := newRig(t, s.URL, change)
	r.toolbox = b
	return r
}

// calling returns a reply that makes the calls, each in fragments.
func calling(calls ...Call) Reply {
	var steps []Step
	for i, c := range calls {
		steps = append(steps, CallInPieces(i, c.ID, c.Name, c.Arguments)...)
	}
	return Reply{Steps: steps}
}

func saying(text string) Reply { return Reply{Steps: []Step{Text(text)}} }

// toolResultsIn returns the results of calls that the model gets in the nth request.
func toolResultsIn(t testing.TB, s *Server, n int) []string {
	t.Helper()
	requests := s.Requests()
	if len(requests) < n {
		t.Fatalf("%d requests, want %d", len(requests), n)
	}
	var out []string
	for _, m := range requests[n-1].Chat.Results() {
		out = append(out, m.Text())
	}
	return out
}

// offeredIn returns the names of the functions in the nth request.
func offeredIn(s *Server, n int) string {
	var names []string
	for _, f := range s.Requests()[n-1].Chat.Tools {
		names = append(names, f.Function.Name)
	}
	return strings.Join(names, " ")
}
