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
	"patchbay/internal/store"
	"patchbay/internal/talk"
)

// handover gives the devices of this instance to the others: boards, nodes, plugins and tool
// servers that connected to it are told to connect again, and are refused here, so that they
// find another instance. That is done for two reasons.
//
// This instance is to stop, or somebody wants it free (drain).
//
// Or it is cut off from the bus, so that the others cannot reach what is connected to it. It
// sends its devices away once for each cut, and only if it knows by the database that another
// instance is on the bus, or cannot ask the database either. If none is, as when NATS itself is
// down, every device stays where it is and can be called from there: nowhere is better. While
// it knows of a better one it refuses devices; whoever comes although there is none is kept.
//
// Questions are answered all the while.
type handover struct {
	messages *bus.Bus
	leases   store.Leases
	log      *slog.Logger
	sent     *prometheus.CounterVec
	times    handoverTimes
	// departures has a function for each device, see [handover.sendAway].
	departures []func() []func(atOnce bool) bool

	mu       sync.Mutex
	draining bool
	since    time.Time // when draining began
	cut      bool      // devices were sent away because of a cut that goes on
	better   bool      // while it is cut off, another instance is not
	leaving  sync.WaitGroup
	ctx      context.Context // ends when the server has stopped being ready
	stop     context.CancelFunc
}

// handoverTimes are the waits of a handover.
type handoverTimes struct {
	// patience is how long a cut may last before devices are sent away: plugins that come back
	// to NATS within a few seconds should not cost anybody a connection.
	patience time.Duration
	// look is how often it is looked whether there is a cut, and how often the others are told
	// by the database that there is none; lease is for how long they believe it, which is less
	// than patience, so that instances that were cut off together do not send devices to each
	// other.
	look, lease time.Duration
	// spread is over how long devices are sent away, so that they do not all come to the others
	// at once, and busy how long one that is answering may take to end.
	spread, busy time.Duration
	// lead is for how long an instance that is to stop still takes requests, until load
	// balancers have seen that it is not ready.
	lead time.Duration
}

var usualHandover = handoverTimes{
	patience: 10 * time.Second, look: 2 * time.Second, lease: 7 * time.Second, spread: 4 * time.Second, busy: 10 * time.Second, lead: 5 * time.Second,
}

// onBus begins the name of the lease by which an instance says that it is on the bus.
const onBus = "on-bus/"

// Why devices were sent away.
const (
	sentDraining = "draining"
	sentCut      = "bus"
)

func newHandover(messages *bus.Bus, leases store.Leases, log *slog.Logger, reg prometheus.Registerer, times handoverTimes) *handover {
	ctx, stop := context.WithCancel(context.Background())
	h := &handover{ctx: ctx, stop: stop, messages: messages, leases: leases, log: log, times: times, sent: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "patchbay_devices_sent_away_total", Help: "Devices, plugins and tool servers that were told to connect to another instance.",
	}, []string{"reason"})}
	reg.MustRegister(h.sent)
	for _, reason := range []string{sentDraining, sentCut} {
		h.sent.WithLabelValues(reason)
	}
	return h
}

// failing is why this instance should not be sent anything new; empty: it may.
func (h *handover) failing() (why []string) {
	if h.Draining() {
		why = append(why, "draining")
	}
	if !h.messages.IsConnected() || h.messages.Cut() > muteLimit {
		why = append(why, "bus")
	}
	return why
}

// muteLimit is how long a connection to the bus may be mute until it counts as none.
const muteLimit = 3 * time.Second

// Draining reports whether devices are to go because somebody wants that.
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

// Drain begins to send devices away, or takes them again.
func (h *handover) Drain(on bool) {
	h.mu.Lock()
	was := h.draining
	h.draining = on
	if on && !was {
		h.since = time.Now()
		h.leaving.Go(func() { h.sendAway(sentDraining) })
	}
	h.mu.Unlock()
	if was != on {
		h.log.Info("draining", "on", on)
	}
}

// Lead is what comes before a stop, if there are others to take over: this instance is drained,
// and goes on until they have. It returns how long that took.
func (h *handover) Lead(ctx context.Context) time.Duration {
	if h.messages.Alone() || len(h.messages.Peers()) == 0 {
		return 0
	}
	began := time.Now()
	h.Drain(true)
	h.mu.Lock()
	left := time.Until(h.since.Add(h.times.lead))
	h.mu.Unlock()
	timer := time.NewTimer(left)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
	return time.Since(began)
}

// Run watches the bus until ctx ends.
func (h *handover) Run(ctx context.Context) error {
	defer h.leaving.Wait()
	defer h.stop()
	if h.messages.Alone() {
		<-ctx.Done()
		return nil
	}
	defer h.release(context.WithoutCancel(ctx))
	tick := time.NewTicker(h.times.look)
	defer tick.Stop()
	for {
		h.look(ctx)
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// release takes back what was told to the others.
func (h *handover) release(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, h.times.look)
	defer cancel()
	h.leases.Release(ctx, onBus+h.messages.Instance, h.messages.Instance) //nolint:errcheck // it ends by itself in a moment
}

// look looks whether this instance is cut off, and does what follows.
func (h *handover) look(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, h.times.look)
	defer cancel()
	cut, me, now := h.messages.Cut(), h.messages.Instance, time.Now()
	if cut == 0 {
		h.mu.Lock()
		back := h.cut
		h.cut, h.better = false, false
		h.mu.Unlock()
		if back {
			h.log.Info("the bus is back; devices are taken again")
		}
		if _, err := h.leases.Take(ctx, onBus+me, me, now, now.Add(h.times.lease)); err != nil && ctx.Err() == nil {
			h.log.Warn("other instances were not told that this one is on the bus", "error", err)
		}
		return
	}
	if cut < h.times.patience {
		return
	}
	better, err := h.leases.OthersHold(ctx, onBus, me, now)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.better = err == nil && better
	if h.cut || !better && err == nil {
		return
	}
	h.cut = true
	h.log.Warn("this instance is cut off from the bus; its devices are sent to the others", "for", cut)
	h.leaving.Go(func() { h.sendAway(sentCut) })
}

// sendAway tells all devices to connect again, one after another. One that is at work is left
// alone for a while. It ends when the server stops.
func (h *handover) sendAway(reason string) {
	var all []func(bool) bool
	for _, of := range h.departures {
		all = append(all, of()...)
	}
	rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	began := time.Now()
	for i := range all {
		if !h.wait(time.Until(began.Add(h.times.spread * time.Duration(i) / time.Duration(len(all))))) {
			return
		}
		if all[i](false) {
			h.sent.WithLabelValues(reason).Inc()
			all[i] = nil
		}
	}
	for end := began.Add(h.times.spread + h.times.busy); h.wait(busyLook); {
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

// busyLook is how often it is looked whether a device that was at work has ended.
const busyLook = 100 * time.Millisecond

// wait is false if the server stops meanwhile: what is left ends with it, in order.
func (h *handover) wait(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-h.ctx.Done():
		return false
	}
}

var sayElsewhere = talk.Say{Zh: "这个实例暂时不接受设备，请稍后重新连接", En: "this instance takes no devices at the moment; connect again in some seconds"}

// refuse refuses devices that connect while they are to go elsewhere, and has everybody else
// come back by a new connection, which may lead elsewhere too.
func (h *handover) refuse(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if h.refuses() && r.Header.Get("Upgrade") != "" {
			w.Header().Set("Retry-After", drainRetry)
			tellWrong(w, r, http.StatusServiceUnavailable, sayElsewhere.Wrong())
			return
		}
		if h.Draining() {
			w.Header().Set("Connection", "close")
		}
		next.ServeHTTP(w, r)
	})
}
