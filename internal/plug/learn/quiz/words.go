package quiz

import (
	"strings"
	"time"
	"unicode/utf8"

	"patchbay/internal/i18n"
	"patchbay/internal/plug/learn"
	"patchbay/internal/store"
)

// Texts for wearers. They fit on two lines of a display and can be read aloud.
const (
	msgQuestion     = i18n.Message("Question %d, %d more: %s")
	msgLastQuestion = i18n.Message("Question %d, the last: %s")
	msgAnswer       = i18n.Message("Answer: %s")
	msgHowWell      = i18n.Message("How well did you know it? Say forgot, hard, good or easy.")
	msgNotJudged    = i18n.Message("I cannot judge that now; please do.")
	msgPeeked       = i18n.Message("Right, but you saw the answer: hard.")

	msgAgain = i18n.Message("Not quite.")
	msgHard  = i18n.Message("Almost.")
	msgGood  = i18n.Message("Right.")
	msgEasy  = i18n.Message("Spot on.")

	msgForgotten = i18n.Message("forgot")
	msgHardName  = i18n.Message("hard")
	msgGoodName  = i18n.Message("grade\x04good")
	msgEasyName  = i18n.Message("easy")
	msgChanged   = i18n.Message("Changed to %s.")
	msgUndone    = i18n.Message("Undone.")
	msgNoLast    = i18n.Message("There is nothing to change yet.")
	msgTooLate   = i18n.Message("That cannot be changed: it was reviewed again since.")
	msgMarked    = i18n.Message("Marked %s.")
	msgElsewhere = i18n.Message("That one was reviewed elsewhere.")

	msgFinished  = i18n.Message("All done! %d reviewed, %d forgotten.")
	msgStopped   = i18n.Message("Stopped. %d reviewed, %d forgotten, %d left.")
	msgPassed    = i18n.Message("%d were skipped.")
	msgHeld      = i18n.Message("%d more are held back by the daily limit.")
	msgNothing   = i18n.Message("Nothing is due now.")
	msgNext      = i18n.Message("Next: %s, %d due.")
	msgNextAt    = i18n.Message("The next one: today at %s.")
	msgToday     = i18n.Message("today")
	msgTomorrow  = i18n.Message("tomorrow")
	msgInDays    = i18n.Message("in %d days")
	msgDue       = i18n.Message("%d to review today, %d of them new.")
	msgGoodbye   = i18n.Message("Goodbye!")
	msgBegin     = i18n.Message("Say “quiz me” to begin.")
	msgLeft      = i18n.Message("%d left.")
	msgNoPoints  = i18n.Message("There are no points yet. Say “note: …” to add the first.")
	msgOver      = i18n.Message("The review is over. Please say that again.")
	msgJustSpeak = i18n.Message("Please say the answer.")

	msgWhat         = i18n.Message("What shall I note? Say it, or take a photo.")
	msgLook         = i18n.Message("All right, taking a photo.")
	msgDraft        = i18n.Message("Q: %s\nA: %s")
	msgDrafts       = i18n.Message("%d notes, the first:\nQ: %s\nA: %s")
	msgConfirm      = i18n.Message("Say “save”, “cancel”, or “change it to …”.")
	msgSaved        = i18n.Message("Saved %d.")
	msgDiscarded    = i18n.Message("All right, discarded.")
	msgGone         = i18n.Message("The draft is gone.")
	msgOneByOne     = i18n.Message("There are several; save them, then change them in the list.")
	msgNotComposed  = i18n.Message("I could not make a note of that. Try “note: question? answer”.")
	msgNoPhotoModel = i18n.Message("There is no model that reads photos; please say it in words.")

	msgRemindTitle = i18n.Message("To review: %d")
	msgInCalendar  = i18n.Message("In your calendar: %s at %s.")
	msgNoCalendar  = i18n.Message("This device has no calendar; turn on reminders in the settings.")
	msgNoNext      = i18n.Message("Nothing is due soon; there is nothing to remind you of.")

	// Hints of what the wearer can say next.
	tipAnswer   = i18n.Message("flashcard\x04Answer")
	tipSkip     = i18n.Message("Skip")
	tipStop     = i18n.Message("quiz\x04Stop")
	tipForgot   = i18n.Message("Forgot")
	tipHard     = i18n.Message("Hard")
	tipGood     = i18n.Message("Good")
	tipToGood   = i18n.Message("Change to good")
	tipBegin    = i18n.Message("Quiz me")
	tipSave     = i18n.Message("quiz\x04Save")
	tipCancel   = i18n.Message("Cancel")
	tipUndo     = i18n.Message("Undo")
	tipRemindMe = i18n.Message("Remind me to review")
	tipDueToday = i18n.Message("What's due")
)

// Lengths of displayed texts, in characters; wide characters count twice.
const (
	questionChars = 160
	answerChars   = 120
	verdictChars  = 80
	draftChars    = 80
)

// shorten returns a text on one line, cut to the given length.
func shorten(text string, most int, lang i18n.Lang) string {
	if lang.IsWide() {
		most = most * 2 / 3
	}
	text = strings.Join(strings.Fields(learn.WithoutMedia(text)), " ")
	if utf8.RuneCountInString(text) <= most {
		return text
	}
	return strings.TrimSpace(string([]rune(text)[:most])) + "…"
}

func gradeName(g store.Grade, lang i18n.Lang) string {
	return [...]i18n.Message{msgGoodName, msgForgotten, msgHardName, msgGoodName, msgEasyName}[g].In(lang)
}

func gradeComment(g store.Grade, lang i18n.Lang) string {
	return [...]i18n.Message{msgGood, msgAgain, msgHard, msgGood, msgEasy}[g].In(lang)
}

// nextDue returns the next day after today on which points are due, and their number.
func nextDue(s *learn.Stats) (store.Day, int) {
	for _, f := range s.Forecast {
		if f.Day > s.Today && f.Due > 0 {
			return f.Day, f.Due
		}
	}
	return 0, 0
}

func dayName(d, today store.Day, lang i18n.Lang) string {
	if d == today+1 {
		return msgTomorrow.In(lang)
	}
	return msgInDays.In(lang, int(d-today))
}

func clock(t time.Time, zone *time.Location) string { return t.In(zone).Format("15:04") }
