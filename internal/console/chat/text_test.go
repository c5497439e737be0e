package chat

import (
	"strings"
	"testing"
)

// A text is shown for good up to its last whole paragraph, and never within a program.
func TestSettled(t *testing.T) {
	for text, want := range map[string]string{
		"":                           "",
		"one":                        "",
		"one\n":                      "",
		"one\n\ntwo":                 "one\n\n",
		"one\n \ntwo\n\nth":          "one\n \ntwo\n\n",
		"one\n\n```go\na\n\nb\n":     "one\n\n",
		"```go\na\n\nb\n```\nafter":  "```go\na\n\nb\n```\n",
		"~~~\n```\n\n~~~\n":          "~~~\n```\n\n~~~\n",
		"- a\n\n  ```\n  b\n\n  c\n": "- a\n\n",
	} {
		if got := text[:settled(text)]; got != want {
			t.Errorf("%q: %q", text, got)
		}
	}
}

// Whatever comes in whatever pieces, what is settled stays, and only grows.
func FuzzSettled(f *testing.F) {
	f.Add("one\n\n```\n\n```\ntwo", 4)
	f.Fuzz(func(t *testing.T, text string, cut int) {
		n := settled(text)
		if n > len(text) || n > 0 && !strings.HasSuffix(text[:n], "\n") {
			t.Fatalf("%q: %d", text, n)
		}
		if cut > 0 && cut < len(text) {
			if before := settled(text[:cut]); before > n {
				t.Fatalf("%q: %d, and with more text %d", text, before, n)
			}
		}
	})
}
