package xiaozhi

import (
	"slices"
	"testing"

	"patchbay/internal/console/toolwords/wordstest"
)

// The console shows the titles and descriptions of the built-in tools in the reader's language.
func TestToolsInBothLanguages(t *testing.T) {
	wordstest.Check(t, append(slices.Clone(builtinTools), videoTool))
}
