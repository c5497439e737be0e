package roles

import (
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"patchbay/internal/i18n"
)

// unspeakable matches what cannot be read aloud: Markdown, lists, addresses and emoji.
var unspeakable = regexp.MustCompile("(?m)[*#`_\\[\\]<>|]|^\\s*(-|[0-9]+\\.) |https?:|[\U0001F000-\U0001FAFF\u2600-\u27BF]")

// TestRoles checks that each role is complete in each language, and written for speech.
func TestRoles(t *testing.T) {
	for _, lang := range i18n.Languages() {
		seen := map[string]bool{}
		for _, r := range All(lang) {
			if r.Lang != lang || r.ID == "" || seen[r.ID] || seen[r.Name] {
				t.Errorf("%s: %s (%s)", lang, r.ID, r.Name)
			}
			seen[r.ID], seen[r.Name] = true, true
			for _, text := range []string{r.Name, r.About, r.Greeting, r.Prompt} {
				if text == "" || strings.TrimSpace(text) != text || unspeakable.MatchString(text) {
					t.Errorf("%s, %s: %q", lang, r.ID, unspeakable.FindString(text))
				}
			}
			if utf8.RuneCountInString(r.Greeting) > 60 || len(r.Prompt) > 4<<10 {
				t.Errorf("%s, %s: too long", lang, r.ID)
			}
			if found, ok := Find(r.ID, lang); !ok || found != r {
				t.Errorf("%s, %s is not found", lang, r.ID)
			}
			if set := r.Settings(); set[SettingPrompt] != r.Prompt || set[settingLanguage] != string(lang) {
				t.Errorf("%s, %s: %v", lang, r.ID, set)
			}
		}
		if len(seen) != 2*len(IDs()) {
			t.Errorf("%s has %d roles", lang, len(seen)/2)
		}
	}
	if r, ok := Find("companion", "xx"); !ok || r.Lang != i18n.English {
		t.Errorf("an unknown language has %+v", r)
	}
	if _, ok := Find("pirate", i18n.English); ok {
		t.Error("there is a pirate")
	}
}
