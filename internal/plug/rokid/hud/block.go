package hud

import "bytes"

// fence is a block of code that has begun.
type fence struct {
	c      byte // ` or ~; its length n is that of the mark that began it
	n      int
	quoted bool // each of its lines begins with >
	skip   int  // spaces of its first line that are shown already
}

// block reads what can only be at the start of a line.
func (f *Filter) block(l look) bool {
	switch c := l.b[0]; {
	case isBlank(c):
		return f.margin(l)
	case c == '\n':
		f.rows = 0
		f.pass(1)
		f.newline()
		return true
	case c == '`' || c == '~':
		return f.openFence(l)
	case !f.opt.Markdown:
	case c == '>':
		f.pass(1)
		f.quoted, f.trim = true, true
		return true
	case c == '#':
		return f.heading(l)
	case c == '-' || c == '*' || c == '+' || c == '_' || c == '=':
		return f.ruleOrBullet(l)
	case c == '|':
		return f.tableRow(l)
	}
	return f.textBegins()
}

// textBegins is the end of what marks the start of a line.
func (f *Filter) textBegins() bool {
	f.start = false
	f.rows = 0
	f.row = f.loose
	return true
}

// margin reads the space in front of a line. It is shown at once, except after
// as many blank lines as there may be: the line may be one more of them.
func (f *Filter) margin(l look) bool {
	n := blanks(l.b)
	if f.full() {
		if n == len(l.b) && l.more {
			return false
		}
		if n < len(l.b) && l.b[n] == '\n' {
			f.pass(n)
			return true
		}
	}
	if !f.trim {
		f.indent += n
	}
	f.show(n)
	return true
}

// blanks is how many bytes of space b begins with.
func blanks(b []byte) int {
	n := 0
	for n < len(b) && isBlank(b[n]) {
		n++
	}
	return n
}

// heading also takes ## without a space before a character that is not ASCII:
// models write that, and it cannot be a #tag.
func (f *Filter) heading(l look) bool {
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
		f.pass(n)
		f.textBegins()
		f.trim = true
		return true
	}
	return f.textBegins()
}

// ruleOrBullet reads a line across the page, the line below a heading or a
// table's head, or the mark of a list.
func (f *Filter) ruleOrBullet(l look) bool {
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
		f.loose = true
		f.dropLine(i)
		return true
	case ends && marks > 2 && c != '+' && (c != '=' || marks+spaces == marks+trailing(l.b[:i])):
		f.dropLine(i)
		return true
	case !ends && (c == '-' || c == '*' || c == '+') && isBlank(l.b[1]):
		f.bullets++
		f.pass(1)
		f.trim = true
		return true
	}
	return f.textBegins()
}

// trailing is how many bytes of space b ends with.
func trailing(b []byte) int { return len(b) - len(bytes.TrimRight(b, " \t\r")) }

// endsLine says whether a line ends at i.
func (l look) endsLine(i int) bool { return i < len(l.b) && l.b[i] == '\n' || i == len(l.b) && l.end }

// dropLine goes past n bytes that are the rest of a line, and past its break if
// the line shows nothing.
func (f *Filter) dropLine(n int) {
	if f.last == '\n' && f.pos+n < len(f.buf) {
		n++
		f.pass(n)
		f.nextLine()
		return
	}
	f.pass(n)
}

// tableRow reads the first | of a line. A line such as |x| < 3 is none of a
// table.
func (f *Filter) tableRow(l look) bool {
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
	if l.endsLine(i) && dashes > 0 && (f.rows == 1 || dashes > 2) {
		f.rows++
		f.dropLine(i)
		return true
	}
	row := f.rows > 0 || f.loose || len(l.b) > 1 && isBlank(l.b[1])
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
		return f.textBegins()
	}
	f.start, f.row, f.gap = false, true, false
	f.rows++
	f.pass(1)
	return true
}

func isRow(line []byte) bool {
	line = bytes.TrimRight(line, " \t\r")
	return bytes.HasSuffix(line, []byte("|")) && bytes.Count(line, []byte("|")) > 2
}

// openFence reads the line before a block of code.
func (f *Filter) openFence(l look) bool {
	if !f.opt.Markdown && !f.opt.Code {
		return f.textBegins()
	}
	c := l.b[0]
	n, ok := l.run(0, c)
	if !ok {
		return false
	}
	if n < 3 {
		return f.textBegins()
	}
	end := bytes.IndexByte(l.b, '\n')
	if end < 0 {
		end = len(l.b)
	}
	if c == '`' && bytes.IndexByte(l.b[n:end], '`') >= 0 {
		return f.textBegins() // code within the line
	}
	if end == len(l.b) && l.more {
		return false
	}
	if !l.endsLine(end) {
		return f.textBegins()
	}
	f.rows = 0
	f.fence = fence{c: c, n: n, quoted: f.quoted}
	if !f.opt.Code {
		f.fence.skip = f.indent
	} else if end < len(l.b) {
		f.putString(sayCodeLeftOut.In(f.opt.Lang))
	}
	f.pass(min(end+1, len(l.b)))
	bullets := f.bullets // behind which code goes on
	f.nextLine()
	f.bullets = bullets
	f.trim = f.trim && bullets > 0
	return true
}

// inFence reads a block of code.
func (f *Filter) inFence(l look) bool {
	if f.start {
		return f.fenceLine(l)
	}
	if !f.opt.Code {
		return f.inline(l)
	}
	end := bytes.IndexByte(l.b, '\n')
	f.start = end >= 0
	if end < 0 {
		end = len(l.b) - 1
	}
	f.pass(end + 1)
	return true
}

// fenceLine reads the start of a line in a block of code, which may be the end
// of the block.
func (f *Filter) fenceLine(l look) bool {
	body := 0
	if f.fence.quoted {
		i := blanks(l.b)
		switch {
		case i == len(l.b) && l.more:
			return false
		case i == len(l.b) || l.b[i] != '>':
			f.closeFence() // the quote is over, and all that is in it
			return true
		}
		body = i + 1
		if body < len(l.b) && l.b[body] == ' ' {
			body++
		}
	}
	i := body + blanks(l.b[body:])
	n, ok := l.run(i, f.fence.c)
	if !ok {
		return false
	}
	if n >= f.fence.n {
		end := i + n + blanks(l.b[i+n:])
		if end == len(l.b) && l.more {
			return false
		}
		if l.endsLine(end) {
			f.pass(min(end+1, len(l.b)))
			if end < len(l.b) {
				f.closeFence()
			}
			return true
		}
	}
	f.start = false
	f.pass(body + min(f.fence.skip, i-body))
	f.fence.skip = 0
	return true
}

// closeFence ends a block of code. Its marks were lines of their own and leave
// none; what stands in its place does.
func (f *Filter) closeFence() {
	f.fence = fence{}
	if f.opt.Code {
		f.newline()
	} else {
		f.nextLine()
	}
}
