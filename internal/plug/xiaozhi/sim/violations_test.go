package sim

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"patchbay/internal/netx"
	"patchbay/internal/plug/xiaozhi/wire"
)

// Actions of a board in a test, until a fault of its server shows.
var (
	boots = func(ctx context.Context, b *Board, _ *server) error { return b.Boot(ctx) }
	asks  = func(ctx context.Context, b *Board, s *server) error {
		if err := b.Boot(ctx); err != nil {
			return err
		}
		_, err := b.Ask(ctx, GoodMorning())
		return err
	}
	asksTwice = func(ctx context.Context, b *Board, s *server) error {
		if err := asks(ctx, b, s); err != nil {
			return err
		}
		if err := b.Press(ctx); err != nil { // ends the conversation
			return err
		}
		_, err := b.Ask(ctx, GoodMorning())
		return err
	}
	probes = func(ctx context.Context, b *Board, _ *server) error {
		if err := b.Boot(ctx); err != nil {
			return err
		}
		return b.Probe(ctx)
	}
	lists = func(ctx context.Context, b *Board, s *server) error {
		if err := b.Boot(ctx); err != nil {
			return err
		}
		if err := b.Wake(ctx); err != nil {
			return err
		}
		for {
			select {
			case name := <-s.calls:
				if name == "" {
					return nil
				}
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	}
	aborts = func(ctx context.Context, b *Board, s *server) error {
		s.frames = 30
		if err := b.Boot(ctx); err != nil {
			return err
		}
		if err := b.Wake(ctx); err != nil {
			return err
		}
		if err := b.Talk(ctx, GoodMorning()); err != nil {
			return err
		}
		if _, err := b.Await(ctx, func(v View) bool {
			return v.State == Speaking && v.Displayed != "" &&
				v.Displayed != "good morning"
		}); err != nil {
			return err
		}
		if err := b.Abort(ctx); err != nil {
			return err
		}
		return b.waitUntil(ctx, func() bool { b.overdueSoon(); return len(b.report.Violations) > 0 })
	}
	ended = func(ctx context.Context, b *Board, s *server) error {
		if err := b.Boot(ctx); err != nil {
			return err
		}
		if err := b.Wake(ctx); err != nil {
			return err
		}
		tk := <-s.talkers
		tk.out.close(tk)
		return nil
	}
	oddAudio = sends(true, "")
	oddText  = sends(false, "{")
	vanishes = func(ctx context.Context, b *Board, s *server) error {
		if err := b.Boot(ctx); err != nil {
			return err
		}
		if err := b.Press(ctx); err != nil {
			return err
		}
		old := <-s.talkers
		if err := b.Lose(Vanished); err != nil {
			return err
		}
		if err := b.Press(ctx); err != nil {
			return err
		}
		for ctx.Err() == nil { // until it is no accident
			old.say(wire.Message{Type: wire.TypeSTT, Text: "still there?"})
			_ = netx.Wait(ctx, 20*time.Millisecond)
		}
		return nil
	}
	pinged = func(ctx context.Context, b *Board, s *server) error {
		if err := b.Boot(ctx); err != nil {
			return err
		}
		if err := b.Press(ctx); err != nil {
			return err
		}
		w := (<-s.talkers).out.(*wsSide)
		w.frame(opPing, []byte("?"))
		return w.conn.Close()
	}
	photographs = func(ctx context.Context, b *Board, s *server) error {
		if err := b.Boot(ctx); err != nil {
			return err
		}
		if err := b.Wake(ctx); err != nil {
			return err
		}
		tk := <-s.talkers
		s.listed(s.t)
		tk.request(100, "tools/call", `{"name":"self.camera.take_photo","arguments":{"question":"?"}}`)
		return nil
	}
)

// sends is an action that sends odd input.
func sends(binary bool, data string) func(context.Context, *Board, *server) error {
	return func(ctx context.Context, b *Board, _ *server) error {
		if err := b.Boot(ctx); err != nil {
			return err
		}
		if err := b.Wake(ctx); err != nil {
			return err
		}
		return b.SendRaw(binary, []byte(data))
	}
}

// overdueSoon makes waitUntil check again, since no event reports a missing reaction.
func (b *Board) overdueSoon() {
	b.overdue(time.Now())
	time.AfterFunc(50*time.Millisecond, func() { b.update(func() {}) })
}

// Every fault is found by a board, as a violation of the right check.
func TestWrong(t *testing.T) {
	for _, c := range []struct {
		check, wrong string
		act          func(context.Context, *Board, *server) error
		mqtt         bool
		opt          Options
		framing      wire.Framing
		crash        bool // the error is a Crash
	}{
		{check: "C1", wrong: "status", act: boots},
		{check: "C1", wrong: "redirect", act: boots},
		{check: "C1", wrong: "long answer", act: boots, crash: true},
		{check: "C1", wrong: "no JSON", act: boots},
		{check: "C1", wrong: "nowhere", act: boots},
		{check: "C1", wrong: "long key", act: boots, crash: true},
		{check: "C1", wrong: "version", act: boots, crash: true},
		{check: "C1", wrong: "slow", act: boots},
		{check: "C1", wrong: "activation for ever", act: boots},
		{check: "C1", wrong: "activation fails", act: boots},
		{check: "C1", wrong: "strict", act: probes},
		{check: "C1", wrong: "no health text", act: probes},
		{check: "C2", wrong: "any token", act: probes},
		{check: "C2", wrong: "403", act: probes},
		{check: "C2", wrong: "any token", act: probes, mqtt: true},
		{check: "C3", wrong: "no transport", act: asks, crash: true},
		{check: "C3", wrong: "no transport", act: asks, mqtt: true},
		{check: "C3", wrong: "no session", act: asks},
		{check: "C3", wrong: "same session", act: asksTwice},
		{check: "C3", wrong: "sample rate", act: asks},
		{check: "C3", wrong: "slow hello", act: asks},
		{check: "C3", wrong: "no udp", act: asks, mqtt: true},
		{check: "C3", wrong: "short key", act: asks, mqtt: true},
		{check: "C3", wrong: "no hello", act: asks},
		{check: "C4", wrong: "bare frames", act: asks, framing: 2},
		{check: "C4", wrong: "bare frames", act: asks, framing: 3},
		{check: "C4", wrong: "headers", act: asks},
		{check: "C4", wrong: "wrong size", act: asks, framing: 2},
		{check: "C4", wrong: "long packet", act: asks},
		{check: "C4", wrong: "no opus", act: asks},
		{check: "C5", wrong: "initialize twice", act: lists},
		{check: "C5", wrong: "text id", act: lists},
		{check: "C5", wrong: "long id", act: lists},
		{check: "C5", wrong: "null params", act: lists},
		{check: "C5", wrong: "null arguments", act: lists},
		{check: "C5", wrong: "wrong cursor", act: lists},
		{check: "C5", wrong: "half with users", act: lists, opt: Options{Tools: []Tool{{Name: "self.a",
			Description: long}, {Name: "self.b", Description: long}}}},
		{check: "C5", wrong: "first page only", act: waits(lists),
			opt: Options{Tools: []Tool{{Name: "self.a", Description: long}, {Name: "self.b", Description: long}}}},
		{check: "C6", wrong: "audio before start", act: asks},
		{check: "C6", wrong: "audio without start", act: asks},
		{check: "C6", wrong: "audio with start", act: asks},
		{check: "C6", wrong: "audio after stop", act: asksTwice},
		{check: "C6", wrong: "start twice", act: asks},
		{check: "C6", wrong: "early sentence", act: asks},
		{check: "C7", wrong: "burst", act: asks},
		{check: "C7", wrong: "burst", act: asks, mqtt: true},
		{check: "C7", wrong: "hundred at once", act: asks},
		{check: "C7", wrong: "burst of five", act: asks, opt: Options{Profile: C3}},
		{check: "C7", wrong: "stutter", act: asks, opt: Options{Steady: true}},
		{check: "C8", wrong: "early stop", act: asks},
		{check: "C8", wrong: "late stop", act: asks},
		{check: "C9", wrong: "deaf to abort", act: aborts},
		{check: "C9", wrong: "no stop after abort", act: aborts},
		{check: "C9", wrong: "late stop after abort", act: aborts},
		{check: "C10", wrong: "strict about audio", act: waits(oddAudio)},
		{check: "C18", wrong: "strict about messages", act: waits(oddText)},
		{check: "C11", wrong: "wake word as request", act: asks},
		{check: "C12", wrong: "open after Close", act: waits(ended)},
		{check: "C12", wrong: "no Close frame", act: waits(ended)},
		{check: "C12", wrong: "goodbye to another", act: waits(ended), mqtt: true},
		{check: "C13", wrong: "talks to the old one", act: waits(vanishes)},
		{check: "C14", wrong: "wants pongs", act: waits(pinged), opt: Options{Profile: C3}},
		{check: "C15", wrong: "QoS 1", act: waits(ended), mqtt: true},
		{check: "C16", wrong: "same timestamp", act: asks, mqtt: true},
		{check: "C16", wrong: "same flags", act: asks, mqtt: true},
		{check: "C16", wrong: "late sequence", act: asks, mqtt: true},
		{check: "C16", wrong: "same key", act: asksTwice, mqtt: true},
		{check: "C16", wrong: "datagram length", act: waits(asks), mqtt: true},
		{check: "C17", wrong: "photo refused", act: photographs, opt: Options{Picture: picture}},
		{check: "C20", wrong: "upgrade without length", act: boots},
		{check: "C20", wrong: "upgrade redirected", act: boots},
	} {
		name := c.check + " " + c.wrong
		if c.mqtt {
			name += " over MQTT"
		}
		bubble(t, name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(context.Background(), 15*time.Second)
			defer cancel()
			s := newServer(t, c.wrong, c.mqtt)
			if c.framing != 0 {
				s.plan = c.framing
			}
			b := s.board(c.opt)
			err := c.act(ctx, b, s)
			var crash *Crash
			if errors.As(err, &crash) != c.crash {
				t.Errorf("the error is %v", err)
			}
			if errors.Is(err, context.DeadlineExceeded) {
				t.Error(err)
			}
			r := b.Report()
			if !r.Broke(c.check) {
				t.Errorf("not found: %v, %v", r.Violations, err)
			}
			for _, v := range r.Violations {
				if v.Check != c.check && !follows[c.wrong][v.Check] {
					t.Errorf("%v is not what is wrong", v)
				}
			}
		})
	}
}

// follows lists further checks that a fault violates.
var follows = map[string]map[string]bool{
	"stutter":     {"C8": true},
	"long packet": {"C7": true, "C8": true},
}

// long is a description so long that a page holds only one tool.
var long = strings.Repeat("x", 5000)

// waits runs an action and then waits until the board has found a violation.
func waits(act func(context.Context, *Board, *server) error) func(context.Context, *Board, *server) error {
	return func(ctx context.Context, b *Board, s *server) error {
		ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		acted := make(chan error, 1)
		go func() { acted <- act(ctx, b, s) }()
		err := b.waitUntil(ctx, func() bool { b.overdueSoon(); return len(b.report.Violations) > 0 })
		cancel()
		<-acted
		return err
	}
}
