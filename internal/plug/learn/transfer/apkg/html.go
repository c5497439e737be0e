package apkg

import (
	"strconv"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/html"
)

// Text converts a field's HTML to readable text, with Markdown for bold, italics, lists and code.
// Pictures and sounds are replaced by their names. Time and memory are proportional to the length
// of src, however deeply its elements nest.
func Text(src string) string {
	if strings.IndexByte(src, 0) >= 0 {
		src = strings.ReplaceAll(src, "\x00", "")
	}
	if !strings.ContainsAny(src, "<&[\u00a0") {
		return strings.TrimSpace(strings.ToValidUTF8(collapse(src), "\ufffd"))
	}
	p := printer{}
	z := html.NewTokenizer(strings.NewReader(src))
	for {
		switch z.Next() {
		case html.ErrorToken:
			return p.end()
		case html.TextToken:
			if p.hidden == "" {
				p.text(string(z.Text()))
			}
		case html.StartTagToken, html.SelfClosingTagToken:
			p.open(z)
		case html.EndTagToken:
			name, _ := z.TagName()
			p.close(string(name))
		}
	}
}

const (
	bold = iota
	italic
	code
	marks
)

var markers = [marks]string{bold: "**", italic: "*", code: "`"}

// maxIndent limits the indentation of nested lists; deeper ones are indented no further.
const maxIndent = 6

// maxBreaks limits consecutive line breaks.
const maxBreaks = 20

// printer writes text; it delays breaks, spaces and markers until the next word.
type printer struct {
	b      strings.Builder
	lines  int  // breaks before the next word
	space  bool // before the next word
	pre    int  // depth of elements with preformatted white space
	hidden string
	depth  [marks]int  // of elements
	opened [marks]bool // the marker is written
	lists  []int       // next number of each open list; 0: bullets
	deeper int         // number of lists beyond maxIndent
}

// collapse replaces each run of HTML white space by one space.
func collapse(s string) string { return strings.Join(strings.FieldsFunc(s, isSpace), " ") }

func isSpace(r rune) bool {
	return r == ' ' || r == '\n' || r == '\t' || r == '\r' || r == '\f'
}

func (p *printer) text(s string) {
	s = strings.ToValidUTF8(s, "\ufffd")
	if p.pre > 0 {
		p.word(strings.ReplaceAll(s, "\r", ""))
		return
	}
	for s != "" {
		if i := strings.IndexFunc(s, isSpace); i != 0 {
			if i < 0 {
				i = len(s)
			}
			p.word(s[:i])
			s = s[i:]
		}
		rest := strings.TrimLeftFunc(s, isSpace)
		p.space = p.space || len(rest) < len(s)
		s = rest
	}
}

// word writes the pending breaks, spaces and markers, then s.
func (p *printer) word(s string) {
	if s == "" {
		return
	}
	p.flush()
	for i := range marks {
		if p.depth[i] > 0 && !p.opened[i] {
			p.b.WriteString(markers[i])
			p.opened[i] = true
		}
	}
	p.b.WriteString(strings.ReplaceAll(s, "\u00a0", " "))
}

func (p *printer) flush() {
	switch {
	case p.b.Len() == 0:
	case p.lines > 0:
		p.b.WriteString(strings.Repeat("\n", min(p.lines, maxBreaks)))
	case p.space:
		p.b.WriteByte(' ')
	}
	p.lines, p.space = 0, false
}

// block starts a new line, or with 2 a new paragraph.
func (p *printer) block(lines int) { p.lines = max(p.lines, lines) }

func (p *printer) open(z *html.Tokenizer) {
	raw, more := z.TagName()
	name := string(raw)
	if p.hidden != "" {
		return
	}
	switch name {
	case "script", "style", "title", "noscript", "iframe", "svg":
		p.hidden = name
	case "br":
		p.lines++
	case "b", "strong":
		p.depth[bold]++
	case "i", "em":
		p.depth[italic]++
	case "code", "kbd", "tt":
		if p.pre == 0 {
			p.depth[code]++
		}
	case "pre", "textarea":
		p.block(1)
		p.pre++
	case "ul":
		p.list(0)
	case "ol":
		p.list(1)
	case "li":
		p.item()
	case "td", "th":
		p.word(" ")
	case "img":
		p.picture(z, more)
	case "p", "h1", "h2", "h3", "h4", "h5", "h6", "blockquote", "table":
		p.block(2)
	case "div", "tr", "hr", "section", "center", "dt", "dd":
		p.block(1)
	}
}

func (p *printer) close(name string) {
	if p.hidden != "" {
		if name == p.hidden {
			p.hidden = ""
		}
		return
	}
	switch name {
	case "b", "strong":
		p.unmark(bold)
	case "i", "em":
		p.unmark(italic)
	case "code", "kbd", "tt":
		if p.pre == 0 {
			p.unmark(code)
		}
	case "pre", "textarea":
		p.pre = max(p.pre-1, 0)
		p.block(1)
	case "ul", "ol":
		p.block(1)
		if p.deeper > 0 {
			p.deeper--
		} else if n := len(p.lists); n > 0 {
			p.lists = p.lists[:n-1]
		}
	case "p", "h1", "h2", "h3", "h4", "h5", "h6", "blockquote", "table":
		p.block(2)
	case "div", "tr", "li", "section", "center", "dt", "dd":
		p.block(1)
	}
}

func (p *printer) unmark(i int) {
	if p.depth[i] == 0 {
		return
	}
	p.depth[i]--
	if p.depth[i] == 0 && p.opened[i] {
		p.b.WriteString(markers[i])
		p.opened[i] = false
	}
}

func (p *printer) list(first int) {
	p.block(1)
	if len(p.lists) == maxIndent {
		p.deeper++
		return
	}
	p.lists = append(p.lists, first)
}

func (p *printer) item() {
	p.block(1)
	p.flush()
	n := len(p.lists)
	if n == 0 {
		p.b.WriteString("- ")
		return
	}
	p.b.WriteString(strings.Repeat("  ", n-1))
	if next := p.lists[n-1]; next > 0 {
		p.b.WriteString(strconv.Itoa(next) + ". ")
		p.lists[n-1]++
		return
	}
	p.b.WriteString("- ")
}

func (p *printer) picture(z *html.Tokenizer, more bool) {
	name := ""
	for more {
		var key, value []byte
		key, value, more = z.TagAttr()
		if string(key) == "src" && name == "" {
			name = string(value)
		}
	}
	name = strings.ToValidUTF8(collapse(name), "\ufffd")
	if name == "" || strings.HasPrefix(name, "data:") {
		p.word("[image]")
		return
	}
	p.word("[image: " + cut(name, 200) + "]")
}

func (p *printer) end() string {
	for i := marks - 1; i >= 0; i-- {
		p.depth[i] = min(p.depth[i], 1)
		p.unmark(i)
	}
	s := strings.ReplaceAll(p.b.String(), "[sound:", "[sound: ")
	s = strings.ReplaceAll(s, "[sound:  ", "[sound: ")
	return strings.TrimSpace(s)
}

// cut shortens s to at most n bytes without splitting a character.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + "…"
}

// fieldHTML is the reverse of Text for plain text: it escapes all markup and keeps line breaks and
// runs of spaces.
func fieldHTML(text string) string {
	var b strings.Builder
	b.Grow(len(text) + len(text)/8)
	last := '\n'
	for i, r := range text {
		switch {
		case r == '&':
			b.WriteString("&amp;")
		case r == '<':
			b.WriteString("&lt;")
		case r == '>':
			b.WriteString("&gt;")
		case r == '\n':
			b.WriteString("<br>")
		case r == '\t':
			b.WriteString("&nbsp;&nbsp;&nbsp;&nbsp;")
		case r == ' ' && (last == ' ' || last == '\n' || i+1 == len(text) || text[i+1] == '\n'):
			b.WriteString("&nbsp;")
		case r < ' ': // includes the separator of fields
		default:
			b.WriteRune(r)
		}
		last = r
	}
	return b.String()
}
