package gateway

import (
	"encoding/binary"
	"net"
	"runtime"
	"sync"
	"time"

	"github.com/coder/websocket"

	"patchbay/internal/plug/openclaw/wire"
)

const (
	// headRoom is the maximum length of a WebSocket header, in bytes.
	headRoom = 10
	// framePooled is the maximum size of a buffer that is reused, in bytes.
	framePooled = 64 << 10
	// queueKept is the queue capacity, in frames, that an idle connection keeps.
	queueKept = 32
	// batchFrames limits the frames of one write.
	batchFrames = 256
)

// frame is a frame to send: room for a header, and the text. The outbox owns it after sending.
type frame struct {
	b          []byte
	ping       bool        // a ping with this payload of at most 125 bytes (RFC 6455 §5.5)
	closeError *wire.Error // not nil: close the connection with this instead
}

var frames = sync.Pool{New: func() any { return &frame{b: make([]byte, headRoom, 512)} }}

func newFrame() *frame {
	f := frames.Get().(*frame)
	f.b, f.ping, f.closeError = f.b[:headRoom], false, nil
	return f
}

func (f *frame) free() {
	if n := cap(f.b); n >= headRoom && n <= framePooled { // a Close frame has none
		frames.Put(f)
	}
}

// First bytes of the WebSocket frames written here (RFC 6455 §5.2).
const (
	opText = 0x81 // a whole text message
	opPing = 0x89
)

// bytes returns the frame with its header. Server frames are not masked (RFC 6455 §5.1).
func (f *frame) bytes() []byte {
	n := len(f.b) - headRoom
	switch {
	case f.ping:
		f.b[headRoom-2], f.b[headRoom-1] = opPing, byte(n)
		return f.b[headRoom-2:]
	case n < 126:
		f.b[headRoom-2], f.b[headRoom-1] = opText, byte(n)
		return f.b[headRoom-2:]
	case n < 1<<16:
		f.b[headRoom-4], f.b[headRoom-3] = opText, 126
		binary.BigEndian.PutUint16(f.b[headRoom-2:], uint16(n))
		return f.b[headRoom-4:]
	}
	f.b[0], f.b[1] = opText, 127
	binary.BigEndian.PutUint64(f.b[2:], uint64(n))
	return f.b
}

// outbox is the send queue of a client. A sender writes by itself if nobody else is writing, so
// that idle connections need no goroutine and a response needs no context switch. Frames are
// written here and not by the WebSocket library, which cannot write many at a time.
type outbox struct {
	mu      sync.Mutex
	queue   []*frame
	size    int64 // bytes in queue and being written by flush
	writing bool  // somebody writes, or output is held
	closed  bool  // closed for further frames
	seq     int64 // number of the last broadcast event

	echoes     []echo // pings without an answer, oldest first
	echoNumber uint64 // of the last one
}

// send queues a frame and writes it itself if nobody else is writing. It may block for as long
// as the client takes to read. With others, it first lets other senders queue their frames: most
// of the cost of a small frame is the write.
func (c *conn) send(f *frame, others bool) {
	o := &c.out
	o.mu.Lock()
	if o.closed || o.writing {
		c.enqueue(f)
		o.mu.Unlock()
		return
	}
	o.writing = true
	var more bool
	if others {
		c.enqueue(f)
		o.mu.Unlock()
		runtime.Gosched()
		more = c.flush(false)
	} else {
		o.mu.Unlock()
		err := c.link.write(c.g.Timings.Write, f.bytes())
		f.free()
		if err != nil {
			c.closeNow()
		}
		more = c.hasPending()
	}
	if more {
		c.g.start(c.drain) // the connection's own goroutine still runs
	}
}

// post queues a frame and never blocks.
func (c *conn) post(f *frame) {
	o := &c.out
	o.mu.Lock()
	defer o.mu.Unlock()
	c.enqueue(f)
	c.startWriter()
}

// startWriter starts writing the queue. The caller holds out.mu.
func (c *conn) startWriter() {
	if o := &c.out; !o.writing && len(o.queue) > 0 {
		o.writing = true
		c.g.start(c.drain) // the connection's own goroutine still runs
	}
}

// enqueue appends a frame. If the queue exceeds its limit, the client is disconnected after a
// grace period. The caller holds out.mu.
func (c *conn) enqueue(f *frame) {
	o := &c.out
	if o.closed {
		f.free()
		return
	}
	n := int64(cap(f.b))
	all := c.g.buffered.Add(n)
	o.size += n
	o.queue = append(o.queue, f)
	if f.closeError != nil {
		o.closed = true
		return
	}
	if o.size > wire.MaxBuffered || all > maxBufferedAll && n < o.size {
		o.queue = append(o.queue, &frame{closeError: wire.SlowConsumer})
		o.closed = true
		time.AfterFunc(c.g.Timings.SlowClientGrace, c.closeNow)
	}
}

// hasPending reports whether frames are queued. If not, it marks writing as finished.
func (c *conn) hasPending() bool {
	o := &c.out
	o.mu.Lock()
	defer o.mu.Unlock()
	o.writing = len(o.queue) > 0
	return o.writing
}

// drain writes the queue until it is empty, including frames that arrive meanwhile.
func (c *conn) drain() {
	for runtime.Gosched(); c.flush(true); {
	}
}

// batch is the data of one write.
type batch struct {
	frames    []*frame
	pieces    net.Buffers
	unwritten net.Buffers // remaining pieces during the write
}

var batches = sync.Pool{New: func() any { return new(batch) }}

// flush writes the queued frames and reports whether more have arrived meanwhile. If not, it
// marks writing as finished. Without closing, nothing is written once a Close frame is queued.
func (c *conn) flush(closing bool) (more bool) {
	o := &c.out
	o.mu.Lock()
	if o.closed && !closing {
		o.mu.Unlock()
		return true
	}
	b := batches.Get().(*batch)
	b.frames = append(b.frames[:0], o.queue...)
	clear(o.queue)
	o.queue = o.queue[:0]
	o.mu.Unlock()
	done := int64(0)
	for from := 0; from < len(b.frames); {
		b.pieces = b.pieces[:0]
		to := from
		for ; to < len(b.frames) && to-from < batchFrames && b.frames[to].closeError == nil; to++ {
			b.pieces = append(b.pieces, b.frames[to].bytes())
		}
		if b.unwritten = b.pieces; to > from {
			if err := c.link.writeAll(c.g.Timings.Write, &b.unwritten); err != nil {
				c.closeNow()
			}
		}
		for _, f := range b.frames[from:to] {
			done += int64(cap(f.b))
			f.free()
		}
		if from = to; from < len(b.frames) && b.frames[from].closeError != nil {
			done += int64(cap(b.frames[from].b))
			c.sendClose(b.frames[from].closeError)
			from++
		}
	}
	clear(b.frames)
	if cap(b.frames) <= 2*batchFrames {
		batches.Put(b)
	}
	c.g.buffered.Add(-done)
	o.mu.Lock()
	defer o.mu.Unlock()
	o.size -= done
	if o.writing = len(o.queue) > 0; !o.writing && cap(o.queue) > queueKept {
		o.queue = nil
	}
	return o.writing
}

// event sends an event. Events for all clients are numbered, so that a client notices a missed
// one.
func (c *conn) event(name string, payload []byte, everybody bool) {
	f := newFrame()
	o := &c.out
	o.mu.Lock()
	defer o.mu.Unlock()
	seq := int64(0)
	if everybody {
		o.seq++
		seq = o.seq
	}
	f.b = wire.AppendEvent(f.b, name, payload, seq)
	c.enqueue(f)
	c.startWriter()
}

// ping sends a WebSocket ping.
func (c *conn) ping() {
	f := newFrame()
	f.ping = true
	c.post(f)
}

// closeWith closes the connection after all queued frames.
func (c *conn) closeWith(why *wire.Error) {
	c.out.mu.Lock()
	defer c.out.mu.Unlock()
	if c.closeReason == "" {
		c.closeReason = why.Message
	}
	c.enqueue(&frame{closeError: why})
	c.startWriter()
}

// sendClose sends a Close frame and closes the connection whether or not the client answers.
func (c *conn) sendClose(why *wire.Error) {
	timer := time.AfterFunc(closeTimeout, c.closeNow)
	defer timer.Stop()
	_ = c.ws.Close(websocket.StatusCode(why.Close), why.Reason()) // whether or not it answers
}

// releaseOutput sends first and then the output held since the connection began.
func (c *conn) releaseOutput(first *frame) {
	o := &c.out
	o.mu.Lock()
	defer o.mu.Unlock()
	c.g.buffered.Add(int64(cap(first.b)))
	o.size += int64(cap(first.b))
	o.queue = append([]*frame{first}, o.queue...)
	o.writing = false
	c.startWriter()
}

// holdOutput holds queued frames back until releaseOutput.
func (c *conn) holdOutput() {
	c.out.mu.Lock()
	defer c.out.mu.Unlock()
	c.out.writing = true
}

// discardQueue drops queued frames and rejects further ones.
func (c *conn) discardQueue() {
	o := &c.out
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closed = true
	o.hear(o.echoNumber)
	for _, f := range o.queue {
		n := int64(cap(f.b))
		o.size -= n
		c.g.buffered.Add(-n)
	}
	o.queue = nil
}
