package app

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"patchbay/internal/bus/bustest"
	"patchbay/internal/hub/hubtest"
	"patchbay/internal/proxytest"
	"patchbay/internal/store"
)

// holder is an instance that records which devices it sends away.
type holder struct {
	*handover
	proxy *proxytest.Proxy
	left  atomic.Int64
	busy  atomic.Bool
}

func newHolder(t *testing.T, o hubtest.Options, bus string) *holder {
	t.Helper()
	u, err := url.Parse(bus)
	if err != nil {
		t.Fatal(err)
	}
	h := &holder{proxy: proxytest.New(t, u.Host)}
	o.BusURL = "nats://" + h.proxy.Addr()
	r := hubtest.New(t, o)
	times := handoverTiming{
		patience: 4 * time.Second, look: 100 * time.Millisecond, lease: time.Second, spread: 10 * time.Millisecond,
		busy: time.Minute, lead: time.Millisecond,
	}
	h.handover = newHandover(r.Hub.Bus, r.Store.Leases, slog.New(slog.NewTextHandler(t.Output(), nil)),
		prometheus.NewRegistry(), times)
	device := func(atOnce bool) bool {
		if h.busy.Load() && !atOnce {
			return false
		}
		h.left.Add(1)
		return true
	}
	h.departures = append(h.departures, func() []func(bool) bool { return []func(bool) bool{device, device} })
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- h.Run(ctx) }()
	t.Cleanup(func() { stop(); <-done })
	return h
}

func (h *holder) until(t *testing.T, what string, is func() bool) {
	t.Helper()
	deadline := time.After(90 * time.Second)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !is() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("it did not happen that %s", what)
		}
	}
}

// An instance that is cut off from the bus sends its devices away once, and refuses them while
// another one is on the bus. If none is, the devices stay.
func TestCutOffSendsDevicesAway(t *testing.T) {
	t.Parallel()
	bus, db := bustest.Cluster(t, 1), store.Options{Folder: t.TempDir()}
	here, there := newHolder(t, hubtest.Options{DB: db, Name: "here"}, bus), newHolder(t,
		hubtest.Options{DB: db, Name: "there"}, bus)
	status := func(h *holder, upgrade string) (int, string) {
		r := httptest.NewRequest("GET", "/cable", nil)
		r.Header.Set("Upgrade", upgrade)
		if upgrade == "" {
			r.Header.Del("Upgrade")
		}
		w := httptest.NewRecorder()
		h.refuse(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "served") })).
			ServeHTTP(w, r)
		return w.Code, w.Header().Get("Retry-After")
	}
	both := func() bool {
		one, err := here.leases.OthersHold(t.Context(), busHandover, here.messages.Instance, time.Now())
		other, err2 := here.leases.OthersHold(t.Context(), busHandover, there.messages.Instance, time.Now())
		return err == nil && err2 == nil && one && other && len(here.failing())+len(there.failing()) == 0
	}
	here.until(t, "both are on the bus", both)

	here.busy.Store(true)
	here.proxy.Mute() // silent, but the connection stays open
	here.until(t, "it refuses devices", here.refuses)
	if code, after := status(here, "websocket"); code != http.StatusServiceUnavailable || after == "" {
		t.Errorf("a device gets %d, with Retry-After %q", code, after)
	}
	if code, _ := status(here, ""); code != http.StatusOK {
		t.Errorf("a question gets %d", code)
	}
	if !slices.Equal(here.failing(), []string{"bus"}) || here.Draining() {
		t.Errorf("it is not ready because of %q", here.failing())
	}
	if here.left.Load() != 0 {
		t.Error("a device was sent away that was at work")
	}
	here.busy.Store(false)
	here.until(t, "its devices are sent away", func() bool { return here.left.Load() == 2 })

	here.proxy.Pass()
	here.until(t, "it takes devices again", func() bool { return !here.refuses() && both() })
	if code, _ := status(here, "websocket"); code != http.StatusOK || there.left.Load() != 0 {
		t.Errorf("a device gets %d, and the other instance has sent %d away", code, there.left.Load())
	}

	here.proxy.Cut() // the bus is gone for all instances
	there.proxy.Cut()
	here.until(t, "both have been cut off for long enough", func() bool {
		return here.messages.DisconnectedFor() > here.times.patience+time.Second &&
			there.messages.DisconnectedFor() > there.times.patience+time.Second
	})
	if here.refuses() || there.refuses() || here.left.Load() != 2 || there.left.Load() != 0 {
		t.Errorf("devices were sent to nowhere: %d and %d", here.left.Load(), there.left.Load())
	}
	there.proxy.Pass() // now another instance is on the bus
	here.until(t, "devices go to the one that is back", func() bool {
		return here.left.Load() == 4 && here.refuses() &&
			!there.refuses()
	})
}

// Draining sends devices away, refuses them and is reported until it is ended.
func TestDraining(t *testing.T) {
	h := newHolder(t, hubtest.Options{}, bustest.Cluster(t, 1))
	h.until(t, "it is ready", func() bool { return len(h.failing()) == 0 })
	h.Drain(true)
	h.Drain(true)
	h.until(t, "its devices are sent away", func() bool { return h.left.Load() == 2 })
	if !h.refuses() || !slices.Equal(h.failing(), []string{"draining"}) {
		t.Errorf("refuses %t, because of %q", h.refuses(), h.failing())
	}
	h.Drain(false)
	if h.refuses() || len(h.failing()) != 0 {
		t.Errorf("it is not ready because of %q", h.failing())
	}
}
