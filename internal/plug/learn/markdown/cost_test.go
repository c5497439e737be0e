package markdown

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"time"
)

// costly returns texts of length n that take the parser long.
func costly(n int) map[string]string {
	all := map[string]string{
		"table": "|" + strings.Repeat("a|", n/6) + "\n|" + strings.Repeat("-|", n/6) + "\n" +
			strings.Repeat("|\n", n/6),
	}
	for _, p := range []string{
		">", "> ", "- ", "1. ", "1) ", "> - ", "[", "![", "](", "[a](", "*a ", "**a", "_a_", "`", "`a", "<", "<a ",
		"<!--", "&", "~a", "|", "|a", "\\", "a@", "http://a",
		"a.b@c.d ", "[a]: b\n", "[a]\n", "- a\n  ", "> a\n", "***a", "[a][b]", "#",
	} {
		all[p] = strings.Repeat(p, n/len(p))
	}
	return all
}

// No text costs more than its length allows: some took seconds, and more memory than available.
func TestBoundedCost(t *testing.T) {
	for name, source := range costly(maxText) {
		start := time.Now()
		HTML(source)
		Plain(source)
		if took := time.Since(start); took > 30*time.Second { // a hundredth of that on an idle machine
			t.Errorf("%q takes %v", name, took)
		}
	}
}

// Usual texts of people and models are within the limits.
func TestUsualTextsAreShown(t *testing.T) {
	for _, source := range []string{
		strings.Repeat("**fat** [go](https://go.dev/) and `code`\n\n", 400),
		"|a|b|c|\n|-|-|-|\n" + strings.Repeat("|1|2|3|\n", 1000),
		strings.Repeat("> > - one\n", 500) + "\n" + strings.Repeat("-", 80) + "\n1. two",
		strings.Repeat("1234567890", 5) + " is large",
	} {
		if !isWithinLimits(source) {
			t.Errorf("%.60q… is not shown as Markdown", source)
		}
	}
}

// A canceled request stops rendering.
func TestShowEndsWithItsRequest(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var page bytes.Buffer
	if err := Component("**fat**").Render(ctx, &page); !errors.Is(err, context.Canceled) || page.Len() > 0 {
		t.Errorf("%v, %q", err, page.String())
	}
}
