package quiz

import (
	"strings"
	"sync"

	"patchbay/internal/i18n"
	"patchbay/internal/store"
)

// Phrases that are recognized in each language that there is a translation into, beside what
// phrases.go has for Chinese and English. The texts for wearers tell them to say some of these; the
// suggestions of words.go are recognized too.
const (
	sayQuizMe   = i18n.Message("quiz me")
	sayReview   = i18n.Message("say\x04review")
	sayQuizOn   = i18n.Message("say\x04quiz me on %s")
	sayCram     = i18n.Message("say\x04cram %s")
	sayNote     = i18n.Message("say\x04note: %s")
	sayNoteThat = i18n.Message("say\x04make a note that %s")
	sayNoteThis = i18n.Message("say\x04note this")

	sayForgot   = i18n.Message("I forgot")
	sayDontKnow = i18n.Message("say\x04I don't know")
	sayStop     = i18n.Message("quiz\x04stop")
	sayRepeat   = i18n.Message("say\x04repeat the question")
	sayHowMany  = i18n.Message("say\x04how many are left")
	// sayNothing is a list of words that hesitation sounds like, with spaces between them.
	sayNothing = i18n.Message("say\x04uh um er hmm")

	sayYes    = i18n.Message("yes")
	sayNo     = i18n.Message("no")
	sayChange = i18n.Message("say\x04change it to %s")
	sayReword = i18n.Message("say\x04change the question to %s")
)

// tables are phrases in the form of [utterance].tight.
type tables struct {
	topics   map[string]topic
	commands map[string]command
	grades   map[string]store.Grade
	verdicts map[string]verdict
	toGood   map[string]bool
}

// translated are the fixed phrases in all languages.
var translated = sync.OnceValue(func() *tables {
	t := &tables{
		topics: translatedTable(map[topic][]i18n.Message{
			topicReviewAll: {sayQuizMe, sayReview, tipBegin},
			topicDue:       {tipDueToday},
			topicRemind:    {tipRemindMe},
			topicNoteNext:  {sayNoteThis},
		}),
		commands: translatedTable(map[command][]i18n.Message{
			commandSkip:   {tipSkip},
			commandShow:   {tipAnswer},
			commandStop:   {tipStop, sayStop},
			commandRepeat: {sayRepeat},
			commandUndo:   {tipUndo},
			commandCount:  {sayHowMany},
			commandForgot: {tipForgot, sayForgot, sayDontKnow},
		}),
		grades: translatedTable(map[store.Grade][]i18n.Message{
			store.Again: {tipForgot, msgForgotten},
			store.Hard:  {tipHard, msgHardName},
			store.Good:  {tipGood, msgGoodName},
			store.Easy:  {msgEasyName},
		}),
		verdicts: translatedTable(map[verdict][]i18n.Message{
			verdictKeep:    {tipSave, sayYes},
			verdictDiscard: {tipCancel, sayNo},
		}),
		toGood: translatedTable(map[bool][]i18n.Message{true: {tipToGood}}),
	}
	for _, list := range sayNothing.InAll() {
		for _, sound := range strings.Fields(list) {
			t.commands[parseUtterance(sound).tight] = commandNoise
		}
	}
	return t
})

func translatedTable[T comparable](phrases map[T][]i18n.Message) map[string]T {
	out := map[string]T{}
	for of, list := range phrases {
		for _, phrase := range list {
			for _, text := range phrase.InAll() {
				out[parseUtterance(text).tight] = of
			}
		}
	}
	return out
}

// translatedNote parses a request to remember something, in any language.
func translatedNote(text string) opening {
	for _, phrase := range []i18n.Message{sayNote, sayNoteThat} {
		if rest, ok := phrase.SaidWith(text); ok {
			return noteOpening(rest, true)
		}
	}
	return opening{}
}

// gradeOf returns the grade that a phrase, in the form of [utterance].tight, is the name of.
func gradeOf(tight string) (store.Grade, bool) {
	if g, ok := grades[tight]; ok {
		return g, true
	}
	g, ok := translated().grades[tight]
	return g, ok
}

// translatedChange parses another grade for the last review, in any language.
func (h utterance) translatedChange() (store.Grade, bool) {
	if translated().toGood[h.tight] {
		return store.Good, true
	}
	if to, ok := sayChange.SaidWith(h.text); ok {
		return gradeOf(parseUtterance(to).tight)
	}
	return 0, false
}
