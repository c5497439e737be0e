package apkg

import (
	"strconv"
	"strings"
)

// maxCloze limits how deeply clozes nest; Anki's own limit is 10 (rslib/src/cloze.rs). Deeper ones
// are treated as text.
const maxCloze = 16

// clozes renders a text with {{c1::words::hint}} in it (rslib/src/cloze.rs). In the question, the
// deletion being asked shows its hint or […]; the answer shows everything.
func clozes(s string, ordinal int, answer bool) string {
	var out []*strings.Builder // the text, and the content of each open cloze
	var asked []bool
	out = append(out, &strings.Builder{})
	for s != "" {
		i := strings.IndexAny(s, "{}")
		if i < 0 {
			break
		}
		top := out[len(out)-1]
		top.WriteString(s[:i])
		s = s[i:]
		numbers, rest, ok := clozeStart(s)
		switch {
		case ok && len(asked) < maxCloze:
			out = append(out, &strings.Builder{})
			asked = append(asked, contains(numbers, ordinal))
			s = rest
		case len(asked) > 0 && strings.HasPrefix(s, "}}"):
			s = s[2:]
			words, hint, _ := strings.Cut(top.String(), "::")
			is := asked[len(asked)-1]
			out, asked = out[:len(out)-1], asked[:len(asked)-1]
			out[len(out)-1].WriteString(renderCloze(words, hint, is && !answer))
		default:
			top.WriteString(s[:1])
			s = s[1:]
		}
	}
	out[len(out)-1].WriteString(s)
	var b strings.Builder
	for i, part := range out {
		if i > 0 { // not closed
			b.WriteString("{{c::")
		}
		b.WriteString(part.String())
	}
	return b.String()
}

func renderCloze(words, hint string, hide bool) string {
	switch {
	case !hide:
		return words
	case strings.TrimSpace(hint) == "":
		return "[…]"
	}
	return "[" + hint + "]"
}

// clozeStart parses "{{c1::" or "{{c1,2::".
func clozeStart(s string) (numbers, rest string, ok bool) {
	s, ok = strings.CutPrefix(s, "{{c")
	if !ok {
		return "", "", false
	}
	end := strings.IndexFunc(s, func(r rune) bool { return r != ',' && (r < '0' || r > '9') })
	if end < 1 || end > 100 || !strings.HasPrefix(s[end:], "::") {
		return "", "", false
	}
	return s[:end], s[end+2:], true
}

func contains(numbers string, n int) bool {
	for s := range strings.SplitSeq(numbers, ",") {
		if strings.TrimLeft(s, "0") == itoa(n) {
			return true
		}
	}
	return false
}

func itoa(n int) string { return strconv.Itoa(n) }

func isNumber(s string) bool {
	return s != "" && strings.Trim(s, "0123456789") == ""
}
