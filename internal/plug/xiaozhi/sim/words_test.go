package sim

import (
	"slices"
	"testing"

	"patchbay/internal/console/toolwords/wordstest"
	"patchbay/internal/tool"
)

// The console shows the descriptions of the firmware's own tools in the reader's language.
func TestToolsInBothLanguages(t *testing.T) {
	var list []tool.Tool
	for _, own := range slices.Concat(standardTools, []Tool{cameraTool}, userTools()) {
		list = append(list, tool.Tool{Name: own.Name, Description: own.Description})
	}
	wordstest.Check(t, list)
}
