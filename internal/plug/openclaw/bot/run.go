package bot

import (
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"patchbay/internal/plug/openclaw/wire"
)

// maxText limits the kept text of an answer, in bytes, a little above the hub's limit. The rest
// is dropped.
const maxText = 9 << 20

// minTruncated is the length above which gateways may cut the text that accompanies each delta;
// OpenClaw keeps 500,000 characters.
const minTruncated = 100_000

// stopRestart is the stop reason of a run aborted by a gateway restart
// (packages/normalization-core/src/agent-run-terminal-outcome.ts).
const stopRestart = "restart"

// run is an active answer. It is safe for concurrent use.
type run struct {
	id, session string
	continuedBy string        // id of the run that resumes it; guarded by the link's lock
	changed     chan struct{} // signals a change

	mu   sync.Mutex
	text string          // answer so far
	end  *wire.ChatEvent // last event; nil: active
}

func newRun(id, session string) *run {
	return &run{id: id, session: session, changed: make(chan struct{}, 1)}
}

// handleEvent applies an event. It ignores events after the last one, because gateways report
// failures twice.
func (r *run) handleEvent(e *wire.ChatEvent) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.end != nil {
		return
	}
	switch {
	case e.State == wire.ChatDelta:
		r.setText(applyDelta(r.text, e))
	case e.State == wire.ChatError:
		r.end = e
	case e.State == wire.ChatAborted && e.StopReason == stopRestart:
		return // the gateway resumes it afterwards
	case e.IsLast():
		if text := e.Text(); text != "" {
			r.setText(text)
		}
		r.end = e
	}
	r.notify()
}

// mergeHistory applies the gateway's history, which may be older than the events received
// meanwhile.
func (r *run) mergeHistory(text string, end *wire.ChatEvent) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.end != nil {
		return
	}
	if _, less := extension(text, r.text); end != nil && text != "" || !less {
		r.setText(text)
	}
	r.end = end
	r.notify()
}

func (r *run) notify() {
	select {
	case r.changed <- struct{}{}:
	default:
	}
}

// setText sets the text. The caller holds mu.
func (r *run) setText(text string) {
	if len(text) <= maxText {
		r.text = text
	}
}

// snapshot returns the answer so far, and its last event.
func (r *run) snapshot() (string, *wire.ChatEvent) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text, r.end
}

// applyDelta returns the text after a delta event. The event has the new text and usually all
// text before it, so that a lost delta does no harm. Gateways truncate very long answers.
func applyDelta(text string, e *wire.ChatEvent) string {
	next := text + e.Delta
	if e.Replace {
		next = e.Delta
	}
	all := e.Text()
	if all == "" || len(all) < len(next) && len(all) >= minTruncated &&
		(strings.HasSuffix(next, all) || strings.HasPrefix(next, all)) {
		return next
	}
	return all
}

// extension reports whether a text continues the known one, and returns the rest. White space is
// ignored: gateways trim texts, and join their parts, in several ways.
func extension(known, text string) (more string, ok bool) {
	if rest, ok := strings.CutPrefix(text, known); ok {
		return rest, true
	}
	space := false // the known text ends in white space
	for known != "" {
		r, n := utf8.DecodeRuneInString(known)
		if space = unicode.IsSpace(r); space {
			known = known[n:]
			continue
		}
		text = strings.TrimLeftFunc(text, unicode.IsSpace)
		if !strings.HasPrefix(text, known[:n]) {
			return "", false
		}
		known, text = known[n:], text[n:]
	}
	if space {
		text = strings.TrimLeftFunc(text, unicode.IsSpace)
	}
	return text, true
}
