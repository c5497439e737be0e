package xiaozhi

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/netip"
	"time"

	"patchbay/internal/plug/xiaozhi/remote"
	"patchbay/internal/plug/xiaozhi/wire"
	"patchbay/internal/store"
	"patchbay/internal/tool"
)

// line is a connection by which messages reach a board.
type line struct {
	board  *Board
	via    string // how it came: store.TransportSocket or TransportMQTT
	from   netip.AddrPort
	at     place // where the board found us; zero if that is not known
	since  time.Time
	send   func(message []byte) error
	drop   func(why error) // ends it; does not wait
	remote *remote.Client
	epoch  int64     // the number of the connection; 0: it is not the hub's. With board.mu held
	order  int64     // a later connection has a higher one
	told   time.Time // when the board was told where photos go; with board.mu held
	ctx    context.Context
	cancel context.CancelCauseFunc
}

// newLine makes the connection of a board; attach plugs it in. Of two connections the one
// that was made later counts, so it is made before the board gets an answer on it.
func (b *Board) newLine(via string, from netip.AddrPort, at place, send func([]byte) error, drop func(error)) *line {
	l := &line{board: b, via: via, from: from, at: at, since: time.Now(), send: send, drop: drop}
	l.ctx, l.cancel = context.WithCancelCause(b.house.ctx)
	b.mu.Lock()
	b.connections++
	l.order = b.connections
	known, version, build := b.can.Catalog, b.device.Version, b.build
	b.mu.Unlock()
	l.remote = remote.New(remote.Options{
		Send: l.call, Event: l.event, Firmware: version, Build: build, Known: known, Logger: b.house.Logger.With("device", b.number),
	})
	return l
}

// call sends a message of the board's tools.
func (l *line) call(payload []byte) error {
	m := wire.Message{Type: wire.TypeMCP, Payload: payload}
	if c := l.board.conversation(); c != nil && l.carries(c) {
		m.SessionID = c.id
	}
	return l.send(m.Append(nil))
}

// carries says whether a conversation uses this connection.
func (l *line) carries(c *Conversation) bool { return c.via == l.via }

// event is what the board says by itself.
func (l *line) event(method string, params json.RawMessage) {
	l.board.house.metrics.events.Inc()
	l.board.tells(method, params)
}

// The methods of notices that are not the board's own words.
const (
	NoticeAwake  = "patchbay/awake"  // connected; params have via
	NoticeAsleep = "patchbay/asleep" // not any more
	NoticeTalk   = "patchbay/talk"   // a conversation has begun; params have session
	NoticeQuiet  = "patchbay/quiet"  // and ended; params have session
	NoticePhoto  = "patchbay/photo"  // a photo came; params have bytes

	NoticeHeard   = "patchbay/heard"   // somebody begins to listen, record or take a photo; params are an [Ear]
	NoticeUnheard = "patchbay/unheard" // and has ended; params are the same
)

// tells hands a notice to those who listen.
func (b *Board) tells(method string, params any) {
	b.mu.Lock()
	socket := b.socket
	b.mu.Unlock()
	if socket == nil {
		return
	}
	text, ok := params.(json.RawMessage)
	if !ok {
		text, _ = json.Marshal(params) // texts and numbers
	}
	socket.Notify(method, text)
}

// attach makes a connection the board's. An older one ends without a word: the board
// has given it up. It is false, and the connection is to be ended, if the board was
// removed, the server stops, or a newer connection was attached already.
func (b *Board) attach(l *line) bool {
	h := b.house
	b.mu.Lock()
	if b.gone || h.stops() {
		b.mu.Unlock()
		l.end(errRevoked)
		return false
	}
	if l.order < b.newest {
		b.mu.Unlock()
		l.end(errNewer)
		return false
	}
	b.newest = l.order
	old, talk := b.line, b.talk
	b.line, b.via = l, l.via
	if old != nil {
		b.talk = nil
	}
	if b.socket != nil {
		l.epoch = b.socket.Hold(true)
	}
	h.metrics.boards.WithLabelValues(l.via).Inc()
	b.mu.Unlock()
	if old != nil {
		if talk != nil {
			talk.end(errNewer, false)
		}
		old.drop(errNewer)
	}
	b.tells(NoticeAwake, map[string]string{"via": l.via})
	h.Logger.Info("a board is awake", "device", b.number, "via", l.via, "address", l.from.Addr())
	return true
}

// end is the end of a connection for those who wait for the board.
func (l *line) end(why error) {
	l.cancel(why)
	l.remote.Close(why)
}

// greet finds out what a board can do, and gives it what waited for it.
func (b *Board) greet(l *line, mcp bool) {
	h := b.house
	ctx, cancel := h.background()
	if err := h.Store.Devices.Touch(ctx, b.number, l.from.Addr().String(), time.Now()); err != nil && ctx.Err() == nil && !errors.Is(err, store.ErrNotFound) {
		h.Logger.Warn("when a board was last seen was not written", "device", b.number, "error", err)
	}
	cancel()
	if mcp {
		b.start(l.ctx, l)
	}
	b.deliver()
}

// start asks a board for its tools, and tells it where photos go.
func (b *Board) start(ctx context.Context, l *line) {
	v := b.vision(l)
	before := l.remote.Catalog()
	changed, err := l.remote.Start(ctx, v)
	b.listed(ctx, l, &before, changed, err)
}

// listed takes over what a board said of its tools.
func (b *Board) listed(ctx context.Context, l *line, before *remote.Catalog, changed bool, err error) {
	switch {
	case l.ctx.Err() != nil || ctx.Err() != nil:
		return
	case err != nil:
		b.house.Logger.Warn("a board did not say which tools it has", "device", b.number, "error", err)
	}
	// What is known of the same tools is kept too: the next list is shorter for it.
	if now := l.remote.Catalog(); changed || !now.Same(before) {
		l.remote.Share(b.learned(now))
	}
}

// relistEvery is how often the tools of a board are listed out of turn at most, so that a
// board that lists what it does not know is not asked at every call.
const relistEvery = 10 * time.Second

// relist lists a board's tools again, since it does not know one that it has listed. It
// does not wait.
func (b *Board) relist(l *line) {
	b.mu.Lock()
	now := time.Now()
	soon := now.Sub(b.relisted) < relistEvery
	if !soon {
		b.relisted = now
	}
	b.mu.Unlock()
	if soon {
		return
	}
	b.house.spawn(func() {
		before := l.remote.Catalog()
		changed, err := l.remote.Refresh(l.ctx)
		b.listed(l.ctx, l, &before, changed, err)
	})
}

// learned keeps what a board can do for when it sleeps. It returns the board's tools as
// they are shared by all that have the same.
func (b *Board) learned(c remote.Catalog) []tool.Tool {
	text, err := json.Marshal(c)
	if err != nil {
		b.house.Logger.Warn("which tools a board has was not understood", "device", b.number, "error", err)
		return c.Tools
	}
	can, err := b.house.known.of(text)
	if err != nil {
		b.house.Logger.Warn("which tools a board has was not understood", "device", b.number, "error", err)
		return c.Tools
	}
	b.mu.Lock()
	b.can = can
	if b.socket != nil {
		b.socket.Offer(can.tools)
	}
	b.mu.Unlock()
	ctx, cancel := b.house.background()
	defer cancel()
	if err := b.house.Store.Devices.SetCatalog(ctx, b.number, text); err != nil && b.house.ctx.Err() == nil {
		b.house.Logger.Warn("which tools a board has was not written", "device", b.number, "error", err)
	}
	return can.Tools
}

// vision is where a board sends photos from now on.
func (b *Board) vision(l *line) remote.Vision {
	p := b.house.placeFor(l)
	if p.host == "" {
		return remote.Vision{}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	l.told = time.Now()
	return remote.Vision{URL: p.file(VisionPath), Token: b.house.Accounts.VisionToken(b.device, newSession(), photoToken)}
}

// detach is the end of a connection.
func (b *Board) detach(l *line, why error) {
	l.end(why)
	b.mu.Lock()
	var c *Conversation
	mine := b.line == l
	if mine {
		b.line = nil
		c, b.talk = b.talk, nil
		if b.socket != nil {
			b.socket.Hold(false)
		}
	}
	b.house.metrics.boards.WithLabelValues(l.via).Dec()
	b.mu.Unlock()
	if c != nil {
		c.end(why, false)
	}
	if mine {
		b.tells(NoticeAsleep, map[string]string{"via": l.via})
	}
	b.house.Logger.Info("a board's connection ended", "device", b.number, "via", l.via, "cause", why)
}

// begins makes a conversation the board's. It is false if the connection is not the
// board's any more, or the server stops.
func (b *Board) begins(l *line, c *Conversation) bool {
	b.mu.Lock()
	if b.line != l || b.house.stops() {
		b.mu.Unlock()
		return false
	}
	old := b.talk
	b.talk, c.begun = c, true
	woke := b.woke
	b.woke = nil
	b.house.metrics.conversations.Inc()
	b.mu.Unlock()
	if old != nil {
		old.end(errReplaced, false)
	}
	if woke != nil {
		close(woke)
	}
	b.tells(NoticeTalk, map[string]string{"session": c.id})
	b.house.Logger.Info("a conversation begins", "device", b.number, "session", c.id, "via", c.via)
	return true
}

// endOf is why a conversation ended, for the board's owner. The error of the network, if
// there is one, is in the log.
func endOf(why error) string {
	for _, known := range []error{errSaid, errSilence, errReplaced, errNewer, errElsewhere, errRevoked, errDrained, errBoardGone} {
		if errors.Is(why, known) {
			return known.Error()
		}
	}
	return why.Error()
}

// ended is the end of a conversation, said by itself.
func (b *Board) ended(c *Conversation, why error) {
	sums := c.counts()
	sums.Ended = endOf(why)
	b.mu.Lock()
	if b.talk == c {
		b.talk = nil
	}
	if !c.begun {
		b.mu.Unlock()
		return
	}
	b.last = &sums
	b.house.metrics.conversations.Dec()
	b.mu.Unlock()
	b.house.metrics.heard(&sums)
	b.tells(NoticeQuiet, map[string]string{"session": c.id})
	b.house.Logger.Info("a conversation ended", "device", b.number, "session", c.id, "cause", why,
		"lasted", time.Since(c.began).Round(time.Millisecond), "heard", sums.Up.Packets, "played", sums.Down.Packets)
}

// placeFor is where a board finds the HTTP server; zero if that is not known.
func (h *Boards) placeFor(l *line) place {
	if h.public != nil {
		return *h.public
	}
	return l.at
}

// localPlace is where a board that has found us at an address finds the HTTP server.
func (h *Boards) localPlace(at netip.AddrPort) place {
	if !at.IsValid() || h.Port == "" {
		return place{}
	}
	p, err := newPlace(h.Secure, net.JoinHostPort(at.Addr().Unmap().String(), h.Port), "")
	if err != nil {
		return place{} // IPv6, which boards do not know
	}
	return p
}
