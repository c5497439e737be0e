package plain

import (
	"strings"
	"testing"
	"unicode/utf8"
)

// paged returns the output of a pager for a text in pieces of n characters.
func paged(text string, max, n int) (page, rest string, full bool) {
	p := NewPager(max)
	var b strings.Builder
	for runes := []rune(text); len(runes) > 0; {
		n := min(n, len(runes))
		b.WriteString(p.Write(string(runes[:n])))
		runes = runes[n:]
	}
	b.WriteString(p.Flush())
	return b.String(), p.Rest(), p.full
}

func TestPage(t *testing.T) {
	for name, c := range map[string]struct {
		max              int
		text, page, rest string
	}{
		"no limit":             {0, "一。二。", "一。二。", ""},
		"fits":                 {4, "一。二。", "一。二。", ""},
		"fits but for space":   {4, "一。二。\n\n", "一。二。", ""},
		"sentence":             {10, "一二三四五六七八。九十。一二", "一二三四五六七八。", "九十。一二"},
		"last of two":          {12, "一二三四五六七八。九。十一二三四五六", "一二三四五六七八。九。", "十一二三四五六"},
		"too early":            {12, "一二三四。五六七八九十一二三四五六", "一二三四。五六七八九十一", "二三四五六"},
		"sentence at the end":  {8, "一二三四五六七。八九", "一二三四五六七。", "八九"},
		"quoted":               {12, "他说：“一二三四五。”六七八九", "他说：“一二三四五。”", "六七八九"},
		"quote over the limit": {10, "他说：“一二三四五。”六七八九", "他说：“一二三四", "五。”六七八九"},
		"several stops":        {12, "一二三四五六七八！？！九十一二", "一二三四五六七八！？！", "九十一二"},
		"semicolon":            {10, "一二三四五六七八；九十一", "一二三四五六七八；", "九十一"},
		"line":                 {12, "一二三四五六七八九 \n十一二三", "一二三四五六七八九", "十一二三"},
		"latin":                {20, "This is the first. Then more.", "This is the first.", "Then more."},
		"quotes in latin":      {20, "He said \"go home.\" Then left.", "He said \"go home.\"", "Then left."},
		"no sentence":          {20, "See www.patchbay.dev now", "See www.patchbay.dev", "now"},
		"number":               {11, "It costs 3.14159265 euros", "It costs ", "3.14159265 euros"},
		"mark of a list":       {12, "一二三四五六七八\n1. 九十", "一二三四五六七八\n", "1. 九十"},
		"behind a digit":       {16, "abcdef ghi jk 5. More", "abcdef ghi jk 5.", "More"},
		"comma":                {12, "一二三四五六七八，九十一二三", "一二三四五六七八，", "九十一二三"},
		"comma in a number":    {16, "about twelve 1,234,567 pieces", "about twelve", "1,234,567 pieces"},
		"words":                {20, "twelve small words are here to cut", "twelve small words", "are here to cut"},
		"long word":            {10, "abcdefghijklmnop", "abcdefghij", "klmnop"},
		"no stop at the front": {8, "一二三四五六七八，九", "一二三四五六七", "八，九"},
		"no open bracket last": {8, "一二三四五六七（八九）", "一二三四五六七", "（八九）"},
		"accents":              {4, "abce\u0301\u0302f", "abc", "e\u0301\u0302f"},
		"flag":                 {5, "abcd🇨🇳e", "abcd", "🇨🇳e"},
		"both scripts":         {12, "打开设置Bluetooth菜单", "打开设置Bluetoot", "h菜单"},
		"one character":        {1, "一二", "一", "二"},
		"nothing":              {5, "", "", ""},
		"only space":           {2, " \n \n ", " \n", ""},
		"space in the way":     {4, "一二三四 \n \n五", "一二三四", "五"},
	} {
		t.Run(name, func(t *testing.T) {
			page, rest := Page(c.text, c.max)
			if page != c.page || rest != c.rest {
				t.Fatalf("page %q and rest %q, want %q and %q", page, rest, c.page, c.rest)
			}
			for n := 1; n < 5; n++ {
				page, rest, full := paged(c.text, c.max, n)
				if page != c.page || rest != c.rest || full != (c.rest != "") {
					t.Fatalf("in pieces of %d: page %q, rest %q, full %v", n, page, rest, full)
				}
			}
		})
	}
}

func TestPager_showsSentencesAtTheEndOfThePage(t *testing.T) {
	p := NewPager(12)
	for i, s := range []struct{ piece, shows, rest string }{
		{"一二三四五", "一二三四五", ""},
		{"六七八九", "六七八九", ""}, // the last quarter begins
		{"十", "", "十"},
		{"。", "", "十。"},
		{"一", "十。", "一"},
		{"二。三", "", "一二。三"},
		{"四", "", "一二。三四"},
	} {
		if got := p.Write(s.piece); got != s.shows || p.Rest() != s.rest {
			t.Fatalf("piece %d, %q, shows %q and leaves %q, want %q and %q", i, s.piece, got, p.Rest(), s.shows, s.rest)
		}
	}
	if !p.full || p.Flush() != "" {
		t.Error("a full page goes on")
	}
}

func TestPager_restIsBounded(t *testing.T) {
	p := NewPager(10)
	for range 10000 {
		p.Write("很长很长的一段话。")
	}
	rest := p.Rest()
	if len(rest) > maxRest || len(rest) < maxRest-2 || !utf8.ValidString(rest) {
		t.Errorf("the rest has %d bytes and is UTF-8: %v", len(rest), utf8.ValidString(rest))
	}
	p = NewPager(10)
	for range 10000 {
		p.Write("          ")
	}
	if n := len(p.held); n > maxRest || p.full {
		t.Errorf("%d bytes of space are kept; full: %v", n, p.full)
	}
	p = NewPager(1 << 20)
	long := strings.Repeat("x", 1<<20)
	if got := p.Write(long) + p.Flush(); got != long {
		t.Errorf("%d of %d characters of a long page are shown", len(got), len(long))
	}
	text := strings.Repeat("一二三四五六七八九十", 20000)
	if page, rest := Page(text, 50); page+rest != text {
		t.Errorf("Page lost %d of %d bytes", len(text)-len(page)-len(rest), len(text))
	}
}

// squeezed returns text without space.
func squeezed(s string) string { return strings.Join(strings.Fields(s), "") }

func FuzzPage(f *testing.F) {
	f.Add("一二三四五六七八。九十。一二", 10, 3)
	f.Add("He said \"go home.\" Then 3.14 left, and\n\n1. x 👩‍👩‍👧🇨🇳e\u0301", 12, 1)
	f.Add(sample, 40, 7)
	f.Add("a \xff\xe4 b", 3, 1)
	f.Fuzz(func(t *testing.T, text string, max, n int) {
		max, n = max&0x7f, n&7+1
		page, rest := Page(text, max)
		if !strings.HasPrefix(text, page) || !strings.HasSuffix(text, rest) {
			t.Fatalf("%q: page %q, rest %q", text, page, rest)
		}
		if between := text[len(page) : len(text)-len(rest)]; strings.TrimSpace(between) != "" {
			t.Fatalf("%q is neither on page %q nor in %q", between, page, rest)
		}
		if shown := utf8.RuneCountInString(page); max > 0 && shown > max {
			t.Fatalf("%d characters on a page of %d", shown, max)
		}
		if rest != "" && page == "" {
			t.Fatalf("an empty page before %q", rest)
		}
		if !utf8.ValidString(text) {
			return
		}
		again, left, full := paged(text, max, n)
		if again != page || left != rest || full != (rest != "") {
			t.Fatalf("max %d: in pieces of %d page %q and rest %q, at once %q and %q", max, n, again, left, page, rest)
		}
		// Without Flush nothing is lost either.
		p := NewPager(max)
		if shown := p.Write(text); squeezed(shown+p.Rest()) != squeezed(text) {
			t.Fatalf("without Flush %q and %q are left of %q", shown, p.Rest(), text)
		}
		for pages := 0; rest != ""; pages++ {
			if pages > len(text) {
				t.Fatalf("%q has no last page", text)
			}
			_, rest = Page(rest, max)
		}
	})
}
