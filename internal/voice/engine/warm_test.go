package engine_test

import (
	"context"
	"testing"

	"patchbay/internal/voice/engine"
)

// warmer is a listener and a speaker that counts its calls.
type warmer struct {
	engine.SpeakLive
	engine.ListenLive
	calls int
}

func (w *warmer) Warm(context.Context) { w.calls++ }

// TestWarm checks which engines of a chain are warmed.
func TestWarm(t *testing.T) {
	var listener, speaker, next warmer
	c := engine.Chain{Links: []engine.Link{
		{Engine: engine.Engine{Listener: &listener}},
		{Engine: engine.Engine{Listener: &next, Speaker: &speaker}},
		{Engine: engine.Engine{Speaker: &next}},
	}}
	c.Warm(t.Context())
	if listener.calls != 1 || speaker.calls != 1 || next.calls != 0 {
		t.Errorf("warmed %d, %d and %d times", listener.calls, speaker.calls, next.calls)
	}
}
