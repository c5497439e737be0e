package relay

import (
	"context"
	"net/netip"
	"slices"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"patchbay/internal/relay/wire"
)

const (
	// minSpares are the data connections that are kept ready for a home, and maxSpares those of a
	// busy one: they follow its number of streams.
	minSpares, maxSpares = 2, 16
	streamsPerSpare      = 8
	// maxSessions bounds the instances of a home that are connected at once.
	maxSessions = 16
	// maxWaiting bounds the clients of a home that wait for it.
	maxWaiting = 256
)

// home is a home at the relay, connected or not.
type home struct {
	server *Server
	rate   *rate.Limiter

	mu       sync.Mutex
	about    Home
	sessions []*session // the newest last
	next     int        // of sessions, in turn
	waiting  []chan *dataConn
	streams  map[*stream]bool
	networks map[netip.Addr]int // streams of each network of clients
	revoked  bool
}

func newHome(s *Server, info Home) *home {
	r := s.Limits.HomeRate
	return &home{server: s, about: info, streams: map[*stream]bool{}, networks: map[netip.Addr]int{},
		rate: rate.NewLimiter(rate.Limit(r), burst*r)}
}

func (h *home) info() Home {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.about
}

func (h *home) setInfo(info Home) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.about = info
}

func (h *home) isConnected() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.sessions) > 0
}

// add adds a control connection, in place of an earlier one of the same instance. It returns why it
// is refused, or "".
func (h *home) add(x *session) wire.Reason {
	h.mu.Lock()
	if h.revoked {
		h.mu.Unlock()
		return wire.ReasonRevoked
	}
	var replaced *session
	h.sessions = slices.DeleteFunc(h.sessions, func(old *session) bool {
		if old.instance == x.instance {
			replaced = old
		}
		return old.instance == x.instance
	})
	if len(h.sessions) >= maxSessions {
		h.mu.Unlock()
		return wire.ReasonFull
	}
	h.sessions = append(h.sessions, x)
	h.topUp()
	h.mu.Unlock()
	if replaced != nil {
		replaced.end()
	}
	return ""
}

// remove removes a control connection, with its spare data connections. Streams go on.
func (h *home) remove(x *session) {
	h.mu.Lock()
	h.sessions = slices.DeleteFunc(h.sessions, func(o *session) bool { return o == x })
	spares := x.spares
	x.spares, x.closed = nil, true
	h.topUp() // another instance may serve those who wait
	h.mu.Unlock()
	for _, d := range spares {
		h.server.untrack(d.conn)
	}
}

// topUp asks for the data connections that are missing. The caller holds mu.
func (h *home) topUp() {
	if len(h.sessions) == 0 {
		return
	}
	missing := min(minSpares+len(h.streams)/streamsPerSpare, maxSpares) + len(h.waiting)
	for _, x := range h.sessions {
		missing -= len(x.spares) + x.asked
	}
	if missing <= 0 {
		return
	}
	h.next++
	x := h.sessions[h.next%len(h.sessions)]
	x.asked += missing
	x.dial(missing)
}

// retry forgets which data connections were asked of an instance, some of which may have failed,
// and asks again.
func (h *home) retry(x *session) {
	h.mu.Lock()
	defer h.mu.Unlock()
	x.asked = 0
	h.topUp()
}

// arrive takes a data connection of a control connection. False: it is not needed.
func (h *home) arrive(x *session, d *dataConn) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if x.closed || h.revoked || !x.window.use(d.number) {
		return false
	}
	x.asked = max(0, x.asked-1)
	if len(h.waiting) > 0 {
		h.waiting[0] <- d // it has room for one
		h.waiting = h.waiting[1:]
		return true
	}
	if len(x.spares) >= maxSpares+maxWaiting {
		return false
	}
	x.spares = append(x.spares, d)
	return true
}

// take returns a data connection, and waits for one until ctx ends.
func (h *home) take(ctx context.Context) *dataConn {
	h.mu.Lock()
	if d := h.spare(); d != nil {
		h.topUp()
		h.mu.Unlock()
		return d
	}
	if h.revoked || len(h.waiting) >= maxWaiting {
		h.mu.Unlock()
		return nil
	}
	mine := make(chan *dataConn, 1)
	h.waiting = append(h.waiting, mine)
	h.topUp()
	h.mu.Unlock()
	select {
	case d := <-mine:
		return d
	case <-ctx.Done():
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.waiting = slices.DeleteFunc(h.waiting, func(c chan *dataConn) bool { return c == mine })
	select {
	case d := <-mine: // it came at the last moment
		return d
	default:
		return nil
	}
}

// spare takes a spare data connection that is still open, of one instance after the other, or nil.
// The caller holds mu.
func (h *home) spare() *dataConn {
	for range h.sessions {
		h.next++
		x := h.sessions[h.next%len(h.sessions)]
		for n := len(x.spares); n > 0; n = len(x.spares) {
			d := x.spares[n-1] // the newest: its path is the most certain
			x.spares = x.spares[:n-1]
			if isOpen(d.conn) {
				return d
			}
			h.server.goClose(d.conn)
		}
	}
	return nil
}

// begin adds a stream. It returns why it is refused, or "".
func (h *home) begin(s *stream, now time.Time) (refused string) {
	if !h.rate.Allow() {
		return refusedRate
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	from := s.network()
	switch {
	case h.revoked:
		return refusedUnknown
	case h.networks[from] >= h.server.Limits.StreamsOfAddress:
		return refusedAddress
	case len(h.streams) >= h.server.Limits.Streams:
		return refusedStreams
	case h.about.Quota > 0 && h.used(now) >= h.about.Quota:
		return refusedQuota
	}
	h.streams[s] = true
	h.networks[from]++
	return ""
}

func (h *home) finish(s *stream) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.streams, s)
	from := s.network()
	if h.networks[from]--; h.networks[from] == 0 {
		delete(h.networks, from)
	}
	h.count(s, time.Now())
}

// count adds what a stream has passed on since the last time to the usage, and returns that of the
// month. The caller holds mu.
func (h *home) count(s *stream, now time.Time) int64 {
	return h.server.usage.add(h.about.Name, s.uncounted.Swap(0), now)
}

// used returns the bytes of the month so far. The caller holds mu.
func (h *home) used(now time.Time) int64 {
	for s := range h.streams {
		h.count(s, now)
	}
	return h.server.usage.add(h.about.Name, 0, now)
}

// sweep ends idle streams, those that only the client keeps open, and all if the quota is used up.
func (h *home) sweep(now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for s := range h.streams {
		used := h.count(s, now)
		if s.isOver(now.Sub(s.began), &h.server.Limits) || h.about.Quota > 0 && used >= h.about.Quota {
			s.end()
		}
	}
	for _, x := range h.sessions {
		x.spares = slices.DeleteFunc(x.spares, func(d *dataConn) bool {
			open := isOpen(d.conn)
			if !open {
				h.server.goClose(d.conn)
			}
			return !open
		})
	}
	h.topUp()
}

// revoke ends everything of the home, for good.
func (h *home) revoke() {
	h.mu.Lock()
	h.revoked = true
	sessions := slices.Clone(h.sessions)
	for s := range h.streams {
		s.end()
	}
	h.mu.Unlock()
	for _, x := range sessions {
		x.refuse(wire.ReasonRevoked)
	}
}

// window remembers which numbers were used, so that a recorded preamble is worth nothing. Numbers
// come in about their order; one that is more than the window behind counts as used.
type window struct {
	top  uint64 // the highest number so far
	used [windowSize / 64]uint64
}

const windowSize = 1024

// use marks a number and reports whether it was unused.
func (w *window) use(n uint64) bool {
	switch {
	case n > w.top:
		for i := w.top + 1; i <= n && i <= w.top+windowSize; i++ {
			w.used[i%windowSize/64] &^= 1 << (i % 64)
		}
		w.top = n
	case w.top-n >= windowSize:
		return false
	}
	word, bit := &w.used[n%windowSize/64], uint64(1)<<(n%64)
	if *word&bit != 0 {
		return false
	}
	*word |= bit
	return true
}
