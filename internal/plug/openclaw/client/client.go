// Package client connects an operator or a node to an OpenClaw gateway: the signed handshake,
// requests and responses, events, and the ticks that show that the gateway is alive. A [Conn] is
// one connection, and a [Link] opens a new one whenever it is lost.
//
// A gateway that refuses a client gives a reason, and usually its owner has to act: that is a
// [ConnectionError], with a text for the owner.
//
// Package wire names the version of OpenClaw that comments cite.
package client

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"

	"patchbay/internal/plug/openclaw/wire"
)

const (
	// callTimeout limits the wait for a response if ctx has no deadline
	// (packages/gateway-client/src/timeouts.ts, DEFAULT_GATEWAY_REQUEST_TIMEOUT_MS).
	callTimeout = 30 * time.Second
	// writeTimeout limits one write; it ends a connection to a gateway that does not read.
	writeTimeout = 15 * time.Second
	// closeTimeout is how long a gateway may take to answer a Close frame.
	closeTimeout = time.Second
	// maxPending limits unanswered requests; a gateway accepts as many.
	maxPending = 256
)

// Options configure a connection.
type Options struct {
	// URL is the gateway's address, as returned by [ParseURL].
	URL string
	// Pin is the fingerprint of the only certificate that a wss:// gateway may have, as returned by
	// [ParsePin]; empty: one that the system's authorities accept.
	Pin string
	// Token is the gateway's shared secret; empty: only the device token is used.
	Token string
	// Identity is the connecting device. nil: none, which gateways allow operators on their own
	// machine.
	Identity *wire.Identity
	// Connect holds the client's connect parameters. Versions, device and credentials are filled
	// in.
	Connect wire.Connect
	// LoadToken and SaveToken load and store the device token that the gateway issued, which is
	// a secret. LoadToken returns "" if there is none. nil: nothing is stored.
	LoadToken func(context.Context) (string, error)
	SaveToken func(ctx context.Context, token string) error
	// Dial opens connections. nil: to any address.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// OnEvent handles the events, one at a time. It must not block, because responses arrive the
	// same way. It owns the frame.
	OnEvent func(*Conn, wire.Frame)
	// OnConnect is called by a [Link] with each new connection before the link returns it; its
	// context ends with the connection. An error closes the connection. nil: not called.
	OnConnect func(context.Context, *Conn) error
	// OnStateChange is called by a [Link] whenever its [State] has changed. It must not block or
	// call the link. nil: not called.
	OnStateChange func(State)
	Logger        *slog.Logger // nil discards

	roots *x509.CertPool // tests set them; nil: the system's
}

// ErrLost means that the connection ended before the response. The request may have been
// executed.
var ErrLost = errors.New("the connection to the gateway is lost")

// ErrTooLarge means that a request exceeds the gateway's limit. It was not sent.
var ErrTooLarge = errors.New("this is more than the gateway takes in one message")

var errBusy = errors.New("too many requests wait for the gateway")

// Hello is the gateway's response to connect.
type Hello struct {
	wire.Hello
	// MaxAttachment and MaxImage limit attachments of a message, in bytes before encoding; 0:
	// unknown.
	MaxAttachment, MaxImage int64
}

// Conn is a connection that a gateway has accepted. It is safe for concurrent use.
type Conn struct {
	opt         *Options
	ws          *websocket.Conn
	hello       Hello
	connectedAt time.Time

	ctx          context.Context // ends with the connection
	cancel       context.CancelCauseFunc
	stopped      chan struct{} // closed when all goroutines have ended
	work         sync.WaitGroup
	closed       atomic.Bool
	lastReceived atomic.Int64 // time in Unix nanoseconds

	mu         sync.Mutex
	closeCause error                      // why this side closed it
	lastID     uint64                     // of the last request
	pending    map[string]chan wire.Frame // by request id
}

// Hello returns the gateway's response to connect.
func (c *Conn) Hello() Hello { return c.hello }

// Done is closed when the connection has ended.
func (c *Conn) Done() <-chan struct{} { return c.ctx.Done() }

// Err returns why the connection has ended: a [*ConnectionError], or nil while it is open.
func (c *Conn) Err() error {
	if c.ctx.Err() == nil {
		return nil
	}
	return asConnectionError(context.Cause(c.ctx))
}

// Call sends a request and returns the payload of the response. params are sent as they are if
// they are a json.RawMessage, and encoded to JSON otherwise; nil: none. Without a deadline in
// ctx, it waits 30 seconds.
//
// The error is a [*wire.Error] if the gateway refuses, [ErrLost], [ErrTooLarge], or that of ctx,
// in which case the gateway may still execute the request.
func (c *Conn) Call(ctx context.Context, method string, params any) (json.RawMessage, error) {
	raw, err := encode(params)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", method, err)
	}
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, callTimeout)
		defer cancel()
	}
	id, answer, err := c.addPending()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", method, err)
	}
	defer c.removePending(id)
	frame := wire.AppendRequest(nil, id, method, raw)
	if int64(len(frame)) > min(c.hello.Policy.MaxPayload, wire.MaxFrame) {
		return nil, fmt.Errorf("%s: %w", method, ErrTooLarge)
	}
	if err := c.write(frame); err != nil {
		return nil, fmt.Errorf("%s: %w", method, ErrLost)
	}
	select {
	case f := <-answer:
		return f.Payload, result(f)
	case <-ctx.Done():
		return nil, fmt.Errorf("%s: %w", method, ctx.Err())
	case <-c.stopped:
	}
	select {
	case f := <-answer: // the response arrived before the disconnect
		return f.Payload, result(f)
	default:
		return nil, fmt.Errorf("%s: %w", method, ErrLost)
	}
}

// result returns the error of a response, as a nil interface if there is none.
func result(f wire.Frame) error {
	if f.Error == nil {
		return nil
	}
	return f.Error
}

func encode(params any) (json.RawMessage, error) {
	switch p := params.(type) {
	case nil:
		return nil, nil
	case json.RawMessage:
		return p, nil
	}
	return json.Marshal(params)
}

// addPending registers a pending request.
func (c *Conn) addPending() (string, chan wire.Frame, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ctx.Err() != nil {
		return "", nil, ErrLost
	}
	if len(c.pending) >= maxPending {
		return "", nil, errBusy
	}
	c.lastID++
	id, answer := strconv.FormatUint(c.lastID, 10), make(chan wire.Frame, 1)
	c.pending[id] = answer
	return id, answer, nil
}

func (c *Conn) removePending(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.pending, id)
}

// write sends a frame. It has its own timeout, because a partly written frame ends the
// connection.
func (c *Conn) write(frame []byte) error {
	ctx, cancel := context.WithTimeout(c.ctx, writeTimeout)
	defer cancel()
	err := c.ws.Write(ctx, websocket.MessageText, frame)
	if err != nil {
		c.setEndCause(err)
	}
	return err
}

// Close closes the connection and waits until all its goroutines have ended. [Options].OnEvent
// must not call it.
func (c *Conn) Close() {
	c.closeWith(websocket.StatusNormalClosure, "", errClosed)
	<-c.stopped
}

// closeWith closes the connection unless it is already closed.
func (c *Conn) closeWith(code websocket.StatusCode, reason string, why error) {
	if !c.closed.CompareAndSwap(false, true) {
		return
	}
	c.mu.Lock()
	c.closeCause = why
	c.mu.Unlock()
	late := time.AfterFunc(closeTimeout, func() { c.ws.CloseNow() })
	defer late.Stop()
	c.ws.Close(code, reason)
	c.setEndCause(why)
}

// setEndCause records why the connection ended. The reason of an explicit close takes precedence
// over a read error.
func (c *Conn) setEndCause(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, bye := errors.AsType[websocket.CloseError](err)
	switch {
	case c.closeCause != nil:
		err = c.closeCause
	case !bye:
		err = newConnectionError(Broken, msgBroken.With(), err)
	}
	c.cancel(err)
}

// start starts the goroutines of the connection.
func (c *Conn) start() {
	c.lastReceived.Store(time.Now().UnixNano())
	c.work.Go(c.read)
	c.work.Go(c.watchTicks)
	go func() { // ends once the other two have
		c.work.Wait()
		c.ws.CloseNow()
		close(c.stopped)
	}()
}

func (c *Conn) read() {
	for {
		kind, data, err := c.ws.Read(c.ctx)
		if err != nil {
			c.setEndCause(err)
			return
		}
		c.lastReceived.Store(time.Now().UnixNano())
		f, err := wire.Parse(data)
		switch {
		case err != nil || kind != websocket.MessageText:
			c.opt.log().Debug("openclaw: the gateway sent no frame", "error", err)
		case f.Type == wire.TypeResponse:
			c.mu.Lock()
			answer := c.pending[f.ID]
			delete(c.pending, f.ID) // a request may have two responses
			c.mu.Unlock()
			if answer != nil {
				answer <- f
			}
		case c.opt.OnEvent != nil:
			c.opt.OnEvent(c, f)
		}
	}
}

// watchTicks closes a connection that has become silent.
func (c *Conn) watchTicks() {
	interval := time.Duration(c.hello.Policy.TickIntervalMS) * time.Millisecond
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		select {
		case <-c.ctx.Done():
			return
		case <-ticker.C:
		}
		if time.Since(time.Unix(0, c.lastReceived.Load())) > 2*interval {
			c.closeWith(wire.CloseNoTick, "tick timeout", errSilent)
			return
		}
	}
}

func (o *Options) log() *slog.Logger {
	if o.Logger == nil {
		return slog.New(slog.DiscardHandler)
	}
	return o.Logger
}
