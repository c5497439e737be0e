package test

import (
	"context"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"patchbay/internal/plug/xiaozhi/sim"
	"patchbay/internal/store"
	"patchbay/internal/store/storetest"
)

// route redirects connections for one address to another, like a name whose address changed.
type route struct {
	mu       sync.Mutex
	from, to string
}

// lead redirects boards that connect to a server to another one.
func (r *route) lead(from, to *server) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.from == "" {
		r.from = strings.TrimPrefix(from.url, "http://")
	}
	r.to = strings.TrimPrefix(to.url, "http://")
}

func (r *route) dial(ctx context.Context, network, address string) (net.Conn, error) {
	r.mu.Lock()
	if address == r.from {
		address = r.to
	}
	r.mu.Unlock()
	var d net.Dialer
	return d.DialContext(ctx, network, address)
}

// eventLog records a board's events.
type eventLog struct {
	mu     sync.Mutex
	events []sim.Event
}

func (d *eventLog) watch(e sim.Event) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.events = append(d.events, e)
}

// times returns how often an event occurred.
func (d *eventLog) times(kind sim.EventKind, text string) (n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, e := range d.events {
		if e.Kind == kind && strings.Contains(e.Text, text) {
			n++
		}
	}
	return n
}

// Messages for a sleeping board are kept, even if the server dies, and delivered once when the
// board wakes, unless they have expired.
func TestBoardAsleep(t *testing.T) {
	t.Parallel()
	h := newBoardServer(t)
	limit := limited(t, 60*time.Second)
	told, way := eventLog{}, route{}
	b := h.online(limit, "Kitchen", "websocket", sim.Options{OnEvent: told.watch, Dial: way.dial})
	h.fails("asleep", "device", "call", "Kitchen", "self.audio_speaker.set_volume", "volume=3")
	must(t, h.wake(limit, b))
	must(t, hangUp(limit, b))
	h.until("it is asleep", func() bool { return strings.Contains(h.run(t, "device", "list"), "asleep") })
	h.fails("The board is asleep. On WebSocket", "device", "call", "Kitchen", "self.audio_speaker.set_volume",
		"volume=3")
	h.fails("set later", "device", "display", "Kitchen", "now or never")

	const kept = "this will be delivered when it wakes"
	h.says(kept, "device", "display", "Kitchen", "Call your mother", "--later")
	h.says(kept, "device", "alert", "Kitchen", "Oven", "The cake is done", "--emotion", "happy", "--later")
	h.says("waiting = 2", "device", "show", "Kitchen")
	h.again(&way)
	h.tooLate(t)
	h.says("waiting = 2", "device", "show", "Kitchen")

	must(t, b.Wake(limit))
	delivered := func() {
		t.Helper()
		h.until("nothing waits any more", func() bool {
			return !strings.Contains(h.run(t, "device", "show", "Kitchen"),
				"waiting = ")
		})
		for _, e := range []struct {
			kind sim.EventKind
			text string
			want int
		}{{sim.EventSentence, "Call your mother", 1}, {sim.EventAlert, "The cake is done", 1}, {sim.EventSentence,
			"too late", 0}, {sim.EventSentence, "now or never", 0}} {
			if n := told.times(e.kind, e.text); n != e.want {
				t.Errorf("%q was told %d times, want %d", e.text, n, e.want)
			}
		}
	}
	_, err := b.Await(limit, func(v sim.View) bool {
		return strings.Contains(v.Displayed, "The cake is done") && v.Emotion == "happy"
	})
	must(t, err)
	delivered()

	h.again(&way)
	_, err = b.Await(limit, settled)
	must(t, err)
	must(t, b.Wake(limit))
	// pending messages would have come before
	h.says("true", "device", "call", "Kitchen", "self.audio_speaker.set_volume", "volume=3")
	delivered()
	pleased(t, b, "C12")
}

// again kills and restarts the server; boards find its new address.
func (h *boardServer) again(way *route) {
	h.t.Helper()
	old := h.server
	old.kill()
	h.server = h.serve(h.t)
	way.lead(old, h.server)
}

// tooLate adds a message for a board whose delivery time has passed.
func (h *boardServer) tooLate(t *testing.T) {
	t.Helper()
	db := storetest.Open(t, h.db)
	now := time.Now()
	devices, err := db.Devices.Page(ctx, 0, 10)
	must(t, err)
	if len(devices) != 1 {
		t.Fatalf("there are %d devices", len(devices))
	}
	must(t, db.Outbox.Add(ctx, store.Push{
		ID: "late", Device: devices[0].Number, Kind: "show", Body: []byte(`{"text":"too late"}`),
		Person: devices[0].Owner, Created: now.Add(-25 * time.Hour), Expires: now.Add(-time.Hour),
	}))
}
