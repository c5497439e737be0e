package xiaozhi_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"patchbay/internal/plug/xiaozhi/sim"
	"patchbay/internal/plug/xiaozhi/wire"
	events "patchbay/internal/voice/realtime"
	"patchbay/internal/voice/realtime/realtimetest"
)

// loudspeaker notes what a board plays.
type loudspeaker struct {
	mu      sync.Mutex
	begins  []time.Time // of the packets of the answer
	last    []time.Time // those of the last one that has ended
	stopped time.Time   // when it ended
}

func (l *loudspeaker) play(at time.Time, _ []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.begins = append(l.begins, at)
}

func (l *loudspeaker) onEvent(e sim.Event) {
	if e.Kind != sim.EventState {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.begins) > 0 {
		l.last, l.stopped, l.begins = l.begins, e.At, nil
	}
}

// until returns how much of the last answer was played until a time, and by how much the sound
// came too late.
func (l *loudspeaker) until(at time.Time) (played, late time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, begins := range l.last {
		played += min(max(at.Sub(begins), 0), 60*time.Millisecond)
		if i > 0 {
			late += begins.Sub(l.last[i-1]) - 60*time.Millisecond
		}
	}
	return played, late
}

// TestDuplexCut interrupts answers by the button and by speech: the provider is told where, as the
// board has played it.
func TestDuplexCut(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{wire.ModeAuto, wire.ModeRealtime} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			ctx := limit(t, 2*time.Minute)
			long := "One fish is here already. Two fish are over there now. Red fish swim behind the blue one."
			var l loudspeaker
			_, b, service := newDuplex(ctx, t, realtimetest.Options{Spelling: events.OpenAI,
				Answer: func(realtimetest.Question) realtimetest.Answer { return realtimetest.Answer{Text: long} },
			}, false, sim.Options{Mode: mode, Play: l.play, OnEvent: l.onEvent}, nil)
			const tries = 3
			for i := range tries {
				played, late := cutAnswer(ctx, t, b, &l)
				all := service.Await(t, "a truncation",
					func(all []realtimetest.Session) bool { return len(all[0].Truncations) > i })
				cut := all[0].Truncations[i]
				t.Logf("cut at %s, played %s, late %s", cut.At, played, late)
				if off := (cut.At - played).Abs(); off <= 60*time.Millisecond+late {
					break
				} else if i == tries-1 { // the machine is not as busy each time
					t.Errorf("cut at %s, and the board had played %s", cut.At, played)
				}
			}
			clean(t, b)
		})
	}
}

// cutAnswer asks, interrupts the answer in its second sentence, and returns how much the board has
// played, and how much of that may be wrong because something took long.
func cutAnswer(ctx context.Context, t *testing.T, b *sim.Board, l *loudspeaker) (played, late time.Duration) {
	t.Helper()
	before := b.View().Answers
	if b.View().State == sim.Idle {
		must(t, b.Press(ctx))
	}
	must(t, b.Talk(ctx, spoken(t)))
	_, err := b.Await(ctx, func(v sim.View) bool { return v.State == sim.Speaking && strings.HasPrefix(v.Displayed, "Two") })
	must(t, err)
	var at time.Time
	if b.View().Listening {
		must(t, b.Talk(ctx, spoken(t)))
	} else {
		at = time.Now()
		must(t, b.Abort(ctx))
	}
	_, err = b.Await(ctx, func(v sim.View) bool { return v.Answers > before })
	must(t, err)
	l.mu.Lock()
	stopped := l.stopped
	l.mu.Unlock()
	if at.IsZero() {
		return l.until(stopped)
	}
	played, late = l.until(at)
	return played, late + stopped.Sub(at)
}
