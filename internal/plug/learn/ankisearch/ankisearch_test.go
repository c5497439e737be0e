package ankisearch

import (
	"errors"
	"regexp"
	"strings"
	"testing"
)

// show writes a search with all its brackets.
func show(t *Term) string {
	if t.Op == Leaf {
		if t.Key == "" {
			return "[" + t.Value + "]"
		}
		return "[" + t.Key + "=" + t.Value + "]"
	}
	parts := make([]string, len(t.Of))
	for i, of := range t.Of {
		parts[i] = show(of)
	}
	return map[Op]string{And: "and", Or: "or", Not: "not"}[t.Op] + "(" + strings.Join(parts, " ") + ")"
}

// The examples are of https://docs.ankiweb.net/searching.html and of what clients send.
func TestParse(t *testing.T) {
	for in, want := range map[string]string{
		``:                                "and()",
		`dog`:                             "[dog]",
		`dog cat`:                         "and([dog] [cat])",
		`dog or cat`:                      "or([dog] [cat])",
		`dog (cat or mouse)`:              "and([dog] or([cat] [mouse]))",
		`-cat`:                            "not([cat])",
		`-cat -mouse`:                     "and(not([cat]) not([mouse]))",
		`-(cat or mouse)`:                 "not(or([cat] [mouse]))",
		`"a dog"`:                         "[a dog]",
		`-"a dog"`:                        "not([a dog])",
		`d_g w*f`:                         "and([d_g] [w*f])",
		`front:dog`:                       "[front=dog]",
		`front:*dog*`:                     "[front=*dog*]",
		`tag:animal AND is:due OR x`:      "or(and([tag=animal] [is=due]) [x])",
		`deck:"french words"`:             "[deck=french words]",
		`"deck:french words"`:             "[deck=french words]",
		`"deck:A::B" "expression:食べる"`:    "and([deck=A::B] [expression=食べる])",
		`front:`:                          "[front=]",
		`3\:30`:                           `[3\:30]`,
		`"say \"no\""`:                    `[say "no"]`,
		`re:\d{3}`:                        `[re=\d{3}]`,
		`"re:(some|another).*thing"`:      `[re=(some|another).*thing]`,
		`nid:1,2 -`:                       "and([nid=1,2] [-])",
		"a　b":                             "and([a] [b])", // U+3000
		`prop:ivl>=10`:                    "[prop=ivl>=10]",
		`:x`:                              "[:x]",
		`a\ b\"c d\`:                      `and([a\ b\"c] [d\])`,
		`x\:"y z"`:                        `and([x\:] [y z])`,
		`"deck:x" -("note:y" or "tag:z")`: "and([deck=x] not(or([note=y] [tag=z])))",
	} {
		got, err := Parse(in)
		if err != nil {
			t.Errorf("%s: %v", in, err)
		} else if show(got) != want {
			t.Errorf("%s: %s, want %s", in, show(got), want)
		}
	}
	for in, want := range map[string]error{`"open`: ErrQuote, `deck:"open`: ErrQuote, `(a`: ErrGroup, `a)`: ErrGroup,
		`()`: ErrEmpty, `or a`: ErrJoin, `a or`: ErrJoin, `a or or b`: ErrJoin, `a and`: ErrJoin,
		strings.Repeat("(", 60) + "a": ErrDeep, strings.Repeat("a ", MaxTerms+1): ErrMany,
		strings.Repeat("a", MaxBytes+1): ErrLong} {
		if _, err := Parse(in); !errors.Is(err, want) {
			t.Errorf("%.20s: %v, want %v", in, err, want)
		}
	}
}

func TestPattern(t *testing.T) {
	for _, c := range []struct {
		pattern, text       string
		whole, inside, word bool
	}{
		{"dog", "Dog", true, true, true}, {"dog", "dogma", false, true, false}, {"d_g", "dig", true, true, true},
		{"d*g", "d\ng", true, true, false}, {`\*`, "*", true, true, true}, {`a\_b`, "axb", false, false, false},
		{"do*", "a dogma!", false, true, true}, {"長城", "萬里長城", false, true, false}, {"", "", true, true, true},
	} {
		p := NewPattern(c.pattern)
		whole, err1 := p.Whole()
		inside, err2 := p.Inside()
		word, err3 := p.Word()
		if err := errors.Join(err1, err2, err3); err != nil {
			t.Fatal(c.pattern, err)
		}
		if whole.MatchString(c.text) != c.whole || inside.MatchString(c.text) != c.inside ||
			word.MatchString(c.text) != c.word {
			t.Errorf("%q in %q: whole %t, inside %t, word %t", c.pattern, c.text, whole.MatchString(c.text),
				inside.MatchString(c.text), word.MatchString(c.text))
		}
	}
	if hint := NewPattern("a*Étude_dog").Hint(); hint != "tude" {
		t.Errorf("hint %q", hint)
	}
	if hint := NewPattern(strings.Repeat("é", 3*maxHint) + strings.Repeat("語", maxHint)).Hint(); len(hint) > maxHint ||
		strings.Trim(hint, "語") != "" || hint == "" {
		t.Errorf("hint %q", hint)
	}
	if hint := NewPattern("kiss").Hint(); hint != "i" {
		t.Errorf("hint %q", hint)
	}
}

// What would make a large expression is refused, and no error repeats it.
func TestLargePatterns(t *testing.T) {
	long := strings.Repeat("a", MaxPattern)
	for _, value := range []string{long + "a", strings.Repeat("a*", MaxWild+1)} {
		p := NewPattern(value)
		for _, of := range []func() (*regexp.Regexp, error){p.Whole, p.Inside, p.Word, p.Below} {
			if _, err := of(); !errors.Is(err, ErrWord) {
				t.Errorf("%.20s: %v", value, err)
			}
		}
	}
	for _, value := range []string{long, strings.Repeat("*", 1000), strings.Repeat("**a", MaxWild)} {
		if _, err := NewPattern(value).Word(); err != nil {
			t.Errorf("%.20s: %v", value, err)
		}
	}
	for _, expression := range []string{long + "a", "(" + long[1:], "x{2000}" + long[10:]} {
		if _, err := Regexp(expression); err == nil || len(err.Error()) > 200 {
			t.Errorf("%.20s: %.300v", expression, err)
		}
	}
	if re, err := Regexp("D.G"); err != nil || !re.MatchString("dog") {
		t.Error("D.G:", err)
	}
}

func FuzzParse(f *testing.F) {
	for _, in := range []string{`a or (b -c)`, `"deck:x" front:"y z"`, `-((a)`, `\`, `a\`, `"\`, `:`, "-\x00("} {
		f.Add(in)
	}
	f.Fuzz(func(t *testing.T, in string) {
		term, err := Parse(in)
		if err != nil {
			return
		}
		var walk func(*Term)
		walk = func(x *Term) {
			if x.Op == Leaf {
				p := NewPattern(x.Value)
				if _, err := p.Whole(); err != nil && len(x.Value) < 500 {
					t.Fatalf("%q: %v", x.Value, err)
				}
				if text, ok := p.Literal(); ok && len(p.Hint()) > len(text) {
					t.Fatalf("hint %q of %q", p.Hint(), text)
				}
			}
			if x.Op == Not && len(x.Of) != 1 || x.Op == Or && len(x.Of) < 2 {
				t.Fatalf("%q: %s", in, show(term))
			}
			for _, of := range x.Of {
				walk(of)
			}
		}
		walk(term)
	})
}
