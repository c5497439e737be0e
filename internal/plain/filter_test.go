package plain

import (
	"strings"
	"testing"
	"unicode/utf8"

	"patchbay/internal/i18n"
)

var all = Options{Markdown: true, URLs: true, Code: true, Emoji: true, Lang: i18n.Chinese}

// filtered returns the output of a filter for a text in pieces of n bytes; 0 means one piece.
func filtered(opt Options, text string, n int) string {
	f := NewFilter(opt)
	if n == 0 {
		n = max(len(text), 1)
	}
	var b strings.Builder
	for len(text) > 0 {
		n := min(n, len(text))
		b.WriteString(f.Write(text[:n]))
		text = text[n:]
	}
	b.WriteString(f.Flush())
	return b.String()
}

func check(t *testing.T, opt Options, text, want string) {
	t.Helper()
	for _, n := range []int{0, 1, 2, 3, 7} {
		if got := filtered(opt, text, n); got != want {
			t.Errorf("%q in pieces of %d bytes\n got %q\nwant %q", text, n, got, want)
			return
		}
	}
}

func TestFilter_markdown(t *testing.T) {
	long := strings.Repeat("长", 200)
	for name, c := range map[string]struct{ text, want string }{
		"heading":               {"# 标题\n正文", "标题\n正文"},
		"heading of level six":  {"###### h\n", "h\n"},
		"seven are none":        {"####### h\n", "####### h\n"},
		"heading without space": {"##标题", "标题"},
		"tag":                   {"#标签 和 #tag ##x", "#标签 和 #tag ##x"},
		"empty heading":         {"#\na", "\na"},
		"language":              {"C# 和 F#\n#1 号", "C# 和 F#\n#1 号"},
		"underlined heading":    {"标题\n===\n正文\n---\n尾", "标题\n正文\n尾"},

		"bold":                   {"**重点**内容", "重点内容"},
		"bold within a sentence": {"这是**重点**内容", "这是重点内容"},
		"bold with quotes":       {"他说**“好”**吗", "他说“好”吗"},
		"bold, then a colon":     {"**Name:** x, **b**, c", "Name: x, b, c"},
		"bold with a space":      {"**重点： **内容。**另外**", "重点： 内容。另外"},
		"bold without an end":    {"**一\n**二**\n三", "一\n二\n三"},
		"bold over two lines":    {"**一\n二**\n三", "一\n二\n三"},
		"two bolds":              {"**一****二**", "一二"},
		"italic":                 {"*斜* 和 _under_ 和 ***both***", "斜 和 under 和 both"},
		"italic in bold":         {"**a *b* c** *d **e** f*", "a b c d e f"},
		"struck":                 {"~~旧~~新", "旧新"},
		"italic sentence":        {"*(leans in) 你好。*\n", "(leans in) 你好。\n"},
		"very long bold":         {"**" + long + long + "**", long + long},

		"multiplication":     {"3*4=12, 5 * 6 = 30, a*b*c, 2**8", "3*4=12, 5 * 6 = 30, a*b*c, 2**8"},
		"names":              {"snake_case_name _private __x 变量_名", "snake_case_name _private __x 变量_名"},
		"power":              {"x**-1 + x**(n+1)", "x**-1 + x**(n+1)"},
		"files":              {"rm *.txt a/*.go", "rm *.txt a/*.go"},
		"footnote":           {"价格 *不含税\n* 3 个", "价格 *不含税\n· 3 个"},
		"censored":           {"f*** and f** and ****", "f*** and f** and ****"},
		"blanks to fill":     {"请填空____。(___) 一 ___ 二", "请填空____。(___) 一 ___ 二"},
		"cute tildes":        {"好的~~ 10~20 ~/x 好~~", "好的~~ 10~20 ~/x 好~~"},
		"escaped":            {`\*no\* \_ \# C:\dir a\b \(x\)`, `*no* _ # C:\dir a\b \(x\)`},
		"star at the end":    {"a*", "a*"},
		"too far for italic": {"*" + long + "*", "*" + long + "*"},

		"bullets":           {"- 一\n* 二\n+ 三\n  - 四", "· 一\n· 二\n· 三\n  · 四"},
		"bullet, padded":    {"-   一\n*   **二**：三", "· 一\n· 二：三"},
		"numbers":           {"1. 一\n2) 二", "1. 一\n2) 二"},
		"no bullets":        {"-5 度\n--flag\n- \n-\n+1", "-5 度\n--flag\n- \n-\n+1"},
		"task":              {"- [ ] a\n- [x] b", "· [ ] a\n· [x] b"},
		"quote":             {"> 引用\n>> 再引\n> - 项\n\n后", "引用\n再引\n· 项\n\n后"},
		"comparison":        {"a > b, 3 < 4, a<b and c>d", "a > b, 3 < 4, a<b and c>d"},
		"rules":             {"一\n\n---\n\n二\n* * *\n三\n___\n四\n-----", "一\n\n\n二\n三\n四\n"},
		"no rules":          {"--\n**\n--- x\n=>", "--\n**\n--- x\n=>"},
		"blank lines":       {"一\n\n\n二\n\n\n\n\n三\n\n  \n\n \n  四", "一\n\n\n二\n\n\n三\n\n  \n  四"},
		"space":             {"  a  \n\n\t b", "  a  \n\n\t b"},
		"carriage returns":  {"# a\r\n- b\r\n---\r\nc\r\n", "a\r\n· b\r\nc\r\n"},
		"inline code":       {"用 `a*b*` 和 ``x`y`` 和 `` `z` ``。", "用 a*b* 和 x`y 和 `z` 。"},
		"lone tick":         {"5` 和 ``x'' \n`y", "5` 和 ``x'' \n`y"},
		"ticks on the line": {"```x``` 后", "x 后"},

		"table":                    {"| 名 | 值 |\n|----|:--:|\n| a    | **1** |\n| b || c |\n后", "名 值\na 1\nb c\n后"},
		"tight table":              {"|名|值|\n|-|-|\n|a|1\\|2|\n", "名 值\na 1|2\n"},
		"table without outer bars": {"名 | 值\n--- | ---\na | 1\n\nb | c", "名 | 值\na 1\n\nb | c"},
		"row of dashes":            {"| a | b |\n|---|---|\n| - | - |\n", "a b\n- -\n"},
		"no table":                 {"|x| < 3\n|y|\na || b", "|x| < 3\n|y|\na || b"},
		"line break in a cell":     {"| a<br>b | c |\n", "a b c\n"},
		"link":                     {"见[官网](https://a.com/x_(y)?b=1 \"标题\")。", "见官网。"},
		"link with marks":          {"[**a** `b`](u) [c [d](e) f](g)", "a b c d f"},
		"image":                    {"![图 1](data:image/png;base64,AA==)后 好! [x] 好![", "图 1后 好! [x] 好!["},
		"image in a link":          {"[![alt](a.png)](b)", "alt"},
		"no link": {"[1] [注] (x) [2](see above) [a]\n(b) a[0](",
			"[1] [注] (x) [2](see above) [a]\n(b) a[0]("},
		"address": {"见 https://a.com/a_b_c/*x* 后 <https://b.com/_c_>。",
			"见 https://a.com/a_b_c/x 后 https://b.com/_c_。"},
		"tags":                      {"a<br>b<br/>c<b>d</b> <span class=\"x\">e</span><!-- f\n -->", "a\nb\ncd e"},
		"list of tags":              {"<ul><li>a</li><li>b</li></ul><p>c</p>d", "· a\n· b\nc\nd"},
		"no tags":                   {"List<String> <3 <think> a <b", "List<String> <3 <think> a <b"},
		"entities":                  {"a&nbsp;b &lt;c&gt; AT&T &amp;amp; &x", "a b <c> AT&T &amp; &x"},
		"code block":                {"前\n```go\nx := *p // **y**\n\n```\n后", "前\nx := *p // **y**\n\n后"},
		"code block with tildes":    {"~~~\n```\n~~~\n后", "```\n后"},
		"code block in a list":      {"1. a\n   ```sh\n   ls\n     -l\n   ```\n2. b", "1. a\n   ls\n     -l\n2. b"},
		"code block in a bullet":    {"- ```\n  ls\n  ```\n后", "· ls\n后"},
		"code block in a quote":     {"> ```\n> a\n> # b\n> ```\n> c\n", "a\n# b\nc\n"},
		"code block ends with both": {"> ```\n> a\n# b", "a\nb"},
		"code block without an end": {"```\na\n```x", "a\n```x"},
		"code block, end of text":   {"```\na\n```", "a\n"},
		"indented code in a quote":  {">   ```\n>     a\n>   b\n> ```", "    a\n  b\n"},
		"escaped bracket":           {`[a\]b](c\)d)e`, "a]be"},
		"escaped end":               {`*a\* b`, "*a* b"},
		"power after bold":          {"**a\n2**8 **b", "a\n2**8 b"},
		"star in a word":            {"*a*b", "*a*b"},
		"italic that code ended":    {"*a `b*`\nc* d", "a b*\nc* d"},
		"longer fence":              {"````\n```\na\n````\nb", "```\na\nb"},
	} {
		t.Run(name, func(t *testing.T) { check(t, Options{Markdown: true}, c.text, c.want) })
	}
}

func TestFilter_urls(t *testing.T) {
	opt := Options{Markdown: true, URLs: true}
	long := "https://a.com/" + strings.Repeat("x", 2000)
	for name, c := range map[string]struct{ text, want string }{
		"bare":              {"见 https://a.com/b?c=d#e。好", "见 。好"},
		"between spaces":    {"see http://a.com:80/ for more", "see for more"},
		"before a space":    {"见https://a.com 好", "见 好"},
		"at the end":        {"see HTTPS://A.com.", "see ."},
		"punctuation":       {"x https://a.com/a.b,c, https://b.com; y", "x , ; y"},
		"parentheses":       {"维基（https://a.com/x_(y)）和 (https://b.com) 好", "维基和 好"},
		"not alone in them": {"(https://a.com 官网)（https://b.com", "( 官网)（"},
		"without a scheme":  {"www.a.com 和 awww.b 和 www. 好", "和 awww.b 和 www. 好"},
		"link":              {"[官网](https://a.com) [https://a.com](https://a.com) 好", "官网 好"},
		"in angle brackets": {"<https://a.com> 好", "好"},
		"in ticks":          {"打开 `https://a.com` 好", "打开 好"},
		"in bold":           {"**https://a.com** 好", "好"},
		"in a table":        {"| a | https://a.com/b | c |\n", "a c\n"},
		"in a list":         {"- https://a.com\n- <https://b.com>\n- 好", "\n\n· 好"},
		"on a line":         {"源：\nhttps://a.com\n好", "源：\n\n好"},
		"long":              {"a " + long + " b", "a b"},
		"dots": {"https://a.com......" + strings.Repeat(".", 600) + "b",
			"......" + strings.Repeat(".", 600) + "b"},
		"words":              {"hello http what: h https: http:// x", "hello http what: h https: http:// x"},
		"within a word":      {"xhttp://a.com", "xhttp://a.com"},
		"in another script":  {"https://zh.wikipedia.org/wiki/人工", "人工"},
		"end of the address": {"http://a.com\"x http://b.com]y", "\"x ]y"},
	} {
		t.Run(name, func(t *testing.T) { check(t, opt, c.text, c.want) })
	}
}

func TestFilter_code(t *testing.T) {
	for name, c := range map[string]struct {
		opt        Options
		text, want string
	}{
		"left out": {Options{Code: true, Lang: i18n.Chinese}, "前\n```go\nx\n# y\n```\n后 **z**",
			"前\n（代码略）\n后 **z**"},
		"in English":       {Options{Code: true}, "```\nx\n```", "(code left out)"},
		"without an end":   {all, "看：\n```py\nx\n\ny", "看：\n（代码略）"},
		"one by one":       {all, "```\na\n```\n```\nb\n```\nc", "（代码略）\n（代码略）\nc"},
		"in a quote":       {all, "> ```\n> a\nb", "（代码略）\nb"},
		"in a list":        {all, "- ```\n  a\n  ```\n- b", "· （代码略）\n· b"},
		"at the very end":  {all, "a\n```", "a\n"},
		"ticks stay code":  {all, "`a_b` *x* 😀`y`", "a_b x y"},
		"kept as it is":    {Options{URLs: true}, "```\nx *y*\n```\n", "```\nx *y*\n```\n"},
		"emoji in a block": {Options{Markdown: true, Emoji: true}, "```\na ✅ b 1️⃣\n```", "a b \n"},
	} {
		t.Run(name, func(t *testing.T) { check(t, c.opt, c.text, c.want) })
	}
}

func TestFilter_emoji(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"simple":           {"好😀的", "好的"},
		"between spaces":   {"好 👍 的", "好 的"},
		"before a space":   {"好👍 的", "好 的"},
		"at the start":     {"✅ 完成\n- ❌ 没有\n## 🎉 标题", "完成\n· 没有\n标题"},
		"family":           {"a👨‍👩‍👧‍👦b", "ab"},
		"skin":             {"a👍🏽b✌🏽c☝🏻d", "abcd"},
		"shrug":            {"a🤷‍♂️b🤷🏻‍♀c", "abc"},
		"flags":            {"a🇨🇳🇩🇪b🏴󠁧󠁢󠁥󠁮󠁧󠁿c🏳️‍🌈d", "abcd"},
		"keycaps":          {"1️⃣ 一 2⃣二 #️⃣*️⃣ 9 * 8 = 72", "一 二 9 * 8 = 72"},
		"selected":         {"❤️ ☀️ ™️ ©️ ❤️‍🔥x❤\u200d🔥", "x"},
		"signs":            {"© ® ™ ❤ ☀ → ▶ ✔ ℃ №", "© ® ™ ❤ ☀ → ▶ ✔ ℃ №"},
		"chosen as text":   {"❤\ufe0e x", "❤ x"},
		"joiner in a word": {"क्\u200dष می\u200cخواهم", "क्\u200dष می\u200cخواهم"},
		"joiner to a word": {"😀\u200da", "a"},
		"variant of a han": {"葛\U000e0100城", "葛\U000e0100城"},
		"digits":           {"25 度 2024年12", "25 度 2024年12"},
		"in bold":          {"**👍 好**", "好"},
		"only":             {"😀😀\n👍", "\n"},
		"rare characters":  {"𠮷野家 𝒳 🄰", "𠮷野家 𝒳 🄰"},
	} {
		t.Run(name, func(t *testing.T) { check(t, Options{Markdown: true, Emoji: true}, c.text, c.want) })
	}
}

func TestFilter_nothingTakenOut(t *testing.T) {
	text := "# a\n\n\n\n\n- **b** `c` https://a.com 😀1️⃣ | [d](e)\n```\nf\n```\n<br>&nbsp;\\*"
	check(t, Options{}, text, text)
}

func TestFilter_notUTF8(t *testing.T) {
	for text, want := range map[string]string{
		"a\xffb":           "a\ufffdb",
		"\xe4\xbd":         "\ufffd\ufffd",
		"你\xe4好":           "你\ufffd好",
		"**\xf0\x9f**":     "\ufffd\ufffd",
		"[\xff](\xfe)":     "\ufffd",
		"\xed\xa0\x80":     "\ufffd\ufffd\ufffd",
		"ok\ufffd":         "ok\ufffd",
		"https://a\xffb c": "\ufffdb c",
	} {
		check(t, all, text, want)
	}
}

// TestFilter_keepsBackOnlyWhatIsOpen checks that text without a special meaning, and space, is
// shown at once.
func TestFilter_keepsBackOnlyWhatIsOpen(t *testing.T) {
	type step struct{ piece, shows string }
	for name, steps := range map[string][]step{
		"words": {{"你好", "你好"}, {"，", "，"}, {" world", " world"}, {"\n\n", "\n\n"}, {"   ", "   "},
			{"二。", "二。"}},
		"half a rune":     {{"\xe4", ""}, {"\xbd", ""}, {"\xa0x", "你x"}},
		"star":            {{"a*", "a"}, {"b", "*b"}},
		"bold":            {{"x **", "x "}, {"很", "很"}, {"长", "长"}, {"**", ""}, {"。", "。"}},
		"italic":          {{"x *很", "x "}, {"长*", ""}, {"。", "很长。"}},
		"link":            {{"见[官", "见"}, {"网](http://a", ""}, {".com)", "官网"}},
		"not a link":      {{"[x]", ""}, {" y", "[x] y"}},
		"address":         {{"见 ht", "见 "}, {"tps:/", ""}, {"/a.com/x", ""}, {" 好", "好"}},
		"not an address":  {{"w", ""}, {"hat", "what"}},
		"fence":           {{"``", ""}, {"`go", ""}, {"\nx", "（代码略）"}, {"\n```\n", "\n"}, {"y", "y"}},
		"bullet":          {{"-", ""}, {" ", ""}, {"项", "· 项"}},
		"heading":         {{"##", ""}, {" ", ""}, {"题", "题"}},
		"row":             {{"| a ", "a"}, {"| b", " b"}, {" |", ""}, {"\n", "\n"}},
		"third blank":     {{"a\n\n\n", "a\n\n\n"}, {"\n\n", ""}, {" ", ""}, {"b", " b"}},
		"digit":           {{"第1", "第"}, {"章", "1章"}},
		"sign":            {{"☀", ""}, {"x", "☀x"}},
		"exclamation":     {{"好!", "好"}, {"是", "!是"}},
		"ticks":           {{"用`a", "用"}, {"b`", ""}, {"。", "ab。"}},
		"tag":             {{"a<b", "a"}, {"r>", "\n"}, {"c<", "c"}, {"3", ""}, {" ", "<3 "}},
		"quoted bullet":   {{"> -", ""}, {" x", "· x"}},
		"parenthesis":     {{"a（", "a"}, {"b（h", "（b"}, {"ttp://a.cc", ""}, {"）c", "c"}},
		"nothing":         {{"", ""}, {"a", "a"}, {"", ""}},
		"backslash":       {{"a\\", "a"}, {"*", "*"}, {"\\", ""}, {"n", "\\n"}},
		"flag":            {{"a🇨", "a"}, {"🇳b", "b"}},
		"separator":       {{"| a |\n", "a\n"}, {"|--", ""}, {"-|\n", ""}, {"| b |", "b"}},
		"line of a table": {{"|a|", ""}, {"b|\n", "a b\n"}},
	} {
		t.Run(name, func(t *testing.T) {
			f := NewFilter(all)
			for i, s := range steps {
				if got := f.Write(s.piece); got != s.shows {
					t.Fatalf("piece %d, %q, shows %q, want %q", i, s.piece, got, s.shows)
				}
			}
		})
	}
}

func TestFilter_letsGoInTime(t *testing.T) {
	for _, open := range []string{"[", "![", "[x](", "`", "<b a=", "<!--", "*x", "_x", "~~x", "|x", "```",
		"https://a.b,"} {
		f := NewFilter(Options{Markdown: true})
		in, out := 0, 0
		write := func(s string) {
			in += len(s)
			out += len(f.Write(s))
		}
		write(open)
		for range 3000 {
			write("长")
			if held := in - out; held > maxLookahead {
				t.Fatalf("%q makes the filter keep %d bytes back", open, held)
			}
		}
		out += len(f.Flush())
		if in != out {
			t.Errorf("%q: %d bytes in, %d out", open, in, out)
		}
	}
}

func TestFilter_canBeUsedAgain(t *testing.T) {
	f := NewFilter(all)
	for _, text := range []string{"**a", "```\nx", "| a | b", "(https://a.com", "😀\u200d", "# ", "`", "- "} {
		want := filtered(all, text, 0)
		if got := f.Write(text) + f.Flush(); got != want {
			t.Errorf("%q after others: %q, want %q", text, got, want)
		}
	}
}

func TestFilter_allocates(t *testing.T) {
	f := NewFilter(all)
	f.Write("正文 starts ")
	if n := testing.AllocsPerRun(100, func() { f.Write("一段没有标记的文字, with words. ") }); n != 0 {
		t.Errorf("a plain piece costs %v allocations", n)
	}
	if n := testing.AllocsPerRun(100, func() { f.Write("一段**有标记**的文字 ") }); n > 1 {
		t.Errorf("a piece with marks costs %v allocations", n)
	}
}

const sample = `## 周末安排

- **上午**：去 [西湖](https://example.com/west_lake?id=1) 散步 🚶
- **下午**：在 _湖滨_ 喝茶，见 https://example.com/tea 。

| 时间 | 地点 |
|------|------|
| 9:00 | 断桥 |

` + "```go\nfmt.Println(\"hi\")\n```\n" + `最后，别忘了带 ` + "`umbrella`" + `。3*4=12，snake_case 不变。
`

func BenchmarkFilter(b *testing.B) {
	for name, c := range map[string]struct {
		text string
		size int
	}{
		"marked, in pieces": {sample, 12},
		"marked, at once":   {sample, 0},
		"plain, in pieces":  {strings.Repeat("今天天气不错，我们去散步吧。Then home. ", 10), 12},
	} {
		b.Run(name, func(b *testing.B) {
			var pieces []string
			for text := c.text; text != ""; {
				n := len(text)
				if c.size > 0 {
					n = min(c.size, n)
				}
				for n < len(text) && !utf8.RuneStart(text[n]) {
					n++
				}
				pieces, text = append(pieces, text[:n]), text[n:]
			}
			b.SetBytes(int64(len(c.text)))
			b.ReportAllocs()
			f := NewFilter(all)
			for b.Loop() {
				for _, p := range pieces {
					f.Write(p)
				}
				f.Flush()
			}
		})
	}
}

func TestFilter_speech(t *testing.T) {
	opt := Options{Speech: true, Lang: i18n.English}
	for name, c := range map[string]struct{ text, want string }{
		"address":                {"See https://www.example.org/a_b?c=d#e, or HTTP://a.io:80.", "See example.org, or a.io."},
		"address without www":    {"详见https://patchbay.dev/docs。好", "详见patchbay.dev。好"},
		"address in an autolink": {"<https://a.b/c> d", "a.b d"},
		"link":                   {"[the **docs**](https://a.b/c) help", "the docs help"},
		"image":                  {"![a cat](cat.png)", "a cat"},
		"host alone":             {"www.a.b", "a.b"},
		"no host":                {"https://www", "www"},
		"bullets":                {"- one\n  * two\n<li>three</li>", "one\n  two\nthree\n"},
		"table":                  {"| City | 温度 |\n|---|---|\n| 北京 | 3 ℃ |\n|| x: | y |", "City, 温度\n北京，3 ℃\nx: y"},
		"table without borders":  {"a | b\n--|--\nc | d e", "a | b\nc, d e"},
		"code":                   {"So:\n```go\nx := 1\n```\nDone.", "So:\nThe code is on the page of this conversation.\nDone."},
		"code in a sentence":     {"Call `f(x)` now.", "Call f(x) now."},
		"thought":                {"<think>\nHm # 🤔\n\n</think>\n\n# Yes.", "\n\nYes."},
		"thought in a sentence":  {"One <think>x</think>two", "One two"},
		"thought without an end": {"One.<think>" + strings.Repeat("hm ", 999), "One."},
		"thought in code":        {"`<think>` is a tag", "<think> is a tag"},
		"emoji":                  {"好👍🏽的 ☀️!", "好的 !"},
		"heading and emphasis":   {"## *A* **b**\n> c", "A b\nc"},
	} {
		t.Run(name, func(t *testing.T) { check(t, opt, c.text, c.want) })
	}
}
