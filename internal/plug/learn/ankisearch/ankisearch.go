// Package ankisearch reads searches in the language of Anki's browser
// (https://docs.ankiweb.net/searching.html, rslib/src/search/parser.rs at 25.09). It knows how they
// are written, not what their words mean.
package ankisearch

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Limits of a search: each part costs a query some time.
const (
	MaxBytes   = 64 << 10
	MaxTerms   = 300
	MaxPattern = 4 << 10 // bytes of a text with wildcards, or of a regular expression
	MaxWild    = 32      // wildcards in such a text
	maxDepth   = 50
)

// Op is how the parts of a [Term] belong together.
type Op int8

// The operations.
const (
	Leaf Op = iota // a condition
	And            // all parts hold; without parts: everything
	Or             // one of the parts holds
	Not            // its only part does not hold
)

// Term is a search, or a part of one.
type Term struct {
	Op Op
	Of []*Term
	// Key is what stands before the colon of a condition, as written, and Value what follows it,
	// with its backslashes. Without a colon Key is empty and Value the text.
	Key, Value string
}

// Errors of a search.
var (
	ErrLong  = fmt.Errorf("a search has %d bytes at most", MaxBytes)
	ErrMany  = fmt.Errorf("a search has %d conditions at most", MaxTerms)
	ErrWord  = fmt.Errorf("a text in the search has %d bytes and %d wildcards at most", MaxPattern, MaxWild)
	ErrDeep  = fmt.Errorf("a search has %d levels of brackets at most", maxDepth)
	ErrQuote = errors.New("a quote in the search is not closed")
	ErrGroup = errors.New("a bracket in the search is not closed, or never opened")
	ErrEmpty = errors.New("a pair of brackets in the search is empty")
	ErrJoin  = errors.New("“and” or “or” in the search has nothing beside it")
)

// Parse reads a search. An empty one selects everything.
func Parse(text string) (*Term, error) {
	if len(text) > MaxBytes {
		return nil, ErrLong
	}
	p := &parser{rest: strings.ToValidUTF8(text, "\ufffd")}
	t, err := p.group(0)
	if err != nil {
		return nil, err
	}
	if t == nil {
		t = &Term{Op: And}
	}
	return t, nil
}

type parser struct {
	rest  string
	terms int
}

func (p *parser) skipSpace() { p.rest = strings.TrimLeftFunc(p.rest, unicode.IsSpace) }

// group reads terms until the end, or the bracket that closes the group. It returns nil if there
// are none.
func (p *parser) group(depth int) (*Term, error) {
	if depth > maxDepth {
		return nil, ErrDeep
	}
	var any, all []*Term // alternatives, and the parts of the last one
	joined := false      // a word that joins has just been read
	for {
		p.skipSpace()
		closes := strings.HasPrefix(p.rest, ")")
		if p.rest == "" && depth > 0 || closes && depth == 0 {
			return nil, ErrGroup
		}
		if p.rest == "" || closes {
			break
		}
		switch word := p.joiner(); {
		case word != "" && (joined || len(all) == 0):
			return nil, ErrJoin
		case word == "or":
			any, all, joined = append(any, join(And, all)), nil, true
			continue
		case word == "and":
			joined = true
			continue
		}
		t, err := p.term(depth)
		if err != nil {
			return nil, err
		}
		all, joined = append(all, t), false
	}
	switch {
	case joined:
		return nil, ErrJoin
	case len(all) == 0:
		return nil, nil
	}
	return join(Or, append(any, join(And, all))), nil
}

// join returns a term of several, or the only one.
func join(op Op, of []*Term) *Term {
	if len(of) == 1 {
		return of[0]
	}
	return &Term{Op: op, Of: of}
}

// joiner reads “and” or “or”, in whatever case, if one comes next.
func (p *parser) joiner() string {
	end := strings.IndexFunc(p.rest, func(r rune) bool { return unicode.IsSpace(r) || r == '(' || r == ')' })
	if end < 0 {
		end = len(p.rest)
	}
	word := strings.ToLower(p.rest[:end])
	if word != "and" && word != "or" {
		return ""
	}
	p.rest = p.rest[end:]
	return word
}

// term reads a condition or a group, with the signs that negate it.
func (p *parser) term(depth int) (*Term, error) {
	if p.terms++; p.terms > MaxTerms {
		return nil, ErrMany
	}
	not := false
	for strings.HasPrefix(p.rest, "-") && len(p.rest) > 1 && !unicode.IsSpace(firstRune(p.rest[1:])) {
		not, p.rest = !not, p.rest[1:]
	}
	var t *Term
	var err error
	if strings.HasPrefix(p.rest, "(") {
		p.rest = p.rest[1:]
		if t, err = p.group(depth + 1); err == nil && t == nil {
			err = ErrEmpty
		}
		if err == nil {
			p.rest = p.rest[1:] // the bracket that closes it
		}
	} else {
		t, err = p.condition()
	}
	if err == nil && not {
		t = &Term{Op: Not, Of: []*Term{t}}
	}
	return t, err
}

func firstRune(s string) rune {
	r, _ := utf8.DecodeRuneInString(s)
	return r
}

// condition reads text or key:value, in quotes or not.
func (p *parser) condition() (*Term, error) {
	var word string
	var err error
	if strings.HasPrefix(p.rest, `"`) {
		if word, err = p.quoted(); err != nil {
			return nil, err
		}
		return leaf(word), nil
	}
	end := 0 // of the word
	for end < len(p.rest) {
		r, size := utf8.DecodeRuneInString(p.rest[end:])
		if r == '"' && strings.HasSuffix(p.rest[:end], ":") && !strings.HasSuffix(p.rest[:end], `\:`) {
			word, p.rest = p.rest[:end], p.rest[end:]
			value, err := p.quoted()
			if err != nil {
				return nil, err
			}
			return leaf(word + value), nil
		}
		if unicode.IsSpace(r) || r == '(' || r == ')' || r == '"' {
			break
		}
		end += size
		if r == '\\' {
			_, size = utf8.DecodeRuneInString(p.rest[end:])
			end += size
		}
	}
	word, p.rest = p.rest[:end], p.rest[end:]
	return leaf(word), nil
}

// quoted reads a text in quotes. Its backslashes stay, but for those before quotes.
func (p *parser) quoted() (string, error) {
	var b strings.Builder
	for i := 1; i < len(p.rest); i++ {
		switch c := p.rest[i]; {
		case c == '\\' && i+1 < len(p.rest):
			if i++; p.rest[i] != '"' {
				b.WriteByte('\\')
			}
			b.WriteByte(p.rest[i])
		case c == '"':
			p.rest = p.rest[i+1:]
			return b.String(), nil
		default:
			b.WriteByte(c)
		}
	}
	return "", ErrQuote
}

// leaf splits a condition at its first colon that no backslash stands before.
func leaf(word string) *Term {
	for i := 0; i < len(word); i++ {
		switch word[i] {
		case '\\':
			i++
		case ':':
			if i > 0 {
				return &Term{Key: word[:i], Value: word[i+1:]}
			}
			return &Term{Value: word}
		}
	}
	return &Term{Value: word}
}
