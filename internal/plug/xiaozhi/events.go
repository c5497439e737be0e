package xiaozhi

import (
	"context"
	"sync"
	"time"
)

// HeardKind says what happened in a conversation.
type HeardKind uint8

// What happens in a conversation.
const (
	// HeardSound is a packet of Opus, in Heard.Opus, while the board listens.
	HeardSound HeardKind = iota + 1
	// HeardWakeSound is a packet in which the wake word was said: who speaks can be
	// told from it, and it is no part of what is asked.
	HeardWakeSound
	// HeardWake is that the wake word was heard, in Heard.Text.
	HeardWake
	// HeardText is something that was typed, in Heard.Text.
	HeardText
	// HeardBegin is that the board listens from now on; Heard.Text is the mode.
	HeardBegin
	// HeardEnd is that the button was let go, and that all was said.
	HeardEnd
	// HeardAbort is that somebody wants quiet; Heard.Text is the reason. What was said
	// has been stopped by then.
	HeardAbort
)

// Heard is something that happened in a conversation.
type Heard struct {
	Kind HeardKind
	At   time.Time
	Text string
	Opus []byte // valid until the next call of [Conversation.Next]
}

const (
	// maxEvents is how many events wait for a voice that is busy: eight seconds of
	// sound. When it is full, the oldest sound is dropped, and counted.
	maxEvents = 128
	// maxControls is how many events that are no sound wait beside them. A board that
	// says more than that while nobody listens is not listened to.
	maxControls = 64
)

// events is the queue between a board and the voice that listens to it. Sounds are
// copied into memory that is used again.
type events struct {
	mu       sync.Mutex
	queue    []Heard
	controls int
	free     [][]byte
	taken    []byte // what the listener looks at now
	closed   bool
	ready    chan struct{} // has a token if something came
}

func newEvents() *events { return &events{ready: make(chan struct{}, 1)} }

// close says that nobody listens.
func (e *events) close() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.closed, e.queue, e.free, e.taken = true, nil, nil, nil
}

// control adds what is no sound.
func (e *events) control(h Heard) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed || e.controls == maxControls {
		return
	}
	e.controls++
	e.queue = append(e.queue, h)
	e.wake()
}

// sound adds a sound, and says whether one was dropped for it.
func (e *events) sound(h Heard, packet []byte) (dropped bool) {
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

func (e *events) dropOldest() {
	for i, h := range e.queue {
		if h.Opus != nil {
			e.free = append(e.free, h.Opus)
			e.queue = append(e.queue[:i], e.queue[i+1:]...)
			return
		}
	}
}

func (e *events) wake() {
	select {
	case e.ready <- struct{}{}:
	default: // it is awake
	}
}

// next waits for an event.
func (e *events) next(ctx context.Context) (Heard, error) {
	for {
		e.mu.Lock()
		if e.taken != nil {
			e.free, e.taken = append(e.free, e.taken), nil
		}
		if len(e.queue) > 0 {
			h := e.queue[0]
			e.queue = append(e.queue[:0], e.queue[1:]...) // it is short, and keeps its memory
			if e.taken = h.Opus; h.Opus == nil {
				e.controls--
			}
			e.mu.Unlock()
			return h, nil
		}
		e.mu.Unlock()
		select {
		case <-e.ready:
		case <-ctx.Done():
			return Heard{}, context.Cause(ctx)
		}
	}
}
