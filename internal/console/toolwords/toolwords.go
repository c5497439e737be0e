// Package toolwords translates the titles and descriptions of Patchbay's own tools for pages.
// Programs and models get the original texts, in whichever language those are.
package toolwords

import (
	"regexp"
	"strings"
	"sync"

	"patchbay/internal/i18n"
)

// context is that of the texts in the translations: titles and descriptions of tools, and
// descriptions of arguments. The same text has the same translation everywhere.
const context = "tool" + i18n.ContextEnd

// chineseTexts maps the texts that are Chinese at their source to their messages.
var chineseTexts = sync.OnceValue(func() map[string]i18n.Message {
	list := map[string]i18n.Message{}
	for m, chinese := range i18n.Translations(i18n.Chinese) {
		// Of messages with the same translation, which one it is must not depend on chance.
		if first, ok := list[chinese]; strings.HasPrefix(string(m), context) && (!ok || m < first) {
			list[chinese] = m
		}
	}
	return list
})

// Description of a node's command that nothing is known about.
var (
	msgCommand = i18n.Message("The command %s of the node.")
	command    = regexp.MustCompile(`^The command (\S+) of the node\.$`)
)

// Own returns a text of a tool whose provider is of a kind, in a language. Texts of other people's
// servers stay unchanged, even if they equal one of Patchbay's own.
func Own(lang i18n.Lang, kind, text string) string {
	if kind == "upstream" {
		return text
	}
	return Translate(lang, text)
}

// Translate returns a text of a tool in a language. Unknown texts stay unchanged.
func Translate(lang i18n.Lang, text string) string {
	if own, ok := Lookup(lang, text); ok {
		return own
	}
	if m := command.FindStringSubmatch(text); m != nil {
		return msgCommand.In(lang, m[1])
	}
	if lang != i18n.English && mention.MatchString(text) {
		if own, ok := Lookup(lang, mention.ReplaceAllString(text, "`self.get_device_status`")); ok {
			return own
		}
	}
	return text
}

// mention matches the name that the hub gives a tool of the firmware where another one mentions it.
var mention = regexp.MustCompile("`[^`]*_self_get_device_status`")

// Word returns the name of an argument or of a member of a result, or a value to choose from, in a
// language. The words are those of Patchbay's own tools and of the firmware of boards; others stay
// unchanged.
func Word(lang i18n.Lang, word string) string {
	m := i18n.Message("argument" + i18n.ContextEnd + word)
	switch _, ok := i18n.Lookup(i18n.Chinese, m); {
	case !ok:
		return word
	case lang == i18n.English:
		return strings.ReplaceAll(word, "_", " ")
	}
	return m.In(lang)
}

// Lookup returns a text of a tool in a language; ok is false if it is not one of Patchbay's own.
func Lookup(lang i18n.Lang, text string) (own string, ok bool) {
	m, ok := chineseTexts()[text]
	if !ok {
		m = i18n.Message(context + text)
		_, ok = i18n.Lookup(i18n.Chinese, m)
	}
	if !ok {
		return "", false
	}
	return m.In(lang), true
}
