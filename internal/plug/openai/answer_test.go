package openai

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"patchbay/internal/i18n"
	. "patchbay/internal/plug/openai/openaitest"
	"patchbay/internal/talk"
)

func TestEachPieceIsPassedOnBeforeTheNextIsSent(t *testing.T) {
	gates := []chan struct{}{make(chan struct{}), make(chan struct{}), make(chan struct{})}
	s := startServer(t, Reply{Steps: []Step{
		Text("Hel"), Wait(gates[0]), Text("lo "), Wait(gates[1]), Text("you."), Wait(gates[2]),
	}})
	b := newRig(t, s.URL, nil)
	var got []string
	err := b.Answer(testContext(t), question("hi"), func(e talk.Event) error {
		// The server sends the next chunk only after this one has arrived.
		close(gates[len(got)])
		got = append(got, e.Text)
		return nil
	})
	if err != nil || strings.Join(got, "|") != "Hel|lo |you." {
		t.Fatalf("got %q, %v", got, err)
	}
}

func TestAnswers(t *testing.T) {
	call := func(id, name, args string) Call { return Call{ID: id, Name: name, Arguments: args} }
	tests := []struct {
		name  string
		reply Reply
		want  string
	}{
		{"in one piece", Reply{Whole: true, Steps: []Step{Text("Hello there.")}}, `"Hello there."`},
		{"in one piece, command before text", Reply{Whole: true,
			Steps: append([]Step{Text("On the way.")}, CallInPieces(0, "c1", "take_photo", "{}")...)},
			`take_photonull "On the way."`},
		{"in one piece, arguments left out", Reply{Whole: true,
			Steps: append([]Step{Text("Bye.")}, CallInPieces(0, "c1", "notify_agent_off")...)},
			`notify_agent_offnull "Bye."`},
		{"in one piece, after empty lines to keep the connection",
			Reply{Body: "\n\n" +
				`{"choices":[{"index":0,"message":{"role":"assistant","content":"Yes"},"finish_reason":"stop"}]}`},
			`"Yes"`},
		{"in one piece, under another name", Reply{Header: map[string][]string{"Content-Type": {"text/plain"}},
			Body: `{"choices":[{"index":0,"message":{"role":"assistant","content":"Yes"},"finish_reason":"stop"}]}`},
			`"Yes"`},
		{"no [DONE]", Reply{NoDone: true, Steps: []Step{Text("ok")}}, `"ok"`},
		{"no finish_reason", Reply{Finish: "-", Steps: []Step{Text("ok")}}, `"ok"`},
		{"neither", Reply{Finish: "-", NoDone: true, Steps: []Step{Text("ok")}}, `"ok"`},
		{"thinking aloud", Reply{Steps: []Step{Text("<thi"), Text("nk>let me "), Text("see</th"), Text("ink>\n\n"),
			Text("Yes."), Text(" <think>")}}, `"Yes." " <think>"`},
		{"two thoughts", Reply{Steps: []Step{Text("\n<think>a</think> <think>b</think>Yes")}}, `"Yes"`},
		{"nearly a thought", Reply{Steps: []Step{Text("<thin"), Text(" ice")}}, `"<thin ice"`},
		{"ends like a thought", Reply{Steps: []Step{Text("<thi")}}, `"<thi"`},
		{"leading space", Reply{Steps: []Step{Text("\n"), Text("\n Yes"), Text(" .")}}, `"Yes" " ."`},
		{"reasoning_content",
			Reply{Steps: []Step{Raw(`data: {"choices":[{"index":0,"delta":{"reasoning_content":"hm"},"finish_reason":null}]}` + "\n\n"), Text("Yes")}}, `"Yes"`},
		{"content in parts",
			Reply{Steps: []Step{Raw(`data: {"choices":[{"index":0,"delta":{"content":[{"type":"thinking","thinking":[{"type":"text","text":"hm"}]},{"type":"text","text":"Yes"}]}}]}` + "\n\n")}}, `"Yes"`},
		{"refusal", Reply{Steps: []Step{Raw(`data: {"choices":[{"index":0,"delta":{"refusal":"I cannot."}}]}` +
			"\n\n")}}, `"I cannot."`},
		{"another choice", Reply{Steps: []Step{Raw(`data: {"choices":[{"index":1,"delta":{"content":"other"}}]}` +
			"\n\n"), Text("Yes")}}, `"Yes"`},
		{"usage only", Reply{Steps: []Step{Raw(`data: {"choices":[],"usage":{"prompt_tokens":1}}` + "\n\n"),
			Text("Yes")}}, `"Yes"`},
		{"the whole again at the end", Reply{Steps: []Step{Text("Yes"),
			Raw(`data: {"choices":[{"index":0,"message":{"content":"Yes"},"finish_reason":"stop"}]}` + "\n\n")}},
			`"Yes"`},
		{"text along with the end", Reply{Finish: "-",
			Steps: []Step{Raw(`data: {"choices":[{"index":0,"delta":{"content":"Yes"},"finish_reason":"stop"}]}` +
				"\n\n")}}, `"Yes"`},
		{"text after the end",
			Reply{Steps: []Step{Raw(`data: {"choices":[{"index":0,"delta":{"content":"A"},"finish_reason":"normal"}]}` +
				"\n\n"), Text("B")}}, `"A" "B"`},

		{"a call in pieces", Reply{Steps: CallInPieces(0, "c1", "take_navigation", `{"act`, `ion":"open","poi_`,
			`name":"West Lake","navi_type":"walk"}`)},
			`take_navigation{"action":"open","navi_type":"1","poi_name":"West Lake"}`},
		{"two calls in pieces", Reply{Steps: []Step{
			Calls(Call{Index: 0, ID: "a", Name: "take_photo"}, Call{Index: 1, ID: "b", Name: "take_navigation"}),
			Calls(Call{Index: 1, Arguments: `{"action":`}), Calls(Call{Index: 0, Arguments: `{`}),
			Calls(Call{Index: 1, Arguments: `"close"}`}), Calls(Call{Index: 0, Arguments: `}`}),
		}}, `take_photonull take_navigation{"action":"close"}`},
		{"finish_reason stop", Reply{Finish: "stop", Steps: CallInPieces(0, "c1", "take_photo", "{}")},
			`take_photonull`},
		{"call without finish_reason", Reply{Finish: "-", Steps: CallInPieces(0, "c1", "take_photo", "{}")},
			`take_photonull`},
		{"call without arguments", Reply{Steps: CallInPieces(0, "c1", "notify_agent_off")}, `notify_agent_offnull`},
		{"text, then a call", Reply{Steps: append([]Step{Text("One moment.")},
			CallInPieces(0, "c", "take_photo", "{}")...)}, `"One moment." take_photonull`},
		{"a call, then text", Reply{Steps: append(CallInPieces(0, "c", "take_photo", "{", "}"), Text("One moment."))},
			`take_photonull "One moment."`},
		{"whole calls, index always 0", Reply{Steps: []Step{Calls(call("a", "take_photo", "{}")),
			Calls(call("b", "take_navigation", `{"action":"close"}`))}},
			`take_photonull take_navigation{"action":"close"}`},
		{"the same function twice, index always 0", Reply{Steps: []Step{
			Calls(call("a", "take_navigation", `{"action":"close"}`)),
			Calls(call("b", "take_navigation", `{"action":"open","poi_name":"X"}`)),
		}}, `take_navigation{"action":"close"} take_navigation{"action":"open","navi_type":"0","poi_name":"X"}`},
		{"no index, no id", Reply{Steps: []Step{
			Raw(`data: {"choices":[{"delta":{"tool_calls":[{"function":{"name":"take_photo","arguments":"{}"}},{"id":"","function":{"name":"take_navigation","arguments":"{\"action\":\"close\"}"}}]}}]}` + "\n\n"),
		}}, `take_photonull take_navigation{"action":"close"}`},
		{"no index, no id, no arguments", Reply{Steps: []Step{
			Raw(`data: {"choices":[{"delta":{"tool_calls":[{"function":{"name":"take_photo","arguments":""}},{"function":{"name":"take_navigation","arguments":"{\"action\":\"close\"}"}}]}}]}` + "\n\n"),
		}}, `take_photonull take_navigation{"action":"close"}`},
		{"no index, no id, the same function twice", Reply{Steps: []Step{
			Raw(`data: {"choices":[{"delta":{"tool_calls":[{"function":{"name":"take_navigation","arguments":"{\"action\":\"close\"}"}},{"function":{"name":"take_navigation","arguments":"{\"poi_name\":\"X\"}"}}]}}]}` + "\n\n"),
		}}, `take_navigation{"action":"close"} take_navigation{"action":"open","navi_type":"0","poi_name":"X"}`},
		{"no index, pieces by id", Reply{Steps: []Step{
			Raw(`data: {"choices":[{"delta":{"tool_calls":[{"id":"a","function":{"name":"take_photo","arguments":""}},{"id":"b","function":{"name":"take_navigation","arguments":""}}]}}]}` + "\n\n"),
			Raw(`data: {"choices":[{"delta":{"tool_calls":[{"id":"b","function":{"arguments":"{\"action\":\"close\"}"}},{"id":"a","function":{"arguments":"{}"}}]}}]}` + "\n\n"),
		}}, `take_photonull take_navigation{"action":"close"}`},
		{"a new id in every piece", Reply{Steps: []Step{
			Calls(call("a", "take_navigation", "")), Calls(call("b", "", `{"action":`)),
			Calls(call("c", "", `"close"}`)),
		}}, `take_navigation{"action":"close"}`},
		{"the name in every piece", Reply{Steps: []Step{
			Calls(call("a", "take_navigation", `{"action"`)), Calls(call("a", "take_navigation", `:"close"`)),
			Calls(call("", "take_navigation", `}`)),
		}}, `take_navigation{"action":"close"}`},
		{"arguments as an object", Reply{Steps: []Step{
			Raw(`data: {"choices":[{"delta":{"tool_calls":[{"function":{"name":"take_navigation","arguments":{"action":"open","poi_name":"X","navi_type":2}}}]}}]}` + "\n\n"),
		}}, `take_navigation{"action":"open","navi_type":"2","poi_name":"X"}`},
		{"legacy function_call", Reply{Finish: "function_call", Steps: []Step{
			Raw(`data: {"choices":[{"delta":{"content":null,"function_call":{"name":"take_navigation","arguments":""}}}]}` + "\n\n"),
			Raw(`data: {"choices":[{"delta":{"function_call":{"arguments":"{\"action\":"}}}]}` + "\n\n"),
			Raw(`data: {"choices":[{"delta":{"function_call":{"arguments":"\"close\"}"}}}]}` + "\n\n"),
		}}, `take_navigation{"action":"close"}`},
		{"the same command twice", Reply{Steps: []Step{Calls(call("a", "take_photo", "{}")),
			Calls(call("b", "take_photo", ""))}}, `take_photonull`},
		{"an unknown function beside text", Reply{Steps: append([]Step{Text("Hm.")},
			CallInPieces(0, "c", "rm_rf", "{}")...)}, `"Hm."`},
		{"bad arguments beside text", Reply{Steps: append([]Step{Text("Hm.")},
			CallInPieces(0, "c", "take_navigation", "{oops")...)}, `"Hm."`},
		{"a good call after a bad one", Reply{Steps: append(CallInPieces(0, "a", "take_navigation", "{oops"),
			CallInPieces(1, "b", "take_photo", "null")...)}, `take_photonull`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := startServer(t, tt.reply)
			b := newRig(t, s.URL, nil)
			if got := b.mustAsk(t, commanding("hi")).String(); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}

func TestAnswersWithNothingInThem(t *testing.T) {
	tests := []struct {
		name  string
		reply Reply
		code  talk.Code
		told  string
	}{
		{"empty", Reply{}, talk.NoAnswer, ""},
		{"white space", Reply{Steps: []Step{Text(" \n")}}, talk.NoAnswer, ""},
		{"no body", Reply{Header: map[string][]string{"Content-Type": {"text/event-stream"}}, Steps: nil,
			Finish: "-", NoDone: true}, talk.NoAnswer, ""},
		{"only a thought", Reply{Steps: []Step{Text("<think>hm</think>")}}, talk.NoAnswer, ""},
		{"an endless thought", Reply{Steps: []Step{Text("<think>hm")}}, talk.NoAnswer, ""},
		{"an unknown function", Reply{Steps: CallInPieces(0, "a", "rm_rf", "{}")}, talk.NoAnswer, ""},
		{"arguments that are no JSON", Reply{Steps: CallInPieces(0, "a", "take_navigation", "{oops")}, talk.BotFailed,
			msgBadCommand.In(i18n.English)},
		{"arguments that make no sense", Reply{Steps: CallInPieces(0, "a", "take_navigation", `{"action":"open"}`)},
			talk.BotFailed, msgBadCommand.In(i18n.English)},
		{"filtered", Reply{Finish: "content_filter"}, talk.BotFailed, msgFiltered.In(i18n.English)},
		{"thought too long", Reply{Finish: "length"}, talk.BotFailed, msgOutOfLength.In(i18n.English)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := newRig(t, startServer(t, tt.reply).URL, nil)
			h, err := b.ask(t, commanding("hi"))
			if f := failure(t, err); f.Code != tt.code || f.Told != tt.told || len(h.events) > 0 {
				t.Errorf("got %s %q after %s, want %s %q", f.Code, f.Told, h, tt.code, tt.told)
			}
		})
	}
}

func TestACommandThatIsLeftOutIsLogged(t *testing.T) {
	s := startServer(t, Reply{Steps: append([]Step{Text("Hm.")}, CallInPieces(0, "c", "rm_rf\nlevel=ERROR", "{}")...)})
	b := newRig(t, s.URL, nil)
	b.mustAsk(t, commanding("hi"))
	if log := b.log.String(); !strings.Contains(log, "rm_rf; level=ERROR") || !strings.Contains(log, "turn-1") {
		t.Errorf("the log has %q", log)
	}
}

func TestTooManyCallsFail(t *testing.T) {
	var steps []Step
	for i := range maxCalls + 1 {
		steps = append(steps, CallInPieces(i, strings.Repeat("x", i+1), "take_photo", "{}")...)
	}
	b := newRig(t, startServer(t, Reply{Steps: steps}).URL, nil)
	_, err := b.ask(t, commanding("hi"))
	if f := failure(t, err); f.Code != talk.BotFailed || f.Told != msgGarbled.In(i18n.English) {
		t.Errorf("got %+v", f)
	}
}

func TestCommandsAreOfferedAsTheDeviceHasThem(t *testing.T) {
	tests := []struct {
		name     string
		commands []string
		settings func(*Settings)
		want     string
	}{
		{"none", nil, nil, ""},
		{"some", []string{"take_photo", "notify_agent_off"}, nil, "take_photo notify_agent_off"},
		{"all", allCommands, nil, "take_photo take_navigation control_calendar notify_agent_off"},
		{"one that nobody knows", []string{"speak_tts", "take_photo"}, nil, "take_photo"},
		{"not wanted", allCommands, func(s *Settings) { s.Tools = new(false) }, ""},
		{"suggestions", []string{"take_photo"}, func(s *Settings) { s.Suggest = true }, "take_photo suggest_questions"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := startServer(t)
			b := newRig(t, s.URL, tt.settings)
			turn := question("hi")
			turn.Commands = tt.commands
			b.mustAsk(t, turn)
			var names []string
			chat := s.Requests()[0].Chat
			for _, tool := range chat.Tools {
				names = append(names, tool.Function.Name)
			}
			if got := strings.Join(names, " "); got != tt.want {
				t.Errorf("offered %q, want %q", got, tt.want)
			}
			prompt := chat.Messages[0].Text()
			if offered := strings.Contains(prompt, msgTools.In(i18n.English)); offered != strings.Contains(tt.want,
				"take_photo") {
				t.Errorf("functions %q, but the prompt is %q", tt.want, prompt)
			}
		})
	}
}

func TestAFunctionThatWasNotOfferedIsNotCarriedOut(t *testing.T) {
	s := startServer(t, Reply{Steps: append([]Step{Text("Bye.")}, CallInPieces(0, "c", "notify_agent_off", "{}")...)})
	turn := question("hi")
	turn.Commands = []string{"take_photo"}
	if got := newRig(t, s.URL, nil).mustAsk(t, turn).String(); got != `"Bye."` {
		t.Errorf("got %s", got)
	}
}

func TestSuggestions(t *testing.T) {
	suggest := CallInPieces(0, "s", "suggest_questions", `{"questions":["Why?"," And\nthen? ","","Who?","Fourth?"]}`)
	on := func(s *Settings) { s.Suggest = true }

	t.Run("come after the text", func(t *testing.T) {
		s := startServer(t, Reply{Steps: append([]Step{Text("Because.")}, suggest...)})
		if got := newRig(t, s.URL, on).mustAsk(t, question("hi")).
			String(); got != `"Because." suggest[Why?|And; then?|Who?]` {
			t.Errorf("got %s", got)
		}
	})
	t.Run("alone are asked for an answer", func(t *testing.T) {
		s := startServer(t, Reply{Steps: suggest}, Reply{Steps: []Step{Text("Because.")}})
		if got := newRig(t, s.URL, on).mustAsk(t, question("hi")).
			String(); got != `"Because." suggest[Why?|And; then?|Who?]` {
			t.Errorf("got %s", got)
		}
		if tools := s.Requests()[1].Chat.Tools; len(tools) != 0 {
			t.Errorf("the second request offers %v", tools)
		}
	})
	t.Run("are nothing if not wanted", func(t *testing.T) {
		s := startServer(t, Reply{Steps: append([]Step{Text("Because.")}, suggest...)})
		if got := newRig(t, s.URL, nil).mustAsk(t, question("hi")).String(); got != `"Because."` {
			t.Errorf("got %s", got)
		}
	})
	t.Run("that make no sense do no harm", func(t *testing.T) {
		s := startServer(t, Reply{Steps: append([]Step{Text("Because.")},
			CallInPieces(0, "s", "suggest_questions", `{"questions":[1]}`)...)})
		if got := newRig(t, s.URL, on).mustAsk(t, question("hi")).String(); got != `"Because."` {
			t.Errorf("got %s", got)
		}
	})
}

func TestServersThatRefuseFunctionsAreAskedWithout(t *testing.T) {
	for _, refusal := range []Reply{
		{Status: 400,
			Body: `{"error":{"message":"registry.ollama.ai/library/gemma:2b does not support tools","type":"api_error"}}`},
		{Status: 400,
			Body: `{"object":"error","message":"\"auto\" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set","code":400}`},
		{Status: 500, Body: `{"error":{"code":500,"message":"Unsupported param: tools","type":"server_error"}}`},
		{Status: 500,
			Body: `{"error":{"code":500,"message":"tools param requires --jinja flag","type":"server_error"}}`},
		{Status: 404, Body: `{"error":{"message":"No endpoints found that support tool use.","code":404}}`},
	} {
		s := startServer(t, refusal)
		b := newRig(t, s.URL, nil)
		for range 2 {
			if got := b.mustAsk(t, commanding("hi")).text(); got != "Hello there." {
				t.Errorf("%s: got %q", refusal.Body, got)
			}
		}
		var offered []int
		for _, r := range s.Requests() {
			offered = append(offered, len(r.Chat.Tools))
		}
		if len(offered) != 3 || offered[0] != 4 || offered[1] != 0 || offered[2] != 0 {
			t.Errorf("%s: the requests offered %v functions, want 4, 0 and 0", refusal.Body, offered)
		}
		if !strings.Contains(b.log.String(), "set tools to false") {
			t.Errorf("the owner is not told: %s", b.log)
		}
	}
}

func TestAnErrorAboutFunctionsThatStaysIsToldOnce(t *testing.T) {
	bad := Reply{Status: 400, Message: "this tool is not supported"}
	s := startServer(t, bad, bad)
	b := newRig(t, s.URL, nil)
	_, err := b.ask(t, commanding("hi"))
	if f := failure(t, err); f.Told != msgRefused.In(i18n.English) {
		t.Errorf("got %+v", f)
	}
	// The functions were not the reason, so they are offered again.
	b.mustAsk(t, commanding("hi"))
	if r := s.Requests(); len(r) != 3 || len(r[2].Chat.Tools) != 4 {
		t.Errorf("the third request offers %d functions", len(r[2].Chat.Tools))
	}
}

func TestCancellingHangsUpAtOnce(t *testing.T) {
	never := make(chan struct{})
	tests := []struct {
		name  string
		reply Reply
	}{
		{"in mid-answer", Reply{Steps: []Step{Text("Hello"), Wait(never)}}},
		{"before the answer", Reply{Hold: never}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := startServer(t, tt.reply)
			b := newRig(t, s.URL, nil)
			ctx, cancel := context.WithCancelCause(testContext(t))
			returned := make(chan error, 1)
			go func() {
				returned <- b.Answer(ctx, question("hi"), func(talk.Event) error {
					cancel(talk.ErrDisconnected)
					return nil
				})
			}()
			r, err := s.Await(testContext(t), 1)
			if err != nil {
				t.Fatal(err)
			}
			if tt.reply.Hold != nil {
				cancel(talk.ErrDisconnected)
			}
			await(t, r.Done(), "the disconnect at the server")
			if !r.Disconnected() {
				t.Error("the server got to the end of its answer")
			}
			if err := <-returned; !errors.Is(err, context.Canceled) {
				t.Errorf("got %v, want the context's error", err)
			}
		})
	}
}

func TestAnErrorOfEmitHangsUpAndComesBack(t *testing.T) {
	never := make(chan struct{})
	s := startServer(t, Reply{Steps: []Step{Text("Hello"), Wait(never)}},
		Reply{Steps: CallInPieces(0, "c", "take_photo", "{}")})
	b := newRig(t, s.URL, nil)
	enough := errors.New("enough")
	for range 2 {
		if err := b.Answer(testContext(t), commanding("hi"), func(talk.Event) error { return enough }); err != enough {
			t.Errorf("got %v, want the error of emit as it is", err)
		}
	}
	if !s.Requests()[0].Disconnected() {
		t.Error("the server got to the end of its answer")
	}
}

func TestConnectionsAreUsedAgain(t *testing.T) {
	finish := Raw(`data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}` + "\n\n")
	s := startServer(t)
	// The body ends a little after the stream.
	s.Answer = func(*Request) Reply {
		return Reply{Finish: "-", NoDone: true, Steps: []Step{Text("Hello"), finish, Raw("data: [DONE]\n\n"),
			Delay(20 * time.Millisecond)}}
	}
	b := newRig(t, s.URL, nil)
	dialled := countDials(b.Bot)
	for range 5 {
		b.mustAsk(t, question("hi"))
	}
	if n := dialled(); n != 1 {
		t.Errorf("%d connections for 5 answers", n)
	}
}

func TestAnswersAtTheSameTime(t *testing.T) {
	s := startServer(t)
	s.Answer = func(r *Request) Reply { return Reply{Steps: Words("you said "+r.Chat.Last().Text(), 0)} }
	b := newRig(t, s.URL, nil)
	const many = 20
	results := make(chan error, many)
	for i := range many {
		go func() {
			text := strings.Repeat("x", i+1)
			h := &recordedEvents{}
			err := b.Answer(testContext(t), commanding(text), h.emit)
			if err == nil && h.text() != "you said "+text {
				err = errors.New("mixed up: " + h.text())
			}
			results <- err
		}()
	}
	for range many {
		if err := <-results; err != nil {
			t.Error(err)
		}
	}
}
