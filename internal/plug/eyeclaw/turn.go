package eyeclaw

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"patchbay/internal/talk"
)

// turn is one question and what was received of its answer. All of it but wake
// and delivered is guarded by hub.mu.
type turn struct {
	id   string
	lang talk.Lang
	wake chan struct{} // holds one; there is something new for Answer

	conn      *conn       // by which the plugin was last heard, nil while that socket is gone
	sent      bool        // the command was queued
	delivered atomic.Bool // the command left, or is leaving; else it may be sent again
	lostAt    time.Time   // when conn went and the plugin has not been heard since

	text     strings.Builder // all that was received
	free     int             // bytes of it that may be emitted
	taken    int             // bytes of it that were
	received int             // chunks
	next     int             // the sequence number to expect
	holding  bool            // behind a hole, pieces wait for the summary
	holdEnd  time.Time

	dropped    bool // a socket went while the turn ran
	overlapped bool // the plugin worked on another turn meanwhile
	spill      spill
	left       bool // its text was added to the hub's spill

	ended    bool
	summary  *summary
	settleBy time.Time // once ended or summed: when to stop waiting for the other
	settled  bool
	err      error
}

// summary is what a plugin says it has sent.
type summary struct {
	content string
	chunks  int // -1 if it does not say
}

// spill is text of earlier answers that the plugin has not cleared away: it
// collects what it sends until it sends a summary, and after an error there is
// none. The next summary begins with it.
type spill struct {
	text   []byte
	unsure bool // there may be other text than that
}

// maxSpill bounds how much of it we remember.
const maxSpill = 256 << 10

func (s *spill) add(text string) {
	if len(s.text)+len(text) > maxSpill {
		s.text, s.unsure = nil, true
		return
	}
	s.text = append(s.text, text...)
}

// copy is what it is now.
func (s *spill) copy() spill {
	return spill{append([]byte(nil), s.text...), s.unsure}
}

// Turns that the plugin still works on, as far as we know, although nobody
// waits for them.
const (
	maxAsked = 64
	// An upstream that says nothing is given up by Node's fetch after 5 minutes.
	askedFor = 15 * time.Minute
	// maxID bounds the ids that are remembered; ours have 36 bytes.
	maxID = 128
)

func (t *turn) poke() {
	select {
	case t.wake <- struct{}{}:
	default:
	}
}

func (t *turn) fail(err error) {
	if t.err == nil {
		t.err = err
	}
	t.poke()
}

// over says that nothing that may still come is of use.
func (t *turn) over() bool { return t.err != nil || t.settled }

// breakOff is the failure of a turn whose plugin went away.
func (t *turn) breakOff(cause string) error {
	code := talk.Lost
	if t.received == 0 {
		code = talk.Offline
	}
	return talk.Fail(code, "", errors.New(cause))
}

// find is the turn that a frame is about. Whichever socket of the bot it comes
// by, its session id decides; without one it is the only turn that runs on that
// socket. The second result says why there is none. The caller holds h.mu.
func (h *hub) find(c *conn, session string) (t *turn, dropped string) {
	if session != "" && session != c.session {
		t = h.turns[session]
		switch _, asked := h.asked[session]; {
		case t != nil && t.sent && !t.over():
		case asked:
			return nil, dropLate
		default:
			return nil, dropUnknownTurn
		}
	} else if t = h.only(c); t == nil {
		return nil, dropUnknownTurn
	}
	t.conn, t.lostAt = c, time.Time{}
	return t, ""
}

// only is the single turn that frames without a session id can mean.
func (h *hub) only(c *conn) *turn {
	var found *turn
	for _, t := range h.turns {
		done := t.over() || t.ended && t.summary != nil
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

// ask notes that the plugin works on a turn from now on. Whatever else it works
// on at the same time gets mixed up with it. The caller holds h.mu.
func (h *hub) ask(id string) {
	now := time.Now()
	var oldest string
	for other, at := range h.asked {
		if h.turns[other] == nil && now.Sub(at) > askedFor {
			delete(h.asked, other)
			continue
		}
		if h.turns[other] == nil && (oldest == "" || at.Before(h.asked[oldest])) {
			oldest = other
		}
	}
	if len(h.asked) >= maxAsked && oldest != "" {
		delete(h.asked, oldest)
	}
	h.asked[id] = now
	if len(h.asked) < 2 {
		return
	}
	for other := range h.asked {
		if t := h.turns[other]; t != nil {
			t.overlapped = true
		}
	}
}

// chunk takes in a piece of an answer. seq is -1 if the piece has no number.
func (h *hub) chunk(c *conn, session, text string, seq int) (dropped string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	t, dropped := h.find(c, session)
	if t == nil {
		h.stray(session, text)
		return dropped
	}
	h.totals.Chunks++
	if t.text.Len()+len(text) > maxAnswer {
		t.fail(talk.Fail(talk.BotFailed, "", fmt.Errorf("the answer is longer than %d MiB", maxAnswer>>20)))
		h.spill.unsure = true
		return ""
	}
	if seq >= 0 && seq != t.next {
		h.irregular(t)
	}
	if seq >= 0 {
		t.next = seq + 1
	}
	t.received++
	t.text.WriteString(text)
	if !t.holding {
		t.free = t.text.Len()
	}
	t.poke()
	return ""
}

// irregular is a sequence number that was not expected. Order of arrival counts
// all the same, with one exception: after a lost socket it shows that pieces
// were lost with it. What follows is then kept back for a moment, as the
// summary has it all, and a person who was told the end of a sentence cannot be
// told its middle.
func (h *hub) irregular(t *turn) {
	if t.overlapped {
		return // the plugin counts for all its turns together
	}
	h.anomaly(anomalySequence)
	if t.dropped && !t.holding && t.holdEnd.IsZero() {
		t.holding, t.holdEnd = true, time.Now().Add(h.s.opt.Timings.Hold)
	}
}

// stray is a piece that no turn takes. The plugin collects it nevertheless.
func (h *hub) stray(session, text string) {
	h.spill.add(text)
	if _, known := h.asked[session]; !known && session != "" && len(session) <= maxID {
		h.ask(session)
	}
}

// ended takes in the end of an answer.
func (h *hub) ended(c *conn, session string) (dropped string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	t, dropped := h.find(c, session)
	if t == nil {
		delete(h.asked, session)
		return dropped
	}
	delete(h.asked, t.id)
	t.ended = true
	h.wind(t)
	return ""
}

// summed takes in a summary. It ends the answer too, should the end be missing.
func (h *hub) summed(c *conn, session string, s *summary) (dropped string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.spill = spill{} // the plugin has begun anew
	t, dropped := h.find(c, session)
	if t == nil {
		delete(h.asked, session)
		return dropped
	}
	delete(h.asked, t.id)
	t.summary = s
	h.wind(t)
	return ""
}

// complete ends an answer that has no summary.
func (h *hub) complete(c *conn, session string) (dropped string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	t, dropped := h.find(c, session)
	if t == nil {
		return dropped
	}
	delete(h.asked, t.id)
	t.ended, t.settleBy = true, time.Now()
	t.poke()
	return ""
}

func (h *hub) wind(t *turn) {
	if t.settleBy.IsZero() {
		t.settleBy = time.Now().Add(h.s.opt.Timings.Settle)
	}
	t.poke()
}

// failed takes in that the plugin, or what is behind it, reported an error.
func (h *hub) failed(c *conn, session, text string) (dropped string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	t, dropped := h.find(c, session)
	if t == nil {
		delete(h.asked, session)
		return dropped
	}
	delete(h.asked, t.id)
	h.leaves(t)
	failure, owner := explain(text, t.lang)
	h.blameLocked(owner)
	t.fail(failure)
	return ""
}

// leaves notes that the plugin keeps a turn's text, having sent no summary.
func (h *hub) leaves(t *turn) {
	if t.left || t.summary != nil {
		return
	}
	t.left = true
	h.spill.add(t.text.String())
	if t.dropped || t.overlapped {
		h.spill.unsure = true
	}
}
