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

// Splitter splits an answer that is still growing into pieces, which are spoken and shown one after
// the other: sentences, or several short ones. The first piece may also end at a comma, since
// nothing is heard before it. Lines are pieces of their own.
//
// Whether a piece ends depends on the text before and a few characters after it, and never on how
// the text was split. The zero value is ready. It is not safe for concurrent use.
type Splitter struct {
	// Clauses lets every piece end at a comma: for voices that take a text in any parts.
	Clauses bool

	text  []rune // since the last piece
	cost  int    // of text
	begun bool   // there was a piece
}

// Write adds to the text and returns the pieces that are complete now, without spaces around them.
func (s *Splitter) Write(text string) (pieces []string) {
	for _, r := range text {
		if len(s.text) > 0 && s.endsBefore(r) {
			pieces = s.cut(pieces, len(s.text))
		}
		s.text = append(s.text, r)
		if s.cost += cost(r); s.cost > maxCost {
			pieces = s.cut(pieces, s.breakPoint())
		}
	}
	return pieces
}

// Pause returns the whole words so far, for when the text has not grown for a while. It may be
// empty.
func (s *Splitter) Pause() string {
	pieces := s.cut(nil, s.wholeWords())
	if len(pieces) == 0 {
		return ""
	}
	return pieces[0]
}

// Flush ends the text. It returns what is left, which may be empty.
func (s *Splitter) Flush() string {
	rest := strings.TrimSpace(string(s.text))
	*s = Splitter{Clauses: s.Clauses}
	return rest
}

// cut moves the first n runes to the pieces, unless they are blank.
func (s *Splitter) cut(pieces []string, n int) []string {
	if piece := strings.TrimSpace(string(s.text[:n])); piece != "" {
		pieces = append(pieces, piece)
		s.begun = s.begun || strings.ContainsFunc(piece, isLetter)
	}
	s.text = slices.Delete(s.text, 0, n)
	s.cost = 0
	for _, r := range s.text {
		s.cost += cost(r)
	}
	return pieces
}

func cost(r rune) int {
	if isWide(r) {
		return wideCost
	}
	return byteCost * len(string(r))
}

const (
	wideEnds   = "。！？；…؟।។៕။"
	asciiEnds  = ".!?;"
	clauseEnds = "，、：—"
	endClosers = `"')]}”’」』》）】`
)

// endsBefore reports whether a piece ends before the next character.
func (s *Splitter) endsBefore(next rune) bool {
	end := len(s.text)
	if s.text[end-1] == '\n' {
		return true
	}
	if breakBetween(s.text[end-1], next) == noBreak || strings.ContainsRune(wideEnds+asciiEnds+endClosers, next) {
		return false // it belongs to the same end
	}
	for end > 1 && s.text[end-1] == ' ' && next != ' ' {
		end-- // the next word decides about an abbreviation
	}
	spaced := end < len(s.text)
	for end > 1 && strings.ContainsRune(endClosers, s.text[end-1]) {
		end--
	}
	mark := s.text[end-1]
	switch {
	case mark == '.':
		return s.stopEnds(end-1, next, spaced) && s.isLong() && !s.inQuote()
	case spaced && isUnspaced(mark) && isUnspaced(next) && !unicode.Is(unicode.Lm, next): // not before ๆ
	case spaced:
		return false // it was decided before the space
	case strings.ContainsRune(wideEnds, mark):
	case strings.ContainsRune(asciiEnds, mark):
		if next < 0x80 && !unicode.IsSpace(next) { // a?b=c
			return false
		}
	case s.begun && !s.Clauses:
		return false
	case mark == ',' && !unicode.IsSpace(next) && !isWide(next): // 1,000
		return false
	case mark != ',' && !strings.ContainsRune(clauseEnds, mark):
		return false
	case next == mark || unicode.IsDigit(next) && end > 1 && unicode.IsDigit(s.text[end-2]): // ——, 8：30
		return false
	}
	return s.isLong() && !s.inQuote()
}

// The least length of the first piece, and of others: 6 and 8 Chinese characters, or 4 and 6 words.
// Shorter ones cost as much time and money as long ones.
const minLength = 24

// isUnspaced reports whether a character is a letter or mark of Thai, Lao, Khmer or Burmese, which
// have spaces between sentences and clauses, and none between words.
func isUnspaced(r rune) bool {
	return unicode.In(r, unicode.Thai, unicode.Lao, unicode.Khmer, unicode.Myanmar) &&
		(unicode.IsLetter(r) || unicode.IsMark(r))
}

// isLong reports whether the text is long enough for a piece.
func (s *Splitter) isLong() bool {
	perCharacter, perWord := minLength/8, minLength/6
	if !s.begun {
		perCharacter, perWord = minLength/6, minLength/4
	}
	length, inWord := 0, false
	for _, r := range s.text {
		switch letter := isLetter(r) || unicode.IsMark(r) || r == '\'' || r == '’'; {
		case letter && isWide(r):
			length += perCharacter
			inWord = false
		case letter && isUnspaced(r):
			if !unicode.IsMark(r) {
				length += perWord / 3
			}
		case letter && !inWord:
			length += perWord
			inWord = true
		default:
			inWord = letter
		}
	}
	return length >= minLength
}

var (
	// abbreviations do not end a sentence.
	abbreviations = []string{"mr", "mrs", "ms", "dr", "prof", "st", "nr", "vs", "cf", "fig", "ca", "approx",
		"inc", "ltd", "jr", "sr", "jan", "feb", "aug", "sept", "oct", "nov", "dec"}
	// lastWords are abbreviations that often are the last word of a sentence.
	lastWords = []string{"etc", "a.m", "p.m"}
)

// stopEnds reports whether the full stop at i ends a sentence before the next character. There are
// spaces between, if it is spaced.
func (s *Splitter) stopEnds(i int, next rune, spaced bool) bool {
	first := i
	for first > 0 && (isLetter(s.text[first-1]) || s.text[first-1] == '.') {
		first--
	}
	word := strings.ToLower(string(s.text[first:i]))
	switch {
	case word == "no": // No. 5
		return spaced && !unicode.IsDigit(next)
	case slices.Contains(lastWords, word):
		return spaced && (unicode.IsUpper(next) || isWide(next))
	case spaced || !unicode.IsSpace(next): // it was decided before the space; 3.14, example.org
		return false
	case i-first == 1 && unicode.IsUpper(s.text[first]) && word != "i": // J. R. R. Tolkien
		return false
	case word != "" && strings.TrimSpace(string(s.text[:first])) == "" && strings.Trim(word, "0123456789") == "":
		return false // the number of an item
	}
	return !slices.Contains(abbreviations, word) && !isInitials(word)
}

// isInitials reports whether a word is letters with full stops between, such as e.g and u.s.
func isInitials(word string) bool {
	for i, r := range []rune(word) {
		if i%2 == 0 && !unicode.IsLetter(r) || i%2 == 1 && r != '.' {
			return false
		}
	}
	return strings.Contains(word, ".")
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

// wholeWords returns the number of characters up to the end of the last word that is complete,
// whatever follows.
func (s *Splitter) wholeWords() int {
	end := len(s.text)
	for end > 0 && unicode.IsSpace(s.text[end-1]) {
		end--
	}
	if end == 0 || isWide(s.text[end-1]) {
		return end
	}
	spaced, last := end < len(s.text), s.text[end-1]
	if strings.ContainsRune(".,:", last) && end > 1 && unicode.IsDigit(s.text[end-2]) {
		item := strings.Trim(strings.TrimSpace(string(s.text[:end-1])), "0123456789") == ""
		spaced = spaced && !item
	} else if !isLetter(last) && !unicode.IsMark(last) {
		return end
	}
	if spaced {
		return end
	}
	for end--; end > 0 && breakBetween(s.text[end-1], s.text[end]) < betweenWords; {
		end--
	}
	return end
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
