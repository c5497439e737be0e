package card

import (
	_ "embed"
	"regexp"
	"strings"
	"testing"

	xhtml "golang.org/x/net/html"
)

// attacks are texts that run something, load something or leave their place if they are shown as
// they are. A test of the console shows them to Chromium, too.
//
//go:embed testdata/attacks.txt
var attackLines string

var attacks = strings.Split(strings.TrimSpace(attackLines), "\n")

// harmful matches what no clean text has.
var harmful = regexp.MustCompile(`(?i)<(script|iframe|object|embed|form|input|meta|base|link|svg|style|template|textarea|button)|="javascript:|src="(https?:|//|data:text|data:image/svg)|srcset|poster|href=`)

// checkClean fails the test if a text is not what a cleaner may write: only its elements and
// attributes, and the same if it is read again.
func checkClean(t *testing.T, from, got string) {
	t.Helper()
	z := xhtml.NewTokenizer(strings.NewReader(got))
	for {
		switch z.Next() {
		case xhtml.ErrorToken:
			return
		case xhtml.CommentToken, xhtml.DoctypeToken:
			t.Fatalf("%q became %q", from, got)
		case xhtml.StartTagToken, xhtml.SelfClosingTagToken:
			token := z.Token()
			if _, ok := attributes[token.Data]; !ok {
				t.Fatalf("%q has <%s>: %q", from, token.Data, got)
			}
			for _, a := range token.Attr {
				if strings.HasPrefix(a.Key, "on") || a.Key == "href" || a.Key == "srcset" {
					t.Fatalf("%q has %s: %q", from, a.Key, got)
				}
				if a.Key == "src" && !strings.HasPrefix(a.Val, "/m/") && !dataImage.MatchString(a.Val) {
					t.Fatalf("%q loads %q", from, a.Val)
				}
			}
		}
	}
}

// loads matches what loads something or ran scripts.
var loads = regexp.MustCompile(`(?:^|[^\w\x{80}-\x{10ffff}-])(?:(?:-webkit-)?image-set\(|expression\(|src\(|behavior:)|@import|</`)

// urls matches the function, and not one whose name ends so.
var urls = regexp.MustCompile(`(?:^|[^\w\x{80}-\x{10ffff}-])url\(`)

// quotes matches the texts of a style sheet.
var quotes = regexp.MustCompile(`"[^"]*"`)

// checkCSS fails the test if a style sheet loads something.
func checkCSS(t *testing.T, from, got string) {
	t.Helper()
	low := strings.ToLower(quotes.ReplaceAllStringFunc(got, func(q string) string {
		if strings.HasPrefix(q, `"/m/`) {
			return `"/m/"`
		}
		return `""`
	}))
	if loads.MatchString(low) {
		t.Fatalf("%q became %q", from, got)
	}
	for _, part := range urls.Split(low, -1)[1:] {
		if !strings.HasPrefix(part, `"/m/`) {
			t.Fatalf("%q became %q", from, got)
		}
	}
}

func TestAttacks(t *testing.T) {
	for _, attack := range attacks {
		c := cleaner{prefix: "/m/"}
		got := c.clean(marks(attack))
		if harmful.MatchString(got) {
			t.Errorf("%s became %s", attack, got)
		}
		checkClean(t, attack, got)
		checkCSS(t, attack, cleanCSS(c.css.String(), false, c.address))
	}
}

// TestKeeps keeps what cards are made of.
func TestKeeps(t *testing.T) {
	for src, want := range map[string]string{
		`<div class="a" style="color: red"><font color="#f00">x</font></div>`: `<div class="a" style="color: red"><font color="#f00">x</font></div>`,
		`<img src="my cat.jpg" width=20>`:                                     `<img src="/m/my%20cat.jpg" width="20">`,
		`<img src="my%20cat.jpg">`:                                            `<img src="/m/my%20cat.jpg">`,
		`<img src="data:image/png;base64,AAAA">`:                              `<img src="data:image/png;base64,AAAA">`,
		`<table><tr><td>1<td>2<tr><td>3</table>`:                              `<table><tr><td>1</td><td>2</td></tr><tr><td>3</td></tr></table>`,
		`<a href="https://x.example">l</a>`:                                   `<a title="https://x.example">l</a>`,
		`a<b>c</i>d`:                                                          `a<b>cd</b>`,
		`<div style="background:url(_bg.png)">`:                               `<div style="background:url(&#34;/m/_bg.png&#34;)"></div>`,
	} {
		c := cleaner{prefix: "/m/"}
		if got := c.clean(src); got != want {
			t.Errorf("%s became %s, want %s", src, got, want)
		}
	}
	const sheet = `@font-face { font-family: X; src: url("_x.ttf"); }
@media (max-width: 400px) { .card > b::before { content: "\201C"; } }
.card { font: 1e1px/1.5 'A B'; background: #fff url(_bg.png) no-repeat; --v: calc(1px + 2%); } .\31 a { width: 10px; }`
	const want = `@font-face { font-family: X; src: url("/m/_x.ttf"); }
@media (max-width: 400px) { .card > b::before { content: "“"; } }
.card { font: 1e1px/1.5 "A B"; background: #fff url("/m/_bg.png") no-repeat; --v: calc(1px + 2%); } .\31 a { width: 10px; }`
	c := cleaner{prefix: "/m/"}
	if got := cleanCSS(sheet, false, c.address); got != want {
		t.Errorf("the style sheet became\n%s", got)
	}
}

func FuzzClean(f *testing.F) {
	for _, attack := range attacks {
		f.Add(attack)
	}
	f.Fuzz(func(t *testing.T, s string) {
		c := cleaner{prefix: "/m/"}
		got := c.clean(marks(s))
		checkClean(t, s, got)
		again := cleaner{prefix: "/m/"}
		if twice := again.clean(got); strings.Count(twice, "<") != strings.Count(got, "<") {
			t.Errorf("%q is read as %q", got, twice)
		}
	})
}

func FuzzCSS(f *testing.F) {
	for _, attack := range attacks {
		f.Add(attack)
	}
	f.Add(`@m\65 dia x{a{b:u\72 l( "x" )}}@import url(x);a{c:"\"url(//x)"}`)
	f.Fuzz(func(t *testing.T, s string) {
		c := cleaner{prefix: "/m/"}
		got := cleanCSS(s, false, c.address)
		checkCSS(t, s, got)
		if twice := cleanCSS(got, false, func(a string) string { return a }); twice != got {
			t.Errorf("%q is read as %q", got, twice)
		}
	})
}

func FuzzTemplate(f *testing.F) {
	f.Add("{{#F}}{{cloze:F}}{{/F}}", "{{FrontSide}}<hr id=answer>{{type:cloze:F}}{{furigana:F}}", "{{c1::a {{c2::b::h}}}} 漢[か]")
	f.Add("{{=<% %>=}}<%F%>", "{{hint:F}}{{cloze-only:F}}", "{{c1::image-occlusion:rect:left=1:top=a\\:b}}")
	f.Fuzz(func(t *testing.T, front, back, field string) {
		for _, answer := range []bool{false, true} {
			for _, plain := range []bool{false, true} {
				s := Side{Values: map[string]string{"F": field, "FrontSide": front}, Ordinal: 1, Answer: answer, Plain: plain}
				html, err := s.Render(Parse(back))
				if err != nil {
					continue
				}
				c := cleaner{prefix: "/m/", shapes: s.shapes}
				checkClean(t, html, c.clean(marks(html)))
			}
		}
	})
}
