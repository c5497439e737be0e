package bots

// HasWords reports whether there are texts for a kind, and for a setting.
func HasWords(kind, setting string) (ofKind, ofSetting bool) {
	w := settingWords[setting]
	return kindWords[kind].name != "", w.label != ""
}

// Worded returns the settings that have texts.
func Worded() []string {
	var names []string
	for name := range settingWords {
		names = append(names, name)
	}
	return names
}
