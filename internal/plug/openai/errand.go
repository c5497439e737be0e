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
)

const (
	// maxAtOnce bounds how many calls of one answer run at a time.
	maxAtOnce = 8
	// maxSame is how often the same call may fail in the same way in a turn.
	maxSame = 3
)

var errToolTime = errors.New("the time for calls is over")

// errand is a call of the model and what it is told about that.
type errand struct {
	call
	title string // what people call it
	args  json.RawMessage

	done     bool // told says all; nothing is to be carried out
	failed   bool
	told     string
	pictures []*talk.Image
}

// fail says that the call came to nothing, and why.
func (e *errand) fail(told string) { e.done, e.failed, e.told = true, true, told }

// key is the same for the same call with the same arguments.
func (e *errand) key() string {
	object, err := plainObject(e.arguments)
	if err != nil {
		object = e.arguments
	}
	return e.name + "\x00" + object
}

// tally counts the calls of the toolbox in a turn.
type tally struct {
	calls, failed, steps int
	took                 time.Duration
}

// failing is how often a call has failed in the same way.
type failing struct {
	told  string
	times int
}

// follow carries out what the model called and puts the results into the thread.
func (a *answer) follow(ctx context.Context, out outcome) error {
	errands := a.step.errands
	for _, e := range errands {
		if !e.done {
			a.tally.calls++
			a.prepare(e)
		}
	}
	began := time.Now()
	left := a.bot.settings.toolTime() - a.tally.took
	within, cancel := context.WithTimeoutCause(ctx, left, errToolTime)
	defer cancel()
	err := a.carryOut(within, errands)
	a.tally.took += time.Since(began)
	a.tally.steps++
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return err
	}
	for _, e := range errands {
		if e.failed {
			a.tally.failed++
			a.failedAgain(e)
		}
	}
	last := ""
	if a.tally.steps >= a.bot.settings.toolSteps() || within.Err() != nil {
		a.closed, last = true, toldLast
	}
	a.thread.add(a.step.text.String(), out.thought, errands, last)
	return nil
}

// prepare looks whether a call can be carried out at all.
func (a *answer) prepare(e *errand) {
	f, ok := find(a.functions, e.name)
	object, err := plainObject(e.arguments)
	e.title, e.args = f.title, json.RawMessage(object)
	switch {
	case !ok:
		e.fail(toldUnknown)
	case errors.Is(err, errLongArguments):
		e.fail(toldTooLong)
	case err != nil:
		e.fail(toldNotJSON)
	case a.failing[e.key()].times >= maxSame:
		e.fail(a.failing[e.key()].told)
	}
}

// failedAgain counts how often a call failed in the same way, and tells the model
// to stop when that is enough.
func (a *answer) failedAgain(e *errand) {
	if a.failing == nil {
		a.failing = map[string]failing{}
	}
	f := a.failing[e.key()]
	if f.told != e.told {
		f = failing{told: e.told}
	}
	f.times++
	a.failing[e.key()] = f
	if f.times >= maxSame {
		e.told += toldRepeated
	}
}

// carryOut makes the calls, some at a time, and returns when all of them have
// returned. An error of emit ends them.
func (a *answer) carryOut(ctx context.Context, errands []*errand) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	limit := shareOf(len(errands), a.bot.settings.toolOutput())
	n := newNews()
	places := make(chan struct{}, maxAtOnce)
	var crew sync.WaitGroup
	for _, e := range errands {
		if e.done {
			continue
		}
		crew.Go(func() {
			select {
			case places <- struct{}{}:
				defer func() { <-places }()
				a.call(ctx, e, limit, n)
			case <-ctx.Done():
				e.fail(toldNoTime)
			}
		})
	}
	over := make(chan struct{})
	go func() {
		crew.Wait()
		close(over)
	}()
	err := a.report(ctx, n, over)
	if err != nil {
		cancel()
	}
	<-over
	return err
}

// call carries out one call.
func (a *answer) call(ctx context.Context, e *errand, limit int, n *news) {
	b := a.bot
	n.begin(e)
	defer n.end(e)
	began := time.Now()
	result, err := b.toolbox.Call(ctx, a.turn, e.name, e.args, n.progress)
	switch {
	case err == nil:
		e.told, e.failed = words(result, limit)
		if b.settings.images() {
			e.pictures = pictures(result)
		}
	case ctx.Err() != nil:
		e.fail(toldNoTime)
	default:
		e.fail(cut("Error: "+cmp.Or(tool.AsError(err).Told, "the tool failed."), limit))
	}
	attrs := []any{"turn", a.turn.ID, "function", e.name, "took", time.Since(began), "failed", e.failed, "bytes", len(e.told), "pictures", len(e.pictures)}
	if err != nil {
		attrs = append(attrs, "error", b.redact(err.Error()))
	}
	b.log.DebugContext(ctx, "a tool was called", attrs...)
}
