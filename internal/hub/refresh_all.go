package hub

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
)

const (
	// refreshTimeout bounds how long another instance is waited for. It is short enough for
	// somebody who waits at a page or a terminal.
	refreshTimeout = 5 * time.Second
	// refreshRetry is how long an instance is waited for before it is asked again, if it
	// lives still; refreshPause is the same for one that does not listen, since it has just
	// started or is about to end.
	refreshRetry = time.Second
	refreshPause = 50 * time.Millisecond
)

func refreshSubject(instance string) string { return "refresh." + instance }

// RefreshToolsEverywhere is [Board.RefreshTools] on all instances. When it returns, what was
// written before holds on each of them, apart from those that it names: they have not
// confirmed in time, and take it up by themselves as soon as they can.
func (h *Hub) RefreshToolsEverywhere(ctx context.Context) (unconfirmed []string, err error) {
	if err := h.RefreshTools(ctx); err != nil || h.Bus.IsStandalone() {
		return nil, err
	}
	limited, cancel := context.WithTimeout(ctx, refreshTimeout)
	defer cancel()
	var wg sync.WaitGroup
	var mu sync.Mutex
	for _, instance := range h.Bus.Peers() {
		wg.Go(func() {
			if !h.refreshPeer(limited, instance) {
				mu.Lock()
				defer mu.Unlock()
				unconfirmed = append(unconfirmed, instance)
			}
		})
	}
	wg.Wait()
	slices.Sort(unconfirmed)
	return unconfirmed, nil
}

// refreshPeer has another instance refresh its tools. It reports whether that one has, or
// is gone.
func (h *Hub) refreshPeer(ctx context.Context, instance string) bool {
	for {
		try, cancel := context.WithTimeout(ctx, refreshRetry)
		m, err := h.Bus.Request(try, refreshSubject(instance), nil)
		cancel()
		switch {
		case err == nil && len(m.Data) == 0, !h.Bus.IsAlive(instance):
			return true
		case err == nil:
			return false
		}
		select {
		case <-time.After(refreshPause):
		case <-ctx.Done():
			return false
		}
	}
}

// onRefresh refreshes the tools for another instance and confirms it: with nothing, or
// with what went wrong.
func (x *catalogSync) onRefresh(m *nats.Msg) {
	ctx, cancel := context.WithTimeout(x.hub.ctx, writeTimeout)
	defer cancel()
	var failed []byte
	if err := x.hub.RefreshTools(ctx); err != nil {
		failed = []byte("not refreshed")
		if x.hub.ctx.Err() == nil {
			x.hub.Logger.Warn("what was changed about tools could not be taken up yet", "error", err)
		}
	}
	x.hub.Bus.Respond(m, failed) //nolint:errcheck // the other instance says that it got no answer
}
