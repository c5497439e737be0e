package eyeclaw

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"patchbay/internal/talk"
)

// TestFrames_addressing checks that chunks reach their turn in every form of addressing.
func TestFrames_addressing(t *testing.T) {
	r := newRig(t)
	c := r.connect()
	c.expect("welcome")
	c.raw(`{"command":"subscribe","identifier":` + c.ident + `}`)
	own, _ := c.expectMessage("connected")["session_id"].(string)
	c.expect("confirm_subscription")
	b := r.attachedBot()
	a := r.ask(t.Context(), b, "t1", "hi")
	c.expectMessage("execute_command")
	c.send(`{"type":"stream_chunk","content":"none "}`)
	c.send(`{"type":"stream_chunk","content":"null ","session_id":null}`)
	c.send(`{"type":"stream_chunk","content":"socket ","session_id":"%s"}`, own)
	c.send(`{"type":"stream_chunk","content":"turn ","session_id":"t1"}`)
	c.send(`{"type":"stream_chunk","content":"stranger ","session_id":"t0"}`)
	a.saying(t, "none null socket turn ")

	other := r.ask(t.Context(), b, "t2", "hi")
	c.expectMessage("execute_command")
	c.send(`{"type":"stream_chunk","content":"ambiguous "}`)
	c.send(`{"type":"stream_end","session_id":"t1"}`)
	c.send(`{"type":"stream_summary","session_id":"t1","total_content":"whatever","total_chunks":4}`)
	a.ends(t, "none null socket turn ")
	c.send(`{"type":"stream_chunk","content":"second"}`)
	other.saying(t, "second")

	// Another socket of the bot may continue the turn.
	c2 := r.subscribed()
	c2.send(`{"type":"stream_chunk","content":"!","session_id":"t2"}`)
	other.saying(t, "second!")
	c2.send(`{"type":"stream_end"}`)
	c2.send(`{"type":"stream_summary","session_id":"t2","total_content":"second!","total_chunks":2}`)
	other.ends(t, "second!")
	if n := r.metric("dropped_frames_total", "reason=unknown_turn"); n != 2 {
		t.Errorf("%v frames without a turn, want 2", n)
	}
	c.send(`{"type":"stream_end","session_id":"t1"}`) // plugin 2.3 sends it twice
	c.send(`{"action":"ping"}`)
	c.expectMessage("pong")
	if n := r.metric("dropped_frames_total", "reason=unknown_turn"); n != 3 {
		t.Errorf("%v frames without a turn, want 3", n)
	}
}

func TestFrames_endings(t *testing.T) {
	long := func(*Options) {}
	short := func(o *Options) { o.Timings.SettleWait = 300 * time.Millisecond }
	chunk := `{"type":"stream_chunk","content":"text","session_id":"t1","sequence":0}`
	end := `{"type":"stream_end","session_id":"t1"}`
	summary := `{"type":"stream_summary","session_id":"t1","total_content":"text more","total_chunks":2}`
	for _, c := range []struct {
		name string
		opt  func(*Options)
		say  []string
		want string
		fast bool
	}{
		{"end, then summary", long, []string{chunk, end, summary}, "text more", true},
		{"summary, then end", long, []string{chunk, summary, end}, "text more", true},
		{"summary alone", short, []string{chunk, summary}, "text more", false},
		{"end alone", short, []string{chunk, end}, "text", false},
		{"response", long, []string{`{"action":"response","content":"whole","session_id":"t1"}`}, "whole", true},
		{"error with nothing in it", long, []string{`{"type":"stream_error","session_id":"t1"}`}, "", true},
		{"error object", long, []string{chunk, `{"type":"stream_error","error":{"code":1},"session_id":"t1"}`},
			"text", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, c.opt)
			cl := r.subscribed()
			a := r.ask(t.Context(), r.attachedBot(), "t1", "hi")
			cl.expectMessage("execute_command")
			begin := time.Now()
			for _, s := range c.say {
				cl.send("%s", s)
			}
			if strings.HasPrefix(c.name, "error") {
				a.fails(t, talk.BotFailed)
			} else {
				a.ends(t, c.want)
			}
			if got := a.said(); got != c.want {
				t.Errorf("said %q", got)
			}
			if took := time.Since(begin); !c.fast && took < 300*time.Millisecond {
				t.Errorf("ended after %v, without waiting for the other half", took)
			}
		})
	}
}

func TestAnswer_cancel(t *testing.T) {
	emitFails := errors.New("nobody listens")
	for _, c := range []struct {
		name  string
		cause error
		told  bool
	}{
		{"disconnected", talk.ErrDisconnected, true},
		{"deadline", context.DeadlineExceeded, true},
		{"board's silence limit", &talk.Failure{Code: talk.TimedOut}, true},
		{"the asker stops it", talk.ErrStopped, true},
		{"program stops", context.Canceled, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t)
			cl := r.subscribed()
			ctx, cancel := context.WithCancelCause(t.Context())
			a := r.ask(ctx, r.attachedBot(), "t1", "hi")
			cl.expectMessage("execute_command")
			cancel(c.cause)
			if _, err := a.end(t); !errors.Is(err, context.Canceled) {
				t.Errorf("got %v", err)
			}
			cl.send(`{"action":"ping"}`)
			if c.told {
				if m := cl.expectMessage("cancel"); m["session_id"] != "t1" {
					t.Errorf("got %v", m)
				}
			}
			cl.expectMessage("pong")
		})
	}
	t.Run("emit fails", func(t *testing.T) {
		r := newRig(t)
		cl := r.subscribed()
		b := r.attachedBot()
		done := make(chan error, 1)
		go func() {
			done <- b.Answer(t.Context(), &talk.Turn{ID: "t1", Parts: []talk.Part{{Text: "x"}}},
				func(talk.Event) error { return emitFails })
		}()
		cl.expectMessage("execute_command")
		cl.send(`{"type":"stream_chunk","content":"x"}`)
		if err := <-done; err != emitFails {
			t.Errorf("got %v", err)
		}
		cl.expectMessage("cancel")
	})
}

func TestAnswer_sameTurnTwice(t *testing.T) {
	r := newRig(t)
	c := r.subscribed()
	b := r.attachedBot()
	a := r.ask(t.Context(), b, "t1", "hi")
	c.expectMessage("execute_command")
	r.ask(t.Context(), b, "t1", "hi").fails(t, talk.Internal)
	c.send(`{"action":"response","content":"hello","session_id":"t1"}`)
	a.ends(t, "hello")
}

func TestAnswer_tooLong(t *testing.T) {
	r := newRig(t)
	c := r.subscribed()
	a := r.ask(t.Context(), r.attachedBot(), "t1", "hi")
	c.expectMessage("execute_command")
	h := r.pluginBot()
	h.mu.Lock()
	h.turns["t1"].text.WriteString(strings.Repeat("x", maxAnswer-4))
	h.mu.Unlock()
	c.send(`{"type":"stream_chunk","content":"fits","session_id":"t1"}`)
	c.send(`{"type":"stream_chunk","content":"too much","session_id":"t1"}`)
	c.send(`{"type":"stream_chunk","content":"too late","session_id":"t1"}`)
	f := a.fails(t, talk.BotFailed)
	if !strings.Contains(f.Cause, "8 MiB") || len(a.said()) != maxAnswer || !strings.HasSuffix(a.said(), "xfits") {
		t.Errorf("failed with %+v after %d bytes", f, len(a.said()))
	}
}

// TestFrames_strangerInMidAnswer has a plugin that continues a turn from before a restart of the
// server. Its chunks are dropped, and they spoil the summary of the next turn.
func TestFrames_strangerInMidAnswer(t *testing.T) {
	r := newRig(t)
	c := r.subscribed()
	a := r.ask(t.Context(), r.attachedBot(), "t1", "hi")
	c.expectMessage("execute_command")
	c.send(`{"type":"stream_chunk","content":"ours ","session_id":"t1","sequence":0}`)
	c.send(`{"type":"stream_chunk","content":"old","session_id":"t0","sequence":1}`)
	c.expectMessage("chunk_received")
	c.expectMessage("chunk_received")
	a.saying(t, "ours ")
	_ = c.ws.CloseNow()
	c = r.subscribed()
	c.send(`{"type":"stream_end","session_id":"t1"}`)
	c.send(`{"type":"stream_summary","session_id":"t1","total_content":"ours oldmore","total_chunks":3}`)
	a.ends(t, "ours ")
	if n := r.metric("anomalies_total", "kind=summary"); n != 1 {
		t.Errorf("%v anomalies", n)
	}
}
