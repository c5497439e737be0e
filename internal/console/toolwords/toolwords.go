// Package toolwords has what our own tools say of themselves in both languages, for pages.
// Programs and models get what the tools themselves say, in whichever language that is.
package toolwords

import (
	_ "embed"
	"regexp"
	"strings"
	"sync"

	"patchbay/internal/talk"
)

// words has each text in English, and behind a tab on the next line the same in Chinese.
// Titles, descriptions of tools and descriptions of arguments are all there: the same text
// means the same wherever it stands.
//
//go:embed words.txt
var words string

// table finds a pair by either of its texts.
var table = sync.OnceValue(func() map[string]talk.Say {
	pairs := map[string]talk.Say{}
	english := ""
	for line := range strings.Lines(words) {
		line = strings.TrimSuffix(line, "\n")
		if chinese, ok := strings.CutPrefix(line, "\t"); ok {
			pair := talk.Say{Zh: chinese, En: english}
			pairs[english], pairs[chinese] = pair, pair
		} else {
			english = line
		}
	}
	return pairs
})

// A command of a node of which nobody has told what it does.
var (
	sayCommand = talk.Say{Zh: "节点的命令 %s。", En: "The command %s of the node."}
	command    = regexp.MustCompile(`^The command (\S+) of the node\.$`)
)

// In is a text of a tool in a language. What is not ours stays as it is.
func In(lang talk.Lang, text string) string {
	if pair, ok := table()[text]; ok {
		return pair.In(lang)
	}
	if m := command.FindStringSubmatch(text); m != nil {
		return sayCommand.In(lang, m[1])
	}
	return text
}
