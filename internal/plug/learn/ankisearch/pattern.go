package ankisearch

import (
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
	"strings"
	"unicode"
)

// Pattern is a text with wildcards: * stands for any characters, _ for one, and a backslash takes
// the meaning from what follows it.
type Pattern struct {
	parts []part
	size  int // bytes of what it was read from
	wild  int // wildcards
}

// part is some text, or a wildcard.
type part struct {
	text string
	wild byte // 0, * or _
}

// NewPattern reads a text with wildcards.
func NewPattern(value string) Pattern {
	p := Pattern{size: len(value)}
	var text strings.Builder
	flush := func() {
		if text.Len() > 0 {
			p.parts = append(p.parts, part{text: text.String()})
			text.Reset()
		}
	}
	for i := 0; i < len(value); i++ {
		switch c := value[i]; {
		case c == '\\' && i+1 < len(value):
			i++
			text.WriteByte(value[i])
		case c == '*' || c == '_':
			flush()
			if n := len(p.parts); c == '*' && n > 0 && p.parts[n-1].wild == '*' {
				continue // says nothing more
			}
			p.parts, p.wild = append(p.parts, part{wild: c}), p.wild+1
		default:
			text.WriteByte(c)
		}
	}
	flush()
	return p
}

// Literal returns the text, if there are no wildcards in it.
func (p Pattern) Literal() (text string, ok bool) {
	switch {
	case len(p.parts) == 0:
		return "", true
	case len(p.parts) == 1 && p.parts[0].wild == 0:
		return p.parts[0].text, true
	}
	return "", false
}

// IsAny reports whether every text fits.
func (p Pattern) IsAny() bool {
	for _, part := range p.parts {
		if part.wild != '*' {
			return false
		}
	}
	return len(p.parts) > 0
}

// Source returns the pattern as a regular expression, without anchors.
func (p Pattern) Source() string {
	var b strings.Builder
	for _, part := range p.parts {
		switch part.wild {
		case '*':
			b.WriteString(".*")
		case '_':
			b.WriteString(".")
		default:
			b.WriteString(regexp.QuoteMeta(part.text))
		}
	}
	return b.String()
}

// Regexp returns a regular expression that a person has written. Case does not matter. Its errors
// quote little of it.
func Regexp(expression string) (*regexp.Regexp, error) {
	if len(expression) > MaxPattern {
		return nil, ErrWord
	}
	re, err := regexp.Compile(`(?i)` + expression)
	if bad, ok := errors.AsType[*syntax.Error](err); ok {
		return nil, fmt.Errorf("%s: %.100q", bad.Code, bad.Expr)
	}
	return re, err
}

// compile returns a regular expression of source, which was made of the pattern, with what stands
// around it. Case does not matter.
func (p Pattern) compile(before, source, after string) (*regexp.Regexp, error) {
	if p.size > MaxPattern || p.wild > MaxWild {
		return nil, ErrWord
	}
	return regexp.Compile(`(?is)` + before + source + after)
}

// Whole returns a regular expression for texts that fit as a whole. Case does not matter.
func (p Pattern) Whole() (*regexp.Regexp, error) { return p.compile(`^`, p.Source(), `$`) }

// Below is Whole, also for names that go on with “::” after it: of what is below a deck or a tag.
func (p Pattern) Below() (*regexp.Regexp, error) { return p.compile(`^(?:`, p.Source(), `)(?:::.*)?$`) }

// Inside returns a regular expression for texts of which a part fits. Case does not matter.
func (p Pattern) Inside() (*regexp.Regexp, error) { return p.compile(``, p.Source(), ``) }

// Word returns a regular expression for texts in which the pattern fits whole words
// (rslib/src/search/sqlwriter.rs, write_word_boundary).
func (p Pattern) Word() (*regexp.Regexp, error) {
	const letter, other = `[\p{L}\p{M}\p{N}_]`, `[^\p{L}\p{M}\p{N}_]`
	return p.compile(`(?:^|`+other+`)`, strings.ReplaceAll(p.Source(), ".*", letter+"*"), `(?:$|`+other+`)`)
}

// maxHint limits what Hint returns, in bytes.
const maxHint = 1 << 10

// Hint returns a piece of text that everything has that fits, except for the case of its ASCII
// letters: the longest, or the beginning of it. Letters whose case a database may compare otherwise
// are in none.
func (p Pattern) Hint() string {
	best := ""
	for _, part := range p.parts {
		for _, run := range strings.FieldsFunc(part.text, func(r rune) bool {
			return r >= 0x80 && (unicode.ToUpper(r) != r || unicode.ToLower(r) != r || r == unicode.ReplacementChar)
		}) {
			if len(run) > len(best) {
				best = run
			}
		}
	}
	best = foldless(best)
	return strings.ToValidUTF8(best[:min(len(best), maxHint)], "")
}

// foldless returns the longest piece of a text without k and s: there are letters beyond ASCII that
// differ from those only by case (U+212A and U+017F).
func foldless(text string) string {
	best := ""
	for _, run := range strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune("kKsS", r) }) {
		if len(run) > len(best) {
			best = run
		}
	}
	return best
}
