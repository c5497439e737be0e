package plain

import (
	"slices"
	"strings"
	"unicode"
)

const (
	// maxCost limits a sentence: 100 Chinese characters, or 240 bytes of other text.
	maxCost = 1200
	// wideCost and byteCost are what a Chinese character, and a byte of other text, add.
	wideCost, byteCost = maxCost / 100, maxCost / 240
	// maxQuote is the length of a quotation, in runes, within which no sentence ends. The end of a
	// longer one may be missing.
	maxQuote = 40
)

// Splitter splits an answer that is still growing into sentences, which are shown or spoken one
// after the other. Whether a sentence ends depends on the text before and one character after it.
// The zero value is ready. It is not safe for concurrent use.
type Splitter struct {
	text []rune // since the last sentence
	cost int    // of text
}

// Write adds a piece of the text and returns the sentences that are complete now, without spaces
// around them.
func (s *Splitter) Write(piece string) (sentences []string) {
	for _, r := range piece {
		if len(s.text) > 0 && s.endsBefore(r) {
			sentences = s.cut(sentences, len(s.text))
		}
		s.text = append(s.text, r)
		if s.cost += cost(r); s.cost > maxCost {
			sentences = s.cut(sentences, s.breakPoint())
		}
	}
	return sentences
}

// Flush ends the text. It returns what is left, which may be empty.
func (s *Splitter) Flush() string {
	rest := strings.TrimSpace(string(s.text))
	*s = Splitter{}
	return rest
}

// cut moves the first n runes to the sentences, unless they are blank.
func (s *Splitter) cut(sentences []string, n int) []string {
	if sentence := strings.TrimSpace(string(s.text[:n])); sentence != "" {
		sentences = append(sentences, sentence)
	}
	s.text = slices.Delete(s.text, 0, n)
	s.cost = 0
	for _, r := range s.text {
		s.cost += cost(r)
	}
	return sentences
}

func cost(r rune) int {
	if isWide(r) {
		return wideCost
	}
	return byteCost * len(string(r))
}

const (
	wideEnds   = "。！？；…"
	asciiEnds  = ".!?;"
	endClosers = `"')]}”’」』》）】`
)

// endsBefore reports whether a sentence ends before the next character.
func (s *Splitter) endsBefore(next rune) bool {
	last := len(s.text) - 1
	if s.text[last] == '\n' {
		return true
	}
	for last > 0 && strings.ContainsRune(endClosers, s.text[last]) {
		last--
	}
	mark := s.text[last]
	switch {
	case strings.ContainsRune(wideEnds+asciiEnds+endClosers, next): // they belong to the same end
		return false
	case strings.ContainsRune(wideEnds, mark):
	case !strings.ContainsRune(asciiEnds, mark):
		return false
	case mark == '.' && (!unicode.IsSpace(next) || s.isAbbreviated(last)): // 3.14, example.org, Dr. Who
		return false
	case next < 0x80 && !unicode.IsSpace(next): // a?b=c
		return false
	}
	return !s.inQuote()
}

// abbreviations do not end a sentence.
var abbreviations = []string{"mr", "mrs", "ms", "dr", "prof", "st", "nr", "vs", "e.g", "i.e", "cf", "fig", "ca",
	"approx", "a.m", "p.m", "u.s", "inc", "ltd", "jr", "sr"}

// isAbbreviated reports whether the full stop at i belongs to an abbreviation, an initial, or the
// number of an item.
func (s *Splitter) isAbbreviated(i int) bool {
	first := i
	for first > 0 && (unicode.IsLetter(s.text[first-1]) || unicode.IsDigit(s.text[first-1]) || s.text[first-1] == '.') {
		first--
	}
	word := s.text[first:i]
	switch {
	case len(word) == 1 && unicode.IsUpper(word[0]) && word[0] != 'I':
		return true
	case len(word) > 0 && strings.TrimSpace(string(s.text[:first])) == "" &&
		!slices.ContainsFunc(word, func(r rune) bool { return !unicode.IsDigit(r) }):
		return true
	}
	return slices.Contains(abbreviations, strings.ToLower(string(word)))
}

// quotes are the characters that open and close a quotation or a remark.
var quotes = map[rune]rune{'“': '”', '「': '」', '『': '』', '《': '》', '（': '）', '(': ')', '"': '"'}

// inQuote reports whether a quotation is open that began less than maxQuote characters ago.
func (s *Splitter) inQuote() bool {
	closer, since := rune(0), 0
	for i, r := range s.text {
		switch c, opens := quotes[r]; {
		case closer != 0 && r == closer:
			closer = 0
		case closer == 0 && opens:
			closer, since = c, i
		}
	}
	return closer != 0 && len(s.text)-since < maxQuote
}

// breakPoint returns where a sentence that is too long is cut: at the best place in its second
// half.
func (s *Splitter) breakPoint() int {
	best, quality := len(s.text)-1, noBreak
	for i := len(s.text) - 1; i > len(s.text)/2; i-- {
		if q := breakBetween(s.text[i-1], s.text[i]); q > quality {
			best, quality = i, q
		}
	}
	return best
}
