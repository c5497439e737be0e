package plain

import (
	"bytes"
	"strings"
	"unicode/utf8"
)

// tags are the HTML tags that are removed, with the texts that replace the opening and the closing
// tag. Other text in angle brackets is kept.
var tags = map[string][2]string{
	"br": {"\n", "\n"}, "hr": {"\n", "\n"},
	"p": {"", "\n"}, "div": {"", "\n"}, "tr": {"", "\n"}, "ul": {}, "ol": {}, "li": {"· ", "\n"},
	"blockquote": {"", "\n"},
	"h1":         {"", "\n"}, "h2": {"", "\n"}, "h3": {"", "\n"}, "h4": {"", "\n"}, "h5": {"", "\n"}, "h6": {"", "\n"},
	"pre": {"", "\n"}, "details": {}, "summary": {"", "\n"}, "center": {},
	"table": {}, "thead": {}, "tbody": {}, "td": {"", " "}, "th": {"", " "},
	"a": {}, "b": {}, "i": {}, "u": {}, "s": {}, "em": {}, "strong": {}, "del": {}, "ins": {}, "sub": {}, "sup": {},
	"span": {}, "font": {}, "small": {}, "big": {}, "mark": {}, "kbd": {}, "code": {}, "img": {},
}

// tag processes a <.
func (f *Filter) tag(l window) bool {
	if comment, ok := l.prefix("<!--"); !ok {
		return false
	} else if comment {
		return f.comment(l)
	}
	if f.opt.Speech {
		if think, ok := l.prefix(thinkTag); !ok {
			return false
		} else if think {
			f.thought = true
			f.advance(len(thinkTag))
			return true
		}
	}
	i := 1
	closing := i < len(l.b) && l.b[i] == '/'
	if closing {
		i++
	}
	name := i
	for i < len(l.b) && isWord(rune(l.b[i])) {
		i++
	}
	if i == len(l.b) && l.more {
		return false
	}
	if address, ok := l.address(1); !ok {
		return false
	} else if address {
		return f.autolink(l)
	}
	shows, known := tags[strings.ToLower(string(l.b[name:i]))]
	if !known {
		f.emit(1)
		return true
	}
	n := bytes.IndexAny(l.b[i:], "<>\n")
	if n < 0 && l.more {
		return false
	}
	if n < 0 || l.b[i+n] != '>' || !areAttributes(l.b[i:i+n]) {
		f.emit(1)
		return true
	}
	f.advance(i + n + 1)
	if closing {
		f.insert(shows[1])
	} else {
		f.insert(shows[0])
	}
	return true
}

// The tags around what models think. Those of Qwen and DeepSeek write them into their answers.
const thinkTag, thinkEnd = "<think>", "</think>"

// inThought skips what a model thinks.
func (f *Filter) inThought(l window) bool {
	if i := bytes.Index(l.b, []byte(thinkEnd)); i >= 0 {
		f.advance(i + len(thinkEnd))
		f.thought, f.prev = false, ' '
		if f.blank {
			f.nextLine()
		}
		return true
	}
	n := len(l.b)
	if !l.end {
		n -= len(thinkEnd) - 1
	}
	if n <= 0 {
		return false
	}
	f.advance(n)
	return true
}

// insert outputs the text that replaces a tag.
func (f *Filter) insert(s string) {
	switch {
	case s == "\n" && f.inTableRow:
		f.cellGap = true
	case s == "\n":
		f.newline()
	case s == "· " && f.opt.Speech:
	case s != "":
		f.writeString(s)
	}
}

// areAttributes reports whether b can follow a tag's name: a<b and c>d contains no tag.
func areAttributes(b []byte) bool {
	b = bytes.TrimSpace(bytes.TrimSuffix(b, []byte("/")))
	return len(b) == 0 || bytes.IndexByte(b, '=') > 0
}

func (f *Filter) comment(l window) bool {
	i := bytes.Index(l.b, []byte("-->"))
	if i < 0 && l.more {
		return false
	}
	if i < 0 {
		f.emit(1)
		return true
	}
	f.advance(i + len("-->"))
	return true
}

// autolink processes an address in angle brackets (CommonMark 0.31.2 §6.5) and keeps the address.
func (f *Filter) autolink(l window) bool {
	i := bytes.IndexAny(l.b[1:], " <>\n")
	if i < 0 && l.more {
		return false
	}
	if i < 0 || l.b[1+i] != '>' {
		f.emit(1)
		return true
	}
	f.remove(1+i, 2+i)
	f.advance(1)
	return true
}

var entities = []struct{ name, shows string }{
	{"&nbsp;", " "}, {"&amp;", "&"}, {"&lt;", "<"}, {"&gt;", ">"}, {"&quot;", `"`}, {"&#39;", "'"},
}

// entity processes an &.
func (f *Filter) entity(l window) bool {
	for _, e := range entities {
		yes, ok := l.prefix(e.name)
		if !ok {
			return false
		}
		if yes {
			f.writeString(e.shows)
			f.advance(len(e.name))
			return true
		}
	}
	f.emit(1)
	return true
}

// address is an address that is being read. It is removed or copied unchanged, without looking for
// markup in it.
type address struct {
	on    bool
	depth int  // of nested parentheses
	host  bool // its host may go on
	paren rune // the parenthesis around it, which is removed too
}

var addressBeginnings = []string{"http://", "https://", "www."}

// address reports whether an address begins at i.
func (l window) address(i int) (yes, ok bool) {
	for _, begin := range addressBeginnings {
		n := 0
		for n < len(begin) && i+n < len(l.b) && lower(l.b[i+n]) == begin[n] {
			n++
		}
		switch {
		case i+n == len(l.b):
			if l.more {
				return false, false
			}
		case n == len(begin):
			return isWord(rune(l.b[i+n])), true
		}
	}
	return false, true
}

func lower(c byte) byte {
	if c >= 'A' && c <= 'Z' {
		c += 'a' - 'A'
	}
	return c
}

// beginAddress processes a character of size bytes that may begin an address or be the parenthesis
// around one.
func (f *Filter) beginAddress(l window, size int) bool {
	paren, _ := utf8.DecodeRune(l.b)
	at := size
	if paren != '(' && paren != '（' {
		paren, at = 0, 0
	}
	yes, ok := l.address(at)
	if !ok {
		return false
	}
	if !yes {
		f.emit(size)
		return true
	}
	if f.opt.Speech {
		if at, ok = l.hostStart(); !ok {
			return false
		}
	}
	f.address = address{on: true, paren: paren, host: true}
	if f.opt.URLs {
		f.noteRemoved()
	}
	f.advance(at)
	return true
}

// hostStart returns where the name of the host begins, without www., in the address at the start of
// the window.
func (l window) hostStart() (n int, ok bool) {
	if i := bytes.Index(l.b, []byte("://")); i >= 0 && i <= len("https") {
		n = i + len("://")
	}
	const www = "www."
	for i := 0; i < len(www); i++ {
		switch {
		case n+i == len(l.b):
			return n, !l.more
		case lower(l.b[n+i]) != www[i]:
			return n, true
		}
	}
	return n + len(www), true
}

// showAddress processes n bytes of an address.
func (f *Filter) showAddress(n int) {
	switch {
	case f.opt.URLs:
		f.advance(n)
	case f.opt.Speech:
		host := 0
		for b := f.buf[f.pos : f.pos+n]; f.address.host && host < n; host++ {
			if c := b[host]; !isWord(rune(c)) && c != '.' && c != '-' {
				f.address.host = false
				break
			}
		}
		f.write(f.buf[f.pos : f.pos+host])
		f.advance(n)
	default:
		f.emit(n)
	}
}

// inAddress processes a part of an address. Punctuation is part of it only if more of it follows.
func (f *Filter) inAddress(l window) bool {
	n := 0
	for n < len(l.b) && f.address.accepts(l.b[n]) {
		n++
	}
	if n > 0 {
		f.showAddress(n)
		return true
	}
	for n < len(l.b) && strings.IndexByte(".,;:!?'_~", l.b[n]) >= 0 {
		n++
	}
	if n == len(l.b) && l.more {
		return false
	}
	if a := f.address; n > 0 && n < len(l.b) && a.accepts(l.b[n]) {
		f.showAddress(n)
		return true
	}
	next, ok := l.rune(0)
	if !ok {
		return false
	}
	if next == ')' || next == '）' {
		if f.address.paren != 0 {
			f.advance(utf8.RuneLen(next))
			f.address.paren = 0
		}
	}
	f.endAddress()
	return true
}

// accepts reports whether c is part of an address, and counts its parentheses.
func (a *address) accepts(c byte) bool {
	switch {
	case c == '(':
		a.depth++
		return true
	case c == ')' && a.depth > 0:
		a.depth--
		return true
	}
	return isWord(rune(c)) || strings.IndexByte("-/@#$%&=+", c) >= 0
}

// endAddress ends an address. It outputs the parenthesis that was held back if the address did not
// fill it.
func (f *Filter) endAddress() {
	if f.address.paren != 0 {
		f.writeString(string(f.address.paren))
	}
	f.address = address{}
}
