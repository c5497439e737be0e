package openai

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"patchbay/internal/i18n"
	. "patchbay/internal/plug/openai/openaitest"
	"patchbay/internal/talk"
	"patchbay/internal/tool"
	"patchbay/internal/toolbox"
)

func TestWhatIsOffered(t *testing.T) {
	with := func(o toolbox.Named, change func(*toolbox.Named)) toolbox.Named { change(&o); return o }
	box := echoBox("good")
	box.list = append(box.list,
		offered("take_photo", ""), offered("take_navigation", ""), offered("suggest_questions", ""),
		offered("good", ""),
		offered("", ""), offered("a b", ""), offered("名", ""), offered(strings.Repeat("x", 65), ""),
		with(offered("huge", ""), func(o *toolbox.Named) {
			o.Input = json.RawMessage(`{"x":"` +
				strings.Repeat("x", toolbox.MaxSchema) + `"}`)
		}),
		with(offered("list", ""), func(o *toolbox.Named) { o.Input = json.RawMessage(`[]`) }),
		with(offered("no_schema", ""), func(o *toolbox.Named) { o.Input = nil }),
		with(offered("talkative", ""), func(o *toolbox.Named) { o.Description = strings.Repeat("长", 2000) }),
		offered(strings.Repeat("y", 64), ""), offered("one_more", ""), offered("two_more", ""),
	)
	s := startServer(t)
	b := newRigWithToolbox(t, s, box, func(s *Settings) { s.MaxTools = 6 })
	turn := question("hi")
	turn.Commands = []string{"take_photo"}
	b.mustAsk(t, turn)
	if got := offeredIn(s, 1); got != "take_photo good no_schema talkative "+strings.Repeat("y", 64)+" one_more" {
		t.Errorf("offered %s", got)
	}
	log := b.log.String()
	for _, want := range []string{"take_photo (the name is taken)", "take_navigation (the name",
		"suggest_questions (the name", "good (the name", "a b (a name that", "huge (a schema of more",
		"list (the schema is not", "two_more (more than tools_most)"} {
		if !strings.Contains(log, want) {
			t.Errorf("%q is not in %s", want, log)
		}
	}
}

func TestWhatIsLeftOutIsLoggedOncePerChange(t *testing.T) {
	s := startServer(t)
	box := echoBox("a", "b")
	b := newRigWithToolbox(t, s, box, func(s *Settings) { s.MaxTools = 1 })
	logged := func() int { return strings.Count(b.log.String(), "tools are not offered") }
	for i, want := range []int{1, 1, 1, 2, 2, 2, 3} {
		switch i {
		case 3:
			box.list = append(box.list, offered("c", ""))
		case 5:
			box.list = box.list[:1]
		case 6:
			box.list = append(box.list, offered("c", ""))
		}
		b.mustAsk(t, question("hi"))
		if got := logged(); got != want {
			t.Errorf("after turn %d it was logged %d times, want %d", i+1, got, want)
		}
	}
}

func TestTheDefaultNumberOfTools(t *testing.T) {
	var names []string
	for i := range 200 {
		names = append(names, fmt.Sprintf("t%d", i))
	}
	s := startServer(t)
	b := newRigWithToolbox(t, s, echoBox(names...), nil)
	b.mustAsk(t, commanding("hi"))
	if n := len(s.Requests()[0].Chat.Tools); n != DefaultMaxTools || !strings.Contains(b.log.String(), "and 120 more") {
		t.Errorf("offered %d; the log is %s", n, b.log)
	}
}

func TestSchemas(t *testing.T) {
	for input, want := range map[string]string{
		``:                                   `{"properties":{},"type":"object"}`,
		`null`:                               `{"properties":{},"type":"object"}`,
		`{}`:                                 `{"properties":{},"type":"object"}`,
		`{"type":"x"}`:                       `{"properties":{},"type":"object"}`,
		`{"properties":[],"required":["a"]}`: `{"properties":{},"type":"object"}`,
		`{"properties":{"a":{"enum":["<",">"]},"b":true},"required":["a","c"],"oneOf":[{}]}`:     `{"properties":{"a":{"enum":["<",">"]},"b":true},"required":["a"],"type":"object"}`,
		`{"$schema":"s","$defs":{"d":{}},"properties":{"a":{"$ref":"#/$defs/d"}},"required":{}}`: `{"$defs":{"d":{}},"properties":{"a":{"$ref":"#/$defs/d"}},"type":"object"}`,
		"{\"properties\":{\"a\":{\"title\":\"\xff\"}},\n\"additionalProperties\" : false}":       `{"additionalProperties":false,"properties":{"a":{"title":"` + "\ufffd" + `"}},"type":"object"}`,
		`{"anyOf":[],"allOf":[],"not":{},"enum":[],"const":1,"if":{},"then":{},"else":{}}`:       `{"properties":{},"type":"object"}`,
		`[]`: "error", `"x"`: "error", `{`: "error", `1`: "error",
	} {
		got, err := toolbox.Parameters(json.RawMessage(input))
		if err != nil {
			got = json.RawMessage("error")
		}
		if string(got) != want {
			t.Errorf("%s became %s (%v), want %s", input, got, err, want)
		}
	}
}

// TestAServerThatRefusesSomeFunctions has a server that refuses one function after the other, and
// names each in another form.
func TestAServerThatRefusesSomeFunctions(t *testing.T) {
	refuse := func(body string) Reply { return Reply{Status: 400, Body: body} }
	s := startServer(t,
		refuse(`{"error":{"message":"Invalid schema for function 'b': In context=('properties', 'data'), 'allOf' is not permitted.","type":"invalid_request_error","param":"tools[5].function.parameters","code":"invalid_function_parameters"}}`),
		refuse(`{"error":{"message":"tools.4.custom.input_schema: input_schema does not support oneOf","type":"invalid_request_error"}}`),
		refuse("{\"error\":{\"message\":\"bad schema of `d`\"}}"),
		saying("Hello."))
	box := echoBox("a", "b", "c", "d")
	b := newRigWithToolbox(t, s, box, nil)
	if got := b.mustAsk(t, commanding("hi")).String(); got != `"Hello."` {
		t.Errorf("got %s", got)
	}
	const own = "take_photo take_navigation control_calendar notify_agent_off"
	for n, want := range []string{" a b c d", " a c d", " c d", " c"} {
		if got := offeredIn(s, n+1); got != own+want {
			t.Errorf("request %d offers %s", n+1, got)
		}
	}
	// The refusal is remembered until the schema changes.
	box.list[1].Description = "Now quite different."
	b.mustAsk(t, commanding("hi"))
	if got := offeredIn(s, 5); got != own+" b c" {
		t.Errorf("the next turn offers %s", got)
	}
	if log := b.log.String(); !strings.Contains(log, "the server refuses tools") ||
		!strings.Contains(log, "a (the server refuses its schema), d (") {
		t.Errorf("the log is %s", log)
	}
}

func TestAServerThatDoesNotSayWhichFunctionItRefuses(t *testing.T) {
	s := startServer(t, Reply{Status: 400, Message: "JSON schema conversion failed: unrecognized schema"},
		saying("Hello."))
	b := newRigWithToolbox(t, s, echoBox("a", "b"), nil)
	if got := b.mustAsk(t, commanding("hi")).String(); got != `"Hello."` ||
		offeredIn(s, 2) != "take_photo take_navigation control_calendar notify_agent_off" {
		t.Errorf("got %s, offered %s", got, offeredIn(s, 2))
	}
}

func TestAServerThatRefusesManyFunctionsOneByOne(t *testing.T) {
	s := startServer(t)
	s.Answer = func(r *Request) Reply {
		if n := len(r.Chat.Tools); n > 0 {
			return Reply{Status: 400, Message: fmt.Sprintf("Invalid schema for function '%s'",
				r.Chat.Tools[0].Function.Name)}
		}
		return saying("Hello.")
	}
	b := newRigWithToolbox(t, s, echoBox("a", "b", "c", "d", "e", "f", "g", "h"), nil)
	if got := b.mustAsk(t, question("hi")).String(); got != `"Hello."` || len(s.Requests()) != maxDropped+2 {
		t.Errorf("got %s after %d requests", got, len(s.Requests()))
	}
}

func TestARefusalThatIsNotAboutFunctions(t *testing.T) {
	for name, refusal := range map[string]Reply{
		"length": {Status: 400, Code: "context_length_exceeded",
			Message: "maximum context length is 8192 tokens (7000 in the messages, 3000 in the functions)"},
		"another": {Status: 400, Message: "we do not like that"},
		"key":     {Status: 401, Message: "bad key for schema 'a'"},
	} {
		s := startServer(t, refusal)
		b := newRigWithToolbox(t, s, echoBox("a"), nil)
		_, err := b.ask(t, question("hi"))
		failure(t, err)
		if b.mustAsk(t, question("hi")); len(s.Requests()) != 2 || offeredIn(s, 2) != "a" {
			t.Errorf("%s: %d requests, the second offers %q", name, len(s.Requests()), offeredIn(s, 2))
		}
	}
}

func TestAServerThatRefusesFunctionsAltogether(t *testing.T) {
	s := startServer(t, Reply{Status: 400, Message: "gemma:2b does not support tools"})
	b := newRigWithToolbox(t, s, echoBox("a"), nil)
	for range 2 {
		if got := b.mustAsk(t, commanding("hi")).text(); got != "Hello there." {
			t.Errorf("got %q", got)
		}
	}
	if got := offeredIn(s, 2) + offeredIn(s, 3); got != "" || len(s.Requests()) != 3 ||
		!strings.Contains(b.log.String(), "set tools to false") {
		t.Errorf("offered %q in %d requests; the log is %s", got, len(s.Requests()), b.log)
	}
}

// TestARefusalAfterACall checks that functions stay when a request after calls is refused: they
// were accepted before.
func TestARefusalAfterACall(t *testing.T) {
	s := startServer(t, calling(Call{Name: "a", Arguments: `{}`}),
		Reply{Status: 400, Message: "this tool is not supported, see schema of 'a'"})
	b := newRigWithToolbox(t, s, echoBox("a"), nil)
	_, err := b.ask(t, question("hi"))
	if f := failure(t, err); f.Told != msgRefused.In(i18n.English) {
		t.Errorf("got %+v", f)
	}
	if b.mustAsk(t, question("hi")); len(s.Requests()) != 3 || offeredIn(s, 3) != "a" {
		t.Errorf("%d requests, the last offers %q", len(s.Requests()), offeredIn(s, 3))
	}
}

// TestAServerThatInsistsOnFunctions has a server like gateways to Anthropic's models, which refuse
// a conversation with calls if no functions are offered.
func TestAServerThatInsistsOnFunctions(t *testing.T) {
	insist := Reply{Status: 400,
		Message: "litellm.UnsupportedParamsError: Anthropic doesn't support tool calling without `tools=` param specified."}
	s := startServer(t, calling(Call{Name: "a", Arguments: `{}`}), insist,
		Reply{Steps: append([]Step{Text("Sunny.")}, CallInPieces(0, "x", "a", `{}`)...)})
	box := echoBox("a")
	b := newRigWithToolbox(t, s, box, func(s *Settings) {
		s.ToolSteps = 1
		s.Extra = map[string]any{"tool_choice": "auto", "parallel_tool_calls": true}
	})
	if got := b.mustAsk(t, question("hi")).String(); got != `"Sunny."` || box.called() != "a{}" {
		t.Errorf("got %s, called %s", got, box.called())
	}
	var choices []string
	for _, r := range s.Requests() {
		choices = append(choices, fmt.Sprint(len(r.Chat.Tools), string(r.Chat.ToolChoice),
			strings.Contains(string(r.Body), "parallel_tool_calls")))
	}
	if got := strings.Join(choices, " "); got != `1"auto"true 0false 1"none"true` {
		t.Errorf("the choices were %s", got)
	}
	// Functions are still offered in later turns.
	if b.mustAsk(t, question("hi")); offeredIn(s, 4) != "a" {
		t.Errorf("the next turn offers %q", offeredIn(s, 4))
	}
}

// FuzzRounds has a model call anything with any arguments and id, and a tool return anything. The
// strict server must accept everything that is sent back.
func FuzzRounds(f *testing.F) {
	f.Add("a", `{"q":1}`, "call_1", `[{"type":"text","text":"fine"}]`, "Let me look.", false)
	f.Add("no such thing", `{`, "", `[{"type":"image","data":"iVBORw0KGgo=","mimeType":"image/png"}]`, "", true)
	f.Add("take_photo", "```json\n{}\n```", "call00001", `{`, "<think>a</think>b", false)
	f.Add("\xff", "\xff{\"\xff\":1}", "\xff", "[{\"type\":\"text\",\"text\":\"\xff\"}]", "\xff", false)
	s, err := Start()
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(s.Close)
	b := benchBot(f, s.URL, nil)
	f.Cleanup(b.Close)
	b.settings.ToolSteps = 2
	var reply Reply // fuzz targets of one process run one after the other
	s.Answer = func(*Request) Reply { return reply }
	f.Fuzz(func(t *testing.T, name, arguments, id, content, text string, isError bool) {
		if len([]rune(id)) > 40 {
			return // the server would not accept its own id
		}
		reply = Reply{Steps: []Step{Calls(Call{ID: id, Name: name, Arguments: arguments},
			Call{Index: 1, ID: id, Name: "a", Arguments: "{}"})}}
		if text != "" {
			reply.Steps = append([]Step{Text(text)}, reply.Steps...)
		}
		box := echoBox("a")
		box.call = func(_ context.Context, _, args string, _ func(tool.Progress)) (*tool.Result, error) {
			if !json.Valid([]byte(args)) || args[0] != '{' {
				t.Fatalf("the tool got %q", args)
			}
			return &tool.Result{Content: json.RawMessage(content), IsError: isError}, nil
		}
		b.toolbox = box
		err := b.Answer(context.Background(), commanding("hi"), (&recordedEvents{}).emit)
		if f, ok := err.(*talk.Failure); err != nil && (!ok ||
			f.Code != talk.NoAnswer && f.Told != msgBadCommand.In(i18n.English)) {
			t.Fatal(err)
		}
	})
}

// FuzzSchema converts arbitrary schemas to functions, which servers must accept.
func FuzzSchema(f *testing.F) {
	for _, seed := range []string{``, `null`, `{"type":"object","properties":{"a":{}},"required":["a","b"],"oneOf":[]}`,
		`{"properties":null}`, "{\"\xff\":1}"} {
		f.Add([]byte(seed), "Does things.")
	}
	f.Fuzz(func(t *testing.T, input []byte, description string) {
		schema, err := toolbox.Parameters(input)
		if err != nil {
			return
		}
		var function Tool
		if err := json.Unmarshal(functionSchema("f", description, schema), &function); err != nil {
			t.Fatalf("%s: %v", schema, err)
		}
		var fields, properties map[string]json.RawMessage
		var required []string
		if err := json.Unmarshal(function.Function.Parameters, &fields); err != nil ||
			string(fields["type"]) != `"object"` || fields["oneOf"] != nil ||
			json.Unmarshal(fields["properties"], &properties) != nil || properties == nil {
			t.Fatalf("%s became %s", input, schema)
		}
		_ = json.Unmarshal(fields["required"], &required)
		for _, name := range required {
			if properties[name] == nil {
				t.Fatalf("%s requires %q", schema, name)
			}
		}
		again, err := toolbox.Parameters(schema)
		if err != nil || string(again) != string(schema) {
			t.Fatalf("%s became %s, %v", schema, again, err)
		}
	})
}

// FuzzResult reads arbitrary content of a result.
func FuzzResult(f *testing.F) {
	for _, seed := range []string{
		``, `[]`, `[{"type":"text","text":"a"}]`, `[{"type":"image","data":"iVBORw0KGgo=","mimeType":"image/png"}]`,
		`[{"type":"resource","resource":{"uri":"x","text":"y"}},{"type":"audio"}]`, `{"a":1}`,
		`[{"type":"text","text":1}]`,
	} {
		f.Add([]byte(seed), 10)
	}
	f.Fuzz(func(t *testing.T, content []byte, limit int) {
		limit = minToolOutput + (limit&0xffff)%1000
		r := &tool.Result{Content: content}
		text, failed := toolbox.ResultText(r, limit)
		if failed || text == "" || len(text) > limit+80 || !json.Valid(toolbox.JSON(text)) {
			t.Fatalf("%d bytes of %d: %q", len(text), limit, text)
		}
		shown := pictures(r)
		if len(shown) > maxPictures {
			t.Fatalf("%d pictures", len(shown))
		}
		for _, p := range shown {
			if len(p.Data) > maxPicture || !strings.HasPrefix(p.MIME, "image/") {
				t.Fatalf("%s of %d bytes", p.MIME, len(p.Data))
			}
		}
	})
}
