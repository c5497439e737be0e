package xiaozhi_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"patchbay/internal/plug/xiaozhi"
	"patchbay/internal/plug/xiaozhi/sim"
	"patchbay/internal/store"
	"patchbay/internal/tool"
	"patchbay/internal/voice/engine"
	"patchbay/internal/voice/engines/openai"
	"patchbay/internal/voice/engines/openai/openaitest"
)

// structured returns a field of a result.
func structured(t testing.TB, res *tool.Result, field string) any {
	t.Helper()
	var out map[string]any
	must(t, json.Unmarshal(res.Structured, &out))
	return out[field]
}

// awaitOnline waits until the server knows that a board is connected, which is a moment after the
// board knows.
func (h *testServer) awaitOnline(ctx context.Context, b *sim.Board) {
	h.t.Helper()
	for online := any(false); online != true; {
		res, err := h.call(ctx, b.MAC(), xiaozhi.ToolStatus, `{}`)
		must(h.t, err)
		online = structured(h.t, res, "online")
	}
}

// TestSay has boards say texts in a conversation, by themselves, and when they wake.
func TestSay(t *testing.T) {
	t.Parallel()
	for _, mqtt := range []bool{false, true} {
		t.Run(map[bool]string{false: "websocket", true: "mqtt"}[mqtt], func(t *testing.T) {
			t.Parallel()
			ctx := limit(t, 2*time.Minute)
			speech := openaitest.New(t)
			h := newTestServer(t, testServerOptions{mqtt: mqtt,
				boards: withEngines(speechLink(t, speech, openai.Settings{}))})
			b := h.device(sim.Options{Lang: "en-US", Profile: sim.FW25})
			must(t, b.Boot(ctx))
			must(t, h.boards.Refresh(ctx))
			say := func(args string) *tool.Result {
				t.Helper()
				res, err := h.call(ctx, b.MAC(), xiaozhi.ToolSay, args)
				must(t, err)
				return res
			}
			if mqtt {
				h.awaitOnline(ctx, b)
			}
			res := say(`{"text":"**Good** morning. The [weather](https://example.org) is fine."}`)
			if mqtt {
				if structured(t, res, "notified") != true {
					t.Errorf("asleep: %s", res.Structured)
				}
				_, err := b.Await(ctx, func(v sim.View) bool { return v.Notifications == 1 && v.State == sim.Idle })
				must(t, err)
			} else {
				if structured(t, res, "waits") != true {
					t.Errorf("asleep: %s", res.Structured)
				}
				_, err := h.call(ctx, b.MAC(), xiaozhi.ToolSay, `{"text":"Now!","later":false}`)
				if e := tool.AsError(err); e == nil || e.Code != tool.Offline {
					t.Errorf("not later: %v", err)
				}
			}
			must(t, b.Wake(ctx))
			if !mqtt {
				_, err := b.Await(ctx, func(v sim.View) bool { return v.Answers == 1 })
				must(t, err)
			}
			if res = say(`{"text":"Dinner is ready."}`); structured(t, res, "spoken") != true {
				t.Errorf("in a conversation: %s", res.Structured)
			}
			if res = say(`{"text":"Not now.","priority":"idle"}`); structured(t, res, "spoken") != false ||
				structured(t, res, "reason") != "conversation" {
				t.Errorf("in a conversation: %s", res.Structured)
			}
			if got := b.Displayed(); got != "Dinner is ready." {
				t.Errorf("shown: %q", got)
			}
			clean(t, b)
		})
	}
}

// TestSayWithoutEngine checks that the text is shown, and the caller told.
func TestSayWithoutEngine(t *testing.T) {
	t.Parallel()
	ctx := limit(t, time.Minute)
	h := newTestServer(t, testServerOptions{})
	b := h.device(sim.Options{})
	must(t, b.Boot(ctx))
	refused := func() string {
		t.Helper()
		_, err := h.call(ctx, b.MAC(), xiaozhi.ToolSay, `{"text":"Dinner is ready."}`)
		if e := tool.AsError(err); e != nil && e.Code == tool.Failed {
			return e.Told
		}
		t.Fatal(err)
		return ""
	}
	must(t, h.boards.Refresh(ctx))
	if got := refused(); got != "This server has no speech engine." {
		t.Errorf("asleep: %s", got)
	}
	must(t, b.Wake(ctx))
	for !strings.HasSuffix(refused(), "The board shows the text instead.") {
		must(t, ctx.Err()) // until the conversation is known
	}
	_, err := b.Await(ctx, func(v sim.View) bool { return v.Displayed == "Dinner is ready." })
	must(t, err)
	clean(t, b)
}

// spent is an account whose limit is reached.
type spent struct{}

func (spent) Refusal(context.Context) *engine.Error {
	return engine.Errorf(engine.Spent, "for the test")
}
func (spent) Used(engine.Use) {}

// TestSayAtLimit checks that a text is shown when the limit of speech is reached, and that the
// result says so.
func TestSayAtLimit(t *testing.T) {
	t.Parallel()
	ctx := limit(t, time.Minute)
	speech := openaitest.New(t)
	chain := &engine.Chain{Links: []engine.Link{speechLink(t, speech, openai.Settings{})}, Account: spent{}}
	h := newTestServer(t, testServerOptions{boards: func(o *xiaozhi.Options) {
		o.Voice = xiaozhi.Dialogue{Engines: func(store.Device) *engine.Chain { return chain }}
	}})
	b := h.device(sim.Options{})
	must(t, b.Boot(ctx))
	must(t, h.boards.Refresh(ctx))
	const text = `{"text":"Dinner is ready."}`
	_, err := h.call(ctx, b.MAC(), xiaozhi.ToolSay, text)
	if e := tool.AsError(err); e == nil || e.Told != "The text is not spoken: the limit of speech for today is reached." {
		t.Errorf("asleep: %v", err)
	}
	must(t, b.Wake(ctx))
	var res *tool.Result
	for res == nil {
		must(t, ctx.Err()) // until the conversation is known
		res, _ = h.call(ctx, b.MAC(), xiaozhi.ToolSay, text)
	}
	if got := string(res.Structured); got != `{"reason":"limit","shown":true,"spoken":false}` ||
		!strings.HasSuffix(res.PlainText(), "the limit of speech for today is reached. The board shows the text instead.") {
		t.Errorf("awake: %s %s", got, res.PlainText())
	}
	_, err = b.Await(ctx, func(v sim.View) bool { return v.Displayed == "Dinner is ready." })
	must(t, err)
	if said := speech.Spoken(); slices.Contains(said, "Dinner is ready.") {
		t.Errorf("the engine spoke %q", said)
	}
	clean(t, b)
}

// ringing begins to ring the timers of a server.
func (h *testServer) ringing() {
	done := make(chan struct{})
	go func() { defer close(done); _ = h.boards.RunTimers(h.t.Context()) }()
	h.t.Cleanup(func() { <-done })
}

// TestTimers has timers ring in a conversation, on a board that plays by itself, on one that only
// shows, and when a board wakes.
func TestTimers(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name            string
		firmware        sim.Profile
		mqtt, wake, say bool
	}{
		{"a conversation", sim.FW242, false, true, true},
		{"a conversation over MQTT", sim.FW25, true, true, false},
		{"a notification", sim.FW25, true, false, true},
		{"an alert", sim.FW242, true, false, true},
		{"a board that wakes", sim.FW242, false, false, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			ctx := limit(t, time.Minute)
			o := testServerOptions{mqtt: c.mqtt}
			if c.say {
				o.boards = withEngines(speechLink(t, openaitest.New(t), openai.Settings{}))
			}
			h := newTestServer(t, o)
			h.ringing()
			b := h.device(sim.Options{Lang: "en-US", Profile: c.firmware})
			must(t, b.Boot(ctx))
			must(t, h.boards.Refresh(ctx))
			if c.mqtt {
				h.awaitOnline(ctx, b)
			}
			if c.wake {
				must(t, b.Wake(ctx))
			}
			set := time.Now()
			_, err := h.call(ctx, b.MAC(), xiaozhi.ToolTimerSet, `{"seconds":1,"text":"Tea"}`)
			must(t, err)
			if !c.wake && !c.mqtt { // it waits until somebody wakes the board
				h.counts(`patchbay_xiaozhi_timers_total{outcome="waits"}`)
				must(t, b.Wake(ctx))
			}
			_, err = b.Await(ctx, func(v sim.View) bool { return strings.Contains(v.Displayed, "Reminder: Tea") })
			must(t, err)
			if early := time.Second - time.Since(set); early > 0 {
				t.Errorf("it rings %s early", early)
			}
			if c.wake {
				_, err = b.Await(ctx, func(v sim.View) bool { return v.State == sim.Speaking })
				must(t, err)
				must(t, b.Abort(ctx))
				h.counts(`patchbay_xiaozhi_timers_total{outcome="rung"}`)
			}
			if c.firmware.Notify && !c.wake {
				_, err = b.Await(ctx, func(v sim.View) bool { return v.Notifications == 1 })
				must(t, err)
			}
			for list := any(nil); fmt.Sprint(list) != "[]"; { // until it is no longer set
				res, err := h.call(ctx, b.MAC(), xiaozhi.ToolTimerList, `{}`)
				must(t, err)
				list = structured(t, res, "timers")
			}
			clean(t, b)
		})
	}
}

// counts waits until a counter is 1.
func (h *testServer) counts(name string) {
	h.t.Helper()
	for {
		all, err := h.reg.Gather()
		must(h.t, err)
		for _, f := range all {
			for _, m := range f.GetMetric() {
				labels := []string{}
				for _, l := range m.GetLabel() {
					labels = append(labels, fmt.Sprintf("%s=%q", l.GetName(), l.GetValue()))
				}
				is := fmt.Sprintf("%s{%s}", f.GetName(), strings.Join(labels, ","))
				if is == name && m.GetCounter().GetValue() >= 1 {
					return
				}
			}
		}
		select {
		case <-h.t.Context().Done():
			h.t.Fatal("no " + name)
		case <-time.After(10 * time.Millisecond):
		}
	}
}
