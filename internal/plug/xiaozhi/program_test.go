package xiaozhi_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"patchbay/internal/hub/hubtest"
	"patchbay/internal/plug/xiaozhi"
	"patchbay/internal/plug/xiaozhi/sim"
	"patchbay/internal/plug/xiaozhi/wire"
	"patchbay/internal/talk"
)

// program makes a program that stands in for a board, as py-xiaozhi does; its bot repeats what was
// typed.
func (h *testServer) program(ctx context.Context, o sim.Options) *sim.Board {
	h.t.Helper()
	bot := h.AddScript(h.t, nil, hubtest.Func(func(_ context.Context, turn *talk.Turn, emit talk.Emit) error {
		return emit(talk.Text("To " + turn.Text() + ": yes."))
	}))
	o.Program = true
	b := h.device(o)
	must(h.t, b.Boot(ctx))
	d, err := h.Store.Devices.ByHardware(ctx, xiaozhi.Kind, b.MAC())
	must(h.t, err)
	must(h.t, h.Store.Devices.Bind(ctx, d.Number, bot.Number))
	must(h.t, h.boards.Refresh(ctx))
	return b
}

// types types a question and waits for the answer.
func types(ctx context.Context, t *testing.T, b *sim.Board, text string) {
	t.Helper()
	before := b.View().Answers
	must(t, b.Type(ctx, text))
	if _, err := b.Await(ctx, func(v sim.View) bool {
		return v.Answers > before &&
			v.State != sim.Speaking
	}); err != nil {
		t.Fatalf("%q was not answered: %v", text, err)
	}
	if a := b.LastAnswer(); a.Transcript != text || strings.Join(a.Sentences, " ") != "To "+text+": yes." {
		t.Errorf("typed %q, heard %q, answered %q", text, a.Transcript, a.Sentences)
	}
}

// Programs record from their listen/start on. Typed text is a question each time, on every
// transport and in every mode. A program without further listen/start messages is heard after each
// answer, to speech and to typed text.
func TestPrograms(t *testing.T) {
	for _, carrier := range []string{"websocket", "mqtt"} {
		for _, mode := range []string{wire.ModeAuto, wire.ModeRealtime} {
			t.Run(carrier+" "+mode, func(t *testing.T) {
				t.Parallel()
				ctx := limit(t, 60*time.Second)
				h := newTestServer(t, testServerOptions{mqtt: carrier == "mqtt"})
				b := h.program(ctx, sim.Options{Mode: mode})
				must(t, b.Press(ctx))
				_, err := b.Await(ctx, func(v sim.View) bool { return v.Listening })
				must(t, err)
				must(t, b.Talk(ctx, sim.GoodMorning()[:3])) // speech before any typed text
				for _, text := range []string{"one", "two", "three"} {
					types(ctx, t, b, text)
				}
				for range 2 {
					a, err := b.Ask(ctx, sim.GoodMorning())
					if err != nil {
						t.Fatalf("nobody listens after an answer: %v", err)
					}
					if a.Packets < 20 {
						t.Errorf("%d packets, heard %q", a.Packets, a.Transcript)
					}
					types(ctx, t, b, "four")
				}
				clean(t, b)
			})
		}
	}
}

// eventChan is a voice that passes its events on and says nothing.
type eventChan chan xiaozhi.Event

func (e eventChan) Converse(ctx context.Context, c *xiaozhi.Conversation) {
	for {
		h, err := c.Next()
		if err != nil {
			return
		}
		h.Opus = nil
		if h.Kind == xiaozhi.EventWakeWord || h.Kind == xiaozhi.EventText {
			e <- h
		}
	}
}

// The sound of a wake word counts for one listen/detect only: a text typed later in the same
// conversation is a question.
func TestWakeSoundIsForOneWake(t *testing.T) {
	for _, carrier := range []string{"websocket", "mqtt"} {
		ctx := limit(t, 60*time.Second)
		heard := make(eventChan, 8)
		h := newTestServer(t, testServerOptions{mqtt: carrier == "mqtt",
			boards: func(o *xiaozhi.Options) { o.WakeWords, o.Voice = nil, heard }})
		b := h.program(ctx, sim.Options{WakeWord: "a word that nobody knows"})
		must(t, b.Wake(ctx))
		next := func(kind xiaozhi.EventKind, text string) {
			t.Helper()
			select {
			case got := <-heard:
				if got.Kind != kind || got.Text != text {
					t.Errorf("%s: heard %d %q, want %d %q", carrier, got.Kind, got.Text, kind, text)
				}
			case <-ctx.Done():
				t.Fatalf("%s: %q was not heard", carrier, text)
			}
		}
		next(xiaozhi.EventWakeWord, "a word that nobody knows")
		for _, text := range []string{"one", "two"} {
			must(t, b.Type(ctx, text))
			next(xiaozhi.EventText, text)
		}
		clean(t, b)
	}
}

// Web pages greet before any question. The punctuation of a wake word does not matter.
func TestGreetingsAreWakeWords(t *testing.T) {
	h := newTestServer(t, testServerOptions{boards: func(o *xiaozhi.Options) {
		o.WakeWords = []string{"嘿你好呀",
			"Hi ESP"}
	}})
	ctx := limit(t, 30*time.Second)
	b := h.program(ctx, sim.Options{})
	p := h.open(ctx, b)
	for _, greeting := range []string{"嘿，你好呀", "嘿 你好呀！", "hi, esp", "Hi ESP."} {
		p.says(ctx, greeting)
	}
	p.says(ctx, "?!") // without letters it is not a wake word
	if heard, _ := p.hears(ctx); heard != "?!" {
		t.Errorf("a greeting was taken for a question: %q", heard)
	}
}
