package xiaozhi_test

import (
	"context"
	"encoding/binary"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"patchbay/internal/hub/hubtest"
	"patchbay/internal/plug/xiaozhi"
	"patchbay/internal/plug/xiaozhi/sim"
	"patchbay/internal/plug/xiaozhi/wire"
	"patchbay/internal/store"
	"patchbay/internal/talk"
	"patchbay/internal/voice/engine"
	"patchbay/internal/voice/engines/openai"
	"patchbay/internal/voice/engines/openai/openaitest"
)

// spoken returns a question in packets of a board, with the pause that ends it.
func spoken(t testing.TB) (packets [][]byte) {
	t.Helper()
	b, err := os.ReadFile("../../voice/endpoint/testdata/01_what_is_the_weather_today.opk")
	must(t, err)
	for len(b) >= 2 {
		n := int(binary.BigEndian.Uint16(b))
		packets, b = append(packets, b[2:2+n]), b[2+n:]
	}
	return packets
}

// speechLink is an engine on loopback.
func speechLink(t testing.TB, server *openaitest.Server, s openai.Settings) engine.Link {
	t.Helper()
	server.Sound = brief
	s.BaseURL, s.APIKey = server.URL, openaitest.Key
	if s.Format == "" {
		s.Format = "pcm"
	}
	e, err := openai.New(s, engine.Options{})
	must(t, err)
	return engine.Link{Name: "test", Engine: e, Circuit: new(engine.Circuit)}
}

// brief is 20 ms of sound for each character.
func brief(text string) []int16 {
	tone := openaitest.Tone(text)
	return tone[:len(tone)/3]
}

// withEngines returns the options of a server whose boards use engines.
func withEngines(links ...engine.Link) func(*xiaozhi.Options) {
	chain := &engine.Chain{Links: links}
	return func(o *xiaozhi.Options) {
		o.Voice = xiaozhi.Dialogue{Engines: func(store.Device) *engine.Chain { return chain }}
	}
}

// bindScript has a script answer a board, and returns its bot.
func (h *testServer) bindScript(ctx context.Context, b *sim.Board, f hubtest.Func) store.Bot {
	h.t.Helper()
	bot := h.AddScript(h.t, nil, f)
	d, err := h.Store.Devices.ByHardware(ctx, xiaozhi.Kind, b.MAC())
	must(h.t, err)
	must(h.t, h.Store.Devices.Bind(ctx, d.Number, bot.Number))
	must(h.t, h.boards.Refresh(ctx))
	return bot
}

func weather(_ context.Context, turn *talk.Turn, emit talk.Emit) error {
	for _, piece := range []string{"You asked: " + turn.Text() + ". ", "**Rain** 🌧 today, ", "then sun."} {
		if err := emit(talk.Text(piece)); err != nil {
			return err
		}
	}
	return nil
}

// TestDialogue has a board ask a bot aloud and play its answer, on both transports.
func TestDialogue(t *testing.T) {
	t.Parallel()
	for _, mqtt := range []bool{false, true} {
		for _, mode := range []string{wire.ModeAuto, wire.ModeManual, wire.ModeRealtime} {
			name := mode + map[bool]string{true: " MQTT"}[mqtt]
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				ctx := limit(t, 2*time.Minute)
				speech := openaitest.New(t)
				heard := make(chan int, 8)
				speech.Transcript = func(samples []int16) string {
					heard <- len(samples)
					return "What is the weather today?"
				}
				h := newTestServer(t, testServerOptions{mqtt: mqtt,
					boards: withEngines(speechLink(t, speech, openai.Settings{}))})
				b := h.device(sim.Options{Lang: "en-US", Mode: mode})
				must(t, b.Boot(ctx))
				h.bindScript(ctx, b, weather)
				for range 2 {
					before := b.Report().DroppedState
					a, err := b.Ask(ctx, spoken(t))
					must(t, err)
					late := b.Report().DroppedState - before // a busy machine is late to see tts/start
					want := []string{"You asked: What is the weather today?.", "Rain today, then sun."}
					if diff := cmp.Diff(want, a.Sentences); diff != "" || a.Transcript != "What is the weather today?" {
						t.Errorf("transcript %q, sentences:\n%s", a.Transcript, diff)
					}
					// A third of a packet for each character, as the engine speaks.
					if whole := len(strings.Join(want, "")) / 3; a.Packets+late < whole || a.Packets > whole+8 {
						t.Errorf("%d packets for a sound of %d", a.Packets, whole)
					}
					// 1.6 s of speech, and at most the sound before and the pause after it.
					if n := <-heard; n < 16000 || n > 4*16000 {
						t.Errorf("the engine heard %d samples", n)
					}
				}
				clean(t, b)
			})
		}
	}
}

// TestDialogueFailures has engines fail, and checks that the person is told, that the next question
// is answered, and that another engine takes over.
func TestDialogueFailures(t *testing.T) {
	t.Parallel()
	ctx := limit(t, 2*time.Minute)
	speech, other := openaitest.New(t), openaitest.New(t)
	var fault atomic.Pointer[func(path string, w http.ResponseWriter, r *http.Request) bool]
	speech.Intercept = func(path string, w http.ResponseWriter, r *http.Request) bool {
		f := fault.Load()
		return f != nil && (*f)(path, w, r)
	}
	link, listener := speechLink(t, speech, openai.Settings{}), speechLink(t, other, openai.Settings{})
	link.Circuit, listener.Speaker = nil, nil
	h := newTestServer(t, testServerOptions{
		boards: withEngines(link, listener)})
	b := h.device(sim.Options{Lang: "en-US"})
	must(t, b.Boot(ctx))
	h.bindScript(ctx, b, weather)
	on := func(stage string) *func(string, http.ResponseWriter, *http.Request) bool {
		f := func(path string, w http.ResponseWriter, _ *http.Request) bool {
			if !strings.HasSuffix(path, stage) {
				return false
			}
			openaitest.Refuse(w, http.StatusInternalServerError, "broken", "")
			return true
		}
		return &f
	}
	for _, c := range []struct {
		name      string
		fault     *func(string, http.ResponseWriter, *http.Request) bool
		sentences []string
		sound     bool
	}{
		{"nothing fails", nil, []string{"You asked: what is the weather today.", "Rain today, then sun."}, true},
		{"another engine listens", on("transcriptions"),
			[]string{"You asked: what is the weather today.", "Rain today, then sun."}, true},
		{"no engine speaks", on("speech"), []string{"I cannot speak at the moment: the speech engine has a problem.",
			"You asked: what is the weather today.", "Rain today, then sun."}, false},
		{"all is well again", nil, []string{"You asked: what is the weather today.", "Rain today, then sun."}, true},
	} {
		fault.Store(c.fault)
		a, err := b.Ask(ctx, spoken(t))
		must(t, err)
		if diff := cmp.Diff(c.sentences, a.Sentences); diff != "" || c.sound != (a.Packets > 0) {
			t.Errorf("%s: %d packets\n%s", c.name, a.Packets, diff)
		}
	}
	clean(t, b)
}

// TestDialogueInterrupted interrupts an answer: its engine and its bot stop, and the next question
// is answered.
func TestDialogueInterrupted(t *testing.T) {
	t.Parallel()
	ctx := limit(t, 2*time.Minute)
	speech := openaitest.New(t)
	h := newTestServer(t, testServerOptions{boards: withEngines(speechLink(t, speech, openai.Settings{}))})
	b := h.device(sim.Options{Lang: "en-US", Mode: wire.ModeManual})
	must(t, b.Boot(ctx))
	asked, stopped := make(chan struct{}), make(chan error, 1)
	h.bindScript(ctx, b, func(ctx context.Context, turn *talk.Turn, emit talk.Emit) error {
		if turn.Text() == "again" {
			return emit(talk.Text("Well. "))
		}
		if err := emit(talk.Text("This is a long story. ")); err != nil {
			return err
		}
		close(asked)
		<-ctx.Done()
		stopped <- ctx.Err()
		return ctx.Err()
	})
	must(t, b.Hold(ctx))
	must(t, b.Talk(ctx, spoken(t)))
	must(t, b.Release(ctx))
	select {
	case <-asked:
	case <-ctx.Done():
		t.Fatal("the bot was not asked")
	}
	must(t, b.Abort(ctx))
	_, err := b.Await(ctx, func(v sim.View) bool { return v.Answers == 1 })
	must(t, err)
	select {
	case <-stopped:
	case <-ctx.Done():
		t.Fatal("the bot still answers")
	}
	speech.Transcript = func([]int16) string { return "again" }
	a, err := b.Ask(ctx, spoken(t))
	must(t, err)
	if diff := cmp.Diff([]string{"Well."}, a.Sentences); diff != "" {
		t.Error(diff)
	}
	clean(t, b)
}

// TestGoodbye checks that saying goodbye ends the conversation, without the bot.
func TestGoodbye(t *testing.T) {
	t.Parallel()
	ctx := limit(t, 2*time.Minute)
	speech := openaitest.New(t)
	speech.Transcript = func([]int16) string { return "Good-bye!" }
	h := newTestServer(t, testServerOptions{boards: withEngines(speechLink(t, speech, openai.Settings{}))})
	b := h.device(sim.Options{Lang: "en-US"})
	must(t, b.Boot(ctx))
	h.bindScript(ctx, b, func(context.Context, *talk.Turn, talk.Emit) error {
		t.Error("the bot was asked")
		return nil
	})
	a, err := b.Ask(ctx, spoken(t))
	must(t, err)
	if diff := cmp.Diff([]string{"Goodbye!"}, a.Sentences); diff != "" {
		t.Error(diff)
	}
	_, err = b.Await(ctx, func(v sim.View) bool { return v.State == sim.Idle })
	must(t, err)
	clean(t, b)
}
