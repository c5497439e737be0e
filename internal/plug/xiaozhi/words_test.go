package xiaozhi

import (
	"slices"
	"testing"

	"patchbay/internal/console/toolwords/wordstest"
	"patchbay/internal/tool"
)

// The console shows the titles and descriptions of the built-in tools, and the titles of the
// firmware's, in the reader's language.
func TestToolsInBothLanguages(t *testing.T) {
	wordstest.Check(t, append(slices.Clone(builtinTools), videoTool))
	var firmware []tool.Tool
	for name, title := range firmwareTitles {
		firmware = append(firmware, tool.Tool{Name: name, Title: title})
	}
	wordstest.Check(t, firmware)
	wordstest.Check(t, []tool.Tool{{Name: ToolSay, Description: toldNoEngine + "."},
		{Name: ToolSay, Description: toldNoEngine + toldShown}})
}
