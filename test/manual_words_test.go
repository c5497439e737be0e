package test

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
)

// roadPages are the pages of the five ways to begin, without their endings. All exist in English
// and in Chinese.
var roadPages = []string{
	"README", "docs/glossary",
	"docs/start-glasses", "docs/glasses", "docs/binding",
	"docs/start-board", "docs/boards", "docs/voice",
	"docs/start-openclaw", "docs/openclaw", "docs/connector", "docs/eyeclaw",
	"docs/start-programs", "docs/programs",
	"docs/start-learn", "docs/learn",
}

const chineseEnding = ".zh-CN.md"

// notPlainYet are the pages that are not plain yet, with the kinds of failures that they have:
// words, sentences, links or headings. The list may only get shorter.
var notPlainYet = map[string]string{}

// reportUnlessListed reports the failures of a page in a test, unless notPlainYet has both. A page
// that is listed and has no failures has to leave the list.
func reportUnlessListed(t *testing.T, file, test string, failures []string) {
	t.Helper()
	excepted := slices.Contains(strings.Fields(notPlainYet[file]), test)
	switch {
	case excepted && len(failures) == 0:
		t.Errorf("%s passes now: take %q out of notPlainYet", file, test)
	case !excepted:
		for _, f := range failures {
			t.Errorf("%s: %s", file, f)
		}
	}
}

// manualPage reports whether a page is one of the manual, not one for people who work on the code.
func manualPage(file string) bool {
	return strings.HasPrefix(file, "docs/") || strings.HasPrefix(file, "README")
}

// quaint are phrases that pages in English do not use, with what to write instead.
var quaint = []struct{ phrase, better string }{
	{`is the board where`, "is a self-hosted hub"},
	{`into one another`, "connects"},
	{`sees? to it that`, "the verb itself"},
	{`somebody who asks`, "use an agent as a bot"},
	{`(that|who) are to act`, "give models tools"},
	{`is not known is an error`, "unknown settings are rejected"},
	{`what became of`, "result"},
	{`what those did who`, "administrator actions"},
	{`everything that is theirs`, "all their data"},
	{`takes? the answers? with it`, "is lost"},
	{`\bis anybody's`, "belongs to whoever"},
	{`which there are, and how`, "lists … and their status"},
	{`have it so`, "require it"},
	{`nobody waits`, "no pending requests"},
	{`your word\b`, "your approval"},
	{`all about (a|the) \w+ but`, "get … (… omitted)"},
	{`told this once`, "shown once"},
	{`quarter of an hour`, "15 minutes"},
	{`\b(is|are|was|were|be|being|been) told\b`, "gets, receives, is shown"},
	{`\bhears? of\b`, "is notified of"},
	{`says? whether`, "reports whether"},
	{`signs? of life`, "heartbeat"},
	{`at a gl[a]nce`, "overview"},
	{`\bdoors?\b`, "channel, endpoint"},
	{`\b(t?here|where)upon\b|\bwhence\b`, "then, from which"},
	{`\bhas not the\b|\bhave not the\b`, "does not have"},
	{`\bcalls? home\b`, "asks for its configuration"},
}

// rejected are other words that pages in Chinese do not use, with what to write instead.
var rejected = []struct{ word, term string }{
	{"一刻钟", "15 分钟"}, {"半小时", "30 分钟"}, {"接线板", "自托管的连接中枢"}, {"替身", "模拟"},
	{"不依赖任何别的服务", "无需其他服务"}, {"走另一个方向", "另一方面"}, {"走一个方向", "一方面"},
	{"想办法让人听到", "在下一轮补上或推送"}, {"演完", "完整演示"}, {"住在你", "运行在你电脑上"},
	{"从三面", "三种接入方式"}, {"受不了", "异常情况"}, {"设备自己说的", "设备上报的"}, {"有多严", "严格程度"},
	{"怎样再来", "复习安排"}, {"什么时候再来", "复习安排"}, {"半夜学的", "凌晨的学习"}, {"互相透露", "关联卡片"},
	{"你的一句话", "批准"}, {"陌生人", "新设备"}, {"说了算", "优先"}, {"叫回家", "获取配置"},
}

// quotedText matches what the program says, which pages quote as it is.
var quotedText = regexp.MustCompile(`“[^”]*”|「[^」]*」|"[^"\n]*"`)

// prose returns a page without code, comments, quotations and addresses of links, on lines of the
// same numbers.
func prose(text string) string {
	blank := func(s string) string { return strings.Repeat("\n", strings.Count(s, "\n")) }
	text = fence.ReplaceAllStringFunc(text, blank)
	text = regexp.MustCompile(`(?s)<!--.*?-->`).ReplaceAllStringFunc(text, blank)
	text = regexp.MustCompile(`!\[[^\]]*\]\([^)]*\)`).ReplaceAllString(text, "")
	text = regexp.MustCompile("`[^`\n]*`").ReplaceAllString(text, "CODE")
	return regexp.MustCompile(`\]\([^)\s]*\)`).ReplaceAllString(text, "]")
}

// TestManualIsPlain checks that pages in English have no quaint phrases, and that pages in Chinese
// use the terms of the glossary.
func TestManualIsPlain(t *testing.T) {
	for _, p := range pages(t) {
		if !manualPage(p.file) {
			continue
		}
		text := prose(p.text)
		var failures []string
		find := func(match *regexp.Regexp, better string) {
			for _, at := range match.FindAllStringIndex(text, -1) {
				failures = append(failures, fmt.Sprintf("line %d: %q; write %s",
					1+strings.Count(text[:at[0]], "\n"), text[at[0]:at[1]], better))
			}
		}
		if strings.HasSuffix(p.file, chineseEnding) {
			text = quotedText.ReplaceAllString(text, "")
			for _, w := range slices.Concat(notTerms, notWords, rejected) {
				find(regexp.MustCompile(w.word), w.term)
			}
		} else {
			for _, q := range quaint {
				find(regexp.MustCompile("(?i)"+strings.ReplaceAll(q.phrase, " ", `\s+`)), q.better)
			}
		}
		reportUnlessListed(t, p.file, "words", failures)
	}
}

// glossaryTerm is a row of the glossary.
var glossaryTerm = regexp.MustCompile(`(?m)^\| \*\*([^*|]+)\*\* \| ([^|]+) \| ([^|]+) \| ([^|]+) \|$`)

// TestGlossary checks that the glossary has the same terms in English and in Chinese, one row for
// each term and one term for each thing, and each term that pages in Chinese are told to use.
func TestGlossary(t *testing.T) {
	byName := map[string]string{}
	for _, p := range pages(t) {
		byName[p.file] = p.text
	}
	english := glossaryTerm.FindAllStringSubmatch(byName["docs/glossary.md"], -1)
	chinese := glossaryTerm.FindAllStringSubmatch(byName["docs/glossary.zh-CN.md"], -1)
	if len(english) < 30 || len(english) != len(chinese) {
		t.Fatalf("the glossary has %d terms in English and %d in Chinese", len(english), len(chinese))
	}
	seen := map[string]bool{}
	inChinese := map[string]string{}
	for _, e := range english {
		inChinese[e[1]] = e[2]
		for _, term := range e[1:3] {
			if seen[term] {
				t.Errorf("the glossary has %q twice", term)
			}
			seen[term] = true
		}
		if n := len(sentencesOf(e[4])); n != 1 {
			t.Errorf("the glossary explains %q in %d sentences", e[1], n)
		}
	}
	for _, c := range chinese {
		if inChinese[c[2]] != c[1] {
			t.Errorf("the glossary calls %q %q in Chinese and %q in English", c[2], c[1], inChinese[c[2]])
		}
	}
	for _, w := range notTerms {
		if !seen[w.term] {
			t.Errorf("the glossary does not have %q, which pages are told to use", w.term)
		}
	}
}

// longestMedian is how many words half of the sentences of a page have at most.
const longestMedian = 18

var (
	fullStop = regexp.MustCompile(`[.!?](?:["”’)*]*)(?:\s+|$)`)
	listItem = regexp.MustCompile(`^\s*(?:[-*]|\d+\.)\s+`)
)

// sentences splits text into sentences.
func sentencesOf(text string) []string {
	var list []string
	for _, s := range fullStop.Split(text, -1) {
		if strings.ContainsFunc(s, unicode.IsLetter) {
			list = append(list, s)
		}
	}
	return list
}

// paragraphs returns the paragraphs and list items of a page, without headings and tables.
func paragraphs(text string) []string {
	var list []string
	var open strings.Builder
	end := func() {
		if open.Len() > 0 {
			list = append(list, open.String())
			open.Reset()
		}
	}
	for line := range strings.Lines(prose(text)) {
		line = strings.TrimRight(line, "\n")
		trimmed := strings.TrimSpace(line)
		if trimmed == "" || strings.HasPrefix(trimmed, "#") || strings.HasPrefix(trimmed, "|") {
			end()
			continue
		}
		if listItem.MatchString(line) {
			end()
			line = listItem.ReplaceAllString(line, "")
		}
		open.WriteString(line + "\n")
	}
	end()
	return list
}

// medianSentence returns how many words the middle one of a page's sentences has.
func medianSentence(text string) int {
	var lengths []int
	for _, p := range paragraphs(text) {
		for _, s := range sentencesOf(p) {
			if n := len(strings.Fields(s)); n > 2 { // others are links and names
				lengths = append(lengths, n)
			}
		}
	}
	if len(lengths) == 0 {
		return 0
	}
	slices.Sort(lengths)
	return lengths[len(lengths)/2]
}

// TestSentencesAreShort checks the length of the sentences of each page in English.
func TestSentencesAreShort(t *testing.T) {
	for _, p := range pages(t) {
		if !manualPage(p.file) || strings.HasSuffix(p.file, chineseEnding) {
			continue
		}
		var failures []string
		if n := medianSentence(p.text); n > longestMedian {
			failures = append(failures, fmt.Sprintf("half of the sentences have %d words or more, want at most %d",
				n, longestMedian))
		}
		reportUnlessListed(t, p.file, "sentences", failures)
	}
}

func TestMedianSentence(t *testing.T) {
	text := "# A heading of many many many words\n\nOne two three. Four `five` six seven!\n\n" +
		"- **Eight** [nine](x.md#y) ten eleven\n  twelve.\n\n| a | table with words |\n\n```sh\nno words here at all\n```\n"
	if n := medianSentence(text); n != 4 {
		t.Errorf("the median is %d, want 4", n)
	}
}

// TestRoadsInBothLanguages checks that each page of the five ways to begin exists in English and in
// Chinese, that each links to the other, and that pages in Chinese link to pages in Chinese where
// there are any. With -update it changes such links, if both pages have as many headings.
func TestRoadsInBothLanguages(t *testing.T) {
	byName := map[string]string{}
	for _, p := range pages(t) {
		byName[p.file] = p.text
	}
	for _, name := range roadPages {
		for _, c := range [][2]string{{name + ".md", name + chineseEnding}, {name + chineseEnding, name + ".md"}} {
			if !strings.Contains(byName[c[0]], "]("+path.Base(c[1])+")") {
				t.Errorf("%s does not exist, or does not link to %s", c[0], c[1])
			}
		}
	}
	for file, text := range byName {
		if !manualPage(file) || !strings.HasSuffix(file, chineseEnding) {
			continue
		}
		var failures []string
		changed := link.ReplaceAllStringFunc(text, func(l string) string {
			target, anchor, _ := strings.Cut(strings.TrimSuffix(strings.TrimPrefix(l, "]("), ")"), "#")
			to := path.Join(path.Dir(file), target)
			chinese := strings.TrimSuffix(to, ".md") + chineseEnding
			if !strings.HasSuffix(to, ".md") || strings.HasSuffix(to, chineseEnding) || byName[chinese] == "" ||
				chinese == file {
				return l
			}
			failures = append(failures, fmt.Sprintf("links to %s, which is there in Chinese; "+
				"go test ./test -run %s -update changes it", to, t.Name()))
			return "](" + strings.TrimSuffix(target, ".md") + chineseEnding +
				chineseAnchor(byName[to], byName[chinese], anchor) + ")"
		})
		if len(failures) > 0 && *update {
			if err := os.WriteFile(filepath.Join(root, file), []byte(changed), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		reportUnlessListed(t, file, "links", failures)
	}
}

// TestSameHeadings checks that a page in Chinese has as many headings as that in English: the
// program finds the section of a page in another language by its place.
func TestSameHeadings(t *testing.T) {
	byName := map[string]string{}
	for _, p := range pages(t) {
		byName[p.file] = p.text
	}
	for file, text := range byName {
		name, ok := strings.CutSuffix(file, chineseEnding)
		if !ok {
			continue
		}
		var failures []string
		if here, there := len(anchors(text)), len(anchors(byName[name+".md"])); here != there {
			failures = append(failures, fmt.Sprintf("has %d headings, and the page in English %d", here, there))
		}
		reportUnlessListed(t, file, "headings", failures)
	}
}

// chineseAnchor returns the anchor of the heading of the page in Chinese at the same place as that
// of an anchor of the page in English, "" if that is not known.
func chineseAnchor(english, chinese, anchor string) string {
	from, to := anchors(english), anchors(chinese)
	at := slices.Index(from, anchor)
	if at < 0 || len(from) != len(to) {
		return ""
	}
	return "#" + to[at]
}
