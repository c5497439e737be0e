// Package hud makes answers fit on a head-up display: a [Filter] takes out what
// such a display cannot show, a [Pager] ends a page where a sentence ends.
//
// Both work on a stream. What they make of a text does not depend on how it was
// cut into pieces, because every decision is made from what came before and from
// a bounded number of bytes that follow, and is put off until those are there.
package hud

import (
	"unicode"
	"unicode/utf8"

	"patchbay/internal/i18n"
)

// maxLookahead is how many bytes a [Filter] looks ahead at the most, and so how many
// it ever keeps from the wearer: a link whose address is longer is shown as it
// is written.
const maxLookahead = 512

// msgCodeLeftOut stands for a block of code.
const msgCodeLeftOut = i18n.Message("(code left out)")

// Options say what is taken out. The zero Options take out nothing; only bytes
// that are not UTF-8 become U+FFFD then, as they always do.
type Options struct {
	// Markdown takes out marks and keeps words: headings, emphasis, quotes, rules,
	// tables, fences, the addresses of links and images, HTML tags. Bullets become
	// "· ". Of more than two blank lines two are left.
	Markdown bool
	// URLs takes out addresses that begin with http://, https:// or www.
	URLs bool
	// Code puts a few words in the place of a block of code.
	Code bool
	// Emoji takes out emoji, with all that they can be made of.
	Emoji bool
	// Lang is the language of those few words.
	Lang i18n.Lang
}

// Filter takes out of a text what a head-up display cannot show. Use it from one
// goroutine at a time.
type Filter struct {
	opt   Options
	text  bytesTable // outside of code
	code  bytesTable // inside
	buf   []byte     // what is not decided on yet, from pos
	pos   int
	out   []byte
	final bool
	state
}

// state is all that the past means for what comes.
type state struct {
	// What was read.
	prev        rune // the last one; a line break at the start
	atLineStart bool // the line has had nothing but space and block marks
	quoted      bool // the line began as a quote
	indent      int  // spaces before the first mark of the line

	// What was let out.
	lastShown rune
	blank     bool // the line shows nothing yet
	breaks    int  // line breaks since the last line that shows something

	// What is under way.
	bullets         int  // that the line shows if it shows anything
	trimSpaces      bool // spaces are dropped until something else comes
	dropSpace       bool // one space is dropped: what was before it is gone
	italic          bool
	bold            boldness
	underscoreCount int  // how many _ began what is emphasised
	strikethrough   bool // after ~~
	ticks           int  // how many ` began a code span
	fence           fence
	inTableRow      bool // the line is a row of a table
	cellGap         bool // a row has had space since it last showed something
	tableRows       int  // rows of the table up to now
	looseTable      bool // the rows of the table need not begin with |
	address         address
	emoji           emojiState
}

// boldness: whoever writes forgets the second ** at times, or puts a space
// before it. What opened on an earlier line, or may have been closed, is in
// doubt, and the next ** decides.
type boldness uint8

const (
	notBold boldness = iota
	bold
	maybeBold
)

// NewFilter makes a filter that is at the beginning of a text.
func NewFilter(opt Options) *Filter {
	f := &Filter{opt: opt}
	f.text, f.code = tables(opt)
	f.reset()
	return f
}

func (f *Filter) reset() {
	f.buf, f.pos, f.final = f.buf[:0], 0, false
	f.state = state{prev: '\n', lastShown: '\n', atLineStart: true, blank: true, breaks: 1}
}

// Write takes in the next piece of the text, which may begin and end within a
// character, and returns what may be shown now. It keeps back only what the next
// bytes may still give another meaning, 512 bytes of it at the most.
func (f *Filter) Write(piece string) string {
	if f.canPassThrough(piece) {
		return piece
	}
	f.out = f.out[:0]
	for len(piece) > 0 {
		n := min(len(piece), maxLookahead)
		f.buf = append(f.buf, piece[:n]...)
		piece = piece[n:]
		f.run()
	}
	return string(f.out)
}

// Flush ends the text and returns what was kept back. The filter is then at the
// beginning of another text.
func (f *Filter) Flush() string {
	f.out = f.out[:0]
	f.final = true
	f.run()
	f.endAddress()
	f.reset()
	return string(f.out)
}

// canPassThrough lets through a piece in which nothing can have a meaning, without
// copying it for the reader.
func (f *Filter) canPassThrough(piece string) bool {
	if len(f.buf) > 0 || len(piece) == 0 || len(piece) > maxLookahead || f.atLineStart || f.trimSpaces || f.dropSpace ||
		f.inTableRow || f.bullets > 0 ||
		f.address.on || f.fence.n > 0 || f.emoji != noEmoji {
		return false
	}
	f.buf = append(f.buf, piece...)
	whole := f.plainPrefix(f.buf) == len(f.buf)
	if whole {
		f.noteShown(f.buf)
		f.prev, _ = utf8.DecodeLastRune(f.buf)
	}
	f.buf = f.buf[:0]
	return whole
}

// run decides on as much as can be decided on.
func (f *Filter) run() {
	for f.pos < len(f.buf) && f.step() {
	}
	n := copy(f.buf, f.buf[f.pos:])
	f.buf, f.pos = f.buf[:n], 0
}

// step decides on at least one byte, or changes what the next one means. It
// returns false if that takes more bytes than there are.
func (f *Filter) step() bool {
	l := f.window()
	switch {
	case f.address.on:
		return f.inAddress(l)
	case f.fence.n > 0:
		return f.inFence(l)
	case f.atLineStart:
		return f.block(l)
	}
	return f.inline(l)
}

// window is what may be seen when deciding about its first byte. A decision that
// was made on less of it must hold on more of it.
type window struct {
	b    []byte
	more bool // there will be more to see
	end  bool // the text ends after b
}

func (f *Filter) window() window {
	b := f.buf[f.pos:]
	if len(b) >= maxLookahead {
		return window{b: b[:maxLookahead]}
	}
	return window{b: b, more: !f.final, end: f.final}
}

// rune is the one at i, a line break at the end. It is not ok if it has to be
// waited for.
func (l window) rune(i int) (r rune, ok bool) {
	if i >= len(l.b) {
		return '\n', !l.more
	}
	if l.more && !utf8.FullRune(l.b[i:]) {
		return 0, false
	}
	r, _ = utf8.DecodeRune(l.b[i:])
	return r, true
}

// run is how many bytes c the window has from i on. It is not ok if there may be
// more of them.
func (l window) run(i int, c byte) (n int, ok bool) {
	for i+n < len(l.b) && l.b[i+n] == c {
		n++
	}
	return n, i+n < len(l.b) || !l.more
}

// prefix reports whether what is seen begins with want. It is not ok if that has to
// be waited for.
func (l window) prefix(want string) (yes, ok bool) {
	n := min(len(l.b), len(want))
	if string(l.b[:n]) != want[:n] {
		return false, true
	}
	return n == len(want), n == len(want) || !l.more
}

// advance goes past n bytes.
func (f *Filter) advance(n int) {
	if n == 0 {
		return
	}
	f.prev, _ = utf8.DecodeLastRune(f.buf[f.pos : f.pos+n])
	f.pos += n
	f.emoji = noEmoji
}

// emit lets n bytes out and goes past them. No line break is among them.
func (f *Filter) emit(n int) {
	f.write(f.buf[f.pos : f.pos+n])
	f.advance(n)
}

// remove takes the bytes from i to j, counted from where we are, out of what is
// still to be read.
func (f *Filter) remove(i, j int) {
	f.buf = append(f.buf[:f.pos+i], f.buf[f.pos+j:]...)
}

// write lets out what is left after the spaces that are to be dropped. No line
// break is in it.
func (f *Filter) write(b []byte) {
	if f.trimSpaces {
		for len(b) > 0 && isBlank(b[0]) {
			b = b[1:]
		}
		f.trimSpaces = len(b) == 0
	}
	if f.dropSpace && len(b) > 0 {
		if b[0] == ' ' {
			b = b[1:]
		}
		f.dropSpace = false
	}
	if len(b) == 0 {
		return
	}
	for ; f.bullets > 0; f.bullets-- {
		f.out = append(f.out, "· "...)
		f.blank = false
	}
	if f.inTableRow {
		f.writeCells(b)
		return
	}
	f.out = append(f.out, b...)
	f.noteShown(b)
}

// writeCells lets out a part of a row. Columns are padded with spaces in the
// source; here one is enough.
func (f *Filter) writeCells(b []byte) {
	for i, c := range b {
		if isBlank(c) {
			f.cellGap = true
			continue
		}
		if f.cellGap && !f.blank {
			f.out = append(f.out, ' ')
		}
		f.cellGap = false
		f.out = append(f.out, c)
		f.noteShown(b[i : i+1])
	}
}

func (f *Filter) writeString(s string) {
	f.write([]byte(s))
}

// noteShown notes what is shown.
func (f *Filter) noteShown(b []byte) {
	f.lastShown, _ = utf8.DecodeLastRune(b)
	for i := 0; f.blank && i < len(b); i++ {
		f.blank = isBlank(b[i])
	}
}

// noteRemoved notes that something was taken out: of the spaces on its two sides one
// goes with it.
func (f *Filter) noteRemoved() { f.dropSpace = f.dropSpace || f.blank || f.lastShown == ' ' }

// maxBreaks is two blank lines.
const maxBreaks = 3

// newline ends a line, in what is read and in what is shown.
func (f *Filter) newline() {
	if f.bold == bold {
		f.bold = maybeBold
	}
	if f.blank {
		f.bold, f.looseTable = notBold, false
	}
	f.italic, f.underscoreCount, f.strikethrough, f.ticks = false, 0, false, 0
	f.inTableRow, f.cellGap, f.trimSpaces, f.dropSpace = false, false, false, false
	f.emoji = noEmoji
	f.nextLine()
	if !f.blank {
		f.breaks = 0
	}
	if f.hasMaxBlankLines() {
		return
	}
	f.out = append(f.out, '\n')
	f.lastShown, f.blank, f.breaks = '\n', true, f.breaks+1
}

// nextLine makes what is read begin a line.
func (f *Filter) nextLine() {
	f.prev, f.atLineStart, f.quoted, f.indent, f.bullets = '\n', true, false, 0, 0
}

// hasMaxBlankLines says that there are as many blank lines as there may be.
func (f *Filter) hasMaxBlankLines() bool { return f.opt.Markdown && f.blank && f.breaks >= maxBreaks }

// isBlank is space within a line.
func isBlank(c byte) bool { return c == ' ' || c == '\t' || c == '\r' }

// isWord is what 3*4 and snake_case are made of.
func isWord(r rune) bool {
	return r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
}

func isLetter(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }
