package openai

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	. "patchbay/internal/plug/openai/openaitest"
	"patchbay/internal/settings"
	"patchbay/internal/tool"
	"patchbay/internal/toolbox"
)

func TestNoMoreThanEightCallsRunAtOnce(t *testing.T) {
	var calls []Call
	for i := range 12 {
		calls = append(calls, Call{ID: fmt.Sprint(i), Name: "a", Arguments: fmt.Sprintf(`{"n":%d}`, i)})
	}
	s := startServer(t, calling(calls...), saying("Done."))
	var running, most atomic.Int32
	open, once := make(chan struct{}), sync.Once{}
	box := echoBox("a")
	box.call = func(ctx context.Context, _, args string, _ func(tool.Progress)) (*tool.Result, error) {
		n := running.Add(1)
		defer running.Add(-1)
		for old := most.Load(); n > old && !most.CompareAndSwap(old, n); old = most.Load() {
		}
		if n == 8 { // a ninth would have time to arrive
			once.Do(func() { time.AfterFunc(100*time.Millisecond, func() { close(open) }) })
		}
		select {
		case <-open:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		return tool.Text(args), nil
	}
	newRigWithToolbox(t, s, box, nil).mustAsk(t, question("hi"))
	got := toolResultsIn(t, s, 2)
	if most.Load() != 8 || len(got) != 12 || got[0] != `{"n":0}` || got[11] != `{"n":11}` {
		t.Errorf("%d ran at once; the model was told %q", most.Load(), got)
	}
}

// TestTheStepsAreLimited checks that a model that never stops calling is stopped: after the allowed
// rounds it is asked without functions, and its further calls are ignored.
func TestTheStepsAreLimited(t *testing.T) {
	n := 0
	s := startServer(t)
	s.Answer = func(*Request) Reply {
		n++
		r := calling(Call{ID: "x", Name: "a", Arguments: fmt.Sprintf(`{"n":%d}`, n)},
			Call{ID: "y", Name: "take_photo", Arguments: `{}`})
		if n == 4 {
			r.Steps = append(r.Steps, Text("Enough."))
		}
		return r
	}
	box := echoBox("a")
	turn := commanding("hi")
	turn.Commands = nil
	if got := newRigWithToolbox(t, s, box, func(s *Settings) { s.ToolSteps = 3 }).mustAsk(t,
		turn).String(); got != `"Enough."` {
		t.Errorf("got %s", got)
	}
	if len(s.Requests()) != 4 || box.called() != `a{"n":1} a{"n":2} a{"n":3}` {
		t.Errorf("%d requests, called %s", len(s.Requests()), box.called())
	}
	if c := s.Requests()[3].Chat; len(c.Tools) != 0 || c.ToolChoice != nil ||
		c.Messages[0].Text() != s.Requests()[0].Chat.Messages[0].Text() {
		t.Errorf("the last request is %s", s.Requests()[3].Body)
	}
	if got := toolResultsIn(t, s, 4); !strings.HasSuffix(got[len(got)-1], noteLastRound) ||
		strings.Contains(strings.Join(toolResultsIn(t, s, 3), ""), noteLastRound) {
		t.Errorf("the model was told %q", got)
	}
}

func TestTheTimeIsLimited(t *testing.T) {
	s := startServer(t, calling(Call{ID: "1", Name: "slow", Arguments: `{}`},
		Call{ID: "2", Name: "quick", Arguments: `{}`}), saying("No idea."))
	box := echoBox("slow", "quick")
	box.call = func(ctx context.Context, name, _ string, _ func(tool.Progress)) (*tool.Result, error) {
		if name == "slow" {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		return tool.Text("quick"), nil
	}
	b := newRigWithToolbox(t, s, box, func(s *Settings) { s.ToolTime = settings.Duration(300 * time.Millisecond) })
	if got := b.mustAsk(t, question("hi")).String(); got != `"No idea."` {
		t.Errorf("got %s", got)
	}
	if got := toolResultsIn(t, s, 2); len(got) != 2 || got[0] != toolbox.OutOfTime || got[1] != "quick"+noteLastRound {
		t.Errorf("the model was told %q", got)
	}
	if got := offeredIn(s, 2); got != "" {
		t.Errorf("offered %s", got)
	}
}

func TestResultsAreCut(t *testing.T) {
	long := strings.Repeat("长", 1000) // 3000 bytes
	s := startServer(t, calling(Call{ID: "1", Name: "a", Arguments: `{}`}),
		calling(Call{ID: "2", Name: "b", Arguments: `{}`}), saying("Done."))
	box := echoBox("a", "b")
	box.call = func(_ context.Context, name, _ string, _ func(tool.Progress)) (*tool.Result, error) {
		if name == "b" {
			return nil, tool.Fail(tool.Failed, long, nil)
		}
		return tool.Text(long), nil
	}
	newRigWithToolbox(t, s, box, func(s *Settings) { s.ToolOutput = 1000 }).mustAsk(t, question("hi"))
	if got := toolResultsIn(t, s, 2)[0]; got != long[:999]+"\n[2001 of 3000 bytes were cut off here]" {
		t.Errorf("the model was told %d bytes ending with %q", len(got), got[len(got)-60:])
	}
	if got := toolResultsIn(t, s, 3)[0]; len(got) > 1100 || !strings.HasPrefix(got, "Error: 长") ||
		!strings.Contains(got, "cut off") {
		t.Errorf("the model was told %d bytes", len(got))
	}
}

func TestManyLargeResults(t *testing.T) {
	var script []Reply
	for i := range 9 {
		var calls []Call
		for j := range 4 {
			calls = append(calls, Call{Name: "a", Arguments: fmt.Sprintf(`{"n":%d,"m":%d,"x":"%s"}`, i, j,
				strings.Repeat("y", 8000))})
		}
		script = append(script, calling(calls...))
	}
	s := startServer(t, append(script, saying("Done."))...)
	box := echoBox("a")
	box.call = func(_ context.Context, _, args string, _ func(tool.Progress)) (*tool.Result, error) {
		return tool.Text(args[:15] + strings.Repeat("z", 12000)), nil
	}
	newRigWithToolbox(t, s, box, func(s *Settings) { s.ToolSteps = 20 }).mustAsk(t, question("hi"))
	last := s.Requests()[9]
	if n := len(last.Body); n > maxToolText+20000 {
		t.Errorf("the last request has %d bytes", n)
	}
	results := last.Chat.Results()
	if len(results) != 4 || !strings.Contains(results[0].Text(), `"n":8,"m":0`) ||
		!strings.Contains(results[3].Text(), `"n":8,"m":3`) {
		t.Errorf("the newest results are not there: %.100s", results[0].Text())
	}
	if got := last.Chat.Messages[3].Text(); got != droppedText {
		t.Errorf("the oldest result is %.100s", got)
	}
}
