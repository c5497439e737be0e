package main

import (
	_ "embed"
	"regexp"
	"slices"
	"strings"
	"sync"

	"patchbay/internal/config"
	"patchbay/internal/talk"
)

// problemsInChinese has the messages about settings and the descriptions of their groups as in
// internal/config and, on the next line after a tab, in Chinese. A … stands for any text: of
// several matches the one with the most literal text counts, and the text that a … stands for is
// translated too. TestProblemsInChinese finds missing ones.
//
//go:embed problems_zh.txt
var problemsInChinese string

// phrase is one message with its translation.
type phrase struct {
	english *regexp.Regexp
	says    int      // number of literal characters
	chinese []string // the texts between the …
}

var chineseProblems = sync.OnceValue(func() (list []phrase) {
	var english string
	for line := range strings.Lines(problemsInChinese) {
		line = strings.TrimSuffix(line, "\n")
		chinese, ok := strings.CutPrefix(line, "\t")
		if !ok {
			english = line
			continue
		}
		parts := strings.Split(english, "…")
		for i, p := range parts {
			parts[i] = regexp.QuoteMeta(p)
		}
		pattern := regexp.MustCompile(`^(?s:` + strings.Join(parts, "(.+)") + `)$`)
		list = append(list, phrase{pattern, len(strings.Join(parts, "")), strings.Split(chinese, "…")})
	}
	slices.SortStableFunc(list, func(a, b phrase) int { return b.says - a.says })
	return list
})

// phraseInChinese translates a part of a message; unknown texts stay unchanged.
func phraseInChinese(text string) string {
	for _, p := range chineseProblems() {
		found := p.english.FindStringSubmatch(text)
		if found == nil {
			continue
		}
		slots := found[1:]
		if strings.HasPrefix(text, "line ") {
			slices.Reverse(slots) // Chinese names the file first
		}
		var b strings.Builder
		for i, between := range p.chinese {
			b.WriteString(between)
			if i < len(slots) {
				b.WriteString(phraseInChinese(slots[i]))
			}
		}
		return b.String()
	}
	return text
}

var sayProblem = talk.Say{Zh: "%s%s%s：%s", En: "%s%s%s: %s"}

// problem returns a problem with the settings in the language of the terminal, on one line.
func (sh *shell) problem(p config.Problem) string {
	if sh.lang != talk.Chinese {
		return p.Error()
	}
	key, where := p.Key, ""
	if p.Where != "" {
		where = "（" + phraseInChinese(p.Where) + "）"
	}
	fault := phraseInChinese(p.Fault)
	if !strings.HasPrefix(fault, "的") {
		fault = " " + fault
	}
	return sayProblem.In(sh.lang, key, where, fault, phraseInChinese(p.Advice))
}
