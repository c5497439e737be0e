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

// turn is one question and what was received of its answer. All of it but wake
// and delivered is guarded by hub.mu.
type turn struct {
	id   string
	lang i18n.Lang
	wake chan struct{} // holds one; there is something new for Answer

	conn           *conn       // by which the plugin was last heard, nil while that socket is gone
	sent           bool        // the command was queued
	delivered      atomic.Bool // the command left, or is leaving; else it may be sent again
	disconnectedAt time.Time   // when conn went and the plugin has not been heard since

	text         strings.Builder // all that was received
	emittable    int             // bytes of it that may be emitted
	emitted      int             // bytes of it that were
	chunkCount   int             // chunks
	nextSequence int             // the sequence number to expect
	buffering    bool            // behind a hole, pieces wait for the summary
	bufferUntil  time.Time

	connLost         bool // a socket went while the turn ran
	overlapped       bool // the plugin worked on another turn meanwhile
	leftover         leftover
	leftoverRecorded bool // its text was added to the hub's spill

	ended          bool
	summary        *summary
	settleDeadline time.Time // once ended or summed: when to stop waiting for the other
	settled        bool
	err            error
}

// summary is what a plugin says it has sent.
type summary struct {
	content string
	chunks  int // -1 if it does not say
}

// leftover is text of earlier answers that the plugin has not cleared away: it
// collects what it sends until it sends a summary, and after an error there is
// none. The next summary begins with it.
type leftover struct {
	text      []byte
	uncertain bool // there may be other text than that
}

// maxLeftover bounds how much of it we remember.
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

// Turns that the plugin still works on, as far as we know, although nobody
// waits for them.
const (
	maxInProgress = 64
	// An upstream that says nothing is given up by Node's fetch after 5 minutes.
	inProgressTTL = 15 * time.Minute
	// maxID bounds the ids that are remembered; ours have 36 bytes.
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

// isDone reports whether the turn has failed or settled, so that later frames do not matter.
func (t *turn) isDone() bool { return t.err != nil || t.settled }

// interruptedError returns the failure of a turn whose plugin has disconnected.
func (t *turn) interruptedError(cause string) error {
	code := talk.Lost
	if t.chunkCount == 0 {
		code = talk.Offline
	}
	return talk.Fail(code, "", errors.New(cause))
}

// find returns the turn that a frame belongs to. Whichever socket of the bot it comes
// by, its session id decides; without one it is the only turn that runs on that
// socket. The second result says why there is none. The caller holds h.mu.
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

// onlyTurn is the single turn that frames without a session id can mean.
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

// markInProgress notes that the plugin works on a turn from now on. Whatever else it works
// on at the same time gets mixed up with it. The caller holds h.mu.
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

// onChunk adds a piece of an answer. seq is -1 if the piece has no number.
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

// onSequenceGap is a sequence number that was not expected. Order of arrival counts
// all the same, with one exception: after a lost socket it shows that pieces
// were lost with it. What follows is then kept back for a moment, as the
// summary has it all, and a person who was told the end of a sentence cannot be
// told its middle.
func (h *pluginBot) onSequenceGap(t *turn) {
	if t.overlapped {
		return // the plugin counts for all its turns together
	}
	h.recordAnomaly(anomalySequence)
	if t.connLost && !t.buffering && t.bufferUntil.IsZero() {
		t.buffering, t.bufferUntil = true, time.Now().Add(h.s.opt.Timings.GapWait)
	}
}

// onStrayChunk is a piece that no turn takes. The plugin collects it nevertheless.
func (h *pluginBot) onStrayChunk(session, text string) {
	h.leftover.add(text)
	if _, known := h.inProgress[session]; !known && session != "" && len(session) <= maxID {
		h.markInProgress(session)
	}
}

// onStreamEnd ends an answer, whose summary may still follow.
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

// onSummary records a summary. It also ends the answer if stream_end is missing.
func (h *pluginBot) onSummary(c *conn, session string, s *summary) (dropped string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.leftover = leftover{} // the plugin has begun anew
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

// onError records an error that the plugin, or OpenClaw behind it, reported.
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
	failure, owner := explain(text, t.lang)
	h.recordErrorLocked(owner)
	t.fail(failure)
	return ""
}

// recordLeftover notes that the plugin keeps a turn's text, having sent no summary.
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
