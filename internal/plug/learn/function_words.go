package learn

import (
	"bytes"
	"slices"
	"strings"
	"unicode"
)

// A question has words that say what it is about, and words that every question has: “how long is”,
// “到底……呢”, “ですか”. Only the former decide what a question finds. The lists have the second kind.
// They need not be complete: what is missing counts as a word like any other.

// englishFunctionWords have no meaning of their own in a question.
var englishFunctionWords = spacedSet(`a about actually all also am an and any are as at be been being but by can
	could did do does doing done else ever exactly for from get give had has have he her him his how i if in into
	is it its just kind know let like many may me might much must my not of often on once or our please really s
	say shall she should so some sort such tell than that the their them then there these they this those to too
	us was we were what when where whether which who whom whose why will with would you your`)

// englishMeasures belong to the question after “how”.
var englishMeasures = spacedSet(`big deep far fast hard heavy high hot large late little long many much often old
	short small strong tall thick wide`)

// denseFunctionWords are those of Chinese and Japanese.
var denseFunctionWords = denseSet(`
	到底 究竟 其实 真的 请 请问 请你 请告诉我 告诉我 跟我说说 你知道 你知道吗 我想知道 我想问 想问一下 问一下 帮我查一下 说说 讲讲
	是什么 什么是 是什么意思 什么意思 的意思 为什么 为何 怎么 怎么样 怎样 如何 什么 什么样 什么时候 何时 哪里 哪儿 在哪 在哪里 在哪儿
	位于哪里 哪些 哪个 哪一个 哪年 哪一年 哪种 哪位 谁 是谁 有谁 多少 有多少 几个 有几个 有哪些 有什么 有没有 是不是 能不能 可不可以 叫什么 叫做什么
	有多长 多长 有多高 多高 有多大 多大 有多远 多远 有多久 多久 有多重 有多深 多深 有多宽 多宽 有多快 多快 有多厚
	什麼 什麼是 是什麼 為什麼 怎麼 怎麼樣 怎樣 什麼時候 哪裡 在哪裡 誰 是誰 有多長 多長 多遠 有多遠 嗎 請問 請
	关于 这个 那个 一下 的 了 是 呢 吗 吧 啊 呀 嘛 啦 么 哦 哈 呗 咧
	は が を に の と で も へ や か よ ね わ です ですか でした でしたか でしょう でしょうか だ だった ます ますか ました ましたか ください
	下さい 教えて 教えてください 知りたい 一体 いったい 本当 本当に 結局 実は そもそも 何 何ですか なに なん 何年 誰 だれ どこ いつ なぜ どうして
	どう どの どのくらい どのぐらい どれくらい どれぐらい どれほど どんな どちら どれ いくつ いくら とは って という といえば について
	に関して ある あります ありますか いる います いますか する します しますか した しました して している なる なります こと もの から まで
	これ それ あれ この その あの`)

// denseWords are words in which a function word is none.
var denseWords = denseSet(`目的 的士 的确 是非 了解 为了 了不起 请求 申请 邀请 请假 吧台 酒吧 网吧 几何 意思`)

// maxDenseWord is the length of the longest of these words in characters.
const maxDenseWord = 8

// longVowel is the mark of a long vowel in katakana, a run of its own.
const longVowel = "ー"

func spacedSet(words string) map[string]bool {
	out := map[string]bool{}
	for word := range strings.FieldsSeq(words) {
		out[word] = true
	}
	return out
}

// denseSet returns words in the form that [splitRuns] gives them.
func denseSet(words string) map[string]bool {
	out := map[string]bool{}
	for word := range strings.FieldsSeq(words) {
		splitRuns(word, func(run []rune, _ bool) { out[string(run)] = true })
	}
	return out
}

// queryTerms are the search terms of a query.
type queryTerms struct {
	// Content are the words that say what the query is about; if there are none, all its words.
	Content []queryWord
	// Rest has the other terms: function words, and what lies between words.
	Rest []string
	// Vague is true if the query has no words that say what it is about.
	Vague bool

	terms map[string]bool // of Content and Rest
	heads []string        // the same without their *, of those that have it
}

// queryWord is a word of a query. It weighs as much as it has characters, so that a name counts
// more than what is asked about it.
type queryWord struct {
	terms  []string
	weight int
}

// content returns the terms of all words of the content.
func (q *queryTerms) content() []string {
	var out []string
	for _, word := range q.Content {
		for _, term := range word.terms {
			if !slices.Contains(out, term) {
				out = append(out, term)
			}
		}
	}
	return out
}

// has reports whether a word is one of the terms, or begins with one.
func (q *queryTerms) has(word []byte) bool {
	return q.terms[string(word)] ||
		slices.ContainsFunc(q.heads, func(head string) bool { return bytes.HasPrefix(word, []byte(head)) })
}

// relevance returns how much of what a query is about is among the words of a point, from 0 to 1.
func (q *queryTerms) relevance(has *wordIndex) float64 {
	share, sum := 0.0, 0
	for _, word := range q.Content {
		share += float64(word.weight) * has.share(word.terms)
		sum += word.weight
	}
	return share / float64(max(sum, 1))
}

// similarity returns the relevance, with a tenth for the words that do not decide it.
func (q *queryTerms) similarity(has *wordIndex) float64 {
	if len(q.Rest) == 0 {
		return q.relevance(has)
	}
	return 0.9*q.relevance(has) + 0.1*has.share(q.Rest)
}

// parseQuery returns the terms of a query. The last one ends in * if it may be the prefix of a word
// still being typed.
func parseQuery(query string) *queryTerms {
	q := &queryTerms{}
	var words []queryWord
	var rest []string
	how, last, inRest := false, "", false
	splitRuns(query, func(run []rune, dense bool) {
		last = ""
		if dense {
			more, between := denseTerms(run)
			words, rest = append(words, more...), append(rest, between...)
			how = false
			return
		}
		word := string(run)
		term := encodeWord([]rune(stem(word)))
		inRest = englishFunctionWords[word] || how && englishMeasures[word] || word == longVowel
		if inRest {
			rest = append(rest, term)
		} else {
			words = append(words, queryWord{[]string{term}, len(run)})
		}
		how = word == "how"
		if len(run) >= 3 {
			last = encodeWord(run) + "*"
		}
	})
	switch {
	case last == "":
	case inRest:
		rest[len(rest)-1] = last
	default:
		words[len(words)-1].terms = []string{last}
	}
	if q.Vague = len(words) == 0; q.Vague {
		for _, term := range rest {
			words = append(words, queryWord{[]string{term}, 1})
		}
		rest = nil
	}
	q.Content = words
	slices.Sort(rest)
	q.Rest = slices.Compact(rest)
	q.terms = map[string]bool{}
	for _, term := range slices.Concat(q.content(), q.Rest) {
		if head, star := strings.CutSuffix(term, "*"); star {
			q.heads = append(q.heads, head)
		}
		q.terms[term] = true
	}
	return q
}

// denseTerms returns the terms of the words in a run of a script without spaces, and the pairs of
// characters that belong to function words or lie between words.
func denseTerms(run []rune) (words []queryWord, rest []string) {
	function := markFunction(run)
	if len(run) == 1 && function[0] {
		return nil, []string{hexWord(run) + "*"}
	}
	for i := 0; i < len(run); {
		end := i + 1
		for end < len(run) && function[end] == function[i] {
			end++
		}
		switch {
		case function[i]:
			rest = append(rest, pairs(run[max(i-1, 0):min(end+1, len(run))])...)
		case end-i == 1:
			words = append(words, queryWord{[]string{hexWord(run[i:end]) + "*"}, 1})
		default:
			words = append(words, queryWord{pairs(run[i:end]), end - i})
		}
		i = end
	}
	return words, rest
}

func pairs(run []rune) (out []string) {
	for i := range len(run) - 1 {
		out = append(out, hexWord(run[i:i+2]))
	}
	return out
}

// markFunction marks the characters of a run that belong to function words.
func markFunction(run []rune) []bool {
	out := make([]bool, len(run))
	for i := 0; i < len(run); {
		n, function := longestDense(run[i:])
		for j := range n {
			out[i+j] = function
		}
		i += max(n, 1)
	}
	// A single hiragana between words is the rest of an inflection: 長さ, 高い.
	for i, r := range run {
		alone := (i == 0 || out[i-1] || !unicode.Is(unicode.Hiragana, run[i-1])) &&
			(i == len(run)-1 || out[i+1] || !unicode.Is(unicode.Hiragana, run[i+1]))
		if alone && unicode.Is(unicode.Hiragana, r) {
			out[i] = true
		}
	}
	return out
}

// longestDense returns the length of the longest known word at the start of a run, 0 if there is
// none, and whether it is a function word.
func longestDense(run []rune) (n int, function bool) {
	for n := min(len(run), maxDenseWord); n > 0; n-- {
		switch word := string(run[:n]); {
		case denseWords[word]:
			return n, false
		case denseFunctionWords[word]:
			return n, true
		}
	}
	return 0, false
}

// wordIndex finds words by themselves and by their beginnings. The zero value has none.
type wordIndex struct {
	of    *queryTerms // the only words to keep; nil: all
	has   map[string]bool
	words []string
	word  []byte // memory for the next one
}

// share returns the share of the terms that is among the words.
func (x *wordIndex) share(terms []string) float64 {
	if len(terms) == 0 {
		return 0
	}
	n := 0
	for _, term := range terms {
		head, star := strings.CutSuffix(term, "*")
		found := x.has[head]
		if star && !found {
			found = slices.ContainsFunc(x.words, func(word string) bool { return strings.HasPrefix(word, head) })
		}
		if found {
			n++
		}
	}
	return float64(n) / float64(len(terms))
}
