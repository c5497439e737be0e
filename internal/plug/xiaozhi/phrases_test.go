package xiaozhi_test

import (
	"context"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"patchbay/internal/netx"
	"patchbay/internal/plug/xiaozhi"
	"patchbay/internal/plug/xiaozhi/sim"
	"patchbay/internal/plug/xiaozhi/wire"
	"patchbay/internal/store"
	"patchbay/internal/talk"
	"patchbay/internal/voice/engine"
)

// countedSpeaker counts how often it was asked for a text.
type countedSpeaker struct {
	mu   sync.Mutex
	said map[string]int
}

func (s *countedSpeaker) speak(_ context.Context, text string, _ engine.Manner) (engine.Clip, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.said[text]++
	sound := strings.NewReader(strings.Repeat("\x00\x10\x00\xf0", 6000)) // half a second
	return engine.Clip{Format: engine.PCM, Rate: 24000, Sound: io.NopCloser(sound)}, nil
}

func (s *countedSpeaker) count(text string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.said[text]
}

// link returns an engine that hears a question.
func (s *countedSpeaker) link(question string) engine.Link {
	return engine.Link{Name: "counted", Engine: engine.Engine{
		Listener: &streamListener{text: hears(question)}, Speaker: engine.SpeakOnce(s.speak)}}
}

// TestFiller has a bot take long: before its answer, in the middle of it, and with fillers off.
func TestFiller(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		before, after string // what the bot says before and after it takes long
		off           bool
		want          []string
	}{
		"before the answer": {"", "It rains.", false, []string{"One moment.", "It rains."}},
		"within the answer": {"I have to look that up.", " It rains.", false,
			[]string{"I have to look that up.", "One moment.", "It rains."}},
		"off": {"", "It rains.", true, []string{"It rains."}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx := limit(t, 2*time.Minute)
			speaker, heard := &countedSpeaker{said: map[string]int{}}, make(chan struct{})
			voice := xiaozhi.Dialogue{Engines: func(store.Device) *engine.Chain {
				return &engine.Chain{Links: []engine.Link{speaker.link("How is the weather?")}}
			}}
			if c.off {
				no := false
				voice.Settings = func(context.Context, store.Device) xiaozhi.VoiceSettings {
					return xiaozhi.VoiceSettings{Fillers: &no}
				}
			}
			r := newLoopRig(ctx, t, wire.ModeAuto, func(o *xiaozhi.Options) { o.Voice = voice },
				func(ctx context.Context, _ *talk.Turn, emit talk.Emit) error {
					if c.before != "" {
						if err := emit(talk.Text(c.before)); err != nil {
							return err
						}
					}
					if c.off {
						must(t, netx.Wait(ctx, 1500*time.Millisecond))
					} else {
						select {
						case <-heard:
						case <-ctx.Done():
						}
					}
					return emit(talk.Text(c.after))
				})
			must(t, r.board.Press(ctx))
			must(t, r.board.Talk(ctx, spoken(t)))
			if !c.off {
				_, err := r.board.Await(ctx, func(v sim.View) bool { return v.Displayed == "One moment." })
				must(t, err)
				close(heard)
			}
			_, err := r.board.Await(ctx, func(v sim.View) bool { return v.Answers == 1 })
			must(t, err)
			a := r.board.LastAnswer()
			if diff := cmp.Diff(c.want, a.Sentences); diff != "" {
				t.Error(diff)
			}
			if whole := 8 * len(c.want); a.Packets < whole {
				t.Errorf("%d packets", a.Packets)
			}
			r.wantHistory(ctx, []string{"How is the weather? → " + c.before + c.after})
			clean(t, r.board)
		})
	}
}

// TestPhrases checks that an engine speaks a phrase once, however often it is said.
func TestPhrases(t *testing.T) {
	t.Parallel()
	ctx := limit(t, 2*time.Minute)
	speaker := &countedSpeaker{said: map[string]int{}}
	r := newLoopRig(ctx, t, wire.ModeAuto, withEngines(speaker.link("Goodbye.")), repeatIt)
	packets := 0
	for range 3 {
		a, err := r.board.Ask(ctx, spoken(t))
		must(t, err)
		if diff := cmp.Diff([]string{"Goodbye!"}, a.Sentences); diff != "" || a.Packets < 8 || packets > 0 && a.Packets != packets {
			t.Errorf("%d packets, before %d\n%s", a.Packets, packets, diff)
		}
		packets = a.Packets
		_, err = r.board.Await(ctx, func(v sim.View) bool { return v.State == sim.Idle })
		must(t, err)
	}
	if n := speaker.count("Goodbye!"); n != 1 {
		t.Errorf("the engine spoke the phrase %d times", n)
	}
	clean(t, r.board)
}
