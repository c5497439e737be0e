package quiz

import (
	"strings"
	"time"
	"unicode/utf8"

	"patchbay/internal/plug/learn"
	"patchbay/internal/store"
	"patchbay/internal/talk"
)

// Texts for wearers. They fit on two lines of a display and can be read aloud.
var (
	sayQuestion     = talk.Say{Zh: "第 %d 题，还剩 %d 题：%s", En: "Question %d, %d more: %s"}
	sayLastQuestion = talk.Say{Zh: "第 %d 题，最后一题：%s", En: "Question %d, the last: %s"}
	sayAnswer       = talk.Say{Zh: "答案：%s", En: "Answer: %s"}
	sayHowWell      = talk.Say{Zh: "记得怎么样？说：忘了、困难、记得、简单。",
		En: "How well did you know it? Say forgot, hard, good or easy."}
	sayNotJudged = talk.Say{Zh: "这次没法判断，请自己评。", En: "I cannot judge that now; please do."}
	sayPeeked    = talk.Say{Zh: "看过答案，算困难。", En: "Right, but you saw the answer: hard."}

	sayAgain = talk.Say{Zh: "没记住。", En: "Not quite."}
	sayHard  = talk.Say{Zh: "差一点。", En: "Almost."}
	sayGood  = talk.Say{Zh: "对。", En: "Right."}
	sayEasy  = talk.Say{Zh: "完全正确。", En: "Spot on."}

	sayForgotten = talk.Say{Zh: "忘了", En: "forgot"}
	sayHardName  = talk.Say{Zh: "困难", En: "hard"}
	sayGoodName  = talk.Say{Zh: "记得", En: "good"}
	sayEasyName  = talk.Say{Zh: "简单", En: "easy"}
	sayChanged   = talk.Say{Zh: "已改成%s。", En: "Changed to %s."}
	sayUndone    = talk.Say{Zh: "已撤销。", En: "Undone."}
	sayNoLast    = talk.Say{Zh: "还没有可以改的。", En: "There is nothing to change yet."}
	sayTooLate   = talk.Say{Zh: "改不了：这题之后又复习过。", En: "That cannot be changed: it was reviewed again since."}
	sayMarked    = talk.Say{Zh: "记为%s。", En: "Marked %s."}
	sayElsewhere = talk.Say{Zh: "这题在别处复习过了。", En: "That one was reviewed elsewhere."}

	sayFinished = talk.Say{Zh: "复习完了！这次 %d 题，忘了 %d 题。", En: "All done! %d reviewed, %d forgotten."}
	sayStopped  = talk.Say{Zh: "先到这里。这次 %d 题，忘了 %d 题，还剩 %d 题。", En: "Stopped. %d reviewed, %d forgotten, %d left."}
	sayPassed   = talk.Say{Zh: "跳过的有 %d 题。", En: "%d were skipped."}
	sayHeld     = talk.Say{Zh: "另有 %d 题超过今天的上限，改天再来。", En: "%d more are held back by the daily limit."}
	sayNothing  = talk.Say{Zh: "现在没有要复习的。", En: "Nothing is due now."}
	sayNext     = talk.Say{Zh: "下次：%s，%d 题。", En: "Next: %s, %d due."}
	sayNextAt   = talk.Say{Zh: "下一题：今天 %s。", En: "The next one: today at %s."}
	sayToday    = talk.Say{Zh: "今天", En: "today"}
	sayTomorrow = talk.Say{Zh: "明天", En: "tomorrow"}
	sayInDays   = talk.Say{Zh: "%d 天后", En: "in %d days"}
	sayDue      = talk.Say{Zh: "今天有 %d 题要复习，其中 %d 题是新的。", En: "%d to review today, %d of them new."}
	sayBegin    = talk.Say{Zh: "说“开始复习”就开始。", En: "Say “quiz me” to begin."}
	sayLeft     = talk.Say{Zh: "还剩 %d 题。", En: "%d left."}
	sayNoPoints = talk.Say{Zh: "还没有知识点。说“记一下：……”就能添加第一条。",
		En: "There are no points yet. Say “note: …” to add the first."}
	sayOver      = talk.Say{Zh: "复习已经结束，请再说一遍。", En: "The review is over. Please say that again."}
	sayJustSpeak = talk.Say{Zh: "请直接说出答案。", En: "Please say the answer."}

	sayWhat      = talk.Say{Zh: "要记什么？请说，或拍照。", En: "What shall I note? Say it, or take a photo."}
	sayLook      = talk.Say{Zh: "好，正在拍照。", En: "All right, taking a photo."}
	sayDraft     = talk.Say{Zh: "问：%s\n答：%s", En: "Q: %s\nA: %s"}
	sayDrafts    = talk.Say{Zh: "记了 %d 条，第一条：\n问：%s\n答：%s", En: "%d notes, the first:\nQ: %s\nA: %s"}
	sayConfirm   = talk.Say{Zh: "说“确认”保存，“取消”不要，“改成……”改答案。", En: "Say “save”, “cancel”, or “change it to …”."}
	saySaved     = talk.Say{Zh: "记住了 %d 条。", En: "Saved %d."}
	sayDiscarded = talk.Say{Zh: "好，不要了。", En: "All right, discarded."}
	sayGone      = talk.Say{Zh: "草稿已经不在了。", En: "The draft is gone."}
	sayOneByOne  = talk.Say{Zh: "不止一条，请先确认，再到列表里改。",
		En: "There are several; save them, then change them in the list."}
	sayNotComposed = talk.Say{Zh: "没能记下来，请换个说法，或说“记一下：问题？答案”。",
		En: "I could not make a note of that. Try “note: question? answer”."}
	sayNoPhotoModel = talk.Say{Zh: "没有能看照片的模型，请把要记的说出来。",
		En: "There is no model that reads photos; please say it in words."}

	sayRemindTitle = talk.Say{Zh: "复习 %d 题", En: "To review: %d"}
	sayInCalendar  = talk.Say{Zh: "已加入日历：%s %s。", En: "In your calendar: %s at %s."}
	sayNoCalendar  = talk.Say{Zh: "这台设备没有日历，请在设置里开提醒。",
		En: "This device has no calendar; turn on reminders in the settings."}
	sayNoNext = talk.Say{Zh: "最近没有要复习的，不用提醒。", En: "Nothing is due soon; there is nothing to remind you of."}

	// Hints of what the wearer can say next.
	tipAnswer   = talk.Say{Zh: "答案", En: "Answer"}
	tipSkip     = talk.Say{Zh: "跳过", En: "Skip"}
	tipStop     = talk.Say{Zh: "停", En: "Stop"}
	tipForgot   = talk.Say{Zh: "忘了", En: "Forgot"}
	tipHard     = talk.Say{Zh: "困难", En: "Hard"}
	tipGood     = talk.Say{Zh: "记得", En: "Good"}
	tipToGood   = talk.Say{Zh: "改成记得", En: "Change to good"}
	tipBegin    = talk.Say{Zh: "开始复习", En: "Quiz me"}
	tipSave     = talk.Say{Zh: "确认", En: "Save"}
	tipCancel   = talk.Say{Zh: "取消", En: "Cancel"}
	tipUndo     = talk.Say{Zh: "撤销", En: "Undo"}
	tipRemindMe = talk.Say{Zh: "提醒我复习", En: "Remind me to review"}
	tipDueToday = talk.Say{Zh: "今天学什么", En: "What's due"}
)

// Lengths of displayed texts, in characters; Chinese characters count twice.
const (
	questionChars = 160
	answerChars   = 120
	verdictChars  = 80
	draftChars    = 80
)

// shorten returns a text on one line, cut to the given length.
func shorten(text string, most int, lang talk.Lang) string {
	if lang == talk.Chinese {
		most = most * 2 / 3
	}
	text = strings.Join(strings.Fields(text), " ")
	if utf8.RuneCountInString(text) <= most {
		return text
	}
	return strings.TrimSpace(string([]rune(text)[:most])) + "…"
}

func gradeName(g store.Grade, lang talk.Lang) string {
	return [...]talk.Say{sayGoodName, sayForgotten, sayHardName, sayGoodName, sayEasyName}[g].In(lang)
}

func gradeComment(g store.Grade, lang talk.Lang) string {
	return [...]talk.Say{sayGood, sayAgain, sayHard, sayGood, sayEasy}[g].In(lang)
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

func dayName(d, today store.Day, lang talk.Lang) string {
	if d == today+1 {
		return sayTomorrow.In(lang)
	}
	return sayInDays.In(lang, int(d-today))
}

func clock(t time.Time, zone *time.Location) string { return t.In(zone).Format("15:04") }
