package quiz

import (
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"patchbay/internal/store"
)

// maxPhrase is the longest turn, in bytes, that is checked for phrases other than notes; commands
// are shorter.
const maxPhrase = 300

// utterance is a spoken text in the forms in which phrases are matched. Speech recognition adds
// punctuation, capitals and spaces unpredictably.
type utterance struct {
	text  string // as spoken, trimmed
	words string // lower case, no punctuation, single spaces between words
	tight string // words without spaces
}

// trim removes spaces and punctuation around words.
func trim(text string) string {
	return strings.TrimFunc(text, func(r rune) bool {
		return unicode.IsSpace(r) ||
			strings.ContainsRune("。.!！,，;；~～…", r)
	})
}

func parseUtterance(text string) utterance {
	h := utterance{text: trim(text)}
	var b strings.Builder
	gap := false
	for _, r := range h.text {
		switch {
		case r >= '！' && r <= '～':
			r -= '！' - '!' // full width to ASCII
		case r == '’' || r == '\'':
			continue // what's, let's
		}
		if !unicode.IsLetter(r) && !unicode.IsNumber(r) && !unicode.IsMark(r) {
			gap = true
			continue
		}
		if gap && b.Len() > 0 {
			b.WriteByte(' ')
		}
		gap = false
		b.WriteRune(unicode.ToLower(r))
	}
	h.words = b.String()
	h.tight = strings.ReplaceAll(h.words, " ", "")
	return h
}

// topic is the subject of an opening phrase.
type topic int

const (
	topicNone       topic = iota
	topicReviewAll        // review all decks
	topicReviewDeck       // review a deck, if one has that name
	topicCram             // go through all points of a deck or with a tag, due or not
	topicDue              // how many points are due
	topicNote             // make a point of the following text
	topicNoteNext         // make a point of the next turn, words or a photo
	topicRemind           // put the next review into the calendar
)

// opening is the result of parsing a turn as an opening phrase.
type opening struct {
	topic topic
	rest  string // name of a deck or tag, or text of the note
}

// A phrase counts only if it is the whole turn, with optional polite words around it: a question
// that merely begins with one goes to the bot.
const (
	politeZh = `^(?:你好|嗨|嘿|请|麻烦你?|那就?|好的?|现在|帮我|来|我们|咱们|我|要|想|让我|给我|该|继续|开始|启动|进入|可以)*`
	politeEn = `^(?:hey |hi |ok |okay |please |can you |could you |can we |could we |can i |lets |let us |let me |i want to |i would like to |id like to |i wanna |im ready to |time to |start |begin |start to |start a |start the |now )*`
	afterEn  = `(?: please| now| today| thanks| thank you)*$`
)

var (
	reviewZh = regexp.MustCompile(politeZh +
		`(?:今天的|今日)?(?:复习|考考我|考一考我|考我|抽查我|测测我|测验我)(?:今天的|今日的?)?(?:一下|一遍|模式|卡片|知识点|内容)*(?:吧|呗|啊|呀|啦|哦|好吗|可以吗|行吗|好不好|谢谢你?)*$`)
	beginZh  = regexp.MustCompile(`^(?:现在|那|我们|咱们|我)*(?:开始|要|该|可以)(?:开始)?复习(?:了|啦|了吗|吗)$`)
	mayZh    = regexp.MustCompile(`^你?(?:能不能|可不可以|能|可以|可否)(?:请|帮我|给我|开始)*(?:复习|考考我|考我)(?:一下)?(?:吗|呢|嘛)$`)
	deckZh   = regexp.MustCompile(politeZh + `(?:复习|考考我|考我)(?:一下)?(.+?)$`)
	reviewEn = regexp.MustCompile(politeEn +
		`(?:quiz me|test me|quiz|review|reviewing|my review|review session|do my reviews?|review my (?:cards|flashcards|points|notes))` + afterEn)
	deckEn = regexp.MustCompile(politeEn + `(?:quiz me on|test me on|review) (?:the |my )?(.+?)` + afterEn)

	// A cram session names a deck or a tag, perhaps saying which of them it is.
	cramZh = regexp.MustCompile(politeZh + `(?:突击(?:复习|一下)?|冲刺复习|集中复习|临时抱佛脚复习)(?:一下)?(.+?)(?:吧|呗|一下)?$`)
	cramEn = regexp.MustCompile(politeEn + `(?:cram|cramming|practi[sc]e) (?:the |my |for )?(.+?)` + afterEn)

	dueZh = []*regexp.Regexp{
		regexp.MustCompile(`^(?:请问|那)?我?今天我?(?:要|该|应该|需要)?(?:学|学习|复习)(?:些|点)?什么(?:呢|呀|啊)?$`),
		regexp.MustCompile(`^(?:请问|那)?我?(?:今天|现在)?我?(?:还)?(?:有|剩|剩下)(?:多少|几个|几题|几张|几条|什么)(?:知识点|卡片|题|题目|内容|东西)?(?:是)?(?:要|需要|该|没|没有|待)复习(?:的|完)?(?:吗|呢|呀|啊)?$`),
		regexp.MustCompile(`^(?:请问|那)?我?(?:今天|现在)?(?:还)?(?:要|该|需要)复习(?:多少|几个|几题|几张|什么)(?:知识点|卡片|题|内容)?(?:呢|呀|啊)?$`),
	}
	dueEn = regexp.MustCompile(`^(?:hey |hi |ok |please )*(?:(?:whats|what is) (?:due|there to review)|how many (?:cards |points |reviews |questions )?(?:are |do i have )?(?:due|to review|left to review)|what (?:should|do) i (?:learn|study|review|have to review)|(?:is |do i have )?anything (?:due|to review)|is anything due)(?: today| now| for today)?$`)

	remindZh = regexp.MustCompile(`^(?:请|麻烦你?|帮我|到时候|下次|明天|记得)*提醒我(?:明天|下次|按时)?(?:去)?复习(?:吧|一下)?$`)
	remindEn = regexp.MustCompile(`^(?:please |can you |could you )*remind me to review(?: next time| tomorrow| my points| my cards)?(?: please)?$`)

	noteZh = regexp.MustCompile(`(?s)^(?:你好|嗨)?[，,]?(?:请|麻烦你?)?你?(帮我|给我|替我|帮忙)?(记一下|记住|记下来|记下|记一条|记个知识点|记一个知识点|添加知识点|新增知识点)[ \t]*([：:，,、。.；;]?)\s*(.*)$`)
	noteEn = regexp.MustCompile(`(?is)^(?:(?:hey|hi|ok|okay|please),? +)*(?:(?:can|could|would) you +)?(?:please +)?(remember this|remember|note this down|note this|note to self|note|take a note|make a note|write this down)(?: for me)? *([:：,，.;–—-]) *(.+)$`)
	thatEn = regexp.MustCompile(`(?is)^(?:please +)?(?:(?:can|could) you +)?(?:make|take) a note that +(.+)$`)

	whatZh = regexp.MustCompile(`^(?:请|麻烦你?)?(?:帮我|给我|替我)?(?:记一下|记下来|记个知识点|记一个知识点|添加知识点|新增知识点|(?:记一下|记下|记住)(?:这个|这些|这页|这一页|这张|这张图|这张照片|这张图片|照片|图片)|把(?:这个|这些|这页|这一页|这张图|这张照片)(?:记下来|记住|记一下|拍下来记住)|(?:拍照|拍下来|拍一张|拍张照|拍个照)(?:记一下|记住|记下来))(?:吧)?$`)
	whatEn = regexp.MustCompile(`^(?:please |can you |could you )*(?:remember this|note this|note this down|write this down|take a note|make a note|take a note of this|make a note of this|remember this (?:page|picture|photo|one)|add a (?:point|card|note))(?: for me| please)*$`)

	// asksZh and endAsks match questions, which are rarely notes.
	asksZh  = regexp.MustCompile(`怎么|如何|为什么|什么|哪|几点|多少|谁|是不是|能不能|吗[？?]?$|呢[？?]?$|[？?]$`)
	endAsks = regexp.MustCompile(`(?:吗|呢)[。？?]?$|[？?]$`)
)

// parseOpening parses a turn as an opening phrase. The caller checks whether the deck exists.
func parseOpening(text string) opening {
	if o := parseNote(trim(text)); o.topic != topicNone {
		return o
	}
	if len(text) > maxPhrase {
		return opening{}
	}
	h := parseUtterance(text)
	switch {
	case whatZh.MatchString(h.tight) || whatEn.MatchString(h.words):
		return opening{topic: topicNoteNext}
	case reviewZh.MatchString(h.tight), beginZh.MatchString(h.tight), mayZh.MatchString(h.tight),
		reviewEn.MatchString(h.words):
		return opening{topic: topicReviewAll}
	case remindZh.MatchString(h.tight) || remindEn.MatchString(h.words):
		return opening{topic: topicRemind}
	case dueEn.MatchString(h.words):
		return opening{topic: topicDue}
	}
	for _, due := range dueZh {
		if due.MatchString(h.tight) {
			return opening{topic: topicDue}
		}
	}
	if t, ok := translated().topics[h.tight]; ok {
		return opening{topic: t}
	}
	if m := cramZh.FindStringSubmatch(h.tight); m != nil {
		return opening{topicCram, m[1]}
	}
	if m := cramEn.FindStringSubmatch(h.words); m != nil {
		return opening{topicCram, m[1]}
	}
	if rest, ok := sayCram.SaidWith(h.text); ok {
		return opening{topicCram, rest}
	}
	if m := deckZh.FindStringSubmatch(h.tight); m != nil {
		return opening{topicReviewDeck, m[1]}
	}
	if m := deckEn.FindStringSubmatch(h.words); m != nil {
		return opening{topicReviewDeck, m[1]}
	}
	if deck, ok := sayQuizOn.SaidWith(h.text); ok {
		return opening{topicReviewDeck, deck}
	}
	return opening{}
}

// minNoteLength is the minimum number of characters of a note that follows the opening words
// without a pause.
const minNoteLength = 4

// parseNote parses a request to remember something.
func parseNote(text string) opening {
	if m := thatEn.FindStringSubmatch(text); m != nil {
		return noteOpening(m[1], !strings.HasSuffix(m[1], "?"))
	}
	if m := noteEn.FindStringSubmatch(text); m != nil {
		colon := m[2] == ":" || m[2] == "："
		switch strings.ToLower(m[1]) {
		case "remember", "note":
			return noteOpening(m[3], colon)
		}
		return noteOpening(m[3], colon || !endAsks.MatchString(m[3]))
	}
	m := noteZh.FindStringSubmatch(text)
	if m == nil {
		return translatedNote(text)
	}
	helped, verb, mark, rest := m[1] != "", m[2], m[3], m[4]
	switch {
	case mark == "：" || mark == ":":
		return noteOpening(rest, true)
	case mark != "":
		return noteOpening(rest, !endAsks.MatchString(rest))
	case !helped && verb != "记一下":
		return opening{} // "记住了", "记下来就好": meant for the bot
	}
	return noteOpening(rest, !whatZh.MatchString(parseUtterance(text).tight) && !asksZh.MatchString(rest) &&
		utf8.RuneCountInString(rest) >= minNoteLength)
}

func noteOpening(rest string, is bool) opening {
	if rest = strings.TrimSpace(rest); rest == "" || !is {
		return opening{}
	}
	return opening{topicNote, rest}
}

// command is an instruction during a review.
type command int

const (
	commandNone   command = iota
	commandSkip           // skip the question
	commandShow           // show the answer
	commandStop           // end the review
	commandLeave          // end the review, and the conversation with the device
	commandRepeat         // repeat the question
	commandUndo           // undo the last review
	commandCount          // how many questions are left
	commandForgot         // the person does not know the answer
	commandGrade          // a grade for the recall
	commandChange         // another grade for the last review
	commandNoise          // filler without content
)

// commands maps spoken text, in the form of [utterance].tight, to commands.
var commands = phraseTable(map[command]string{
	commandSkip:   "跳过 跳过这题 跳过这个 跳过吧 先跳过 过 下一题 下一个 下一条 换一题 换一个 skip skipit skipthis skipthisone next nextone nextquestion pass",
	commandShow:   "答案 显示答案 看答案 看看答案 看一下答案 告诉我答案 公布答案 说答案 答案是什么 正确答案 提示答案 answer theanswer showanswer showtheanswer showmetheanswer tellmetheanswer whatstheanswer whatistheanswer reveal revealtheanswer",
	commandStop:   "停 停止 停下 停下来 暂停 结束 结束吧 结束复习 停止复习 不复习了 不复习 不学了 不背了 退出 退出复习 取消 先到这 先到这里 今天就到这 今天先到这里 到此为止 够了 stop stopit stopreview stopreviewing stopthereview stopquiz stopthequiz quit exit end finish endreview endthereview exitreview quitreview cancel thatsall thatsenough imdone enough",
	commandLeave:  "再见 拜拜 结束对话 goodbye bye byebye",
	commandRepeat: "再来一遍 再说一遍 再念一遍 再读一遍 再问一遍 重复 重复一遍 重复一下 重说 题目 题目是什么 什么问题 什么题目 没听清 没听清楚 我没听清 repeat repeatit repeatthat repeatthequestion sayagain sayitagain saythatagain onceagain onemoretime whatwasthequestion whatsthequestion pardon again",
	commandUndo:   "撤销 撤回 撤销上一题 撤回上一题 撤销一下 undo undothat undoit undothelast undothelastone takeitback takethatback",
	commandCount:  "还剩多少 还剩几题 还有几题 还有多少 还有多少题 剩几题 还剩几个 howmanyleft howmanyareleft howmanymore howmany",
	commandForgot: "忘了 忘记了 我忘了 我忘记了 完全忘了 不知道 我不知道 不记得 不记得了 我不记得 想不起来 想不起来了 我想不起来 记不起来 记不得 记不得了 不会 不清楚 dontknow idontknow idk noidea ihavenoidea iforgot forgot forgotten dontremember idontremember ivenoidea",
	commandNoise:  "嗯 嗯嗯 呃 呃呃 额 啊 啊啊 哦 唔 诶 欸 哎 唉 喂 那个 这个 呃那个 嗯那个 uh um uhm hmm hm mm mhm er erm ah oh eh huh",
})

// grades maps spoken text to a grade of the recall.
var grades = func() map[string]store.Grade {
	out := map[string]store.Grade{}
	for g, list := range map[store.Grade]string{
		store.Again: "忘了 忘记了 忘记 不记得 重来 错了 没想起来 我忘了 again forgot forgotten wrong iforgot",
		store.Hard:  "困难 难 有点难 很难 勉强 模糊 hard difficult",
		store.Good:  "记得 良好 记住了 我记得 还行 对了 答对了 good right correct iremember remembered",
		store.Easy:  "简单 容易 很简单 太简单了 easy tooeasy veryeasy",
	} {
		for _, said := range strings.Fields(list) {
			out[said] = g
		}
	}
	return out
}()

// earlyGrades are the grades accepted while the answer is still expected: words that cannot be an
// answer.
var earlyGrades = phraseTable(map[store.Grade]string{
	store.Hard: "有点难",
	store.Good: "记得 我记得 iremember",
	store.Easy: "简单 很简单 太简单了 tooeasy",
})

func phraseTable[T comparable](lists map[T]string) map[string]T {
	out := map[string]T{}
	for of, list := range lists {
		for _, said := range strings.Fields(list) {
			out[said] = of
		}
	}
	return out
}

var (
	changeZh = regexp.MustCompile(`^(?:请|帮我)?(?:把)?(?:上一题|上题|刚才那题|刚才的|刚才|前一题|它|成绩)?(?:改成|改为|改到|改|应该是|应该算|算作|算)(.+?)(?:吧)?$`)
	changeEn = regexp.MustCompile(`^(?:please )?(?:change|make|mark|set|grade|count|rate)(?: it| that| this| the last one| the last| the grade)?(?: to| as)? (.+?)(?: please)?$`)
	digits   = map[string]store.Grade{"1": store.Again, "2": store.Hard, "3": store.Good, "4": store.Easy}
)

// parseCommand parses an instruction to the review. While the answer is still expected (asked),
// fewer words count as grades.
func (h utterance) parseCommand(asked bool) (command, store.Grade) {
	if len(h.words) > maxPhrase {
		return commandNone, 0
	}
	if h.tight == "" {
		return commandNoise, 0
	}
	if !asked {
		if g, ok := gradeOf(h.tight); ok {
			return commandGrade, g
		}
		if g, ok := digits[h.tight]; ok {
			return commandGrade, g
		}
		if rest, ok := strings.CutPrefix(h.tight, "算"); ok {
			if g, ok := grades[strings.TrimSuffix(rest, "吧")]; ok {
				return commandGrade, g
			}
		}
	}
	if c, ok := commands[h.tight]; ok {
		return c, 0
	}
	if g, ok := earlyGrades[h.tight]; ok {
		return commandGrade, g
	}
	if c, ok := translated().commands[h.tight]; ok {
		return c, 0
	}
	for _, m := range [][]string{changeZh.FindStringSubmatch(h.tight), changeEn.FindStringSubmatch(h.words)} {
		if m == nil {
			continue
		}
		if g, ok := grades[strings.ReplaceAll(m[1], " ", "")]; ok {
			return commandChange, g
		}
	}
	if g, ok := h.translatedChange(); ok {
		return commandChange, g
	}
	return commandNone, 0
}

// verdict is a person's reaction to a draft.
type verdict int

const (
	verdictNone    verdict = iota
	verdictKeep            // the draft is right
	verdictDiscard         // delete the draft
	verdictCorrect         // change the answer
	verdictReword          // change the question
)

var (
	verdicts = phraseTable(map[verdict]string{
		verdictKeep:    "确认 确定 确认保存 保存 保存吧 存 存吧 存下来 好 好的 好啊 可以 行 对 对的 是 是的 没错 没问题 yes yep yeah ok okay save saveit keep keepit confirm sure right correct good fine yesplease thatsright soundsgood",
		verdictDiscard: "取消 不要 不要了 不用 不用了 不存 不保存 别存 删除 删掉 删了 算了 不对不要了 no nope cancel delete deleteit discard discardit dontsave dontsaveit nevermind forgetit",
	})
	correctZh = regexp.MustCompile(`(?s)^(?:不对|不是|错了)?[，,。]?(?:请|帮我)?(?:把)?(?:答案)?(?:改成|改为|应该是|换成)[：:，, ]*(.+)$`)
	rewordZh  = regexp.MustCompile(`(?s)^(?:请|帮我)?(?:把)?(?:问题|题目)(?:改成|改为|应该是|换成)[：:，, ]*(.+)$`)
	correctEn = regexp.MustCompile(`(?is)^(?:no,? +)?(?:please +)?(?:change|make)(?: +it| +the answer| +that)?(?: +to)?[:, ]+(.+)$`)
	rewordEn  = regexp.MustCompile(`(?is)^(?:please +)?change +the +question +to[:, ]+(.+)$`)
)

// parseVerdict parses a reaction to a draft.
func (h utterance) parseVerdict() (verdict, string) {
	if v, ok := verdicts[h.tight]; ok {
		return v, ""
	}
	for _, p := range []struct {
		phrase *regexp.Regexp
		means  verdict
	}{{rewordZh, verdictReword}, {rewordEn, verdictReword}, {correctZh, verdictCorrect}, {correctEn, verdictCorrect}} {
		if m := p.phrase.FindStringSubmatch(h.text); m != nil && strings.TrimSpace(m[1]) != "" {
			return p.means, strings.TrimSpace(m[1])
		}
	}
	if v, ok := translated().verdicts[h.tight]; ok {
		return v, ""
	}
	if question, ok := sayReword.SaidWith(h.text); ok {
		return verdictReword, question
	}
	if answer, ok := sayChange.SaidWith(h.text); ok {
		return verdictCorrect, answer
	}
	return verdictNone, ""
}
