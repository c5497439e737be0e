package plain

import "bytes"

// fence is an open block of code (CommonMark 0.31.2 §4.5).
type fence struct {
	c      byte // ` or ~; n is the length of the opening fence
	n      int
	quoted bool // every line begins with >
	skip   int  // spaces of its first line that were already shown
}

// block processes marks that are possible only at the start of a line.
func (f *Filter) block(l window) bool {
	switch c := l.b[0]; {
	case isBlank(c):
		return f.margin(l)
	case c == '\n':
		f.tableRows = 0
		f.advance(1)
		f.newline()
		return true
	case c == '`' || c == '~':
		return f.openFence(l)
	case !f.opt.Markdown:
	case c == '>':
		f.advance(1)
		f.quoted, f.trimSpaces = true, true
		return true
	case c == '#':
		return f.heading(l)
	case c == '-' || c == '*' || c == '+' || c == '_' || c == '=':
		return f.ruleOrBullet(l)
	case c == '|':
		return f.tableRow(l)
	}
	return f.prefixEnd()
}

// prefixEnd ends the block marks of a line.
func (f *Filter) prefixEnd() bool {
	f.atLineStart = false
	f.tableRows = 0
	f.inTableRow = f.looseTable
	return true
}

// margin processes the space at the start of a line. The space is shown at once, except after the
// maximum number of blank lines, because the line may be another blank one.
func (f *Filter) margin(l window) bool {
	n := leadingBlanks(l.b)
	if f.hasMaxBlankLines() {
		if n == len(l.b) && l.more {
			return false
		}
		if n < len(l.b) && l.b[n] == '\n' {
			f.advance(n)
			return true
		}
	}
	if !f.trimSpaces {
		f.indent += n
	}
	f.emit(n)
	return true
}

// leadingBlanks returns the number of bytes of space at the start of b.
func leadingBlanks(b []byte) int {
	n := 0
	for n < len(b) && isBlank(b[n]) {
		n++
	}
	return n
}

// heading processes a heading: 1 to 6 # and a space (CommonMark 0.31.2 §4.2). Models also write ##
// without a space; before a character that is not ASCII this is a heading too, since it cannot be a
// #tag.
func (f *Filter) heading(l window) bool {
	n, ok := l.run(0, '#')
	if !ok {
		return false
	}
	next, ok := l.rune(n)
	if !ok {
		return false
	}
	switch {
	case n > 6:
	case next == ' ' || next == '\t' || next == '\r' || next == '\n', n > 1 && next > '~' && isLetter(next):
		f.advance(n)
		f.prefixEnd()
		f.trimSpaces = true
		return true
	}
	return f.prefixEnd()
}

// ruleOrBullet processes a thematic break, the line below a heading or a table's header, or a list
// marker.
func (f *Filter) ruleOrBullet(l window) bool {
	c, i, marks, spaces, bars := l.b[0], 0, 0, 0, 0
scan:
	for ; i < len(l.b); i++ {
		switch b := l.b[i]; {
		case b == c:
			marks++
		case isBlank(b):
			spaces++
		case c == '-' && b == '|':
			bars++
		case c == '-' && b == ':':
		default:
			break scan
		}
	}
	if i == len(l.b) && l.more {
		return false
	}
	ends := l.endsLine(i)
	switch {
	case ends && bars > 0:
		f.looseTable = true
		f.dropLine(i)
		return true
	case ends && marks > 2 && c != '+' && (c != '=' || marks+spaces == marks+trailingBlanks(l.b[:i])):
		f.dropLine(i)
		return true
	case !ends && (c == '-' || c == '*' || c == '+') && isBlank(l.b[1]):
		f.bullets++
		f.advance(1)
		f.trimSpaces = true
		return true
	}
	return f.prefixEnd()
}

// trailingBlanks returns the number of bytes of space at the end of b.
func trailingBlanks(b []byte) int { return len(b) - len(bytes.TrimRight(b, " \t\r")) }

// endsLine reports whether a line ends at i.
func (l window) endsLine(i int) bool { return i < len(l.b) && l.b[i] == '\n' || i == len(l.b) && l.end }

// dropLine skips n bytes, the rest of a line, and the line break too if the line shows nothing.
func (f *Filter) dropLine(n int) {
	if f.lastShown == '\n' && f.pos+n < len(f.buf) {
		n++
		f.advance(n)
		f.nextLine()
		return
	}
	f.advance(n)
}

// tableRow processes a | at the start of a line. A line such as |x| < 3 is not part of a table.
func (f *Filter) tableRow(l window) bool {
	i, dashes := 0, 0
	for i < len(l.b) && bytes.IndexByte([]byte("|-: \t\r"), l.b[i]) >= 0 {
		if l.b[i] == '-' {
			dashes++
		}
		i++
	}
	if i == len(l.b) && l.more {
		return false
	}
	if l.endsLine(i) && dashes > 0 && (f.tableRows == 1 || dashes > 2) {
		f.tableRows++
		f.dropLine(i)
		return true
	}
	row := f.tableRows > 0 || f.looseTable || len(l.b) > 1 && isBlank(l.b[1])
	if !row {
		end := bytes.IndexByte(l.b, '\n')
		if end < 0 && l.more {
			return false
		}
		if end < 0 && l.end {
			end = len(l.b)
		}
		row = end > 0 && isRow(l.b[:end])
	}
	if !row {
		return f.prefixEnd()
	}
	f.atLineStart, f.inTableRow, f.cellGap, f.cellEnd = false, true, false, false
	f.tableRows++
	f.advance(1)
	return true
}

func isRow(line []byte) bool {
	line = bytes.TrimRight(line, " \t\r")
	return bytes.HasSuffix(line, []byte("|")) && bytes.Count(line, []byte("|")) > 2
}

// openFence processes the line that opens a block of code.
func (f *Filter) openFence(l window) bool {
	if !f.opt.Markdown && !f.opt.Code {
		return f.prefixEnd()
	}
	c := l.b[0]
	n, ok := l.run(0, c)
	if !ok {
		return false
	}
	if n < 3 {
		return f.prefixEnd()
	}
	end := bytes.IndexByte(l.b, '\n')
	if end < 0 {
		end = len(l.b)
	}
	if c == '`' && bytes.IndexByte(l.b[n:end], '`') >= 0 {
		return f.prefixEnd() // a code span
	}
	if end == len(l.b) && l.more {
		return false
	}
	if !l.endsLine(end) {
		return f.prefixEnd()
	}
	f.tableRows = 0
	f.fence = fence{c: c, n: n, quoted: f.quoted}
	if !f.opt.Code {
		f.fence.skip = f.indent
	} else if end < len(l.b) {
		f.writeString(f.codeText())
	}
	f.advance(min(end+1, len(l.b)))
	bullets := f.bullets // list items can contain code
	f.nextLine()
	f.bullets = bullets
	f.trimSpaces = f.trimSpaces && bullets > 0
	return true
}

// codeText returns what replaces a block of code.
func (f *Filter) codeText() string {
	if f.opt.Speech {
		return msgCodeOnPage.In(f.opt.Lang)
	}
	return msgCodeLeftOut.In(f.opt.Lang)
}

// inFence processes text in a block of code.
func (f *Filter) inFence(l window) bool {
	if f.atLineStart {
		return f.fenceLine(l)
	}
	if !f.opt.Code {
		return f.inline(l)
	}
	end := bytes.IndexByte(l.b, '\n')
	f.atLineStart = end >= 0
	if end < 0 {
		end = len(l.b) - 1
	}
	f.advance(end + 1)
	return true
}

// fenceLine processes the start of a line in a block of code, which may be the closing fence.
func (f *Filter) fenceLine(l window) bool {
	body := 0
	if f.fence.quoted {
		i := leadingBlanks(l.b)
		switch {
		case i == len(l.b) && l.more:
			return false
		case i == len(l.b) || l.b[i] != '>':
			f.closeFence() // the quote has ended, and everything in it
			return true
		}
		body = i + 1
		if body < len(l.b) && l.b[body] == ' ' {
			body++
		}
	}
	i := body + leadingBlanks(l.b[body:])
	n, ok := l.run(i, f.fence.c)
	if !ok {
		return false
	}
	if n >= f.fence.n {
		end := i + n + leadingBlanks(l.b[i+n:])
		if end == len(l.b) && l.more {
			return false
		}
		if l.endsLine(end) {
			f.advance(min(end+1, len(l.b)))
			if end < len(l.b) {
				f.closeFence()
			}
			return true
		}
	}
	f.atLineStart = false
	f.advance(body + min(f.fence.skip, i-body))
	f.fence.skip = 0
	return true
}

// closeFence ends a block of code. The lines of the fences disappear; the text that replaces the
// code has a line of its own.
func (f *Filter) closeFence() {
	f.fence = fence{}
	if f.opt.Code {
		f.newline()
	} else {
		f.nextLine()
	}
}
