package account

import (
	_ "embed"
	"strings"
	"unicode"

	"patchbay/internal/i18n"
)

// ErrPasswordCommon means that a password is among those that attackers try first.
var ErrPasswordCommon = i18n.Message("the password is too common, and guessed first; choose another").Errorf()

// commonWords are the words that common passwords consist of, in lower case. Words of fewer than
// eight characters become passwords with characters put before and after.
//
//go:embed common.txt
var commonWords string

var common = func() map[string]bool {
	m := map[string]bool{}
	for _, w := range strings.Fields(commonWords) {
		m[w] = true
	}
	return m
}()

// leet replaces digits and signs that people write for letters.
var leet = strings.NewReplacer("0", "o", "1", "i", "3", "e", "4", "a", "5", "s", "7", "t", "@", "a", "$", "s", "!", "i")

// isCommon reports whether a password is a common word with up to four digits and signs around it,
// a repetition of a few characters, or a sequence of keys or of the alphabet.
func isCommon(password string) bool {
	lower := strings.ToLower(password)
	noLetter := func(r rune) bool { return !unicode.IsLetter(r) }
	core := strings.TrimFunc(lower, noLetter)
	for _, text := range []string{lower, leet.Replace(lower), core,
		strings.TrimFunc(leet.Replace(strings.TrimRight(lower, "0123456789!.?*#")), noLetter)} {
		if common[text] && len(lower)-len(text) <= 4 {
			return true
		}
	}
	return isRepetition(lower) || isSequence(lower)
}

// isRepetition reports whether a text repeats up to four characters.
func isRepetition(text string) bool {
	for n := 1; n <= 4 && n < len(text); n++ {
		if strings.HasPrefix(text, text[n:]) {
			return true
		}
	}
	return false
}

// isSequence reports whether a text is part of a keyboard row or of the alphabet, in either
// direction.
func isSequence(text string) bool {
	for _, row := range []string{
		"01234567890123456789", "abcdefghijklmnopqrstuvwxyz", "qwertyuiop[]", "asdfghjkl;'", "zxcvbnm,./", "qwertzuiop",
		"azertyuiop",
		"qwertyuiopasdfghjklzxcvbnm", "1234567890qwertyuiop", "1q2w3e4r5t6y7u8i9o0p", "1qaz2wsx3edc4rfv5tgb6yhn",
		"qazwsxedcrfvtgbyhnujm", "q1w2e3r4t5y6u7i8o9p0", "!@#$%^&*()",
	} {
		backwards := []byte(row)
		for i, j := 0, len(backwards)-1; i < j; i, j = i+1, j-1 {
			backwards[i], backwards[j] = backwards[j], backwards[i]
		}
		if strings.Contains(row, text) || strings.Contains(string(backwards), text) {
			return true
		}
	}
	return false
}
