package words

import (
	"strings"
	"unicode"
)

// scripts are what languages are written in, besides Latin letters, which occur in all of them:
// names and abbreviations. Languages that are not here use Latin letters alone.
var scripts = map[string][]*unicode.RangeTable{
	"zh": {unicode.Han, unicode.Bopomofo}, "yue": {unicode.Han, unicode.Bopomofo},
	"ja": {unicode.Han, unicode.Hiragana, unicode.Katakana},
	"ko": {unicode.Hangul, unicode.Han},
	"ru": {unicode.Cyrillic}, "uk": {unicode.Cyrillic}, "be": {unicode.Cyrillic}, "bg": {unicode.Cyrillic},
	"sr": {unicode.Cyrillic}, "mk": {unicode.Cyrillic},
	"kk": {unicode.Cyrillic}, "mn": {unicode.Cyrillic, unicode.Mongolian},
	"el": {unicode.Greek}, "he": {unicode.Hebrew}, "ka": {unicode.Georgian}, "hy": {unicode.Armenian},
	"ar": {unicode.Arabic}, "fa": {unicode.Arabic}, "ur": {unicode.Arabic},
	"hi": {unicode.Devanagari}, "mr": {unicode.Devanagari}, "ne": {unicode.Devanagari}, "bn": {unicode.Bengali},
	"ta": {unicode.Tamil}, "te": {unicode.Telugu}, "kn": {unicode.Kannada}, "ml": {unicode.Malayalam},
	"gu": {unicode.Gujarati}, "pa": {unicode.Gurmukhi}, "si": {unicode.Sinhala},
	"th": {unicode.Thai}, "lo": {unicode.Lao}, "km": {unicode.Khmer}, "my": {unicode.Myanmar},
	"am": {unicode.Ethiopic}, "ti": {unicode.Ethiopic},
}

// IsForeign reports whether a text cannot be of a language (BCP 47): most of its letters are of a
// script in which it is not written. Nothing is foreign if the language is empty.
func IsForeign(text, language string) bool {
	if language == "" {
		return false
	}
	allowed := scriptsOf(language)
	foreign := 0
	for _, r := range text {
		if !unicode.IsLetter(r) {
			continue
		}
		if unicode.In(r, allowed...) || unicode.In(r, unicode.Latin, unicode.Common, unicode.Inherited) {
			foreign--
		} else {
			foreign++
		}
	}
	return foreign > 0
}

// HasOwnScript reports whether a language is written in other than Latin letters.
func HasOwnScript(language string) bool { return scriptsOf(language) != nil }

func scriptsOf(language string) []*unicode.RangeTable {
	base, _, _ := strings.Cut(strings.ToLower(language), "-")
	return scripts[base]
}
