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

// noteInterval says when a person who waits for calls is told what goes on.
type noteInterval struct {
	delay        time.Duration // from the beginning of the calls to the first note
	interval     time.Duration // between notes, at least
	idleInterval time.Duration // between notes if there is nothing new
}

// defaultNoteInterval keeps well within the minute after which askers give up on a bot that
// is silent.
var defaultNoteInterval = noteInterval{delay: 2 * time.Second, interval: 8 * time.Second,
	idleInterval: 20 * time.Second}

// maxNote bounds what a tool says about its progress, in characters.
const maxNote = 80

const (
	msgUsing = i18n.Message("Using %s…")
	msgStill = i18n.Message("Still using %s…")
)

// progressNotes is what is known of the calls that run. It is safe for concurrent use.
type progressNotes struct {
	mu       sync.Mutex
	running  []*pendingCall
	message  string        // the newest word of a tool about its progress
	lastNote string        // the one before that the person has heard
	updated  chan struct{} // has room for one
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

// progress takes a word of a tool. Only the newest is kept.
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
	default: // it is known already that there are news
	}
}

// hasPending reports whether there is a word that the person has not heard.
func (n *progressNotes) hasPending() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.message != ""
}

// note is what the person is told now; empty if nothing runs.
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

// reportProgress tells the person what goes on until the calls are over or ctx ends. It
// is the only one that emits meanwhile.
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
		if note := n.note(first, a.turn.Lang); note != "" {
			// Channels show notes in one line with what was said.
			note += "\n"
			if a.hasText && !a.endsLine {
				note = "\n" + note
			}
			if err := a.send(talk.Note(note)); err != nil {
				return err
			}
		}
		first = false
	}
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
