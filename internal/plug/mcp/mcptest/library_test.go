package mcptest

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"patchbay/internal/tool"
)

func TestLibrary(t *testing.T) {
	f := New(Options{})
	var uris []string
	pages := 0
	for cursor, more := "", true; more; more = cursor != "" {
		list, next, err := f.Resources(t.Context(), tool.Caller{}, cursor)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range list {
			uris = append(uris, r.URI)
			c, err := f.Read(t.Context(), tool.Caller{}, r.URI)
			if err != nil || len(c) != 1 || c[0].URI != r.URI || c[0].MIME != r.MIME ||
				(c[0].Text == nil) == (c[0].Blob == nil) {
				t.Errorf("%s reads %+v, %v", r.URI, c, err)
			}
		}
		cursor = next
		pages++
	}
	if pages < 2 || !slices.Equal(uris, []string{"test://static-text", "test://static-binary", Watched}) {
		t.Errorf("%d pages with %v", pages, uris)
	}
	for _, cursor := range []string{"x", "0", "-2", "99"} {
		if _, _, err := f.Resources(t.Context(), tool.Caller{}, cursor); tool.AsError(err).Code != tool.BadArgs {
			t.Errorf("page %q: %v", cursor, err)
		}
	}
	c, err := f.Read(t.Context(), tool.Caller{}, "test://template/12%203/data")
	if err != nil || *c[0].Text != `{"id":"12 3","templateTest":true,"data":"Data for ID: 12 3"}` {
		t.Errorf("template: %+v, %v", c, err)
	}
	for _, uri := range []string{"", "test://nope", "test://template/1/2/data", "test://template/%zz/data"} {
		if _, err := f.Read(t.Context(), tool.Caller{}, uri); !errors.Is(err, tool.ErrNotFound) {
			t.Errorf("%q: %v", uri, err)
		}
	}
	if list, err := f.Templates(t.Context(), tool.Caller{}); err != nil || len(list) != 1 {
		t.Errorf("templates %+v, %v", list, err)
	}
}

func TestPrompts(t *testing.T) {
	f := New(Options{})
	write := func(c tool.Call) *tool.PromptResult {
		t.Helper()
		w, err := f.Prompt(t.Context(), &c)
		if err != nil {
			t.Fatalf("%s: %v", c.Tool, err)
		}
		return w
	}
	tests := []struct{ name, args, want string }{
		{"test_simple_prompt", ``, "This is a simple prompt for testing."},
		{"test_prompt_with_arguments", `{"arg1":"hello","arg2":"world"}`, "arg1='hello', arg2='world'"},
		{"test_prompt_with_embedded_resource", `{"resourceUri":"test://x"}`, `"uri":"test://x"`},
		{"test_prompt_with_image", ``, `"mimeType":"image/png"`},
	}
	for _, tt := range tests {
		w := write(tool.Call{Tool: tt.name, Args: json.RawMessage(tt.args)})
		all := ""
		for _, m := range w.Messages {
			all += m.Role + string(m.Content)
		}
		if w.InputRequired != nil || !strings.Contains(all, tt.want) {
			t.Errorf("%s says %s", tt.name, all)
		}
	}
	c := tool.Call{Tool: "test_input_required_result_prompt", Capabilities: everything}
	w := write(c)
	if w.InputRequired == nil {
		t.Fatal("it does not ask")
	}
	c.Answers = replies(t, w.InputRequired)
	if w = write(c); w.InputRequired != nil || !strings.Contains(string(w.Messages[0].Content), "Context: Alice") {
		t.Errorf("it says %+v", w)
	}

	c.Answers, c.Capabilities = nil, tool.Capabilities{}
	if _, err := f.Prompt(t.Context(), &c); tool.AsError(err).RPC != -32021 {
		t.Errorf("it asks somebody who cannot be asked: %v", err)
	}
	for _, args := range []string{``, `{"arg1":"hello"}`, `{"arg1":1,"arg2":2}`, `[]`} {
		_, err := f.Prompt(t.Context(), &tool.Call{Tool: "test_prompt_with_arguments", Args: json.RawMessage(args)})
		if tool.AsError(err) == nil || tool.AsError(err).Code != tool.BadArgs {
			t.Errorf("arguments %s: %v", args, err)
		}
	}
	if _, err := f.Prompt(t.Context(), &tool.Call{Tool: "nope"}); !errors.Is(err, tool.ErrNotFound) {
		t.Errorf("an unknown prompt: %v", err)
	}
}

func TestCompletions(t *testing.T) {
	f := New(Options{})
	tests := []struct {
		prompt, argument, value string
		want                    []string
	}{
		{"test_prompt_with_arguments", "arg1", "par", []string{"paris", "park", "party"}},
		{"test_prompt_with_arguments", "arg1", "park", []string{"park"}},
		{"test_prompt_with_arguments", "arg1", "test", []string{}},
		{"test_prompt_with_arguments", "arg2", "", []string{}},
	}
	for _, tt := range tests {
		got, err := f.Complete(t.Context(), tool.Caller{}, tt.prompt, tt.argument, tt.value)
		if err != nil || got == nil || !slices.Equal(got, tt.want) {
			t.Errorf("%+v: got %v, %v", tt, got, err)
		}
	}
	if _, err := f.Complete(t.Context(), tool.Caller{}, "nope", "x", ""); !errors.Is(err, tool.ErrNotFound) {
		t.Errorf("an unknown prompt: %v", err)
	}
}
