package bots

import "patchbay/internal/hub"

// HasWords reports whether there are texts for a kind, and for a setting.
func HasWords(kind hub.Kind, s hub.Setting) (ofKind, ofSetting bool) {
	return kind.Text.Name != "" || kindWords[kind.Name].Name != "", s.Text.Label != "" || settingWords[s.Name].label != ""
}

// Worded returns the settings that have texts.
func Worded() []string {
	var names []string
	for name := range settingWords {
		names = append(names, name)
	}
	return names
}
