package eyeclaw

import (
	"context"
	"sync"
	"time"

	"patchbay/internal/i18n"
)

// pluginBot is one bot over all its sockets. It is the talk.Bot that is registered.
type pluginBot struct {
	s    *Server
	info Bot

	ctx  context.Context // ends when the server shuts down or the bot is disconnected
	stop context.CancelFunc

	mu             sync.Mutex
	changed        chan struct{}        // closed and replaced when presence changes
	conns          []*conn              // in order of arrival
	turns          map[string]*turn     // with somebody waiting, by id
	inProgress     map[string]time.Time // start times of the turns that the plugin works on
	leftover       leftover
	unfinished     map[string]bool // turns that were left to the next server, by id
	disconnectedAt time.Time       // when the last subscribed socket closed; zero while there is one

	retired    bool
	registered bool
	moved      bool          // the plugin has connected to another instance, and not here again
	detached   chan struct{} // closed when the bot is detached for good

	totals      Totals
	lastSeen    time.Time // of closed sockets
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
		unfinished: make(map[string]bool),
		detached:   make(chan struct{}),
	}
	h.ctx, h.stop = context.WithCancel(s.ctx)
	return h
}

// maintainRegistration attaches the bot when its first socket has subscribed, and detaches it when
// no socket was subscribed for the grace time.
func (h *pluginBot) maintainRegistration() {
	defer close(h.detached)
	for h.await(h.isPresent) {
		concurrent, waiting := h.limits()
		detach := h.s.opt.Registry.Attach(h.info.Number, h, concurrent, waiting)
		h.setRegistered(true)
		h.s.log.Info("cable: bot plugged in", "bot", h.info.Number)
		h.await(h.isGraceOver)
		h.setRegistered(false)
		detach()
		h.s.log.Info("cable: bot unplugged", "bot", h.info.Number)
	}
}

// await waits until cond holds. It checks cond after each change of presence and after the time
// that cond returns (zero: never). It returns false if h.ctx ended first.
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

// isPresent is a condition for await: a socket is subscribed.
func (h *pluginBot) isPresent() (bool, time.Duration) { return len(h.subscribedConns()) > 0, 0 }

// isGraceOver is a condition for await: the grace time has passed.
func (h *pluginBot) isGraceOver() (bool, time.Duration) {
	if h.disconnectedAt.IsZero() {
		return false, 0
	}
	left := time.Until(h.disconnectedAt.Add(h.s.opt.Grace))
	return left <= 0, left
}

// notifyChange wakes all waiters for presence. The caller holds h.mu.
func (h *pluginBot) notifyChange() {
	close(h.changed)
	h.changed = make(chan struct{})
}

func (h *pluginBot) setRegistered(yes bool) {
	h.mu.Lock()
	h.registered = yes
	h.mu.Unlock()
}

// hasRoom reports whether the bot may have another socket.
func (h *pluginBot) hasRoom() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.conns) >= maxConns {
		h.recordErrorLocked(errTooMany.With())
		return false
	}
	return true
}

// addConn adds a socket. The socket gets no questions until it has subscribed.
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

// onSubscribed records that the socket can get questions.
func (h *pluginBot) onSubscribed(c *conn, ident rawJSON) {
	h.mu.Lock()
	c.ident = ident
	h.disconnectedAt, h.moved = time.Time{}, false
	h.notifyChange()
	h.mu.Unlock()
	h.s.opt.Registry.Renew(h.info.Number)
}

// Moved records that the plugin has connected to another instance. Turns without a socket here are
// sent there.
func (h *pluginBot) Moved(int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.moved = true
	h.notifyChange()
	for _, t := range h.turns {
		t.notify()
	}
}

// onUnsubscribed records that the client has unsubscribed.
func (h *pluginBot) onUnsubscribed(c *conn) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.connLost(c)
}

// removeConn removes a closed socket.
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

// connLost records that nothing more comes from the socket. Its turns continue on another socket if
// the plugin reconnects in time. The caller holds h.mu.
func (h *pluginBot) connLost(c *conn) {
	was := c.ident != nil
	c.ident = nil
	now := time.Now()
	for _, t := range h.turns {
		if t.conn == c {
			t.conn, t.connLost, t.disconnectedAt = nil, true, now
			if c.stopped && !t.isDone() {
				t.connector.restarted(t)
			}
			t.notify()
		}
	}
	// Chunks of turns that nobody waits for are missed in the meantime.
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

// subscribedConns returns the subscribed sockets in order of arrival. The caller holds h.mu.
func (h *pluginBot) subscribedConns() []*conn {
	var list []*conn
	for _, c := range h.conns {
		if c.ident != nil {
			list = append(list, c)
		}
	}
	return list
}

// pickConn returns the socket for the next command: the newest healthy one, otherwise the newest.
// Older sockets stay open as spares: a plugin reconnects after every close (measured with plugin
// 2.4.0), so two plugins with one token would displace each other forever. The caller holds h.mu.
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

// abortTurns ends all current and future turns, because the server stops.
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

// retire ends the bot because its token is no longer valid. It returns when the bot is detached.
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
