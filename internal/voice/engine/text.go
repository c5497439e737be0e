package engine

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// JoinTexts joins two texts, with a space unless a script without spaces is beside it.
func JoinTexts(a, b string) string {
	a, b = strings.TrimRightFunc(a, unicode.IsSpace), strings.TrimLeftFunc(b, unicode.IsSpace)
	return a + Gap(a, b) + b
}

// Gap returns what belongs between two texts that have no spaces at the ends: a space or nothing.
func Gap(a, b string) string {
	before, _ := utf8.DecodeLastRuneInString(a)
	after, _ := utf8.DecodeRuneInString(b)
	if a == "" || b == "" || IsSolid(before) || IsSolid(after) {
		return ""
	}
	return " "
}

// IsSolid reports whether a character is of a script without spaces: Chinese and Japanese, with
// their punctuation.
func IsSolid(r rune) bool {
	return unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana) || r >= 0x3000 && r <= 0x303f || r == 'ー' ||
		r >= 0xff01 && r <= 0xff65
}

// letters counts the letters and digits of a text, which is how clips and sentences are compared:
// engines change spaces and punctuation.
func letters(text string) (n int) {
	for _, r := range text {
		if isLetter(r) {
			n++
		}
	}
	return n
}

// withoutLetters returns what follows the first n letters of a text.
func withoutLetters(text string, n int) string {
	for i, r := range text {
		if n <= 0 && isLetter(r) {
			return text[i:]
		}
		if isLetter(r) {
			n--
		}
	}
	return ""
}

func isLetter(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }
