package openai

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"patchbay/internal/talk"
	"patchbay/internal/tool"
	"patchbay/internal/toolbox"
)

const (
	// maxParallelCalls limits the calls of one answer that run at the same time.
	maxParallelCalls = 8
	// maxRepeatedFailures is how often the same call may fail in the same way in a turn.
	maxRepeatedFailures = 3
)

var errToolTimeout = errors.New("the time for calls is over")

// pendingCall is a call of the model and its result for the model.
type pendingCall struct {
	call
	title string // display name
	args  json.RawMessage

	done     bool // result is set; nothing is to be executed
	failed   bool
	result   string
	pictures []*talk.Image
}

// setError marks the call as failed, with the text for the model.
func (e *pendingCall) setError(told string) { e.done, e.failed, e.result = true, true, told }

// key returns a key of the call that is equal for calls with the same function and arguments.
func (e *pendingCall) key() string {
	object, err := toolbox.Arguments(e.arguments)
	if err != nil {
		object = e.arguments
	}
	return e.name + "\x00" + object
}

// callStats counts the calls of the toolbox in a turn.
type callStats struct {
	calls, failed, rounds int
	took                  time.Duration
}

// failureCount counts how often a call failed in the same way.
type failureCount struct {
	result string
	count  int
}

// runCalls executes the calls of a round and adds the results to the thread.
func (a *answer) runCalls(ctx context.Context, out outcome) error {
	if a.turn.Commit != nil {
		if err := a.turn.Commit(ctx); err != nil {
			return err
		}
	}
	pending := a.step.calls
	for _, e := range pending {
		if !e.done {
			a.stats.calls++
			a.prepare(e)
		}
	}
	began := time.Now()
	left := a.bot.settings.toolTime() - a.stats.took
	within, cancel := context.WithTimeoutCause(ctx, left, errToolTimeout)
	defer cancel()
	err := a.execute(within, pending)
	a.stats.took += time.Since(began)
	a.stats.rounds++
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return err
	}
	for _, e := range pending {
		if e.failed {
			a.stats.failed++
			a.countFailure(e)
		}
	}
	last := ""
	if a.stats.rounds >= a.bot.settings.toolSteps() || within.Err() != nil {
		a.closed, last = true, noteLastRound
	}
	a.thread.add(a.step.text.String(), out.thought, pending, last)
	return nil
}

// prepare validates a call and marks it as failed if it cannot be executed.
func (a *answer) prepare(e *pendingCall) {
	f, ok := find(a.functions, e.name)
	object, err := toolbox.Arguments(e.arguments)
	e.title, e.args = f.title, json.RawMessage(object)
	switch {
	case !ok:
		e.setError(toolbox.UnknownFunction)
	case errors.Is(err, toolbox.ErrLongArguments):
		e.setError(toolbox.TooLong)
	case err != nil:
		e.setError(toolbox.NotJSON)
	case a.failures[e.key()].count >= maxRepeatedFailures:
		e.setError(a.failures[e.key()].result)
	}
}

// countFailure counts how often a call failed in the same way. At [maxRepeatedFailures] it adds a
// note for the model to stop.
func (a *answer) countFailure(e *pendingCall) {
	if a.failures == nil {
		a.failures = map[string]failureCount{}
	}
	f := a.failures[e.key()]
	if f.result != e.result {
		f = failureCount{result: e.result}
	}
	f.count++
	a.failures[e.key()] = f
	if f.count >= maxRepeatedFailures {
		e.result += noteRepeated
	}
}

// execute runs the calls, at most [maxParallelCalls] at a time, and returns after all of them have
// returned. An error of emit cancels them.
func (a *answer) execute(ctx context.Context, pending []*pendingCall) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	limit := shareOf(len(pending), a.bot.settings.toolOutput())
	n := newProgressNotes()
	slots := make(chan struct{}, maxParallelCalls)
	var workers sync.WaitGroup
	for _, e := range pending {
		if e.done {
			continue
		}
		workers.Go(func() {
			select {
			case slots <- struct{}{}:
				defer func() { <-slots }()
				a.callTool(ctx, e, limit, n)
			case <-ctx.Done():
				e.setError(toolbox.OutOfTime)
			}
		})
	}
	over := make(chan struct{})
	go func() {
		workers.Wait()
		close(over)
	}()
	err := a.reportProgress(ctx, n, over)
	if err != nil {
		cancel()
	}
	<-over
	return err
}

// callTool executes one call.
func (a *answer) callTool(ctx context.Context, e *pendingCall, limit int, n *progressNotes) {
	b := a.bot
	n.begin(e)
	defer n.end(e)
	began := time.Now()
	result, err := b.toolbox.Call(ctx, a.turn, e.name, e.args, n.progress)
	switch {
	case err == nil:
		e.result, e.failed = toolbox.ResultText(result, limit)
		if b.settings.Sees() {
			e.pictures = pictures(result)
		}
	case ctx.Err() != nil:
		e.setError(toolbox.OutOfTime)
	default:
		e.setError(toolbox.Truncate("Error: "+cmp.Or(tool.AsError(err).Told, "the tool failed."), limit))
	}
	attrs := []any{"turn", a.turn.ID, "function", e.name, "took", time.Since(began), "failed", e.failed,
		"bytes", len(e.result), "pictures", len(e.pictures)}
	if err != nil {
		attrs = append(attrs, "error", b.redact(err.Error()))
	}
	b.log.DebugContext(ctx, "a tool was called", attrs...)
}
