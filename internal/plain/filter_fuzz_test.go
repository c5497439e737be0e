package plain

import (
	"math/rand/v2"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

func seeds(f *testing.F) []string {
	f.Helper()
	return []string{
		sample, "", "**a*b***", "*a **b** c*", "[a](b \"c\")![d](e)", "> ```\n> x\n>y\n", "~~~\nx\n~~~~ \ny",
		"| a | b |\n|--|--|\n|c|d|\n\ne|f",
		"a | b\n--|--\nc|d", "(https://a.com/(x)_y,)。", "<https://a.b>c", "👨‍👩‍👧1️⃣❤️🇨🇳✌🏽\u200d", "\xe4\xbd\xff",
		"- * + # > x", "``` `x` ```\n",
		"`` ` ``", "1. ```\nx\n```", "a\n\n\n\n \n b", "&nbsp;&am", "\\*\\", "___\n***\n- - -\n===",
		"<br><p>a</p><!-- x -->", "[[a](b)](c)",
		"x\r\n\r\n\r\n\r\n---\r\ny", "# \n##标\n", "https://a.b......c", strings.Repeat("[", 600),
		"*" + strings.Repeat("长", 90) + "*", strings.Repeat("-", 520) + "\n",
		"`" + strings.Repeat("x", 509) + "``", strings.Repeat(" ", 600) + "\n",
		"<think>a</thin</think>\n# b <think>", "https://www.a.b:8/c https://www", "| a | b：| c |\n|-|-|-|\n||1 |",
		"|a|" + strings.Repeat("b", 508) + "|\nc", strings.Repeat("`", 513),
	}
}

func options(mask uint8) Options {
	return Options{Markdown: mask&1 != 0, URLs: mask&2 != 0, Code: mask&4 != 0, Emoji: mask&8 != 0,
		Speech: mask&16 != 0}
}

// FuzzFilter checks that the output does not depend on how the text was split, that it is UTF-8,
// and that at most maxLookahead bytes are held back.
func FuzzFilter(f *testing.F) {
	for i, s := range seeds(f) {
		f.Add(s, uint8(15), uint64(i))
		f.Add(s, uint8(1), uint64(i))
		f.Add(s, uint8(14), uint64(i))
		f.Add(s, uint8(16), uint64(i))
	}
	f.Fuzz(func(t *testing.T, text string, mask uint8, seed uint64) {
		opt := options(mask)
		want := filtered(opt, text, 0)
		if got := filtered(opt, text, 1); got != want {
			t.Fatalf("%+v: %q\nbyte by byte %q\nin one piece %q", opt, text, got, want)
		}
		fl, rest := NewFilter(opt), text
		random := rand.New(rand.NewPCG(seed, 1))
		var b strings.Builder
		for len(rest) > 0 {
			n := min(1+random.IntN(1+random.IntN(40)), len(rest))
			b.WriteString(fl.Write(rest[:n]))
			rest = rest[n:]
			if len(fl.buf) >= maxLookahead {
				t.Fatalf("%d bytes are kept back", len(fl.buf))
			}
		}
		b.WriteString(fl.Flush())
		if b.String() != want {
			t.Fatalf("%+v: %q\nin pieces    %q\nin one piece %q", opt, text, b.String(), want)
		}
		if !utf8.ValidString(want) {
			t.Fatalf("%q is not UTF-8", want)
		}
	})
}

// FuzzFilter_plain checks that a text without marks is unchanged.
func FuzzFilter_plain(f *testing.F) {
	for _, s := range seeds(f) {
		f.Add(s)
	}
	f.Add("你好，world! 3.14% 'x' \"y\" {z} (a/b) @c $d ^e; 一、二。\n\n\tnext\r\n2024年")
	f.Fuzz(func(t *testing.T, text string) {
		text = strings.Map(func(r rune) rune {
			if strings.ContainsRune("*_~`#[]<>|\\&-+=", r) || emojiClassOf(r) != notEmoji {
				return -1
			}
			return r
		}, text)
		for _, address := range []string{"http", "www"} {
			for i := strings.Index(strings.ToLower(text), address); i >= 0; i = strings.Index(strings.ToLower(text),
				address) {
				text = strings.ToValidUTF8(text[:min(i, len(text))], "") // lower case may be longer
			}
		}
		if blankLines(text) > 2 {
			return
		}
		for _, n := range []int{0, 1, 5} {
			if got := filtered(all, text, n); got != text {
				t.Fatalf("in pieces of %d bytes %q became %q", n, text, got)
			}
		}
	})
}

// blankLines returns the length of the longest run of blank lines.
func blankLines(text string) int {
	most, run := 0, 0
	for line := range strings.SplitSeq(text, "\n") {
		if run++; strings.Trim(line, " \t\r") != "" {
			run = 0
		}
		most = max(most, run)
	}
	return most
}

// FuzzFilter_words checks that only marks are removed from a text without links, tags and blocks of
// code: all letters and digits stay.
func FuzzFilter_words(f *testing.F) {
	for _, s := range seeds(f) {
		f.Add(s)
	}
	words := func(text string) string {
		return strings.Map(func(r rune) rune {
			if unicode.IsLetter(r) || unicode.IsDigit(r) {
				return r
			}
			return -1
		}, text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if strings.ContainsAny(text, "[<&") || strings.Contains(text, "```") || strings.Contains(text, "~~~") {
			return
		}
		want := words(strings.ToValidUTF8(text, "\ufffd"))
		if got := words(filtered(Options{Markdown: true}, text, 0)); got != want {
			t.Fatalf("of the words of %q %q are left", text, got)
		}
	})
}

// TestFilter_cutsDoNotMatter is like FuzzFilter, with texts of marks and of stretches about as long
// as the lookahead, which a fuzzer seldom finds.
func TestFilter_cutsDoNotMatter(t *testing.T) {
	marks := []string{
		"*", "**", "***", "****", "_", "__", "~~", "`", "``", "```", "~~~", "[", "](", "](http://a.b \"c\")", ")", "![",
		"<", "<br>", "</p>", "<b a=", ">", "<!--", "-->",
		"\n", "\n", "\n\n", "\r\n", " ", "  ", "\t", "- ", "* ", "+ ", "1. ", "# ", "##", "> ", "|", "| ", " | ",
		"|--|--|\n", "--|--\n", "---\n", "===\n", "___\n",
		"<think>", "</think>", "```go\n", "\n```\n", "\n~~~\n", "https://", "www.", "https://a.b/c_d", "h", "w", "(", "（", "）", "((", ".",
		"...", ",", "!", "&", "&nbsp;", "\\", "\\*",
		"😀", "❤", "\ufe0f", "\u200d", "🇨🇳", "1", "#", "\u20e3", "🏽", "词", "word", "a", "。", "“", "\xe4", "\xff", "\xbd",
	}
	random := rand.New(rand.NewPCG(7, 7))
	rounds := 1500
	if testing.Short() {
		rounds = 400
	}
	for range rounds {
		var b strings.Builder
		for range 1 + random.IntN(40) {
			if random.IntN(12) == 0 {
				filler := []string{"x", "长", "-", " ", ".", "*", "`", "[", "|x", "词 ", "\xff", "👍"}[random.IntN(12)]
				b.WriteString(strings.Repeat(filler, (230+random.IntN(300))/len(filler)))
				continue
			}
			b.WriteString(marks[random.IntN(len(marks))])
		}
		text, opt := b.String(), options(uint8(random.IntN(32))|uint8(random.IntN(2)))
		want := filtered(opt, text, 0)
		for _, n := range []int{1, 2 + random.IntN(30)} {
			if got := filtered(opt, text, n); got != want {
				t.Fatalf("%+v: %q\nin pieces of %d %q\nin one piece %q", opt, text, n, got, want)
			}
		}
	}
}
