package cli

import (
	"cmp"
	"regexp"
	"slices"
	"strings"
	"sync"

	"patchbay/internal/config"
	"patchbay/internal/i18n"
)

// phraseContext is the context in the translations of the messages about settings, as in
// internal/config. A … stands for any text, which is translated too; the translation has it as
// %[1]s, %[2]s and so on. Of several messages that match the one with the most literal text counts.
const phraseContext = "configuration" + i18n.ContextEnd

// phrase is one message with its translation.
type phrase struct {
	english    *regexp.Regexp
	literal    int // number of literal characters
	translated i18n.Message
}

// phrases caches the phrases of a language: [i18n.Lang] to func() []phrase.
var phrases sync.Map

func phrasesIn(l i18n.Lang) []phrase {
	load, _ := phrases.LoadOrStore(l, sync.OnceValue(func() (list []phrase) {
		for m := range i18n.Translations(l) {
			english, ok := strings.CutPrefix(string(m), phraseContext)
			if !ok {
				continue
			}
			parts := strings.Split(english, "…")
			for i, p := range parts {
				parts[i] = regexp.QuoteMeta(p)
			}
			pattern := regexp.MustCompile(`^(?s:` + strings.Join(parts, "(.+)") + `)$`)
			list = append(list, phrase{pattern, len(strings.ReplaceAll(english, "…", "")), m})
		}
		slices.SortFunc(list, func(a, b phrase) int {
			return cmp.Or(b.literal-a.literal, strings.Compare(string(a.translated), string(b.translated)))
		})
		return list
	}))
	return load.(func() []phrase)()
}

// translatePhrase translates a part of a message; unknown texts stay unchanged.
func translatePhrase(l i18n.Lang, text string) string {
	for _, p := range phrasesIn(l) {
		found := p.english.FindStringSubmatch(text)
		if found == nil {
			continue
		}
		args := make([]any, len(found)-1)
		for i, slot := range found[1:] {
			args[i] = translatePhrase(l, slot)
		}
		return p.translated.In(l, args...)
	}
	return text
}

const (
	msgProblem      = i18n.Message("%s %s: %s")
	msgProblemWhere = i18n.Message("%s (%s) %s: %s")
)

// problem returns a problem with the settings in the language of the terminal, on one line.
func (sh *shell) problem(p config.Problem) string {
	if sh.lang == i18n.English {
		return p.Error()
	}
	fault, advice := translatePhrase(sh.lang, p.Fault), translatePhrase(sh.lang, p.Advice)
	if p.Where == "" {
		return msgProblem.In(sh.lang, p.Key, fault, advice)
	}
	return msgProblemWhere.In(sh.lang, p.Key, translatePhrase(sh.lang, p.Where), fault, advice)
}
