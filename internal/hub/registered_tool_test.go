package hub

import (
	"bytes"
	"encoding/json"
	"testing"

	"patchbay/internal/tool"
)

// TestWhatMakesToolsDiffer checks that every difference between two tools is detected, here and on
// other instances.
func TestWhatMakesToolsDiffer(t *testing.T) {
	yes, no := true, false
	base := func() tool.Tool {
		return tool.Tool{Name: "n", Title: "t", Description: "d", Input: json.RawMessage(`{"a":1}`),
			Hints: tool.Hints{ReadOnly: &no}}
	}
	for name, change := range map[string]func(*tool.Tool){
		"name":            func(t *tool.Tool) { t.Name = "m" },
		"title":           func(t *tool.Tool) { t.Title = "" },
		"description":     func(t *tool.Tool) { t.Description = "e" },
		"title and words": func(t *tool.Tool) { t.Title, t.Description = "td", "" },
		"input":           func(t *tool.Tool) { t.Input = json.RawMessage(`{"a":2}`) },
		"output":          func(t *tool.Tool) { t.Output = json.RawMessage(`{}`) },
		"input to output": func(t *tool.Tool) { t.Input, t.Output = nil, t.Input },
		"icons":           func(t *tool.Tool) { t.Icons = json.RawMessage(`[]`) },
		"meta":            func(t *tool.Tool) { t.Meta = json.RawMessage(`{}`) },
		"a hint":          func(t *tool.Tool) { t.Hints.ReadOnly = &yes },
		"no hint":         func(t *tool.Tool) { t.Hints.ReadOnly = nil },
		"another hint":    func(t *tool.Tool) { t.Hints.Idempotent = &no },
		"danger":          func(t *tool.Tool) { t.Dangerous = true },
		"whom it is for":  func(t *tool.Tool) { t.Audience = "user" },
	} {
		a, b := base(), base()
		change(&b)
		if sameTools([]tool.Tool{a}, []tool.Tool{b}) ||
			fingerprintOf([]tool.Tool{a}) == fingerprintOf([]tool.Tool{b}) ||
			bytes.Equal(appendTool(nil, &a), appendTool(nil, &b)) {
			t.Errorf("%s: not noticed", name)
		}
	}
	a, b := base(), base()
	b.Hints.ReadOnly = new(bool)
	if !sameTools([]tool.Tool{a}, []tool.Tool{b}) || fingerprintOf([]tool.Tool{a}) != fingerprintOf([]tool.Tool{b}) {
		t.Error("the same tools are taken for others")
	}
}
