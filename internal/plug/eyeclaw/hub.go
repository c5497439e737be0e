package eyeclaw

import (
	"context"
	"sync"
	"time"

	"patchbay/internal/talk"
)

// hub is one bot over all its sockets. It is the talk.Bot that is attached.
type hub struct {
	s   *Server
	bot Bot

	ctx  context.Context // ends when the server shuts down or the bot is unplugged
	stop context.CancelFunc

	mu      sync.Mutex
	changed chan struct{}        // closed and replaced whenever presence changes
	conns   []*conn              // in order of arrival
	turns   map[string]*turn     // that somebody waits for, by id
	asked   map[string]time.Time // turns that the plugin works on, and since when
	spill   spill
	gone    time.Time // when the last subscribed socket went; zero while there is one, and before the first

	retired bool
	plugged bool
	moved   bool          // the plugin has connected to another instance, and not here again
	kept    chan struct{} // closed when the bot is detached for good

	totals  Totals
	seen    time.Time // of sockets that are gone
	answer  time.Time
	fault   talk.Say
	faultAt time.Time
}

func newHub(s *Server, bot Bot) *hub {
	h := &hub{
		s:       s,
		bot:     bot,
		changed: make(chan struct{}),
		turns:   make(map[string]*turn),
		asked:   make(map[string]time.Time),
		kept:    make(chan struct{}),
	}
	h.ctx, h.stop = context.WithCancel(s.ctx)
	return h
}

// keep attaches the bot when its first socket has subscribed, and detaches it
// when none has been there for the grace time.
func (h *hub) keep() {
	defer close(h.kept)
	for h.await(h.present) {
		detach := h.s.opt.Plug.Attach(h.bot.Number, h, concurrent, waiting)
		h.setPlugged(true)
		h.s.log.Info("cable: bot plugged in", "bot", h.bot.Number)
		h.await(h.over)
		h.setPlugged(false)
		detach()
		h.s.log.Info("cable: bot unplugged", "bot", h.bot.Number)
	}
}

// await waits until cond holds. Besides changes of presence it looks when the
// time that cond gives has passed (zero: none). It reports false if the hub
// ended first.
func (h *hub) await(cond func() (ok bool, again time.Duration)) bool {
	for {
		h.mu.Lock()
		ok, again := cond()
		changed := h.changed
		h.mu.Unlock()
		if ok {
			return h.ctx.Err() == nil
		}
		var timer <-chan time.Time
		if again > 0 {
			timer = time.After(again)
		}
		select {
		case <-changed:
		case <-timer:
		case <-h.ctx.Done():
			return false
		}
	}
}

// present is a condition of await.
func (h *hub) present() (bool, time.Duration) { return len(h.lines()) > 0, 0 }

// over is a condition of await: the grace time has passed.
func (h *hub) over() (bool, time.Duration) {
	if h.gone.IsZero() {
		return false, 0
	}
	left := time.Until(h.gone.Add(h.s.opt.Grace))
	return left <= 0, left
}

// change wakes whoever waits for presence. The caller holds h.mu.
func (h *hub) change() {
	close(h.changed)
	h.changed = make(chan struct{})
}

func (h *hub) setPlugged(yes bool) {
	h.mu.Lock()
	h.plugged = yes
	h.mu.Unlock()
}

// room says whether one more socket may come.
func (h *hub) room() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.conns) >= maxConns {
		h.blameLocked(errTooMany)
		return false
	}
	return true
}

// join adds a socket. It is of no use yet: it has to subscribe first.
func (h *hub) join(c *conn) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.retired || len(h.conns) >= maxConns {
		return false
	}
	h.conns = append(h.conns, c)
	h.totals.Connections++
	return true
}

// ready makes the socket one by which the bot can be asked.
func (h *hub) ready(c *conn, ident rawJSON) {
	h.mu.Lock()
	c.ident = ident
	h.gone, h.moved = time.Time{}, false
	h.change()
	h.mu.Unlock()
	h.s.opt.Plug.Renew(h.bot.Number)
}

// Moved says that the plugin has connected to another instance. Turns for which there is no
// socket here are asked there.
func (h *hub) Moved(int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.moved = true
	h.change()
	for _, t := range h.turns {
		t.poke()
	}
}

// unready takes that back: the client unsubscribed.
func (h *hub) unready(c *conn) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.lost(c)
}

// leave removes a socket that has ended.
func (h *hub) leave(c *conn) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i, other := range h.conns {
		if other == c {
			h.conns = append(h.conns[:i:i], h.conns[i+1:]...)
			break
		}
	}
	if seen := time.Unix(0, c.seen.Load()); seen.After(h.seen) {
		h.seen = seen
	}
	h.lost(c)
}

// lost notes that nothing more comes from the socket. The turns that ran on it
// go on elsewhere if the plugin comes back in time. The caller holds h.mu.
func (h *hub) lost(c *conn) {
	was := c.ident != nil
	c.ident = nil
	now := time.Now()
	for _, t := range h.turns {
		if t.conn == c {
			t.conn, t.dropped, t.lostAt = nil, true, now
			t.poke()
		}
	}
	// What the plugin says meanwhile of turns that nobody waits for goes by unseen.
	for id := range h.asked {
		if h.turns[id] == nil {
			h.spill.unsure = true
		}
	}
	if !was {
		return
	}
	if len(h.lines()) == 0 {
		h.gone = now
	}
	h.change()
}

// lines are the sockets that have subscribed, in order of arrival. The caller
// holds h.mu.
func (h *hub) lines() []*conn {
	var list []*conn
	for _, c := range h.conns {
		if c.ident != nil {
			list = append(list, c)
		}
	}
	return list
}

// line picks the socket for the next command: the newest one that is healthy,
// or else the newest. Older ones stay open as spares: a plugin that is thrown
// out comes back at once, and two of them would throw each other out for ever.
func (h *hub) line() *conn {
	list := h.lines()
	for i := len(list) - 1; i >= 0; i-- {
		if list[i].healthy() && !list[i].going {
			return list[i]
		}
	}
	for i := len(list) - 1; i >= 0; i-- {
		if !list[i].ended() && !list[i].going {
			return list[i]
		}
	}
	return nil
}

// abandon ends all turns, and those to come: the server stops.
func (h *hub) abandon() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.retired = true
	h.stop()
	for _, t := range h.turns {
		t.fail(t.breakOff("the server shut down in mid-answer"))
	}
	h.change()
}

// retire is abandon for a bot whose token is no longer valid. It returns when
// the bot is detached.
func (h *hub) retire() {
	h.abandon()
	h.mu.Lock()
	conns := append([]*conn(nil), h.conns...)
	h.mu.Unlock()
	for _, c := range conns {
		c.leave(byeUnauthorized)
	}
	<-h.kept
}
