package spoken

import (
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxDirection limits a stage direction, in characters between its brackets. Longer remarks are for
// the listener.
const maxDirection = 20

// direction matches a remark in brackets that begins with what an actor does or how, such as
// “(laughs)”, “(sighs softly)” and “（笑）”. What else begins so, such as “（笑话）”, is none.
var direction = regexp.MustCompile(`\s*[（(]\s*(?:` +
	`(?i:laugh|chuckl|giggl|smil|grin|sigh|wink|nod|shrug|cough|gasp|yawn|whisper|sniff|sob|snort|blush|` +
	`clear(?:s|ing)? (?:my|his|her|its|the)? ?throat)(?i:s|e|es|ed|ing|ning|ling|ding|bing|ping|ter)?[\s.,!…)）]|applause|` +
	`(?:微|大|轻|偷|苦|傻|坏|憨|爆|照れ)?笑(?:[了着笑出い]|嘻嘻|眯眯|\s*[）)])|` +
	`叹气|叹了|叹息|点头|点点头|摇头|摇摇头|眨眼|眨眨眼|歪头|歪着头|咳嗽|清嗓子|清了清嗓|停顿|鼓掌|拍手|挠头|耸肩|打哈欠|小声|轻声|低声|悄声|` +
	`ため息|うなずく|微笑む)`)

// withoutDirections removes stage directions from pieces, and the pieces that were nothing else.
func withoutDirections(pieces []string) []string {
	kept := pieces[:0]
	for _, p := range pieces {
		if q := withoutDirection(p); q == p || strings.ContainsFunc(q, isSpoken) {
			kept = append(kept, q)
		}
	}
	return kept
}

func isSpoken(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }

func isASCIIWord(c byte) bool {
	return c < utf8.RuneSelf && (unicode.IsLetter(rune(c)) || unicode.IsDigit(rune(c)))
}

// withoutDirection removes the stage directions of a piece.
func withoutDirection(piece string) string {
	if !strings.ContainsAny(piece, "(（") {
		return piece
	}
	var b strings.Builder
	rest := piece
	for {
		at := direction.FindStringIndex(rest)
		if at == nil {
			break
		}
		inside := at[0] + strings.IndexAny(rest[at[0]:], "(（")
		_, size := utf8.DecodeRuneInString(rest[inside:])
		n := strings.IndexAny(rest[inside+size:], ")）")
		called := inside > 0 && at[0] == inside && isASCIIWord(rest[inside-1]) // f(x)
		if n < 0 || called || utf8.RuneCountInString(rest[inside+size:][:n]) > maxDirection {
			b.WriteString(rest[:at[1]])
			rest = rest[at[1]:]
			continue
		}
		b.WriteString(rest[:at[0]])
		rest = rest[inside+size+n:]
		_, size = utf8.DecodeRuneInString(rest)
		rest = rest[size:]
	}
	return strings.TrimSpace(b.String() + rest)
}
