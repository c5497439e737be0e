package openai

import (
	"context"
	"slices"
	"sync"
	"time"

	"patchbay/internal/talk"
	"patchbay/internal/tool"
)

// notePace says when a person who waits for calls is told what goes on.
type notePace struct {
	after time.Duration // from the beginning of the calls to the first note
	every time.Duration // between notes, at least
	still time.Duration // between notes if there is nothing new
}

// usualPace keeps well within the minute after which askers give up on a bot that
// is silent.
var usualPace = notePace{after: 2 * time.Second, every: 8 * time.Second, still: 20 * time.Second}

// maxNote bounds what a tool says about its progress, in characters.
const maxNote = 80

var (
	sayUsing = talk.Say{Zh: "正在使用“%s”…", En: "Using %s…"}
	sayStill = talk.Say{Zh: "还在使用“%s”…", En: "Still using %s…"}
)

// news is what is known of the calls that run. It is safe for concurrent use.
type news struct {
	mu      sync.Mutex
	running []*errand
	message string        // the newest word of a tool about its progress
	told    string        // the one before that the person has heard
	came    chan struct{} // has room for one
}

func newNews() *news { return &news{came: make(chan struct{}, 1)} }

func (n *news) begin(e *errand) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.running = append(n.running, e)
}

func (n *news) end(e *errand) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.running = slices.DeleteFunc(n.running, func(other *errand) bool { return other == e })
}

// progress takes a word of a tool. Only the newest is kept.
func (n *news) progress(p tool.Progress) {
	message := oneLine(p.Message, maxNote)
	n.mu.Lock()
	defer n.mu.Unlock()
	if message == "" || message == n.told || message == n.message {
		return
	}
	n.message = message
	select {
	case n.came <- struct{}{}:
	default: // it is known already that there are news
	}
}

// pending says whether there is a word that the person has not heard.
func (n *news) pending() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.message != ""
}

// note is what the person is told now; empty if nothing runs.
func (n *news) note(first bool, lang talk.Lang) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case n.message != "":
		n.told, n.message = n.message, ""
		return n.told
	case len(n.running) == 0:
		return ""
	case first:
		return sayUsing.In(lang, n.running[0].title)
	}
	return sayStill.In(lang, n.running[0].title)
}

// report tells the person what goes on until the calls are over or ctx ends. It
// is the only one that emits meanwhile.
func (a *answer) report(ctx context.Context, n *news, over <-chan struct{}) error {
	p := a.bot.notePace
	began, first := time.Now(), true
	timer := time.NewTimer(p.after)
	defer timer.Stop()
	for {
		due := a.noted.Add(p.still)
		if first || n.pending() {
			due = later(began.Add(p.after), a.noted.Add(p.every))
		}
		timer.Reset(time.Until(due))
		select {
		case <-over:
			return nil
		case <-ctx.Done():
			return nil
		case <-n.came:
			continue
		case <-timer.C:
		}
		a.noted = time.Now()
		if note := n.note(first, a.turn.Lang); note != "" {
			// Doors show notes in one line with what was said.
			note += "\n"
			if a.texts && !a.newline {
				note = "\n" + note
			}
			if err := a.send(talk.Note(note)); err != nil {
				return err
			}
		}
		first = false
	}
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
