package hub

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"patchbay/internal/netx"
)

const (
	// refreshTimeout limits the wait for other instances. It is short enough for somebody who waits
	// at a page or a terminal.
	refreshTimeout = 5 * time.Second
	// refreshRetry is the wait for a reply before the request is repeated, if the instance is still
	// alive; refreshPause is the same for an instance that does not listen, because it just started
	// or is about to end.
	refreshRetry = time.Second
	refreshPause = 50 * time.Millisecond
)

func refreshSubject(instance string) string { return "refresh." + instance }

// RefreshToolsEverywhere is [Hub.RefreshTools] on all instances. When it returns, they have applied
// what was stored before, except the returned ones: these have not confirmed in time, and apply it
// by themselves as soon as they can.
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

// refreshPeer makes another instance refresh its tools. It reports whether it has, or is gone.
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
		if netx.Wait(ctx, refreshPause) != nil {
			return false
		}
	}
}

// onRefresh refreshes the tools for another instance and replies with the error, or nothing.
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
	x.hub.Bus.Respond(m, failed) //nolint:errcheck // the other instance reports that it got no reply
}
