package xiaozhi

import (
	"context"
	"sync"
	"time"
)

// EventKind is the kind of an [Event].
type EventKind uint8

// The kinds of events.
const (
	// EventAudio is an Opus packet, in Event.Opus, received while the board listens.
	EventAudio EventKind = iota + 1
	// EventWakeAudio is a packet of the wake word's sound. It can identify the speaker and is
	// not part of the question.
	EventWakeAudio
	// EventWakeWord reports that the wake word was heard, in Event.Text.
	EventWakeWord
	// EventText is a typed text, in Event.Text.
	EventText
	// EventListenStart reports that the board begins to listen; Event.Text is the mode.
	EventListenStart
	// EventListenStop reports that the button was released: the question is complete.
	EventListenStop
	// EventAbort reports an interruption; Event.Text is the reason. Playback has been stopped
	// already.
	EventAbort
	// EventSpeechBegan and EventSpeechEnded report that a bot that converses by sound found speech.
	EventSpeechBegan
	EventSpeechEnded
	// EventPhoto reports that the bot wants to see what is before the board's camera.
	EventPhoto
)

// Event is something that happened in a conversation.
type Event struct {
	Kind EventKind
	At   time.Time
	Text string
	Opus []byte // valid until the next call of [Conversation.Next]
}

const (
	// maxEvents limits the queued audio events: eight seconds of sound. When the queue is full,
	// the oldest packet is dropped and counted.
	maxEvents = 128
	// maxControls limits the other queued events. A board that sends more while the voice is
	// busy has them dropped.
	maxControls = 64
)

// eventQueue is the queue between a board and its voice. Packets are copied into reused memory.
type eventQueue struct {
	mu       sync.Mutex
	queue    []Event
	controls int
	free     [][]byte
	current  []byte // packet of the event that next returned last
	closed   bool
	ready    chan struct{} // has a token after an event was added
}

func newEventQueue() *eventQueue { return &eventQueue{ready: make(chan struct{}, 1)} }

// close drops all events, and all later ones: the voice has returned.
func (e *eventQueue) close() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.closed, e.queue, e.free, e.current = true, nil, nil, nil
}

// pushControl adds an event that is not audio.
func (e *eventQueue) pushControl(h Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed || e.controls == maxControls {
		return
	}
	e.controls++
	e.queue = append(e.queue, h)
	e.wake()
}

// pushAudio adds an audio event and reports whether an older one was dropped for it.
func (e *eventQueue) pushAudio(h Event, packet []byte) (dropped bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return false
	}
	if len(e.queue)-e.controls >= maxEvents {
		e.dropOldest()
		dropped = true
	}
	var buf []byte
	if n := len(e.free); n > 0 {
		buf, e.free = e.free[n-1], e.free[:n-1]
	}
	h.Opus = append(buf[:0], packet...)
	e.queue = append(e.queue, h)
	e.wake()
	return dropped
}

// hasAudio reports whether audio waits for the voice.
func (e *eventQueue) hasAudio() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.queue) > e.controls
}

func (e *eventQueue) dropOldest() {
	for i, h := range e.queue {
		if h.Opus != nil {
			e.free = append(e.free, h.Opus)
			e.queue = append(e.queue[:i], e.queue[i+1:]...)
			return
		}
	}
}

func (e *eventQueue) wake() {
	select {
	case e.ready <- struct{}{}:
	default: // a token is there already
	}
}

// next waits for the next event. The error is ctx's cause.
func (e *eventQueue) next(ctx context.Context) (Event, error) {
	for {
		e.mu.Lock()
		if e.current != nil {
			e.free, e.current = append(e.free, e.current), nil
		}
		if len(e.queue) > 0 {
			h := e.queue[0]
			e.queue = append(e.queue[:0], e.queue[1:]...) // short, and keeps its capacity
			if e.current = h.Opus; h.Opus == nil {
				e.controls--
			}
			e.mu.Unlock()
			return h, nil
		}
		e.mu.Unlock()
		select {
		case <-e.ready:
		case <-ctx.Done():
			return Event{}, context.Cause(ctx)
		}
	}
}
