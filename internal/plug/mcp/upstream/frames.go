package upstream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"
)

const (
	// maxFrame bounds a message on a WebSocket: a result and what stands around it.
	maxFrame = maxResult + envelope
	// hugeFrame is where a message ends the connection. What is between is read and
	// thrown away, so that a result that is too large costs one call and no more.
	hugeFrame = 8 * maxFrame
	// frameTimeout is how long the far side may take to take a message in.
	frameTimeout = 30 * time.Second
	// framePiece is what is read at once.
	framePiece = 8 << 10
)

// What the far side of a WebSocket is told when we end the connection, besides
// the codes that the standard has.
const (
	codeReplaced websocket.StatusCode = 4001 // it has connected again
	codeUnfit    websocket.StatusCode = 4002 // it does not speak MCP, or not any more
	codeChanged  websocket.StatusCode = 4003 // its token or settings have changed
)

// frames is the wire to a server that connected to us: a message is a frame of a
// WebSocket.
type frames struct {
	s     *session
	a     *arrival
	times *timings
	turn  chan struct{} // held by who writes; holds 1
	over  chan struct{} // closed when nothing can come any more
	stirs atomic.Int64  // grows with everything that shows that the far side reads or writes
}

func newFrames(s *session, a *arrival, times *timings) *frames {
	return &frames{s: s, a: a, times: times, turn: make(chan struct{}, 1), over: make(chan struct{})}
}

// begin reads what comes, until nothing can any more.
func (w *frames) begin() {
	w.s.start(w.read)
	w.s.start(w.beat)
}

func (w *frames) read() {
	defer close(w.over)
	piece := make([]byte, framePiece)
	for {
		e, err := w.next(piece)
		if err != nil {
			w.s.fail(&goneError{ending(err)})
			return
		}
		if err := w.s.deliver(0, e); err != nil {
			w.s.log.Debug("upstream: a frame is no message", "bytes", len(e.data), "error", err)
		}
	}
}

// next reads a frame, of either kind: not everybody says that a text is one.
func (w *frames) next(buf []byte) (*event, error) {
	// The frame is read without a context: the end of that would be the end of the
	// connection anyway, and close sees to it.
	_, r, err := w.a.conn.Reader(context.Background())
	if err != nil {
		return nil, err
	}
	p := piece{limit: maxFrame}
	for {
		n, err := r.Read(buf)
		p.add(buf[:n])
		w.stirs.Add(1)
		switch {
		case errors.Is(err, io.EOF):
			return &event{data: p.data, huge: p.huge, head: p.head, tail: p.tail}, nil
		case err != nil:
			return nil, err
		}
	}
}

// ending says why a connection ended, as the far side put it if it did.
func ending(err error) error {
	if e, ok := errors.AsType[websocket.CloseError](err); ok {
		return fmt.Errorf("the far side closed the connection: %d %s", e.Code, clip(e.Reason, 200))
	}
	return err
}

// beat asks for a sign of life now and then. A large message that is on its way
// is one too.
func (w *frames) beat() {
	tick := time.NewTicker(w.times.healthEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-w.s.dead:
			return
		}
		before := w.stirs.Load()
		ctx, cancel := context.WithTimeout(w.s.ctx, w.times.health)
		err := w.a.conn.Ping(ctx)
		cancel()
		if err != nil && w.stirs.Load() == before && len(w.turn) == 0 {
			w.s.fail(&goneError{fmt.Errorf("no sign of life: %w", err)})
			return
		}
	}
}

// buffered is how long a write may take that goes no further than into the buffers of
// this machine. One that took longer had to wait until the far side had read something.
const buffered = 20 * time.Millisecond

// send writes a frame.
func (w *frames) send(ctx context.Context, m *outgoing) error {
	select {
	case w.turn <- struct{}{}:
	case <-w.over:
		return &unsentError{errClosed}
	case <-ctx.Done():
		return &unsentError{ctx.Err()}
	}
	defer func() { <-w.turn }()
	if w.s.ended() {
		return &unsentError{errClosed}
	}
	// A frame must not be cut, so ctx does not end the write.
	limited, cancel := context.WithTimeout(w.s.ctx, frameTimeout)
	defer cancel()
	began := time.Now()
	if err := w.a.conn.Write(limited, websocket.MessageText, m.body); err != nil {
		w.s.fail(&goneError{err})
		return &goneError{err}
	}
	if time.Since(began) > buffered {
		w.stirs.Add(1)
	}
	return nil
}

func (w *frames) agree(string, bool) {}
func (w *frames) listen()            { w.s.listening.Store(true) }
func (w *frames) sessionless() bool  { return false }
func (w *frames) hangsUp() bool      { return false }

// close tells the far side why this is the end, unless it knows.
func (w *frames) close() {
	code, reason := w.farewell()
	w.a.end(errClosed) // lets go of the upstream's context
	select {
	case <-w.over:
	default:
		timer := time.AfterFunc(goodbyeTimeout, func() { w.a.raw.Close() })
		w.a.conn.Close(code, reason) //nolint:errcheck // it is over either way
		timer.Stop()
	}
	w.a.cut()
}

// farewell is what the far side is told.
func (w *frames) farewell() (websocket.StatusCode, string) {
	switch w.a.ended() {
	case errReplaced, errMoved:
		return codeReplaced, errReplaced.Error()
	case errChanged:
		return codeChanged, errChanged.Error()
	case errStopping:
		return websocket.StatusGoingAway, errStopping.Error()
	}
	return codeUnfit, "no answer came that can be used"
}
