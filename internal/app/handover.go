package app

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"patchbay/internal/bus"
	"patchbay/internal/i18n"
	"patchbay/internal/netx"
	"patchbay/internal/store"
)

// handover moves the devices of this instance to other instances: it tells connected boards, nodes,
// plugins and tool servers to reconnect, and refuses them here, so that they reach another
// instance. It has two causes.
//
// Either this instance is to stop, or an administrator drains it.
//
// Or it is cut off from the bus, so that other instances cannot reach its devices. It then sends
// its devices away once per disconnection, and only if the database shows that another instance is
// on the bus, or the database cannot be reached either. If no instance is on the bus, for example
// because NATS itself is down, every device stays and can be called from here. The instance refuses
// devices only while it knows that another one is on the bus.
//
// Questions are answered at all times.
type handover struct {
	messages *bus.Bus
	leases   store.Leases
	log      *slog.Logger
	sent     *prometheus.CounterVec
	times    handoverTiming
	// departures returns the devices of each kind, see [handover.moveClients].
	departures []func() []func(atOnce bool) bool

	mu       sync.Mutex
	draining bool
	since    time.Time // start of draining
	cut      bool      // devices were sent away because of the current disconnection
	better   bool      // while this instance is cut off, another one is on the bus
	leaving  sync.WaitGroup
	ctx      context.Context // ends when the server stops
	stop     context.CancelFunc
}

// handoverTiming has the durations of a handover.
type handoverTiming struct {
	// patience is how long a disconnection may last before devices are sent away, because clients
	// that reconnect to NATS within a few seconds should not cost anybody a connection.
	patience time.Duration
	// look is the interval of checking the connection and renewing the lease. lease is how long the
	// lease lasts. It is shorter than patience, so that instances that were cut off together do not
	// send devices to each other.
	look, lease time.Duration
	// spread is the time over which devices are sent away, so that they do not all reconnect at
	// once. busy is how long a device with an active turn may take to end it.
	spread, busy time.Duration
	// lead is how long an instance that is to stop still accepts requests, until load balancers
	// have seen that it is not ready.
	lead time.Duration
}

var defaultHandover = handoverTiming{
	patience: 10 * time.Second, look: 2 * time.Second, lease: 7 * time.Second, spread: 4 * time.Second,
	busy: 10 * time.Second, lead: 5 * time.Second,
}

// busHandover is the prefix of the lease that an instance on the bus holds.
const busHandover = "on-bus/"

// Reasons for sending devices away.
const (
	sentDraining = "draining"
	sentCut      = "bus"
)

func newHandover(messages *bus.Bus, leases store.Leases, log *slog.Logger, reg prometheus.Registerer,
	times handoverTiming) *handover {
	ctx, stop := context.WithCancel(context.Background())
	h := &handover{ctx: ctx, stop: stop, messages: messages, leases: leases, log: log, times: times,
		sent: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "patchbay_devices_sent_away_total",
			Help: "Devices, plugins and tool servers that were told to connect to another instance.",
		}, []string{"reason"})}
	reg.MustRegister(h.sent)
	for _, reason := range []string{sentDraining, sentCut} {
		h.sent.WithLabelValues(reason)
	}
	return h
}

// failingBus is the reason of [handover.failing] that this instance is cut off from the bus.
const failingBus = "bus"

// failing returns why this instance should get no new traffic; empty means that it may.
func (h *handover) failing() (why []string) {
	if h.Draining() {
		why = append(why, "draining")
	}
	if !h.messages.IsConnected() || h.messages.DisconnectedFor() > muteLimit {
		why = append(why, failingBus)
	}
	return why
}

// muteLimit is how long a bus connection may be silent before it counts as lost.
const muteLimit = 3 * time.Second

// Draining reports whether the instance is being drained on request.
func (h *handover) Draining() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.draining
}

// refuses reports whether devices are refused.
func (h *handover) refuses() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.draining || h.cut && h.better
}

// Drain starts sending devices away, or accepts them again.
func (h *handover) Drain(on bool) {
	h.mu.Lock()
	was := h.draining
	h.draining = on
	if on && !was {
		h.since = time.Now()
		h.leaving.Go(func() { h.moveClients(sentDraining) })
	}
	h.mu.Unlock()
	if was != on {
		h.log.Info("draining", "on", on)
	}
}

// Lead drains this instance before a stop and goes on serving until the others have taken over.
// Without other instances it returns at once. It returns how long it took.
func (h *handover) Lead(ctx context.Context) time.Duration {
	if isAlone(h.messages) {
		return 0
	}
	began := time.Now()
	h.Drain(true)
	h.mu.Lock()
	left := time.Until(h.since.Add(h.times.lead))
	h.mu.Unlock()
	_ = netx.Wait(ctx, left)
	return time.Since(began)
}

// isAlone reports whether there are no other instances.
func isAlone(messages *bus.Bus) bool { return messages.IsStandalone() || len(messages.Peers()) == 0 }

// Run monitors the bus until ctx ends.
func (h *handover) Run(ctx context.Context) error {
	defer h.leaving.Wait()
	defer h.stop()
	if h.messages.IsStandalone() {
		<-ctx.Done()
		return nil
	}
	defer h.release(context.WithoutCancel(ctx))
	tick := time.NewTicker(h.times.look)
	defer tick.Stop()
	for {
		h.pollBus(ctx)
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// release releases the lease.
func (h *handover) release(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, h.times.look)
	defer cancel()
	h.leases.Release(ctx, busHandover+h.messages.Instance, h.messages.Instance) //nolint:errcheck // it soon expires
}

// pollBus checks whether this instance is cut off, renews the lease, and starts a handover if
// necessary.
func (h *handover) pollBus(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, h.times.look)
	defer cancel()
	cut, me, now := h.messages.DisconnectedFor(), h.messages.Instance, time.Now()
	if cut == 0 {
		h.mu.Lock()
		back := h.cut
		h.cut, h.better = false, false
		h.mu.Unlock()
		if back {
			h.log.Info("the bus is back; devices are taken again")
		}
		if _, err := h.leases.Take(ctx, busHandover+me, me, now, now.Add(h.times.lease)); err != nil &&
			ctx.Err() == nil {
			h.log.Warn("other instances were not told that this one is on the bus", "error", err)
		}
		return
	}
	if cut < h.times.patience {
		return
	}
	better, err := h.leases.OthersHold(ctx, busHandover, me, now)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.better = err == nil && better
	if h.cut || !better && err == nil {
		return
	}
	h.cut = true
	h.log.Warn("this instance is cut off from the bus; its devices are sent to the others", "for", cut)
	h.leaving.Go(func() { h.moveClients(sentCut) })
}

// moveClients tells all devices to reconnect, one after another. A device with an active turn gets
// more time. moveClients ends when the server stops.
func (h *handover) moveClients(reason string) {
	var all []func(bool) bool
	for _, of := range h.departures {
		all = append(all, of()...)
	}
	rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	began := time.Now()
	for i := range all {
		if netx.Wait(h.ctx, time.Until(began.Add(h.times.spread*time.Duration(i)/time.Duration(len(all))))) != nil {
			return
		}
		if all[i](false) {
			h.sent.WithLabelValues(reason).Inc()
			all[i] = nil
		}
	}
	for end := began.Add(h.times.spread + h.times.busy); netx.Wait(h.ctx, busyPoll) == nil; {
		atOnce, left := time.Now().After(end), false
		for i, leave := range all {
			switch {
			case leave == nil:
			case leave(atOnce):
				h.sent.WithLabelValues(reason).Inc()
				all[i] = nil
			default:
				left = true
			}
		}
		if !left {
			return
		}
	}
}

// busyPoll is the interval of checking devices whose turn was active.
const busyPoll = 100 * time.Millisecond

const msgElsewhere = i18n.Message("this instance takes no devices at the moment; connect again in some seconds")

// refuse rejects devices that connect while they have to go elsewhere. While draining it closes the
// connections of other clients, whose next one may reach another instance.
func (h *handover) refuse(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if h.refuses() && r.Header.Get("Upgrade") != "" {
			w.Header().Set("Retry-After", drainRetry)
			writeInvalid(w, r, http.StatusServiceUnavailable, msgElsewhere.Errorf())
			return
		}
		if h.Draining() {
			w.Header().Set("Connection", "close")
		}
		next.ServeHTTP(w, r)
	})
}
