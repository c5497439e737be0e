package xiaozhi

import (
	"slices"
	"testing"

	"patchbay/internal/console/toolwords/wordstest"
	"patchbay/internal/tool"
)

// The console shows the titles, descriptions and arguments of the built-in tools, and the titles of
// the firmware's, in the reader's language.
func TestToolsInBothLanguages(t *testing.T) {
	own := append(slices.Clone(builtinTools), videoTool)
	wordstest.Check(t, own)
	wordstest.CheckArguments(t, own)
	var firmware []tool.Tool
	for name, title := range firmwareTitles {
		firmware = append(firmware, tool.Tool{Name: name, Title: title})
	}
	wordstest.Check(t, firmware)
	wordstest.Check(t, []tool.Tool{{Name: ToolSay, Description: toldNoEngine + "."},
		{Name: ToolSay, Description: toldNoEngine + toldShown}, {Name: ToolTimerSet, Description: toldNoTime}})
}
