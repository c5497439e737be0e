// Package client is the connection of an operator or a node to a gateway of
// OpenClaw: the handshake with its signature, requests and their answers, events,
// and the ticks without which a gateway is gone. A [Conn] is one connection, and a
// [Link] makes a new one whenever it is lost.
//
// A gateway that lets nobody in says why, and mostly its owner has to do something
// about it: that is a [Trouble], in words for the owner.
package client

import (
	"context"
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
	// callLimit is how long an answer is waited for if the caller does not say.
	callLimit = 30 * time.Second
	// writeLimit ends a connection to a gateway that does not read.
	writeLimit = 15 * time.Second
	// farewell is how long a gateway may take to answer a close frame.
	farewell = time.Second
	// maxWaiting bounds requests without an answer. A gateway has room for as many.
	maxWaiting = 256
)

// Options say who connects to what.
type Options struct {
	// URL is that of the gateway, as [ParseURL] returns it.
	URL string
	// Token is the gateway's shared secret; empty: there is only the device's own.
	Token string
	// Identity is the device that connects. Nil: none, which gateways allow operators
	// on their own machine.
	Identity *wire.Identity
	// Connect is what the client says about itself. Versions, device and credentials
	// are filled in.
	Connect wire.Connect
	// Load and Save keep the token that the gateway gave the device, which is a
	// secret. Load returns "" if there is none. Nil: nothing is kept.
	Load func(context.Context) (string, error)
	Save func(ctx context.Context, token string) error
	// Dial opens connections. Nil: to any address.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Event takes the events, one after the other. It must not wait for anything, as
	// answers come the same way. The frame is its own.
	Event func(*Conn, wire.Frame)
	// Up is called by a [Link] with each new connection before others get it; its
	// context ends with the connection. An error ends it. Nil: nothing is done.
	Up func(context.Context, *Conn) error
	// Changed is called by a [Link] whenever its [State] is another one. It must not
	// wait, and not call the link. Nil: nobody is told.
	Changed func(State)
	Logger  *slog.Logger // nil: nobody wants to know
}

// ErrLost says that the connection has ended before there was an answer. The
// request may have been carried out.
var ErrLost = errors.New("the connection to the gateway is lost")

// ErrTooLarge says that a request is longer than the gateway takes. It was not sent.
var ErrTooLarge = errors.New("this is more than the gateway takes in one message")

var errBusy = errors.New("too many requests wait for the gateway")

// Hello is how a gateway greets.
type Hello struct {
	wire.Hello
	// MaxAttachment and MaxImage bound what comes with a message, in bytes before
	// they are encoded; 0: the gateway does not say.
	MaxAttachment, MaxImage int64
}

// Conn is a connection that a gateway has accepted. It is safe for concurrent use.
type Conn struct {
	opt   *Options
	ws    *websocket.Conn
	hello Hello
	since time.Time

	ctx    context.Context // ends with the connection
	end    context.CancelCauseFunc
	gone   chan struct{} // closed when nothing runs any more
	work   sync.WaitGroup
	closed atomic.Bool
	heard  atomic.Int64 // when, in nanoseconds since 1970

	mu      sync.Mutex
	why     error                      // that we have closed it
	last    uint64                     // id of the last request
	waiting map[string]chan wire.Frame // by the ids of requests
}

// Hello is how the gateway has greeted.
func (c *Conn) Hello() Hello { return c.hello }

// Done is closed when the connection has ended.
func (c *Conn) Done() <-chan struct{} { return c.ctx.Done() }

// Err is why it has ended: a [*Trouble], or nil as long as it has not.
func (c *Conn) Err() error {
	if c.ctx.Err() == nil {
		return nil
	}
	return asTrouble(context.Cause(c.ctx))
}

// Call makes a request and returns the payload of its answer. Params are JSON if
// they are a json.RawMessage, and are encoded otherwise; nil: none. Without a
// deadline in ctx, the answer is waited for 30 seconds.
//
// Its error is a [*wire.Error] if the gateway refuses, [ErrLost], [ErrTooLarge], or
// that of ctx: then the gateway may carry the request out nevertheless.
func (c *Conn) Call(ctx context.Context, method string, params any) (json.RawMessage, error) {
	raw, err := encode(params)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", method, err)
	}
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, callLimit)
		defer cancel()
	}
	id, answer, err := c.expect()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", method, err)
	}
	defer c.forget(id)
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
	case <-c.gone:
	}
	select {
	case f := <-answer: // and then it hung up
		return f.Payload, result(f)
	default:
		return nil, fmt.Errorf("%s: %w", method, ErrLost)
	}
}

// result is the error of an answer, without a type if there is none.
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

// expect makes a place for an answer.
func (c *Conn) expect() (string, chan wire.Frame, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ctx.Err() != nil {
		return "", nil, ErrLost
	}
	if len(c.waiting) >= maxWaiting {
		return "", nil, errBusy
	}
	c.last++
	id, answer := strconv.FormatUint(c.last, 10), make(chan wire.Frame, 1)
	c.waiting[id] = answer
	return id, answer, nil
}

func (c *Conn) forget(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.waiting, id)
}

// write sends a frame. Its limit is not the caller's, since a frame that is not
// written to its end ends the connection.
func (c *Conn) write(frame []byte) error {
	ctx, cancel := context.WithTimeout(c.ctx, writeLimit)
	defer cancel()
	err := c.ws.Write(ctx, websocket.MessageText, frame)
	if err != nil {
		c.broke(err)
	}
	return err
}

// Close ends the connection and waits until nothing of it runs any more. It must
// not be called by [Options].Event.
func (c *Conn) Close() {
	c.hangUp(websocket.StatusNormalClosure, "", errClosed)
	<-c.gone
}

// hangUp closes the connection, if nobody has yet.
func (c *Conn) hangUp(code websocket.StatusCode, reason string, why error) {
	if !c.closed.CompareAndSwap(false, true) {
		return
	}
	c.mu.Lock()
	c.why = why
	c.mu.Unlock()
	late := time.AfterFunc(farewell, func() { c.ws.CloseNow() })
	defer late.Stop()
	c.ws.Close(code, reason)
	c.broke(why)
}

// broke notes why the connection has ended. Who closes it knows better than who
// finds it closed.
func (c *Conn) broke(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, bye := errors.AsType[websocket.CloseError](err)
	switch {
	case c.why != nil:
		err = c.why
	case !bye:
		err = trouble(Broken, sayBroken, err)
	}
	c.end(err)
}

// start has the connection listened to.
func (c *Conn) start() {
	c.heard.Store(time.Now().UnixNano())
	c.work.Go(c.read)
	c.work.Go(c.watch)
	go func() { // ends as soon as the two others have
		c.work.Wait()
		c.ws.CloseNow()
		close(c.gone)
	}()
}

func (c *Conn) read() {
	for {
		kind, data, err := c.ws.Read(c.ctx)
		if err != nil {
			c.broke(err)
			return
		}
		c.heard.Store(time.Now().UnixNano())
		f, err := wire.Parse(data)
		switch {
		case err != nil || kind != websocket.MessageText:
			c.opt.log().Debug("openclaw: the gateway sent no frame", "error", err)
		case f.Type == wire.TypeResponse:
			c.mu.Lock()
			answer := c.waiting[f.ID]
			delete(c.waiting, f.ID) // there may be two answers to one request
			c.mu.Unlock()
			if answer != nil {
				answer <- f
			}
		case c.opt.Event != nil:
			c.opt.Event(c, f)
		}
	}
}

// watch ends a connection on which nothing comes any more.
func (c *Conn) watch() {
	interval := time.Duration(c.hello.Policy.TickIntervalMS) * time.Millisecond
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		select {
		case <-c.ctx.Done():
			return
		case <-ticker.C:
		}
		if time.Since(time.Unix(0, c.heard.Load())) > 2*interval {
			c.hangUp(wire.CloseNoTick, "tick timeout", errSilent)
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
