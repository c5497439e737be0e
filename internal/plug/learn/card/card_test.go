package card_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"patchbay/internal/plug/learn/card"
	"patchbay/internal/plug/learn/note"
)

// render renders a card of a type with the fields Front, Back and Extra.
func render(t *testing.T, front, back string, cloze bool, ord int, fields ...string) *card.Shown {
	t.Helper()
	c := &card.Card{Type: &note.Type{Name: "Basic", Cloze: cloze,
		Fields:    []note.Field{{Name: "Front"}, {Name: "Back"}, {Name: "Extra"}},
		Templates: []note.Template{{Name: "Card 1", Front: front, Back: back}}},
		Fields: fields, Ord: ord, Deck: "A::B", Tags: []string{"x", "y"}, Flag: 2}
	out, err := card.Render(c, "/m/")
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestTemplates renders what note types of others have in their templates.
func TestTemplates(t *testing.T) {
	for _, c := range []struct{ front, back, field, wantFront, wantBack string }{
		{"{{Front}}", "{{FrontSide}}<hr id=answer>{{Back}}", "<b>F</b>", "<b>F</b>", `<b>F</b><hr id="answer">B`},
		{"{{hint:Back}}", "", "", `<details class="hint"><summary>Back</summary>B</details>`, ""},
		{"{{type:Back}}?", "{{type:Back}}!", "", "?", `<code id="typeans">B</code>!`},
		{"{{Tags}} {{Type}} {{Deck}} {{Subdeck}} {{Card}} {{CardFlag}}", "", "", "x y Basic A::B B Card 1 flag2", ""},
		{"{{text:Front}}", "", "a<br><b>c</b> &lt;i&gt;", "a\nc &lt;i&gt;", ""},
		{"{{furigana:Front}}", "{{kanji:Front}}{{kana:Front}}", " 漢字[かんじ]x", "<ruby>漢字<rt>かんじ</rt></ruby>x", "漢字xかんじx"},
		{"{{=<% %>=}}<%Front%>{{Front}}", "", "F", "F{{Front}}", ""},
		{"<!-- {{Front}} -->{{!no}}a", "<!-- {{Front}", "F", "a", ""},
		{"{{#Front}}a{{/Front}}{{^Front}}b{{/Front}}", "", "<div><br></div>", "b", ""},
		{"{{tts en_US voices=x:Front}}a[anki:tts lang=en]b[/anki:tts]", "", "F", "a", ""},
		{"{{Front}}", "", "[sound:a b.mp3]", `<audio src="/m/a%20b.mp3" controls preload="none"></audio>`, ""},
		{"{{Front}}", "", "[sound:a.mp4][sound:http://x/y.mp3]",
			`<video src="/m/a.mp4" controls preload="none"></video>🔇 http://x/y.mp3`, ""},
		{"{{Front}}", "", "<code>\\(a\\)</code>\\(a\\)", `<code>\(a\)</code><math><mrow><mi>a</mi></mrow></math>`, ""},
		{"{{Front}}", "", "[$]x[/$][latex]a $x$ b[/latex]",
			"<math><mrow><mi>x</mi></mrow></math>a <math><mrow><mi>x</mi></mrow></math> b", ""},
		{"{{Front}}", "", `<style>.a{background:url(b.png)} @import "x";</style><p>1<p>2<ul><li>3<li>4</ul>`,
			"<p>1</p><p>2<ul><li>3</li><li>4</li></ul></p>", ""},
	} {
		got := render(t, c.front, c.back, false, 0, c.field, "B")
		if got.Front != c.wantFront || got.Back != c.wantBack {
			t.Errorf("%s with %q:\n%s\n%s\nwant\n%s\n%s", c.front, c.field, got.Front, got.Back, c.wantFront, c.wantBack)
		}
	}
}

// TestClozes renders clozes with hints, in one another, and in formulas.
func TestClozes(t *testing.T) {
	span := func(s string) string { return `<span class="cloze">` + s + `</span>` }
	other := func(s string) string { return `<span class="cloze-inactive">` + s + `</span>` }
	for _, c := range []struct {
		text        string
		ord         int
		front, back string
	}{
		{"{{c1::Paris}} in {{c2::France::country}}", 0, span("[…]") + " in " + other("France"),
			span("Paris") + " in " + other("France")},
		{"{{c1::Paris}} in {{c2::France::country}}", 1, other("Paris") + " in " + span("[country]"),
			other("Paris") + " in " + span("France")},
		{"{{c1::a {{c2::b}}}}", 1, other("a " + span("[…]")), other("a " + span("b"))},
		{"{{c1,3::a}}", 2, span("[…]"), span("a")},
		{"{{c1::a}}", 4, "", ""},
		{`\({{c1::x}}+1\)`, 0, "<math><mrow><mo stretchy=\"false\">[</mo><mo>…</mo><mo stretchy=\"false\">]</mo><mo>+</mo><mn>1</mn></mrow></math>",
			"<math><mrow><mi>x</mi><mo>+</mo><mn>1</mn></mrow></math>"},
	} {
		got := render(t, "{{cloze:Front}}", "{{cloze:Front}}", true, c.ord, c.text)
		if got.Front != c.front || got.Back != c.back {
			t.Errorf("%q:\n%s\n%s", c.text, got.Front, got.Back)
		}
	}
	got := render(t, "{{type:cloze:Front}}", "{{cloze-only:Front}}{{type:cloze:Front}}", true, 0, "{{c1::a}} {{c1::a}} {{c2::b}}")
	if got.Typed != "a" || got.Back != `a, a<code id="typeans">a</code>` {
		t.Errorf("%+v", got)
	}
	if n := card.ClozeNumbers("{{c3::x {{c1,2::y}}}}", "{{c3::z}} {{c0::n}} {{c900::n}}"); !slices.Equal(n, []int{1, 2, 3}) {
		t.Error(n)
	}
}

// TestOcclusion covers shapes on a picture: the asked one, and what it gives away is nothing.
func TestOcclusion(t *testing.T) {
	const text = "{{c1::image-occlusion:rect:left=.25:top=.5:width=.1:height=.2:oi=1}}<br>" +
		"{{c2::image-occlusion:ellipse:left=0.1:top=0:rx=.1:ry=.2:oi=1}}<br>" +
		"{{c1::image-occlusion:polygon:points=0,0 1,0 1,1}}{{c1::image-occlusion:rect:left=300:top=5:width=9:height=9}}"
	const template = `<div style="display: none">{{cloze:Front}}</div><div id="image-occlusion-container">{{Back}}` +
		`<canvas id="x"></canvas></div><script>anki.setup()</script><button>Toggle</button>`
	got := render(t, template, template, true, 0, text, `<img src="map.png">`)
	const want = `<div style="display: none"><br><br></div><div id="image-occlusion-container"><span class="covered">` +
		`<img src="/m/map.png">` +
		`<span class="shape shape-cloze" style="left:25.000%;top:50.000%;width:10.000%;height:20.000%;"></span>` +
		`<span class="shape shape-cloze-inactive" style="left:10.000%;top:0.000%;width:20.000%;height:40.000%;border-radius:50%;"></span>` +
		`<span class="shape shape-cloze" style="left:0;top:0;width:100%;height:100%;clip-path:polygon(0.000% 0.000%,100.000% 0.000%,100.000% 100.000%);"></span>` +
		`<span class="shape shape-cloze" style="left:0;top:0;width:100%;height:100%"></span>` +
		`</span></div>`
	if diff := cmp.Diff(want, got.Front); diff != "" {
		t.Error(diff)
	}
	if !strings.Contains(got.Back, "shape-cloze-highlight") || strings.Contains(got.Back, `shape-cloze"`) {
		t.Error(got.Back)
	}
	if !slices.Equal(got.Media, []string{"map.png"}) {
		t.Error(got.Media)
	}
}

// TestOrds finds which cards a note has.
func TestOrds(t *testing.T) {
	typ := &note.Type{Fields: []note.Field{{Name: "Front"}, {Name: "Back"}, {Name: "Reverse"}}, Templates: []note.Template{
		{Front: "{{Front}}"}, {Front: "{{#Reverse}}{{Back}}{{/Reverse}}"}, {Front: "only text"}}}
	if got := card.Ords(typ, []string{"a", "b", ""}); !slices.Equal(got, []int{0}) {
		t.Error(got)
	}
	if got := card.Ords(typ, []string{"a", "b", "y"}); !slices.Equal(got, []int{0, 1}) {
		t.Error(got)
	}
	if got := card.Ords(&note.Type{Cloze: true}, []string{"{{c2::a}} {{c4::b}}"}); !slices.Equal(got, []int{1, 3}) {
		t.Error(got)
	}
}

// TestCost renders templates that make much of little.
func TestCost(t *testing.T) {
	typ := &note.Type{Fields: []note.Field{{Name: "F"}}, Templates: []note.Template{{Front: strings.Repeat("{{F}}", 2000)}}}
	_, err := card.Render(&card.Card{Type: typ, Fields: []string{strings.Repeat("x", 1000)}}, "/")
	if !errors.Is(err, card.ErrTooLarge) {
		t.Errorf("a template without end: %v", err)
	}
	typ.Templates[0].Front = strings.Repeat("{{#F}}{{/F}}{{text:F}}", 1000)
	_, err = card.Render(&card.Card{Type: typ, Fields: []string{strings.Repeat("<b>", 100_000)}}, "/")
	if !errors.Is(err, card.ErrTooLarge) {
		t.Errorf("a template that only works: %v", err)
	}
	for _, s := range []string{"<b>", "<p><b>", "<!--", "[latex]", `\(`, "<a href='", "{{c1::", "<svg>", "<table><td>",
		`\(\frac{`, `\(a_{`, "[sound:", "<style>@media{", "url(", `\[\begin{matrix}`, "<math>", "</b>"} {
		typ.Templates[0] = note.Template{Front: "{{cloze:F}}{{F}}", Back: "{{F}}"}
		out, err := card.Render(&card.Card{Type: typ, Fields: []string{strings.Repeat(s, 300_000/len(s))}}, "/")
		if err == nil && len(out.Front) > 40<<20 {
			t.Errorf("%q becomes %d bytes", s, len(out.Front))
		}
	}
}
