package quiz

import (
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"patchbay/internal/store"
)

// maxPhrase is the longest turn, in bytes, that is looked at for phrases other than
// notes: nobody says a command in more words.
const maxPhrase = 300

// heard is what somebody said, in the forms in which phrases are looked for. Speech
// recognition adds punctuation, capitals and spaces at will.
type heard struct {
	text  string // as it was said, without what stands around it
	words string // in lower case, without punctuation, one space between words
	tight string // words without the spaces
}

// trim takes away what stands around words.
func trim(text string) string {
	return strings.TrimFunc(text, func(r rune) bool { return unicode.IsSpace(r) || strings.ContainsRune("。.!！,，;；~～…", r) })
}

func listen(text string) heard {
	h := heard{text: trim(text)}
	var b strings.Builder
	gap := false
	for _, r := range h.text {
		switch {
		case r >= '！' && r <= '～':
			r -= '！' - '!' // full width
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

// topic is what an opening phrase is about.
type topic int

const (
	nothing      topic = iota
	reviewAll          // begin a review
	reviewDeck         // begin a review of a deck, if there is one of that name
	whatIsDue          // how much waits
	remember           // make a point of what follows
	rememberWhat       // make a point of what comes next, words or a photo
	remindMe           // put the next review into the calendar
)

// opening is what a whole turn opens.
type opening struct {
	topic topic
	rest  string // the name of a deck, or what is to be remembered
}

// Phrases count only as whole turns, with the words of politeness around them: a
// question that begins like one of them is the bot's.
const (
	politeZh = `^(?:你好|嗨|嘿|请|麻烦你?|那就?|好的?|现在|帮我|来|我们|咱们|我|要|想|让我|给我|该|继续|开始|启动|进入|可以)*`
	politeEn = `^(?:hey |hi |ok |okay |please |can you |could you |can we |could we |can i |lets |let us |let me |i want to |i would like to |id like to |i wanna |im ready to |time to |start |begin |start to |start a |start the |now )*`
	afterEn  = `(?: please| now| today| thanks| thank you)*$`
)

var (
	reviewZh = regexp.MustCompile(politeZh + `(?:今天的|今日)?(?:复习|考考我|考一考我|考我|抽查我|测测我|测验我)(?:今天的|今日的?)?(?:一下|一遍|模式|卡片|知识点|内容)*(?:吧|呗|啊|呀|啦|哦|好吗|可以吗|行吗|好不好|谢谢你?)*$`)
	beginZh  = regexp.MustCompile(`^(?:现在|那|我们|咱们|我)*(?:开始|要|该|可以)(?:开始)?复习(?:了|啦|了吗|吗)$`)
	mayZh    = regexp.MustCompile(`^你?(?:能不能|可不可以|能|可以|可否)(?:请|帮我|给我|开始)*(?:复习|考考我|考我)(?:一下)?(?:吗|呢|嘛)$`)
	deckZh   = regexp.MustCompile(politeZh + `(?:复习|考考我|考我)(?:一下)?(.+?)$`)
	reviewEn = regexp.MustCompile(politeEn + `(?:quiz me|test me|quiz|review|reviewing|my review|review session|do my reviews?|review my (?:cards|flashcards|points|notes))` + afterEn)
	deckEn   = regexp.MustCompile(politeEn + `(?:quiz me on|test me on|review) (?:the |my )?(.+?)` + afterEn)

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

	// asks says that something is a question and hardly a thing to be remembered.
	asksZh  = regexp.MustCompile(`怎么|如何|为什么|什么|哪|几点|多少|谁|是不是|能不能|吗[？?]?$|呢[？?]?$|[？?]$`)
	endAsks = regexp.MustCompile(`(?:吗|呢)[。？?]?$|[？?]$`)
)

// open finds what a turn opens. Whether a deck of the name exists is left to the
// caller.
func open(text string) opening {
	if o := openNote(trim(text)); o.topic != nothing {
		return o
	}
	if len(text) > maxPhrase {
		return opening{}
	}
	h := listen(text)
	switch {
	case whatZh.MatchString(h.tight) || whatEn.MatchString(h.words):
		return opening{topic: rememberWhat}
	case reviewZh.MatchString(h.tight), beginZh.MatchString(h.tight), mayZh.MatchString(h.tight), reviewEn.MatchString(h.words):
		return opening{topic: reviewAll}
	case remindZh.MatchString(h.tight) || remindEn.MatchString(h.words):
		return opening{topic: remindMe}
	case dueEn.MatchString(h.words):
		return opening{topic: whatIsDue}
	}
	for _, due := range dueZh {
		if due.MatchString(h.tight) {
			return opening{topic: whatIsDue}
		}
	}
	if m := deckZh.FindStringSubmatch(h.tight); m != nil {
		return opening{reviewDeck, m[1]}
	}
	if m := deckEn.FindStringSubmatch(h.words); m != nil {
		return opening{reviewDeck, m[1]}
	}
	return opening{}
}

// leastNote is how many characters a note has that no pause sets off from the words
// before it.
const leastNote = 4

// openNote finds what somebody wants to have remembered.
func openNote(text string) opening {
	if m := thatEn.FindStringSubmatch(text); m != nil {
		return noteOf(m[1], !strings.HasSuffix(m[1], "?"))
	}
	if m := noteEn.FindStringSubmatch(text); m != nil {
		colon := m[2] == ":" || m[2] == "："
		switch strings.ToLower(m[1]) {
		case "remember", "note":
			return noteOf(m[3], colon)
		}
		return noteOf(m[3], colon || !endAsks.MatchString(m[3]))
	}
	m := noteZh.FindStringSubmatch(text)
	if m == nil {
		return opening{}
	}
	helped, verb, mark, rest := m[1] != "", m[2], m[3], m[4]
	switch {
	case mark == "：" || mark == ":":
		return noteOf(rest, true)
	case mark != "":
		return noteOf(rest, !endAsks.MatchString(rest))
	case !helped && verb != "记一下":
		return opening{} // "记住了", "记下来就好": said to the bot
	}
	return noteOf(rest, !whatZh.MatchString(listen(text).tight) && !asksZh.MatchString(rest) && utf8.RuneCountInString(rest) >= leastNote)
}

func noteOf(rest string, is bool) opening {
	if rest = strings.TrimSpace(rest); rest == "" || !is {
		return opening{}
	}
	return opening{remember, rest}
}

// command is what can be said while a review goes on.
type command int

const (
	none   command = iota
	skip           // pass over the question
	show           // tell the answer
	stop           // end the review
	repeat         // say the question again
	undo           // take the last review back
	count          // how many are left
	forgot         // the answer is not known
	grade          // how well it was known
	change         // another grade for the last review
	noise          // nothing was said
)

// commands by what is said, as [heard.tight].
var commands = phrases(map[command]string{
	skip:   "跳过 跳过这题 跳过这个 跳过吧 先跳过 过 下一题 下一个 下一条 换一题 换一个 skip skipit skipthis skipthisone next nextone nextquestion pass",
	show:   "答案 显示答案 看答案 看看答案 看一下答案 告诉我答案 公布答案 说答案 答案是什么 正确答案 提示答案 answer theanswer showanswer showtheanswer showmetheanswer tellmetheanswer whatstheanswer whatistheanswer reveal revealtheanswer",
	stop:   "停 停止 停下 停下来 暂停 结束 结束吧 结束复习 停止复习 不复习了 不复习 不学了 不背了 退出 退出复习 取消 先到这 先到这里 今天就到这 今天先到这里 到此为止 够了 stop stopit stopreview stopreviewing stopthereview stopquiz stopthequiz quit exit end finish endreview endthereview exitreview quitreview cancel thatsall thatsenough imdone enough",
	repeat: "再来一遍 再说一遍 再念一遍 再读一遍 再问一遍 重复 重复一遍 重复一下 重说 题目 题目是什么 什么问题 什么题目 没听清 没听清楚 我没听清 repeat repeatit repeatthat repeatthequestion sayagain sayitagain saythatagain onceagain onemoretime whatwasthequestion whatsthequestion pardon again",
	undo:   "撤销 撤回 撤销上一题 撤回上一题 撤销一下 undo undothat undoit undothelast undothelastone takeitback takethatback",
	count:  "还剩多少 还剩几题 还有几题 还有多少 还有多少题 剩几题 还剩几个 howmanyleft howmanyareleft howmanymore howmany",
	forgot: "忘了 忘记了 我忘了 我忘记了 完全忘了 不知道 我不知道 不记得 不记得了 我不记得 想不起来 想不起来了 我想不起来 记不起来 记不得 记不得了 不会 不清楚 dontknow idontknow idk noidea ihavenoidea iforgot forgot forgotten dontremember idontremember ivenoidea",
	noise:  "嗯 嗯嗯 呃 呃呃 额 啊 啊啊 哦 唔 诶 欸 哎 唉 喂 那个 这个 呃那个 嗯那个 uh um uhm hmm hm mm mhm er erm ah oh eh huh",
})

// grades by what is said of a recall.
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

// boldGrades are the grades that count while the answer is still to be said: words
// that are no answer to anything.
var boldGrades = phrases(map[store.Grade]string{
	store.Hard: "有点难",
	store.Good: "记得 我记得 iremember",
	store.Easy: "简单 很简单 太简单了 tooeasy",
})

func phrases[T comparable](lists map[T]string) map[string]T {
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

// order finds what is said to the review itself. While the answer is still to be
// said (asked), fewer words are grades.
func (h heard) order(asked bool) (command, store.Grade) {
	if len(h.words) > maxPhrase {
		return none, 0
	}
	if h.tight == "" {
		return noise, 0
	}
	if !asked {
		if g, ok := grades[h.tight]; ok {
			return grade, g
		}
		if g, ok := digits[h.tight]; ok {
			return grade, g
		}
		if rest, ok := strings.CutPrefix(h.tight, "算"); ok {
			if g, ok := grades[strings.TrimSuffix(rest, "吧")]; ok {
				return grade, g
			}
		}
	}
	if c, ok := commands[h.tight]; ok {
		return c, 0
	}
	if g, ok := boldGrades[h.tight]; ok {
		return grade, g
	}
	for _, m := range [][]string{changeZh.FindStringSubmatch(h.tight), changeEn.FindStringSubmatch(h.words)} {
		if m == nil {
			continue
		}
		if g, ok := grades[strings.ReplaceAll(m[1], " ", "")]; ok {
			return change, g
		}
	}
	return none, 0
}

// verdict is what is said about a draft.
type verdict int

const (
	unsaid  verdict = iota
	keep            // it is right
	discard         // it is to go
	correct         // with another answer
	reword          // with another question
)

var (
	verdicts = phrases(map[verdict]string{
		keep:    "确认 确定 确认保存 保存 保存吧 存 存吧 存下来 好 好的 好啊 可以 行 对 对的 是 是的 没错 没问题 yes yep yeah ok okay save saveit keep keepit confirm sure right correct good fine yesplease thatsright soundsgood",
		discard: "取消 不要 不要了 不用 不用了 不存 不保存 别存 删除 删掉 删了 算了 不对不要了 no nope cancel delete deleteit discard discardit dontsave dontsaveit nevermind forgetit",
	})
	correctZh = regexp.MustCompile(`(?s)^(?:不对|不是|错了)?[，,。]?(?:请|帮我)?(?:把)?(?:答案)?(?:改成|改为|应该是|换成)[：:，, ]*(.+)$`)
	rewordZh  = regexp.MustCompile(`(?s)^(?:请|帮我)?(?:把)?(?:问题|题目)(?:改成|改为|应该是|换成)[：:，, ]*(.+)$`)
	correctEn = regexp.MustCompile(`(?is)^(?:no,? +)?(?:please +)?(?:change|make)(?: +it| +the answer| +that)?(?: +to)?[:, ]+(.+)$`)
	rewordEn  = regexp.MustCompile(`(?is)^(?:please +)?change +the +question +to[:, ]+(.+)$`)
)

// onDraft finds what is said about a draft.
func (h heard) onDraft() (verdict, string) {
	if v, ok := verdicts[h.tight]; ok {
		return v, ""
	}
	for _, p := range []struct {
		phrase *regexp.Regexp
		means  verdict
	}{{rewordZh, reword}, {rewordEn, reword}, {correctZh, correct}, {correctEn, correct}} {
		if m := p.phrase.FindStringSubmatch(h.text); m != nil && strings.TrimSpace(m[1]) != "" {
			return p.means, strings.TrimSpace(m[1])
		}
	}
	return unsaid, ""
}
