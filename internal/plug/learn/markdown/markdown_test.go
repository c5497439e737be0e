package markdown

import (
	"strings"
	"testing"

	"golang.org/x/net/html"
)

// Markdown is rendered.
func TestShown(t *testing.T) {
	for source, want := range map[string]string{
		"**fat** and `code`":        "<strong>fat</strong> and <code>code</code>",
		"# Title":                   "<h3>Title</h3>",
		"|a|b|\n|-|-|\n|1|2|":       "<td>1</td>",
		"~~gone~~":                  "<del>gone</del>",
		"[go](https://go.dev/)":     `<a href="https://go.dev/" rel="noopener noreferrer nofollow" target="_blank">go</a>`,
		"see https://go.dev/":       `rel="noopener noreferrer nofollow"`,
		"a <b>tag</b>":              "a &lt;b&gt;tag&lt;/b&gt;",
		"<div>\nblock\n</div>":      "&lt;div&gt;\nblock\n&lt;/div&gt;",
		"![a cat](https://x/y.gif)": "<p>a cat</p>",
		"[file](/etc/passwd)":       "<p>file</p>",
		"什么是 **栈**？":                "<strong>栈</strong>",
	} {
		if got := HTML(source); !strings.Contains(got, want) {
			t.Errorf("%q is %q, which lacks %q", source, got, want)
		}
	}
}

// Plain keeps the words without formatting and tables.
func TestPlain(t *testing.T) {
	for source, want := range map[string]string{
		"**fat** and `code`, 5*3":             "fat and code, 5*3",
		"# Title\n\ntwo\nlines":               "Title\ntwo\nlines",
		"|a|b|\n|-|-|\n|1|**2**|":             "a b\n1 2",
		"- one\n- two":                        "one\ntwo",
		"```go\nx := 1\n```":                  "x := 1",
		"[go](https://go.dev/) <b>x</b>":      "go <b>x</b>",
		"see https://go.dev/ & <a@b.example>": "see https://go.dev/ & a@b.example",
		"![a cat](https://x/y.gif)":           "a cat",
	} {
		if got := Plain(source); got != want {
			t.Errorf("%q is %q, want %q", source, got, want)
		}
	}
}

var attacks = []string{
	"<script>alert(1)</script>", "a <script>alert(1)</script> b", "<img src=x onerror=alert(1)>",
	"x<img src=x onerror=alert(1)>",
	"[x](javascript:alert(1))", "[x](JaVaScRiPt:alert(1))", "[x](java\tscript:alert(1))",
	"[x](&#106;avascript:alert(1))", "[x](data:text/html,<script>alert(1)</script>)",
	"[x](vbscript:x)", "<javascript:alert(1)>", "![x](javascript:alert(1))", "![x\" onerror=\"alert(1)](https://x/)",
	"[x](https://x/\"onmouseover=\"alert(1))",
	"[x]: javascript:alert(1)\n\n[x]", "<https://x/\"><script>alert(1)</script>>", "`<script>`",
	"```html\n<script>alert(1)</script>\n```", "```\"><script>\n```",
	"<style>*{display:none}</style>", "<iframe src=//x></iframe>", "<!-- --><script>alert(1)</script>",
	"<![CDATA[<script>alert(1)</script>]]>", "<?php <script>alert(1)</script>?>",
	"[a](https://x 'title\" onclick=\"x')", "<svg><script>alert(1)</script></svg>", "<a@b.c\"onclick=x>",
	"<x@example.org>", "# <script>x</script> {onclick=alert(1)}", "//evil.example/x", "|a|b|\n|:-:|-:|\n|1|2|",
	"- [x] done",
	"[x](//evil.example)", "<form action=/signout><button>", strings.Repeat("[", 5000),
	strings.Repeat(">", 5000) + "<script>",
}

// harmless checks that the HTML contains nothing active.
func harmless(t *testing.T, source string) {
	t.Helper()
	z := html.NewTokenizer(strings.NewReader(HTML(source)))
	for z.Next() != html.ErrorToken {
		token := z.Token()
		if token.Type != html.StartTagToken && token.Type != html.SelfClosingTagToken {
			continue
		}
		switch token.Data {
		case "p", "em", "strong", "code", "pre", "a", "ul", "ol", "li", "h3", "h4", "h5", "h6", "blockquote", "hr",
			"br", "del", "table", "thead", "tbody", "tr", "th", "td":
		default:
			t.Errorf("%.100q has <%s>", source, token.Data)
		}
		for _, a := range token.Attr {
			switch a.Key {
			case "href":
				if to := strings.ToLower(a.Val); !strings.HasPrefix(to, "http://") &&
					!strings.HasPrefix(to, "https://") {
					t.Errorf("%.100q leads to %q", source, a.Val)
				}
			case "rel", "target", "title", "start", "class", "align":
			default:
				t.Errorf("%.100q has %s=%q", source, a.Key, a.Val)
			}
		}
	}
}

// No text can run anything on a page.
func TestHarmless(t *testing.T) {
	for _, source := range attacks {
		harmless(t, source)
	}
}

func FuzzHarmless(f *testing.F) {
	for _, source := range attacks {
		f.Add(source)
	}
	f.Fuzz(func(t *testing.T, source string) {
		if len(source) < 4<<10 {
			harmless(t, source)
		}
	})
}
