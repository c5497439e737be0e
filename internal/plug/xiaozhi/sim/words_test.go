package sim

import (
	"fmt"
	"slices"
	"testing"

	"patchbay/internal/console/toolwords/wordstest"
	"patchbay/internal/tool"
)

// The console shows the descriptions and arguments of the firmware's own tools in the reader's
// language.
func TestToolsInBothLanguages(t *testing.T) {
	var list, arguments []tool.Tool
	for _, own := range slices.Concat(standardTools, []Tool{cameraTool}, userTools()) {
		list = append(list, tool.Tool{Name: own.Name, Description: own.Description})
		for _, arg := range own.Args {
			arguments = append(arguments, tool.Tool{Name: own.Name,
				Input: fmt.Appendf(nil, `{"properties":{%q:{}}}`, arg.Name)})
		}
	}
	wordstest.CheckArguments(t, arguments)
	wordstest.Check(t, list)
}
