// Package wordstest checks for tests that the texts of Patchbay's own tools have translations.
package wordstest

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode"

	"patchbay/internal/console/toolwords"
	"patchbay/internal/i18n"
	"patchbay/internal/tool"
)

// Check fails the test for titles and descriptions, including those of arguments, that are not
// available in both languages.
func Check(t *testing.T, list []tool.Tool) {
	t.Helper()
	if len(list) == 0 {
		t.Error("there are no tools")
	}
	for i := range list {
		for _, text := range Texts(&list[i]) {
			zh, en := toolwords.Translate(i18n.Chinese, text), toolwords.Translate(i18n.English, text)
			if !chinese(zh) || en == "" || chinese(en) || text != zh && text != en {
				t.Errorf("the Chinese translations do not have, of %s: %s", list[i].Name, text)
			}
		}
	}
}

// CheckArguments fails the test for names of arguments and values to choose from that have no
// translation.
func CheckArguments(t *testing.T, list []tool.Tool) {
	t.Helper()
	if len(list) == 0 {
		t.Error("there are no tools")
	}
	for i := range list {
		var schema struct {
			Properties map[string]struct{ Enum []any }
		}
		if err := json.Unmarshal(list[i].Input, &schema); err != nil {
			t.Errorf("%s: %v", list[i].Name, err)
		}
		for name, p := range schema.Properties {
			for _, word := range append(p.Enum, name) {
				word, isText := word.(string)
				if zh := toolwords.Word(i18n.Chinese, word); isText && !chinese(zh) {
					t.Errorf("%s: %q has no Chinese translation", list[i].Name, word)
				}
			}
		}
	}
}

// Texts returns the texts of a tool for people: its title and description, and those of its
// arguments.
func Texts(t *tool.Tool) (texts []string) {
	add := func(text any) {
		if s, ok := text.(string); ok && s != "" {
			texts = append(texts, s)
		}
	}
	add(t.Title)
	add(t.Description)
	var schema any
	if json.Unmarshal(t.Input, &schema) != nil {
		return texts
	}
	var walk func(v any)
	walk = func(v any) {
		switch v := v.(type) {
		case map[string]any:
			add(v["description"])
			for _, member := range v {
				walk(member)
			}
		case []any:
			for _, element := range v {
				walk(element)
			}
		}
	}
	walk(schema)
	return texts
}

func chinese(text string) bool {
	return strings.ContainsFunc(text, func(r rune) bool { return unicode.Is(unicode.Han, r) })
}
