package card

import (
	"errors"
	"html"
	"regexp"
	"strconv"
	"strings"
)

// Limits of templates. A template may repeat a field any number of times, and a field may be large.
const (
	maxSide   = 1 << 20  // bytes of a rendered side
	maxPieces = 10_000   // nodes of a template, which need more memory than its text
	maxWork   = 16 << 20 // bytes of fields that one side processes
)

// ErrTooLarge is the error of cards whose templates repeat their fields too often.
var ErrTooLarge = errors.New("the templates of the card make too much of its fields")

// Template is a parsed template.
type Template []node

// node is a piece of a template: text, a field, or the start or end of a section that depends on
// whether a field is empty.
type node struct {
	kind    byte // 't' text, 'f' field, '#' and '^' section starts, '/' section end
	text    string
	filters []string // of a field, outermost first
}

// Parse splits a template at {{…}}, or at <%…%> if it begins with {{=<% %>=}}
// (rslib/src/template.rs). Comments of HTML are text; an unclosed tag is, too.
func Parse(s string) Template {
	begin, end := "{{", "}}"
	if rest, ok := strings.CutPrefix(strings.TrimLeft(s, " \t\r\n"), "{{=<% %>=}}"); ok {
		s, begin, end = rest, "<%", "%>"
	}
	var nodes Template
	text := func(t string) {
		if t != "" {
			nodes = append(nodes, node{kind: 't', text: t})
		}
	}
	comments := true // a comment that begins may end
	open := -1       // where the next tag begins, if it is not before from
	for from := 0; ; {
		if open < from {
			i := strings.Index(s[from:], begin)
			if i < 0 {
				break
			}
			open = from + i
		}
		if len(nodes) >= maxPieces {
			break
		}
		if comment := strings.Index(s[from:open], "<!--"); comments && comment >= 0 {
			comment += from
			if size := strings.Index(s[comment:], "-->"); size >= 0 {
				from = comment + size
				continue
			}
			comments = false
		}
		size := strings.Index(s[open:], end)
		if size < 0 {
			break
		}
		text(s[:open])
		nodes = append(nodes, parseTag(s[open+len(begin):open+size]))
		s, from, open = s[open+size+len(end):], 0, -1
	}
	text(s)
	return nodes
}

func parseTag(inside string) node {
	inside = strings.TrimSpace(strings.TrimLeft(inside, "{"))
	if inside == "" {
		return node{kind: 't'}
	}
	switch c := inside[0]; c {
	case '#', '^', '/':
		return node{kind: c, text: strings.TrimSpace(inside[1:])}
	case '!', '=': // a comment, or other delimiters
		return node{kind: 't'}
	}
	parts := strings.Split(inside, ":")
	n := node{kind: 'f', text: strings.TrimSpace(parts[len(parts)-1])}
	for _, f := range parts[:len(parts)-1] {
		n.filters = append(n.filters, strings.TrimSpace(f))
	}
	return n
}

// Side renders one side of a card.
type Side struct {
	Values  map[string]string // HTML of the fields, and of Anki's special fields
	Ordinal int               // of the cloze being asked, from 1
	Answer  bool
	// Plain leaves out what only a page can show: the marks of clozes, hints, boxes to type in.
	Plain bool
	// Typed is the field that the person is to type, as text; set by [Side.Render] if the template
	// has a filter type:.
	Typed string
	// Work counts the bytes of fields that were processed.
	Work int

	shapes []shape // on pictures, in the order of the text
}

// Render inserts fields into a template and returns HTML, which is as harmful as they are. Sections
// may nest to any depth: hidden ones are counted, without recursion.
func (s *Side) Render(nodes Template) (string, error) {
	var b strings.Builder
	hidden := 0 // nesting depth since the first hidden section
	for _, n := range nodes {
		switch n.kind {
		case '#', '^':
			if hidden > 0 || s.empty(n.text) == (n.kind == '#') {
				hidden++
			}
		case '/':
			if hidden > 0 {
				hidden--
			}
		case 't':
			if hidden == 0 {
				b.WriteString(n.text)
			}
		case 'f':
			if hidden == 0 {
				b.WriteString(s.field(n))
			}
		}
		if b.Len() > maxSide || s.Work > maxWork {
			return "", ErrTooLarge
		}
	}
	return b.String(), nil
}

func (s *Side) empty(field string) bool {
	if n, ok := strings.CutPrefix(field, "c"); ok && isNumber(n) { // section for one cloze
		return n != strconv.Itoa(s.Ordinal)
	}
	value := s.Values[field]
	s.Work += len(value)
	return IsEmpty(value)
}

// blank is what an editor leaves in a field that was emptied (rslib/src/template.rs,
// field_is_empty).
var blank = regexp.MustCompile(`(?i)^(?:[\s\x{a0}]|&nbsp;|</?(?:br|div|p) ?/?>)*$`)

// IsEmpty reports whether a field has nothing to show.
func IsEmpty(field string) bool { return blank.MatchString(field) }

func (s *Side) field(n node) string {
	value := s.Values[n.text]
	// The innermost filter is applied first.
	for i := len(n.filters) - 1; i >= 0; i-- {
		filter, _, _ := strings.Cut(n.filters[i], " ")
		s.Work += len(value)
		if s.Work > maxWork {
			return ""
		}
		switch filter {
		case "cloze":
			if i > 0 && n.filters[i-1] == "type" {
				return s.typeIn(typedClozes(value, s.Ordinal))
			}
			value = s.clozes(value)
		case "cloze-only":
			value = activeClozes(value, s.Ordinal, s.Answer)
		case "text":
			value = html.EscapeString(StripHTML(value))
		case "type":
			return s.typeIn(value)
		case "hint":
			value = s.hint(n.text, value)
		case "furigana", "kana", "kanji":
			value = ruby(value, filter, s.Plain)
		case "tts", "tts-voices":
			return ""
		}
	}
	return value
}

// typeIn returns what stands in place of a box to type in: nothing in the question, the expected
// text in the answer.
func (s *Side) typeIn(value string) string {
	if s.Plain {
		if s.Answer {
			return value
		}
		return ""
	}
	s.Typed = strings.TrimSpace(StripHTML(value))
	if !s.Answer || s.Typed == "" {
		return ""
	}
	return `<code id="typeans">` + html.EscapeString(s.Typed) + `</code>`
}

// hint returns a field that is shown when somebody asks for it.
func (s *Side) hint(name, value string) string {
	switch {
	case s.Plain && !s.Answer || strings.TrimSpace(value) == "":
		return ""
	case s.Plain:
		return value
	}
	return `<details class="hint"><summary>` + html.EscapeString(name) + `</summary>` + value + `</details>`
}

// ruby parses "漢字[かんじ]", which begins at a space (rslib/src/template_filters.rs).
func ruby(s, filter string, plain bool) string {
	s = strings.ReplaceAll(s, "&nbsp;", " ")
	var b strings.Builder
	for s != "" {
		open := strings.IndexByte(s, '[')
		if open < 0 {
			break
		}
		size := strings.IndexByte(s[open:], ']')
		if size < 0 {
			break
		}
		if strings.HasPrefix(s[open:], "[sound:") {
			b.WriteString(s[:open+size+1])
			s = s[open+size+1:]
			continue
		}
		start := strings.LastIndexAny(s[:open], " >;") + 1
		before := s[:start]
		base, reading := s[start:open], s[open+1:open+size]
		b.WriteString(strings.TrimSuffix(before, " "))
		switch {
		case filter == "furigana" && plain:
			b.WriteString(base + "(" + reading + ")")
		case filter == "furigana":
			b.WriteString("<ruby>" + base + "<rt>" + reading + "</rt></ruby>")
		case filter == "kana":
			b.WriteString(reading)
		default:
			b.WriteString(base)
		}
		s = s[open+size+1:]
	}
	b.WriteString(s)
	return b.String()
}

func isNumber(s string) bool {
	return s != "" && strings.Trim(s, "0123456789") == ""
}
