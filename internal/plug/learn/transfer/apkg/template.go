package apkg

import (
	"strings"
)

// errTemplateTooLarge is the error of cards whose templates repeat their fields too often.
var errTemplateTooLarge = msgHuge.Errorf()

// noteType defines how a note's fields form questions and answers.
type noteType struct {
	fields    []string
	cloze     bool
	templates []template // by card index; cloze types have one for all
}

type template struct{ question, answer []node }

// node is a piece of a template: text, a field, or the start or end of a section that depends on
// whether a field is empty.
type node struct {
	kind    byte // 't' text, 'f' field, '#' and '^' section starts, '/' section end
	text    string
	filters []string // of a field, outermost first
}

// parseTemplate splits a template at {{…}} (rslib/src/template.rs). An unclosed tag is text.
func parseTemplate(s string) []node {
	var nodes []node
	for {
		before, rest, found := strings.Cut(s, "{{")
		inside, after, closed := strings.Cut(rest, "}}")
		if !found || !closed || len(nodes) >= maxPieces {
			if s != "" {
				nodes = append(nodes, node{kind: 't', text: s})
			}
			return nodes
		}
		if before != "" {
			nodes = append(nodes, node{kind: 't', text: before})
		}
		nodes = append(nodes, parseTag(inside))
		s = after
	}
}

func parseTag(inside string) node {
	inside = strings.TrimSpace(strings.TrimPrefix(inside, "{"))
	if inside == "" {
		return node{kind: 't'}
	}
	switch c := inside[0]; c {
	case '#', '^', '/':
		return node{kind: c, text: strings.TrimSpace(inside[1:])}
	case '!': // comment
		return node{kind: 't'}
	}
	parts := strings.Split(inside, ":")
	n := node{kind: 'f', text: strings.TrimSpace(parts[len(parts)-1])}
	for _, f := range parts[:len(parts)-1] {
		n.filters = append(n.filters, strings.TrimSpace(f))
	}
	return n
}

// side is one side of a card during rendering.
type side struct {
	values  map[string]string // fields, and Anki's special fields
	ordinal int               // of the cloze being asked, from 1
	answer  bool
	work    int // bytes of fields processed
}

// render inserts fields into a template and returns HTML. Sections may nest to any depth: hidden
// ones are counted, without recursion.
func (s *side) render(nodes []node) (string, error) {
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
		if b.Len() > maxField || s.work > maxWork {
			return "", errTemplateTooLarge
		}
	}
	return b.String(), nil
}

func (s *side) empty(field string) bool {
	if n, ok := strings.CutPrefix(field, "c"); ok && isNumber(n) { // section for one cloze
		return n != itoa(s.ordinal)
	}
	value := s.values[field]
	s.work += len(value)
	return Text(value) == ""
}

func (s *side) field(n node) string {
	value := s.values[n.text]
	// The innermost filter is applied first.
	for i := len(n.filters) - 1; i >= 0; i-- {
		filter, _, _ := strings.Cut(n.filters[i], " ")
		s.work += len(value)
		if s.work > maxWork {
			return ""
		}
		switch filter {
		case "cloze", "cloze-only":
			value = clozes(value, s.ordinal, s.answer)
		case "text":
			value = fieldHTML(Text(value))
		case "type", "nc", "hint", "type-answer":
			// A type-in box and a hint link do not show the field in the question.
			if !s.answer && filter != "nc" {
				return ""
			}
		case "furigana", "kana", "kanji":
			value = ruby(value, filter)
		case "tts", "tts-voices":
			return ""
		}
	}
	return value
}

// ruby parses "漢字[かんじ]", which begins at a space (rslib/src/template_filters.rs).
func ruby(s, filter string) string {
	var b strings.Builder
	for s != "" {
		open := strings.IndexByte(s, '[')
		if open < 0 || strings.HasPrefix(s[open:], "[sound:") {
			break
		}
		size := strings.IndexByte(s[open:], ']')
		if size < 0 {
			break
		}
		start := strings.LastIndexAny(s[:open], " >;") + 1
		before := s[:start]
		base, reading := s[start:open], s[open+1:open+size]
		b.WriteString(strings.TrimSuffix(before, " "))
		switch filter {
		case "furigana":
			b.WriteString(base + "(" + reading + ")")
		case "kana":
			b.WriteString(reading)
		default:
			b.WriteString(base)
		}
		s = s[open+size+1:]
	}
	b.WriteString(s)
	return b.String()
}

// card renders one card and returns the text of its question and its answer. values must hold
// Anki's special fields; card adds the note's fields. The cost is added to work.
func (t *noteType) card(fields []string, order int, values map[string]string,
	work *int64) (question, answer string, err error) {
	for i, name := range t.fields {
		if i < len(fields) {
			values[name] = fields[i]
		}
	}
	at := order
	if t.cloze {
		at = 0
	}
	if !t.cloze && len(t.templates) == 1 && len(t.fields) <= 2 || at < 0 || at >= len(t.templates) {
		return plain(fields)
	}
	s := side{values: values, ordinal: order + 1}
	defer func() { *work += int64(s.work) }()
	front, err := s.render(t.templates[at].question)
	if err != nil {
		return "", "", err
	}
	question = Text(front)
	s.answer = true
	values["FrontSide"] = ""
	back, err := s.render(t.templates[at].answer)
	if err != nil {
		return "", "", err
	}
	answer = Text(afterAnswerLine(back))
	if question == "" || answer == "" && !t.cloze { // rendered by a script, or from pictures, which are dropped
		return plain(fields)
	}
	return question, answer, nil
}

// plain returns the first field as the question and the others as the answer.
func plain(fields []string) (question, answer string, err error) {
	var rest []string
	for i, f := range fields {
		switch text := Text(f); {
		case i == 0:
			question = text
		case text != "":
			rest = append(rest, text)
		}
	}
	answer = strings.Join(rest, "\n\n")
	if len(question)+len(answer) > 2*maxField {
		return "", "", errTemplateTooLarge
	}
	return question, answer, nil
}

// afterAnswerLine removes the question from an answer: everything before <hr id=answer>.
func afterAnswerLine(s string) string {
	for from := 0; ; {
		i := strings.Index(s[from:], "<hr")
		if i < 0 {
			return s
		}
		from += i
		end := strings.IndexByte(s[from:], '>')
		if end < 0 {
			return s
		}
		tag := strings.NewReplacer(`"`, "", "'", "", " ", "").Replace(s[from : from+end])
		from += end + 1
		if strings.HasPrefix(tag, "<hrid=answer") {
			return s[from:]
		}
	}
}
