package eyeclaw

import (
	"context"
	"sync"
	"time"

	"patchbay/internal/i18n"
)

// pluginBot is one bot over all its sockets. It is the talk.Bot that is attached.
type pluginBot struct {
	s    *Server
	info Bot

	ctx  context.Context // ends when the server shuts down or the bot is unplugged
	stop context.CancelFunc

	mu             sync.Mutex
	changed        chan struct{}        // closed and replaced whenever presence changes
	conns          []*conn              // in order of arrival
	turns          map[string]*turn     // that somebody waits for, by id
	inProgress     map[string]time.Time // turns that the plugin works on, and since when
	leftover       leftover
	disconnectedAt time.Time // when the last subscribed socket went; zero while there is one, and before the first

	retired    bool
	registered bool
	moved      bool          // the plugin has connected to another instance, and not here again
	detached   chan struct{} // closed when the bot is detached for good

	totals      Totals
	lastSeen    time.Time // of sockets that are gone
	lastAnswer  time.Time
	lastError   i18n.Text
	lastErrorAt time.Time
}

func newPluginBot(s *Server, bot Bot) *pluginBot {
	h := &pluginBot{
		s:          s,
		info:       bot,
		changed:    make(chan struct{}),
		turns:      make(map[string]*turn),
		inProgress: make(map[string]time.Time),
		detached:   make(chan struct{}),
	}
	h.ctx, h.stop = context.WithCancel(s.ctx)
	return h
}

// maintainRegistration attaches the bot when its first socket has subscribed, and detaches it
// when none has been there for the grace time.
func (h *pluginBot) maintainRegistration() {
	defer close(h.detached)
	for h.await(h.isPresent) {
		detach := h.s.opt.Registry.Attach(h.info.Number, h, maxConcurrent, maxWaiting)
		h.setRegistered(true)
		h.s.log.Info("cable: bot plugged in", "bot", h.info.Number)
		h.await(h.isGraceOver)
		h.setRegistered(false)
		detach()
		h.s.log.Info("cable: bot unplugged", "bot", h.info.Number)
	}
}

// await waits until cond holds. Besides changes of presence it looks when the
// time that cond gives has passed (zero: none). It reports false if the hub
// ended first.
func (h *pluginBot) await(cond func() (ok bool, again time.Duration)) bool {
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

// isPresent is a condition of await.
func (h *pluginBot) isPresent() (bool, time.Duration) { return len(h.subscribedConns()) > 0, 0 }

// isGraceOver is a condition of await: the grace time has passed.
func (h *pluginBot) isGraceOver() (bool, time.Duration) {
	if h.disconnectedAt.IsZero() {
		return false, 0
	}
	left := time.Until(h.disconnectedAt.Add(h.s.opt.Grace))
	return left <= 0, left
}

// notifyChange wakes whoever waits for presence. The caller holds h.mu.
func (h *pluginBot) notifyChange() {
	close(h.changed)
	h.changed = make(chan struct{})
}

func (h *pluginBot) setRegistered(yes bool) {
	h.mu.Lock()
	h.registered = yes
	h.mu.Unlock()
}

// hasRoom reports whether one more socket may come.
func (h *pluginBot) hasRoom() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.conns) >= maxConns {
		h.recordErrorLocked(errTooMany.With())
		return false
	}
	return true
}

// addConn adds a socket. It is of no use yet: it has to subscribe first.
func (h *pluginBot) addConn(c *conn) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.retired || len(h.conns) >= maxConns {
		return false
	}
	h.conns = append(h.conns, c)
	h.totals.Connections++
	return true
}

// onSubscribed makes the socket one by which the bot can be asked.
func (h *pluginBot) onSubscribed(c *conn, ident rawJSON) {
	h.mu.Lock()
	c.ident = ident
	h.disconnectedAt, h.moved = time.Time{}, false
	h.notifyChange()
	h.mu.Unlock()
	h.s.opt.Registry.Renew(h.info.Number)
}

// Moved says that the plugin has connected to another instance. Turns for which there is no
// socket here are asked there.
func (h *pluginBot) Moved(int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.moved = true
	h.notifyChange()
	for _, t := range h.turns {
		t.notify()
	}
}

// onUnsubscribed takes that back: the client unsubscribed.
func (h *pluginBot) onUnsubscribed(c *conn) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.connLost(c)
}

// removeConn removes a socket that has ended.
func (h *pluginBot) removeConn(c *conn) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i, other := range h.conns {
		if other == c {
			h.conns = append(h.conns[:i:i], h.conns[i+1:]...)
			break
		}
	}
	if seen := time.Unix(0, c.lastSeen.Load()); seen.After(h.lastSeen) {
		h.lastSeen = seen
	}
	h.connLost(c)
}

// connLost notes that nothing more comes from the socket. The turns that ran on it
// go on elsewhere if the plugin comes back in time. The caller holds h.mu.
func (h *pluginBot) connLost(c *conn) {
	was := c.ident != nil
	c.ident = nil
	now := time.Now()
	for _, t := range h.turns {
		if t.conn == c {
			t.conn, t.connLost, t.disconnectedAt = nil, true, now
			t.notify()
		}
	}
	// What the plugin says meanwhile of turns that nobody waits for goes by unseen.
	for id := range h.inProgress {
		if h.turns[id] == nil {
			h.leftover.uncertain = true
		}
	}
	if !was {
		return
	}
	if len(h.subscribedConns()) == 0 {
		h.disconnectedAt = now
	}
	h.notifyChange()
}

// subscribedConns are the sockets that have subscribed, in order of arrival. The caller
// holds h.mu.
func (h *pluginBot) subscribedConns() []*conn {
	var list []*conn
	for _, c := range h.conns {
		if c.ident != nil {
			list = append(list, c)
		}
	}
	return list
}

// pickConn picks the socket for the next command: the newest one that is healthy,
// or else the newest. Older ones stay open as spares: a plugin that is thrown
// out comes back at once, and two of them would throw each other out for ever.
func (h *pluginBot) pickConn() *conn {
	list := h.subscribedConns()
	for i := len(list) - 1; i >= 0; i-- {
		if list[i].isHealthy() && !list[i].draining {
			return list[i]
		}
	}
	for i := len(list) - 1; i >= 0; i-- {
		if !list[i].isDone() && !list[i].draining {
			return list[i]
		}
	}
	return nil
}

// abortTurns ends all turns, and those to come: the server stops.
func (h *pluginBot) abortTurns() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.retired = true
	h.stop()
	for _, t := range h.turns {
		t.fail(t.interruptedError("the server shut down in mid-answer"))
	}
	h.notifyChange()
}

// retire is abandon for a bot whose token is no longer valid. It returns when
// the bot is detached.
func (h *pluginBot) retire() {
	h.abortTurns()
	h.mu.Lock()
	conns := append([]*conn(nil), h.conns...)
	h.mu.Unlock()
	for _, c := range conns {
		c.requestClose(closeUnauthorized)
	}
	<-h.detached
}
