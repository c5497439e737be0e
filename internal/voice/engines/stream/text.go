package stream

import (
	"regexp"
	"strings"
	"unicode/utf8"

	"patchbay/internal/voice/engine"
)

// tag matches a tag of SenseVoice, such as <|zh|>.
var tag = regexp.MustCompile(`<\|([0-9A-Za-z_/-]{1,32})\|>`)

// Languages and emotions of SenseVoice (FunAudioLLM/SenseVoice, README). Its other tags are events,
// and whether numbers were written as such.
var (
	languages = map[string]bool{"zh": true, "en": true, "yue": true, "ja": true, "ko": true}
	emotions  = map[string]string{"HAPPY": "happy", "SAD": "sad", "ANGRY": "angry", "NEUTRAL": "neutral",
		"FEARFUL": "fearful", "DISGUSTED": "disgusted", "SURPRISED": "surprised"}
)

// cutTags removes SenseVoice's tags. Lang and emotion are those of the last tags, or empty.
func cutTags(text string) (rest, lang, emotion string) {
	for _, m := range tag.FindAllStringSubmatch(text, -1) {
		if languages[m[1]] {
			lang = m[1]
		}
		if e := emotions[m[1]]; e != "" {
			emotion = e
		}
	}
	return tag.ReplaceAllString(text, ""), lang, emotion
}

// joinWords removes the spaces between words of scripts that have none.
func joinWords(text string) string {
	var b strings.Builder
	var before rune
	for word := range strings.FieldsSeq(text) {
		first, _ := utf8.DecodeRuneInString(word)
		if b.Len() > 0 && !(engine.IsSolid(before) && engine.IsSolid(first)) {
			b.WriteByte(' ')
		}
		b.WriteString(word)
		before, _ = utf8.DecodeLastRuneInString(word)
	}
	return b.String()
}
