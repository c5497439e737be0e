package xiaozhi_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"patchbay/internal/hub"
	"patchbay/internal/hub/hubtest"
	"patchbay/internal/plug/realtime"
	"patchbay/internal/plug/xiaozhi"
	"patchbay/internal/plug/xiaozhi/sim"
	"patchbay/internal/plug/xiaozhi/wire"
	"patchbay/internal/store"
	"patchbay/internal/talk"
	events "patchbay/internal/voice/realtime"
	"patchbay/internal/voice/realtime/realtimetest"
)

// newDuplex starts a server whose boards talk with a realtime model, and a board.
func newDuplex(ctx context.Context, t *testing.T, o realtimetest.Options, mqtt bool, board sim.Options,
	set map[string]string) (*testServer, *sim.Board, *realtimetest.Server) {
	t.Helper()
	service := realtimetest.New(t, o)
	kind := realtime.Kind()
	kind.Build = func(_ store.Bot, settings any) (talk.Bot, error) {
		return realtime.New(*settings.(*realtime.Settings), realtime.Options{})
	}
	h := newTestServer(t, testServerOptions{mqtt: mqtt, rig: hubtest.Options{Kinds: []hub.Kind{kind}},
		boards: func(o *xiaozhi.Options) { o.Voice = xiaozhi.Duplex{} }})
	all := map[string]string{"url": service.URL, "api_key": realtimetest.Key, "model": "m",
		"spelling": string(o.Spelling)}
	for name, value := range set {
		all[name] = value
	}
	bot := h.Add(t, realtime.KindName, all)
	board.Lang = "en-US"
	b := h.device(board)
	must(t, b.Boot(ctx))
	d, err := h.Store.Devices.ByHardware(ctx, xiaozhi.Kind, b.MAC())
	must(t, err)
	must(t, h.Store.Devices.Bind(ctx, d.Number, bot.Number))
	must(t, h.boards.Refresh(ctx))
	t.Cleanup(func() {
		if v := service.Violations(); len(v) > 0 {
			t.Errorf("violations at the service:\n%s", strings.Join(v, "\n"))
		}
	})
	return h, b, service
}

const question, reply = "What is the weather today?", "Rain today, and wind from the west. Then sun."

// TestDuplex has a board talk with a realtime model, on both transports and in each mode.
func TestDuplex(t *testing.T) {
	t.Parallel()
	for i, mode := range []string{wire.ModeAuto, wire.ModeManual, wire.ModeRealtime, wire.ModeAuto, wire.ModeManual,
		wire.ModeRealtime} {
		mqtt, spelling := i > 2, []events.Spelling{events.OpenAI, events.Qwen}[i%2]
		t.Run(mode+" "+string(spelling)+map[bool]string{true: " MQTT"}[mqtt], func(t *testing.T) {
			t.Parallel()
			ctx := limit(t, 2*time.Minute)
			h, b, service := newDuplex(ctx, t, realtimetest.Options{Spelling: spelling, Sound: brief,
				Transcript: func([]int16) string { return question },
				Answer:     func(realtimetest.Question) realtimetest.Answer { return realtimetest.Answer{Text: reply} },
			}, mqtt, sim.Options{Mode: mode}, nil)
			for range 2 {
				a, err := b.Ask(ctx, spoken(t))
				must(t, err)
				want := []string{"Rain today, and wind from the west.", "Then sun."}
				if diff := cmp.Diff(want, a.Sentences); diff != "" || a.Transcript != question {
					t.Errorf("transcript %q, sentences:\n%s", a.Transcript, diff)
				}
				if whole := len(reply) / 3; a.Packets < whole || a.Packets > whole+8 {
					t.Errorf("%d packets for a sound of %d", a.Packets, whole)
				}
			}
			// A record and an entry of the history for each exchange.
			d, err := h.Store.Devices.ByHardware(ctx, xiaozhi.Kind, b.MAC())
			must(t, err)
			person := xiaozhi.Kind + ":" + d.Hardware
			history := h.awaitHistory(ctx, d.Bot, person, 2)
			if len(history) != 2 || history[1].Question != question || history[1].Answer != reply {
				t.Errorf("%+v", history)
			}
			traces, err := h.Store.Traces.Find(ctx, store.TraceFilter{Bot: d.Bot}, 10)
			must(t, err)
			if len(traces) != 2 || traces[0].Outcome != "done" || traces[0].Kind != realtime.KindName {
				t.Errorf("%+v", traces)
			}
			if n := len(service.Sessions()); n != 1 {
				t.Errorf("%d sessions", n)
			}
			clean(t, b)
		})
	}
}

// TestDuplexInterrupted interrupts an answer: the model gets what was heard, the history has no
// more, and the next question is answered.
func TestDuplexInterrupted(t *testing.T) {
	t.Parallel()
	ctx := limit(t, 2*time.Minute)
	long := "One fish is here already. Two fish are over there now. Red fish swim behind the blue one. " +
		"This one has a little star. That one has a little car."
	h, b, service := newDuplex(ctx, t, realtimetest.Options{Spelling: events.OpenAI,
		Answer: func(q realtimetest.Question) realtimetest.Answer { return realtimetest.Answer{Text: long} },
	}, false, sim.Options{}, nil)
	asked := make(chan error, 1)
	go func() {
		_, err := b.Ask(ctx, spoken(t))
		asked <- err
	}()
	_, err := b.Await(ctx, func(v sim.View) bool { return strings.HasPrefix(v.Displayed, "Two fish") })
	must(t, err)
	must(t, b.Abort(ctx))
	must(t, <-asked)
	all := service.Await(t, "a truncation",
		func(all []realtimetest.Session) bool { return len(all[0].Truncations) > 0 })
	cut, played := all[0].Truncations[0], time.Duration(b.LastAnswer().Packets)*60*time.Millisecond
	// Two of the packets had not been played, and more on a busy machine.
	if cut.At < played-300*time.Millisecond || cut.At > played+60*time.Millisecond || cut.Had < 5*time.Second {
		t.Errorf("cut at %s, and the board got %s", cut.At, played)
	}
	d, err := h.Store.Devices.ByHardware(ctx, xiaozhi.Kind, b.MAC())
	must(t, err)
	person := xiaozhi.Kind + ":" + d.Hardware
	history := h.awaitHistory(ctx, d.Bot, person, 1)
	if len(history) != 1 || !strings.HasPrefix(history[0].Answer, "One fish is here already. Two fish") ||
		strings.Contains(history[0].Answer, "blue") {
		t.Errorf("%+v", history)
	}
	_, err = b.Await(ctx, func(v sim.View) bool { return v.Listening })
	must(t, err)
	if d := talkTo(ctx, t, b); d.Transcript != "hello" {
		t.Errorf("%+v", d)
	}
	clean(t, b)
}

// awaitHistory waits for a number of exchanges, which are stored a moment after their sound.
func (h *testServer) awaitHistory(ctx context.Context, bot int64, person string, n int) []store.Exchange {
	h.t.Helper()
	for {
		list, err := h.Store.Conversations.Last(ctx, bot, person, person, 10)
		must(h.t, err)
		if len(list) >= n {
			return list
		}
	}
}

// talkTo asks, and interrupts the answer.
func talkTo(ctx context.Context, t *testing.T, b *sim.Board) sim.Answer {
	t.Helper()
	before := b.View().Answers
	must(t, b.Talk(ctx, spoken(t)))
	_, err := b.Await(ctx, func(v sim.View) bool { return v.State == sim.Speaking && v.Displayed != "" })
	must(t, err)
	must(t, b.Abort(ctx))
	_, err = b.Await(ctx, func(v sim.View) bool { return v.Answers > before })
	must(t, err)
	return b.LastAnswer()
}

// TestDuplexUnreachable tells the person that the model cannot be reached, and answers when it can.
func TestDuplexUnreachable(t *testing.T) {
	t.Parallel()
	ctx := limit(t, 2*time.Minute)
	_, b, service := newDuplex(ctx, t, realtimetest.Options{Spelling: events.Qwen, Sound: brief,
		Fault: realtimetest.Failing}, false, sim.Options{}, nil)
	a, err := b.Ask(ctx, spoken(t))
	must(t, err)
	if len(a.Sentences) != 1 || !strings.Contains(a.Sentences[0], "problem") || a.Packets > 0 {
		t.Errorf("%+v", a)
	}
	service.SetFault(realtimetest.None)
	a, err = b.Ask(ctx, spoken(t))
	must(t, err)
	if a.Transcript != "hello" || len(a.Sentences) != 1 || a.Packets == 0 {
		t.Errorf("%+v", a)
	}
	clean(t, b)
}

// TestDuplexFailsWithin has the provider fail in the middle of an answer: the person hears the
// first part, is told why there is no more, and can ask again.
func TestDuplexFailsWithin(t *testing.T) {
	t.Parallel()
	for _, dropped := range []bool{false, true} {
		t.Run(map[bool]string{false: "error", true: "dropped"}[dropped], func(t *testing.T) {
			t.Parallel()
			ctx := limit(t, 2*time.Minute)
			var asked atomic.Int64
			_, b, service := newDuplex(ctx, t, realtimetest.Options{Spelling: events.OpenAI, Sound: brief,
				Answer: func(realtimetest.Question) realtimetest.Answer {
					a := realtimetest.Answer{Text: "One fish is here already. Two fish are there."}
					if asked.Add(1) > 1 {
						return a
					}
					if a.Hold = dropped; !dropped {
						a.Failure = "server_error"
					}
					return a
				}}, false, sim.Options{}, nil)
			first := make(chan error, 1)
			go func() {
				_, err := b.Ask(ctx, spoken(t))
				first <- err
			}()
			_, err := b.Await(ctx, func(v sim.View) bool { return strings.HasPrefix(v.Displayed, "One fish") })
			must(t, err)
			if dropped {
				service.Drop()
			}
			must(t, <-first)
			said := b.LastAnswer().Sentences
			if last := len(said) - 1; last < 1 || !strings.HasPrefix(said[0], "One fish") ||
				!strings.Contains(said[last], map[bool]string{false: "has a problem", true: "cannot be reached"}[dropped]) {
				t.Errorf("the board said %q", said)
			}
			a, err := b.Ask(ctx, spoken(t))
			must(t, err)
			if len(a.Sentences) != 2 || a.Packets == 0 || a.Sentences[1] != "Two fish are there." {
				t.Errorf("afterwards the board said %q", a.Sentences)
			}
			clean(t, b)
		})
	}
}
