package xiaozhi

import (
	"testing"

	"patchbay/internal/console/toolwords/wordstest"
)

// Pages show what our tools say in the reader's language.
func TestToolsInBothLanguages(t *testing.T) {
	wordstest.Check(t, ownTools)
}
