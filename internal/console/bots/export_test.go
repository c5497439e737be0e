package bots

// HasWords says whether there are words for a kind, and for a setting.
func HasWords(kind, setting string) (ofKind, ofSetting bool) {
	w := settingWords[setting]
	return kindWords[kind].name.En != "", w.label.En != "" && w.label.Zh != ""
}

// Worded lists the settings that there are words for.
func Worded() []string {
	var names []string
	for name := range settingWords {
		names = append(names, name)
	}
	return names
}
