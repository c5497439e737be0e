package learn

import (
	"context"
	"testing"

	"patchbay/internal/i18n"
	"patchbay/internal/store/storetest"
)

// Without a model, what a question is about decides which points are quoted, however it is asked.
func TestAskHoweverItIsPut(t *testing.T) {
	s := newService(t, storetest.SQLite(t), Profile{Bot: "none"}, Options{})
	for _, q := range []string{
		"长城有多长？", "光合作用的产物是什么？", "《红楼梦》的作者是谁？", "水的化学式？", "珠穆朗玛峰有多高？", "目的地在哪里？", "酒吧几点关门？",
		"How long is the Great Wall?", "Who wrote Faust?", "What is the boiling point of water?",
		"Where were the first Olympic games held?", "To be or not to be?", "What does DNA stand for?",
		"万里の長城の長さは？", "富士山の高さは何メートルですか？", "りんごは英語で何と言いますか？", "光合成とは何ですか？",
	} {
		noted(t, s, Draft{Question: q, Answer: "…"})
	}
	for _, c := range []struct{ asked, want string }{ // want is empty: nothing is about it
		{"长城到底有多长呢？", "长城有多长？"}, {"请问长城究竟有多长啊", "长城有多长？"}, {"你知道长城多长吗？", "长城有多长？"},
		{"長城究竟有多長呢？", "万里の長城の長さは？"}, {"请告诉我光合作用会产生什么产物", "光合作用的产物是什么？"}, {"光合作用的产物到底是什么呢", "光合作用的产物是什么？"},
		{"红楼梦究竟是谁写的？", "《红楼梦》的作者是谁？"}, {"谁是红楼梦的作者呀", "《红楼梦》的作者是谁？"}, {"水的化学式是什么来着？", "水的化学式？"},
		{"我想知道珠穆朗玛峰到底多高", "珠穆朗玛峰有多高？"}, {"目的地究竟在哪儿呢？", "目的地在哪里？"}, {"酒吧到底几点关门啊", "酒吧几点关门？"},
		{"长江到底有多长呢？", ""}, {"泰山有多高？", ""}, {"《西游记》的作者是谁？", ""}, {"到底是什么呢？", ""}, {"火锅店在哪里？", ""},
		{"Could you please tell me how long the Great Wall really is?", "How long is the Great Wall?"},
		{"the great wall: how long?", "How long is the Great Wall?"}, {"So who was it that wrote Faust, actually?", "Who wrote Faust?"},
		{"At what point does water boil?", "What is the boiling point of water?"},
		{"Do you know where the very first Olympic games were held?", "Where were the first Olympic games held?"},
		{"to be or not to be", "To be or not to be?"}, {"what on earth does dna stand for", "What does DNA stand for?"},
		{"How long is the Yangtze?", ""}, {"Who wrote Hamlet?", ""}, {"What is the capital of France?", ""},
		{"How is it that you are what you are?", ""},
		{"万里の長城は一体どのくらい長いのでしょうか", "万里の長城の長さは？"}, {"富士山はどれくらい高いですか？", "富士山の高さは何メートルですか？"},
		{"英語でりんごは何というの？", "りんごは英語で何と言いますか？"}, {"光合成って何？教えてください", "光合成とは何ですか？"},
		{"琵琶湖の深さはどのくらいですか？", ""}, {"これは何ですか？", ""}, {"東京タワーはどのくらい高いですか？", ""},
	} {
		r, err := s.Ask(context.Background(), "ada", c.asked, i18n.English)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for i := range r.Sources {
			got = append(got, r.Sources[i].Question)
		}
		if c.want == "" && len(got) > 0 || c.want != "" && (len(got) == 0 || got[0] != c.want) {
			t.Errorf("%s\n  quotes %q\n  want   %q\n  terms %+v", c.asked, got, c.want, words(parseQuery(c.asked)))
		}
	}
}

// words returns the words that a query is about.
func words(q *queryTerms) (out [][]string) {
	for _, w := range q.Content {
		out = append(out, w.terms)
	}
	return out
}

// Every query has terms if it has letters, and terms of an index find the text itself.
func FuzzParseQuery(f *testing.F) {
	for _, s := range []string{"长城到底有多长呢？", "how long is it", "これは何ですか？", "", "a", "的", "到底是什么", "ﷺ", "각하"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > 1000 {
			return
		}
		q, index := parseQuery(text), &wordIndex{}
		index.index(text, "")
		if (len(index.words) > 0) != (len(q.Content) > 0) {
			t.Fatalf("%q: %d words, terms %+v", text, len(index.words), q)
		}
		if got := q.relevance(index); len(q.Content) > 0 && got < 0.999 {
			t.Fatalf("%q is relevant to itself by %v: %+v", text, got, q)
		}
	})
}
