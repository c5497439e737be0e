package bot

import (
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"patchbay/internal/plug/openclaw/wire"
)

// maxText bounds what is kept of an answer, in bytes; it is a little more than the
// board lets through. What comes after is dropped.
const maxText = 9 << 20

// leastCut is above which length gateways may cut the text that comes with each
// delta; OpenClaw keeps 500,000 characters.
const leastCut = 100_000

// stopRestart is why a run is aborted when the gateway restarts.
const stopRestart = "restart"

// run is an answer that is being given. It is safe for concurrent use.
type run struct {
	id, session string
	later       string        // the id of the run that goes on with it; the line's lock is its lock
	news        chan struct{} // something has changed

	mu   sync.Mutex
	text string          // everything the agent has said so far
	end  *wire.ChatEvent // how it has ended; nil: it has not
}

func newRun(id, session string) *run {
	return &run{id: id, session: session, news: make(chan struct{}, 1)}
}

// take takes an event. After the first that is the last there are no others, though
// gateways tell about failures twice.
func (r *run) take(e *wire.ChatEvent) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.end != nil {
		return
	}
	switch {
	case e.State == wire.ChatDelta:
		r.set(grown(r.text, e))
	case e.State == wire.ChatError:
		r.end = e
	case e.State == wire.ChatAborted && e.StopReason == stopRestart:
		return // the gateway goes on with it afterwards
	case e.Last():
		if text := e.Text(); text != "" {
			r.set(text)
		}
		r.end = e
	}
	r.tell()
}

// learn takes what the gateway has on record. It is not newer than the events that
// came meanwhile.
func (r *run) learn(text string, end *wire.ChatEvent) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.end != nil {
		return
	}
	if _, less := extends(text, r.text); end != nil && text != "" || !less {
		r.set(text)
	}
	r.end = end
	r.tell()
}

func (r *run) tell() {
	select {
	case r.news <- struct{}{}:
	default:
	}
}

// set is with mu held.
func (r *run) set(text string) {
	if len(text) <= maxText {
		r.text = text
	}
}

// so is what was said so far, and how it has ended.
func (r *run) so() (string, *wire.ChatEvent) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text, r.end
}

// grown is what was said after a delta. It says what is new, and mostly everything
// before as well, so that nothing is missing if another delta was lost. Of very long
// answers gateways leave something out.
func grown(text string, e *wire.ChatEvent) string {
	next := text + e.Delta
	if e.Replace {
		next = e.Delta
	}
	all := e.Text()
	if all == "" || len(all) < len(next) && len(all) >= leastCut && (strings.HasSuffix(next, all) || strings.HasPrefix(next, all)) {
		return next
	}
	return all
}

// extends says whether a text begins with what was told already, and what comes
// after. Space does not count: gateways trim texts, and join their parts, in several
// ways.
func extends(told, text string) (more string, ok bool) {
	if rest, ok := strings.CutPrefix(text, told); ok {
		return rest, true
	}
	space := false // the last thing that was told
	for told != "" {
		r, n := utf8.DecodeRuneInString(told)
		if space = unicode.IsSpace(r); space {
			told = told[n:]
			continue
		}
		text = strings.TrimLeftFunc(text, unicode.IsSpace)
		if !strings.HasPrefix(text, told[:n]) {
			return "", false
		}
		told, text = told[n:], text[n:]
	}
	if space {
		text = strings.TrimLeftFunc(text, unicode.IsSpace)
	}
	return text, true
}
