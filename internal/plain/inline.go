package plain

import (
	"bytes"
	"strings"
	"unicode"
	"unicode/utf8"
)

// bytesTable maps each byte to what it can begin.
type bytesTable [256]uint8

const (
	plainByte  uint8 = iota
	otherByte        // other markup
	wordByte         // an address, unless it continues a word
	keycapByte       // a keycap emoji
	bangByte         // an image
	parenByte        // an address in parentheses
)

func tables(opt Options) (text, code bytesTable) {
	text['\n'] = otherByte
	if opt.Emoji {
		text['#'] = keycapByte
		for c := '0'; c <= '9'; c++ {
			text[c] = keycapByte
		}
		text['*'] = keycapByte
	}
	if opt.URLs {
		text['('] = parenByte
	}
	if opt.URLs || opt.Markdown {
		for _, c := range "hHwW" {
			text[c] = wordByte
		}
	}
	code = text
	code['`'] = otherByte
	if opt.Markdown {
		for _, c := range "*_~`[<&\\|" {
			text[c] = otherByte
		}
		text['!'] = bangByte
	}
	return text, code
}

// isInCode reports whether the text is in code, where marks have no meaning.
func (f *Filter) isInCode() bool { return f.ticks > 0 || f.fence.n > 0 }

// plainPrefix returns the length of the prefix of b that has no special meaning, whatever follows.
func (f *Filter) plainPrefix(b []byte) int {
	table := &f.text
	if f.isInCode() {
		table = &f.code
	}
	i := 0
	for i < len(b) {
		c := b[i]
		if c >= utf8.RuneSelf {
			n := f.plainRune(b[i:])
			if n == 0 {
				return i
			}
			i += n
			continue
		}
		if kind := table[c]; kind != plainByte && !f.isPlainHere(b, i, kind) {
			return i
		}
		i++
	}
	return i
}

// isPlainHere reports whether the byte at i is plain because of its neighbours.
func (f *Filter) isPlainHere(b []byte, i int, kind uint8) bool {
	switch kind {
	case wordByte:
		if i > 0 && isWord(rune(b[i-1])) || i == 0 && isWord(f.prev) {
			return true
		}
		second := byte('t')
		if lower(b[i]) == 'w' {
			second = 'w'
		}
		return i+1 < len(b) && lower(b[i+1]) != second
	case keycapByte:
		return i+1 < len(b) && b[i+1] != keycap[0] && b[i+1] != selectedKeycap[0]
	case bangByte:
		return i+1 < len(b) && b[i+1] != '['
	case parenByte:
		return i+1 < len(b) && f.text[b[i+1]] != wordByte
	}
	return false
}

// plainRune returns the length of the character at the start of b, or 0 if it may have a meaning.
func (f *Filter) plainRune(b []byte) int {
	r, n := utf8.DecodeRune(b)
	switch {
	case r == utf8.RuneError && n == 1:
		return 0
	case f.opt.Emoji && emojiClassOf(r) != notEmoji:
		return 0
	case f.opt.URLs && r == '（' && (n == len(b) || f.text[b[n]] == wordByte):
		return 0
	}
	return n
}

// inline processes markup that is possible anywhere in a line.
func (f *Filter) inline(l window) bool {
	if n := f.plainPrefix(l.b); n > 0 {
		f.emit(n)
		return true
	}
	c := l.b[0]
	switch {
	case c == '\n':
		f.advance(1)
		f.newline()
		return true
	case c >= utf8.RuneSelf:
		return f.nonASCII(l)
	case f.code[c] == keycapByte:
		n, ok := l.keycap()
		if !ok {
			return false
		}
		if n > 0 {
			f.dropEmoji(n)
			return true
		}
	case f.code[c] == wordByte || f.code[c] == parenByte:
		return f.beginAddress(l, 1)
	case f.ticks > 0 && c == '`':
		return f.endTicks(l)
	}
	if f.opt.Markdown && !f.isInCode() {
		return f.markup(l)
	}
	f.emit(1)
	return true
}

// markup processes a byte that may be a mark.
func (f *Filter) markup(l window) bool {
	switch l.b[0] {
	case '*', '_', '~':
		return f.emphasis(l)
	case '`':
		return f.beginTicks(l)
	case '[':
		return f.link(l, 1)
	case '!':
		if next, ok := l.rune(1); !ok {
			return false
		} else if next == '[' {
			return f.link(l, 2)
		}
	case '<':
		return f.tag(l)
	case '&':
		return f.entity(l)
	case '\\':
		return f.escape(l)
	case '|':
		if f.inTableRow {
			f.cellGap, f.cellEnd = true, f.opt.Speech
			f.advance(1)
			return true
		}
	}
	f.emit(1)
	return true
}

// escape processes a backslash. It is an escape only before a mark, because backslashes are common
// in file names and formulas.
func (f *Filter) escape(l window) bool {
	if len(l.b) == 1 && l.more {
		return false
	}
	if len(l.b) > 1 && strings.IndexByte("*_~`#[]<>|", l.b[1]) >= 0 {
		f.advance(1)
	}
	f.emit(1)
	return true
}

// maxEmphasis is how far ahead the end of *emphasis* is searched, in bytes. Without an end the mark
// is text: a footnote, a multiplication, a file name.
const maxEmphasis = 256

func (f *Filter) emphasis(l window) bool {
	c := l.b[0]
	n, ok := l.run(0, c)
	if !ok {
		return false
	}
	next, ok := l.rune(n)
	if !ok {
		return false
	}
	var mark bool
	switch before, after := unicode.IsSpace(f.prev), unicode.IsSpace(next); {
	case before && after:
	case c == '*':
		mark, ok = f.stars(l, n, next)
	case c == '_':
		mark, ok = f.underscores(l, n, next)
	case n == 2:
		mark, ok = f.tildes(l, next)
	}
	if !ok {
		return false
	}
	if mark {
		f.advance(n)
	} else {
		f.emit(n)
	}
	return true
}

// stars reports whether n stars are a mark.
func (f *Filter) stars(l window, n int, next rune) (mark, ok bool) {
	afterSpace, beforeSpace := unicode.IsSpace(f.prev), unicode.IsSpace(next)
	inWord := isWord(f.prev) && isWord(next) // 3*4, 2**8
	opens := !beforeSpace && !inWord && (!isWord(f.prev) || !isPunct(next))
	switch n {
	case 1:
		if f.italic {
			mark = !afterSpace && !inWord
			f.italic = !mark
			return mark, true
		}
		if isWord(f.prev) || !beginsWord(next) {
			return false, true
		}
		f.italic, ok = l.closed('*', 1)
		return f.italic, ok
	case 2:
		switch {
		case f.bold == bold && afterSpace:
			f.bold = maybeBold
		case f.bold == bold:
			f.bold = notBold
		case f.bold == maybeBold && !afterSpace && !inWord:
			if beforeSpace {
				f.bold = notBold
			}
		case opens:
			f.bold = bold
		default:
			return false, true
		}
		return true, true
	case 3:
		if f.bold != notBold || f.italic {
			f.bold, f.italic = notBold, false
			return true, true
		}
		if opens {
			f.bold, f.italic = bold, true
		}
		return opens, true
	case 4: // the end of one and the beginning of another
		return f.bold == bold && !afterSpace && !beforeSpace, true
	}
	return false, true
}

// underscores reports whether n underscores are a mark. Within a word, in any script, they are not.
func (f *Filter) underscores(l window, n int, next rune) (mark, ok bool) {
	if f.underscoreCount == n {
		if unicode.IsSpace(f.prev) || isLetter(next) {
			return false, true
		}
		f.underscoreCount = 0
		return true, true
	}
	if n > 3 || isLetter(f.prev) || !beginsWord(next) {
		return false, true
	}
	mark, ok = l.closed('_', n)
	if mark {
		f.underscoreCount = n
	}
	return mark, ok
}

// tildes reports whether two tildes are a mark.
func (f *Filter) tildes(l window, next rune) (mark, ok bool) {
	if f.strikethrough {
		f.strikethrough = unicode.IsSpace(f.prev)
		return !f.strikethrough, true
	}
	if unicode.IsSpace(next) {
		return false, true
	}
	f.strikethrough, ok = l.closed('~', 2)
	return f.strikethrough, ok
}

// closed reports whether the emphasis that the n marks c at the start of the window begin has an
// end, on the same line and within [maxEmphasis].
func (l window) closed(c byte, n int) (yes, ok bool) {
	if len(l.b) >= maxEmphasis {
		l = window{b: l.b[:maxEmphasis]}
	}
	for i := n; i < len(l.b); {
		switch l.b[i] {
		case '\n':
			return false, true
		case '\\':
			i += 2
		case c:
			m, ok := l.run(i, c)
			if !ok {
				return false, false
			}
			after, ok := l.rune(i + m)
			if !ok {
				return false, false
			}
			before, _ := utf8.DecodeLastRune(l.b[:i])
			if closes(c, n, m, before, after) {
				return true, true
			}
			i += m
		default:
			i++
		}
	}
	return false, !l.more
}

func closes(c byte, n, m int, before, after rune) bool {
	switch {
	case unicode.IsSpace(before):
		return false
	case c == '*':
		return (m == n || m == 3) && (!isWord(before) || !isWord(after))
	case c == '_':
		return m == n && !isLetter(after)
	}
	return m == n
}

func isPunct(r rune) bool { return r > ' ' && r <= '~' && !isWord(r) }

// beginsWord reports whether emphasised text can begin with r: *.txt and *) are no emphasis.
func beginsWord(r rune) bool {
	return r > ' ' && (!isPunct(r) || strings.ContainsRune("\"'([{<`*_~$\\", r))
}

// beginTicks processes the backticks before a code span (CommonMark 0.31.2 §6.1). Without the same
// number of backticks later on the line, they are text.
func (f *Filter) beginTicks(l window) bool {
	n, ok := l.run(0, '`')
	if !ok {
		return false
	}
	end := n
	for {
		i := bytes.IndexAny(l.b[end:], "`\n")
		if i < 0 {
			if l.more {
				return false
			}
			f.emit(n)
			return true
		}
		end += i
		if l.b[end] == '\n' {
			f.emit(n)
			return true
		}
		m, ok := l.run(end, '`')
		if !ok {
			return false
		}
		if m == n && (end+m < len(l.b) || l.end) {
			break
		}
		end += m
	}
	f.ticks = n
	content := l.b[n:end]
	last := len(content) - 1
	padded := last > 1 && content[0] == ' ' && content[last] == ' ' && len(bytes.TrimSpace(content)) > 0
	apart := padded && content[last-1] == '`' // the space separates it from the mark
	f.advance(n)
	if padded && !apart {
		f.remove(last, last+1)
	}
	if padded {
		f.advance(1)
	}
	return true
}

// endTicks processes backticks in code, which may end it.
func (f *Filter) endTicks(l window) bool {
	n, ok := l.run(0, '`')
	if !ok {
		return false
	}
	if n != f.ticks {
		f.emit(n)
		return true
	}
	f.ticks = 0
	f.advance(n)
	return true
}

// link processes a [ or ![ of open bytes. The address of a link or an image is removed, and its
// text is processed like other text.
func (f *Filter) link(l window, open int) bool {
	end, ok := l.bracket(open, '[', ']')
	if !ok {
		return false
	}
	if end < 0 {
		f.emit(open)
		return true
	}
	next, ok := l.rune(end + 1)
	if !ok {
		return false
	}
	if next != '(' {
		f.emit(open)
		return true
	}
	last, ok := l.bracket(end+2, '(', ')')
	if !ok {
		return false
	}
	if last < 0 || !isTarget(l.b[end+2:last]) {
		f.emit(open)
		return true
	}
	f.remove(end, last+1)
	f.advance(open)
	return true
}

// bracket returns the position of the closing bracket for text that starts at i, or -1 if the line
// has none.
func (l window) bracket(i int, open, end byte) (at int, ok bool) {
	for depth := 1; i < len(l.b); i++ {
		switch l.b[i] {
		case '\n':
			return -1, true
		case '\\':
			i++
		case open:
			depth++
		case end:
			if depth--; depth == 0 {
				return i, true
			}
		}
	}
	return -1, !l.more
}

// isTarget reports whether b is an address, possibly with a title, and not a remark in parentheses.
func isTarget(b []byte) bool {
	b = bytes.TrimSpace(b)
	if bytes.HasPrefix(b, []byte("<")) || bytes.HasPrefix(b, []byte("http")) {
		return true
	}
	address, title, spaced := bytes.Cut(b, []byte(" "))
	title = bytes.TrimSpace(title)
	return !spaced || len(address) > 0 && len(title) > 0 && strings.IndexByte("\"'(", title[0]) >= 0
}
