package engine

import (
	"context"
	"time"
)

// slotWait is how long an utterance or a speech waits for a slot before the next engine is used.
const slotWait = 500 * time.Millisecond

// Slots limits how many utterances and speeches use an engine at a time, for accounts and machines
// that take only so many. All chains that have the engine share it. Nil limits nothing.
type Slots struct{ taken chan struct{} }

// NewSlots returns n slots.
func NewSlots(n int) *Slots { return &Slots{make(chan struct{}, n)} }

// acquire waits for a slot. When there is none in time, the error is of class [Busy].
func (s *Slots) acquire(ctx context.Context) error {
	if s == nil {
		return nil
	}
	timer := time.NewTimer(slotWait)
	defer timer.Stop()
	select {
	case s.taken <- struct{}{}:
		return nil
	case <-timer.C:
		return Errorf(Busy, "%d others use the engine, which is its limit", cap(s.taken))
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (s *Slots) release() {
	if s != nil {
		<-s.taken
	}
}

// listen begins an utterance as soon as there is a slot.
func (l *Link) listen(ctx context.Context, h Hints) (Utterance, error) {
	if err := l.Slots.acquire(ctx); err != nil {
		return nil, err
	}
	u, err := l.Listener.Listen(ctx, h)
	if err != nil {
		l.Slots.release()
	}
	return u, err
}

// speak begins a speech as soon as there is a slot.
func (l *Link) speak(ctx context.Context, m Manner) (Speech, error) {
	if err := l.Slots.acquire(ctx); err != nil {
		return nil, err
	}
	s, err := l.Speaker.Speak(ctx, m)
	if err != nil {
		l.Slots.release()
		return nil, err
	}
	if l.Spell != nil {
		s = &spelledSpeech{Speech: s, spell: func(text string) string { return l.Spell(text, m.Language) }}
	}
	return s, nil
}
