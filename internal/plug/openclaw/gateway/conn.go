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

	"patchbay/internal/board"
	"patchbay/internal/plug/openclaw/wire"
	"patchbay/internal/store"
	"patchbay/internal/tool"
)

const (
	// readBuffer is what a connection keeps for reading, in bytes. Larger frames are
	// read past it.
	readBuffer = 2 << 10
	// controlBuffer has room for a control frame, which is all that the WebSocket
	// library writes.
	controlBuffer = 256
	// maxRunning bounds what runs for one operator at a time. One more is refused, and
	// may try again.
	maxRunning = 1024
)

// conn is one WebSocket. What is below "known" is set by the handshake and not
// changed afterwards, unless it says so.
type conn struct {
	g       *Gateway
	id      string
	ws      *websocket.Conn
	link    *link
	out     outbox
	address netip.Addr
	local   bool   // on this machine, and through no proxy
	ends    string // why it is closed by us; with out.mu held

	// Known:
	role     string // empty: not yet
	client   wire.Client
	person   store.Person
	admin    bool     // sees everybody's
	scopes   []string // granted
	asked    []string // wanted
	device   string   // id; empty: none
	secret   int64    // of the peer, if it came with its own token; 0: with a key
	keyHash  string   // of the key; empty: it came with its own token
	keyEnds  bool     // the key expires some day
	keyRules string   // of the key, as it came
	access   board.Access
	nodeView string // the rules by which it calls nodes' commands
	scoped   bool   // hears only conversations that it subscribed to
	node     *node  // of a node
	since    time.Time
	ticked   atomic.Int64 // Unix milliseconds of the last tick
	pinged   time.Time    // of the beat alone

	unauthorized int // in a row; of the reading goroutine alone
	running      atomic.Int32

	mu       sync.Mutex
	sessions map[string]bool // conversations that it subscribed to
	forget   func()          // ends notices; nil: not subscribed
}

// link is the connection below the WebSocket.
type link struct {
	net.Conn
	heard atomic.Int64 // Unix nanoseconds of the last bytes that came
	mu    sync.Mutex   // one writer at a time: frames must not mix
}

// Read implements net.Conn.
func (l *link) Read(p []byte) (int, error) {
	n, err := l.Conn.Read(p)
	if n > 0 {
		l.heard.Store(time.Now().UnixNano())
	}
	return n, err
}

// Write implements net.Conn, for control frames.
func (l *link) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	_ = l.SetWriteDeadline(time.Now().Add(farewell))
	return l.Conn.Write(p)
}

// write writes one frame.
func (l *link) write(limit time.Duration, data []byte) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	_ = l.SetWriteDeadline(time.Now().Add(limit)) // it fails if the connection is closed, which writing says
	_, err := l.Conn.Write(data)
	return err
}

// writeAll writes several frames, which are taken out.
func (l *link) writeAll(limit time.Duration, frames *net.Buffers) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	_ = l.SetWriteDeadline(time.Now().Add(limit)) // it fails if the connection is closed, which writing says
	_, err := frames.WriteTo(l.Conn)
	return err
}

// hijacker hands the WebSocket library a connection that we can write to as well,
// with small buffers.
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
	h.link.heard.Store(time.Now().UnixNano())
	// The library puts the connection below the reader, behind what is in it already.
	early, _ := rw.Reader.Peek(rw.Reader.Buffered())
	r := bufio.NewReaderSize(bytes.NewReader(slices.Clone(early)), max(readBuffer, len(early)))
	if _, err := r.Peek(len(early)); err != nil {
		return nil, nil, errors.Join(err, raw.Close())
	}
	return h.link, bufio.NewReadWriter(r, bufio.NewWriterSize(h.link, controlBuffer)), nil
}

// socketAddress is the address of a request's socket.
func socketAddress(r *http.Request) netip.Addr {
	at, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{}
	}
	return at.Addr().Unmap()
}

// forwarded says that a request came through a proxy.
func forwarded(r *http.Request) bool {
	return slices.ContainsFunc([]string{"X-Forwarded-For", "X-Forwarded-Host", "X-Real-Ip", "Forwarded"}, func(h string) bool { return r.Header.Get(h) != "" })
}

// ServeHTTP makes a WebSocket of any request that wants one.
func (g *Gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !strings.EqualFold(r.Header.Get("Upgrade"), "websocket") {
		http.Error(w, "OpenClaw's programs connect here with a WebSocket", http.StatusUpgradeRequired)
		return
	}
	address := g.Address(r)
	if forwarded(r) && address == socketAddress(r) && address.IsLoopback() {
		// Whoever that is, it is not a program on this machine.
		g.metrics.refused.WithLabelValues("proxy").Inc()
		http.Error(w, "this comes through a proxy that is not trusted (proxies)", http.StatusForbidden)
		return
	}
	if status := g.enter(address); status != 0 {
		g.metrics.refused.WithLabelValues("full").Inc()
		w.Header().Set("Retry-After", "2")
		http.Error(w, "too many connections, or the server stops; try again later", status)
		return
	}
	tap := &hijacker{ResponseWriter: w}
	ws, err := websocket.Accept(tap, r, &websocket.AcceptOptions{InsecureSkipVerify: true, CompressionMode: websocket.CompressionDisabled})
	if err != nil {
		g.known(address)
		g.metrics.refused.WithLabelValues("upgrade").Inc()
		g.Logger.DebugContext(r.Context(), "a WebSocket handshake failed", "error", err)
		return
	}
	ws.SetReadLimit(wire.MaxHandshake)
	c := &conn{
		g: g, id: uuid.NewString(), ws: ws, link: tap.link, address: address, since: time.Now(),
		local: address.IsLoopback() && socketAddress(r).IsLoopback() && !forwarded(r),
	}
	// Off the handler, so that what the HTTP server keeps for a request is freed.
	if !g.spawn(c.run) {
		g.known(address)
		_ = ws.CloseNow() // nobody has used it
	}
}

// enter counts a connection that has not said who it is; a status says that there are
// too many.
func (g *Gateway) enter(from netip.Addr) (status int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.closing || g.halfOpen >= maxHalfOpen || len(g.conns)+g.halfOpen >= g.Conns:
		return http.StatusServiceUnavailable
	case g.halfOf[from] >= maxHalfOpenOf:
		return http.StatusTooManyRequests
	}
	g.halfOpen++
	g.halfOf[from]++
	return 0
}

// known says that a connection that had entered has said who it is, or is gone.
func (g *Gateway) known(from netip.Addr) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.halfOpen--
	if g.halfOf[from]--; g.halfOf[from] == 0 {
		delete(g.halfOf, from)
	}
}

// run is the beginning of a connection. The rest has a goroutine of its own: this one
// needed a large stack to look into the database.
func (c *conn) run() {
	first := c.handshake()
	if first == nil {
		c.finish()
		return
	}
	c.g.work.Go(func() {
		defer c.finish()
		defer c.leave()
		c.release(first)
		c.read()
	})
	if c.node != nil {
		c.node.arrive()
	}
}

// finish frees what a connection needed.
func (c *conn) finish() {
	c.shut()
	c.drop()
	_ = c.ws.CloseNow() // so that its memory is freed
}

// drop ends the connection without a word, and without the one that TLS would say,
// which can wait.
func (c *conn) drop() {
	raw := c.link.Conn
	if t, ok := raw.(interface{ NetConn() net.Conn }); ok {
		raw = t.NetConn()
	}
	_ = raw.Close() // it is closed already, or gone
}

// buffers are for frames that come.
var buffers = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// next reads a frame into a buffer, which the caller gives back.
func (c *conn) next() (*bytes.Buffer, websocket.MessageType, error) {
	// The context never ends: one that can would cost memory for each frame, and drop
	// ends the reading.
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

// read handles what the client says, until the connection ends.
func (c *conn) read() {
	for {
		buf, kind, err := c.next()
		if err != nil {
			c.ended(err)
			return
		}
		if kind == websocket.MessageText {
			c.take(buf.Bytes())
		}
		if buf.Cap() <= framePooled {
			buffers.Put(buf)
		}
	}
}

// ended counts how the connection ended.
func (c *conn) ended(err error) {
	c.out.mu.Lock()
	why := c.ends
	slow := c.out.ended && why == ""
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

// take handles one frame. The data are the caller's again afterwards.
func (c *conn) take(data []byte) {
	req, err := wire.ParseRequest(data)
	var bad *wire.BadRequest
	switch {
	case errors.As(err, &bad):
		f := newFrame()
		f.b = bad.AppendAnswer(f.b)
		c.post(f)
	case err != nil: // no JSON
	case c.role == wire.RoleNode:
		c.serveNode(&req)
	default:
		c.serveOperator(&req)
	}
}

// answer sends what came of a request: a payload, in JSON, or nil for none.
func (c *conn) answer(id string, payload []byte) {
	f := newFrame()
	f.b = wire.AppendResult(f.b, id, payload)
	c.send(f, c.running.Load() > 1)
}

// fail sends why a request failed.
func (c *conn) fail(id string, e *wire.Error) {
	f := newFrame()
	f.b = wire.AppendFailure(f.b, id, e)
	c.send(f, c.running.Load() > 1)
}

// stranger counts calls that are not for the client's role, and cuts off one that
// does not stop.
func (c *conn) stranger(e *wire.Error) {
	if e == nil || e.Code != wire.InvalidRequest {
		c.unauthorized = 0
		return
	}
	if c.unauthorized++; c.unauthorized > wire.MaxUnauthorized {
		c.bye(wire.RepeatedlyUnauthorized)
	}
}

// sees says whether the client may see what belongs to a person.
func (c *conn) sees(owner string) bool { return owner == c.person.ID || c.admin }

// may says whether an operator has a scope.
func (c *conn) may(scope string) bool { return wire.HasScope(c.scopes, scope) }

// caller is the client as a caller of somebody's tools.
func (c *conn) caller(owner string) board.Access {
	a := c.access
	if owner != "" {
		a.Person = owner
	}
	return a
}

// leave takes the connection out.
func (c *conn) leave() {
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
	forget := c.forget
	c.forget = nil
	c.mu.Unlock()
	if forget != nil {
		forget()
	}
	if c.node != nil {
		c.node.retire()
	}
	if c.device == "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(g.ctx), databaseLimit)
	defer cancel()
	if err := g.Store.Peers.Disconnected(ctx, c.device, time.Now()); err != nil && !errors.Is(err, store.ErrNotFound) {
		g.Logger.Warn("that a peer has gone was not noted", "peer", c.device, "error", err)
	}
}

// tellOnly is a caller without rules of its own, for lists.
func (c *conn) view(owner string) (*board.View, error) {
	a := c.caller(owner)
	return c.g.Hub.View(a.Person, a.Rules)
}

// program is what the client calls itself, for the audit.
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

// callerOf is the client as a caller of tools.
func callerOf(person store.Person, key string, only int64, client wire.Client, rules, bound string) board.Access {
	return board.Access{
		Caller: tool.Caller{Person: person.ID, Key: key, Only: only, Bound: bound, Door: door, Program: program(client), Lang: person.Lang},
		Rules:  rules,
	}
}

// door names this way in.
const door = "openclaw"
