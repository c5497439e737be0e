package test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"patchbay/internal/plug/xiaozhi/sim"
	"patchbay/internal/plug/xiaozhi/wire"
)

// Every firmware, with every framing, transport and mode, finds no violation, all at the same time;
// after all have left, the server holds no resources for them.
func TestBoardsConform(t *testing.T) {
	t.Parallel()
	limit := limited(t, 80*time.Second)
	var all sync.WaitGroup
	var servers []*boardServer
	var before []float64
	var sums soundSums
	modes := []string{wire.ModeAuto, wire.ModeManual, wire.ModeRealtime}
	for i, overMQTT := range modes { // MQTT has no framings, so each server tests one mode
		h := newBoardServer(t, "PATCHBAY_XIAOZHI_SILENCE=3s",
			"PATCHBAY_XIAOZHI_LINGER=3s", fmt.Sprintf("PATCHBAY_XIAOZHI_FRAMING=%d", i+1))
		servers, before = append(servers, h), append(before, h.goroutines())
		begin := func(p sim.Profile, mode, way string) {
			name := fmt.Sprintf("%s %s %s", p.Name, way, mode)
			b := h.mine(name, way, sim.Options{Profile: p, Mode: mode, Steady: true, KeepAudio: true})
			all.Go(func() {
				defer b.Close()
				if err := h.converse(limit, b, mode == wire.ModeManual); err != nil {
					t.Errorf("framing %d, %s: %v", i+1, name, err)
				}
				for _, v := range b.Report().Violations {
					t.Errorf("framing %d, %s: %v", i+1, name, v)
				}
				sums.add(b.Report())
			})
		}
		for _, p := range sim.Profiles() {
			begin(p, overMQTT, "mqtt")
			for _, mode := range modes {
				begin(p, mode, "websocket")
			}
		}
	}
	all.Wait()
	sums.judge(t)
	for i, h := range servers {
		h.quiet(before[i])
	}
}

// soundSums sums up how the sound of many boards was delivered.
type soundSums struct {
	mu                   sync.Mutex
	received, lost, full int
	ahead                float64
}

func (s *soundSums) add(r sim.Report) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.received += r.Received
	s.lost += r.DroppedState + r.DroppedReset
	s.full += r.DroppedQueue
	s.ahead = max(s.ahead, r.MaxAhead)
}

// judge checks the delivery of sound. It tolerates some late packets, because on a busy machine a
// board may start to play late. How far the server is ahead each board checks itself, which knows
// when this machine did not run.
func (s *soundSums) judge(t *testing.T) {
	t.Helper()
	t.Logf("of %d packets, %d came too early or too late, and %d were too many at once; the server was %.1f ahead",
		s.received, s.lost, s.full, s.ahead)
	if s.received < 1000 || s.lost > s.received/50 || s.full > 0 {
		t.Error("boards do not play that well")
	}
}

// converse has two questions, an interruption and a tool call, and then waits until the server ends
// the conversation.
func (h *boardServer) converse(ctx context.Context, b *sim.Board, button bool) error {
	if err := b.Boot(ctx); err != nil {
		return err
	}
	if err := b.Probe(ctx); err != nil {
		return err
	}
	for range 2 {
		a, err := b.Ask(ctx, sim.GoodMorning())
		if err != nil {
			return err
		}
		if err := repeated(a); err != nil {
			return err
		}
	}
	if err := interrupt(ctx, b, button); err != nil {
		return fmt.Errorf("interrupt: %w", err)
	}
	if n := b.LastAnswer().Packets; n > 30 {
		return fmt.Errorf("after somebody interrupted, %d packets of 43 were played", n)
	}
	if _, err := h.call(ctx, b.MAC(), "self.audio_speaker.set_volume", given{"volume": 30}); err != nil {
		return fmt.Errorf("set the volume: %w", err)
	}
	if v := b.Volume(); v != 30 {
		return fmt.Errorf("the volume is %d", v)
	}
	_, err := b.Await(ctx, settled)
	return err
}

// repeated checks that a board heard its own words again: good morning.
func repeated(a sim.Answer) error {
	heard := strings.Contains(a.Transcript, "0.7") || strings.Contains(a.Transcript, "0.8") // a packet more
	if !heard || len(a.Sentences) != 1 {
		return fmt.Errorf("understood was %q, said was %q", a.Transcript, a.Sentences)
	}
	if n := same(a.Audio, sim.GoodMorning()); n < 20 || n > a.Packets {
		return fmt.Errorf("of %d packets, %d were said", a.Packets, n)
	}
	return nil
}

// same returns the length of the longest run of packets that were said.
func same(heard, said [][]byte) (most int) {
	for i := range said {
		for j := range heard {
			n := 0
			for i+n < len(said) && j+n < len(heard) && slices.Equal(said[i+n], heard[j+n]) {
				n++
			}
			most = max(most, n)
		}
	}
	return most
}

// interrupt asks a question and does not wait for the end of the answer.
func interrupt(ctx context.Context, b *sim.Board, button bool) (err error) {
	if button {
		err = b.Hold(ctx)
	}
	if err == nil {
		err = b.Talk(ctx, sim.GoodMorning())
	}
	if err == nil && button {
		err = b.Release(ctx)
	}
	if err == nil {
		_, err = b.Await(ctx, is(sim.Speaking))
	}
	if err == nil {
		err = b.Abort(ctx)
	}
	if err == nil {
		_, err = b.Await(ctx, func(v sim.View) bool { return v.State != sim.Speaking })
	}
	return err
}
