package gateway

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"
	"github.com/google/uuid"

	"patchbay/internal/hub"
	"patchbay/internal/plug/openclaw/wire"
	"patchbay/internal/store"
	"patchbay/internal/tool"
)

const (
	// readBuffer is the read buffer of a connection, in bytes. Larger frames bypass it.
	readBuffer = 2 << 10
	// controlBuffer has room for a control frame; the WebSocket library writes nothing else.
	controlBuffer = 256
	// maxRunning limits the concurrent requests of one operator. Further ones are refused as
	// retryable.
	maxRunning = 1024
)

// conn is one WebSocket. The fields below "Known" are set by the handshake and constant
// afterwards, unless noted.
type conn struct {
	g           *Gateway
	id          string
	ws          *websocket.Conn
	link        *link
	out         outbox
	address     netip.Addr
	local       bool   // from this machine, without a proxy
	closeReason string // why this side closed it; guarded by out.mu

	// Known:
	role            string // empty: not authenticated
	client          wire.Client
	person          store.Person
	isAdmin         bool     // sees everything
	scopes          []string // granted
	requestedScopes []string // requested by the client
	device          string   // id; empty: none
	secret          int64    // version of the peer's secrets; 0: authenticated with a key
	tokenVersion    int64    // of the device token; 0: authenticated with a key, or the first one
	tokenChanges    int64    // of the peer when it authenticated
	origin          string   // address of this gateway as the client knows it; empty: unknown
	keyID           string   // of the key; empty: authenticated with a device token
	keyExpires      bool     // the key expires some day
	keyRules        string   // rules of the key, as stored
	access          hub.Access
	nodeRules       string // rules for calls of node commands
	sessionScoped   bool   // receives only conversations it subscribed to
	toolEvents      bool   // shows the tools that bots use
	node            *node  // nil unless a node
	connectedAt     time.Time
	lastTick        atomic.Int64 // Unix milliseconds of the last tick
	lastPing        time.Time    // used by heartbeat only

	unauthorized int // consecutive unauthorized calls; used by the reading goroutine only
	running      atomic.Int32

	mu                sync.Mutex
	sessions          map[string]bool // subscribed conversations
	hearsSessions     bool            // subscribed to the list of conversations
	stopNotifications func()          // ends notices; nil: not subscribed
}

// link is the connection below the WebSocket.
type link struct {
	net.Conn
	lastRead atomic.Int64 // Unix nanoseconds of the last received bytes
	mu       sync.Mutex   // serializes writers, so that frames do not interleave
}

// Read implements net.Conn.
func (l *link) Read(p []byte) (int, error) {
	n, err := l.Conn.Read(p)
	if n > 0 {
		l.lastRead.Store(time.Now().UnixNano())
	}
	return n, err
}

// Write implements net.Conn, for control frames.
func (l *link) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	_ = l.SetWriteDeadline(time.Now().Add(closeTimeout))
	return l.Conn.Write(p)
}

// write writes one frame.
func (l *link) write(limit time.Duration, data []byte) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	_ = l.SetWriteDeadline(time.Now().Add(limit)) // fails only on a closed connection, which the write reports
	_, err := l.Conn.Write(data)
	return err
}

// writeAll writes several frames and empties the list.
func (l *link) writeAll(limit time.Duration, frames *net.Buffers) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	_ = l.SetWriteDeadline(time.Now().Add(limit)) // fails only on a closed connection, which the write reports
	_, err := frames.WriteTo(l.Conn)
	return err
}

// hijacker gives the WebSocket library a connection with small buffers that this package can
// write to as well.
type hijacker struct {
	http.ResponseWriter
	link *link
}

// Unwrap is for http.ResponseController.
func (h *hijacker) Unwrap() http.ResponseWriter { return h.ResponseWriter }

// Hijack implements http.Hijacker.
func (h *hijacker) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	raw, rw, err := http.NewResponseController(h.ResponseWriter).Hijack()
	if err != nil {
		return nil, nil, err
	}
	h.link = &link{Conn: raw}
	h.link.lastRead.Store(time.Now().UnixNano())
	// The library reads from the connection, after the bytes that the reader has already
	// buffered.
	early, _ := rw.Reader.Peek(rw.Reader.Buffered())
	r := bufio.NewReaderSize(bytes.NewReader(slices.Clone(early)), max(readBuffer, len(early)))
	if _, err := r.Peek(len(early)); err != nil {
		return nil, nil, errors.Join(err, raw.Close())
	}
	return h.link, bufio.NewReadWriter(r, bufio.NewWriterSize(h.link, controlBuffer)), nil
}

// socketAddress returns the address of a request's socket.
func socketAddress(r *http.Request) netip.Addr {
	at, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{}
	}
	return at.Addr().Unmap()
}

// isForwarded reports whether a request came through a proxy.
func isForwarded(r *http.Request) bool {
	return slices.ContainsFunc([]string{"X-Forwarded-For", "X-Forwarded-Host", "X-Real-Ip", "Forwarded"},
		func(h string) bool { return r.Header.Get(h) != "" })
}

// ServeHTTP upgrades a request to a WebSocket.
func (g *Gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !strings.EqualFold(r.Header.Get("Upgrade"), "websocket") {
		http.Error(w, "OpenClaw's programs connect here with a WebSocket", http.StatusUpgradeRequired)
		return
	}
	address := g.Address(r)
	if isForwarded(r) && address == socketAddress(r) && address.IsLoopback() {
		// A proxied request does not come from a program on this machine.
		g.metrics.refused.WithLabelValues("proxy").Inc()
		http.Error(w, "this comes through a proxy that is not trusted (proxies)", http.StatusForbidden)
		return
	}
	if status := g.addHalfOpen(address); status != 0 {
		g.metrics.refused.WithLabelValues("full").Inc()
		w.Header().Set("Retry-After", "2")
		http.Error(w, "too many connections, or the server stops; try again later", status)
		return
	}
	tap := &hijacker{ResponseWriter: w}
	var c *conn
	ws, err := websocket.Accept(tap, r, &websocket.AcceptOptions{InsecureSkipVerify: true,
		CompressionMode: websocket.CompressionDisabled,
		OnPongReceived:  func(_ context.Context, payload []byte) { c.pong(payload) }})
	if err != nil {
		g.removeHalfOpen(address)
		g.metrics.refused.WithLabelValues("upgrade").Inc()
		g.Logger.DebugContext(r.Context(), "a WebSocket handshake failed", "error", err)
		return
	}
	ws.SetReadLimit(wire.MaxHandshake)
	c = &conn{
		g: g, id: uuid.NewString(), ws: ws, link: tap.link, address: address, connectedAt: time.Now(),
		local: address.IsLoopback() && socketAddress(r).IsLoopback() && !isForwarded(r),
	}
	if g.Origin != nil {
		c.origin = g.Origin(r)
	}
	// Leaving the handler frees what the HTTP server keeps for the request.
	if !g.spawn(c.run) {
		g.removeHalfOpen(address)
		_ = ws.CloseNow() // unused so far
	}
}

// addHalfOpen counts an unauthenticated connection. It returns an HTTP status if there are too
// many.
func (g *Gateway) addHalfOpen(from netip.Addr) (status int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.closing || g.halfOpen >= maxHalfOpen || len(g.conns)+g.halfOpen >= g.MaxConns:
		return http.StatusServiceUnavailable
	case g.halfOpenByAddr[from] >= maxHalfOpenPerAddr:
		return http.StatusTooManyRequests
	}
	g.halfOpen++
	g.halfOpenByAddr[from]++
	return 0
}

// removeHalfOpen is called when a half-open connection has authenticated or ended.
func (g *Gateway) removeHalfOpen(from netip.Addr) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.halfOpen--
	if g.halfOpenByAddr[from]--; g.halfOpenByAddr[from] == 0 {
		delete(g.halfOpenByAddr, from)
	}
}

// run does the handshake. The connection then continues in another goroutine, because the
// database access here needed a large stack.
func (c *conn) run() {
	first := c.handshake()
	if first == nil {
		c.finish()
		return
	}
	c.g.work.Go(func() {
		defer c.finish()
		defer c.unregister()
		c.releaseOutput(first)
		c.read()
	})
	if c.node != nil {
		c.node.attach()
	}
}

// finish releases the resources of a connection.
func (c *conn) finish() {
	c.discardQueue()
	c.closeNow()
	_ = c.ws.CloseNow() // frees its memory
}

// closeNow closes the connection without a Close frame, and without TLS close_notify, which
// could block.
func (c *conn) closeNow() {
	raw := c.link.Conn
	if t, ok := raw.(interface{ NetConn() net.Conn }); ok {
		raw = t.NetConn()
	}
	_ = raw.Close() // closed already
}

// buffers holds buffers for received frames.
var buffers = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// next reads a frame into a buffer, which the caller returns to the pool.
func (c *conn) next() (*bytes.Buffer, websocket.MessageType, error) {
	// The context never ends: a cancellable one would cost memory per frame, and closing the
	// connection ends the read.
	kind, r, err := c.ws.Reader(context.Background())
	if err != nil {
		return nil, 0, err
	}
	buf := buffers.Get().(*bytes.Buffer)
	buf.Reset()
	if _, err := buf.ReadFrom(r); err != nil {
		buffers.Put(buf)
		return nil, 0, err
	}
	return buf, kind, nil
}

// read handles the client's frames until the connection ends.
func (c *conn) read() {
	for {
		buf, kind, err := c.next()
		if err != nil {
			c.recordEnd(err)
			return
		}
		if kind == websocket.MessageText {
			c.handleFrame(buf.Bytes())
		}
		if buf.Cap() <= framePooled {
			buffers.Put(buf)
		}
	}
}

// recordEnd counts the reason why the connection ended.
func (c *conn) recordEnd(err error) {
	c.out.mu.Lock()
	why := c.closeReason
	slow := c.out.closed && why == ""
	c.out.mu.Unlock()
	switch {
	case slow:
		why = "slow consumer"
	case why != "":
	case errors.Is(err, websocket.ErrMessageTooBig):
		why = "too large"
	case errors.Is(err, io.EOF), websocket.CloseStatus(err) != -1:
		why = "client"
	default:
		why = "lost"
	}
	c.g.metrics.closed.WithLabelValues(why).Inc()
	c.g.Logger.Debug("openclaw: disconnected", "conn", c.id, "why", why, "error", err)
}

// handleFrame handles one frame. The caller may reuse data afterwards.
func (c *conn) handleFrame(data []byte) {
	req, err := wire.ParseRequest(data)
	var bad *wire.BadRequest
	switch {
	case errors.As(err, &bad):
		f := newFrame()
		f.b = bad.AppendAnswer(f.b)
		c.post(f)
	case err != nil: // invalid JSON
	case c.role == wire.RoleNode:
		c.serveNode(&req)
	default:
		c.serveOperator(&req)
	}
}

// answer sends a success response with a JSON payload, or nil for none.
func (c *conn) answer(id string, payload []byte) {
	f := newFrame()
	f.b = wire.AppendResult(f.b, id, payload)
	c.send(f, c.running.Load() > 1)
}

// fail sends an error response.
func (c *conn) fail(id string, e *wire.Error) {
	f := newFrame()
	f.b = wire.AppendFailure(f.b, id, e)
	c.send(f, c.running.Load() > 1)
}

// countUnauthorized counts consecutive calls that the client's role forbids, and disconnects the
// client at the limit.
func (c *conn) countUnauthorized(e *wire.Error) {
	if e == nil || e.Code != wire.InvalidRequest {
		c.unauthorized = 0
		return
	}
	if c.unauthorized++; c.unauthorized > wire.MaxUnauthorized {
		c.closeWith(wire.RepeatedlyUnauthorized)
	}
}

// canSee reports whether the client may see what belongs to a person.
func (c *conn) canSee(owner string) bool { return owner == c.person.ID || c.isAdmin }

// opens reports whether the client's key opens a bot of its person.
func (c *conn) opens(b store.Bot) bool { return c.access.OnlyBot == 0 || c.access.OnlyBot == b.Number }

// hasScope reports whether an operator has a scope.
func (c *conn) hasScope(scope string) bool { return wire.HasScope(c.scopes, scope) }

// caller returns the client's identity for calls of owner's tools.
func (c *conn) caller(owner string) hub.Access {
	a := c.access
	if owner != "" {
		a.Person = owner
	}
	return a
}

// unregister removes the connection from the gateway.
func (c *conn) unregister() {
	g := c.g
	g.mu.Lock()
	delete(g.conns, c)
	if c.node != nil && g.nodes[c.device] == c.node {
		delete(g.nodes, c.device)
	}
	g.presence++
	g.mu.Unlock()
	if c.role == wire.RoleNode {
		g.metrics.nodes.Dec()
	} else {
		g.metrics.operators.Dec()
	}
	c.mu.Lock()
	stop := c.stopNotifications
	c.stopNotifications = nil
	c.mu.Unlock()
	if stop != nil {
		stop()
	}
	if c.node != nil {
		c.node.detach()
	}
	if c.device == "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(g.ctx), databaseTimeout)
	defer cancel()
	if err := g.Store.Peers.Disconnected(ctx, c.device, time.Now()); err != nil && !errors.Is(err, store.ErrNotFound) {
		g.Logger.Warn("that a peer has gone was not noted", "peer", c.device, "error", err)
	}
}

// view returns the owner's view without the client's rules, for lists.
func (c *conn) view(owner string) (*hub.View, error) {
	a := c.caller(owner)
	return c.g.Hub.View(a.Person, a.Rules)
}

// program returns the client's name for the audit trail.
func program(client wire.Client) string {
	name := client.ID
	if client.DisplayName != "" {
		name += " " + client.DisplayName
	}
	if client.Version != "" {
		name += " " + client.Version
	}
	return name
}

// callerOf returns a client's identity for calls of tools.
func callerOf(person store.Person, key string, only int64, client wire.Client, rules, bound string) hub.Access {
	return hub.Access{
		Caller: tool.Caller{Person: person.ID, Key: key, OnlyBot: only, KeyRules: bound, Channel: channel,
			Program: program(client), Lang: person.Lang},
		Rules: rules,
	}
}

// channel is the name of this channel.
const channel = "openclaw"
