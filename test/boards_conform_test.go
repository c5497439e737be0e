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

// Every firmware, with every framing and on every transport, in every mode, finds
// nothing to complain of, all at the same time; and when all have left, nothing is
// left of them.
func TestBoardsConform(t *testing.T) {
	t.Parallel()
	limit := limited(t, 80*time.Second)
	var all sync.WaitGroup
	var houses []*boardHouse
	var before []float64
	var sums soundSums
	modes := []string{wire.ModeAuto, wire.ModeManual, wire.ModeRealtime}
	for i, overMQTT := range modes { // of which there is no framing: one mode at each server
		h := newBoardHouse(t, "PATCHBAY_XIAOZHI_SILENCE=3s", "PATCHBAY_XIAOZHI_LINGER=3s", fmt.Sprintf("PATCHBAY_XIAOZHI_FRAMING=%d", i+1))
		houses, before = append(houses, h), append(before, h.goroutines())
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
	for i, h := range houses {
		h.quiet(before[i])
	}
}

// soundSums is how the sound of many boards has travelled.
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

// judge leaves boards no slack, but some of the packets: on a busy machine one board
// or another begins late to play.
func (s *soundSums) judge(t *testing.T) {
	t.Helper()
	t.Logf("of %d packets, %d came too early or too late, and %d were too many at once; the server was %.1f ahead", s.received, s.lost, s.full, s.ahead)
	if s.received < 1000 || s.lost > s.received/50 || s.full > 0 || s.ahead > 6 {
		t.Error("boards do not play that well")
	}
}

// converse is two questions, somebody who interrupts, a tool in the middle of it, and
// then nothing until the server has had enough.
func (h *boardHouse) converse(ctx context.Context, b *sim.Board, button bool) error {
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

// repeated looks whether a board heard again what somebody said to it: good morning.
func repeated(a sim.Answer) error {
	if !strings.Contains(a.Heard, "0.9") || len(a.Sentences) != 1 {
		return fmt.Errorf("understood was %q, said was %q", a.Heard, a.Sentences)
	}
	if n := same(a.Audio, sim.GoodMorning()); n < 20 || n > a.Packets {
		return fmt.Errorf("of %d packets, %d were said", a.Packets, n)
	}
	return nil
}

// same is how many packets in a row are those that somebody said.
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

// interrupt asks something, and does not wait for the end of the answer.
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
