package page

import "testing"

func TestFirstLine(t *testing.T) {
	for _, c := range []struct {
		text, want string
		most       int
	}{
		{"", "", 5}, {"short", "short", 5}, {" \n one \ntwo", "one", 5}, {"longer", "long…", 5},
		{"一二三四五六", "一二三四…", 5}, {"one\r\ntwo", "one", 5},
	} {
		if got := FirstLine(c.text, c.most); got != c.want {
			t.Errorf("%q: %q, want %q", c.text, got, c.want)
		}
	}
	if got := Cut("two\nlines", 20); got != "two\nlines" {
		t.Errorf("%q", got)
	}
}
