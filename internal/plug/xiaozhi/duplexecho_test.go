package xiaozhi_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"patchbay/internal/netx"
	"patchbay/internal/plug/xiaozhi/sim"
	"patchbay/internal/plug/xiaozhi/wire"
	"patchbay/internal/voice/engine"
	events "patchbay/internal/voice/realtime"
	"patchbay/internal/voice/realtime/realtimetest"
)

// loudSound returns how much of a sound is not quiet.
func loudSound(samples []int16) (length time.Duration) {
	const piece = engine.Rate / 50
	for ; len(samples) >= piece; samples = samples[piece:] {
		sum := 0
		for _, s := range samples[:piece] {
			sum += int(s) * int(s)
		}
		if sum > piece*150*150 {
			length += 20 * time.Millisecond
		}
	}
	return length
}

// detector returns what finds speech in sound that comes in pieces: 100 ms that are not quiet, and
// half a second that is.
func detector() func([]int16) realtimetest.Detected {
	var loud, quiet time.Duration
	speaks := false
	return func(samples []int16) realtimetest.Detected {
		length := time.Duration(len(samples)) * time.Second / engine.Rate
		if l := loudSound(samples); l > 0 {
			loud, quiet = loud+l, 0
		} else if quiet += length; quiet >= 500*time.Millisecond {
			loud = 0
		}
		switch {
		case !speaks && loud >= 100*time.Millisecond:
			speaks = true
			return realtimetest.SpeechBegan
		case speaks && loud == 0:
			speaks = false
			return realtimetest.SpeechEnded
		}
		return realtimetest.NothingNew
	}
}

// realTime is a test that needs a machine which is quick enough for sound: what goes wrong on one
// that stands still meanwhile is no fault.
type realTime struct {
	*testing.T
	meter *sim.Meter

	mu    sync.Mutex
	wrong []string
}

// mostStalled is how long the process may stand still in a test in real time.
const mostStalled = 300 * time.Millisecond

func newRealTime(t *testing.T) *realTime {
	r := &realTime{T: t, meter: sim.NewMeter()}
	t.Cleanup(r.meter.Close)
	return r
}

// Errorf notes what is wrong.
func (r *realTime) Errorf(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.wrong = append(r.wrong, fmt.Sprintf(format, args...))
}

// judge fails the test if something was wrong, or skips it if the machine was too slow.
func (r *realTime) judge() {
	r.mu.Lock()
	wrong := r.wrong
	r.wrong = nil
	r.mu.Unlock()
	if stalled := r.meter.Stalled(); len(wrong) > 0 && stalled > mostStalled {
		r.Skipf("the machine is too slow for sound: it stood still for %v; so that %q", stalled, wrong)
	}
	for _, text := range wrong {
		r.Error(text)
	}
}

// TestDuplexEcho has a board without echo cancellation talk with a realtime model, and hear the
// model's answers. It must neither interrupt them nor have the model hear itself, whoever finds the
// speech, and has to hear somebody who says "stop". With CHECK_ALL, it speaks for ten minutes, and
// most stops have to come within 700 ms.
func TestDuplexEcho(t *testing.T) {
	t.Parallel()
	answers, stops, echoes := 1, 1, []float64{-6}
	if os.Getenv("CHECK_ALL") != "" {
		answers, stops, echoes = 44, 10, []float64{-20, -10, -6}
	}
	const question = "tell me a story about a dog"
	parts := []string{"Turn on the light in the kitchen.", "What is the weather today.", "Please take a photo.",
		"Set the volume to fifty.", "Good morning.", "What time is it now."}
	for _, detection := range []string{"", "server"} {
		for _, decibels := range echoes {
			t.Run(fmt.Sprintf("%s %g dB", detection, decibels), func(t *testing.T) {
				t.Parallel()
				rt := newRealTime(t)
				defer rt.judge()
				ctx := limit(t, time.Duration(answers+stops)*25*time.Second)
				r := newRoom(ctx, t, decibels)
				whole := strings.Join(parts, " ")
				if answers > 1 {
					whole += " " + whole
				}
				var said atomic.Value // what the person said last
				var asked atomic.Int32
				_, b, service := newDuplex(ctx, t, realtimetest.Options{Spelling: events.OpenAI, Detect: detector(),
					Transcript: func(samples []int16) string {
						text := said.Load().(string)
						length := time.Duration(len(r.speech[text])) * time.Second / engine.Rate
						// After an interruption, the board plays a moment longer.
						if got := loudSound(samples); got > length+time.Second || got < length/3 {
							rt.Errorf("of %q, the model heard %s", text, got)
						}
						return text
					},
					Answer: func(q realtimetest.Question) realtimetest.Answer {
						if asked.Add(1); q.Text == "stop" {
							return realtimetest.Answer{Text: "Good morning."}
						}
						return realtimetest.Answer{Text: whole}
					},
					Sound: func(text string) (sound []int16) {
						for _, s := range sentences(text) {
							for _, sample := range r.speech[s] {
								sound = append(sound, int16(sample))
							}
						}
						return sound
					},
				}, false, sim.Options{Mode: wire.ModeRealtime, OnEvent: r.onEvent, Play: r.play, Record: r.record},
					map[string]string{"turn_detection": detection})
				must(t, b.Press(ctx))
				say := func(text string) time.Time {
					said.Store(text)
					return r.say(text)
				}
				await := func(what func(v sim.View) bool) {
					t.Helper()
					if _, err := b.Await(ctx, what); err != nil {
						rt.Errorf("%v: %+v", err, b.View())
						rt.judge()
						t.FailNow()
					}
				}
				for n := range answers {
					say(question)
					if n == 0 && detection != "" { // the service is wrong
						await(func(v sim.View) bool { return strings.HasPrefix(v.Displayed, "Set the") })
						service.SpeechStarted()
					}
					await(func(v sim.View) bool { return v.Answers == n+1 && v.State == sim.Listening })
					if diff := cmp.Diff(whole, strings.Join(b.LastAnswer().Sentences, " ")); diff != "" {
						rt.Errorf("answer %d:\n%s", n, diff)
					}
					must(t, netx.Wait(ctx, 2*time.Second)) // the board hears the rest of its echo
				}
				quick, missed := 0, 0
				for range stops {
					before := b.View().Answers
					say(question)
					await(func(v sim.View) bool { return v.State == sim.Speaking && v.Displayed != "" })
					must(t, netx.Wait(ctx, 500*time.Millisecond+rand.N(3*time.Second)))
					began := say("stop")
					await(func(v sim.View) bool { return v.Answers > before })
					took := time.Since(began)
					t.Logf("stopped after %s", took.Round(time.Millisecond))
					if took <= 700*time.Millisecond {
						quick++
					}
					if stops == 1 && took > slowStop {
						rt.Errorf("stopped after %s", took)
					}
					heard := 1
					if diff := cmp.Diff(whole, strings.Join(b.LastAnswer().Sentences, " ")); diff == "" {
						missed++
						heard = 0 // it was over before
					}
					await(func(v sim.View) bool { return v.Answers == before+1+heard && v.State == sim.Listening })
					must(t, netx.Wait(ctx, 2*time.Second))
				}
				if int(asked.Load()) != answers+2*stops-missed {
					rt.Errorf("the model was asked %d times, not %d", asked.Load(), answers+2*stops-missed)
				}
				if os.Getenv("CHECK_ALL") != "" && quick < stops*9/10 {
					rt.Errorf("%d of %d stops were quick", quick, stops)
				}
				clean(t, b)
			})
		}
	}
}
