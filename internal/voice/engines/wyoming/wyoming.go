// Package wyoming is an engine that speaks Home Assistant's protocol over TCP: faster-whisper,
// Piper, and what else is made for its voice assistants.
//
// The protocol has neither keys nor encryption, so its servers belong into private networks. Each
// utterance and each sentence has a connection of its own, as servers expect it.
package wyoming

import (
	"context"
	"log/slog"
	"net"
	"sync/atomic"
	"time"

	"patchbay/internal/voice/engine"
	"patchbay/internal/voice/engines/socket"
)

// limits are the times after which an engine has failed.
type limits struct {
	connect  time.Duration // of a connection
	describe time.Duration // until a server has described itself
	write    time.Duration // of one event
	speech   time.Duration // of somebody who speaks
	result   time.Duration // until the transcript, or the first sound
	chunk    time.Duration // until more of a sound
	lost     time.Duration // to read why the server closed the connection, after a failed write
}

// defaultLimits let another engine take over within seconds.
var defaultLimits = limits{connect: 3 * time.Second, describe: 3 * time.Second, write: 3 * time.Second,
	speech: 2 * engine.MaxUtterance, result: 8 * time.Second, chunk: 5 * time.Second, lost: 250 * time.Millisecond}

// client uses a server.
type client struct {
	settings Settings
	address  string
	dial     func(ctx context.Context, network, address string) (net.Conn, error)
	log      *slog.Logger
	limits   limits
	info     atomic.Pointer[info] // the latest
}

// New returns an engine that listens and speaks, as far as its server does. It does not connect.
// The error is that of [Settings.Validate].
func New(s Settings, o engine.Options) (engine.Engine, error) {
	c, err := newClient(s, o)
	if err != nil {
		return engine.Engine{}, err
	}
	return engine.Engine{Listener: engine.ListenLive(c.recognise), Speaker: engine.SpeakOnce(c.speak),
		NeedsWords: true}, nil
}

func newClient(s Settings, o engine.Options) (*client, error) {
	if err := s.Validate(); err != nil {
		return nil, err
	}
	address, _ := s.host() // it is valid
	o = o.WithDefaults()
	return &client{settings: s, address: address, dial: o.Dial, log: o.Logger, limits: defaultLimits}, nil
}

// failed logs a failure and returns it.
func (c *client) failed(err error) error {
	if e := engine.AsError(err); e != nil {
		c.log.Debug("wyoming: the engine failed", "host", c.address, "error", e)
	}
	return err
}

// connection is a connection to a server. It is closed when its context ends.
type connection struct {
	net.Conn
	ctx     context.Context
	release func() bool
	limits  limits
	events  *eventReader
	out     []byte
}

func (c *client) connect(ctx context.Context) (*connection, error) {
	dialing, cancel := context.WithTimeout(ctx, c.limits.connect)
	defer cancel()
	conn, err := c.dial(dialing, "tcp", c.address)
	switch {
	case ctx.Err() != nil:
		if err == nil {
			_ = conn.Close()
		}
		return nil, context.Cause(ctx)
	case dialing.Err() != nil && err != nil:
		return nil, engine.Errorf(engine.Timeout, "the server did not accept the connection in time")
	case err != nil:
		return nil, socket.Classify(err)
	}
	return &connection{Conn: conn, ctx: ctx, limits: c.limits, events: newEventReader(conn),
		release: context.AfterFunc(ctx, func() { _ = conn.Close() })}, nil
}

// expect limits the time until the next events. One goroutine calls it at a time.
func (c *connection) expect(d time.Duration) { _ = c.SetReadDeadline(time.Now().Add(d)) }

// send writes an event. One goroutine calls it at a time.
func (c *connection) send(kind string, data any, payload []byte) (err error) {
	if c.out, err = appendEvent(c.out[:0], kind, data, payload); err != nil {
		return err
	}
	_ = c.SetWriteDeadline(time.Now().Add(c.limits.write)) // a closed connection fails to write
	_, err = c.Write(c.out)
	return err
}

// failure returns an error of the connection as an [*engine.Error], or that of the context.
func (c *connection) failure(err error) error {
	if c.ctx.Err() != nil {
		return context.Cause(c.ctx)
	}
	return socket.Classify(err)
}

func (c *connection) close() {
	c.release()
	_ = c.Close()
}
