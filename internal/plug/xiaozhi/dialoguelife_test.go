package xiaozhi_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"patchbay/internal/hub/hubtest"
	"patchbay/internal/plug/xiaozhi"
	"patchbay/internal/plug/xiaozhi/sim"
	"patchbay/internal/settings"
	"patchbay/internal/store"
	"patchbay/internal/talk"
	"patchbay/internal/voice/engines/openai"
	"patchbay/internal/voice/engines/openai/openaitest"
)

// talking is a server with a board whose bot answers aloud.
func talking(ctx context.Context, t *testing.T, o sim.Options, f hubtest.Func) (h *testServer, b *sim.Board,
	d store.Device) {
	t.Helper()
	h = newTestServer(t, testServerOptions{boards: withEngines(speechLink(t, openaitest.New(t), openai.Settings{}))})
	o.Lang = "en-US"
	b = h.device(o)
	must(t, b.Boot(ctx))
	h.bindScript(ctx, b, f)
	d, err := h.Store.Devices.ByHardware(ctx, xiaozhi.Kind, b.MAC())
	must(t, err)
	return h, b, d
}

// fine is a bot with a short answer.
func fine(_ context.Context, _ *talk.Turn, emit talk.Emit) error {
	return emit(talk.Text("It is fine."))
}

// TestGreeting has a board greet once, unless the person asks at once, and set its volume.
func TestGreeting(t *testing.T) {
	t.Parallel()
	ctx := limit(t, 2*time.Minute)
	h, b, d := talking(ctx, t, sim.Options{}, fine)
	set(t, h, d, xiaozhi.VoiceSettings{Greeting: "Hi, what's up?", Volume: 42})
	must(t, b.Wake(ctx))
	for b.View().Answers == 0 {
		must(t, b.Talk(ctx, quietPackets(2)))
	}
	_, err := b.Await(ctx, func(v sim.View) bool { return v.Volume == 42 && v.State == sim.Listening })
	must(t, err)
	if diff := cmp.Diff([]string{"Hi, what's up?"}, b.LastAnswer().Sentences); diff != "" {
		t.Error(diff)
	}
	for range 2 {
		a, err := b.Ask(ctx, append(quietPackets(20), spoken(t)...))
		must(t, err)
		if diff := cmp.Diff([]string{"It is fine."}, a.Sentences); diff != "" {
			t.Error(diff)
		}
	}
	must(t, b.Press(ctx)) // ends the conversation
	_, err = b.Await(ctx, func(v sim.View) bool { return v.State == sim.Idle })
	must(t, err)
	a, err := b.Ask(ctx, spoken(t)) // somebody speaks after half a second
	must(t, err)
	if diff := cmp.Diff([]string{"It is fine."}, a.Sentences); diff != "" {
		t.Error(diff)
	}
	clean(t, b)
}

// TestLeave checks that a bot can end the conversation after its answer.
func TestLeave(t *testing.T) {
	t.Parallel()
	ctx := limit(t, 2*time.Minute)
	_, b, _ := talking(ctx, t, sim.Options{}, func(_ context.Context, turn *talk.Turn, emit talk.Emit) error {
		if !turn.Can(talk.CommandLeave) || turn.Can(talk.CommandTakePhoto) {
			t.Errorf("the board can do %v", turn.Commands)
		}
		if err := emit(talk.DoCommand(talk.Command{Name: talk.CommandLeave})); err != nil {
			return err
		}
		return emit(talk.Text("Sleep well."))
	})
	a, err := b.Ask(ctx, spoken(t))
	must(t, err)
	if diff := cmp.Diff([]string{"Sleep well."}, a.Sentences); diff != "" {
		t.Error(diff)
	}
	_, err = b.Await(ctx, func(v sim.View) bool { return v.State == sim.Idle })
	must(t, err)
	clean(t, b)
}

// TestLook checks that a bot can see what is before the camera, once per question.
func TestLook(t *testing.T) {
	t.Parallel()
	ctx := limit(t, 2*time.Minute)
	jpeg := append([]byte{0xff, 0xd8, 0xff, 0xe0}, make([]byte, 2000)...)
	_, b, _ := talking(ctx, t, sim.Options{Picture: jpeg},
		func(_ context.Context, turn *talk.Turn, emit talk.Emit) error {
			if len(turn.Images()) == 0 {
				if err := emit(talk.Text("Let me see.")); err != nil {
					return err
				}
				return emit(talk.DoCommand(talk.Command{Name: talk.CommandTakePhoto}))
			}
			if turn.Can(talk.CommandTakePhoto) || len(turn.Images()[0].Data) != len(jpeg) {
				t.Errorf("%v, %d bytes", turn.Commands, len(turn.Images()[0].Data))
			}
			return emit(talk.Text("That is a cat."))
		})
	_, err := b.Ask(ctx, spoken(t))
	must(t, err)
	_, err = b.Await(ctx, func(v sim.View) bool { return v.Answers == 2 && v.State == sim.Listening })
	must(t, err)
	if diff := cmp.Diff([]string{"That is a cat."}, b.LastAnswer().Sentences); diff != "" {
		t.Error(diff)
	}
	clean(t, b)
}

// TestVoiceTimes checks that the record of a spoken turn has its stages in their order.
func TestVoiceTimes(t *testing.T) {
	t.Parallel()
	ctx := limit(t, 2*time.Minute)
	h, b, d := talking(ctx, t, sim.Options{}, fine)
	_, err := b.Ask(ctx, spoken(t))
	must(t, err)
	bound, err := h.Store.Devices.ByNumber(ctx, d.Number)
	must(t, err)
	for {
		list, err := h.Store.Traces.ByBot(ctx, bound.Bot, time.Now().Add(time.Hour), "", 1)
		must(t, err)
		if len(list) == 0 { // it is stored a moment after the board has played
			continue
		}
		v := list[0].Voice
		if v == nil {
			t.Fatal("no times")
		}
		stages := []int64{0, v.Commit, v.Transcript, v.FirstText, v.FirstSentence, v.FirstSound}
		if !slices.IsSorted(stages) || v.Commit == 0 || v.Interrupted != 0 || v.SpeechEnded.IsZero() {
			t.Errorf("%+v", v)
		}
		break
	}
	clean(t, b)
}

// TestFollowUp checks that a conversation ends by itself after an answer.
func TestFollowUp(t *testing.T) {
	t.Parallel()
	ctx := limit(t, 2*time.Minute)
	h, b, d := talking(ctx, t, sim.Options{}, fine)
	set(t, h, d, xiaozhi.VoiceSettings{FollowUp: settings.Duration(2 * time.Second)})
	_, err := b.Ask(ctx, spoken(t))
	must(t, err)
	began := time.Now()
	_, err = b.Await(ctx, func(v sim.View) bool { return v.State == sim.Idle })
	must(t, err)
	if after := time.Since(began); after < time.Second {
		t.Errorf("it ends after %s", after)
	}
	clean(t, b)
}
