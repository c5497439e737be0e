package card

import (
	"html"
	"strings"
)

// pairsOf reads a table of commands, without their backslash, and characters.
func pairsOf(list string) map[string]string {
	fields := strings.Fields(list)
	out := make(map[string]string, len(fields)/2)
	for i := 0; i+1 < len(fields); i += 2 {
		out[`\`+fields[i]] = html.EscapeString(fields[i+1])
	}
	return out
}

func commands(list string) map[string]bool {
	out := map[string]bool{}
	for w := range strings.FieldsSeq(list) {
		out[`\`+w] = true
	}
	return out
}

// symbols are letters and what is set like one.
var symbols = pairsOf(`alpha α beta β gamma γ delta δ epsilon ϵ varepsilon ε zeta ζ eta η theta θ vartheta ϑ iota ι
	kappa κ lambda λ mu μ nu ν xi ξ omicron ο pi π varpi ϖ rho ρ varrho ϱ sigma σ varsigma ς tau τ upsilon υ phi ϕ
	varphi φ chi χ psi ψ omega ω Gamma Γ Delta Δ Theta Θ Lambda Λ Xi Ξ Pi Π Sigma Σ Upsilon Υ Phi Φ Psi Ψ Omega Ω
	infty ∞ partial ∂ nabla ∇ hbar ℏ ell ℓ Re ℜ Im ℑ aleph ℵ wp ℘ emptyset ∅ varnothing ∅ degree ° angle ∠ prime ′
	dots … ldots … cdots ⋯ vdots ⋮ ddots ⋱ % % # # _ _ imath ı jmath ȷ top ⊤ bot ⊥ square □ Box □ checkmark ✓
	triangle △ hslash ℏ clubsuit ♣ diamondsuit ♢ heartsuit ♡ spadesuit ♠ flat ♭ sharp ♯ natural ♮ $ $ Q ℚ R ℝ N ℕ
	Z ℤ C ℂ`)

// operators have space around them, or are fences.
var operators = pairsOf(`times × cdot ⋅ div ÷ pm ± mp ∓ ast ∗ star ⋆ circ ∘ bullet • oplus ⊕ ominus ⊖ otimes ⊗ odot ⊙
	cap ∩ cup ∪ setminus ∖ wedge ∧ land ∧ vee ∨ lor ∨ neg ¬ lnot ¬ forall ∀ exists ∃ nexists ∄ le ≤ leq ≤ leqslant ⩽
	ge ≥ geq ≥ geqslant ⩾ ne ≠ neq ≠ ll ≪ gg ≫ approx ≈ equiv ≡ sim ∼ simeq ≃ cong ≅ propto ∝ in ∈ notin ∉ ni ∋
	subset ⊂ subseteq ⊆ supset ⊃ supseteq ⊇ subsetneq ⊊ parallel ∥ perp ⟂ mid ∣ nmid ∤ vdash ⊢ models ⊨ to → gets ←
	rightarrow → leftarrow ← leftrightarrow ↔ Rightarrow ⇒ Leftarrow ⇐ Leftrightarrow ⇔ iff ⟺ implies ⟹ impliedby ⟸
	mapsto ↦ longmapsto ⟼ longrightarrow ⟶ longleftarrow ⟵ Longrightarrow ⟹ Longleftarrow ⟸ uparrow ↑ downarrow ↓
	updownarrow ↕ Uparrow ⇑ Downarrow ⇓ nearrow ↗ searrow ↘ hookrightarrow ↪ rightharpoonup ⇀ rightleftharpoons ⇌
	langle ⟨ rangle ⟩ lceil ⌈ rceil ⌉ lfloor ⌊ rfloor ⌋ lbrace { rbrace } lbrack [ rbrack ] vert | lvert | rvert |
	Vert ‖ lVert ‖ rVert ‖ { { } } | ‖ & & colon : therefore ∴ because ∵ triangleq ≜ doteq ≐ prec ≺ succ ≻ asymp ≍
	backslash \ slash / dagger † ddagger ‡ amalg ⨿ bigcirc ◯ lt < gt > coloneqq ≔ blacksquare ■ models ⊨ smile ⌣
	xrightarrow → rightsquigarrow ⇝ leadsto ⇝ lhd ⊲ rhd ⊳`)

// bigOperators have their limits above and below, but integrals.
var bigOperators = pairsOf(`sum ∑ prod ∏ coprod ∐ bigcup ⋃ bigcap ⋂ bigoplus ⨁ bigotimes ⨂ bigvee ⋁ bigwedge ⋀ int ∫
	iint ∬ iiint ∭ oint ∮`)

var spaces = pairsOf(`, 0.17em : 0.22em > 0.22em ; 0.28em ! -0.17em quad 1em qquad 2em enspace 0.5em thinspace 0.17em`)

func init() { spaces[`\ `] = "0.33em" }

var accents = pairsOf(`hat ^ widehat ^ bar ‾ vec → dot ˙ ddot ¨ dddot ⃛ tilde ~ widetilde ~ check ˇ breve ˘ acute ´
	grave ` + "`" + ` mathring ˚`)

var functions = commands(`sin cos tan cot sec csc arcsin arccos arctan sinh cosh tanh coth log ln lg exp dim ker deg arg hom`)

// limits are functions whose limits are below.
var limits = commands(`lim max min sup inf det gcd Pr limsup liminf argmax argmin`)

// alphabets are the fonts: where their capitals, small letters and digits begin in Unicode; 0 means
// that they have none. MathML Core has no other way (§ 4.2, text-transform: math-auto).
var alphabets = map[string]*alphabet{
	`\mathrm`: {}, `\rm`: {}, `\textup`: {}, `\mathsf`: {0x1d5a0, 0x1d5ba, 0x1d7e2, nil},
	`\mathtt`: {0x1d670, 0x1d68a, 0x1d7f6, nil}, `\texttt`: {0x1d670, 0x1d68a, 0x1d7f6, nil},
	`\mathbf`: bold, `\textbf`: bold, `\boldsymbol`: bold, `\bm`: bold, `\mathit`: {0x1d434, 0x1d44e, 0, map[rune]rune{'h': 'ℎ'}},
	`\textit`: {0x1d434, 0x1d44e, 0, map[rune]rune{'h': 'ℎ'}},
	`\mathbb`: {0x1d538, 0x1d552, 0x1d7d8, map[rune]rune{'C': 'ℂ', 'H': 'ℍ', 'N': 'ℕ', 'P': 'ℙ', 'Q': 'ℚ', 'R': 'ℝ',
		'Z': 'ℤ'}},
	`\mathcal`: script, `\mathscr`: script,
	`\mathfrak`: {0x1d504, 0x1d51e, 0, map[rune]rune{'C': 'ℭ', 'H': 'ℌ', 'I': 'ℑ', 'R': 'ℜ', 'Z': 'ℨ'}},
}

var bold = &alphabet{0x1d400, 0x1d41a, 0x1d7ce, nil}

var script = &alphabet{0x1d49c, 0x1d4b6, 0, map[rune]rune{'B': 'ℬ', 'E': 'ℰ', 'F': 'ℱ', 'H': 'ℋ', 'I': 'ℐ', 'L': 'ℒ',
	'M': 'ℳ', 'R': 'ℛ', 'e': 'ℯ', 'g': 'ℊ', 'o': 'ℴ'}}

type alphabet struct {
	capitals, letters, digits rune
	other                     map[rune]rune // where Unicode had them before
}

// fontText sets letters and digits in a font. Formulas in them are not understood.
func fontText(text string, a *alphabet) (string, error) {
	if text == "" || strings.ContainsAny(text, `\^_{}$&%#~`) {
		return "", errTeX
	}
	var b strings.Builder
	for _, r := range text {
		switch {
		case a.other[r] != 0:
			r = a.other[r]
		case r >= 'A' && r <= 'Z' && a.capitals != 0:
			r += a.capitals - 'A'
		case r >= 'a' && r <= 'z' && a.letters != 0:
			r += a.letters - 'a'
		case r >= '0' && r <= '9' && a.digits != 0:
			r += a.digits - '0'
		case r == ' ':
			r = '\u00a0'
		}
		b.WriteString(html.EscapeString(string(r)))
	}
	return `<mi mathvariant="normal">` + b.String() + "</mi>", nil
}
