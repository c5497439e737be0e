package card

import (
	"slices"
	"strconv"
	"strings"
)

// maxCloze limits how deeply clozes nest; Anki's own limit is 10 (rslib/src/cloze.rs). Deeper ones
// are treated as text.
const maxCloze = 16

// maxClozes is the largest number of a cloze, as in Anki.
const maxClozes = 500

// openCloze is a cloze whose end was not read yet.
type openCloze struct {
	numbers string
	text    strings.Builder
}

// walkClozes replaces each {{c1::words::hint}} of a text by what f returns for its words; inner
// ones first. Time and memory are proportional to the text.
func walkClozes(s string, f func(numbers, words, hint string) string) string {
	stack := []*openCloze{{}}
	for s != "" {
		i := strings.IndexAny(s, "{}")
		if i < 0 {
			break
		}
		top := stack[len(stack)-1]
		top.text.WriteString(s[:i])
		s = s[i:]
		numbers, rest, ok := clozeStart(s)
		switch {
		case ok && len(stack) <= maxCloze:
			stack = append(stack, &openCloze{numbers: numbers})
			s = rest
		case len(stack) > 1 && strings.HasPrefix(s, "}}"):
			s = s[2:]
			stack = stack[:len(stack)-1]
			words, hint := top.text.String(), ""
			if !strings.HasPrefix(words, occlusionMark) {
				words, hint, _ = strings.Cut(words, "::")
			}
			stack[len(stack)-1].text.WriteString(f(top.numbers, words, hint))
		default:
			top.text.WriteString(s[:1])
			s = s[1:]
		}
	}
	stack[len(stack)-1].text.WriteString(s)
	var b strings.Builder
	for i, part := range stack {
		if i > 0 { // not closed
			b.WriteString("{{c" + part.numbers + "::")
		}
		b.WriteString(part.text.String())
	}
	return b.String()
}

// clozes renders a text with clozes. In the question, the deletion being asked shows its hint or
// […]; the answer shows everything. Shapes on pictures are collected.
func (s *Side) clozes(text string) string {
	found := false
	out := walkClozes(text, func(numbers, words, hint string) string {
		asked := contains(numbers, s.Ordinal)
		found = found || asked
		if spec, ok := strings.CutPrefix(words, occlusionMark); ok {
			if !s.Plain {
				s.addShape(spec, asked, contains(numbers, 0))
			}
			return ""
		}
		switch {
		case s.Plain && (!asked || s.Answer):
			return words
		case !asked:
			return `<span class="cloze-inactive">` + words + `</span>`
		case s.Answer:
			return `<span class="cloze">` + words + `</span>`
		}
		words = "[…]"
		if strings.TrimSpace(hint) != "" {
			words = "[" + hint + "]"
		}
		if s.Plain {
			return words
		}
		return `<span class="cloze">` + words + `</span>`
	})
	if !found && !s.Plain {
		return "" // as in Anki, so that a template can show another field instead
	}
	return out
}

// activeClozes returns only the deletions being asked.
func activeClozes(text string, ordinal int, answer bool) string {
	var list []string
	walkClozes(text, func(numbers, words, hint string) string {
		if contains(numbers, ordinal) {
			switch {
			case answer:
				list = append(list, words)
			case strings.TrimSpace(hint) != "":
				list = append(list, hint)
			default:
				list = append(list, "…")
			}
		}
		return words
	})
	return strings.Join(list, ", ")
}

// typedClozes returns what is to be typed: the deletions being asked, once if they are all the
// same.
func typedClozes(text string, ordinal int) string {
	var list []string
	walkClozes(text, func(numbers, words, _ string) string {
		if contains(numbers, ordinal) {
			list = append(list, words)
		}
		return words
	})
	if len(list) > 0 && len(slices.Compact(slices.Clone(list))) == 1 {
		return list[0]
	}
	return strings.Join(list, ", ")
}

// ClozeNumbers returns the numbers of the clozes of some fields, sorted: a note of a cloze type has
// a card for each. 0 and what is over 500 make no card.
func ClozeNumbers(fields ...string) []int {
	var out []int
	for _, field := range fields {
		walkClozes(field, func(numbers, words, _ string) string {
			for n := range strings.SplitSeq(numbers, ",") {
				if i, err := strconv.Atoi(n); err == nil && i > 0 && i <= maxClozes {
					out = append(out, i)
				}
			}
			return words
		})
	}
	slices.Sort(out)
	return slices.Compact(out)
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
		if i, err := strconv.Atoi(s); err == nil && i == n {
			return true
		}
	}
	return false
}
