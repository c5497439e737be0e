package gateway

import (
	"testing"

	"patchbay/internal/console/toolwords/wordstest"
	"patchbay/internal/tool"
)

// Pages show what our tools say in the reader's language.
func TestToolsInBothLanguages(t *testing.T) {
	var list []tool.Tool
	for name := range knownCommands {
		list = append(list, commandTool(name))
	}
	wordstest.Check(t, append(list, commandTool("nobody.knows")))
}
