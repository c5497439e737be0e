package eyeclaw

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"patchbay/internal/i18n"
	"patchbay/internal/talk"
)

// turn is one question and the received part of its answer. All fields but wake and delivered are
// guarded by pluginBot.mu.
type turn struct {
	id   string
	lang i18n.Lang
	wake chan struct{} // capacity 1; there is news for Answer

	conn           *conn       // socket of the plugin's last frame; nil while that socket is gone
	sent           bool        // the command was queued
	delivered      atomic.Bool // the command was or is being written; else it may be sent again
	disconnectedAt time.Time   // when conn was lost, if no frame came since
	stalled        bool        // the next question may start
	noted          bool        // the asker was told that the connection broke

	text         strings.Builder // everything received
	emittable    int             // bytes of it that may be emitted
	emitted      int             // bytes of it that were emitted
	chunkCount   int             // chunks
	nextSequence int             // expected sequence number
	buffering    bool            // after a gap, chunks are held back for the summary
	bufferUntil  time.Time

	connLost         bool // a socket was lost during the turn
	overlapped       bool // the plugin worked on another turn at the same time
	leftover         leftover
	leftoverRecorded bool // its text was added to pluginBot.leftover

	ended          bool
	summary        *summary
	settleDeadline time.Time // when to stop waiting for the summary, or for the end
	settled        bool
	err            error

	connector connectorTurn
}

// summary is the plugin's summary of what it has sent.
type summary struct {
	content string
	chunks  int // -1 if missing
}

// leftover is text of earlier answers that the plugin has not cleared: it collects what it sends
// until it sends a summary, and it sends none after an error (measured with plugin 2.4.0). The next
// summary begins with this text.
type leftover struct {
	text      []byte
	uncertain bool // there may be other text
}

// maxLeftover limits the leftover text that is stored, in bytes.
const maxLeftover = 256 << 10

func (s *leftover) add(text string) {
	if len(s.text)+len(text) > maxLeftover {
		s.text, s.uncertain = nil, true
		return
	}
	s.text = append(s.text, text...)
}

// copy returns a copy of the current state.
func (s *leftover) copy() leftover {
	return leftover{append([]byte(nil), s.text...), s.uncertain}
}

// Limits of the turns that the plugin still works on although nobody waits for them.
const (
	maxInProgress = 64
	// Node's fetch gives up a silent upstream after 5 minutes (undici, bodyTimeout).
	inProgressTTL = 15 * time.Minute
	// maxID limits the ids that are remembered, in bytes; ours have 36.
	maxID = 128
)

func (t *turn) notify() {
	select {
	case t.wake <- struct{}{}:
	default:
	}
}

func (t *turn) fail(err error) {
	if t.err == nil {
		t.err = err
	}
	t.notify()
}

// isDone reports whether the turn has failed or settled, so that later frames have no effect.
func (t *turn) isDone() bool { return t.err != nil || t.settled }

// interruptedError returns the failure of a turn whose plugin has disconnected.
func (t *turn) interruptedError(cause string) error {
	code := talk.Lost
	if t.chunkCount == 0 {
		code = talk.Offline
	}
	return talk.Fail(code, "", errors.New(cause))
}

// find returns the turn of a frame. The session id decides, whichever socket of the bot the frame
// comes from; without one it is the only turn that runs on that socket. dropped is the reason if
// there is no turn. The caller holds h.mu.
func (h *pluginBot) find(c *conn, session string) (t *turn, dropped string) {
	if session != "" && session != c.session {
		t = h.turns[session]
		switch _, asked := h.inProgress[session]; {
		case t != nil && t.sent && !t.isDone():
		case asked:
			return nil, dropLate
		default:
			return nil, dropUnknownTurn
		}
	} else if t = h.onlyTurn(c); t == nil {
		return nil, dropUnknownTurn
	}
	t.conn, t.disconnectedAt = c, time.Time{}
	return t, ""
}

// onlyTurn returns the single turn that a frame without a session id can belong to, or nil.
func (h *pluginBot) onlyTurn(c *conn) *turn {
	var found *turn
	for _, t := range h.turns {
		done := t.isDone() || t.ended && t.summary != nil
		if done || !t.sent || t.conn != nil && t.conn != c {
			continue
		}
		if found != nil {
			return nil
		}
		found = t
	}
	return found
}

// markInProgress records that the plugin works on a turn. Other turns that it works on at the same
// time get mixed up with it. The caller holds h.mu.
func (h *pluginBot) markInProgress(id string) {
	now := time.Now()
	var oldest string
	for other, at := range h.inProgress {
		if h.turns[other] == nil && now.Sub(at) > inProgressTTL {
			delete(h.inProgress, other)
			continue
		}
		if h.turns[other] == nil && (oldest == "" || at.Before(h.inProgress[oldest])) {
			oldest = other
		}
	}
	if len(h.inProgress) >= maxInProgress && oldest != "" {
		delete(h.inProgress, oldest)
	}
	h.inProgress[id] = now
	if len(h.inProgress) < 2 {
		return
	}
	for other := range h.inProgress {
		if t := h.turns[other]; t != nil {
			t.overlapped = true
		}
	}
}

// onChunk adds a chunk to its turn. seq is -1 if the chunk has no number.
func (h *pluginBot) onChunk(c *conn, session, text string, seq int) (dropped string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	t, dropped := h.find(c, session)
	if t == nil {
		h.onStrayChunk(session, text)
		return dropped
	}
	h.totals.Chunks++
	if t.text.Len()+len(text) > maxAnswer {
		t.fail(talk.Fail(talk.BotFailed, "", fmt.Errorf("the answer is longer than %d MiB", maxAnswer>>20)))
		h.leftover.uncertain = true
		return ""
	}
	if seq >= 0 && seq != t.nextSequence {
		h.onSequenceGap(t)
	}
	if seq >= 0 {
		t.nextSequence = seq + 1
	}
	t.chunkCount++
	t.text.WriteString(text)
	if !t.buffering {
		t.emittable = t.text.Len()
	}
	t.notify()
	return ""
}

// onSequenceGap handles an unexpected sequence number. The order of arrival still counts, with one
// exception: after a lost socket, the gap shows that chunks were lost with it. The following chunks
// are then held back for [Timings].GapWait, because the summary contains the lost text, and text
// cannot be inserted before text that was emitted.
func (h *pluginBot) onSequenceGap(t *turn) {
	if t.overlapped {
		return // the plugin has one counter for all its turns
	}
	h.recordAnomaly(anomalySequence)
	if t.connLost && !t.buffering && t.bufferUntil.IsZero() {
		t.buffering, t.bufferUntil = true, time.Now().Add(h.s.opt.Timings.GapWait)
	}
}

// onStrayChunk handles a chunk without a turn. The plugin collects its text nevertheless.
func (h *pluginBot) onStrayChunk(session, text string) {
	h.leftover.add(text)
	if _, known := h.inProgress[session]; !known && session != "" && len(session) <= maxID {
		h.markInProgress(session)
	}
}

// onStreamEnd ends an answer. Its summary may still follow.
func (h *pluginBot) onStreamEnd(c *conn, session string) (dropped string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	t, dropped := h.find(c, session)
	if t == nil {
		delete(h.inProgress, session)
		return dropped
	}
	delete(h.inProgress, t.id)
	t.ended = true
	h.startSettling(t)
	return ""
}

// onSummary stores a summary. It also ends the answer if stream_end is missing.
func (h *pluginBot) onSummary(c *conn, session string, s *summary) (dropped string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.leftover = leftover{} // the plugin has cleared its text
	t, dropped := h.find(c, session)
	if t == nil {
		delete(h.inProgress, session)
		return dropped
	}
	delete(h.inProgress, t.id)
	t.summary = s
	h.startSettling(t)
	return ""
}

// onComplete ends an answer that has no summary.
func (h *pluginBot) onComplete(c *conn, session string) (dropped string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	t, dropped := h.find(c, session)
	if t == nil {
		return dropped
	}
	delete(h.inProgress, t.id)
	t.ended, t.settleDeadline = true, time.Now()
	t.notify()
	return ""
}

func (h *pluginBot) startSettling(t *turn) {
	if t.settleDeadline.IsZero() {
		t.settleDeadline = time.Now().Add(h.s.opt.Timings.SettleWait)
	}
	t.notify()
}

// onError handles an error that the plugin, or OpenClaw behind it, reported.
func (h *pluginBot) onError(c *conn, session, text string) (dropped string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	t, dropped := h.find(c, session)
	if t == nil {
		delete(h.inProgress, session)
		return dropped
	}
	delete(h.inProgress, t.id)
	h.recordLeftover(t)
	if h.isConnector() && text == interruptedByAsker {
		t.fail(talk.Fail(talk.BotFailed, msgStopped.In(t.lang), errors.New("the asker asked something else")))
		return ""
	}
	failure, owner := explain(text, t.lang)
	h.recordErrorLocked(owner)
	t.fail(failure)
	return ""
}

// recordLeftover records that the plugin keeps a turn's text, because it sent no summary.
func (h *pluginBot) recordLeftover(t *turn) {
	if t.leftoverRecorded || t.summary != nil {
		return
	}
	t.leftoverRecorded = true
	h.leftover.add(t.text.String())
	if t.connLost || t.overlapped {
		h.leftover.uncertain = true
	}
}
