package eyeclaw

import (
	"context"
	"errors"
	"strconv"
	"time"

	"patchbay/internal/talk"
)

// How the answers of connectors survive: messages are numbered, acknowledged when they cannot get
// lost any more, and sent again until then, to the next server too.

// handleNumbered handles a message that belongs to an answer of a connector.
func (c *conn) handleNumbered(ident rawJSON, m *message) {
	h, session := c.bot, string(m.SessionID)
	if !h.arrived(c, m) {
		switch m.Type {
		case "stream_chunk":
			c.recordUnmatched(h.onChunk(c, session, m.text(), m.sequence()))
		case "stream_end":
			c.recordUnmatched(h.onComplete(c, session))
		case "stream_error":
			c.recordUnmatched(h.onError(c, session, string(m.Error)))
		}
	}
	if ack, now := h.acknowledgeNow(m); now {
		c.reply(ident, ack)
	}
}

// arrived records that a numbered message has arrived, and reports whether it had before.
func (h *pluginBot) arrived(c *conn, m *message) (again bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	t, seq := h.turns[string(m.SessionID)], m.sequence()
	if t == nil {
		return false
	}
	t.connector.received = max(t.connector.received, seq+1)
	if again = seq >= 0 && seq < t.nextSequence; again {
		h.find(c, t.id)
	}
	return again
}

// acknowledgeNow reports whether to acknowledge a message as soon as it was handled: because it was
// emitted before, or because nobody wants it.
func (h *pluginBot) acknowledgeNow(m *message) (ack ackMessage, now bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	session := string(m.SessionID)
	t := h.turns[session]
	if t == nil {
		left := h.retired || h.unfinished[session]
		if m.Type != "stream_chunk" { // the end: if this process goes on, nobody will want it
			delete(h.unfinished, session)
		}
		return ackMessage{"chunk_received", m.Sequence, session, timestamp()}, !left
	}
	return t.acknowledgement(), m.sequence() < t.connector.taken
}

// restarted has a turn of a connector that has restarted asked again, if nothing was answered yet.
// The caller holds pluginBot.mu.
func (x *connectorTurn) restarted(t *turn) {
	switch {
	case t.ended, !t.delivered.Load(): // it is complete, or is sent again anyway
	case t.chunkCount == 0 && len(x.calls) == 0 && x.askedAgain < maxAskedAgain:
		x.askedAgain++
		t.delivered.Store(false)
	default:
		t.fail(t.interruptedError("the connector was restarted in mid-answer"))
	}
}

// maxAdopted limits how long the rest of an answer is waited for that was cut off.
const maxAdopted = 10 * time.Minute

// adopt takes the rest of an answer that was under way when the server ended. Nobody waits for it
// now, so it is told at the asker's next turn. The tools of the turn have ended with it.
func (h *pluginBot) adopt(c *conn, id string) bool {
	if h.s.opt.Resume == nil {
		return false
	}
	cut := h.s.opt.Resume(h.info.Number, id)
	if cut == nil {
		return false
	}
	t, err := h.openTurn(cut.Turn)
	if err != nil {
		return true // the server stops; the next one gets it
	}
	h.mu.Lock()
	t.conn, t.sent, t.nextSequence = c, true, int(cut.Mark)
	t.delivered.Store(true)
	t.connector.taken, t.connector.received = t.nextSequence, t.nextSequence
	t.connector.askedAgain = maxAskedAgain // it is not asked again
	h.markInProgress(id)
	ctx, cancel := context.WithTimeout(h.s.ctx, maxAdopted)
	t.connector.ctx, t.connector.cancel, t.connector.calls = ctx, cancel, map[string]*callResult{}
	h.mu.Unlock()
	if !h.s.start(func() {
		defer h.closeTurn(t)
		h.collect(ctx, t, cut)
	}) {
		h.leave(t)
		h.closeTurn(t)
	}
	return true
}

// collect takes the rest of an answer until it has ended.
func (h *pluginBot) collect(ctx context.Context, t *turn, cut *talk.Cut) {
	for {
		n := h.next(t)
		switch {
		case n.piece != "":
			cut.Keep(n.piece, n.mark)
			h.acknowledge(t, n.mark)
		case n.done && h.s.ctx.Err() != nil:
			h.leave(t)
			return
		case n.done:
			cut.End(n.err)
			h.acknowledgeEnd(t)
			return
		case n.command != nil, n.note, n.stalled: // for somebody who listens
		default:
			err := t.wait(ctx, n.recheckAfter)
			switch {
			case err == nil:
			case errors.Is(err, context.DeadlineExceeded):
				h.cancel(t)
				cut.End(err)
				return
			default:
				h.leave(t)
				return
			}
		}
	}
}

// leave records that a turn is left to the next server: what comes of it now is not acknowledged.
func (h *pluginBot) leave(t *turn) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.isConnector() {
		h.unfinished[t.id] = true
	}
}

// acknowledge acknowledges the first messages of an answer, as many as were emitted.
func (h *pluginBot) acknowledge(t *turn, taken int64) {
	if taken == 0 {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	t.connector.taken = int(taken)
	t.reply(t.acknowledgement())
}

// acknowledgeEnd acknowledges a whole answer.
func (h *pluginBot) acknowledgeEnd(t *turn) {
	h.mu.Lock()
	received := t.connector.received
	h.mu.Unlock()
	h.acknowledge(t, int64(received))
}

// acknowledgement returns the message that acknowledges what was taken.
func (t *turn) acknowledgement() ackMessage {
	return ackMessage{"chunk_received", strconv.AppendInt(nil, int64(t.connector.taken-1), 10), t.id, timestamp()}
}
