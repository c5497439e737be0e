package plain

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxRest limits the text that a [Pager] keeps for later pages, in bytes: more than fifty pages of
// a display. Text beyond it is dropped.
const maxRest = 64 << 10

// Pager ends a text where its first page is full, and keeps the rest.
//
// Most of a page is shown as it arrives. In the last quarter only whole sentences are shown, since
// the page may have to end before the next one. If no sentence ends there, the page ends at a
// comma, otherwise between two words, otherwise between two characters.
//
// Pieces must be whole UTF-8 characters. A Pager is not safe for concurrent use.
type Pager struct {
	max, near   int
	count       int         // characters shown
	sentenceEnd sentenceEnd // whether the text read so far ends a sentence
	prev        rune
	lastShown   rune // the last character shown

	// held is text of the last quarter that is not shown yet, and runes its length in characters.
	// Its first solid bytes (solidRunes characters) do not end with space.
	held              []byte
	runes             int
	solid, solidRunes int
	canEnd            bool // the page can end at the current position

	full bool
	rest []byte
}

// NewPager returns a pager for pages of up to max characters; 0 means no limit.
func NewPager(max int) *Pager {
	return &Pager{max: max, near: max - max/4}
}

// Write adds a piece and returns what can be shown now.
func (p *Pager) Write(text string) (show string) {
	switch {
	case p.max <= 0:
		return text
	case p.full:
		p.appendRest(text)
		return ""
	}
	at := 0
	for at < len(text) && p.count < p.near {
		r, n := utf8.DecodeRuneInString(text[at:])
		p.observe(r)
		p.lastShown = r
		p.count++
		at += n
	}
	show = text[:at]
	for at < len(text) {
		r, n := utf8.DecodeRuneInString(text[at:])
		if p.endsSentence(r) {
			show += p.release(p.solid, p.solidRunes)
			p.canEnd = true
		}
		if p.count+p.runes >= p.max && !unicode.IsSpace(r) {
			show += p.endPage(r)
			p.appendRest(text[at:])
			return show
		}
		p.hold(text[at:at+n], r)
		at += n
	}
	return show
}

// Flush ends the text and returns the held text that still fits on the page. Without Flush, that
// text is part of the rest.
func (p *Pager) Flush() string {
	if p.full {
		return ""
	}
	show := p.held
	if p.count+p.runes > p.max {
		show = show[:p.solid] // the remainder is space
	}
	p.held = nil
	return string(show)
}

// Rest returns the text that does not fit on the page, at most 64 KiB, without the space around the
// cut.
func (p *Pager) Rest() string {
	rest := p.rest
	if !p.full {
		rest = p.held
	}
	return strings.TrimLeftFunc(string(rest), unicode.IsSpace)
}

// Page returns the first page of a text, as a [Pager] shows it, and the rest. A max of 0 means no
// limit.
func Page(text string, max int) (page, rest string) {
	p := NewPager(max)
	page = p.Write(text) + p.Flush()
	if p.full {
		rest = strings.TrimLeftFunc(text[len(page):], unicode.IsSpace)
	}
	return page, rest
}

// hold holds back a character.
func (p *Pager) hold(text string, r rune) {
	p.observe(r)
	if p.count+p.runes >= p.max && len(p.held) >= maxRest {
		return // space beyond the page
	}
	p.held = append(p.held, text...)
	p.runes++
	if !unicode.IsSpace(r) {
		p.solid, p.solidRunes = len(p.held), p.runes
	}
}

// release returns n held bytes to be shown.
func (p *Pager) release(n, runes int) string {
	show := string(p.held[:n])
	p.held = append(p.held[:0], p.held[n:]...)
	p.count += runes
	p.runes -= runes
	p.solid, p.solidRunes = 0, 0
	return show
}

// endPage ends the page before the character next.
func (p *Pager) endPage(next rune) string {
	n := 0
	if !p.canEnd {
		n = lastBreak(p.lastShown, p.held, next)
	}
	show := p.release(n, 0)
	p.full = true
	p.rest, p.held = p.held, nil
	return show
}

// appendRest adds text to the rest, up to [maxRest].
func (p *Pager) appendRest(text string) {
	if n := maxRest - len(p.rest); len(text) > n {
		for n = max(n, 0); n > 0 && !utf8.RuneStart(text[n]); {
			n--
		}
		text = text[:n]
	}
	p.rest = append(p.rest, text...)
}

// sentenceEnd is how a sentence may have ended.
type sentenceEnd uint8

const (
	notEnded  sentenceEnd = iota
	fullStop              // in any case
	latinStop             // only before space or another script: not in 3.14 or patchbay.dev
)

const (
	fullStops = "。！？；"
	closers   = "”’\"')）]］」』】》〉›»"
	openers   = "“‘(（[［「『【《〈‹«"
	commas    = "，、：,:;"
)

// observe updates the state for a character that was read. A full stop after a digit does not end a
// sentence: it is more often a list marker.
func (p *Pager) observe(r rune) {
	switch {
	case r == '\n' || strings.ContainsRune(fullStops, r):
		p.sentenceEnd = fullStop
	case r == '!' || r == '?' || r == '.' && !unicode.IsDigit(p.prev):
		if p.sentenceEnd == notEnded {
			p.sentenceEnd = latinStop
		}
	case p.sentenceEnd != notEnded && strings.ContainsRune(closers, r):
	default:
		p.sentenceEnd = notEnded
	}
	p.prev = r
}

// endsSentence reports whether a sentence ends before next.
func (p *Pager) endsSentence(next rune) bool {
	switch {
	case next == '\n':
		return true
	case p.sentenceEnd == notEnded, strings.ContainsRune(fullStops+closers+".!?", next):
		return false
	}
	return p.sentenceEnd == fullStop || unicode.IsSpace(next) || next >= utf8.RuneSelf
}

// lastBreak returns the best position to end a page in a text without the end of a sentence: at a
// comma, otherwise between two words, otherwise between two characters. before and next are the
// characters around the text.
func lastBreak(before rune, text []byte, next rune) int {
	at := [...]int{-1, -1, -1, -1}
	solid := 0
	for i := 0; ; {
		after, n := next, 0
		if i < len(text) {
			after, n = utf8.DecodeRune(text[i:])
		}
		at[breakBetween(before, after)] = solid
		if n == 0 {
			break
		}
		i += n
		if !unicode.IsSpace(after) {
			solid = i
		}
		before = after
	}
	for kind := betweenClauses; kind > noBreak; kind-- {
		if at[kind] >= 0 {
			return at[kind]
		}
	}
	return 0
}

// Quality of a position between two characters for ending a page, ascending.
const (
	noBreak = iota
	betweenCharacters
	betweenWords
	betweenClauses
)

func breakBetween(a, b rune) int {
	switch {
	case unicode.In(b, unicode.M) || b == zwj || a == zwj || isSkinTone(b) || isRegional(a) && isRegional(b):
		return noBreak // one visible character (grapheme cluster)
	case strings.ContainsRune(commas, a) && (a >= utf8.RuneSelf || unicode.IsSpace(b)):
		return betweenClauses
	case unicode.IsSpace(a) || unicode.IsSpace(b):
		return betweenWords
	case strings.ContainsRune(openers, a) || strings.ContainsRune(fullStops+commas+closers, b):
		return betweenCharacters
	case isWide(a) || isWide(b):
		return betweenWords
	}
	return betweenCharacters
}

// isWide reports whether r belongs to a script that is written without spaces: CJK Radicals
// Supplement (U+2E80) and above.
func isWide(r rune) bool { return r >= 0x2e80 }

// isRegional reports whether r is a regional indicator, two of which make a flag.
func isRegional(r rune) bool { return r >= 0x1f1e6 && r <= 0x1f1ff }
