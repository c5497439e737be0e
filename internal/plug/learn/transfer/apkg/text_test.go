package apkg

import (
	"strings"
	"testing"
	"time"
)

func TestText(t *testing.T) {
	for src, want := range map[string]string{
		"":                         "",
		"plain  text\n here":       "plain text here",
		"a<br>b<br/>c":             "a\nb\nc",
		"a<br><br><br>b":           "a\n\n\nb",
		"<div>a</div><div>b</div>": "a\nb",
		"<div>a</div><div><br></div><div>b</div>":           "a\n\nb",
		"<p>a</p><p>b</p>":                                  "a\n\nb",
		"<b>bold </b>and <i> it</i>, <em></em>end":          "**bold** and *it*, end",
		"<b><b>x</b>y</b>":                                  "**xy**",
		"<b>open":                                           "**open**",
		"</b></ul></div>x":                                  "x",
		"<ul><li>a</li><li>b<ul><li>c</li></ul></li></ul>d": "- a\n- b\n  - c\nd",
		"<ol><li>a<li>b</ol>":                               "1. a\n2. b",
		"x &lt;y&gt; &amp;amp; &nbsp;&eacute;&#33;":         "x <y> &amp;  é!",
		"[sound:a.mp3] <img src=\"b c.png\"> <img src='data:image/png;base64,AAAA'><img>": "[sound: a.mp3] [image: b c.png] [image][image]",
		"<style>.x{}</style>a<script>alert(1)</script>b<!-- c -->":                        "ab",
		"<pre>a\n  b</pre>c <code>d e</code>":                                             "a\n  b\nc `d e`",
		"<table><tr><td>a</td><td>b</td></tr><tr><td>c</td></tr></table>":                 "a b\n c",
		"a < b and b > c":                 "a < b and b > c",
		"\xff<b>":                         "\ufffd",
		`\(x^2\) [latex]y[/latex]`:        `\(x^2\) [latex]y[/latex]`,
		"two&nbsp; spaces":                "two  spaces",
		"<h1>t</h1>text<blockquote>q":     "t\n\ntext\n\nq",
		"<a href='http://x'>link</a>\x00": "link",
	} {
		if got := Text(src); got != want {
			t.Errorf("%q became %q, want %q", src, got, want)
		}
	}
}

func TestFieldHTML(t *testing.T) {
	for _, text := range []string{"a", "a <b>&amp;\nb", "a  b   c\n d", "1\n\n\n2", "**b** `code`", "汉字\n\n- x\n  - y",
		"a & <br> [image: x]", "x > y", "{{c1::x}}"} {
		if got := Text(fieldHTML(text)); got != text {
			t.Errorf("%q came back as %q by way of %q", text, got, fieldHTML(text))
		}
	}
	if got := fieldHTML("a\x1fb\tc"); got != "ab&nbsp;&nbsp;&nbsp;&nbsp;c" {
		t.Errorf("separators and tabs became %q", got)
	}
}

// The time for deep or long texts is proportional to their length.
func TestTextIsQuick(t *testing.T) {
	for name, src := range map[string]string{
		"divs":  strings.Repeat("<div>", 1e5) + "x" + strings.Repeat("</div>", 1e5),
		"lists": strings.Repeat("<ul><li>", 5e4) + "x",
		"bold":  strings.Repeat("<b>x", 1e5),
		"amp":   strings.Repeat("&", 4e5),
		"less":  strings.Repeat("<", 4e5),
		"open":  strings.Repeat("<a b='", 5e4),
		"br":    strings.Repeat("<br>", 1e5) + "x",
	} {
		begin := time.Now()
		got := Text(src)
		if took := time.Since(begin); took > 10*time.Second {
			t.Errorf("%s: %v", name, took)
		}
		if len(got) > 10*len(src) {
			t.Errorf("%s: %d bytes became %d", name, len(src), len(got))
		}
	}
}

func TestAnswerLine(t *testing.T) {
	for src, want := range map[string]string{
		"Q<hr id=answer>A": "A", `Q<hr  id="answer" />A`: "A", "Q<hr>A": "Q<hr>A", "Q<hr>x<hr id='answer'>A": "A",
		"Q<hr id=answer": "Q<hr id=answer", "": "",
	} {
		if got := afterAnswerLine(src); got != want {
			t.Errorf("%q became %q, want %q", src, got, want)
		}
	}
}
