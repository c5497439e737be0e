package test

import (
	"regexp"
	"strings"
	"testing"
	"unicode"

	"patchbay/internal/i18n"
)

var (
	unread = regexp.MustCompile("(?s)`[^`\n]*`|<!--.*?-->")
	// slanted matches text between single stars: the name of a page, a menu or a button of the
	// console. In English such names begin with a capital, unlike placeholders ("switch to
	// *name*"); in Chinese they are in a table.
	slanted = regexp.MustCompile(`\*([^*\s][^*\n]*)\*`)
	// fat matches bold text at the start of a paragraph or list item.
	fat = regexp.MustCompile(`(?m)^(?:- )?\*\*([^*\n]+?)[.。：:]?\*\*`)
	// fatWithin matches any bold text.
	fatWithin = regexp.MustCompile(`\*\*([^*\n]+?)[.。：:]?\*\*`)
)

// partOf returns a section of a page, from its heading to the next.
func partOf(text, heading string) string {
	_, part, _ := strings.Cut(text, "\n## "+heading+"\n")
	part, _, _ = strings.Cut(part, "\n## ")
	return part
}

// The manual uses the names of the console's pages and buttons, in the language of the manual's
// page.
func TestManualCallsButtonsByTheirNames(t *testing.T) {
	english, chinese := map[string]bool{}, map[string]bool{}
	walk(t, ".go", func(file, _ string) {
		if !strings.HasPrefix(file, "internal/console/") || !code(file) || strings.HasSuffix(file, "_templ.go") {
			return
		}
		for _, m := range messagesOf(t, file) {
			english[m.In(i18n.English)], chinese[m.In(i18n.Chinese)] = true, true
		}
	})
	looked := map[bool]int{}
	for _, p := range pages(t) {
		inChinese := strings.HasSuffix(p.file, ".zh-CN.md")
		text := unread.ReplaceAllString(fence.ReplaceAllString(p.text, ""), "")
		var names []string
		add := func(form *regexp.Regexp, in string) {
			for _, m := range form.FindAllStringSubmatch(in, -1) {
				names = append(names, m[1])
			}
		}
		for line := range strings.Lines(text) {
			if inChinese && strings.HasPrefix(line, "|") {
				continue
			}
			add(slanted, fatWithin.ReplaceAllString(line, ""))
		}
		switch p.file {
		case "docs/console.md":
			add(fat, partOf(text, "What is where"))
		case "docs/console.zh-CN.md":
			add(fat, partOf(text, "各页是什么"))
		case "docs/learn.md":
			add(fatWithin, partOf(text, "In a browser"))
		case "docs/learn.zh-CN.md":
			add(fatWithin, partOf(text, "用浏览器"))
		}
		for _, name := range names {
			if !inChinese && !unicode.IsUpper([]rune(name)[0]) {
				continue
			}
			looked[inChinese]++
			if said := map[bool]map[string]bool{false: english, true: chinese}[inChinese]; !said[name] {
				t.Errorf("%s calls something %q, which is on no page of the console", p.file, name)
			}
		}
	}
	if looked[false] < 30 || looked[true] < 25 {
		t.Errorf("only %d and %d names were found", looked[false], looked[true])
	}
}
