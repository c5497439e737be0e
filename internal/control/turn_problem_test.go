package control

import (
	"os"
	"regexp"
	"testing"

	"patchbay/internal/i18n"
	"patchbay/internal/talk"
)

// Every reason why a turn fails is explained, each in its own words.
func TestExplainTurn(t *testing.T) {
	text, err := os.ReadFile("../talk/failure.go")
	if err != nil {
		t.Fatal(err)
	}
	codes := regexp.MustCompile(`(?m)^\t[A-Z]\w+ +Code = "([a-z_]+)"`).FindAllStringSubmatch(string(text), -1)
	if len(codes) < 13 {
		t.Errorf("only %d codes were found", len(codes))
	}
	for _, l := range i18n.Languages() {
		seen := map[string]string{}
		for _, c := range codes {
			p := (&Service{}).ExplainTurn(&talk.Failure{Code: talk.Code(c[1])}, "openai", l)
			if other := seen[p.Problem]; p.Problem == "" || other != "" {
				t.Errorf("%s in %s: %q, as %s", c[1], l, p.Problem, other)
			}
			seen[p.Problem] = c[1]
		}
	}
	told := &talk.Failure{Code: talk.NotAllowed, Told: "You have asked all your questions of today."}
	if p := (&Service{}).ExplainTurn(told, "openai", i18n.English); p.Problem != told.Told || p.Do != "" {
		t.Errorf("%+v", p)
	}
}
