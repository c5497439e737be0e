package markdown_test

import (
	"slices"
	"testing"

	"patchbay/internal/plug/learn/markdown"
)

// TestMediaAndFormulas renders pictures, sounds and formulas of points.
func TestMediaAndFormulas(t *testing.T) {
	for src, want := range map[string]string{
		"![a cat](cat.png)":                        `<p><img src="/learn/media/cat.png" alt="a cat"></p>` + "\n",
		"![a](https://evil.example/x.png)":         "<p>a</p>\n",
		"![a](../x.png)":                           "<p>a</p>\n",
		"[sound:a b.mp3]":                          `<p><audio src="/learn/media/a%20b.mp3" controls preload="none"></audio></p>` + "\n",
		"$x$ and `$x$`":                            "<p><math><mrow><mi>x</mi></mrow></math> and <code>$x$</code></p>\n",
		"costs $5 and $10":                         "<p>costs $5 and $10</p>\n",
		"$$\n\\frac{1}{2}\n$$":                     "<p><math display=\"block\"><mrow><mfrac><mrow><mn>1</mn></mrow><mrow><mn>2</mn></mrow></mfrac></mrow></math></p>\n",
		`\(a_b\) \[c\]`:                            "<p><math><mrow><msub><mi>a</mi><mi>b</mi></msub></mrow></math> <math display=\"block\"><mrow><mi>c</mi></mrow></math></p>\n",
		`$\unknown{<b>}$`:                          "<p><code class=\"tex\">\\unknown{&lt;b&gt;}</code></p>\n",
		`\(open`:                                   "<p>(open</p>\n",
		"[sound:\"><script>alert(1)</script>.mp3]": "<p>🔇 &#34;&gt;&lt;script&gt;alert(1)&lt;/script&gt;.mp3</p>\n",
	} {
		if got := markdown.HTML(src); got != want {
			t.Errorf("%q became %q, want %q", src, got, want)
		}
	}
	_, media := markdown.Render("![a](b.png) [sound:c.mp3] ![d](http://e/f.png)", "/x/")
	if !slices.Equal(media, []string{"c.mp3", "b.png"}) {
		t.Error(media)
	}
	if got := markdown.Plain("a $x^2$ [sound:c.mp3] ![cat](c.png)"); got != "a $x^2$ c.mp3 cat" {
		t.Error(got)
	}
	seen := func(name, alt string) string { return "<" + name + "|" + alt + ">" }
	if got := markdown.PlainWith("a $x^2$ [sound:c.mp3] ![my *cat*](a%20c.png \"t\") ![x](http://e/f.png) `![](d.png)`", seen); got !=
		"a $x^2$ c.mp3 <a c.png|my cat> x ![](d.png)" {
		t.Error(got)
	}
}
