// Package toolwords translates the titles and descriptions of Patchbay's own tools for pages.
// Programs and models get the original texts, in whichever language those are.
package toolwords

import (
	_ "embed"
	"regexp"
	"strings"
	"sync"

	"patchbay/internal/talk"
)

// words has each text in English and, on the next line after a tab, in Chinese. It covers titles
// and descriptions of tools and descriptions of arguments: the same text has the same translation
// everywhere.
//
//go:embed words.txt
var words string

// table maps both texts of a pair to the pair.
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

// Description of a node's command that nothing is known about.
var (
	sayCommand = talk.Say{Zh: "节点的命令 %s。", En: "The command %s of the node."}
	command    = regexp.MustCompile(`^The command (\S+) of the node\.$`)
)

// Translate returns a text of a tool in a language. Unknown texts stay unchanged.
func Translate(lang talk.Lang, text string) string {
	if pair, ok := table()[text]; ok {
		return pair.In(lang)
	}
	if m := command.FindStringSubmatch(text); m != nil {
		return sayCommand.In(lang, m[1])
	}
	return text
}
