package activity

import (
	"os"
	"regexp"
	"testing"

	"patchbay/internal/i18n"
)

// Every error code of a turn or a call has a text.
func TestEveryCodeHasWords(t *testing.T) {
	code := regexp.MustCompile(`(?m)^\t[A-Z]\w+ +Code = "([a-z_]+)"`)
	for _, file := range []string{"../../talk/failure.go", "../../tool/error.go"} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		found := code.FindAllStringSubmatch(string(text), -1)
		if len(found) < 9 {
			t.Errorf("%s: only %d codes were found", file, len(found))
		}
		for _, c := range found {
			if codes[c[1]].In(i18n.Chinese) == "" || codes[c[1]].In(i18n.English) == "" {
				t.Errorf("%s of %s has no words", c[1], file)
			}
		}
	}
}
