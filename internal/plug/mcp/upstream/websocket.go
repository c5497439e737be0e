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
	// maxFrame limits a message on a WebSocket: a result and its envelope.
	maxFrame = maxResult + envelopeBytes
	// maxReadFrame is the size from which a message ends the connection. Messages between the
	// two limits are read and discarded, so that an oversized result only fails one call.
	maxReadFrame = 8 * maxFrame
	// frameTimeout is how long the peer may take to read a message.
	frameTimeout = 30 * time.Second
	// readChunk is the size of one read.
	readChunk = 8 << 10
)

// Close codes for the peer, besides the standard ones.
const (
	codeReplaced      websocket.StatusCode = 4001 // it has connected again
	codeProtocolError websocket.StatusCode = 4002 // it does not, or no longer, speak MCP
	codeChanged       websocket.StatusCode = 4003 // its token or settings have changed
)

// webSocketWire is the wire to an inbound server: one message per WebSocket frame.
type webSocketWire struct {
	s         *session
	a         *inboundConn
	times     *timings
	writeLock chan struct{} // held while writing; holds 1
	readDone  chan struct{} // closed when nothing can be received any more
	activity  atomic.Int64  // incremented by every sign that the peer reads or writes
}

func newWebSocketWire(s *session, a *inboundConn, times *timings) *webSocketWire {
	return &webSocketWire{s: s, a: a, times: times, writeLock: make(chan struct{}, 1), readDone: make(chan struct{})}
}

// begin reads messages until the connection ends.
func (w *webSocketWire) begin() {
	w.s.start(w.read)
	w.s.start(w.heartbeat)
}

func (w *webSocketWire) read() {
	defer close(w.readDone)
	piece := make([]byte, readChunk)
	for {
		e, err := w.next(piece)
		if err != nil {
			w.s.fail(&connectionLostError{closeCause(err)})
			return
		}
		if err := w.s.deliver(0, e); err != nil {
			w.s.log.Debug("upstream: a frame is no message", "bytes", len(e.data), "error", err)
		}
	}
}

// next reads a frame, text or binary: not every peer sets the type correctly.
func (w *webSocketWire) next(buf []byte) (*event, error) {
	// The frame is read without a deadline: cancelling a read would close the connection anyway,
	// and close does that.
	_, r, err := w.a.conn.Reader(context.Background())
	if err != nil {
		return nil, err
	}
	p := boundedBuffer{limit: maxFrame}
	for {
		n, err := r.Read(buf)
		p.add(buf[:n])
		w.activity.Add(1)
		switch {
		case errors.Is(err, io.EOF):
			return &event{data: p.data, tooLarge: p.tooLarge, head: p.head, tail: p.tail}, nil
		case err != nil:
			return nil, err
		}
	}
}

// closeCause returns why a connection ended, with the peer's close reason if there is one.
func closeCause(err error) error {
	if e, ok := errors.AsType[websocket.CloseError](err); ok {
		return fmt.Errorf("the far side closed the connection: %d %s", e.Code, clip(e.Reason, 200))
	}
	return err
}

// heartbeat pings the peer at intervals. A large message in transit counts as an answer.
func (w *webSocketWire) heartbeat() {
	tick := time.NewTicker(w.times.healthInterval)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-w.s.done:
			return
		}
		before := w.activity.Load()
		ctx, cancel := context.WithTimeout(w.s.ctx, w.times.healthTimeout)
		err := w.a.conn.Ping(ctx)
		cancel()
		if err != nil && w.activity.Load() == before && len(w.writeLock) == 0 {
			w.s.fail(&connectionLostError{fmt.Errorf("no heartbeat: %w", err)})
			return
		}
	}
}

// bufferedWriteTime is the maximum duration of a write that only fills local buffers. A longer
// write had to wait for the peer to read.
const bufferedWriteTime = 20 * time.Millisecond

// send writes a message as one frame.
func (w *webSocketWire) send(ctx context.Context, m *outgoing) error {
	select {
	case w.writeLock <- struct{}{}:
	case <-w.readDone:
		return &unsentError{errClosed}
	case <-ctx.Done():
		return &unsentError{ctx.Err()}
	}
	defer func() { <-w.writeLock }()
	if w.s.isDone() {
		return &unsentError{errClosed}
	}
	// A frame must not be cut off, so ctx does not end the write.
	limited, cancel := context.WithTimeout(w.s.ctx, frameTimeout)
	defer cancel()
	began := time.Now()
	if err := w.a.conn.Write(limited, websocket.MessageText, m.body); err != nil {
		w.s.fail(&connectionLostError{err})
		return &connectionLostError{err}
	}
	if time.Since(began) > bufferedWriteTime {
		w.activity.Add(1)
	}
	return nil
}

func (w *webSocketWire) setVersion(string, bool)   {}
func (w *webSocketWire) listen()                   { w.s.listening.Store(true) }
func (w *webSocketWire) isStateless() bool         { return false }
func (w *webSocketWire) cancelsByDisconnect() bool { return false }

// close closes the connection with the reason, unless the peer closed it.
func (w *webSocketWire) close() {
	code, reason := w.closeReason()
	w.a.cancel(errClosed) // releases the upstream's context
	select {
	case <-w.readDone:
	default:
		timer := time.AfterFunc(endSessionTimeout, func() { w.a.raw.Close() })
		w.a.conn.Close(code, reason) //nolint:errcheck // closed in any case
		timer.Stop()
	}
	w.a.closeNow()
}

// closeReason returns the close code and reason for the peer.
func (w *webSocketWire) closeReason() (websocket.StatusCode, string) {
	switch w.a.endCause() {
	case errReplaced, errMoved:
		return codeReplaced, errReplaced.Error()
	case errChanged:
		return codeChanged, errChanged.Error()
	case errStopping:
		return websocket.StatusGoingAway, errStopping.Error()
	}
	return codeProtocolError, "no answer came that can be used"
}
