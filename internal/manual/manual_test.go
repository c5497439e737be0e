package manual_test

import (
	"strings"
	"testing"
	"testing/fstest"

	"patchbay/docs"
	"patchbay/internal/i18n"
	"patchbay/internal/manual"
)

// small is a manual of three pages, two of them in Chinese too.
var small = fstest.MapFS{
	"a.md": {Data: []byte("# The `a` page\n\n[中文](a.zh-CN.md)\n\nSee [b](b.md#second-part), [the code](../main.go), " +
		"[here](#the-a-page) and [there](https://example.org/x).\n\n<!-- run: true -->\n\n![A picture](img/a.png)\n")},
	"a.zh-CN.md": {Data: []byte("# 甲页\n\n[English](a.md)\n\n见[乙](b.zh-CN.md#第二部分)，再见[丙](c.md)。\n")},
	"b.md": {Data: []byte("# B\n\n## Second part\n\nWords about glasses.\n\n```sh\npatchbay serve\n```\n\n" +
		"## Second part\n\n| a | b |\n|---|---|\n| 1 | glassy |\n")},
	"b.zh-CN.md": {Data: []byte("# 乙\n\n## 第二部分\n\n语音板会回答问题。\n\n## 其余\n\n## 其余\n")},
	"d.md":       {Data: []byte("# D\n\nTwo lines\n[here](a.md).\n")},
	"d.zh-CN.md": {Data: []byte("# 丁\n\n这里有两\n行，用\nPatchbay 的，\n`x` 和\n[乙](b.zh-CN.md)\n完\n。见\n<https://x.example>。\n")},
	"c.md":       {Data: []byte("# C\n\nOnly in English: see [a](a.md#the-a-page).\n")},
}

var place = manual.Place{
	Page:    func(name string) string { return "/docs/" + name },
	Picture: func(file string) string { return "/picture/" + file },
}

func rendered(t *testing.T, m *manual.Manual, name string, lang i18n.Lang) string {
	t.Helper()
	p, ok := m.Page(name, lang)
	if !ok {
		t.Fatalf("no page %s", name)
	}
	text, err := m.HTML(p, place)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// TestLinks checks the rendered addresses of links and pictures, and that comments are left out.
func TestLinks(t *testing.T) {
	m, err := manual.New(small)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		page string
		lang i18n.Lang
		want []string
	}{
		{"a", i18n.English, []string{`<h1 id="the-a-page">`, `href="/docs/b#second-part"`, "see", "the code, ",
			`href="#the-a-page"`, `href="https://example.org/x" rel="noopener noreferrer" target="_blank"`,
			`src="/picture/img/a.png"`}},
		{"a", i18n.Chinese, []string{`<h1 id="甲页">`, `href="/docs/b#%E7%AC%AC%E4%BA%8C%E9%83%A8%E5%88%86"`,
			`href="/docs/c"`}},
		{"b", i18n.English, []string{`<h2 id="second-part">`, `<h2 id="second-part-1">`, `<pre tabindex="0">`,
			`<div class="table" tabindex="0"><table>`}},
		{"c", i18n.Chinese, []string{"Only in English", `href="/docs/a#the-a-page"`}},
	} {
		text := rendered(t, m, c.page, c.lang)
		for _, want := range c.want {
			if !strings.Contains(strings.ToLower(text), strings.ToLower(want)) {
				t.Errorf("%s in %s lacks %q:\n%s", c.page, c.lang, want, text)
			}
		}
		for _, no := range []string{"a.zh-CN.md", ">English<", "run: true", "main.go", "raw HTML"} {
			if strings.Contains(text, no) {
				t.Errorf("%s in %s has %q:\n%s", c.page, c.lang, no, text)
			}
		}
	}
}

// TestAnchors finds a section in another language.
func TestAnchors(t *testing.T) {
	m, err := manual.New(small)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		page, english string
		lang          i18n.Lang
		want          string
	}{
		{"b", "second-part", i18n.English, "second-part"},
		{"b", "second-part", i18n.Chinese, ""}, // built differently: one heading more
		{"a", "the-a-page", i18n.Chinese, "甲页"},
		{"c", "c", i18n.Chinese, "c"},
		{"b", "no-such-part", i18n.English, ""},
		{"none", "a", i18n.English, ""},
	} {
		if got := m.Anchor(c.page, c.lang, c.english); got != c.want {
			t.Errorf("%s#%s in %s: %q, want %q", c.page, c.english, c.lang, got, c.want)
		}
	}
}

// TestSearch finds sections, in both scripts.
func TestSearch(t *testing.T) {
	m, err := manual.New(small)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		query string
		lang  i18n.Lang
		first string // page and anchor; empty: nothing is found
		hits  int
	}{
		{"GLASSES", i18n.English, "b second-part", 1},
		{"glass", i18n.English, "b second-part", 2},
		{"second glassy", i18n.English, "b second-part-1", 1},
		{"lasses", i18n.English, "", 0},
		{"serve", i18n.English, "b second-part", 1},
		{"语音板回答", i18n.Chinese, "", 0},
		{"语音板 回答", i18n.Chinese, "b 第二部分", 1},
		{"only", i18n.Chinese, "c c", 1},
		{"  ", i18n.English, "", 0},
		{strings.Repeat("语音", 4000), i18n.Chinese, "", 0},
	} {
		hits := m.Search(c.lang, c.query, 9)
		got := ""
		if len(hits) > 0 {
			got = hits[0].Page.Name + " " + hits[0].Heading.Anchor
		}
		if got != c.first || len(hits) != c.hits {
			t.Errorf("%.40q: %d hits, first %q, want %d, %q", c.query, len(hits), got, c.hits, c.first)
		}
	}
}

// Lines of a Chinese paragraph are joined without a space, but for one between a character and a
// Latin word. Lines of an English one keep theirs.
func TestJoinedLines(t *testing.T) {
	m, err := manual.New(small)
	if err != nil {
		t.Fatal(err)
	}
	for lang, want := range map[i18n.Lang]string{
		i18n.English: "<p>Two lines\n<a href=",
		i18n.Chinese: "<p>这里有两行，用\nPatchbay 的，<code>x</code> 和<a href=\"/docs/b\">乙</a>完。见\n<a href=\"https://x.example\"",
	} {
		if text := rendered(t, m, "d", lang); !strings.Contains(text, want) {
			t.Errorf("%s: %s, want %s", lang, text, want)
		}
	}
}

// TestPages renders the real manual: every page in every language, with all pages in the contents.
func TestPages(t *testing.T) {
	m, err := manual.New(docs.Files)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range m.Names() {
		for _, l := range []i18n.Lang{i18n.English, i18n.Chinese} {
			if text := rendered(t, m, name, l); !strings.HasPrefix(text, "<h1 ") {
				t.Errorf("%s in %s begins with %.60q", name, l, text)
			}
		}
	}
	for _, g := range m.Contents() {
		if g.Title == "Other pages" {
			t.Errorf("the contents lack %v", g.Pages)
		}
	}
	if hits := m.Search(i18n.English, "backup", 9); len(hits) < 3 {
		t.Errorf("backup is found %d times", len(hits))
	}
}

func FuzzSearch(f *testing.F) {
	m, err := manual.New(small)
	if err != nil {
		f.Fatal(err)
	}
	f.Add("glasses 语音板 \xff İ")
	f.Fuzz(func(_ *testing.T, query string) {
		m.Search(i18n.English, query, 3)
		m.Search(i18n.Chinese, query, 3)
	})
}
