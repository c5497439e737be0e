package upstream

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"patchbay/internal/tool"
)

// Every upstream has a prompt that describes its tools to a model.
func TestPrompt(t *testing.T) {
	var list []string
	for i := range 60 {
		list = append(list, fmt.Sprintf(`{"name":"t%d","description":"does\n thing   %d %s","inputSchema":{}}`, i, i,
			strings.Repeat("very ", i)))
	}
	list = append(list, `{"name":"burn","description":"all","annotations":{"destructiveHint":true},"inputSchema":{}}`)
	list[1] = `{"name":"t1","title":"Titled","inputSchema":{}}`
	list[2] = `{"name":"t2","inputSchema":{}}`
	r := newRig(t, newScriptedServer(t, map[string]scriptedHandler{"tools/list": result(`{"tools":[` +
		strings.Join(list, ",") + `]}`)}).settings(), fastTimings())
	r.start()
	r.hub.await(t, "it is plugged in", func(b *fakeHub) bool { return len(b.registrations) == 1 })
	book := r.hub.registrations["u1"].provider.(tool.PromptProvider)
	r.tools("tools are offered", some)
	r.state(Ready)
	for lang, title := range map[string]string{"": "Use Up", "en": "Use Up", "zh": "使用 Up"} {
		prompts, err := book.Prompts(t.Context(), tool.Caller{Lang: lang})
		if err != nil || len(prompts) != 1 || prompts[0].Name != "use" || prompts[0].Title != title ||
			prompts[0].Arguments[0].Name != "goal" || !prompts[0].Arguments[0].Required {
			t.Errorf("in %q there are %+v, %v", lang, prompts, err)
		}
	}
	written := func(lang, args string) string {
		t.Helper()
		w, err := book.Prompt(t.Context(), &tool.Call{Tool: "use", Args: json.RawMessage(args),
			Caller: tool.Caller{Lang: lang}})
		if err != nil || len(w.Messages) != 1 || w.Messages[0].Role != "user" {
			t.Fatalf("%+v, %v", w, err)
		}
		var block struct{ Text string }
		if err := json.Unmarshal(w.Messages[0].Content, &block); err != nil {
			t.Fatal(err)
		}
		return block.Text
	}
	text := written("en", `{"goal":" Light & warmth "}`)
	for _, want := range []string{"tools of Up: Light & warmth\n", "begin with up_.", "\n- t0: does thing 0\n",
		"\n- t1: Titled\n", "\n- t2\n", "\n- t49: does thing 49", "\n- and 10 more.\n", "list of tools"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in %s", want, text)
		}
	}
	lacks(t, "the prompt", text, "t50", "burn")
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "- ") && len(line) > maxPromptLine+20 {
			t.Errorf("a line of %d bytes", len(line))
		}
	}
	if text := written("zh", `{"goal":"开灯"}`); !strings.Contains(text, "目标：开灯") || !strings.Contains(text, "还有 10 个") {
		t.Errorf("in Chinese: %s", text)
	}
	for _, bad := range []string{`{}`, `{"goal":" "}`, `{"goal":7}`, `7`,
		`{"goal":"` + strings.Repeat("x", maxGoal+1) + `"}`} {
		_, err := book.Prompt(t.Context(), &tool.Call{Tool: "use", Args: json.RawMessage(bad)})
		if tool.AsError(err) == nil || tool.AsError(err).Code != tool.BadArgs {
			t.Errorf("%.20s: %v", bad, err)
		}
	}
	if _, err := book.Prompt(t.Context(), &tool.Call{Tool: "other",
		Args: json.RawMessage(`{"goal":"x"}`)}); !errors.Is(err, tool.ErrNotFound) {
		t.Errorf("another prompt: %v", err)
	}
	if values, err := book.Complete(t.Context(), tool.Caller{}, "use", "goal", "x"); len(values) != 0 || err != nil {
		t.Errorf("proposals: %v, %v", values, err)
	}
}

// Without tools there is no prompt.
func TestNoPrompt(t *testing.T) {
	r := newRig(t, newScriptedServer(t, map[string]scriptedHandler{"tools/list": result(`{"tools":[]}`)}).settings(),
		fastTimings()).start()
	r.state(Ready)
	prompts, err := r.hub.registrations["u1"].provider.(tool.PromptProvider).Prompts(t.Context(), tool.Caller{})
	if err != nil || len(prompts) != 0 {
		t.Errorf("there are %+v, %v", prompts, err)
	}
}
