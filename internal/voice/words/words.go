// Package words knows the short things that people say to a voice board, in Chinese and English:
// what sounds unfinished, what ends a conversation, what interrupts and what does not. A word of
// another language is missing here until somebody adds it; nothing depends on the lists being
// complete.
package words

import (
	"iter"
	"slices"
	"strings"
	"time"
	"unicode"
)

// Letters returns the letters and digits of a text, in lower case. Texts are compared by them,
// because speech recognition adds spaces, punctuation and capitals unpredictably.
func Letters(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) || unicode.IsDigit(r) {
			return unicode.ToLower(r)
		}
		return -1
	}, text)
}

// The lists are as Letters returns them.
var (
	// exits end a conversation.
	exits = []string{"退出", "再见", "拜拜", "结束对话", "goodbye", "bye", "byebye", "thatsall"}
	// stops interrupt an answer at once.
	stops = []string{"停", "停一下", "停下", "停止", "别说了", "不要说了", "闭嘴", "安静", "打住", "等等", "等一下", "stop",
		"wait", "stopit", "shutup", "bequiet", "holdon", "enough", "cancel"}
	// musicStops end music, besides stops.
	musicStops = []string{"停止播放", "停止音乐", "停止播放音乐", "停止放音乐", "关掉音乐", "关闭音乐", "把音乐关掉", "别放了",
		"不要放了", "stopthemusic", "stopmusic", "stopplaying", "stopplayingmusic", "musicoff", "turnoffthemusic",
		"turnthemusicoff", "音楽を止めて", "音楽をとめて"}
	// backchannels show that somebody listens. They interrupt nobody.
	backchannels = []string{"嗯", "嗯嗯", "对", "对对", "对对对", "是", "是的", "是啊", "好", "好的", "哦", "噢",
		"啊", "行", "没错", "ok", "okay", "yeah", "yes", "yep", "uhhuh", "mhm", "hmm", "mm", "right", "isee",
		"sure"}
	// commands are complete as they are, though nothing in them says so.
	commands = []string{"不", "不要", "不是", "不用", "可以", "继续", "下一个", "下一首", "上一首", "暂停", "播放",
		"打开", "关闭", "大声点", "小声点", "再说一遍", "几点了", "谢谢", "no", "nope", "yup", "goon", "next",
		"previous", "pause", "play", "louder", "quieter", "again", "repeat", "thanks", "thankyou"}
	// allows and refusals decide about a call of a tool that waits for an approval. They are whole
	// sentences, because a plain “yes” may be meant for the bot.
	allows = []string{"allow", "allowit", "yesallowit", "pleaseallowit", "allowthat", "approve", "approveit", "允许",
		"同意",
		"批准", "我允许", "我同意", "可以允许", "允许吧", "许可", "許可", "許可する", "許可します", "許可して"}
	refusals = []string{"refuse", "refuseit", "deny", "denyit", "dontallowit", "donotallowit", "dontallow", "不允许",
		"不同意",
		"拒绝", "不批准", "我不同意", "我拒绝", "許可しない", "許可しません", "拒否", "拒否する", "拒否します"}
	// noises are what recognisers write when nobody said anything: whisper models write what ends
	// films (openai/whisper discussion 928).
	noises = []string{"thankyou", "thanksforwatching", "you", "bye", "谢谢观看", "谢谢大家", "感谢观看",
		"字幕由amaraorg社区提供", "字幕志愿者", "请不吝点赞订阅转发打赏支持明镜与点点栏目",
		"subtitlesbytheamaraorgcommunity"}
)

// IsExit reports whether a text says no more than that the conversation is over.
func IsExit(text string) bool { return slices.Contains(exits, Letters(text)) }

// IsStop reports whether a text says no more than to stop.
func IsStop(text string) bool { return slices.Contains(stops, Letters(text)) }

// IsAllow reports whether a text says no more than that a call may be carried out.
func IsAllow(text string) bool { return slices.Contains(allows, Letters(text)) }

// IsRefuse reports whether a text says no more than that a call may not be carried out.
func IsRefuse(text string) bool { return slices.Contains(refusals, Letters(text)) }

// EndsMusic reports whether a text says no more than to stop the music that plays.
func EndsMusic(text string) bool { return IsStop(text) || slices.Contains(musicStops, Letters(text)) }

// IsBackchannel reports whether a text says no more than that somebody listens.
func IsBackchannel(text string) bool { return slices.Contains(backchannels, Letters(text)) }

// IsNoise reports whether a text is one that recognisers write for noise.
func IsNoise(text string) bool { return slices.Contains(noises, Letters(text)) }

// Is reports whether a text is one of a list, apart from punctuation, spaces and case.
func Is(text string, list []string) bool {
	text = Letters(text)
	return text != "" && slices.ContainsFunc(list, func(s string) bool { return Letters(s) == text })
}

// Count returns the number of words of a text. Each Chinese or Japanese character is one.
func Count(text string) (n int) {
	for range each(text) {
		n++
	}
	return n
}

// CountNew returns the number of words of a text that are not in another one.
func CountNew(text, known string) (n int) {
	has := map[string]bool{}
	for word := range each(strings.ToLower(known)) {
		has[word] = true
	}
	for word := range each(strings.ToLower(text)) {
		if !has[word] {
			n++
		}
	}
	return n
}

// each yields the words of a text.
func each(text string) iter.Seq[string] {
	return func(yield func(string) bool) {
		first := -1 // of the word, in bytes
		for i, r := range text {
			part := unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.IsMark(r) || r == '\'' || r == '’'
			switch {
			case first < 0 || part && !isIdeogram(r):
			case !yield(text[first:i]):
				return
			default:
				first = -1
			}
			switch {
			case isIdeogram(r):
				if !yield(string(r)) {
					return
				}
			case part && first < 0 && r != '\'' && r != '’' && !unicode.IsMark(r):
				first = i
			}
		}
		if first >= 0 {
			yield(text[first:])
		}
	}
}

func isIdeogram(r rune) bool {
	return unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana)
}

// The pauses after which somebody has finished, see [Pause].
const (
	ShortPause  = 300 * time.Millisecond
	MiddlePause = 600 * time.Millisecond
	LongPause   = 1200 * time.Millisecond
)

// open are the words after which somebody goes on. Those of Chinese end the text; the others are
// its last word.
var (
	openIdeograms = []string{"嗯", "呃", "那个", "这个", "就是", "就是说", "然后", "因为", "所以", "但是", "而且",
		"如果", "还有", "比如", "和", "跟", "的", "把", "给", "在", "从", "到", "对", "我想", "帮我", "请问"}
	openWords = []string{"um", "uh", "er", "erm", "hmm", "like", "and", "but", "or", "so", "because", "if", "then",
		"the", "a", "an", "my", "your", "to", "of", "for", "with", "in", "on", "at", "from", "about", "than", "is",
		"are", "please"}
)

// IsQuestion reports whether a text ends with a question.
func IsQuestion(text string) bool {
	text = strings.TrimSpace(text)
	return strings.HasSuffix(text, "?") || strings.HasSuffix(text, "？")
}

// Pause returns how long a pause has to be until somebody who has said the text so far has
// finished: short after the end of a sentence or a known short text, long after a word or a number
// that goes on.
func Pause(text string) time.Duration {
	text = strings.TrimSpace(text)
	switch {
	case text == "":
		return MiddlePause
	case IsExit(text) || EndsMusic(text) || IsBackchannel(text) || slices.Contains(commands, Letters(text)):
		return ShortPause
	case isOpen(text):
		return LongPause
	case strings.ContainsRune("。？！.?!", lastRune(text)) && !strings.HasSuffix(text, "..."):
		return ShortPause
	}
	return MiddlePause
}

// isOpen reports whether a text ends in a word or number that goes on, or in an ellipsis. A full
// stop after such a word is the recogniser's guess; a question mark is heard in the voice.
func isOpen(text string) bool {
	if strings.HasSuffix(text, "...") || strings.HasSuffix(text, "…") {
		return true
	}
	if strings.ContainsRune("？?！!", lastRune(text)) {
		return false
	}
	text = strings.ToLower(strings.TrimRight(text, " 。.，,、：:"))
	if text == "" {
		return false
	}
	if r := lastRune(text); unicode.IsDigit(r) || strings.ContainsRune("零一二三四五六七八九十百千万点幺", r) {
		return true
	}
	if slices.ContainsFunc(openIdeograms, func(w string) bool { return strings.HasSuffix(text, w) }) {
		return true
	}
	last := text[strings.LastIndexFunc(text, func(r rune) bool { return !unicode.IsLetter(r) && r != '\'' })+1:]
	return slices.Contains(openWords, last)
}

func lastRune(text string) rune {
	r := []rune(text)
	return r[len(r)-1]
}
