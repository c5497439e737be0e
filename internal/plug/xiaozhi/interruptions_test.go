package xiaozhi_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"patchbay/internal/hub/hubtest"
	"patchbay/internal/netx"
	"patchbay/internal/plug/xiaozhi"
	"patchbay/internal/plug/xiaozhi/sim"
	"patchbay/internal/plug/xiaozhi/wire"
	"patchbay/internal/store"
	"patchbay/internal/talk"
)

// TestRandomInterruptions interrupts answers with the button at random times, on many boards at
// once. The boards check that the last packet and tts/stop come in time and that no sound comes
// after it, and the test that nothing of an answer is shown in the next. With CHECK_ALL there are
// 10,000.
func TestRandomInterruptions(t *testing.T) {
	t.Parallel()
	boards, times := 10, 12
	if os.Getenv("CHECK_ALL") != "" {
		boards, times = 25, 400
	}
	ctx := limit(t, time.Duration(times)*30*time.Second)
	h := newTestServer(t, testServerOptions{boards: withoutFillers(streaming(20*time.Millisecond,
		func(utterance int, _ time.Duration, _ bool) string { return fmt.Sprintf("question %d", utterance) }))})
	var all sync.WaitGroup
	errs := make([]error, boards)
	for i := range boards {
		b := h.device(sim.Options{Lang: "en-US", Mode: wire.ModeManual})
		must(t, b.Boot(ctx))
		h.bindScript(ctx, b, hubtest.Func(func(_ context.Context, turn *talk.Turn, emit talk.Emit) error {
			return emit(talk.Text(fmt.Sprintf("This is for %[1]s. It has a second part for %[1]s. ", turn.Text())))
		}))
		said := spoken(t)[4:17]
		all.Go(func() {
			for n := range times {
				if errs[i] == nil {
					errs[i] = interrupted(ctx, b, said, n%2 == 0, rand.N(700*time.Millisecond))
				}
			}
			clean(t, b)
		})
	}
	all.Wait()
	for _, err := range errs {
		must(t, err)
	}
	h.noTurnFailed()
}

// noTurnFailed checks that no turn is counted as failed: an interrupted answer is none.
func (h *testServer) noTurnFailed() {
	h.t.Helper()
	families, err := h.Hub.Registerer.(*prometheus.Registry).Gather()
	must(h.t, err)
	turns := 0.0
	for _, f := range families {
		if f.GetName() != "patchbay_turns_total" {
			continue
		}
		for _, m := range f.GetMetric() {
			turns += m.GetCounter().GetValue()
			for _, l := range m.GetLabel() {
				if l.GetName() == "outcome" && l.GetValue() == "failed" {
					h.t.Errorf("%v turns failed: %v", m.GetCounter().GetValue(), m.GetLabel())
				}
			}
		}
	}
	if turns == 0 {
		h.t.Error("no turn has ended")
	}
}

// withoutFillers are options of boards that say nothing while their bot is slow, as bots are on a
// busy machine.
func withoutFillers(options func(*xiaozhi.Options)) func(*xiaozhi.Options) {
	return func(o *xiaozhi.Options) {
		options(o)
		v := o.Voice.(xiaozhi.Dialogue)
		v.Settings = func(context.Context, store.Device) xiaozhi.VoiceSettings {
			return xiaozhi.VoiceSettings{Language: "en-US", Fillers: new(bool)}
		}
		o.Voice = v
	}
}

// interrupted asks, interrupts the answer a time after the board expects it, or after its first
// sentence, and returns an error if it has a part of another one.
func interrupted(ctx context.Context, b *sim.Board, said [][]byte, began bool, after time.Duration) error {
	if err := b.Hold(ctx); err != nil {
		return err
	}
	if err := b.Talk(ctx, said); err != nil {
		return err
	}
	before := b.View().Answers
	if err := b.Release(ctx); err != nil {
		return err
	}
	_, err := b.Await(ctx, func(v sim.View) bool {
		return v.State == sim.Speaking && (!began || strings.HasPrefix(v.Displayed, "This is for "))
	})
	if err == nil {
		err = netx.Wait(ctx, after)
	}
	if err != nil {
		return err
	}
	if err = b.Abort(ctx); err != nil {
		return err
	}
	v, err := b.Await(ctx, func(v sim.View) bool { return v.State == sim.Idle })
	if err != nil || v.Answers == before {
		return err
	}
	a := b.LastAnswer()
	for _, s := range a.Sentences {
		if !strings.HasSuffix(s, " "+a.Transcript+".") {
			return fmt.Errorf("the answer to %q says %q", a.Transcript, s)
		}
	}
	return nil
}

// TestRandomSpeechInterruptions is as [TestRandomInterruptions], by speech on boards that listen
// while they speak.
func TestRandomSpeechInterruptions(t *testing.T) {
	t.Parallel()
	boards, times := 4, 4
	if os.Getenv("CHECK_ALL") != "" {
		boards, times = 25, 400
	}
	ctx := limit(t, time.Duration(times)*20*time.Second)
	h := newTestServer(t, testServerOptions{boards: withoutFillers(streaming(60*time.Millisecond,
		func(utterance int, heard time.Duration, finished bool) string {
			if heard < 600*time.Millisecond && !finished {
				return ""
			}
			return threeWords(utterance)
		}))})
	var all sync.WaitGroup
	errs := make([]error, boards)
	for i := range boards {
		transcripts := make(chan string, 8)
		current := ""
		b := h.device(sim.Options{Lang: "en-US", Mode: wire.ModeRealtime, OnEvent: func(e sim.Event) {
			switch {
			case e.Kind == sim.EventTranscript:
				current = e.Text
				transcripts <- e.Text
			case e.Kind == sim.EventSentence && !strings.HasSuffix(e.Text, " "+current+"."):
				t.Errorf("the answer to %q says %q", current, e.Text)
			}
		}})
		must(t, b.Boot(ctx))
		h.bindScript(ctx, b, hubtest.Func(func(_ context.Context, turn *talk.Turn, emit talk.Emit) error {
			return emit(talk.Text(fmt.Sprintf("This is for %[1]s. It has a second part for %[1]s. ", turn.Text())))
		}))
		must(t, b.Press(ctx))
		all.Go(func() {
			for range times {
				if errs[i] == nil {
					errs[i] = spokenOver(ctx, b, spoken(t), transcripts, rand.N(900*time.Millisecond))
				}
			}
			clean(t, b)
		})
	}
	all.Wait()
	for _, err := range errs {
		must(t, err)
	}
	h.noTurnFailed()
}

// threeWords returns words that are in no other text.
func threeWords(number int) string {
	random := rand.New(rand.NewPCG(uint64(number), 0)) //nolint:gosec // not for security
	words := make([]string, 3)
	for i := range words {
		word := make([]byte, 8)
		for j := range word {
			word[j] = 'a' + byte(random.IntN(26))
		}
		words[i] = string(word)
	}
	return strings.Join(words, " ")
}

// spokenOver asks, over an answer if there is one, and waits until the new one has begun and for a
// time after that.
func spokenOver(ctx context.Context, b *sim.Board, said [][]byte, transcripts <-chan string,
	after time.Duration) error {
	text, err := understood(ctx, b, said, transcripts)
	if err != nil {
		return err
	}
	_, err = b.Await(ctx, func(v sim.View) bool {
		return v.State == sim.Speaking && strings.Contains(v.Displayed, text)
	})
	if err != nil {
		return err
	}
	return netx.Wait(ctx, after)
}

// understood speaks until the board shows what it has understood. On a machine that is busy with
// other tests, the recogniser's text may come after the end of what is said over an answer, which
// is forgotten then, and has to be said again.
func understood(ctx context.Context, b *sim.Board, said [][]byte, transcripts <-chan string) (string, error) {
	const patience, most = 15 * time.Second, 3
	for range most {
		if err := b.Talk(ctx, said); err != nil {
			return "", err
		}
		within, cancel := context.WithTimeout(ctx, patience)
		select {
		case text := <-transcripts:
			cancel()
			return text, nil
		case <-within.Done():
			cancel()
		}
	}
	return "", errors.New("the board was not understood")
}
