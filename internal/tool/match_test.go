package tool

import (
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestMatch(t *testing.T) {
	for _, c := range []struct {
		pattern, name string
		want          bool
	}{
		{"*", "", true}, {"*", "anything", true}, {"a", "a", true}, {"a", "ab", false}, {"a*", "a", true},
		{"a*", "ba", false},
		{"*a", "ba", true}, {"*a", "ab", false}, {"a*b", "ab", true}, {"a*b", "a", false}, {"a*a", "a", false},
		{"a*b*c", "a1b2b3c", true},
		{"a*b*c", "acb", false}, {"**", "x", true}, {"*ab*ab*", "abab", true}, {"*ab*ab*", "aab", false},
		{"A*", "a", false}, {"[a]", "a", false}, {"?", "a", false},
		{"", "", true}, {"", "a", false},
	} {
		if got := Match(c.pattern, c.name); got != c.want {
			t.Errorf("Match(%q, %q) = %v", c.pattern, c.name, got)
		}
	}
}

func TestMatchAny(t *testing.T) {
	for _, c := range []struct {
		patterns []string
		want     bool
	}{
		{nil, false}, {[]string{"b"}, false}, {[]string{"b", "a*"}, true}, {[]string{"a1", "b"}, true},
	} {
		if got := MatchAny(c.patterns, "a1"); got != c.want {
			t.Errorf("MatchAny(%q) = %v", c.patterns, got)
		}
	}
}

// A pattern fits what the same regular expression fits.
func FuzzMatch(f *testing.F) {
	f.Add("a*b*c", "aXbYc")
	f.Add("*", "")
	f.Add("a*a", "a")
	f.Add("**b", "ab")
	f.Fuzz(func(t *testing.T, pattern, name string) {
		if !utf8.ValidString(pattern) || !utf8.ValidString(name) || len(pattern) > 50 {
			return
		}
		re := regexp.MustCompile(`(?s)^` + strings.ReplaceAll(regexp.QuoteMeta(pattern), `\*`, `.*`) + `$`)
		if got, want := Match(pattern, name), re.MatchString(name); got != want {
			t.Errorf("Match(%q, %q) = %v, want %v", pattern, name, got, want)
		}
	})
}
