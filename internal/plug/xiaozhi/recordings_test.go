package xiaozhi_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"patchbay/internal/plug/xiaozhi"
	"patchbay/internal/plug/xiaozhi/sim"
	"patchbay/internal/plug/xiaozhi/wire"
	"patchbay/internal/store"
	"patchbay/internal/talk"
	"patchbay/internal/voice/engines/openai"
	"patchbay/internal/voice/engines/openai/openaitest"
	"patchbay/internal/voice/ogg"
	events "patchbay/internal/voice/realtime"
	"patchbay/internal/voice/realtime/realtimetest"
)

const recordedNotice = "This conversation is recorded."

// row returns the row of a board.
func (h *testServer) row(ctx context.Context, b *sim.Board) store.Device {
	h.t.Helper()
	d, err := h.Store.Devices.ByHardware(ctx, xiaozhi.Kind, b.MAC())
	must(h.t, err)
	return d
}

// recordings stops the boards and returns what was recorded of one, oldest first.
func (h *testServer) recordings(d store.Device) []store.Recording {
	h.t.Helper()
	h.boards.Close() // waits until all is stored
	list, err := h.Store.Recordings.Find(h.t.Context(), store.RecordingFilter{Device: d.Number}, 100)
	must(h.t, err)
	slices.Reverse(list)
	return list
}

// packets reads an Ogg Opus file.
func packets(t testing.TB, file []byte) (list [][]byte) {
	t.Helper()
	for r := ogg.NewReader(bytes.NewReader(file)); ; {
		p, err := r.Next()
		if errors.Is(err, io.EOF) {
			return list
		}
		must(t, err)
		list = append(list, bytes.Clone(p.Data))
	}
}

// checkSound checks that the question has what was said, and the answer is what the board got.
func (h *testServer) checkSound(r store.Recording, said, got [][]byte) {
	h.t.Helper()
	sound, err := h.Store.Recordings.Sound(h.t.Context(), r.Turn)
	must(h.t, err)
	question, answer := packets(h.t, sound.Question), packets(h.t, sound.Answer)
	if diff := cmp.Diff(got, answer); diff != "" || len(answer) == 0 {
		h.t.Errorf("%d packets of the answer are recorded, of %d", len(answer), len(got))
	}
	if wanted := time.Duration(len(answer)) * 60 * time.Millisecond; r.AnswerLength != wanted {
		h.t.Errorf("the answer lasts %s, not %s", r.AnswerLength, wanted)
	}
	// The voice alone lasts for 1.6 s. Silence of the board may be before and after it.
	if n := longestRun(question, said); n < 27 || r.QuestionLength < 1600*time.Millisecond {
		h.t.Errorf("the question of %s has %d packets of what was said", r.QuestionLength, n)
	}
}

// longestRun returns the length of the longest run of packets that both lists have.
func longestRun(a, b [][]byte) (longest int) {
	for i := range a {
		for j := range b {
			n := 0
			for i+n < len(a) && j+n < len(b) && bytes.Equal(a[i+n], b[j+n]) {
				n++
			}
			longest = max(longest, n)
		}
	}
	return longest
}

// TestRecordings has a board ask while its owner wants that recorded, and before.
func TestRecordings(t *testing.T) {
	t.Parallel()
	ctx := limit(t, 2*time.Minute)
	h := newTestServer(t, testServerOptions{
		boards: withEngines(speechLink(t, openaitest.New(t), openai.Settings{}))})
	b := h.device(sim.Options{Lang: "en-US", KeepAudio: true})
	must(t, b.Boot(ctx))
	h.bindScript(ctx, b, weather)
	answer := []string{"You asked: what is the weather today.", "Rain today, then sun."}
	ask := func(want ...string) sim.Answer {
		t.Helper()
		a, err := b.Ask(ctx, spoken(t))
		must(t, err)
		if diff := cmp.Diff(append(want, answer...), a.Sentences); diff != "" {
			t.Error(diff)
		}
		return a
	}
	ask()
	set(t, h, h.row(ctx, b), xiaozhi.VoiceSettings{Record: 7})
	first := ask(recordedNotice)
	second := ask()
	set(t, h, h.row(ctx, b), xiaozhi.VoiceSettings{})
	ask()
	clean(t, b)
	list := h.recordings(h.row(ctx, b))
	if len(list) != 2 {
		t.Fatalf("%d turns are recorded", len(list))
	}
	for i, a := range []sim.Answer{first, second} {
		r := list[i]
		h.checkSound(r, spoken(t), a.Audio)
		if r.Question != "what is the weather today" || r.Answer != "You asked: what is the weather today. Rain today, then sun." {
			t.Errorf("%q, %q", r.Question, r.Answer)
		}
		if left := time.Until(r.Expires); left < 6*24*time.Hour || left > 8*24*time.Hour {
			t.Errorf("it is kept for %s", left)
		}
	}
}

// TestRecordingOfInterruptedAnswer checks that only what was sent is recorded.
func TestRecordingOfInterruptedAnswer(t *testing.T) {
	t.Parallel()
	ctx := limit(t, 2*time.Minute)
	h := newTestServer(t, testServerOptions{boards: withEngines(speechLink(t, openaitest.New(t), openai.Settings{}))})
	b := h.device(sim.Options{Lang: "en-US", Mode: wire.ModeManual, KeepAudio: true})
	must(t, b.Boot(ctx))
	d := h.row(ctx, b)
	set(t, h, d, xiaozhi.VoiceSettings{Record: 1})
	asked := make(chan struct{})
	h.bindScript(ctx, b, func(ctx context.Context, _ *talk.Turn, emit talk.Emit) error {
		close(asked)
		if err := emit(talk.Text("This is a long story. ")); err != nil {
			return err
		}
		<-ctx.Done()
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
	_, err := b.Await(ctx, func(v sim.View) bool { return v.State == sim.Speaking })
	must(t, err)
	must(t, b.Abort(ctx))
	_, err = b.Await(ctx, func(v sim.View) bool { return v.Answers == 1 })
	must(t, err)
	clean(t, b)
	list := h.recordings(d)
	if len(list) != 1 || list[0].AnswerLength > time.Second || list[0].QuestionLength == 0 {
		t.Errorf("%+v", list)
	}
}

// TestRecordingOfDuplex has a board talk with a realtime model while that is recorded.
func TestRecordingOfDuplex(t *testing.T) {
	t.Parallel()
	ctx := limit(t, 2*time.Minute)
	h, b, _ := newDuplex(ctx, t, realtimetest.Options{Spelling: events.OpenAI, Sound: brief,
		Transcript: func([]int16) string { return question },
		Answer:     func(realtimetest.Question) realtimetest.Answer { return realtimetest.Answer{Text: reply} },
	}, false, sim.Options{}, nil)
	d := h.row(ctx, b)
	set(t, h, d, xiaozhi.VoiceSettings{Record: 30})
	a, err := b.Ask(ctx, spoken(t))
	must(t, err)
	if len(a.Sentences) == 0 || a.Sentences[0] != recordedNotice {
		t.Errorf("the board showed %q", a.Sentences)
	}
	clean(t, b)
	list := h.recordings(d)
	if len(list) != 1 || list[0].Question != question || list[0].Answer != reply {
		t.Fatalf("%+v", list)
	}
	sound, err := h.Store.Recordings.Sound(ctx, list[0].Turn)
	must(t, err)
	if len(packets(t, sound.Answer)) != a.Packets || list[0].QuestionLength < 1600*time.Millisecond {
		t.Errorf("%d packets are recorded, of %d; the question lasts %s", len(packets(t, sound.Answer)), a.Packets,
			list[0].QuestionLength)
	}
}

// TestRecordingWithoutTurn checks that nothing is stored of what no bot was asked.
func TestRecordingWithoutTurn(t *testing.T) {
	t.Parallel()
	ctx := limit(t, time.Minute)
	h := newTestServer(t, testServerOptions{
		boards: withEngines(speechLink(t, openaitest.New(t), openai.Settings{}))})
	b := h.device(sim.Options{Lang: "en-US"})
	must(t, b.Boot(ctx))
	d := h.row(ctx, b)
	must(t, h.Store.Devices.Bind(ctx, d.Number, 0)) // nobody answers: there is no turn
	set(t, h, d, xiaozhi.VoiceSettings{Record: 1})
	a, err := b.Ask(ctx, spoken(t))
	must(t, err)
	if want := []string{recordedNotice, "No bot answers this board yet."}; !slices.Equal(a.Sentences, want) {
		t.Errorf("the board showed %q", a.Sentences)
	}
	if list := h.recordings(d); len(list) != 0 {
		t.Errorf("%+v", list)
	}
}
