package quiz

import (
	"strings"
	"testing"

	"patchbay/internal/store"
)

func TestOpenings(t *testing.T) {
	for text, want := range map[string]opening{
		// A review.
		"复习": {topic: reviewAll}, "复习。": {topic: reviewAll}, "开始复习": {topic: reviewAll}, "开始复习吧！": {topic: reviewAll}, "我要复习": {topic: reviewAll},
		"我想复习一下": {topic: reviewAll}, "请开始复习": {topic: reviewAll}, "考考我": {topic: reviewAll}, "来，考考我吧": {topic: reviewAll}, "请考我": {topic: reviewAll},
		"麻烦你考考我，谢谢": {topic: reviewAll}, "开始复习了": {topic: reviewAll}, "我要复习了": {topic: reviewAll}, "可以考考我吗？": {topic: reviewAll}, "能不能帮我复习一下呢": {topic: reviewAll},
		"复习今天的内容": {topic: reviewAll}, "继续复习": {topic: reviewAll}, "现在开始复习": {topic: reviewAll}, "复 习": {topic: reviewAll}, "复习好吗": {topic: reviewAll},
		"quiz me": {topic: reviewAll}, "Quiz me!": {topic: reviewAll}, "Please quiz me.": {topic: reviewAll}, "review": {topic: reviewAll}, "Start review": {topic: reviewAll},
		"start the review please": {topic: reviewAll}, "Let's review": {topic: reviewAll}, "let’s review now": {topic: reviewAll}, "I want to review": {topic: reviewAll}, "can you quiz me?": {topic: reviewAll},
		"I'd like to review my cards": {topic: reviewAll}, "hey, test me": {topic: reviewAll}, "start a review session": {topic: reviewAll},
		// Of a deck, if there is one.
		"复习托福": {reviewDeck, "托福"}, "请复习托福单词": {reviewDeck, "托福单词"}, "quiz me on Spanish verbs": {reviewDeck, "spanish verbs"}, "Review biology, please": {reviewDeck, "biology"},
		"考考我英语": {reviewDeck, "英语"},
		// How much waits.
		"今天学什么": {topic: whatIsDue}, "今天学什么？": {topic: whatIsDue}, "今天要复习什么": {topic: whatIsDue}, "还有多少要复习": {topic: whatIsDue}, "还有多少要复习的？": {topic: whatIsDue},
		"今天还有几题要复习": {topic: whatIsDue}, "我还剩多少没复习": {topic: whatIsDue}, "有什么要复习的吗": {topic: whatIsDue}, "今天要复习多少": {topic: whatIsDue},
		"what's due": {topic: whatIsDue}, "What is due today?": {topic: whatIsDue}, "how many cards are due": {topic: whatIsDue}, "What should I review today?": {topic: whatIsDue},
		"anything due?": {topic: whatIsDue}, "how many reviews are due today": {topic: whatIsDue},
		// Notes.
		"记一下：光速是每秒三十万公里": {remember, "光速是每秒三十万公里"}, "记住：水的沸点是100度": {remember, "水的沸点是100度"}, "帮我记一下光速是每秒三十万公里。": {remember, "光速是每秒三十万公里"},
		"记一下，法国的首都是巴黎": {remember, "法国的首都是巴黎"}, "请帮我记住法国的首都是巴黎": {remember, "法国的首都是巴黎"}, "记一下光速是每秒三十万公里": {remember, "光速是每秒三十万公里"},
		"记一下：法国的首都是哪里？巴黎": {remember, "法国的首都是哪里？巴黎"}, "记住:E=mc²": {remember, "E=mc²"},
		"remember this: the capital of France is Paris": {remember, "the capital of France is Paris"}, "Note: mitochondria make ATP.": {remember, "mitochondria make ATP"},
		"Remember this, light travels at 300,000 km/s": {remember, "light travels at 300,000 km/s"}, "Please remember: call = llamar": {remember, "call = llamar"},
		"make a note that the boiling point is 100": {remember, "the boiling point is 100"}, "Can you note this down: E=mc^2": {remember, "E=mc^2"},
		"note: what is 2+2? 4": {remember, "what is 2+2? 4"},
		// Of what comes next.
		"记一下": {topic: rememberWhat}, "帮我记一下。": {topic: rememberWhat}, "记一下这个": {topic: rememberWhat}, "拍照记一下": {topic: rememberWhat}, "把这页记下来": {topic: rememberWhat},
		"帮我记住这个": {topic: rememberWhat}, "remember this": {topic: rememberWhat}, "Take a note of this.": {topic: rememberWhat}, "make a note": {topic: rememberWhat}, "note this down please": {topic: rememberWhat},
		// The calendar.
		"提醒我复习": {topic: remindMe}, "明天提醒我复习": {topic: remindMe}, "remind me to review": {topic: remindMe}, "please remind me to review tomorrow": {topic: remindMe},

		// What is the bot's.
		"": {}, "你好": {}, "我复习了": {reviewDeck, "了"}, "我不想复习": {}, "今天天气怎么样": {}, "what's the weather": {}, "我学什么专业好": {}, "今天吃什么": {},
		"什么是间隔复习": {}, "怎么复习效果好": {}, "考试怎么准备": {}, "为什么要复习": {}, "写一篇书评": {}, "复习功能在哪里打开": {reviewDeck, "功能在哪里打开"},
		"how do I quiz my students": {}, "what is a peer review": {}, "who wrote the review of this film": {}, "reviewer": {}, "previewing": {},
		"记住了": {}, "记住了吗": {}, "记下来了": {}, "你还记得我的名字吗": {}, "记一下怎么说": {}, "记一下这个怎么用": {}, "记住我叫小明": {}, "帮我记住了吗": {},
		"remember when we met?": {}, "remember this song?": {}, "remember that time in Rome": {}, "note that this is wrong": {}, "notes": {}, "do you remember: what is my name": {}, "noteworthy: nothing": {},
		"Remember this, do you?": {}, "what is due process": {}, "how many are there": {}, "how many days are left": {}, "记一下，这个怎么说？": {}, "提醒我明天开会": {}, "remind me to call mom": {},
		"今天有什么新闻": {}, "现在有多少人": {}, "今天学校放假吗": {}, "停": {}, "答案": {}, "skip": {}, "确认": {},
		// These name no deck of anybody's, and so are the bot's too.
		"复习一下二战历史怎么学":                           {reviewDeck, "二战历史怎么学"},
		"review this contract for me":           {reviewDeck, "this contract for me"},
		"帮我复习一下光合作用的过程":                         {reviewDeck, "光合作用的过程"},
		"Can you review my essay and fix typos": {reviewDeck, "essay and fix typos"},
	} {
		if got := open(text); got != want {
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
		"跳过": {skip, 0}, "下一题。": {skip, 0}, "Skip": {skip, 0}, "next!": {skip, 0}, "答案": {show, 0}, "显示答案": {show, 0}, "show the answer": {show, 0}, "What's the answer?": {show, 0},
		"停": {stop, 0}, "结束。": {stop, 0}, "不复习了": {stop, 0}, "退出复习": {stop, 0}, "Stop.": {stop, 0}, "quit": {stop, 0}, "再来一遍": {repeat, 0}, "say that again": {repeat, 0}, "repeat": {repeat, 0}, "again": {repeat, 0},
		"撤销": {undo, 0}, "undo that": {undo, 0}, "还剩几题？": {count, 0}, "how many left": {count, 0}, "不知道": {forgot, 0}, "我忘了": {forgot, 0}, "I don't know": {forgot, 0}, "no idea": {forgot, 0},
		"嗯": {noise, 0}, "呃……": {noise, 0}, "": {noise, 0}, "…": {noise, 0}, "um": {noise, 0},
		"改成忘了": {change, store.Again}, "改成简单": {change, store.Easy}, "把上一题改成困难": {change, store.Hard}, "change to easy": {change, store.Easy}, "Change it to hard, please": {change, store.Hard}, "mark that as good": {change, store.Good}, "算记得": {change, store.Good},
		"记得": {grade, store.Good}, "太简单了": {grade, store.Easy},
		"巴黎": {}, "hard": {}, "good": {}, "4": {}, "光速是每秒三十万公里": {}, "改成巴黎": {}, "change to Paris": {}, "停车": {}, "next to the river": {}, "the answer is 42": {}, "答案是巴黎": {}, "嗯，是巴黎": {},
	} {
		c, g := listen(text).order(true)
		if (order{c, g}) != want {
			t.Errorf("%q is %v %v, want %v", text, c, g, want)
		}
	}
	for text, want := range map[string]order{
		"忘了": {grade, store.Again}, "困难": {grade, store.Hard}, "记得": {grade, store.Good}, "简单": {grade, store.Easy}, "again": {grade, store.Again}, "Hard.": {grade, store.Hard}, "good": {grade, store.Good}, "easy": {grade, store.Easy},
		"4": {grade, store.Easy}, "算简单吧": {grade, store.Easy}, "不知道": {forgot, 0}, "改成简单": {change, store.Easy}, "跳过": {skip, 0}, "巴黎": {},
	} {
		c, g := listen(text).order(false)
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
		"确认": {keep, ""}, "好的。": {keep, ""}, "Save it": {keep, ""}, "yes": {keep, ""}, "取消": {discard, ""}, "不要了": {discard, ""}, "No!": {discard, ""}, "never mind": {discard, ""},
		"改成里昂": {correct, "里昂"}, "答案改成：里昂": {correct, "里昂"}, "不对，应该是里昂": {correct, "里昂"}, "change it to Lyon": {correct, "Lyon"}, "change to Lyon.": {correct, "Lyon"},
		"问题改成法国第二大城市": {reword, "法国第二大城市"}, "Change the question to: Where?": {reword, "Where?"},
		"今天天气怎么样": {}, "what else can you do": {}, "嗯": {}, "改成": {},
	} {
		v, rest := listen(text).onDraft()
		if v != want.verdict || rest != want.text {
			t.Errorf("%q is %v %q, want %v", text, v, rest, want)
		}
	}
}

func FuzzOpen(f *testing.F) {
	for _, s := range []string{"复习", "记一下：x", "remember this: y", "quiz me on z", "\xff\xfe", strings.Repeat("开始", 200), "记一下 \x00"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		o := open(text)
		if (o.topic == remember || o.topic == reviewDeck) && strings.TrimSpace(o.rest) == "" {
			t.Fatalf("%q opens %+v", text, o)
		}
		h := listen(text)
		h.order(true)
		h.order(false)
		h.onDraft()
		if again := listen(h.words); again.tight != h.tight {
			t.Fatalf("%q is heard as %q and then as %q", text, h.tight, again.tight)
		}
	})
}
