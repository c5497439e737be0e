package openai

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"patchbay/internal/i18n"
	. "patchbay/internal/plug/openai/openaitest"
	"patchbay/internal/talk"
	"patchbay/internal/tool"
	"patchbay/internal/toolbox"
)

func TestACallAndThenAnAnswer(t *testing.T) {
	s := startServer(t, calling(Call{ID: "call_x", Name: "weather", Arguments: `{"q":"<杭州>"}`}), saying("Sunny."))
	box := echoBox("weather", "search")
	b := newRigWithToolbox(t, s, box, nil)
	if got := b.mustAsk(t, question("hi")).String(); got != `"Sunny."` {
		t.Errorf("got %s", got)
	}
	if got := box.called(); got != `weather{"q":"<杭州>"}` {
		t.Errorf("called %s", got)
	}
	first, second := s.Requests()[0].Chat, s.Requests()[1].Chat
	if got := offeredIn(s, 1) + "; " + offeredIn(s, 2); got != "weather search; weather search" {
		t.Errorf("offered %s", got)
	}
	want := `{"type":"object","properties":{"q":{"type":"string"}},"required":["q"]}`
	if f := first.Tools[0].Function; f.Description != "Does weather & more." || !sameJSON(string(f.Parameters), want) {
		t.Errorf("offered %+v %s", f, f.Parameters)
	}
	if prompt := first.Messages[0].Text(); !strings.Contains(prompt, msgToolbox.In(i18n.English)) ||
		strings.Contains(prompt, msgTools.In(i18n.English)) || prompt != second.Messages[0].Text() {
		t.Errorf("the prompt is %q", prompt)
	}
	m := second.Messages
	if len(m) != 4 || m[1].Text() != "hi" || m[2].Role != "assistant" || string(m[2].Content) != "null" ||
		m[3].Role != "tool" {
		t.Fatalf("the messages are %s", s.Requests()[1].Body)
	}
	if c := m[2].Calls(); len(c) != 1 || c[0] != (Call{ID: "call_x", Name: "weather", Arguments: `{"q":"<杭州>"}`}) {
		t.Errorf("the calls are %+v", c)
	}
	if m[3].ToolCallID != "call_x" || m[3].Text() != `weather got {"q":"<杭州>"}` {
		t.Errorf("the result is %+v %s", m[3], m[3].Text())
	}
	log := b.log.String()
	if !strings.Contains(log, "level=DEBUG msg=\"a tool was called\" turn=turn-1 function=weather") ||
		strings.Count(log, "level=INFO") != 1 ||
		!strings.Contains(log, "the model used tools") || !strings.Contains(log, "calls=1 failed=0 rounds=1") ||
		strings.Contains(log, "杭州") {
		t.Errorf("the log is %s", log)
	}
}

func sameJSON(a, b string) bool {
	x, err := parseArguments(a)
	y, err2 := parseArguments(b)
	return err == nil && err2 == nil && fmt.Sprint(x) == fmt.Sprint(y)
}

func TestWithoutToolsNothingIsDifferent(t *testing.T) {
	for name, box := range map[string]*box{
		"none":       echoBox(),
		"not to get": {listErr: errors.New("the cupboard is locked")},
	} {
		t.Run(name, func(t *testing.T) {
			s := startServer(t, Reply{Steps: append([]Step{Text("Hm.")}, CallInPieces(0, "c", "rm_rf", "{}")...)})
			b := newRigWithToolbox(t, s, box, nil)
			if got := b.mustAsk(t, commanding("hi")).String(); got != `"Hm."` || len(s.Requests()) != 1 {
				t.Errorf("got %s after %d requests", got, len(s.Requests()))
			}
			if strings.Contains(s.Requests()[0].Chat.Messages[0].Text(), msgToolbox.In(i18n.English)) {
				t.Error("the prompt speaks of functions that are not there")
			}
			if told := strings.Contains(b.log.String(), "locked"); told != (box.listErr != nil) ||
				strings.Contains(b.log.String(), "level=INFO") {
				t.Errorf("the log is %s", b.log)
			}
		})
	}
	t.Run("not wanted", func(t *testing.T) {
		s := startServer(t)
		newRigWithToolbox(t, s, echoBox("weather"), func(s *Settings) { s.Tools = new(false) }).mustAsk(t,
			commanding("hi"))
		if got := offeredIn(s, 1); got != "" {
			t.Errorf("offered %s", got)
		}
	})
}

// TestCallsRunAtTheSameTime has calls that return only when all of them run.
func TestCallsRunAtTheSameTime(t *testing.T) {
	s := startServer(t, calling(Call{ID: "1", Name: "a", Arguments: `{}`}, Call{ID: "2", Name: "b", Arguments: `{}`}),
		saying("Done."))
	running := map[string]chan struct{}{"a": make(chan struct{}), "b": make(chan struct{})}
	box := echoBox("a", "b")
	box.call = func(ctx context.Context, name, _ string, _ func(tool.Progress)) (*tool.Result, error) {
		close(running[name])
		for _, ch := range running {
			select {
			case <-ch:
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
		if name == "a" { // the first call ends last
			<-running["b"]
		}
		return tool.Text(name + " is done"), nil
	}
	b := newRigWithToolbox(t, s, box, nil)
	if got := b.mustAsk(t, question("hi")).String(); got != `"Done."` {
		t.Errorf("got %s", got)
	}
	if got := strings.Join(toolResultsIn(t, s, 2), "|"); got != "a is done|b is done" {
		t.Errorf("the model was told %s", got)
	}
}

func TestWhatTheModelIsTold(t *testing.T) {
	result := func(r *tool.Result) func() (*tool.Result, error) {
		return func() (*tool.Result, error) { return r, nil }
	}
	failure := func(err error) func() (*tool.Result, error) {
		return func() (*tool.Result, error) { return nil, err }
	}
	good := result(tool.Text("fine"))
	tests := []struct {
		name, function, arguments string
		call                      func() (*tool.Result, error)
		want                      string
		carried                   string // arguments that the tool got, "-" if it was not called
	}{
		{"text", "a", `{"q":1.50}`, good, "fine", `{"q":1.50}`},
		{"JSON", "a", `{}`, result(tool.JSON(map[string]any{"n": 1})), `{"n":1}`, `{}`},
		{"no arguments", "a", ``, good, "fine", `{}`},
		{"null", "a", `null`, good, "fine", `{}`},
		{"encoded twice", "a", `"{\"q\":\"x\"}"`, good, "fine", `{"q":"x"}`},
		{"fenced", "a", "```json\n{\"q\":1}\n```", good, "fine", `{"q":1}`},
		{"nothing", "a", `{}`, result(nil), toolbox.NoOutput, `{}`},
		{"empty", "a", `{}`, result(&tool.Result{}), toolbox.NoOutput, `{}`},
		{"blank", "a", `{}`, result(tool.Text(" \n")), toolbox.NoOutput, `{}`},
		{"said that it failed", "a", `{}`, result(tool.ErrorResult("no such city")), "Error: no such city", `{}`},
		{"typed error", "a", `{}`, failure(tool.Fail(tool.Offline,
			"The board is not connected.", errors.New("geheim"))), "Error: The board is not connected.", `{}`},
		{"wrapped error", "a", `{}`, failure(fmt.Errorf("x: %w", tool.Fail(tool.Denied, "Not allowed.", nil))),
			"Error: Not allowed.", `{}`},
		{"other error", "a", `{}`, failure(errors.New("geheim")), "Error: The tool failed.", `{}`},
		{"wordless error", "a", `{}`, failure(&tool.Error{Code: tool.Failed}), "Error: the tool failed.", `{}`},
		{"asks the person", "a", `{}`, result(&tool.Result{InputRequired: &tool.InputRequired{State: "geheim"}}),
			toolbox.NeedsInput, `{}`},
		{"unknown function", "rm_rf", `{}`, good, toolbox.UnknownFunction, "-"},
		{"no function's name", "rm -rf /", `{}`, good, toolbox.UnknownFunction, "-"},
		{"half an object", "a", `{"q":`, good, toolbox.NotJSON, "-"},
		{"a list", "a", `[1]`, good, toolbox.NotJSON, "-"},
		{"too long", "a", `{"q":"` + strings.Repeat("x", toolbox.MaxArguments) + `"}`, good, toolbox.TooLong, "-"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := startServer(t, calling(Call{ID: "1", Name: tt.function, Arguments: tt.arguments}), saying("Done."))
			box := echoBox("a")
			box.call = func(context.Context, string, string, func(tool.Progress)) (*tool.Result,
				error) {
				return tt.call()
			}
			b := newRigWithToolbox(t, s, box, nil)
			if got := b.mustAsk(t, question("hi")).String(); got != `"Done."` {
				t.Errorf("got %s", got)
			}
			if got := toolResultsIn(t, s, 2); len(got) != 1 || got[0] != tt.want {
				t.Errorf("the model was told %q, want %q", got, tt.want)
			}
			if got, want := box.called(), strings.TrimPrefix("a"+tt.carried, "a-"); got != want {
				t.Errorf("called %q, want %q", got, want)
			}
			if strings.Contains(string(s.Requests()[1].Body), "geheim") {
				t.Error("the model was told the cause")
			}
		})
	}
}

func TestAFailureIsRepaired(t *testing.T) {
	s := startServer(t,
		calling(Call{ID: "1", Name: "a", Arguments: `{"q":"Hangzou"}`}),
		calling(Call{ID: "2", Name: "a", Arguments: `{"q":"Hangzhou"}`}),
		saying("Sunny."))
	box := echoBox("a")
	box.call = func(_ context.Context, _, args string, _ func(tool.Progress)) (*tool.Result, error) {
		if !strings.Contains(args, "Hangzhou") {
			return tool.ErrorResult("no such city"), nil
		}
		return tool.Text("sun"), nil
	}
	b := newRigWithToolbox(t, s, box, nil)
	if got := b.mustAsk(t, question("hi")).String(); got != `"Sunny."` {
		t.Errorf("got %s", got)
	}
	if got := s.Requests()[2].Chat.Messages; len(got) != 6 || got[3].Text() != "Error: no such city" ||
		got[5].Text() != "sun" {
		t.Errorf("the third request is %s", s.Requests()[2].Body)
	}
	if !strings.Contains(b.log.String(), "calls=2 failed=1 rounds=2") {
		t.Errorf("the log is %s", b.log)
	}
}

func TestTheSameFailureIsNotTriedForEver(t *testing.T) {
	again := calling(Call{Name: "a", Arguments: `{"q":1}`})
	s := startServer(t, again, again, again, again, calling(Call{Name: "a", Arguments: `{"q":2}`}),
		saying("I give up."))
	box := echoBox("a")
	box.call = func(context.Context, string, string, func(tool.Progress)) (*tool.Result, error) {
		return nil, tool.Fail(tool.Busy, "Busy.", nil)
	}
	newRigWithToolbox(t, s, box, nil).mustAsk(t, question("hi"))
	var got []string
	for n := 2; n <= 6; n++ {
		got = append(got, toolResultsIn(t, s, n)...)
	}
	stop := "Error: Busy." + noteRepeated
	if want := []string{"Error: Busy.", "Error: Busy.", stop, stop, "Error: Busy."}; !slices.Equal(got, want) {
		t.Errorf("the model was told %q", got)
	}
	if got := box.called(); got != `a{"q":1} a{"q":1} a{"q":1} a{"q":2}` {
		t.Errorf("called %s", got)
	}
}

func TestAModelThatOnlyCallsHasNoAnswer(t *testing.T) {
	s := startServer(t)
	s.Answer = func(*Request) Reply { return calling(Call{Name: "a", Arguments: `{}`}) }
	_, err := newRigWithToolbox(t, s, echoBox("a"), nil).ask(t, question("hi"))
	if f := failure(t, err); f.Code != talk.NoAnswer || len(s.Requests()) != DefaultToolSteps+1 {
		t.Errorf("got %+v after %d requests", f, len(s.Requests()))
	}
}

func TestCancellingInMidCall(t *testing.T) {
	s := startServer(t, calling(Call{ID: "1", Name: "a", Arguments: `{}`},
		Call{ID: "2", Name: "a", Arguments: `{"q":1}`}))
	ctx, cancel := context.WithCancelCause(testContext(t))
	defer cancel(nil)
	var begun, ended atomic.Int32
	box := echoBox("a")
	box.call = func(ctx context.Context, _, _ string, _ func(tool.Progress)) (*tool.Result, error) {
		if begun.Add(1) == 2 {
			cancel(talk.ErrDisconnected)
		}
		<-ctx.Done()
		ended.Add(1)
		return nil, ctx.Err()
	}
	b := newRigWithToolbox(t, s, box, nil)
	h := &recordedEvents{}
	if err := b.Answer(ctx, question("hi"), h.emit); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want the context's error", err)
	}
	if ended.Load() != 2 || len(s.Requests()) != 1 || len(h.events) != 0 {
		t.Errorf("%d calls ended, %d requests, %s", ended.Load(), len(s.Requests()), h)
	}
}

func TestAnErrorOfEmitStopsTheCalls(t *testing.T) {
	s := startServer(t, calling(Call{ID: "1", Name: "a", Arguments: `{}`}))
	ended := false
	box := echoBox("a")
	box.call = func(ctx context.Context, _, _ string, _ func(tool.Progress)) (*tool.Result, error) {
		<-ctx.Done()
		ended = true
		return nil, ctx.Err()
	}
	b := newRigWithToolbox(t, s, box, nil)
	b.noteInterval.delay = time.Millisecond
	enough := errors.New("enough")
	ctx := testContext(t)
	if err := b.Answer(ctx, question("hi"), func(talk.Event) error { return enough }); err != enough || !ended ||
		ctx.Err() != nil || len(s.Requests()) != 1 {
		t.Errorf("got %v, ended %v, %v, after %d requests", err, ended, ctx.Err(), len(s.Requests()))
	}
}

func TestTextBeforeCalls(t *testing.T) {
	s := startServer(t,
		Reply{Steps: append([]Step{Text("Let me"), Text(" look. ")}, CallInPieces(0, "1", "a", `{}`)...)},
		Reply{Finish: "stop", Steps: append([]Step{Text("\nOne more.\n")}, CallInPieces(0, "2", "a", `{}`)...)},
		Reply{Steps: []Step{Text("Sun"), Text("ny.")}})
	h := newRigWithToolbox(t, s, echoBox("a"), nil).mustAsk(t, question("hi"))
	if got := h.String(); got != `"Let me" " look. " "`+"\n"+`One more.`+"\n"+`" "Sun" "ny."` {
		t.Errorf("got %s", got)
	}
	m := s.Requests()[2].Chat.Messages
	if len(m) != 6 || m[2].Text() != "Let me look. " || len(m[2].Calls()) != 1 || m[4].Text() != "One more.\n" {
		t.Errorf("the messages are %s", s.Requests()[2].Body)
	}
}

func TestACommandBesideACall(t *testing.T) {
	emitted := make(chan struct{})
	s := startServer(t,
		Reply{Steps: append(append(append(
			CallInPieces(0, "1", "take_navigation", `{"action":"close"}`), CallInPieces(1, "2", "a", `{}`)...),
			CallInPieces(2, "3", "take_navigation", `{"action":"open"}`)...),
			CallInPieces(3, "4", "take_navigation", `{"action":"close"}`)...)},
		Reply{Steps: append([]Step{Text("Done.")}, CallInPieces(0, "5", "suggest_questions",
			`{"questions":["Why?"]}`)...)})
	box := echoBox("a")
	box.call = func(ctx context.Context, _, _ string, _ func(tool.Progress)) (*tool.Result, error) {
		select { // the command does not wait for the call
		case <-emitted:
			return tool.Text("fine"), nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	b := newRigWithToolbox(t, s, box, func(s *Settings) { s.Suggest = true })
	h := &recordedEvents{}
	err := b.Answer(testContext(t), commanding("hi"), func(e talk.Event) error {
		if e.Kind == talk.KindCommand {
			close(emitted)
		}
		return h.emit(e)
	})
	if got := h.String(); err != nil || got != `take_navigation{"action":"close"} "Done." suggest[Why?]` {
		t.Errorf("got %s, %v", got, err)
	}
	if got := toolResultsIn(t, s, 2); !slices.Equal(got, []string{resultSent, "fine",
		"Error: poi_name is missing", resultSent}) {
		t.Errorf("the model was told %q", got)
	}
	if got := offeredIn(s,
		1); got != "take_photo take_navigation control_calendar notify_agent_off suggest_questions a" {
		t.Errorf("offered %s", got)
	}
}

func TestACommandAloneEndsTheTurn(t *testing.T) {
	s := startServer(t, calling(Call{ID: "1", Name: "take_photo", Arguments: `{}`}))
	if got := newRigWithToolbox(t, s, echoBox("a"), nil).mustAsk(t,
		commanding("hi")).String(); got != `take_photonull` || len(s.Requests()) != 1 {
		t.Errorf("got %s after %d requests", got, len(s.Requests()))
	}
}

func TestSuggestionsInsteadOfAnAnswerAfterACall(t *testing.T) {
	suggest := calling(Call{ID: "2", Name: "suggest_questions", Arguments: `{"questions":["Why?"]}`})
	s := startServer(t, calling(Call{ID: "1", Name: "a", Arguments: `{}`}), suggest,
		calling(Call{ID: "3", Name: "a", Arguments: `{}`}), saying("Because."))
	b := newRigWithToolbox(t, s, echoBox("a"), func(s *Settings) { s.Suggest = true })
	if got := b.mustAsk(t, question("hi")).String(); got != `"Because." suggest[Why?]` {
		t.Errorf("got %s", got)
	}
	if got := offeredIn(s, 2) + "; " + offeredIn(s, 3); got != "suggest_questions a; a" {
		t.Errorf("offered %s", got)
	}
}

// TestCallsInOtherForms covers the forms in which servers are known to send calls.
func TestCallsInOtherForms(t *testing.T) {
	event := func(delta string) Step { return Raw(`data: {"choices":[{"delta":` + delta + `}]}` + "\n\n") }
	for name, reply := range map[string]Reply{
		"finish_reason stop":  {Finish: "stop", Steps: CallInPieces(0, "1", "a", `{}`)},
		"no finish_reason":    {Finish: "-", Steps: CallInPieces(0, "1", "a", `{}`)},
		"in one piece":        {Whole: true, Steps: CallInPieces(0, "1", "a", `{}`)},
		"no index, no id":     {Steps: []Step{event(`{"tool_calls":[{"function":{"name":"a","arguments":"{}"}}]}`)}},
		"arguments as object": {Steps: []Step{event(`{"tool_calls":[{"function":{"name":"a","arguments":{}}}]}`)}},
		"legacy function_call": {Finish: "function_call",
			Steps: []Step{event(`{"function_call":{"name":"a","arguments":"{"}}`),
				event(`{"function_call":{"arguments":"}"}}`)}},
	} {
		t.Run(name, func(t *testing.T) {
			s := startServer(t, reply, saying("Done."))
			box := echoBox("a")
			if got := newRigWithToolbox(t, s, box, nil).mustAsk(t, question("hi")).String(); got != `"Done."` ||
				box.called() != "a{}" {
				t.Errorf("got %s, called %s", got, box.called())
			}
		})
	}
}

func TestIDs(t *testing.T) {
	s := startServer(t,
		calling(Call{ID: "", Name: "a", Arguments: `{"n":1}`}, Call{ID: "x", Name: "a", Arguments: `{"n":2}`},
			Call{ID: "x", Name: "b", Arguments: `{"n":3}`}, Call{ID: "call00003", Name: "b"}),
		calling(Call{ID: "x", Name: "a", Arguments: `{"n":4}`},
			Call{ID: strings.Repeat("y", maxID+1), Name: "a", Arguments: `{"n":5}`}),
		saying("Done."))
	newRigWithToolbox(t, s, echoBox("a", "b"), nil).mustAsk(t, question("hi"))
	var ids []string
	for _, m := range s.Requests()[2].Chat.Messages {
		for _, c := range m.Calls() {
			ids = append(ids, c.ID)
		}
	}
	if got := strings.Join(ids, " "); got != "call00001 x call00002 call00003 call00004 call00005" {
		t.Errorf("the ids are %s", got)
	}
}

// TestThoughtsAndSignaturesGoBack checks what DeepSeek and Gemini require: results come with the
// reasoning before the calls and with the signatures of the calls.
func TestThoughtsAndSignaturesGoBack(t *testing.T) {
	event := func(delta string) Step { return Raw(`data: {"choices":[{"delta":` + delta + `}]}` + "\n\n") }
	s := startServer(t, Reply{Steps: []Step{
		event(`{"reasoning_content":"I wonder "}`), event(`{"reasoning_content":"how."}`),
		event(`{"tool_calls":[{"index":0,"id":"1","function":{"name":"a","arguments":"{}"},"extra_content":{"google":{"thought_signature":"AbC="}}},` +
			`{"index":1,"id":"2","function":{"name":"a","arguments":"{}"},"extra_content":null}]}`),
	}}, saying("Done."))
	if got := newRigWithToolbox(t, s, echoBox("a"), nil).mustAsk(t, question("hi")).String(); got != `"Done."` {
		t.Errorf("got %s", got)
	}
	body := string(s.Requests()[1].Body)
	if !strings.Contains(body, `"reasoning_content":"I wonder how."`) || strings.Count(body, `"extra_content":`) != 1 ||
		!strings.Contains(body, `"extra_content":{"google":{"thought_signature":"AbC="}}`) {
		t.Errorf("the second request is %s", body)
	}
}
