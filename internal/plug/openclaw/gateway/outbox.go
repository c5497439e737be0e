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
	// headRoom is what a WebSocket header takes at most, in bytes.
	headRoom = 10
	// framePooled is how large a buffer may be to be used again, in bytes.
	framePooled = 64 << 10
	// queueKept is how many frames a connection keeps room for while nothing waits.
	queueKept = 32
	// batchFrames bounds how many frames are written at once.
	batchFrames = 256
)

// frame is something to send: room for a header, and the text. It belongs to the
// outbox once it was sent.
type frame struct {
	b   []byte
	bye *wire.Error // not nil: close the connection with this instead
}

var frames = sync.Pool{New: func() any { return &frame{b: make([]byte, headRoom, 512)} }}

func newFrame() *frame {
	f := frames.Get().(*frame)
	f.b, f.bye = f.b[:headRoom], nil
	return f
}

func (f *frame) free() {
	if n := cap(f.b); n >= headRoom && n <= framePooled { // a goodbye has none
		frames.Put(f)
	}
}

// The operations of WebSocket that are written here.
const (
	opText = 0x81 // the whole of a message
	opPing = 0x89
)

// bytes is the text with its header. Server frames are not masked.
func (f *frame) bytes() []byte {
	n := len(f.b) - headRoom
	switch {
	case n == 0:
		f.b[headRoom-2], f.b[headRoom-1] = opPing, 0
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

// outbox is what waits to be sent to a client. Whoever has something to say writes it
// at once if nobody else writes: connections without anything to send need no
// goroutine, and an answer no change of goroutines. Frames are written here and not by
// the WebSocket library, many at a time, which it cannot.
type outbox struct {
	mu    sync.Mutex
	queue []*frame
	size  int64 // bytes in queue, and being written by flush
	busy  bool  // somebody writes, or is held back
	ended bool  // nothing is taken any more
	seq   int64 // of events for everybody
}

// send sends a frame, and writes it itself if nobody else does. The caller may be
// held up for as long as the client takes. If others may have something to say to the
// client, too, they get the opportunity first: most of what a small frame costs is
// writing.
func (c *conn) send(f *frame, others bool) {
	o := &c.out
	o.mu.Lock()
	if o.ended || o.busy {
		c.enqueue(f)
		o.mu.Unlock()
		return
	}
	o.busy = true
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
			c.drop()
		}
		more = c.pending()
	}
	if more {
		c.g.start(c.drain) // the connection's own goroutine is still there
	}
}

// post sends a frame without ever waiting for the client.
func (c *conn) post(f *frame) {
	o := &c.out
	o.mu.Lock()
	defer o.mu.Unlock()
	c.enqueue(f)
	c.wake()
}

// wake has what waits written. With out.mu held.
func (c *conn) wake() {
	if o := &c.out; !o.busy && len(o.queue) > 0 {
		o.busy = true
		c.g.start(c.drain) // the connection's own goroutine is still there
	}
}

// enqueue puts a frame behind the others, unless they are too many: then the client
// is cut off when it has had its last chance to take them. With out.mu held.
func (c *conn) enqueue(f *frame) {
	o := &c.out
	if o.ended {
		f.free()
		return
	}
	n := int64(cap(f.b))
	all := c.g.buffered.Add(n)
	o.size += n
	o.queue = append(o.queue, f)
	if f.bye != nil {
		o.ended = true
		return
	}
	if o.size > wire.MaxBuffered || all > maxBufferedAll && n < o.size {
		o.queue = append(o.queue, &frame{bye: wire.SlowConsumer})
		o.ended = true
		time.AfterFunc(c.g.Timings.Slow, c.drop)
	}
}

// pending says whether anything waits. If nothing does, nobody writes any more.
func (c *conn) pending() bool {
	o := &c.out
	o.mu.Lock()
	defer o.mu.Unlock()
	o.busy = len(o.queue) > 0
	return o.busy
}

// drain writes what waits until nothing does. What else is being said at the moment
// is written with it.
func (c *conn) drain() {
	for runtime.Gosched(); c.flush(true); {
	}
}

// batch is what is written at once.
type batch struct {
	frames []*frame
	pieces net.Buffers
	rest   net.Buffers // of the pieces, while they are written
}

var batches = sync.Pool{New: func() any { return new(batch) }}

// flush writes what waits, and says whether more does meanwhile. If not, nobody writes
// any more. A goodbye takes its time: without bye, nothing is written once there is one.
func (c *conn) flush(bye bool) (more bool) {
	o := &c.out
	o.mu.Lock()
	if o.ended && !bye {
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
		for ; to < len(b.frames) && to-from < batchFrames && b.frames[to].bye == nil; to++ {
			b.pieces = append(b.pieces, b.frames[to].bytes())
		}
		if b.rest = b.pieces; to > from {
			if err := c.link.writeAll(c.g.Timings.Write, &b.rest); err != nil {
				c.drop()
			}
		}
		for _, f := range b.frames[from:to] {
			done += int64(cap(f.b))
			f.free()
		}
		if from = to; from < len(b.frames) && b.frames[from].bye != nil {
			done += int64(cap(b.frames[from].b))
			c.hangUp(b.frames[from].bye)
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
	if o.busy = len(o.queue) > 0; !o.busy && cap(o.queue) > queueKept {
		o.queue = nil
	}
	return o.busy
}

// event sends an event. One that goes to everybody has a number, by which a client
// sees whether it has missed one.
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
	c.wake()
}

// ping asks whether the client is still there.
func (c *conn) ping() { c.post(newFrame()) }

// bye closes the connection after everything that was sent before.
func (c *conn) bye(why *wire.Error) {
	c.out.mu.Lock()
	defer c.out.mu.Unlock()
	if c.ends == "" {
		c.ends = why.Message
	}
	c.enqueue(&frame{bye: why})
	c.wake()
}

// hangUp says goodbye, and ends the connection whether the client answers or not.
func (c *conn) hangUp(why *wire.Error) {
	timer := time.AfterFunc(farewell, c.drop)
	defer timer.Stop()
	_ = c.ws.Close(websocket.StatusCode(why.Close), why.Reason()) // whether it answers or not
}

// release lets out what was held back since the connection began, after one frame.
func (c *conn) release(first *frame) {
	o := &c.out
	o.mu.Lock()
	defer o.mu.Unlock()
	c.g.buffered.Add(int64(cap(first.b)))
	o.size += int64(cap(first.b))
	o.queue = append([]*frame{first}, o.queue...)
	o.busy = false
	c.wake()
}

// hold keeps back what is sent until release.
func (c *conn) hold() {
	c.out.mu.Lock()
	defer c.out.mu.Unlock()
	c.out.busy = true
}

// shut takes nothing any more. What waits is forgotten.
func (c *conn) shut() {
	o := &c.out
	o.mu.Lock()
	defer o.mu.Unlock()
	o.ended = true
	for _, f := range o.queue {
		n := int64(cap(f.b))
		o.size -= n
		c.g.buffered.Add(-n)
	}
	o.queue = nil
}
