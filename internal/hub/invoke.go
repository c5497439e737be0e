package hub

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"patchbay/internal/tool"
)

// endGrace is how long a call may take to end after its context has: most providers say then what
// they know.
const endGrace = 50 * time.Millisecond

// Cancellable marks providers whose Call returns soon after its context has ended. A call of
// another provider runs in a goroutine of its own, which can be left behind.
type Cancellable interface{ EndsWithContext() }

var errStillRunning = errors.New("the provider did not stop when it was told to")

// callBackend calls the provider of a tool. It returns soon after ctx has ended.
func (h *Hub) callBackend(ctx context.Context, o *RegisteredTool, c *tool.Call) (*tool.Result, error) {
	if _, ok := o.offer.backend.(Cancellable); ok {
		return h.callSafely(ctx, o, c)
	}
	type outcome struct {
		res *tool.Result
		err error
	}
	done := make(chan outcome, 1)
	copied := *c // the caller may use its own again while the provider still has this one
	end := guardReports(&copied)
	left := false // requires h.mu; the call has been left behind
	ended := false
	h.providers.Go(func() { // Close waits for it for a while
		res, err := h.callSafely(ctx, o, &copied)
		done <- outcome{res, err}
		h.mu.Lock()
		defer h.mu.Unlock()
		if ended = true; left {
			h.callsLeft--
		}
	})
	defer end()
	select {
	case r := <-done:
		return r.res, r.err
	case <-ctx.Done():
	}
	grace := time.NewTimer(endGrace)
	defer grace.Stop()
	select {
	case r := <-done:
		return r.res, r.err
	case <-grace.C:
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if ended {
		r := <-done
		return r.res, r.err
	}
	left = true
	h.callsLeft++ // it keeps its place until it has ended
	h.Logger.Warn("a provider goes on after the end of its call", "provider", o.offer.ID, "tool", o.Tool.Name)
	return nil, errStillRunning
}

// callSafely calls the provider of a tool, which may panic.
func (h *Hub) callSafely(ctx context.Context, o *RegisteredTool, c *tool.Call) (res *tool.Result, err error) {
	defer func() {
		if r := recover(); r != nil {
			h.Logger.Error("a provider panicked", "provider", o.offer.ID, "tool", o.Tool.Name, "panic", r,
				"stack", string(debug.Stack()))
			res, err = nil, tool.Fail(tool.Failed, "The tool failed.", fmt.Errorf("panic: %v", r))
		}
	}()
	return o.offer.backend.Call(ctx, c)
}

// guardReports makes what a provider reports during a call go nowhere once end was called: whoever
// gets the reports has gone then.
func guardReports(c *tool.Call) (end func()) {
	var mu sync.Mutex
	over := false
	guarded := func(f func()) {
		mu.Lock()
		defer mu.Unlock()
		if !over {
			f()
		}
	}
	if progress := c.Progress; progress != nil {
		c.Progress = func(p tool.Progress) { guarded(func() { progress(p) }) }
	}
	if log := c.Log; log != nil {
		c.Log = func(l tool.Log) { guarded(func() { log(l) }) }
	}
	if detach := c.Detach; detach != nil {
		c.Detach = func() { guarded(detach) }
	}
	return func() {
		mu.Lock()
		defer mu.Unlock()
		over = true
	}
}
