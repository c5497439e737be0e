package test

import (
	"strings"
	"testing"

	"patchbay/internal/i18n"
)

// TestToldPhrases checks that texts which tell people to say something name, in every language,
// the phrase that is recognized. Tests of the packages check that it is.
func TestToldPhrases(t *testing.T) {
	const (
		bind   = i18n.Message("bind %s")
		more   = i18n.Message("say\x04more")
		quiz   = i18n.Message("quiz me")
		change = i18n.Message("say\x04switch to %s")
		unbind = i18n.Message("say\x04unbind")
	)
	told := map[i18n.Message]i18n.Text{
		"Photograph this code with the glasses to bind them to %s.\nOr say to the glasses: “bind %s”": bind.With("%s"),
		"Wearers of your other bots can say “switch to …”.":                                           change.With("…"),
		"Then the wearer says “more”. Empty: all at once.":                                            more.With(),
		"%d to review today, %d of them new. Say “quiz me” to begin.":                                 quiz.With(),
		"You are connected to the bot “%s” already. Please unbind it first.":                          unbind.With(),
	}
	for _, l := range i18n.Languages() {
		for text, phrase := range told {
			translated, ok := i18n.Lookup(l, text)
			if !ok {
				t.Errorf("%s: no text %q", l, text)
			}
			if !strings.Contains(translated, phrase.In(l)) {
				t.Errorf("%s: %q does not say %q", l, translated, phrase.In(l))
			}
		}
	}
}
