package openai

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"patchbay/internal/i18n"
	. "patchbay/internal/plug/openai/openaitest"
	"patchbay/internal/talk"
	"patchbay/internal/tool"
)

// slowTurn asks a bot whose tool runs until the person has got the given number of notes. It
// returns the output, the times of the notes, and the time at which the call began.
func slowTurn(t *testing.T, turn *talk.Turn, p noteInterval, notes int,
	work func(progress func(tool.Progress), enough <-chan struct{})) (*recordedEvents, []time.Time, time.Time) {
	t.Helper()
	s := startServer(t, calling(Call{Name: "a", Arguments: `{}`}), saying("Done."))
	enough := make(chan struct{})
	var began time.Time
	box := echoBox("a")
	box.list[0].Title = "天气"
	box.call = func(ctx context.Context, _, _ string, progress func(tool.Progress)) (*tool.Result, error) {
		began = time.Now()
		if work != nil {
			work(progress, enough)
		}
		select {
		case <-enough:
			return tool.Text("fine"), nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	b := newRigWithToolbox(t, s, box, nil)
	b.noteInterval = p
	h := &recordedEvents{}
	var at []time.Time
	err := b.Answer(testContext(t), turn, func(e talk.Event) error {
		if e.Kind == talk.KindNote {
			at = append(at, time.Now())
			if len(at) == notes {
				close(enough)
			}
		}
		return h.emit(e)
	})
	if err != nil {
		t.Fatal(err)
	}
	return h, at, began
}

// still matches repetitions of a note: on a busy machine the tool may end late.
var still = regexp.MustCompile(`(\((?:Still using 天气|还在使用“天气”)…\))(?: \((?:Still using 天气|还在使用“天气”)…\))+`)

func TestAPersonWhoWaitsIsToldSo(t *testing.T) {
	const ms = time.Millisecond
	pace := noteInterval{delay: 30 * ms, interval: 60 * ms, idleInterval: 120 * ms}
	// A busy machine may look at the clock late.
	const slack = 30 * ms

	t.Run("what is used, and that it still is", func(t *testing.T) {
		h, at, began := slowTurn(t, question("hi"), pace, 3, nil)
		if got := still.ReplaceAllString(h.String(), "$1"); got != `(Using 天气…) (Still using 天气…) "Done."` {
			t.Errorf("got %s", got)
		}
		if d := at[0].Sub(began); d < pace.delay-slack {
			t.Errorf("the first note came after %v", d)
		}
		for i := 1; i < len(at); i++ {
			if d := at[i].Sub(at[i-1]); d < pace.idleInterval-slack {
				t.Errorf("note %d came %v after the one before", i+1, d)
			}
		}
	})
	t.Run("in Chinese", func(t *testing.T) {
		turn := question("你好")
		turn.Lang = i18n.Chinese
		h, _, _ := slowTurn(t, turn, noteInterval{ms, ms, ms}, 2, nil)
		if got := still.ReplaceAllString(h.String(), "$1"); got != `(正在使用“天气”…) (还在使用“天气”…) "Done."` {
			t.Errorf("got %s", got)
		}
	})
	t.Run("in the words of the tool, if it has some", func(t *testing.T) {
		long := "step\n" + strings.Repeat("长", 200)
		h, at, _ := slowTurn(t, question("hi"), pace, 4, func(progress func(tool.Progress), enough <-chan struct{}) {
			// Much more often than notes are sent, and sometimes without text.
			for i := 0; ; i++ {
				select {
				case <-enough:
					return
				case <-time.After(ms):
				}
				progress(tool.Progress{Done: float64(i)})
				progress(tool.Progress{Message: fmt.Sprint(i, long)})
			}
		})
		for i, e := range h.events[:4] {
			if i == 0 && e.Text == "Using 天气…\n" {
				continue // the tool reported late
			}
			if text := strings.TrimSuffix(e.Text, "\n"); e.Kind != talk.KindNote ||
				!strings.Contains(text, "step; 长") || strings.Contains(text, "\n") ||
				utf8.RuneCountInString(text) > maxNote {
				t.Errorf("note %d is %q", i+1, e.Text)
			}
			if i > 0 && at[i].Sub(at[i-1]) < pace.interval-slack {
				t.Errorf("note %d came %v after the one before", i+1, at[i].Sub(at[i-1]))
			}
		}
	})
	t.Run("soon after the tool says it", func(t *testing.T) {
		s := startServer(t, calling(Call{Name: "a", Arguments: `{}`}), saying("Done."))
		sawProgress := make(chan struct{}, 2)
		box := echoBox("a")
		box.call = func(ctx context.Context, _, _ string, progress func(tool.Progress)) (*tool.Result, error) {
			for i := range 2 {
				select {
				case <-sawProgress:
				case <-ctx.Done():
					return nil, ctx.Err()
				}
				if i == 0 {
					progress(tool.Progress{Message: "page 2"})
				}
			}
			return tool.Text("fine"), nil
		}
		b := newRigWithToolbox(t, s, box, nil)
		b.noteInterval = noteInterval{delay: ms, interval: 20 * ms, idleInterval: time.Hour}
		h := &recordedEvents{}
		err := b.Answer(testContext(t), question("hi"), func(e talk.Event) error {
			if e.Kind == talk.KindNote {
				sawProgress <- struct{}{}
			}
			return h.emit(e)
		})
		if got := h.String(); err != nil || got != `(Using Tool a…) (page 2) "Done."` {
			t.Errorf("got %s, %v", got, err)
		}
	})
	t.Run("each word once", func(t *testing.T) {
		h, _, _ := slowTurn(t, question("hi"), pace, 3, func(progress func(tool.Progress), enough <-chan struct{}) {
			for range 20 {
				progress(tool.Progress{Message: "page 1"})
				select {
				case <-enough:
				case <-time.After(5 * ms):
				}
			}
		})
		if got := h.String(); got != `(page 1) (Still using 天气…) (Still using 天气…) "Done."` {
			t.Errorf("got %s", got)
		}
	})
}

func TestAQuickCallSaysNothing(t *testing.T) {
	s := startServer(t, calling(Call{Name: "a", Arguments: `{}`}), saying("Done."))
	box := echoBox("a")
	box.call = func(_ context.Context, _, _ string, progress func(tool.Progress)) (*tool.Result, error) {
		progress(tool.Progress{Message: "page 1"})
		return tool.Text("fine"), nil
	}
	if got := newRigWithToolbox(t, s, box, nil).mustAsk(t, question("hi")).String(); got != `"Done."` {
		t.Errorf("got %s", got)
	}
}

func TestNotesOfTwoRoundsKeepTheirDistance(t *testing.T) {
	s := startServer(t, Reply{Steps: append([]Step{Text("Let me look.")}, CallInPieces(0, "1", "a", `{}`)...)},
		calling(Call{Name: "b", Arguments: `{}`}), saying("Done."))
	noted := make(chan struct{}, 10)
	box := echoBox("a", "b")
	box.call = func(ctx context.Context, _, _ string, _ func(tool.Progress)) (*tool.Result, error) {
		select {
		case <-noted:
			return tool.Text("fine"), nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	b := newRigWithToolbox(t, s, box, nil)
	b.noteInterval = noteInterval{delay: time.Millisecond, interval: 100 * time.Millisecond, idleInterval: time.Hour}
	var got []string
	var at []time.Time
	err := b.Answer(testContext(t), question("hi"), func(e talk.Event) error {
		got = append(got, e.Text)
		if e.Kind == talk.KindNote {
			at = append(at, time.Now())
			noted <- struct{}{}
		}
		return nil
	})
	want := []string{"Let me look.", "\nUsing Tool a…\n", "\nUsing Tool b…\n", "\nDone."}
	if err != nil || !slices.Equal(got, want) {
		t.Fatalf("got %q, %v", got, err)
	}
	if d := at[1].Sub(at[0]); d < 50*time.Millisecond {
		t.Errorf("the notes are %v apart", d)
	}
}

func TestThePaceKeepsAskersWaiting(t *testing.T) {
	if p := defaultNoteInterval; p.delay != 2*time.Second || p.interval != 8*time.Second ||
		p.idleInterval != 20*time.Second {
		t.Errorf("the pace is %+v", p)
	}
}
