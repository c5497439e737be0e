// Package plain prepares answers for displays and voices: it removes what they cannot show or
// speak, such as Markdown, addresses, code and emoji, and splits what is left into sentences or
// pages.
//
// [Filter], [Splitter] and [Pager] work on a stream. Their output does not depend on how the text
// was split into pieces: every decision depends only on the text before and a bounded number of
// following bytes, and waits until those have arrived.
package plain

import (
	"bytes"
	"strings"
	"unicode"
	"unicode/utf8"

	"patchbay/internal/i18n"
)

// maxLookahead is how many bytes a [Filter] looks ahead at most, and therefore how many bytes it
// holds back at most. A link with a longer address is shown as it is written.
const maxLookahead = 512

// The texts replace a block of code, the second one for voices.
const (
	msgCodeLeftOut = i18n.Message("(code left out)")
	msgCodeOnPage  = i18n.Message("The code is on the page of this conversation.")
)

// Options define what is removed. The zero Options remove nothing; only bytes that are not UTF-8
// become U+FFFD, as always.
type Options struct {
	// Markdown removes marks and keeps words: headings, emphasis, quotes, rules, tables, fences,
	// the addresses of links and images, and HTML tags. Bullets become "· ". More than two blank
	// lines become two.
	Markdown bool
	// URLs removes addresses that begin with http://, https:// or www.
	URLs bool
	// Code replaces a block of code by a short text.
	Code bool
	// Emoji removes emoji, with their modifiers and joiners.
	Emoji bool
	// Speech prepares a text for a voice. It is Markdown, Code and Emoji; besides, an address
	// becomes the name of its host, commas separate the cells of a table, bullets are removed, and
	// so is what a model writes between <think> and </think>.
	Speech bool
	// Lang is the language of the text that replaces code.
	Lang i18n.Lang
}

// Filter removes parts of a text. It is not safe for concurrent use.
type Filter struct {
	opt   Options
	text  bytesTable // outside of code
	code  bytesTable // inside
	buf   []byte     // undecided bytes, from pos
	pos   int
	out   []byte
	final bool
	state
}

// state is everything that earlier text means for later text.
type state struct {
	// Input.
	prev        rune // the last character; a line break at the start
	atLineStart bool // only spaces and block marks so far in the line
	quoted      bool // the line began as a quote
	indent      int  // spaces before the first mark of the line

	// Shown text.
	lastShown rune
	blank     bool // the line shows nothing yet
	breaks    int  // line breaks since the last line with content

	// Open constructs.
	bullets         int  // to show if the line has content
	trimSpaces      bool // spaces are dropped up to the next other character
	dropSpace       bool // one space is dropped, because the text before it was removed
	italic          bool
	bold            boldness
	underscoreCount int  // number of _ that opened the emphasis
	strikethrough   bool // after ~~
	ticks           int  // number of ` that opened the code span
	fence           fence
	inTableRow      bool // the line is a row of a table
	cellGap         bool // a row has had space since its last output
	cellEnd         bool // and the end of a cell, for a voice
	tableRows       int  // rows of the table so far
	looseTable      bool // rows need not begin with |
	address         address
	thought         bool // between <think> and </think>
	emoji           emojiState
}

// boldness is the state of bold text. Models sometimes forget the second ** or put a space before
// it. Bold text that was opened on an earlier line, or may have been closed, is uncertain, and the
// next ** decides.
type boldness uint8

const (
	notBold boldness = iota
	bold
	maybeBold
)

// NewFilter returns a filter at the beginning of a text.
func NewFilter(opt Options) *Filter {
	if opt.Speech {
		opt.Markdown, opt.Code, opt.Emoji, opt.URLs = true, true, true, false
	}
	f := &Filter{opt: opt}
	f.text, f.code = tables(opt)
	f.reset()
	return f
}

func (f *Filter) reset() {
	f.buf, f.pos, f.final = f.buf[:0], 0, false
	f.state = state{prev: '\n', lastShown: '\n', atLineStart: true, blank: true, breaks: 1}
}

// Write adds a piece of the text, which may begin and end within a character, and returns what can
// be shown now. It holds back only bytes whose meaning depends on the following bytes, at most 512.
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

// Flush ends the text and returns what was held back. The filter is then at the beginning of
// another text.
func (f *Filter) Flush() string {
	f.out = f.out[:0]
	f.final = true
	f.run()
	f.endAddress()
	f.reset()
	return string(f.out)
}

// canPassThrough reports whether a piece has no special meaning and can be returned without a copy.
func (f *Filter) canPassThrough(piece string) bool {
	if len(f.buf) > 0 || len(piece) == 0 || len(piece) > maxLookahead || f.atLineStart || f.trimSpaces || f.dropSpace ||
		f.inTableRow || f.bullets > 0 ||
		f.address.on || f.thought || f.fence.n > 0 || f.emoji != noEmoji {
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

// run processes as many bytes as it can decide about.
func (f *Filter) run() {
	for f.pos < len(f.buf) && f.step() {
	}
	n := copy(f.buf, f.buf[f.pos:])
	f.buf, f.pos = f.buf[:n], 0
}

// step processes at least one byte, or changes the meaning of the next one. It returns false if it
// needs more bytes than there are.
func (f *Filter) step() bool {
	l := f.window()
	switch {
	case f.thought:
		return f.inThought(l)
	case f.address.on:
		return f.inAddress(l)
	case f.fence.n > 0:
		return f.inFence(l)
	case f.atLineStart:
		return f.block(l)
	}
	return f.inline(l)
}

// window is the text that a decision about its first byte may depend on. A decision made on a
// shorter window must also hold on a longer one.
type window struct {
	b    []byte
	more bool // more text will follow
	end  bool // the text ends after b
}

func (f *Filter) window() window {
	b := f.buf[f.pos:]
	if len(b) >= maxLookahead {
		return window{b: b[:maxLookahead]}
	}
	return window{b: b, more: !f.final, end: f.final}
}

// rune returns the character at i, or a line break at the end. It is not ok if more bytes are
// needed.
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

// run returns the number of bytes c from i on. It is not ok if more of them may follow.
func (l window) run(i int, c byte) (n int, ok bool) {
	for i+n < len(l.b) && l.b[i+n] == c {
		n++
	}
	return n, i+n < len(l.b) || !l.more
}

// prefix reports whether the window begins with want. It is not ok if more bytes are needed.
func (l window) prefix(want string) (yes, ok bool) {
	n := min(len(l.b), len(want))
	if string(l.b[:n]) != want[:n] {
		return false, true
	}
	return n == len(want), n == len(want) || !l.more
}

// advance skips n bytes of input.
func (f *Filter) advance(n int) {
	if n == 0 {
		return
	}
	f.prev, _ = utf8.DecodeLastRune(f.buf[f.pos : f.pos+n])
	f.pos += n
	f.emoji = noEmoji
}

// emit outputs n bytes, which contain no line break, and skips them.
func (f *Filter) emit(n int) {
	f.write(f.buf[f.pos : f.pos+n])
	f.advance(n)
}

// remove deletes the bytes from i to j, relative to the current position, from the unread input.
func (f *Filter) remove(i, j int) {
	f.buf = append(f.buf[:f.pos+i], f.buf[f.pos+j:]...)
}

// write outputs b, which contains no line break, without the spaces that are to be dropped.
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
		if !f.opt.Speech {
			f.out = append(f.out, "· "...)
			f.blank = false
		}
	}
	if f.inTableRow {
		f.writeCells(b)
		return
	}
	f.out = append(f.out, b...)
	f.noteShown(b)
}

// writeCells outputs a part of a table row. Runs of spaces, which pad columns in the source, become
// one space.
func (f *Filter) writeCells(b []byte) {
	for len(b) > 0 {
		if n := leadingBlanks(b); n > 0 {
			f.cellGap = true
			b = b[n:]
			continue
		}
		n := bytes.IndexAny(b, " \t\r")
		if n < 0 {
			n = len(b)
		}
		f.separate()
		f.out = append(f.out, b[:n]...)
		f.noteShown(b[:n])
		b = b[n:]
	}
}

// separate outputs what belongs between two words or cells of a row.
func (f *Filter) separate() {
	switch {
	case f.blank:
	case f.cellEnd && !strings.ContainsRune(fullStops+commas+".!?", f.lastShown):
		if isWide(f.lastShown) {
			f.out = append(f.out, "，"...)
		} else {
			f.out = append(f.out, ", "...)
		}
	case f.cellGap:
		f.out = append(f.out, ' ')
	}
	f.cellGap, f.cellEnd = false, false
}

func (f *Filter) writeString(s string) {
	f.write([]byte(s))
}

// noteShown updates the state for shown bytes.
func (f *Filter) noteShown(b []byte) {
	f.lastShown, _ = utf8.DecodeLastRune(b)
	for i := 0; f.blank && i < len(b); i++ {
		f.blank = isBlank(b[i])
	}
}

// noteRemoved updates the state for removed text: one of the spaces around it is removed too.
func (f *Filter) noteRemoved() { f.dropSpace = f.dropSpace || f.blank || f.lastShown == ' ' }

// maxBreaks is the number of line breaks of two blank lines.
const maxBreaks = 3

// newline ends a line in the input and in the output.
func (f *Filter) newline() {
	if f.bold == bold {
		f.bold = maybeBold
	}
	if f.blank {
		f.bold, f.looseTable = notBold, false
	}
	f.italic, f.underscoreCount, f.strikethrough, f.ticks = false, 0, false, 0
	f.inTableRow, f.cellGap, f.cellEnd, f.trimSpaces, f.dropSpace = false, false, false, false, false
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

// nextLine begins a line of the input.
func (f *Filter) nextLine() {
	f.prev, f.atLineStart, f.quoted, f.indent, f.bullets = '\n', true, false, 0, 0
}

// hasMaxBlankLines reports whether no further blank line may be shown.
func (f *Filter) hasMaxBlankLines() bool { return f.opt.Markdown && f.blank && f.breaks >= maxBreaks }

// isBlank reports whether c is space within a line.
func isBlank(c byte) bool { return c == ' ' || c == '\t' || c == '\r' }

// isWord reports whether r can be part of words such as 3*4 and snake_case.
func isWord(r rune) bool {
	return r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
}

func isLetter(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }
