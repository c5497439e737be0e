package openai

import (
	"context"
	"slices"
	"sync"
	"time"

	"patchbay/internal/i18n"
	"patchbay/internal/talk"
	"patchbay/internal/tool"
)

// noteInterval defines when a person who waits for calls gets a progress note.
type noteInterval struct {
	delay        time.Duration // from the start of the calls to the first note
	interval     time.Duration // minimum between notes
	idleInterval time.Duration // between notes without news
}

// defaultNoteInterval stays well below the minute after which askers give up on a silent bot.
var defaultNoteInterval = noteInterval{delay: 2 * time.Second, interval: 8 * time.Second,
	idleInterval: 20 * time.Second}

// maxNote limits a progress message of a tool, in characters.
const maxNote = 80

const (
	msgUsing = i18n.Message("Using %s…")
	msgStill = i18n.Message("Still using %s…")
)

// progressNotes tracks the running calls and their progress. It is safe for concurrent use.
type progressNotes struct {
	mu       sync.Mutex
	running  []*pendingCall
	message  string        // the newest progress message that was not sent
	lastNote string        // the progress message that was sent last
	updated  chan struct{} // capacity 1
}

func newProgressNotes() *progressNotes { return &progressNotes{updated: make(chan struct{}, 1)} }

func (n *progressNotes) begin(e *pendingCall) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.running = append(n.running, e)
}

func (n *progressNotes) end(e *pendingCall) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.running = slices.DeleteFunc(n.running, func(other *pendingCall) bool { return other == e })
}

// progress stores a progress message of a tool. Only the newest is kept.
func (n *progressNotes) progress(p tool.Progress) {
	message := oneLine(p.Message, maxNote)
	n.mu.Lock()
	defer n.mu.Unlock()
	if message == "" || message == n.lastNote || message == n.message {
		return
	}
	n.message = message
	select {
	case n.updated <- struct{}{}:
	default: // already signalled
	}
}

// hasPending reports whether there is a progress message that was not sent.
func (n *progressNotes) hasPending() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.message != ""
}

// note returns the next note for the person, or "" if nothing runs.
func (n *progressNotes) note(first bool, lang i18n.Lang) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case n.message != "":
		n.lastNote, n.message = n.message, ""
		return n.lastNote
	case len(n.running) == 0:
		return ""
	case first:
		return msgUsing.In(lang, n.running[0].title)
	}
	return msgStill.In(lang, n.running[0].title)
}

// reportProgress emits progress notes until the calls are over or ctx ends. Nothing else emits in
// the meantime.
func (a *answer) reportProgress(ctx context.Context, n *progressNotes, over <-chan struct{}) error {
	p := a.bot.noteInterval
	began, first := time.Now(), true
	timer := time.NewTimer(p.delay)
	defer timer.Stop()
	for {
		due := a.lastNoteAt.Add(p.idleInterval)
		if first || n.hasPending() {
			due = latest(began.Add(p.delay), a.lastNoteAt.Add(p.interval))
		}
		timer.Reset(time.Until(due))
		select {
		case <-over:
			return nil
		case <-ctx.Done():
			return nil
		case <-n.updated:
			continue
		case <-timer.C:
		}
		a.lastNoteAt = time.Now()
		note := n.note(first, a.turn.Lang)
		if note == "" {
			continue // no call has begun yet
		}
		first = false
		// Channels append notes to the text before them.
		note += "\n"
		if a.hasText && !a.endsLine {
			note = "\n" + note
		}
		if err := a.send(talk.Note(note)); err != nil {
			return err
		}
	}
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
