package tools_test

import (
	"html"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"

	"patchbay/internal/console/toolwords"
	"patchbay/internal/console/toolwords/wordstest"
	"patchbay/internal/hub"
	"patchbay/internal/i18n"
	"patchbay/internal/plug/bots"
	"patchbay/internal/plug/learn"
	"patchbay/internal/tool"
)

// raw matches what programs get, which is shown unchanged.
var raw = regexp.MustCompile(`(?s)<pre.*?</pre>`)

// Texts of Patchbay's own tools are shown in the reader's language: titles, descriptions, and
// descriptions of arguments. Texts of other servers stay unchanged, and programs get the originals.
func TestOwnToolsInTheReadersLanguage(t *testing.T) {
	r := newRig(t)
	plug(t, r, learn.ProviderRef(), learn.Tools()...)
	plug(t, r, bots.ProviderRef(), bots.Tools()...)
	plug(t, r, hub.ProviderRef{ID: "upstream:8", Owner: r.Person.ID, Slug: "theirs", Kind: "upstream"},
		tool.Tool{Name: "one", Title: "Decks", Description: "提交复习", Input: []byte(`{"type":"object"}`)})
	ours := slices.Concat(learn.Tools(), bots.Tools())
	wordstest.Check(t, ours)
	wordstest.CheckArguments(t, ours)
	browser := r.SignedInAs(r.Person)
	for _, lang := range []i18n.Lang{i18n.English, i18n.Chinese} {
		get := func(path string) string {
			p := browser.Get(path, "Cookie", "patchbay-lang="+string(lang))
			return raw.ReplaceAllString(html.UnescapeString(p.Text), "")
		}
		list := get("/tools")
		for _, o := range ours {
			page := get("/tools/" + o.Name)
			for _, text := range wordstest.Texts(&o) {
				want := toolwords.Translate(lang, text)
				if text != want && (strings.Contains(page, text) ||
					text == o.Description && strings.Contains(list, "<p class=\"soft small\">"+text)) {
					t.Errorf("the %s pages about %s say %s", lang, o.Name, text)
				}
			}
			if about := toolwords.Translate(lang, o.Description); !strings.Contains(page, about) {
				t.Errorf("the %s page about %s does not say %s", lang, o.Name, about)
			} else if len([]rune(about)) <= 160 && !strings.Contains(list, about) {
				t.Errorf("the %s list does not say %s", lang, about)
			}
		}
		if theirs := get("/tools/theirs_one"); !strings.Contains(theirs, "<h1>Decks") ||
			!strings.Contains(theirs, "提交复习") {
			t.Errorf("the %s page about a tool of others changes its words: %s", lang, theirs)
		}
		query := map[i18n.Lang]string{i18n.English: "/tools?q=lists+the+points", i18n.Chinese: "/tools?q=回收站"}[lang]
		if !strings.Contains(get(query), map[i18n.Lang]string{i18n.English: "list_reviews",
			i18n.Chinese: "restore_knowledge_point"}[lang]) {
			t.Errorf("nothing is found at %s", query)
		}
	}
	for _, name := range []string{"list_reviews", "create_knowledge_point"} {
		i := slices.IndexFunc(ours, func(o tool.Tool) bool { return o.Name == name })
		if !strings.ContainsFunc(ours[i].Description, func(r rune) bool { return unicode.Is(unicode.Han, r) }) {
			t.Errorf("programs that know %s find it described otherwise", name)
		}
	}
}
