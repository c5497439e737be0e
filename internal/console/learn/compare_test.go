package learn

import (
	"bytes"
	"strings"
	"testing"
)

// Words that only one of two texts has are marked, in Chinese by character; case and punctuation
// are ignored.
func TestDifferences(t *testing.T) {
	for _, c := range []struct{ recall, answer, yours, theirs string }{
		{"Paris", "Paris", "Paris", "Paris"},
		{"paris!", "Paris.", "paris!", "Paris."},
		{"Lyon on the Seine", "Paris, on the Seine", "<del>Lyon</del> on the Seine", "<ins>Paris</ins>, on the Seine"},
		{"a b x y", "a b c d", "a b <del>x y</del>", "a b <ins>c d</ins>"},
		{"先进先出", "后进先出", "<del>先</del>进先出", "<ins>后</ins>进先出"},
		{"栈是LIFO", "栈是 lifo", "栈是LIFO", "栈是 lifo"},
		{"", "x", "", "<ins>x</ins>"},
		{"<script>", "x", "&lt;<del>script</del>&gt;", "<ins>x</ins>"},
		{"e\u0301te", "été", "<del>e\u0301te</del>", "<ins>été</ins>"},
		{"\xff\xfe", "x", "\xff\xfe", "<ins>x</ins>"},
	} {
		yours, theirs := differences(c.recall, c.answer)
		var a, b bytes.Buffer
		if err := marks(yours, "del").Render(t.Context(), &a); err != nil {
			t.Fatal(err)
		}
		if err := marks(theirs, "ins").Render(t.Context(), &b); err != nil {
			t.Fatal(err)
		}
		if a.String() != c.yours || b.String() != c.theirs {
			t.Errorf("%q and %q: %q and %q", c.recall, c.answer, a.String(), b.String())
		}
	}
	if yours, _ := differences(strings.Repeat("a ", 2000), strings.Repeat("b ", 2000)); yours != nil {
		t.Error("texts of any length are compared")
	}
}

// No part of a compared text is lost.
func FuzzDifferences(f *testing.F) {
	f.Add("Lyon on the Seine", "Paris, on the Seine")
	f.Add("先进 先出", "\xff后进先出")
	f.Fuzz(func(t *testing.T, recall, answer string) {
		yours, theirs := differences(recall, answer)
		if yours == nil {
			return
		}
		text := func(list []piece) string {
			var out strings.Builder
			for _, p := range list {
				out.WriteString(p.Text)
			}
			return out.String()
		}
		if text(yours) != recall || text(theirs) != answer {
			t.Errorf("%q and %q became %q and %q", recall, answer, text(yours), text(theirs))
		}
	})
}

// The top of an axis is never below the values, and its numbers are integers.
func TestRound(t *testing.T) {
	for most := 0.0; most < 20000; most += 7 {
		top, step := roundScale(most)
		if top < most || step <= 0 || step != float64(int(step)) || top > 4+most*2.6 {
			t.Fatalf("%v: %v in steps of %v", most, top, step)
		}
	}
}
