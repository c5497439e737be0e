package card

import (
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"
)

// understood are formulas as cards have them.
var understood = []string{`x^2`, `\frac{a}{b}`, `\sqrt[3]{x+1}`, `\sum_{i=0}^{n} i^2`, `\int_0^\infty e^{-x^2}\,dx`,
	`\lim_{x\to 0}\frac{\sin x}{x}=1`, `\begin{pmatrix}a & b\\ c & d\end{pmatrix}`,
	`f(x)=\begin{cases}1 & x>0\\ 0 & \text{otherwise}\end{cases}`, `\left(\frac{1}{2}\right)^n`, `\mathbb{R}^n`,
	`\vec{v}\cdot\vec w`, `\ce{2H2 + O2 -> 2H2O}`, `\ce{SO4^{2-}}`, `\overline{AB}`, `a\not= b`, `f''(x)`, `{n \choose k}`,
	`\begin{aligned}a&=b\\&=c\end{aligned}`, `\color{red}{x}`, `\hat{H}\psi=E\psi`, `\mathrm{d}x`, `1{,}5\,\text{m}`,
	`\underbrace{a+b}_{c}`, `\binom{n}{k}`, `\left\{x\middle|x>0\right\}`, `\operatorname{rank} A`, `\bigl(x\bigr)`,
	`中文`, `x % comment`, `\alpha\beta`, `a \equiv b \pmod{n}`, `\displaystyle\sum`, `\textbf{x}`, `50\%`}

// TestFormulas turns formulas into MathML that is well-formed.
func TestFormulas(t *testing.T) {
	for _, tex := range understood {
		got := Formula(tex, false)
		if !strings.HasPrefix(got, "<math>") {
			t.Errorf("%s is not understood", tex)
		}
		wellFormed(t, got)
	}
	if got := Formula(`\frac{1}{x_2}`, true); got != `<math display="block"><mrow><mfrac><mrow><mn>1</mn></mrow><mrow><msub><mi>x</mi><mn>2</mn></msub></mrow></mfrac></mrow></math>` {
		t.Error(got)
	}
	for _, tex := range []string{`\unknown`, `{`, `}`, `\frac{1}`, `x^^2`, `\begin{matrix}a`, `\begin{tikzpicture}\end{tikzpicture}`,
		`\href{javascript:alert(1)}{x}`, `\text{a`, `\left(`, `\color{red;x}{a}`, `<script>alert(1)</script>\x`} {
		got := Formula(tex, false)
		if !strings.HasPrefix(got, `<code class="tex">`) || strings.Contains(got, "<script") {
			t.Errorf("%s became %s", tex, got)
		}
	}
}

func wellFormed(t *testing.T, s string) {
	t.Helper()
	d := xml.NewDecoder(strings.NewReader(s))
	d.Entity = xml.HTMLEntity
	for {
		_, err := d.Token()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatalf("%v: %s", err, s)
		}
	}
}

func FuzzFormula(f *testing.F) {
	for _, tex := range understood {
		f.Add(tex)
	}
	f.Add(`\left(\begin{array}{c}a&b\\\hline c\end{array}\right.`)
	f.Fuzz(func(t *testing.T, tex string) {
		got := Formula(tex, true)
		if len(got) > 2*maxMathML+8*len(tex) {
			t.Errorf("%d bytes of %d", len(got), len(tex))
		}
		c := cleaner{}
		if again := c.clean(got); strings.HasPrefix(got, "<math") && strings.Count(again, "<") != strings.Count(got, "<") {
			t.Errorf("the cleaner leaves %s\nof %s", again, got)
		}
	})
}
