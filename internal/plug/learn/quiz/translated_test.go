package quiz

import (
	"strings"
	"testing"
	"time"

	"patchbay/internal/i18n"
	"patchbay/internal/store"
)

// What a text tells wearers to say, and each suggestion, is recognized in every language: as a
// translation has them, and as speech recognition may write them.
func TestTranslatedPhrases(t *testing.T) {
	topics := map[i18n.Message]opening{
		sayQuizMe: {topic: topicReviewAll}, sayReview: {topic: topicReviewAll}, tipBegin: {topic: topicReviewAll},
		tipDueToday: {topic: topicDue}, tipRemindMe: {topic: topicRemind}, sayNoteThis: {topic: topicNoteNext},
	}
	commands := map[i18n.Message]command{
		tipSkip: commandSkip, tipAnswer: commandShow, tipStop: commandStop, sayStop: commandStop,
		sayRepeat: commandRepeat, tipUndo: commandUndo, sayHowMany: commandCount, tipForgot: commandForgot,
		sayForgot: commandForgot, sayDontKnow: commandForgot,
	}
	grades := map[i18n.Message]store.Grade{
		tipForgot: store.Again, msgForgotten: store.Again, tipHard: store.Hard, msgHardName: store.Hard,
		tipGood: store.Good, msgGoodName: store.Good, msgEasyName: store.Easy,
	}
	verdicts := map[i18n.Message]verdict{tipSave: verdictKeep, sayYes: verdictKeep, tipCancel: verdictDiscard,
		sayNo: verdictDiscard}
	for _, l := range i18n.Languages() {
		check := func(phrase i18n.Message, arg string, recognized func(said string) bool) {
			t.Helper()
			text := phrase.In(l)
			if arg != "" {
				text = phrase.In(l, arg)
			}
			for _, said := range []string{text, text + "。", strings.ToUpper(text) + "!", " " + text} {
				if !recognized(said) {
					t.Errorf("%s: %q (%s) is not recognized", l, said, phrase.In(i18n.English))
				}
			}
		}
		for phrase, want := range topics {
			check(phrase, "", func(said string) bool { return parseOpening(said) == want })
		}
		for phrase, want := range commands {
			check(phrase, "", func(said string) bool {
				c, _ := parseUtterance(said).parseCommand(true)
				return c == want
			})
		}
		for sound := range strings.FieldsSeq(sayNothing.In(l)) {
			if c, _ := parseUtterance(sound + "…").parseCommand(true); c != commandNoise {
				t.Errorf("%s: %q is %v", l, sound, c)
			}
		}
		for phrase, want := range grades {
			check(phrase, "", func(said string) bool {
				c, g := parseUtterance(said).parseCommand(false)
				return c == commandGrade && g == want
			})
			check(sayChange, phrase.In(l), func(said string) bool {
				c, g := parseUtterance(said).parseCommand(true)
				return c == commandChange && g == want
			})
		}
		check(tipToGood, "", func(said string) bool {
			c, g := parseUtterance(said).parseCommand(true)
			return c == commandChange && g == store.Good
		})
		for phrase, want := range verdicts {
			check(phrase, "", func(said string) bool {
				v, _ := parseUtterance(said).parseVerdict()
				return v == want
			})
		}
		check(sayChange, "1789", func(said string) bool {
			v, rest := parseUtterance(said).parseVerdict()
			return v == verdictCorrect && rest == "1789"
		})
		check(sayReword, "1789", func(said string) bool {
			v, rest := parseUtterance(said).parseVerdict()
			return v == verdictReword && rest == "1789"
		})
		for _, phrase := range []i18n.Message{sayNote, sayNoteThat} {
			check(phrase, "1 + 1 = 2", func(said string) bool { return parseOpening(said) == opening{topicNote, "1 + 1 = 2"} })
		}
		check(sayQuizOn, "2B", func(said string) bool {
			o := parseOpening(said)
			return o.topic == topicReviewDeck && strings.EqualFold(o.rest, "2b")
		})
		check(sayCram, "2B", func(said string) bool {
			o := parseOpening(said)
			return o.topic == topicCram && strings.EqualFold(o.rest, "2b")
		})
		if !refersToView(parseUtterance(sayNoteThis.In(l))) {
			t.Errorf("%s: no photo is taken at %q", l, sayNoteThis.In(l))
		}
	}
}

// The texts tell wearers to say what is recognized.
func TestToldPhrases(t *testing.T) {
	for _, l := range i18n.Languages() {
		for text, phrases := range map[i18n.Message][]string{
			msgHowWell: {msgForgotten.In(l), msgHardName.In(l), msgGoodName.In(l), msgEasyName.In(l)},
			msgBegin:   {sayQuizMe.In(l)}, msgNoPoints: {sayNote.In(l, "…")}, msgNotComposed: {sayNote.In(l, "")},
			msgConfirm: {tipSave.In(l), tipCancel.In(l), sayChange.In(l, "…")},
		} {
			for _, phrase := range phrases {
				if !strings.Contains(strings.ToLower(text.In(l)), strings.ToLower(phrase)) {
					t.Errorf("%s: %q does not say %q", l, text.In(l), phrase)
				}
			}
		}
	}
}

// A review goes by the suggestions alone, in every language.
func TestReviewByTaps(t *testing.T) {
	for _, l := range i18n.Languages() {
		r := newRig(t, store.Options{Folder: t.TempDir()})
		r.add(2)
		for _, step := range []struct {
			say  i18n.Message
			want string
		}{
			{tipDueToday, tipBegin.In(l)}, {tipBegin, "q1?"}, {tipForgot, tipToGood.In(l)},
			{tipToGood, msgChanged.In(l, msgGoodName)}, {tipSkip, tipRemindMe.In(l)}, {tipUndo, msgUndone.In(l)},
		} {
			r.pass(8 * time.Second)
			turn := turn(step.say.In(l))
			turn.Lang = l
			if got := ask(t, r.Quiz, r.bot, turn); !strings.Contains(got, step.want) {
				t.Errorf("%s: at %q: %q, want %q", l, step.say.In(l), got, step.want)
			}
		}
	}
}
