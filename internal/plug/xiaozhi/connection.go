package xiaozhi

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/netip"
	"time"

	"patchbay/internal/netx"
	"patchbay/internal/plug/xiaozhi/remote"
	"patchbay/internal/plug/xiaozhi/wire"
	"patchbay/internal/store"
	"patchbay/internal/tool"
)

// connection is a connection that carries messages to a board: a WebSocket, or MQTT.
type connection struct {
	board        *Board
	via          string // store.TransportSocket or store.TransportMQTT
	from         netip.AddrPort
	server       serverURL // the address by which the board reached us; zero if unknown
	since        time.Time
	send         func(message []byte) error
	drop         func(why error) // closes it; does not wait
	remote       *remote.Client
	epoch        int64     // its number, from the hub's lease; 0: not held. Guarded by board.mu
	order        int64     // a connection made later has a higher one
	visionSentAt time.Time // when the board last got its vision URL and token; guarded by board.mu
	ctx          context.Context
	cancel       context.CancelCauseFunc
}

// newConnection makes a connection of the board; attach makes it the current one. Of two
// connections the one that was made later wins, so it is made before the hello is answered.
func (b *Board) newConnection(via string, from netip.AddrPort, at serverURL, send func([]byte) error,
	drop func(error)) *connection {
	l := &connection{board: b, via: via, from: from, server: at, since: time.Now(), send: send, drop: drop}
	l.ctx, l.cancel = context.WithCancelCause(b.boards.ctx)
	b.mu.Lock()
	b.connections++
	l.order = b.connections
	known, version, build := b.toolset.Catalog, b.device.Version, b.build
	b.mu.Unlock()
	l.remote = remote.New(remote.Options{
		Send: l.sendMCP, OnNotification: l.onNotification, Firmware: version, Build: build, Known: known,
		Logger: b.boards.Logger.With("device", b.number),
	})
	return l
}

// sendMCP sends an MCP message to the board.
func (l *connection) sendMCP(payload []byte) error {
	m := wire.Message{Type: wire.TypeMCP, Payload: payload}
	if c := l.board.conversation(); c != nil && l.carries(c) {
		m.SessionID = c.id
	}
	return l.send(m.Append(nil))
}

// carries reports whether a conversation uses this connection.
func (l *connection) carries(c *Conversation) bool { return c.via == l.via }

// onNotification publishes an MCP notification of the board.
func (l *connection) onNotification(method string, params json.RawMessage) {
	l.board.boards.metrics.events.Inc()
	l.board.publishNotice(method, params)
	if method == "notifications/tools/list_changed" {
		l.board.relistTools(l)
	}
}

// Methods of notices that this package publishes itself; all others are the board's own.
const (
	NoticeAwake             = "patchbay/awake"                // the board connected; params have via
	NoticeAsleep            = "patchbay/asleep"               // the board disconnected; params have via
	NoticeConversationStart = "patchbay/conversation_started" // a conversation has begun; params have session
	NoticeConversationEnd   = "patchbay/conversation_ended"   // a conversation ended; params have session
	NoticePhoto             = "patchbay/photo"                // a photo arrived; params have bytes

	NoticeListenStart = "patchbay/listening_started" // a caller begins to listen; params: [Listener]
	NoticeListenEnd   = "patchbay/listening_ended"   // and has ended; params are the same
)

// publishNotice sends a notice to the hub's subscribers.
func (b *Board) publishNotice(method string, params any) {
	b.mu.Lock()
	registration := b.registration
	b.mu.Unlock()
	if registration == nil {
		return
	}
	text, ok := params.(json.RawMessage)
	if !ok {
		text, _ = json.Marshal(params) // strings and numbers
	}
	registration.Notify(method, text)
}

// attach makes a connection the board's current one. It ends an older connection without a
// goodbye, since the board has abandoned it. It returns false if the board was removed, the
// server stops or a newer connection was attached already; the caller then closes the connection.
func (b *Board) attach(l *connection) bool {
	h := b.boards
	b.mu.Lock()
	if b.removed || h.isStopping() {
		b.mu.Unlock()
		l.end(errRevoked)
		return false
	}
	if l.order < b.newest {
		b.mu.Unlock()
		l.end(errReconnected)
		return false
	}
	b.newest = l.order
	old, conv := b.conn, b.conv
	b.conn, b.via = l, l.via
	if old != nil {
		b.conv = nil
	}
	if b.registration != nil {
		l.epoch = b.registration.Hold(true)
	}
	h.metrics.boards.WithLabelValues(l.via).Inc()
	b.mu.Unlock()
	if old != nil {
		if conv != nil {
			conv.end(errReconnected, false)
		}
		old.drop(errReconnected)
	}
	b.publishNotice(NoticeAwake, map[string]string{"via": l.via})
	h.Logger.Info("a board is awake", "device", b.number, "via", l.via, "address", l.from.Addr())
	return true
}

// end cancels everything that waits on the connection.
func (l *connection) end(why error) {
	l.cancel(why)
	l.remote.Close(why)
}

// onConnect records that the board was seen, lists its tools if it supports MCP, and delivers the
// pushes that wait for it.
func (b *Board) onConnect(l *connection, mcp bool) {
	h := b.boards
	ctx, cancel := h.background()
	if err := h.Store.Devices.Touch(ctx, b.number, l.from.Addr().String(), time.Now()); err != nil &&
		ctx.Err() == nil && !errors.Is(err, store.ErrNotFound) {
		h.Logger.Warn("when a board was last seen was not written", "device", b.number, "error", err)
	}
	cancel()
	if mcp {
		b.initializeTools(l.ctx, l)
	}
	b.deliver()
}

// initializeTools lists the board's tools and sends it the vision URL and token.
func (b *Board) initializeTools(ctx context.Context, l *connection) {
	v := b.visionTarget(l)
	before := l.remote.Catalog()
	changed, err := l.remote.Start(ctx, v)
	b.applyToolList(ctx, l, &before, changed, err)
}

// applyToolList stores the result of listing the tools.
func (b *Board) applyToolList(ctx context.Context, l *connection, before *remote.Catalog, changed bool, err error) {
	switch {
	case l.ctx.Err() != nil || ctx.Err() != nil:
		return
	case err != nil:
		b.boards.Logger.Warn("a board did not say which tools it has", "device", b.number, "error", err)
	}
	// The catalog is stored even if the tools are the same: it speeds up the next listing.
	if now := l.remote.Catalog(); changed || !now.Same(before) {
		l.remote.ShareTools(b.updateToolset(now))
	}
}

// relistInterval is the minimum time between two extra listings of a board's tools, so that a
// board that lists a tool it does not know, or that announces changes all the time, is not asked at
// every call.
const relistInterval = 3 * time.Second

// relistTools lists a board's tools again, after it has announced a change or rejected a tool that
// it had listed: at once, or at the end of the interval. It does not wait.
func (b *Board) relistTools(l *connection) {
	b.mu.Lock()
	wait := relistInterval - time.Since(b.lastRelist)
	due := b.relistDue
	b.relistDue = true
	b.mu.Unlock()
	if due {
		return
	}
	b.boards.spawn(func() {
		err := netx.Wait(l.ctx, wait)
		b.mu.Lock()
		b.relistDue, b.lastRelist = false, time.Now()
		b.mu.Unlock()
		if err != nil {
			return
		}
		before := l.remote.Catalog()
		changed, err := l.remote.Refresh(l.ctx)
		b.applyToolList(l.ctx, l, &before, changed, err)
	})
}

// updateToolset stores the board's catalog for when it is asleep. It returns the tools as shared
// by all boards with the same catalog.
func (b *Board) updateToolset(c remote.Catalog) []tool.Tool {
	text, err := json.Marshal(c)
	if err != nil {
		b.boards.Logger.Warn("which tools a board has was not understood", "device", b.number, "error", err)
		return c.Tools
	}
	can, err := b.boards.toolsets.get(text)
	if err != nil {
		b.boards.Logger.Warn("which tools a board has was not understood", "device", b.number, "error", err)
		return c.Tools
	}
	b.mu.Lock()
	b.toolset = can
	if b.registration != nil {
		b.registration.SetTools(can.tools)
	}
	b.mu.Unlock()
	ctx, cancel := b.boards.background()
	defer cancel()
	if err := b.boards.Store.Devices.SetCatalog(ctx, b.number, text); err != nil && b.boards.ctx.Err() == nil {
		b.boards.Logger.Warn("which tools a board has was not written", "device", b.number, "error", err)
	}
	return can.Tools
}

// visionTarget returns the URL and a new token for the board's photos, or zero if no URL is known.
func (b *Board) visionTarget(l *connection) remote.Vision {
	p := b.boards.serverURLFor(l)
	if p.host == "" {
		return remote.Vision{}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	l.visionSentAt = time.Now()
	return remote.Vision{URL: p.file(VisionPath), Token: b.boards.Accounts.VisionToken(b.device, newSessionID(),
		photoTokenTTL)}
}

// detach ends a connection, and the board's conversation if the connection is the current one.
func (b *Board) detach(l *connection, why error) {
	l.end(why)
	b.mu.Lock()
	var c *Conversation
	mine := b.conn == l
	if mine {
		b.conn = nil
		c, b.conv = b.conv, nil
		if b.registration != nil {
			b.registration.Hold(false)
		}
	}
	b.boards.metrics.boards.WithLabelValues(l.via).Dec()
	b.mu.Unlock()
	if c != nil {
		c.end(why, false)
	}
	if mine {
		b.publishNotice(NoticeAsleep, map[string]string{"via": l.via})
	}
	b.boards.Logger.Info("a board's connection ended", "device", b.number, "via", l.via, "cause", why)
}

// attachConversation makes c the board's conversation and ends an older one. It returns false if l
// is no longer the board's connection, or the server stops.
func (b *Board) attachConversation(l *connection, c *Conversation) bool {
	b.mu.Lock()
	if b.conn != l || b.boards.isStopping() {
		b.mu.Unlock()
		return false
	}
	old := b.conv
	b.conv, c.attached = c, true
	started := b.convStarted
	b.convStarted = nil
	b.boards.metrics.conversations.Inc()
	b.mu.Unlock()
	if old != nil {
		old.end(errReplaced, false)
	}
	if started != nil {
		close(started)
	}
	b.publishNotice(NoticeConversationStart, map[string]string{"session": c.id})
	b.boards.Logger.Info("a conversation begins", "device", b.number, "session", c.id, "via", c.via)
	return true
}

// endReason returns why a conversation ended, for the board's owner. It drops a network error that
// is joined to the reason; that error is in the log.
func endReason(why error) string {
	for _, known := range []error{errGoodbye, errSilenceTimeout, errReplaced, errReconnected, errMovedAway, errRevoked,
		errServerStopping, errBoardDisconnected} {
		if errors.Is(why, known) {
			return known.Error()
		}
	}
	return why.Error()
}

// onConversationEnd records the end of a conversation. c.end calls it.
func (b *Board) onConversationEnd(c *Conversation, why error) {
	stats := c.stats()
	stats.Ended = endReason(why)
	b.mu.Lock()
	if b.conv == c {
		b.conv = nil
	}
	if !c.attached {
		b.mu.Unlock()
		return
	}
	b.lastStats = &stats
	b.boards.metrics.conversations.Dec()
	b.mu.Unlock()
	b.boards.metrics.recordReceived(&stats)
	b.publishNotice(NoticeConversationEnd, map[string]string{"session": c.id})
	b.boards.Logger.Info("a conversation ended", "device", b.number, "session", c.id, "cause", why,
		"lasted", time.Since(c.began).Round(time.Millisecond), "heard", stats.Up.Packets, "played", stats.Down.Packets)
}

// serverURLFor returns where a board finds the HTTP server; zero if unknown.
func (h *Boards) serverURLFor(l *connection) serverURL {
	if h.publicURL != nil {
		return *h.publicURL
	}
	return l.server
}

// localServerURL returns the HTTP server's URL at the address that a board connected to.
func (h *Boards) localServerURL(at netip.AddrPort) serverURL {
	if !at.IsValid() || h.Port == "" {
		return serverURL{}
	}
	p, err := newServerURL(h.Secure, net.JoinHostPort(at.Addr().Unmap().String(), h.Port), "")
	if err != nil {
		return serverURL{} // IPv6, which boards do not support
	}
	return p
}
