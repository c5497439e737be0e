package xiaozhi_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"patchbay/internal/board/boardtest"
	"patchbay/internal/plug/xiaozhi"
	"patchbay/internal/plug/xiaozhi/sim"
	"patchbay/internal/plug/xiaozhi/wire"
	"patchbay/internal/talk"
)

// program is a program that stands in for a board, as py-xiaozhi does; its bot repeats
// what was typed.
func (h *house) program(ctx context.Context, o sim.Options) *sim.Board {
	h.t.Helper()
	bot := h.Script(h.t, nil, boardtest.Func(func(_ context.Context, turn *talk.Turn, emit talk.Emit) error {
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

// types types a question, and waits for the answer.
func types(ctx context.Context, t *testing.T, b *sim.Board, text string) {
	t.Helper()
	before := b.View().Answers
	must(t, b.Type(ctx, text))
	if _, err := b.Await(ctx, func(v sim.View) bool { return v.Answers > before && v.State != sim.Speaking }); err != nil {
		t.Fatalf("%q was not answered: %v", text, err)
	}
	if a := b.LastAnswer(); a.Heard != text || strings.Join(a.Sentences, " ") != "To "+text+": yes." {
		t.Errorf("typed %q, heard %q, answered %q", text, a.Heard, a.Sentences)
	}
}

// Programs record from the moment when they say that they listen. What is typed into one
// is a question nevertheless, each time, on every transport and in every mode; and a
// program that does not say that it listens again is heard after each answer, whether that
// was to something said or to something typed.
func TestPrograms(t *testing.T) {
	for _, way := range []string{"websocket", "mqtt"} {
		for _, mode := range []string{wire.ModeAuto, wire.ModeRealtime} {
			t.Run(way+" "+mode, func(t *testing.T) {
				t.Parallel()
				ctx := limit(t, 60*time.Second)
				h := newHouse(t, houseOptions{mqtt: way == "mqtt"})
				b := h.program(ctx, sim.Options{Mode: mode})
				must(t, b.Press(ctx))
				_, err := b.Await(ctx, func(v sim.View) bool { return v.Listening })
				must(t, err)
				must(t, b.Talk(ctx, sim.GoodMorning()[:3])) // sound, before anything is typed
				for _, text := range []string{"one", "two", "three"} {
					types(ctx, t, b, text)
				}
				for range 2 {
					a, err := b.Ask(ctx, sim.GoodMorning())
					if err != nil {
						t.Fatalf("nobody listens after an answer: %v", err)
					}
					if a.Packets < 20 {
						t.Errorf("%d packets, heard %q", a.Packets, a.Heard)
					}
					types(ctx, t, b, "four")
				}
				clean(t, b)
			})
		}
	}
}

// ears is a voice that tells what it heard and says nothing.
type ears chan xiaozhi.Heard

func (e ears) Converse(ctx context.Context, c *xiaozhi.Conversation) {
	for {
		h, err := c.Next()
		if err != nil {
			return
		}
		h.Opus = nil
		if h.Kind == xiaozhi.HeardWake || h.Kind == xiaozhi.HeardText {
			e <- h
		}
	}
}

// The sound of a wake word is evidence for that wake word alone: what is typed into the
// same conversation afterwards is a question.
func TestWakeSoundIsForOneWake(t *testing.T) {
	for _, way := range []string{"websocket", "mqtt"} {
		ctx := limit(t, 60*time.Second)
		heard := make(ears, 8)
		h := newHouse(t, houseOptions{mqtt: way == "mqtt", boards: func(o *xiaozhi.Options) { o.WakeWords, o.Voice = nil, heard }})
		b := h.program(ctx, sim.Options{WakeWord: "a word that nobody knows"})
		must(t, b.Wake(ctx))
		next := func(kind xiaozhi.HeardKind, text string) {
			t.Helper()
			select {
			case got := <-heard:
				if got.Kind != kind || got.Text != text {
					t.Errorf("%s: heard %d %q, want %d %q", way, got.Kind, got.Text, kind, text)
				}
			case <-ctx.Done():
				t.Fatalf("%s: %q was not heard", way, text)
			}
		}
		next(xiaozhi.HeardWake, "a word that nobody knows")
		for _, text := range []string{"one", "two"} {
			must(t, b.Type(ctx, text))
			next(xiaozhi.HeardText, text)
		}
		clean(t, b)
	}
}

// Pages greet before anything is asked. How a wake word is punctuated does not matter.
func TestGreetingsAreWakeWords(t *testing.T) {
	h := newHouse(t, houseOptions{boards: func(o *xiaozhi.Options) { o.WakeWords = []string{"嘿你好呀", "Hi ESP"} }})
	ctx := limit(t, 30*time.Second)
	b := h.program(ctx, sim.Options{})
	p := h.open(ctx, b)
	for _, greeting := range []string{"嘿，你好呀", "嘿 你好呀！", "hi, esp", "Hi ESP."} {
		p.says(ctx, greeting)
	}
	p.says(ctx, "?!") // no letters, and no wake word
	if heard, _ := p.hears(ctx); heard != "?!" {
		t.Errorf("a greeting was taken for a question: %q", heard)
	}
}
