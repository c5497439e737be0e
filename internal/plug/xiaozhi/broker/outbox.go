package broker

import (
	"bytes"
	"sync"

	"patchbay/internal/plug/xiaozhi/mqtt"
)

const (
	// maxOutgoing and maxOutbox limit the outbox, in messages and in bytes. A board whose message
	// does not fit is ended, since it misses that message.
	maxOutgoing = 8_192
	maxOutbox   = 16 << 20
)

// outgoing is a message to a board.
type outgoing struct {
	topic   string
	payload []byte
}

// outbox is the queue of messages for the broker.
type outbox struct {
	wake chan struct{} // has a token if the queue may have grown

	mu    sync.Mutex
	queue []outgoing
	bytes int
}

// put queues a copy of a message. It does not wait. The error is [mqtt.ErrSlow].
func (o *outbox) put(topic string, payload []byte) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.queue) >= maxOutgoing || o.bytes+len(payload) > maxOutbox {
		return mqtt.ErrSlow
	}
	o.queue = append(o.queue, outgoing{topic, bytes.Clone(payload)})
	o.bytes += len(payload)
	select {
	case o.wake <- struct{}{}:
	default:
	}
	return nil
}

// take returns the oldest message, if there is one.
func (o *outbox) take() (outgoing, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.queue) == 0 {
		return outgoing{}, false
	}
	first := o.queue[0]
	o.queue[0] = outgoing{}
	o.queue = o.queue[1:]
	o.bytes -= len(first.payload)
	return first, true
}

// clear drops all messages.
func (o *outbox) clear() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.queue, o.bytes = nil, 0
}

// send publishes messages of the outbox until the connection ends, or, after flush is closed, until
// the outbox is empty. The message that is being published when the connection ends is lost; the
// others wait for the next connection.
func (c *Client) send(l *link, flush <-chan struct{}) {
	for last := false; ; {
		for c.sendOne(l) {
		}
		if last || l.isLost() {
			return
		}
		select {
		case <-c.outbox.wake:
		case <-flush:
			last = true
		case <-l.lost:
			return
		}
	}
}

// sendOne publishes one message. It returns false if there is none, or if the connection has ended.
func (c *Client) sendOne(l *link) bool {
	if l.isLost() {
		return false
	}
	next, ok := c.outbox.take()
	if !ok {
		return false
	}
	token := l.client.Publish(next.topic, 0, false, next.payload)
	select {
	case <-token.Done():
		if err := token.Error(); err != nil {
			l.fail(err)
			return false
		}
	default: // still in progress
	}
	c.metrics.pushed.Inc()
	return true
}
