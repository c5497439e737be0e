package learn

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"patchbay/internal/store"
	"patchbay/internal/tool"
)

func TestPrompts(t *testing.T) {
	r := newRig(t, store.Options{Folder: t.TempDir()})
	p := &Provider{r.Service}
	r.add("ada", Draft{Question: "q", Answer: "a", Deck: "Deutsch"})
	who := tool.Caller{Person: "ada", Channel: "mcp"}
	list, err := p.Prompts(ctx, who)
	r.must(err)
	for _, l := range list {
		args := `{"text":"water boils at 100 °C","deck":"Deutsch"}`
		written, err := p.Prompt(ctx, &tool.Call{Tool: l.Name, Args: json.RawMessage(args), Caller: who})
		r.must(err)
		text := string(written.Messages[0].Content)
		if !strings.Contains(text, "water boils") && !strings.Contains(text, "Deutsch") {
			t.Errorf("%s says %s", l.Name, text)
		}
		// The tools that a prompt names exist.
		for word := range strings.FieldsFuncSeq(text, func(r rune) bool { return r != '_' && (r < 'a' || r > 'z') }) {
			if strings.Contains(word, "_") && !slices.Contains(ToolNames(), word) &&
				!slices.Contains([]string{"schedule_id", "review_id"}, word) {
				t.Errorf("%s names %s", l.Name, word)
			}
		}
	}
	if got, err := p.Complete(ctx, who, promptQuiz, "deck", "de"); err != nil ||
		!slices.Equal(got, []string{"default", "Deutsch"}) {
		t.Errorf("completions %q, %v", got, err)
	}
	if _, err := p.Prompt(ctx, &tool.Call{Tool: promptMake, Args: json.RawMessage(`{}`),
		Caller: who}); tool.AsError(err).Code != tool.BadArgs {
		t.Errorf("without a text: %v", err)
	}
	if list, err := p.Prompts(ctx, tool.Caller{Person: "ada", OnlyBot: 2, Channel: "mcp"}); err != nil ||
		len(list) != 0 {
		t.Errorf("a key for one bot sees %v, %v", list, err)
	}
	if _, err := p.Prompt(ctx, &tool.Call{Tool: "nope", Caller: who}); !errors.Is(err, tool.ErrNotFound) {
		t.Errorf("an unknown prompt: %v", err)
	}
}
