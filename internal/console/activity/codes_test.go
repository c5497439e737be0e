package activity

import (
	"os"
	"regexp"
	"testing"

	"patchbay/internal/i18n"
)

// Every error code of a call has a text.
func TestEveryCodeHasWords(t *testing.T) {
	code := regexp.MustCompile(`(?m)^\t[A-Z]\w+ +Code = "([a-z_]+)"`)
	text, err := os.ReadFile("../../tool/error.go")
	if err != nil {
		t.Fatal(err)
	}
	found := code.FindAllStringSubmatch(string(text), -1)
	if len(found) < 9 {
		t.Errorf("only %d codes were found", len(found))
	}
	for _, c := range found {
		if codes[c[1]].In(i18n.Chinese) == "" || codes[c[1]].In(i18n.English) == "" {
			t.Errorf("%s has no words", c[1])
		}
	}
}
