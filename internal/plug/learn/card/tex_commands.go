package card

import (
	"html"
	"regexp"
	"strings"
)

// command reads what follows a command, and returns both.
func (p *texParser) command(t string) (string, error) {
	if s := symbols[t]; s != "" {
		return "<mi>" + s + "</mi>", nil
	}
	if s := operators[t]; s != "" {
		return "<mo>" + s + "</mo>", nil
	}
	if s := bigOperators[t]; s != "" {
		return `<mo largeop="true">` + s + "</mo>", nil
	}
	if s := spaces[t]; s != "" {
		return space(s), nil
	}
	if functions[t] || limits[t] {
		return "<mi>" + t[1:] + "</mi>", nil
	}
	if s := accents[t]; s != "" {
		base, err := p.argument()
		return `<mover accent="true">` + base + "<mo>" + s + "</mo></mover>", firstError(err, p.add(len(base)))
	}
	if font := alphabets[t]; font != nil {
		text, err := p.raw()
		if err != nil { // one character
			text = p.next()
		}
		return fontText(text, font)
	}
	return p.structure(t)
}

func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// structure reads commands with arguments.
func (p *texParser) structure(t string) (string, error) {
	switch t {
	case `\frac`, `\dfrac`, `\tfrac`, `\cfrac`, `\binom`, `\dbinom`, `\tbinom`:
		above, err1 := p.argument()
		below, err2 := p.argument()
		return fraction(above, below, strings.HasSuffix(t, "binom")), firstError(err1, err2, p.add(len(above)+len(below)))
	case `\sqrt`:
		index, err1 := p.optional()
		base, err2 := p.argument()
		err := firstError(err1, err2, p.add(len(base)))
		if index != "" {
			return "<mroot>" + base + index + "</mroot>", err
		}
		return "<msqrt>" + base + "</msqrt>", err
	case `\overline`, `\underline`, `\overbrace`, `\underbrace`, `\overrightarrow`, `\overleftarrow`:
		base, err := p.argument()
		line := map[string]string{`\overline`: "‾", `\underline`: "_", `\overbrace`: "⏞", `\underbrace`: "⏟",
			`\overrightarrow`: "→", `\overleftarrow`: "←"}[t]
		element := "mover"
		if t == `\underline` || t == `\underbrace` {
			element = "munder"
		}
		return "<" + element + ">" + base + `<mo stretchy="true">` + line + "</mo></" + element + ">",
			firstError(err, p.add(len(base)))
	case `\overset`, `\stackrel`, `\underset`:
		mark, err1 := p.argument()
		base, err2 := p.argument()
		element := "mover"
		if t == `\underset` {
			element = "munder"
		}
		return "<" + element + ">" + base + mark + "</" + element + ">",
			firstError(err1, err2, p.add(len(base)+len(mark)))
	case `\text`, `\textrm`, `\textnormal`, `\mbox`, `\hbox`:
		text, err := p.raw()
		return "<mtext>" + html.EscapeString(strings.ReplaceAll(text, " ", "\u00a0")) + "</mtext>", err
	case `\operatorname`:
		name, err := p.raw()
		return "<mi>" + html.EscapeString(strings.ReplaceAll(name, `\,`, " ")) + "</mi>", err
	case `\left`:
		return p.fence()
	case `\begin`:
		return p.environment()
	case `\color`, `\textcolor`:
		return p.colored(t == `\color`)
	case `\boxed`, `\fbox`, `\mathop`, `\mathrel`, `\mathbin`, `\mathord`, `\phantom`:
		base, err := p.argument()
		if t == `\phantom` {
			base = "<mphantom>" + base + "</mphantom>"
		}
		return base, err
	case `\big`, `\Big`, `\bigg`, `\Bigg`, `\bigl`, `\Bigl`, `\biggl`, `\Biggl`, `\bigr`, `\Bigr`, `\biggr`, `\Biggr`:
		mark, err := p.delimiter()
		return `<mo stretchy="true">` + mark + "</mo>", err
	case `\bmod`:
		return space("0.2em") + "<mi>mod</mi>" + space("0.2em"), nil
	case `\pmod`:
		base, err := p.argument()
		return space("1em") + "<mrow><mo>(</mo><mi>mod</mi>" + space("0.3em") + base + "<mo>)</mo></mrow>", err
	case `\not`:
		next, err := p.argument()
		return "<mrow>" + strings.Replace(next, "</mo>", "\u0338</mo>", 1) + "</mrow>", err
	case `\ce`:
		return p.chemistry()
	}
	return "", errTeX
}

// delimiter reads what is at the side of a fence; empty for a dot.
func (p *texParser) delimiter() (string, error) {
	t := p.next()
	switch {
	case t == ".":
		return "", nil
	case t == `\|`:
		return "‖", nil
	case t == `\{`, t == `\}`:
		return t[1:], nil
	case t == "<":
		return "⟨", nil
	case t == ">":
		return "⟩", nil
	case len(t) == 1 && strings.Contains("()[]|/", t):
		return t, nil
	case operators[t] != "":
		return operators[t], nil
	}
	return "", errTeX
}

// fence reads \left( … \middle| … \right).
func (p *texParser) fence() (string, error) {
	begin, err := p.delimiter()
	if err != nil {
		return "", err
	}
	var b strings.Builder
	b.WriteString(`<mrow><mo fence="true" form="prefix">` + begin + "</mo>")
	for {
		inner, err := p.row("")
		if err != nil {
			return "", err
		}
		b.WriteString(inner)
		if err := p.add(len(inner)); err != nil {
			return "", err
		}
		t := p.next()
		mark, err := "", errTeX
		if t == `\right` || t == `\middle` {
			mark, err = p.delimiter()
		}
		switch {
		case err != nil:
			return "", err
		case t == `\right`:
			b.WriteString(`<mo fence="true" form="postfix">` + mark + "</mo></mrow>")
			return b.String(), nil
		}
		b.WriteString(`<mo fence="true" stretchy="true">` + mark + "</mo>")
	}
}

// fences are the marks around environments.
var fences = map[string][2]string{
	"matrix": {}, "smallmatrix": {}, "pmatrix": {"(", ")"}, "bmatrix": {"[", "]"}, "Bmatrix": {"{", "}"},
	"vmatrix": {"|", "|"}, "Vmatrix": {"‖", "‖"}, "cases": {"{", ""}, "array": {}, "aligned": {}, "align": {},
	"align*": {}, "alignat": {}, "alignat*": {}, "gather": {}, "gather*": {}, "gathered": {}, "split": {}, "equation": {},
	"equation*": {}, "displaymath": {}, "eqnarray": {}, "eqnarray*": {},
}

// environment reads \begin{…} … \end{…} as a table.
func (p *texParser) environment() (string, error) {
	name, err := p.raw()
	marks, ok := fences[name]
	if err != nil || !ok {
		return "", errTeX
	}
	if name == "array" || strings.HasPrefix(name, "alignat") {
		if _, err := p.raw(); err != nil {
			return "", err
		}
	}
	var b strings.Builder
	b.WriteString("<mrow>")
	if marks[0] != "" {
		b.WriteString(`<mo fence="true" form="prefix">` + marks[0] + "</mo>")
	}
	b.WriteString("<mtable><mtr>")
	for {
		for p.peek() == `\hline` {
			p.next()
		}
		cell, err := p.row("")
		if err != nil {
			return "", err
		}
		b.WriteString("<mtd>" + cell + "</mtd>")
		if err := p.add(len(cell)); err != nil {
			return "", err
		}
		switch p.next() {
		case "&":
		case `\\`, `\cr`:
			if _, err := p.optional(); err != nil {
				return "", err
			}
			b.WriteString("</mtr><mtr>")
		case `\end`:
			if end, err := p.raw(); err != nil || end != name {
				return "", errTeX
			}
			b.WriteString("</mtr></mtable>")
			if marks[1] != "" {
				b.WriteString(`<mo fence="true" form="postfix">` + marks[1] + "</mo>")
			}
			b.WriteString("</mrow>")
			return b.String(), nil
		default:
			return "", errTeX
		}
	}
}

var color = regexp.MustCompile(`^(#[0-9a-fA-F]{3,8}|[a-zA-Z]{1,30})$`)

// colored reads a colour and what has it: the next argument, or all that follows in the group.
func (p *texParser) colored(rest bool) (string, error) {
	name, err := p.raw()
	if err != nil || !color.MatchString(name) {
		return "", errTeX
	}
	var base string
	if rest && p.peek() != "{" {
		base, err = p.row("")
	} else {
		base, err = p.argument()
	}
	return `<mstyle mathcolor="` + name + `">` + base + "</mstyle>", firstError(err, p.add(len(base)))
}

// chemistry reads \ce{…}: elements, their numbers and charges, and arrows (the mhchem package).
func (p *texParser) chemistry() (string, error) {
	text, err := p.raw()
	if err != nil || strings.ContainsAny(text, `\{}$`) && !chargeOnly.MatchString(text) {
		return "", errTeX
	}
	var b strings.Builder
	b.WriteString("<mrow>")
	for text != "" {
		switch m := chemical.FindStringSubmatch(text); {
		case m == nil:
			return "", errTeX
		case m[1] != "": // an arrow
			b.WriteString("<mo>" + map[string]string{"->": "→", "<-": "←", "<->": "↔", "<=>": "⇌"}[m[1]] + "</mo>")
			text = text[len(m[0]):]
		case m[2] != "": // element or parenthesis, number, charge
			base, low, high := "<mi mathvariant=\"normal\">"+m[2]+"</mi>", m[3], strings.Trim(m[4], "^{}")
			switch {
			case low != "" && high != "":
				base = "<msubsup>" + base + "<mn>" + low + "</mn><mtext>" + high + "</mtext></msubsup>"
			case low != "":
				base = "<msub>" + base + "<mn>" + low + "</mn></msub>"
			case high != "":
				base = "<msup>" + base + "<mtext>" + high + "</mtext></msup>"
			}
			b.WriteString(base)
			text = text[len(m[0]):]
		case m[5] != "":
			b.WriteString("<mn>" + m[5] + "</mn>")
			text = text[len(m[0]):]
		default:
			if m[6] != "" {
				b.WriteString("<mo>" + html.EscapeString(m[6]) + "</mo>")
			}
			text = text[len(m[0]):]
		}
	}
	b.WriteString("</mrow>")
	return b.String(), nil
}

// chargeOnly matches texts whose braces are around charges only.
var chargeOnly = regexp.MustCompile(`^([^\\{}$]|\^\{[0-9]*[+-]\})*$`)

var chemical = regexp.MustCompile(`^(?:(<=>|<->|->|<-)|([A-Z][a-z]?|\)|\]|e)([0-9]*)(\^\{[0-9]*[+-]\}|\^[0-9]*[+-]|[+-](?:\s|$)?)?|([0-9]+(?:/[0-9]+)?)|([-+=(\[.])|\s+|\*)`)
