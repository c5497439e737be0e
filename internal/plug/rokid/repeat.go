package rokid

import (
	"context"
	"sync"
	"time"

	"patchbay/internal/talk"
)

const (
	// repeatLife is how long a request that the network delivers again is known, as the
	// board knows its turns.
	repeatLife = 2 * time.Second
	// maxRequests bounds the requests that are known. What is beyond is carried out each
	// time that it arrives.
	maxRequests = 20_000
)

// requests are the last of each conversation. What a bot is asked, the board joins; what
// the door does itself, such as the next page or a binding, is found here when the network
// delivers it again: it is answered again, and not done again.
type requests struct {
	mu   sync.Mutex
	last map[session]*handled
}

// session is a conversation at this door.
type session struct{ key, person, name string }

// handled is a request that was, or is being, answered.
type handled struct {
	delivery talk.Delivery
	known    chan struct{} // closed when it is known whether, and what, the door answers
	said     []byte        // all of the door's own answer; nil if there is none
	bots     bool          // a bot answers
	once     sync.Once
}

// settle says what the door itself has answered, if anything, or that a bot answers. Only
// the first time counts.
func (h *handled) settle(said []byte, bots bool) {
	h.once.Do(func() {
		h.said, h.bots = said, bots
		close(h.known)
	})
}

// once answers a request, and one that the network delivers again as it was answered
// before, unless the board joins it.
func (d *Door) once(ctx context.Context, c *call) {
	at := session{c.principal.Key.ID, c.person(), c.MessageID}
	c.handled = &handled{delivery: d.delivery(c), known: make(chan struct{})}
	if before := d.requests.enter(at, c.handled); before != nil {
		select {
		case <-before.known:
		case <-ctx.Done():
			c.stream.stop()
			return
		}
		if before.said != nil {
			c.stream.again(before.said)
			return
		}
		c.bots = before.bots
	}
	defer func() {
		c.handled.settle(c.stream.whole(), false)
		d.requests.leave(at, c.handled)
	}()
	d.answer(ctx, c)
}

// toBot leaves the answer, and whoever repeats the question, to the board.
func (c *call) toBot() {
	c.stream.forget()
	c.handled.settle(nil, true)
}

// delivery is how a request arrived, pictures by their addresses.
func (d *Door) delivery(c *call) talk.Delivery {
	t := &talk.Turn{Bound: c.principal.Key.Rules, Metadata: c.Metadata, Request: c.name, Parts: []talk.Part{{Text: c.Text}}}
	for _, addr := range c.Images {
		t.Parts = append(t.Parts, talk.Part{Text: addr})
	}
	return talk.Delivered(t, d.Board.Now())
}

// enter finds the request that this one repeats, or keeps it as the last of its
// conversation.
func (r *requests) enter(at session, h *handled) *handled {
	r.mu.Lock()
	defer r.mu.Unlock()
	last := r.last[at]
	if last != nil && h.delivery.At.Sub(last.delivery.At) < repeatLife && h.delivery.Repeats(last.delivery) {
		return last
	}
	if last == nil && len(r.last) >= maxRequests {
		return nil
	}
	if r.last == nil {
		r.last = map[session]*handled{}
	}
	r.last[at] = h
	return nil
}

// leave forgets a request a while after it was answered.
func (r *requests) leave(at session, h *handled) {
	time.AfterFunc(repeatLife, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.last[at] == h {
			delete(r.last, at)
		}
	})
}
