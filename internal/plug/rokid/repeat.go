package rokid

import (
	"context"
	"sync"
	"time"

	"patchbay/internal/talk"
)

const (
	// repeatWindow is how long a request is remembered to detect that the network delivers it
	// again. The hub uses the same time for turns.
	repeatWindow = 2 * time.Second
	// maxRequests limits the remembered requests. Requests beyond it are executed on each delivery.
	maxRequests = 20_000
)

// recentRequests holds the last request of each conversation. The hub joins repeated questions to a
// bot. Requests that the handler serves itself, such as the next page or a binding, are found here
// when the network delivers them again: they are answered again, but not executed again.
type recentRequests struct {
	mu   sync.Mutex
	last map[sessionKey]*trackedRequest
}

// sessionKey identifies a conversation of this handler.
type sessionKey struct{ key, person, name string }

// trackedRequest is a request that was answered or is being answered.
type trackedRequest struct {
	delivery   talk.Delivery
	decided    chan struct{} // closed once reply and botAnswers are set
	reply      []byte        // all of the handler's own answer; nil if there is none
	botAnswers bool          // a bot answers
	once       sync.Once
}

// decide sets whether a bot answers and, if not, what the handler itself has answered. Only the
// first call counts.
func (h *trackedRequest) decide(said []byte, bots bool) {
	h.once.Do(func() {
		h.reply, h.botAnswers = said, bots
		close(h.decided)
	})
}

// handleOnce answers a request. A request that the network delivers again gets the same answer as
// before, unless the hub joins it to the running turn.
func (h *Handler) handleOnce(ctx context.Context, c *call) {
	at := sessionKey{c.principal.Key.ID, c.person(), c.MessageID}
	c.tracked = &trackedRequest{delivery: h.delivery(c), decided: make(chan struct{})}
	if before := h.recent.findOrAdd(at, c.tracked); before != nil {
		select {
		case <-before.decided:
		case <-ctx.Done():
			c.stream.stop()
			return
		}
		if before.reply != nil {
			c.stream.replay(before.reply)
			return
		}
		c.botAnswers = before.botAnswers
	}
	defer func() {
		c.tracked.decide(c.stream.finishedAnswer(), false)
		h.recent.expire(at, c.tracked)
	}()
	h.dispatch(ctx, c)
}

// handOverToBot leaves the answer, and repeated requests for it, to the hub.
func (c *call) handOverToBot() {
	c.stream.stopRecording()
	c.tracked.decide(nil, true)
}

// delivery returns the identity of a request for the detection of repeats. Pictures count by their
// addresses.
func (h *Handler) delivery(c *call) talk.Delivery {
	t := &talk.Turn{KeyRules: c.principal.Key.Rules, Metadata: c.Metadata, Request: c.requestID,
		Parts: []talk.Part{{Text: c.Text}}}
	for _, addr := range c.Images {
		t.Parts = append(t.Parts, talk.Part{Text: addr})
	}
	return talk.NewDelivery(t, h.Hub.Now())
}

// findOrAdd returns the request that h repeats, or stores h as the last of its conversation.
func (r *recentRequests) findOrAdd(at sessionKey, h *trackedRequest) *trackedRequest {
	r.mu.Lock()
	defer r.mu.Unlock()
	last := r.last[at]
	if last != nil && h.delivery.At.Sub(last.delivery.At) < repeatWindow && h.delivery.Repeats(last.delivery) {
		return last
	}
	if last == nil && len(r.last) >= maxRequests {
		return nil
	}
	if r.last == nil {
		r.last = map[sessionKey]*trackedRequest{}
	}
	r.last[at] = h
	return nil
}

// expire forgets a request after [repeatWindow].
func (r *recentRequests) expire(at sessionKey, h *trackedRequest) {
	time.AfterFunc(repeatWindow, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.last[at] == h {
			delete(r.last, at)
		}
	})
}
