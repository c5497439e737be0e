package mcptest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"image/png"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"patchbay/internal/tool"
)

var everything = tool.Capabilities{Elicit: true, Sample: true, Roots: true}

// reply answers a server request as a cooperative caller does.
func reply(t *testing.T, r tool.Request) json.RawMessage {
	t.Helper()
	switch r.Method {
	case "elicitation/create":
		var params struct {
			Message         string
			RequestedSchema struct {
				Type       string
				Properties map[string]struct{ Type string }
			}
		}
		if err := json.Unmarshal(r.Params, &params); err != nil || params.Message == "" ||
			params.RequestedSchema.Type != "object" {
			t.Fatalf("form %s: %v", r.Params, err)
		}
		content := map[string]any{}
		for name, p := range params.RequestedSchema.Properties {
			content[name] = map[string]any{"string": "Alice", "integer": 1, "number": 1, "boolean": true,
				"array": []string{"a"}}[p.Type]
		}
		return raw(map[string]any{"action": "accept", "content": content})
	case "sampling/createMessage":
		return json.RawMessage(`{"role":"assistant","model":"m","content":{"type":"text","text":"Paris"}}`)
	case "roots/list":
		return json.RawMessage(`{"roots":[{"uri":"file:///home"}]}`)
	}
	t.Fatalf("what is %s?", r.Method)
	return nil
}

func replies(t *testing.T, n *tool.InputRequired) map[string]json.RawMessage {
	t.Helper()
	answers := map[string]json.RawMessage{}
	for name, r := range n.Requests {
		answers[name] = reply(t, r)
	}
	return answers
}

func call(t *testing.T, f *Fixtures, c tool.Call) *tool.Result {
	t.Helper()
	if c.Args == nil {
		c.Args = json.RawMessage(`{}`)
	}
	r, err := f.Call(t.Context(), &c)
	if err != nil {
		t.Fatalf("%s: %v", c.Tool, err)
	}
	return r
}

func TestToolsAreWellFormed(t *testing.T) {
	names := regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)
	f := New(Options{})
	seen := map[string]bool{}
	for _, x := range f.Tools() {
		var schema struct{ Type string }
		if err := json.Unmarshal(x.Input, &schema); err != nil || schema.Type != "object" {
			t.Errorf("%s: schema %s: %v", x.Name, x.Input, err)
		}
		if seen[x.Name] || !names.MatchString(x.Name) || x.Description == "" {
			t.Errorf("tool %+v", x)
		}
		seen[x.Name] = true
	}
	if r := call(t, f, tool.Call{Tool: f.Tools()[0].Name}); r.IsError || r.InputRequired != nil {
		t.Errorf("the first tool answers %+v", r)
	}
	if _, err := f.Call(t.Context(), &tool.Call{Tool: "nope"}); tool.AsError(err).Code != tool.Unknown {
		t.Errorf("an unknown tool: %v", err)
	}
}

// Each tool that requests input finishes after the expected number of rounds, with the answers in
// its result.
func TestAsking(t *testing.T) {
	tests := []struct {
		tool, args string
		rounds     int
		methods    string // of the first round
		words      string // in the result
	}{
		{"test_sampling", `{"prompt":"Who?"}`, 1, "sampling/createMessage", "LLM response: Paris"},
		{"test_elicitation", `{"message":"Who?"}`, 1, "elicitation/create", `"username":"Alice"`},
		{"test_elicitation_sep1034_defaults", `{}`, 1, "elicitation/create", "action=accept"},
		{"test_elicitation_sep1330_enums", `{}`, 1, "elicitation/create", "action=accept"},
		{"test_streaming_elicitation", `{}`, 1, "elicitation/create", "Confirmed"},
		{"test_input_required_result_elicitation", `{}`, 1, "elicitation/create", "Hello, Alice!"},
		{"test_input_required_result_sampling", `{}`, 1, "sampling/createMessage", "Paris"},
		{"test_input_required_result_list_roots", `{}`, 1, "roots/list", "file:///home"},
		{"test_input_required_result_request_state", `{}`, 1, "elicitation/create", "state-ok"},
		{"test_input_required_result_tampered_state", `{}`, 1, "elicitation/create", "state-ok"},
		{"test_input_required_result_multiple_inputs", `{}`, 1, "elicitation/create roots/list sampling/createMessage",
			"Paris, Alice! I see 1"},
		{"test_input_required_result_multi_round", `{}`, 2, "elicitation/create", "Alice likes Alice."},
		{"test_input_required_result_capabilities", `{}`, 1, "elicitation/create roots/list sampling/createMessage",
			"3 things"},
	}
	f := New(Options{})
	for _, tt := range tests {
		t.Run(tt.tool, func(t *testing.T) {
			c := tool.Call{Tool: tt.tool, Args: json.RawMessage(tt.args), Capabilities: everything}
			r := call(t, f, c)
			for round := 1; r.InputRequired != nil; round++ {
				var methods []string
				for _, q := range r.InputRequired.Requests {
					methods = append(methods, q.Method)
				}
				slices.Sort(methods)
				if got := strings.Join(methods, " "); round == 1 && got != tt.methods {
					t.Errorf("it asks for %s, want %s", got, tt.methods)
				}
				if round > tt.rounds {
					t.Fatalf("it asks once more: %+v", r.InputRequired)
				}
				wrong(t, f, c, r.InputRequired)
				before := r.InputRequired.State
				c.Answers, c.State = replies(t, r.InputRequired), r.InputRequired.State
				c.Answers["not_asked_for"] = json.RawMessage(`{"action":"accept","content":{"x":1}}`)
				r = call(t, f, c)
				if r.InputRequired != nil && r.InputRequired.State == before {
					t.Error("the state is the same in the next round")
				}
			}
			if r.IsError || !strings.Contains(r.PlainText(), tt.words) {
				t.Errorf("it says %q", r.PlainText())
			}
		})
	}
}

// wrong gives wrong answers to the requests of a tool, which must repeat them.
func wrong(t *testing.T, f *Fixtures, c tool.Call, n *tool.InputRequired) {
	t.Helper()
	c.State = n.State
	for _, answer := range []string{``, `12345`, `null`, `"x"`, `[]`, `{}`, `{"action":7}`,
		`{"role":"assistant","content":7}`, `{"roots":7}`} {
		c.Answers = map[string]json.RawMessage{"wrong_key": json.RawMessage(`{"action":"accept","content":{"name":"Eve"}}`)}
		for name := range n.Requests {
			if answer != "" {
				c.Answers[name] = json.RawMessage(answer)
			}
		}
		r := call(t, f, c)
		if r.InputRequired == nil || !slices.Equal(slices.Sorted(maps.Keys(r.InputRequired.Requests)),
			slices.Sorted(maps.Keys(n.Requests))) {
			t.Errorf("with the answer %s it comes to %+v", answer, r)
		}
	}
}

// After a declined form, a tool that needs it asks again, and one that only forwards it reports it.
func TestDeclined(t *testing.T) {
	f := New(Options{})
	declined := json.RawMessage(`{"action":"decline"}`)
	r := call(t, f, tool.Call{
		Tool: "test_input_required_result_elicitation", Capabilities: everything,
		Answers: map[string]json.RawMessage{"user_name": declined},
	})
	if r.InputRequired == nil {
		t.Errorf("got %s", r.PlainText())
	}
	r = call(t, f, tool.Call{
		Tool: "test_elicitation", Args: json.RawMessage(`{"message":"Who?"}`), Capabilities: everything,
		Answers: map[string]json.RawMessage{"form": declined},
	})
	if !strings.Contains(r.PlainText(), "action=decline") {
		t.Errorf("got %+v", r)
	}
}

func refusal(t *testing.T, f *Fixtures, c tool.Call, rpc int) *tool.Error {
	t.Helper()
	if c.Args == nil {
		c.Args = json.RawMessage(`{}`)
	}
	_, err := f.Call(t.Context(), &c)
	e, ok := errors.AsType[*tool.Error](err)
	if !ok || e.Code != tool.Refused || e.RPC != rpc {
		t.Fatalf("%s: got error %#v, want %d", c.Tool, err, rpc)
	}
	return e
}

func TestCapabilities(t *testing.T) {
	f := New(Options{})
	missing := []struct {
		tool string
		can  tool.Capabilities
		data string
	}{
		{"test_missing_capability", tool.Capabilities{Elicit: true, Roots: true},
			`{"requiredCapabilities":{"sampling":{}}}`},
		{"test_sampling", tool.Capabilities{}, `{"requiredCapabilities":{"sampling":{}}}`},
		{"test_elicitation", tool.Capabilities{Sample: true}, `{"requiredCapabilities":{"elicitation":{}}}`},
		{"test_input_required_result_list_roots", tool.Capabilities{Sample: true},
			`{"requiredCapabilities":{"roots":{}}}`},
		{"test_input_required_result_multiple_inputs", tool.Capabilities{Elicit: true},
			`{"requiredCapabilities":{"roots":{},"sampling":{}}}`},
	}
	for _, tt := range missing {
		e := refusal(t, f, tool.Call{Tool: tt.tool, Capabilities: tt.can}, -32021)
		if string(e.Data) != tt.data {
			t.Errorf("%s: data %s", tt.tool, e.Data)
		}
	}
	if r := call(t, f, tool.Call{Tool: "test_missing_capability",
		Capabilities: tool.Capabilities{Sample: true}}); r.IsError || r.InputRequired != nil {
		t.Errorf("with the capability: %+v", r)
	}
	for can, want := range map[tool.Capabilities]string{
		{}:                          "",
		{Sample: true}:              "sampling/createMessage",
		{Elicit: true, Roots: true}: "elicitation/create roots/list",
	} {
		r := call(t, f, tool.Call{Tool: "test_input_required_result_capabilities", Capabilities: can})
		var methods []string
		if r.InputRequired != nil {
			for _, q := range r.InputRequired.Requests {
				methods = append(methods, q.Method)
			}
		}
		slices.Sort(methods)
		if got := strings.Join(methods, " "); got != want {
			t.Errorf("%+v is asked for %q, want %q", can, got, want)
		}
	}
}

func TestStatesOfOthers(t *testing.T) {
	f := New(Options{})
	for _, name := range []string{"request_state", "tampered_state", "multiple_inputs", "multi_round"} {
		c := tool.Call{Tool: "test_input_required_result_" + name, Capabilities: everything}
		need := call(t, f, c).InputRequired
		if need == nil || need.State == "" {
			t.Fatalf("%s needs %+v", name, need)
		}
		c.Answers, c.State = replies(t, need), need.State+"-TAMPERED"
		refusal(t, f, c, -32602)
	}
	for _, name := range []string{"request_state", "multiple_inputs"} {
		c := tool.Call{Tool: "test_input_required_result_" + name, Capabilities: everything}
		c.Answers = replies(t, call(t, f, c).InputRequired)
		refusal(t, f, c, -32602)
	}
}

func TestReports(t *testing.T) {
	f := New(Options{})
	var told []float64
	call(t, f, tool.Call{Tool: "test_tool_with_progress", Progress: func(p tool.Progress) {
		told = append(told, p.Done,
			p.Total)
	}})
	if !slices.Equal(told, []float64{0, 100, 50, 100, 100, 100}) {
		t.Errorf("progress %v", told)
	}
	var lines []string
	note := func(l tool.Log) { lines = append(lines, l.Level+" "+string(l.Data)) }
	call(t, f, tool.Call{Tool: "test_tool_with_logging", Log: note})
	call(t, f, tool.Call{Tool: "test_logging_tool", Log: note})
	if !slices.Equal(lines, []string{
		`info "Tool execution started"`, `info "Tool processing data"`, `info "Tool execution completed"`,
		`info "test_logging_tool was called"`,
	}) {
		t.Errorf("lines %q", lines)
	}
	paused := 0
	call(t, f, tool.Call{Tool: "test_reconnection", Detach: func() { paused++ }})
	if paused != 1 {
		t.Errorf("paused %d times", paused)
	}
	for _, name := range []string{"test_tool_with_progress", "test_tool_with_logging", "test_logging_tool",
		"test_reconnection"} {
		call(t, f, tool.Call{Tool: name}) // for a caller without callbacks
	}
}

func TestContents(t *testing.T) {
	type content struct {
		Type, Text, Data, MimeType string
		Resource                   struct{ URI, MimeType, Text string }
	}
	f := New(Options{})
	read := func(name string) (list []content) {
		t.Helper()
		if err := json.Unmarshal(call(t, f, tool.Call{Tool: name}).Content, &list); err != nil || len(list) == 0 {
			t.Fatalf("%s: %v", name, err)
		}
		return list
	}
	if got := read("test_simple_text")[0]; got.Text != "This is a simple text response for testing." {
		t.Errorf("text %+v", got)
	}
	if got := read("test_image_content")[0]; got.Type != "image" || got.MimeType != "image/png" || got.Data == "" {
		t.Errorf("picture %+v", got)
	}
	if got := read("test_audio_content")[0]; got.Type != "audio" || got.MimeType != "audio/wav" || got.Data == "" {
		t.Errorf("sound %+v", got)
	}
	if got := read("test_embedded_resource")[0]; got.Resource.URI != "test://embedded-resource" ||
		got.Resource.MimeType != "text/plain" || got.Resource.Text == "" {
		t.Errorf("resource %+v", got)
	}
	var kinds []string
	for _, c := range read("test_multiple_content_types") {
		kinds = append(kinds, c.Type)
	}
	if !slices.Equal(kinds, []string{"text", "image", "resource"}) {
		t.Errorf("kinds %v", kinds)
	}
	if r := call(t, f, tool.Call{Tool: "test_error_handling"}); !r.IsError ||
		r.PlainText() != "This tool intentionally returns an error for testing" {
		t.Errorf("failure %+v", r)
	}
	r := call(t, f, tool.Call{Tool: "test_echo", Args: json.RawMessage(`{"text":"<hi>"}`)})
	if string(r.Structured) != `{"text":"<hi>"}` || r.PlainText() != string(r.Structured) {
		t.Errorf("echo %+v", r)
	}
	if _, err := png.Decode(bytes.NewReader(picture)); err != nil {
		t.Error(err)
	}
	if len(sound) != 44+16 || string(sound[:4]) != "RIFF" || string(sound[36:40]) != "data" {
		t.Errorf("sound %q", sound)
	}
}

func TestChanges(t *testing.T) {
	var offered [][]tool.Tool
	prompts, updated := 0, []string{}
	f := New(Options{
		ToolsChanged:    func(list []tool.Tool) { offered = append(offered, list) },
		PromptsChanged:  func() { prompts++ },
		ResourceUpdated: func(uri string) { updated = append(updated, uri) },
	})
	before := f.Tools()
	for n := 1; n <= 3; n++ {
		call(t, f, tool.Call{Tool: "test_trigger_tool_change"})
		after := f.Tools()
		if len(offered) != n || !reflect.DeepEqual(offered[n-1], after) || reflect.DeepEqual(before, after) {
			t.Fatalf("change %d: offered %d times", n, len(offered))
		}
		gone, here := before[len(before)-1].Name, after[len(after)-1].Name
		call(t, f, tool.Call{Tool: here})
		if _, err := f.Call(t.Context(), &tool.Call{Tool: gone, Args: json.RawMessage(`{"ms":0}`)}); n > 1 &&
			err == nil {
			t.Errorf("%s is still there", gone)
		}
		before = after
	}
	list := func() []tool.Prompt {
		p, err := f.Prompts(t.Context(), tool.Caller{})
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	old := list()
	for n := 1; n <= 2; n++ {
		call(t, f, tool.Call{Tool: "test_trigger_prompt_change"})
		now := list()
		if prompts != n || reflect.DeepEqual(old, now) {
			t.Errorf("change %d of prompts: told %d times", n, prompts)
		}
		if _, err := f.Prompt(t.Context(), &tool.Call{Tool: now[len(now)-1].Name}); err != nil {
			t.Error(err)
		}
		old = now
	}
	read := func() string {
		c, err := f.Read(t.Context(), tool.Caller{}, Watched)
		if err != nil {
			t.Fatal(err)
		}
		return *c[0].Text
	}
	then := read()
	call(t, f, tool.Call{Tool: "test_trigger_resource_change"})
	f.Touch("test://other")
	if !slices.Equal(updated, []string{Watched, "test://other"}) || read() == then {
		t.Errorf("told of %v, and it says %q", updated, read())
	}
	// Callbacks are optional.
	quiet := New(Options{})
	for _, name := range []string{"test_trigger_tool_change", "test_trigger_prompt_change",
		"test_trigger_resource_change"} {
		call(t, quiet, tool.Call{Tool: name})
	}
}

func TestSlowStops(t *testing.T) {
	stopped := make(chan string, 1)
	f := New(Options{Stopped: func(id string) { stopped <- id }})
	ctx, cancel := context.WithCancel(t.Context())
	begun := func(tool.Progress) { cancel() }
	_, err := f.Call(ctx, &tool.Call{ID: "7", Tool: "test_slow", Args: json.RawMessage(`{"ms":60000}`),
		Progress: begun})
	if !errors.Is(err, context.Canceled) || <-stopped != "7" {
		t.Errorf("it ended with %v", err)
	}
	if r := call(t, f, tool.Call{Tool: "test_slow", Args: json.RawMessage(`{"ms":1}`)}); r.PlainText() != "Done." {
		t.Errorf("it says %q", r.PlainText())
	}
}
