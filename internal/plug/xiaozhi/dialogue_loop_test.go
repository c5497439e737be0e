package xiaozhi_test

import (
	"context"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"patchbay/internal/hub"
	"patchbay/internal/hub/hubtest"
	"patchbay/internal/netx"
	"patchbay/internal/plug/xiaozhi"
	"patchbay/internal/plug/xiaozhi/sim"
	"patchbay/internal/plug/xiaozhi/wire"
	"patchbay/internal/store"
	"patchbay/internal/talk"
	"patchbay/internal/voice/engine"
)

// streamListener recognises what a test says: text returns what was heard so far in an utterance,
// by its number and its length.
type streamListener struct {
	text func(utterance int, heard time.Duration, finished bool) string

	mu    sync.Mutex
	count int
}

// Listen implements [engine.Listener].
func (l *streamListener) Listen(ctx context.Context, _ engine.Hints) (engine.Utterance, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.count++
	return &streamUtterance{l: l, ctx: ctx, number: l.count, news: make(chan engine.Transcript, 4000)}, nil
}

// streamUtterance is an utterance of a [streamListener]. Write and Finish are not called at once.
type streamUtterance struct {
	l       *streamListener
	ctx     context.Context
	number  int
	samples int
	last    string
	news    chan engine.Transcript
}

func (u *streamUtterance) heard() time.Duration {
	return time.Duration(u.samples) * time.Second / engine.Rate
}

func (u *streamUtterance) Write(samples []int16) error {
	u.samples += len(samples)
	if text := u.l.text(u.number, u.heard(), false); text != u.last {
		u.last = text
		u.news <- engine.Transcript{Text: text}
	}
	return nil
}

func (u *streamUtterance) Finish() error {
	u.news <- engine.Transcript{Text: u.l.text(u.number, u.heard(), true), Final: true}
	close(u.news)
	return nil
}

func (u *streamUtterance) Next() (engine.Transcript, error) {
	select {
	case t, ok := <-u.news:
		if !ok {
			return t, io.EOF
		}
		return t, nil
	case <-u.ctx.Done():
		return engine.Transcript{}, context.Cause(u.ctx)
	}
}

func (u *streamUtterance) Close() {}

// streaming returns the options of a server whose boards use a [streamListener]. Each character is
// spoken for perCharacter.
func streaming(perCharacter time.Duration,
	text func(utterance int, heard time.Duration, finished bool) string) func(*xiaozhi.Options) {
	const rate = 24000
	speak := func(_ context.Context, said string, _ engine.Manner) (engine.Clip, error) {
		n := len([]rune(said)) * int(perCharacter*rate/time.Second)
		sound := strings.NewReader(strings.Repeat("\x00\x10\x00\xf0", n/2))
		return engine.Clip{Format: engine.PCM, Rate: rate, Sound: io.NopCloser(sound)}, nil
	}
	return withEngines(engine.Link{Name: "stream", Engine: engine.Engine{
		Listener: &streamListener{text: text}, Speaker: engine.SpeakOnce(speak)}})
}

// loopRig is a server with a board and a bot that is asked early.
type loopRig struct {
	*testServer
	board *sim.Board
	bot   store.Bot

	mu    sync.Mutex
	asked []string
}

func newLoopRig(ctx context.Context, t *testing.T, mode string, options func(*xiaozhi.Options),
	answer hubtest.Func) *loopRig {
	t.Helper()
	r := &loopRig{}
	kind := hub.Kind{Name: "quick", Speculative: true, Build: func(store.Bot, any) (talk.Bot, error) {
		return hubtest.Func(func(ctx context.Context, turn *talk.Turn, emit talk.Emit) error {
			r.mu.Lock()
			r.asked = append(r.asked, turn.Text())
			r.mu.Unlock()
			return answer(ctx, turn, emit)
		}), nil
	}}
	r.testServer = newTestServer(t, testServerOptions{boards: options, rig: hubtest.Options{Kinds: []hub.Kind{kind}}})
	r.board = r.device(sim.Options{Lang: "en-US", Mode: mode})
	must(t, r.board.Boot(ctx))
	r.bot = r.Add(t, "quick", nil)
	d, err := r.Store.Devices.ByHardware(ctx, xiaozhi.Kind, r.board.MAC())
	must(t, err)
	must(t, r.Store.Devices.Bind(ctx, d.Number, r.bot.Number))
	must(t, r.boards.Refresh(ctx))
	return r
}

// history returns the exchanges with the bot, in the order in which they began.
func (r *loopRig) history(ctx context.Context) (list []string) {
	person := xiaozhi.Kind + ":" + r.board.MAC()
	exchanges, err := r.Store.Conversations.Last(ctx, r.bot.Number, person, person, 20)
	must(r.t, err)
	for _, e := range exchanges {
		list = append(list, e.Question+" → "+e.Answer)
	}
	return list
}

// wantHistory waits until history is as it should be: it is written after the board has played.
func (r *loopRig) wantHistory(ctx context.Context, want []string) {
	r.t.Helper()
	got := r.history(ctx)
	for n := 0; !cmp.Equal(want, got) && n < 100; n++ {
		must(r.t, netx.Wait(ctx, 20*time.Millisecond))
		got = r.history(ctx)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		r.t.Errorf("history:\n%s", diff)
	}
}

func repeatIt(_ context.Context, turn *talk.Turn, emit talk.Emit) error {
	return emit(talk.Text("You said: " + turn.Text()))
}

// TestEarlyAnswer has the bot begin while it is not certain that the person has finished.
func TestEarlyAnswer(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		final string
		asked []string
	}{
		"as it was":        {"Tell me a story.", []string{"Tell me a story"}},
		"it went on":       {"Tell me a story about cats.", []string{"Tell me a story", "Tell me a story about cats."}},
		"it says goodbye":  {"Goodbye!", []string{"Tell me a story"}},
		"it was not heard": {"", []string{"Tell me a story"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx := limit(t, 2*time.Minute)
			r := newLoopRig(ctx, t, wire.ModeAuto, streaming(10*time.Millisecond,
				func(_ int, heard time.Duration, finished bool) string {
					switch {
					case finished:
						return c.final
					case heard > time.Second:
						return "Tell me a story"
					}
					return ""
				}), repeatIt)
			must(t, r.board.Press(ctx))
			must(t, r.board.Talk(ctx, spoken(t)))
			var want []string
			switch c.final {
			case "":
				must(t, r.board.Talk(ctx, quietPackets(25))) // until the board is told to speak, and then to listen
				must(t, r.board.Talk(ctx, quietPackets(5)))
			default:
				_, err := r.board.Await(ctx, func(v sim.View) bool { return v.Answers == 1 })
				must(t, err)
				if c.final != "Goodbye!" {
					want = []string{c.final + " → You said: " + c.final}
					if len(c.asked) == 1 {
						want = []string{c.asked[0] + " → You said: " + c.asked[0]}
					}
				}
			}
			r.mu.Lock()
			if diff := cmp.Diff(c.asked, r.asked); diff != "" {
				t.Errorf("the bot was asked:\n%s", diff)
			}
			r.mu.Unlock()
			r.wantHistory(ctx, want)
			clean(t, r.board)
		})
	}
}

// TestUnheard checks that the person hears of it once when nothing is understood again and again.
func TestUnheard(t *testing.T) {
	t.Parallel()
	ctx := limit(t, 2*time.Minute)
	r := newLoopRig(ctx, t, wire.ModeAuto, streaming(10*time.Millisecond,
		func(int, time.Duration, bool) string { return "" }), repeatIt)
	must(t, r.board.Press(ctx))
	for range 4 {
		must(t, r.board.Talk(ctx, append(spoken(t), quietPackets(25)...)))
	}
	must(t, r.board.Talk(ctx, quietPackets(5)))
	if a := r.board.LastAnswer(); r.board.View().Answers != 1 || !cmp.Equal(a.Sentences, []string{"I did not hear you."}) {
		t.Errorf("%d answers, the last %q", r.board.View().Answers, a.Sentences)
	}
	clean(t, r.board)
}

// TestBargeIn has somebody speak while an answer is played, on a board that listens meanwhile.
func TestBargeIn(t *testing.T) {
	t.Parallel()
	whole := []string{"The weather stays fine until Sunday evening.", "Then there will be rain in the north.",
		"It gets cold."}
	const answer = "The weather stays fine until Sunday evening. Then there will be rain in the north. " +
		"It gets cold."
	for name, c := range map[string]struct {
		partial, final string
		sentences      []string // after the interruption, or all of them
		history        []string
	}{
		"an echo": {"weather stays fine until", "weather stays fine until",
			whole,
			[]string{"first → " + answer}},
		"attention": {"uh-huh", "uh-huh",
			whole,
			[]string{"first → " + answer}},
		"another question": {"what about tomorrow", "what about tomorrow", []string{"You said: what about tomorrow"},
			[]string{"first → The weather stays fine until Sunday evening. (unfinished)",
				"what about tomorrow → You said: what about tomorrow"}},
		"stop": {"stop", "stop", nil, []string{"first → The weather stays fine until Sunday evening. (unfinished)"}},
		"nothing after all": {"what about tomorrow", "",
			whole,
			[]string{"first → " + answer}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx := limit(t, 2*time.Minute)
			r := newLoopRig(ctx, t, wire.ModeRealtime, streaming(100*time.Millisecond,
				func(utterance int, heard time.Duration, finished bool) string {
					switch {
					case utterance == 1:
						return "first"
					case finished:
						return c.final
					case heard > 1100*time.Millisecond:
						return c.partial
					}
					return ""
				}), func(ctx context.Context, turn *talk.Turn, emit talk.Emit) error {
				if turn.Text() == "first" {
					return emit(talk.Text(answer))
				}
				return repeatIt(ctx, turn, emit)
			})
			b := r.board
			must(t, b.Press(ctx))
			must(t, b.Talk(ctx, spoken(t)))
			_, err := b.Await(ctx, func(v sim.View) bool { return strings.HasPrefix(v.Displayed, "The weather") })
			must(t, err)
			must(t, b.Talk(ctx, append(quietPackets(8), spoken(t)...)))
			done := 1
			if len(c.history) > 1 || name == "nothing after all" {
				done = 2 // parts of answers
			}
			_, err = b.Await(ctx, func(v sim.View) bool { return v.Answers == done && v.State == sim.Listening })
			must(t, err)
			a := b.LastAnswer()
			if c.sentences != nil {
				if diff := cmp.Diff(c.sentences, a.Sentences); diff != "" {
					t.Error(diff)
				}
			}
			r.wantHistory(ctx, c.history)
			clean(t, b)
		})
	}
}

// quietPackets are n packets without sound.
func quietPackets(n int) (packets [][]byte) {
	for range n {
		packets = append(packets, []byte{0x58})
	}
	return packets
}
