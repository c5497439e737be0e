package broker

import (
	"bytes"
	"sync"

	"patchbay/internal/plug/xiaozhi/mqtt"
)

const (
	// maxLetters and maxOutbox bound what waits for the broker, in messages and in
	// bytes. Boards for which there is no room left are ended: they have missed
	// something by then.
	maxLetters = 8_192
	maxOutbox  = 16 << 20
)

// letter is a message to a board.
type letter struct {
	topic   string
	payload []byte
}

// outbox is what waits for the broker, in order.
type outbox struct {
	wake chan struct{} // holds one if there may be something

	mu    sync.Mutex
	queue []letter
	bytes int
}

// put keeps a copy of a message. It does not wait. The error is [mqtt.ErrSlow].
func (o *outbox) put(topic string, payload []byte) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.queue) >= maxLetters || o.bytes+len(payload) > maxOutbox {
		return mqtt.ErrSlow
	}
	o.queue = append(o.queue, letter{topic, bytes.Clone(payload)})
	o.bytes += len(payload)
	select {
	case o.wake <- struct{}{}:
	default:
	}
	return nil
}

// take is the oldest message, if there is any.
func (o *outbox) take() (letter, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.queue) == 0 {
		return letter{}, false
	}
	first := o.queue[0]
	o.queue[0] = letter{}
	o.queue = o.queue[1:]
	o.bytes -= len(first.payload)
	return first, true
}

// clear throws away what waits.
func (o *outbox) clear() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.queue, o.bytes = nil, 0
}

// send publishes what is put into the outbox until the connection ends, or until
// nothing waits after it was said to be enough. The message that is in its hands when
// a connection ends is lost; the others wait for the next one.
func (c *Client) send(l *link, enough <-chan struct{}) {
	for last := false; ; {
		for c.sendOne(l) {
		}
		if last || l.isLost() {
			return
		}
		select {
		case <-c.out.wake:
		case <-enough:
			last = true
		case <-l.lost:
			return
		}
	}
}

// sendOne is false if nothing waits, or if the connection has ended.
func (c *Client) sendOne(l *link) bool {
	if l.isLost() {
		return false
	}
	next, ok := c.out.take()
	if !ok {
		return false
	}
	token := l.client.Publish(next.topic, 0, false, next.payload)
	select {
	case <-token.Done():
		if err := token.Error(); err != nil {
			l.lose(err)
			return false
		}
	default: // it is on its way
	}
	c.metrics.pushed.Inc()
	return true
}
