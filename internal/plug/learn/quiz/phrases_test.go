package quiz

import (
	"strings"
	"testing"

	"patchbay/internal/store"
)

func TestOpenings(t *testing.T) {
	for text, want := range map[string]opening{
		// Reviews.
		"复习": {topic: topicReviewAll}, "复习。": {topic: topicReviewAll}, "开始复习": {topic: topicReviewAll},
		"开始复习吧！": {topic: topicReviewAll}, "我要复习": {topic: topicReviewAll},
		"我想复习一下": {topic: topicReviewAll}, "请开始复习": {topic: topicReviewAll}, "考考我": {topic: topicReviewAll},
		"来，考考我吧": {topic: topicReviewAll}, "请考我": {topic: topicReviewAll},
		"麻烦你考考我，谢谢": {topic: topicReviewAll}, "开始复习了": {topic: topicReviewAll}, "我要复习了": {topic: topicReviewAll},
		"可以考考我吗？": {topic: topicReviewAll}, "能不能帮我复习一下呢": {topic: topicReviewAll},
		"复习今天的内容": {topic: topicReviewAll}, "继续复习": {topic: topicReviewAll}, "现在开始复习": {topic: topicReviewAll},
		"复 习": {topic: topicReviewAll}, "复习好吗": {topic: topicReviewAll},
		"quiz me": {topic: topicReviewAll}, "Quiz me!": {topic: topicReviewAll},
		"Please quiz me.": {topic: topicReviewAll}, "review": {topic: topicReviewAll},
		"Start review":            {topic: topicReviewAll},
		"start the review please": {topic: topicReviewAll}, "Let's review": {topic: topicReviewAll},
		"let’s review now": {topic: topicReviewAll}, "I want to review": {topic: topicReviewAll},
		"can you quiz me?":            {topic: topicReviewAll},
		"I'd like to review my cards": {topic: topicReviewAll}, "hey, test me": {topic: topicReviewAll},
		"start a review session": {topic: topicReviewAll},
		// Reviews of a deck, if it exists.
		"复习托福": {topicReviewDeck, "托福"}, "请复习托福单词": {topicReviewDeck, "托福单词"},
		"quiz me on Spanish verbs": {topicReviewDeck, "spanish verbs"},
		"Review biology, please":   {topicReviewDeck, "biology"},
		"考考我英语":                    {topicReviewDeck, "英语"},
		// Cram sessions, if the deck or tag exists.
		"突击复习动词": {topicCram, "动词"}, "帮我突击复习标签动词吧": {topicCram, "标签动词"}, "cram tag verbs": {topicCram, "tag verbs"},
		"Please cram Spanish verbs now": {topicCram, "spanish verbs"}, "let's cram my biology deck": {topicCram, "biology deck"},
		"突击检查": {topicCram, "检查"}, "practise what you preach": {topicCram, "what you preach"},
		// How many points are due.
		"今天学什么": {topic: topicDue}, "今天学什么？": {topic: topicDue}, "今天要复习什么": {topic: topicDue},
		"还有多少要复习": {topic: topicDue}, "还有多少要复习的？": {topic: topicDue},
		"今天还有几题要复习": {topic: topicDue}, "我还剩多少没复习": {topic: topicDue}, "有什么要复习的吗": {topic: topicDue},
		"今天要复习多少":    {topic: topicDue},
		"what's due": {topic: topicDue}, "What is due today?": {topic: topicDue},
		"how many cards are due": {topic: topicDue}, "What should I review today?": {topic: topicDue},
		"anything due?": {topic: topicDue}, "how many reviews are due today": {topic: topicDue},
		// Notes.
		"记一下：光速是每秒三十万公里": {topicNote, "光速是每秒三十万公里"}, "记住：水的沸点是100度": {topicNote, "水的沸点是100度"},
		"帮我记一下光速是每秒三十万公里。": {topicNote, "光速是每秒三十万公里"},
		"记一下，法国的首都是巴黎":     {topicNote, "法国的首都是巴黎"}, "请帮我记住法国的首都是巴黎": {topicNote, "法国的首都是巴黎"},
		"记一下光速是每秒三十万公里":   {topicNote, "光速是每秒三十万公里"},
		"记一下：法国的首都是哪里？巴黎": {topicNote, "法国的首都是哪里？巴黎"}, "记住:E=mc²": {topicNote, "E=mc²"},
		"remember this: the capital of France is Paris": {topicNote, "the capital of France is Paris"},
		"Note: mitochondria make ATP.":                  {topicNote, "mitochondria make ATP"},
		"Remember this, light travels at 300,000 km/s":  {topicNote, "light travels at 300,000 km/s"},
		"Please remember: call = llamar":                {topicNote, "call = llamar"},
		"make a note that the boiling point is 100":     {topicNote, "the boiling point is 100"},
		"Can you note this down: E=mc^2":                {topicNote, "E=mc^2"},
		"note: what is 2+2? 4":                          {topicNote, "what is 2+2? 4"},
		// Notes that follow in the next turn.
		"记一下": {topic: topicNoteNext}, "帮我记一下。": {topic: topicNoteNext}, "记一下这个": {topic: topicNoteNext},
		"拍照记一下": {topic: topicNoteNext}, "把这页记下来": {topic: topicNoteNext},
		"帮我记住这个": {topic: topicNoteNext}, "remember this": {topic: topicNoteNext},
		"Take a note of this.": {topic: topicNoteNext}, "make a note": {topic: topicNoteNext},
		"note this down please": {topic: topicNoteNext},
		// The calendar.
		"提醒我复习": {topic: topicRemind}, "明天提醒我复习": {topic: topicRemind}, "remind me to review": {topic: topicRemind},
		"please remind me to review tomorrow": {topic: topicRemind},

		// Turns for the bot.
		"": {}, "你好": {}, "我复习了": {topicReviewDeck, "了"}, "我不想复习": {}, "今天天气怎么样": {}, "what's the weather": {},
		"我学什么专业好": {}, "今天吃什么": {},
		"什么是间隔复习": {}, "怎么复习效果好": {}, "考试怎么准备": {}, "为什么要复习": {}, "写一篇书评": {},
		"复习功能在哪里打开":                 {topicReviewDeck, "功能在哪里打开"},
		"how do I quiz my students": {}, "what is a peer review": {}, "who wrote the review of this film": {},
		"reviewer": {}, "previewing": {},
		"记住了": {}, "记住了吗": {}, "记下来了": {}, "你还记得我的名字吗": {}, "记一下怎么说": {}, "记一下这个怎么用": {}, "记住我叫小明": {}, "帮我记住了吗": {},
		"remember when we met?": {}, "remember this song?": {}, "remember that time in Rome": {},
		"note that this is wrong": {}, "notes": {}, "do you remember: what is my name": {}, "noteworthy: nothing": {},
		"Remember this, do you?": {}, "what is due process": {}, "how many are there": {}, "how many days are left": {},
		"记一下，这个怎么说？": {}, "提醒我明天开会": {}, "remind me to call mom": {},
		"今天有什么新闻": {}, "现在有多少人": {}, "今天学校放假吗": {}, "停": {}, "答案": {}, "skip": {}, "确认": {},
		// These name no existing deck, so they go to the bot too.
		"复习一下二战历史怎么学":                           {topicReviewDeck, "二战历史怎么学"},
		"review this contract for me":           {topicReviewDeck, "this contract for me"},
		"帮我复习一下光合作用的过程":                         {topicReviewDeck, "光合作用的过程"},
		"Can you review my essay and fix typos": {topicReviewDeck, "essay and fix typos"},
	} {
		if got := parseOpening(text); got != want {
			t.Errorf("%q opens %+v, want %+v", text, got, want)
		}
	}
}

func TestOrders(t *testing.T) {
	type order struct {
		command
		store.Grade
	}
	for text, want := range map[string]order{
		"跳过": {commandSkip, 0}, "下一题。": {commandSkip, 0}, "Skip": {commandSkip, 0}, "next!": {commandSkip, 0},
		"答案": {commandShow, 0}, "显示答案": {commandShow, 0}, "show the answer": {commandShow, 0},
		"What's the answer?": {commandShow, 0},
		"停":                  {commandStop, 0}, "结束。": {commandStop, 0}, "不复习了": {commandStop, 0},
		"退出复习":  {commandStop, 0},
		"Stop.": {commandStop, 0}, "quit": {commandStop, 0}, "再来一遍": {commandRepeat, 0},
		"say that again": {commandRepeat, 0}, "repeat": {commandRepeat, 0}, "again": {commandRepeat, 0},
		"撤销": {commandUndo, 0}, "undo that": {commandUndo, 0}, "还剩几题？": {commandCount, 0},
		"how many left": {commandCount, 0}, "不知道": {commandForgot, 0}, "我忘了": {commandForgot, 0},
		"I don't know": {commandForgot, 0}, "no idea": {commandForgot, 0},
		"嗯": {commandNoise, 0}, "呃……": {commandNoise, 0}, "": {commandNoise, 0}, "…": {commandNoise, 0},
		"um":   {commandNoise, 0},
		"改成忘了": {commandChange, store.Again}, "改成简单": {commandChange, store.Easy},
		"把上一题改成困难": {commandChange, store.Hard}, "change to easy": {commandChange, store.Easy},
		"Change it to hard, please": {commandChange, store.Hard}, "mark that as good": {commandChange, store.Good},
		"算记得": {commandChange, store.Good},
		"记得":  {commandGrade, store.Good}, "太简单了": {commandGrade, store.Easy},
		"巴黎": {}, "hard": {}, "good": {}, "4": {}, "光速是每秒三十万公里": {}, "改成巴黎": {}, "change to Paris": {}, "停车": {},
		"next to the river": {}, "the answer is 42": {}, "答案是巴黎": {}, "嗯，是巴黎": {},
	} {
		c, g := parseUtterance(text).parseCommand(true)
		if (order{c, g}) != want {
			t.Errorf("%q is %v %v, want %v", text, c, g, want)
		}
	}
	for text, want := range map[string]order{
		"忘了": {commandGrade, store.Again}, "困难": {commandGrade, store.Hard}, "记得": {commandGrade, store.Good},
		"简单": {commandGrade, store.Easy}, "again": {commandGrade, store.Again}, "Hard.": {commandGrade, store.Hard},
		"good": {commandGrade, store.Good}, "easy": {commandGrade, store.Easy},
		"4": {commandGrade, store.Easy}, "算简单吧": {commandGrade, store.Easy}, "不知道": {commandForgot, 0},
		"改成简单": {commandChange, store.Easy}, "跳过": {commandSkip, 0}, "巴黎": {},
	} {
		c, g := parseUtterance(text).parseCommand(false)
		if (order{c, g}) != want {
			t.Errorf("after the answer, %q is %v %v, want %v", text, c, g, want)
		}
	}
}

func TestWordsOnDrafts(t *testing.T) {
	for text, want := range map[string]struct {
		verdict
		text string
	}{
		"确认": {verdictKeep, ""}, "好的。": {verdictKeep, ""}, "Save it": {verdictKeep, ""}, "yes": {verdictKeep, ""},
		"取消": {verdictDiscard, ""}, "不要了": {verdictDiscard, ""}, "No!": {verdictDiscard, ""},
		"never mind": {verdictDiscard, ""},
		"改成里昂":       {verdictCorrect, "里昂"}, "答案改成：里昂": {verdictCorrect, "里昂"}, "不对，应该是里昂": {verdictCorrect, "里昂"},
		"change it to Lyon": {verdictCorrect, "Lyon"}, "change to Lyon.": {verdictCorrect, "Lyon"},
		"问题改成法国第二大城市": {verdictReword, "法国第二大城市"}, "Change the question to: Where?": {verdictReword, "Where?"},
		"今天天气怎么样": {}, "what else can you do": {}, "嗯": {}, "改成": {},
	} {
		v, rest := parseUtterance(text).parseVerdict()
		if v != want.verdict || rest != want.text {
			t.Errorf("%q is %v %q, want %v", text, v, rest, want)
		}
	}
}

func FuzzOpen(f *testing.F) {
	for _, s := range []string{"复习", "记一下：x", "remember this: y", "quiz me on z", "\xff\xfe", strings.Repeat("开始", 200),
		"记一下 \x00"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		o := parseOpening(text)
		if (o.topic == topicNote || o.topic == topicReviewDeck || o.topic == topicCram) && strings.TrimSpace(o.rest) == "" {
			t.Fatalf("%q opens %+v", text, o)
		}
		h := parseUtterance(text)
		h.parseCommand(true)
		h.parseCommand(false)
		h.parseVerdict()
		if again := parseUtterance(h.words); again.tight != h.tight {
			t.Fatalf("%q is heard as %q and then as %q", text, h.tight, again.tight)
		}
	})
}
