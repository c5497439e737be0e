package gateway

import (
	"encoding/binary"
	"slices"
	"time"
)

const (
	// echoTimeout limits the wait for clients that answer no pings, or slowly.
	echoTimeout = time.Second
	// maxEchoes limits the unanswered pings of a connection.
	maxEchoes = 64
)

// echo is a numbered ping without an answer so far.
type echo struct {
	number uint64
	heard  chan struct{}
}

// echo sends a ping. The channel is closed when the client has answered it, and so has read all
// that was sent to it before, or when the connection has ended. It is closed already if too many
// pings are unanswered, or if this is no connection but a page of the console.
func (c *conn) echo() <-chan struct{} {
	heard := make(chan struct{})
	o := &c.out
	o.mu.Lock()
	defer o.mu.Unlock()
	if c.link == nil || o.closed || len(o.echoes) >= maxEchoes {
		close(heard)
		return heard
	}
	o.echoNumber++
	o.echoes = append(o.echoes, echo{o.echoNumber, heard})
	f := newFrame()
	f.ping = true
	f.b = binary.BigEndian.AppendUint64(f.b, o.echoNumber)
	c.enqueue(f)
	c.startWriter()
	return heard
}

// pong handles a pong. It answers the pings before it too, which a client need not answer one by
// one (RFC 6455 §5.5.3).
func (c *conn) pong(payload []byte) {
	if len(payload) != 8 {
		return
	}
	number := binary.BigEndian.Uint64(payload)
	o := &c.out
	o.mu.Lock()
	defer o.mu.Unlock()
	o.hear(number)
}

// hear marks pings as answered. The caller holds mu.
func (o *outbox) hear(number uint64) {
	o.echoes = slices.DeleteFunc(o.echoes, func(e echo) bool {
		if e.number > number {
			return false
		}
		close(e.heard)
		return true
	})
}
