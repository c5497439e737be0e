package i18n

import (
	"iter"
	"regexp"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"
)

// What people say is a [Message] too: a phrase that a text tells them to say, or a suggestion that
// they tap. Each of its translations is recognized, whatever language somebody has chosen, so that
// a new language needs no code. Speech recognition adds capitals, spaces and punctuation
// unpredictably: letters and numbers alone count.

// Said reports whether a text is the message in any language.
func (m Message) Said(text string) bool {
	for p := range m.patterns() {
		if rest, ok := p.before.cutPrefix(text); ok && !p.hasParameter && firstLetter(rest) == 0 {
			return true
		}
	}
	return false
}

// SaidWith returns what a text has in the place of the only placeholder of the message, in the
// first language in which the text is the message. The placeholder begins or ends at the end of a
// word where it does so in the translation, and at a punctuation mark where the translation has a
// colon.
func (m Message) SaidWith(text string) (parameter string, ok bool) {
	for p := range m.patterns() {
		if !p.hasParameter {
			continue
		}
		rest, ok := p.before.cutPrefix(text)
		if !ok || !p.before.mayEnd(leading(rest)) {
			continue
		}
		rest, ok = p.after.cutSuffix(rest)
		if !ok || !p.after.mayEnd(trailing(rest)) {
			continue
		}
		rest = strings.TrimRightFunc(strings.TrimLeftFunc(rest, isPause), isPause)
		if rest != "" {
			return rest, true
		}
	}
	return "", false
}

// InAll returns the message in all languages that have a translation of it.
func (m Message) InAll() []string {
	var list []string
	for _, l := range Languages() {
		if text, ok := Lookup(l, m); ok {
			list = append(list, text)
		}
	}
	return list
}

// pattern is a translation, as what people say.
type pattern struct {
	before, after part // of the placeholder
	hasParameter  bool
}

// part is what stands before or after a placeholder.
type part struct {
	letters []rune // and numbers, in lower case
	end     ending // at the placeholder
}

// ending is what separates a part from the placeholder.
type ending int

const (
	endsAnywhere ending = iota
	endsWord            // a space or a punctuation mark
	endsClause          // a punctuation mark
)

var (
	patternsMu sync.Mutex
	patterns   = map[Message][]pattern{} // constants of the program alone get into it

	placeholder = regexp.MustCompile(`%(?:\[1\])?[sdqv]`)
)

// patterns returns the patterns of the translations.
func (m Message) patterns() iter.Seq[pattern] {
	patternsMu.Lock()
	defer patternsMu.Unlock()
	list, ok := patterns[m]
	if !ok {
		for _, text := range m.InAll() {
			list = append(list, parsePattern(text))
		}
		patterns[m] = list
	}
	return func(yield func(pattern) bool) {
		for _, p := range list {
			if !yield(p) {
				return
			}
		}
	}
}

// parsePattern parses a translation.
func parsePattern(text string) pattern {
	at := placeholder.FindStringIndex(text)
	if at == nil {
		return pattern{before: part{letters: lettersOf(text)}}
	}
	before, after := text[:at[0]], text[at[1]:]
	p := pattern{part{lettersOf(before), endsAnywhere}, part{lettersOf(after), endsAnywhere}, true}
	if n := len(p.before.letters); n > 0 {
		p.before.end = endingOf(trailing(before), p.before.letters[n-1])
	}
	if len(p.after.letters) > 0 {
		p.after.end = endingOf(leading(after), p.after.letters[0])
	}
	return p
}

// endingOf returns what separates a part from the placeholder, given the characters between them
// and the letter beside those. Languages that put no spaces between words need none.
func endingOf(between string, beside rune) ending {
	switch {
	case strings.ContainsAny(between, ":："):
		return endsClause
	case between != "" && !unicode.In(beside, unicode.Han, unicode.Hiragana, unicode.Katakana):
		return endsWord
	}
	return endsAnywhere
}

// mayEnd reports whether a part may end at these characters.
func (p part) mayEnd(between string) bool {
	switch p.end {
	case endsClause:
		return strings.IndexFunc(between, func(r rune) bool { return !unicode.IsSpace(r) }) >= 0
	case endsWord:
		return between != ""
	}
	return true
}

// cutPrefix removes the letters of the part, and what is between them, from the beginning of a
// text.
func (p part) cutPrefix(text string) (rest string, ok bool) {
	for _, want := range p.letters {
		found := false
		for text != "" && !found {
			r, size := utf8.DecodeRuneInString(text)
			text = text[size:]
			if r = letter(r); r != 0 && r != want {
				return "", false
			}
			found = r == want
		}
		if !found {
			return "", false
		}
	}
	return text, true
}

// cutSuffix does the same at the end of a text.
func (p part) cutSuffix(text string) (rest string, ok bool) {
	for i := len(p.letters) - 1; i >= 0; i-- {
		found := false
		for text != "" && !found {
			r, size := utf8.DecodeLastRuneInString(text)
			text = text[:len(text)-size]
			if r = letter(r); r != 0 && r != p.letters[i] {
				return "", false
			}
			found = r == p.letters[i]
		}
		if !found {
			return "", false
		}
	}
	return text, true
}

// letter returns a letter, number or mark as it is compared, and 0 for all else.
func letter(r rune) rune {
	if r >= '！' && r <= '～' {
		r -= '！' - '!' // full width to ASCII
	}
	if !unicode.IsLetter(r) && !unicode.IsNumber(r) && !unicode.IsMark(r) {
		return 0
	}
	return unicode.ToLower(r)
}

func lettersOf(text string) []rune {
	var list []rune
	for _, r := range text {
		if r = letter(r); r != 0 {
			list = append(list, r)
		}
	}
	return list
}

// firstLetter returns the first letter of a text, or 0.
func firstLetter(text string) rune {
	for _, r := range text {
		if r = letter(r); r != 0 {
			return r
		}
	}
	return 0
}

// leading returns the characters before the first letter of a text.
func leading(text string) string {
	if i := strings.IndexFunc(text, func(r rune) bool { return letter(r) != 0 }); i >= 0 {
		return text[:i]
	}
	return text
}

// trailing returns the characters after the last letter of a text.
func trailing(text string) string {
	if i := strings.LastIndexFunc(text, func(r rune) bool { return letter(r) != 0 }); i >= 0 {
		_, size := utf8.DecodeRuneInString(text[i:])
		return text[i+size:]
	}
	return text
}

// isPause reports whether a character is what speech recognition writes for a pause.
func isPause(r rune) bool {
	return unicode.IsSpace(r) || strings.ContainsRune("。.、，,；;：:！!～~…–—", r)
}
