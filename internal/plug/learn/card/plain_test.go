package card

import (
	"strings"
	"testing"
)

func plain(ordinal int, answer bool) *Side {
	return &Side{Ordinal: ordinal, Answer: answer, Plain: true}
}

func TestPlainClozes(t *testing.T) {
	for _, c := range []struct {
		text             string
		ordinal          int
		question, answer string
	}{
		{"{{c1::Paris}} is in {{c2::France::country}}.", 1, "[…] is in France.", "Paris is in France."},
		{"{{c1::Paris}} is in {{c2::France::country}}.", 2, "Paris is in [country].", "Paris is in France."},
		{"{{c1::a {{c2::b}} c}}", 2, "a […] c", "a b c"},
		{"{{c1::a {{c2::b}} c}}", 1, "[…]", "a b c"},
		{"{{c1,3::a}} {{c2::b}}", 3, "[…] b", "a b"},
		{"{{c1::a}} {{c1::b}}", 1, "[…] […]", "a b"},
		{"{{c1::}}", 1, "[…]", ""},
		{"{{c1::a", 1, "{{c1::a", "{{c1::a"},
		{"{{x}} }} {{c::y}} {{c1:z}}", 1, "{{x}} }} {{c::y}} {{c1:z}}", "{{x}} }} {{c::y}} {{c1:z}}"},
		{`\({{c1::x^{2} }}\)`, 1, `\([…]\)`, `\(x^{2} \)`},
		{"none", 1, "none", "none"},
	} {
		if got := plain(c.ordinal, false).clozes(c.text); got != c.question {
			t.Errorf("%q asks %q, want %q", c.text, got, c.question)
		}
		if got := plain(c.ordinal, true).clozes(c.text); got != c.answer {
			t.Errorf("%q answers %q, want %q", c.text, got, c.answer)
		}
	}
}

func TestPlainTemplates(t *testing.T) {
	for _, c := range []struct{ template, question, answer string }{
		{"{{Front}} {{ Back }}", "F B", "F B"},
		{"{{#Front}}yes{{/Front}}{{^Front}}no{{/Front}}{{#None}}x{{/None}}{{^None}}y{{/None}}", "yesy", "yesy"},
		{"{{^Front}}a{{#Front}}b{{/Front}}c{{/Front}}d", "d", "d"},
		{"{{#Blank}}x{{/Blank}}z", "z", "z"},
		{"{{type:Back}}?", "?", "B?"},
		{"{{hint:Back}}{{text:HTML}}", "a &amp; b", "Ba &amp; b"},
		{"{{cloze:Cloze}}", "[…] two", "one two"},
		{"{{type:cloze:Cloze}}", "", "one"},
		{"{{furigana:Ruby}}|{{kana:Ruby}}|{{kanji:Ruby}}", "a漢字(かんじ)b|aかんじb|a漢字b", "a漢字(かんじ)b|aかんじb|a漢字b"},
		{"{{tts ja_JP:Front}}x{{!comment}}", "x", "x"},
		{"{{Unknown}}{{}}{{/Front}}{{#Front}}open", "open", "open"},
		{"no {{end", "no {{end", "no {{end"},
		{"{{{Front}}}", "F}", "F}"},
		{"{{#c1}}first{{/c1}}{{#c2}}second{{/c2}}", "first", "first"},
	} {
		values := map[string]string{"Front": "F", "Back": "B", "Blank": "<br>&nbsp;", "HTML": "<b>a</b> &amp; b",
			"Cloze": "{{c1::one}} {{c2::two}}", "Ruby": "a 漢字[かんじ]b"}
		for _, answer := range []bool{false, true} {
			got, err := (&Side{Values: values, Ordinal: 1, Answer: answer, Plain: true}).Render(Parse(c.template))
			want := c.question
			if answer {
				want = c.answer
			}
			if err != nil || got != want {
				t.Errorf("%q (answer: %t) is %q, want %q, %v", c.template, answer, got, want, err)
			}
		}
	}
	if n := len(Parse(strings.Repeat("{{x}}", 1_000_000))); n > maxPieces+1 {
		t.Errorf("a template has %d pieces", n)
	}
}
