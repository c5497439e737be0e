package hub_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"patchbay/internal/bus/bustest"
	"patchbay/internal/hub"
	"patchbay/internal/hub/hubtest"
	"patchbay/internal/store/storetest"
	"patchbay/internal/talk"
	"patchbay/internal/tool"
	"patchbay/internal/tracing"
	"patchbay/internal/tracing/tracingtest"
)

func newTracer(t *testing.T, c *tracingtest.Collector, instance string, percent int) *tracing.Tracer {
	t.Helper()
	tracer := tracing.New(tracing.Options{URL: c.URL, Percent: percent, Version: "test", Instance: instance,
		Logger: slog.New(slog.DiscardHandler)})
	t.Cleanup(func() { tracer.Close(context.Background()) })
	return tracer
}

// Both parts of a turn and of a call that go to another instance are in one trace, and the instance
// that it begins at decides whether it is sent.
func TestTraceAcrossInstances(t *testing.T) {
	c := tracingtest.New(t)
	db, urls := storetest.Postgres(t), strings.Split(bustest.Cluster(t, 2), ",")
	rig := func(name string, bus, percent int) (*hubtest.Rig, *tracing.Tracer) {
		tracer := newTracer(t, c, name, percent)
		return hubtest.New(t, hubtest.Options{DB: db, BusURL: urls[bus], Name: name,
			Hub: hub.Options{Tracer: tracer}}), tracer
	}
	here, hereTracer := rig("here", 0, 100)
	there, thereTracer := rig("there", 1, -1) // sends only what others have begun
	bot := here.Add(t, "plugin", nil)
	defer there.Hub.AttachBot(bot.Number, hubtest.Func(func(ctx context.Context, turn *talk.Turn,
		emit talk.Emit) error {
		_, err := there.Hub.Call(ctx, access(there, `{}`), "lamp_on", &tool.Call{})
		if err != nil {
			return err
		}
		return emit(talk.Text(turn.Text()))
	}), hub.Limits{Concurrent: 1, Waiting: 3})()
	register(t, here.Hub, hub.ProviderRef{ID: "lamp", Slug: "lamp", Kind: "board", Owner: here.Person.ID, Held: true},
		echoProvider, tool.Tool{Name: "on", Input: []byte(`{"type":"object"}`)})
	await(t, "both know of the other", func() bool {
		_, _, tools := there.Hub.FindProvider("lamp")
		return here.Hub.IsOnline(bot.Number) && len(tools) > 0
	})

	turn := ask(bot, "zqnotsent question")
	must(t, here.Hub.Answer(t.Context(), turn, newRecorder().emit))
	ended := c.Await(t, "of the turn", func(s *tracingtest.Span) bool { return strings.HasPrefix(s.Name, "turn") })
	must(t, there.Hub.Answer(t.Context(), ask(bot, "zqnotsent"), newRecorder().emit))
	hereTracer.Close(t.Context())
	thereTracer.Close(t.Context())
	spans := map[string]tracingtest.Span{}
	for _, s := range c.Spans() {
		if spans[s.Name] = s; s.Trace != ended.Trace {
			t.Errorf("another trace: %+v", s)
		}
	}
	whole, work := spans["turn "+turn.Channel], spans["invoke_agent"]
	call, remote := spans["execute_tool lamp_on"], spans["remote_call on"]
	if len(spans) != 4 || len(c.Spans()) != 4 || whole.Instance != "here" || work.Instance != "there" ||
		call.Instance != "there" || remote.Instance != "here" || work.Parent != whole.ID || call.Parent != work.ID ||
		remote.Parent != call.ID || !work.Remote || call.Remote || !remote.Remote || work.Kind != "server" {
		t.Errorf("%+v", c.Spans())
	}
	if strings.Contains(string(c.Bytes()), "zqnotsent") {
		t.Error("the question was sent")
	}
}

// Spans tell how turns and calls ended, and never why in words.
func TestSpanOutcomes(t *testing.T) {
	c := tracingtest.New(t)
	tracer := newTracer(t, c, "here", 100)
	r := hubtest.New(t, hubtest.Options{Hub: hub.Options{Tracer: tracer}})
	fails := r.AddScript(t, nil, func(context.Context, *talk.Turn, talk.Emit) error { return errors.New("zqnotsent cause") })
	spoken := r.AddScript(t, nil, func(_ context.Context, _ *talk.Turn, emit talk.Emit) error {
		return emit(talk.Text("zqnotsent answer"))
	})
	wantCode(t, r.Hub.Answer(t.Context(), ask(fails, "1"), newRecorder().emit), talk.BotFailed)
	turn := ask(spoken, "2")
	turn.VoiceTimes = func() *talk.VoiceTimes {
		return &talk.VoiceTimes{SpeechEnded: time.Now(), Commit: 100, FirstSound: 900}
	}
	must(t, r.Hub.Answer(t.Context(), turn, newRecorder().emit))
	register(t, r.Hub, hub.ProviderRef{ID: "p", Slug: "p", Kind: "test", Owner: r.Person.ID},
		providerFunc(func(_ context.Context, c *tool.Call) (*tool.Result, error) {
			if c.Tool == "fails" {
				return nil, tool.Fail(tool.TimedOut, "zqnotsent told", errors.New("zqnotsent cause"))
			}
			return &tool.Result{IsError: true, Content: []byte(`[{"type":"text","text":"zqnotsent result"}]`)}, nil
		}), tool.Tool{Name: "fails", Input: []byte(`{"type":"object"}`)},
		tool.Tool{Name: "errs", Input: []byte(`{"type":"object"}`)})
	for _, name := range []string{"p_fails", "p_errs", "zqnotsent_unknown"} {
		_, _ = r.Hub.Call(t.Context(), access(r, `{}`), name, &tool.Call{Args: []byte(`{"a":"zqnotsent"}`)})
	}
	tracer.Close(t.Context())

	found := map[string]bool{}
	for _, s := range c.Spans() {
		found[s.Name+" "+s.Attributes["patchbay.outcome"]+" "+s.Attributes["error.type"]] = s.Failed
		if strings.HasPrefix(s.Name, "turn") && !s.Failed && strings.Join(s.Events,
			" ") != "voice.commit voice.first_sound" {
			t.Errorf("%+v", s)
		}
	}
	channel := "turn " + turn.Channel + " "
	for want, failed := range map[string]bool{
		channel + "failed bot_failed": true, channel + "done ": false, "invoke_agent  bot_failed": true,
		"invoke_agent  ": false, "execute_tool p_fails failed " + string(tool.TimedOut): true,
		"execute_tool p_errs tool_error tool_error": true, "execute_tool refused " + string(tool.Unknown): true,
	} {
		if got, ok := found[want]; !ok || got != failed {
			t.Errorf("%q: %t, %t in %v", want, got, ok, found)
		}
	}
	if strings.Contains(string(c.Bytes()), "zqnotsent") {
		t.Errorf("words were sent: %+v", c.Spans())
	}
}
