package card

import (
	"errors"
	"html"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Limits of a formula; one beyond them is shown as it is written.
const (
	maxTeX      = 8 << 10 // bytes
	maxTeXDepth = 40      // groups within groups
	maxMathML   = 256 << 10
)

// errTeX is the error of formulas that are not understood.
var errTeX = errors.New("not understood")

// Formula returns a formula of LaTeX as MathML Core (https://www.w3.org/TR/mathml-core/), which
// browsers draw without a script. What is not understood is shown as it is written.
func Formula(tex string, display bool) string {
	p := texParser{s: strings.TrimSpace(tex)}
	if len(p.s) > maxTeX || !utf8.ValidString(p.s) {
		return source(tex)
	}
	row, err := p.row("")
	if err != nil || p.i < len(p.s) || len(row) > maxMathML {
		return source(tex)
	}
	if display {
		return `<math display="block">` + row + `</math>`
	}
	return `<math>` + row + `</math>`
}

// source shows a formula as it is written.
func source(tex string) string {
	return `<code class="tex">` + html.EscapeString(tex[:min(len(tex), maxTeX)]) + `</code>`
}

// texParser reads a formula by recursive descent. Each byte is read once, except in environments,
// so its time is proportional to the text.
type texParser struct {
	s     string
	i     int
	depth int
	size  int // bytes written, with those of parts that are copied into larger ones
}

// peek returns the next token without reading it: a command with its backslash, or a character;
// empty at the end.
func (p *texParser) peek() string {
	for p.i < len(p.s) {
		switch c := p.s[p.i]; {
		case c == ' ' || c == '\n' || c == '\t' || c == '\r':
			p.i++
			continue
		case c == '%': // a comment, to the end of the line
			end := strings.IndexByte(p.s[p.i:], '\n')
			if end < 0 {
				p.i = len(p.s)
				return ""
			}
			p.i += end
			continue
		case c == '\\':
			j := p.i + 1
			for j < len(p.s) && isLetter(p.s[j]) {
				j++
			}
			if j == p.i+1 && j < len(p.s) {
				_, size := utf8.DecodeRuneInString(p.s[j:])
				j += size
			}
			return p.s[p.i:j]
		}
		_, size := utf8.DecodeRuneInString(p.s[p.i:])
		return p.s[p.i : p.i+size]
	}
	return ""
}

func isLetter(b byte) bool { return b|0x20 >= 'a' && b|0x20 <= 'z' }

func (p *texParser) next() string {
	t := p.peek()
	p.i += len(t)
	return t
}

// row reads formulas until a token, which it leaves; empty means to the end. In any case it ends at
// what ends a group, a cell or a fence.
func (p *texParser) row(until string) (string, error) {
	if p.depth++; p.depth > maxTeXDepth {
		return "", errTeX
	}
	defer func() { p.depth-- }()
	var b strings.Builder
	b.WriteString("<mrow>")
	for {
		switch t := p.peek(); {
		case t == "" || t == until || t == "}" || t == "&" || t == `\\` || t == `\cr` || t == `\right` || t == `\end` ||
			t == `\middle`:
			b.WriteString("</mrow>")
			return b.String(), nil
		case t == `\displaystyle` || t == `\textstyle` || t == `\scriptstyle` || t == `\limits` || t == `\nolimits` ||
			t == `\nonumber` || t == `\notag`:
			p.next()
		case t == `\over` || t == `\choose`:
			p.next()
			above := b.String() + "</mrow>"
			below, err := p.row(until)
			if err != nil {
				return "", err
			}
			return "<mrow>" + fraction(above, below, t == `\choose`) + "</mrow>", p.add(len(above) + len(below))
		default:
			item, err := p.scripted()
			if err != nil {
				return "", err
			}
			b.WriteString(item)
			if err := p.add(len(item)); err != nil {
				return "", err
			}
		}
	}
}

// add counts what is written. Parts are copied at each level that they nest.
func (p *texParser) add(n int) error {
	if p.size += n; p.size > 4*maxMathML {
		return errTeX
	}
	return nil
}

// scripted reads a formula with what is above and below it.
func (p *texParser) scripted() (string, error) {
	base, under, err := "<mrow></mrow>", false, error(nil)
	if t := p.peek(); t != "^" && t != "_" {
		under = bigOperators[t] != "" && !strings.HasPrefix(t, `\int`) && !strings.HasPrefix(t, `\oint`) &&
			!strings.HasPrefix(t, `\iint`) || limits[t]
		if base, err = p.atom(); err != nil {
			return "", err
		}
		if t == `\underbrace` || t == `\overbrace` {
			under = true
		}
	}
	low, high := "", ""
	primes := ""
	for {
		t := p.peek()
		switch {
		case t == "'":
			p.next()
			primes += "′"
			continue
		case t == `\limits` || t == `\nolimits`:
			p.next()
			under = t == `\limits`
			continue
		case t == "_" && low == "":
			p.next()
			low, err = p.argument()
		case t == "^" && high == "":
			p.next()
			high, err = p.argument()
		case t == "_" || t == "^":
			return "", errTeX // TeX knows no double scripts either
		default:
			return p.withScripts(base, low, high, primes, under)
		}
		if err != nil {
			return "", err
		}
	}
}

func (p *texParser) withScripts(base, low, high, primes string, under bool) (string, error) {
	if primes != "" {
		high = "<mrow><mo>" + primes + "</mo>" + high + "</mrow>"
	}
	if err := p.add(len(base) + len(low) + len(high)); err != nil {
		return "", err
	}
	sub, sup, both := "msub", "msup", "msubsup"
	if under {
		sub, sup, both = "munder", "mover", "munderover"
	}
	switch {
	case low != "" && high != "":
		return "<" + both + ">" + base + low + high + "</" + both + ">", nil
	case low != "":
		return "<" + sub + ">" + base + low + "</" + sub + ">", nil
	case high != "":
		return "<" + sup + ">" + base + high + "</" + sup + ">", nil
	}
	return base, nil
}

// argument reads what a command applies to: a group, or a single formula.
func (p *texParser) argument() (string, error) {
	switch t := p.peek(); {
	case t == "{":
		return p.group()
	case t == "" || t == "}" || t == "&" || t == "^" || t == "_":
		return "", errTeX
	}
	if p.depth++; p.depth > maxTeXDepth {
		return "", errTeX
	}
	defer func() { p.depth-- }()
	return p.atom()
}

func (p *texParser) group() (string, error) {
	p.next()
	out, err := p.row("}")
	if err != nil || p.next() != "}" {
		return "", errTeX
	}
	return out, nil
}

// optional reads an argument in square brackets; empty if there is none.
func (p *texParser) optional() (string, error) {
	if p.peek() != "[" {
		return "", nil
	}
	p.next()
	out, err := p.row("]")
	if err != nil || p.next() != "]" {
		return "", errTeX
	}
	return out, nil
}

// raw reads a group as text.
func (p *texParser) raw() (string, error) {
	if p.peek() != "{" {
		return "", errTeX
	}
	depth := 0
	for j := p.i; j < len(p.s); j++ {
		switch p.s[j] {
		case '\\':
			j++
		case '{':
			depth++
		case '}':
			if depth--; depth == 0 {
				text := p.s[p.i+1 : j]
				p.i = j + 1
				return text, nil
			}
		}
	}
	return "", errTeX
}

// atom reads one formula without what is above and below it.
func (p *texParser) atom() (string, error) {
	t := p.peek()
	if t == "{" {
		return p.group()
	}
	p.next()
	if t[0] == '\\' && len(t) > 1 {
		return p.command(t)
	}
	r, _ := utf8.DecodeRuneInString(t)
	switch {
	case r >= '0' && r <= '9':
		for p.i < len(p.s) && (p.s[p.i] >= '0' && p.s[p.i] <= '9' || p.s[p.i] == '.' && p.i+1 < len(p.s) &&
			p.s[p.i+1] >= '0' && p.s[p.i+1] <= '9') {
			t += p.s[p.i : p.i+1]
			p.i++
		}
		return "<mn>" + t + "</mn>", nil
	case r == '~':
		return space("0.33em"), nil
	case r == '-':
		return "<mo>−</mo>", nil
	case r == '$' || r == '#' || r == '\\':
		return "", errTeX
	case unicode.IsLetter(r):
		return "<mi>" + t + "</mi>", nil
	case strings.ContainsRune("()[]|", r):
		return `<mo stretchy="false">` + t + "</mo>", nil
	}
	return "<mo>" + html.EscapeString(t) + "</mo>", nil
}

func space(width string) string { return `<mspace width="` + width + `"></mspace>` }

func fraction(above, below string, choose bool) string {
	if choose {
		return `<mrow><mo>(</mo><mfrac linethickness="0">` + above + below + `</mfrac><mo>)</mo></mrow>`
	}
	return "<mfrac>" + above + below + "</mfrac>"
}
