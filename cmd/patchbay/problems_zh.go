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

// problemsInChinese has what can be wrong with the settings, and what their groups are about,
// as internal/config says it, and behind a tab on the next line the same in Chinese. A …
// stands for anything: the one that says most by itself counts, and what a … stands for is
// looked for too. TestProblemsInChinese finds what is missing.
//
//go:embed problems_zh.txt
var problemsInChinese string

// phrase is one of them.
type phrase struct {
	english *regexp.Regexp
	says    int      // how many letters
	chinese []string // between what the … stand for
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

// phraseInChinese is a part of a problem in Chinese; as it is, if it is no words of ours.
func phraseInChinese(text string) string {
	for _, p := range chineseProblems() {
		found := p.english.FindStringSubmatch(text)
		if found == nil {
			continue
		}
		slots := found[1:]
		if strings.HasPrefix(text, "line ") {
			slices.Reverse(slots) // the file comes first in Chinese
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

// problem is what is wrong with the settings in the language of the terminal, on one line.
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
