package check

import (
	"errors"
	"net/url"
	"slices"
	"testing"

	"patchbay/internal/i18n"
)

func TestReport(t *testing.T) {
	name, found := i18n.Message("bots").With(), i18n.Message("Search").With()
	r := &Report{Lang: i18n.Chinese, Explain: func(err error) error {
		if err.Error() != "broken" {
			t.Errorf("%v is to be explained", err)
		}
		return i18n.Message("One before you, one moment…").Errorf()
	}}
	r.OK(name, found)
	if r.Failed() {
		t.Error("a good report says that something fails")
	}
	r.Warn(name, Verbatim("100%\nof it"), AdviceServe.With(" --data x"))
	r.Error(name, &url.Error{Op: "Get", URL: "http://x", Err: errors.New("broken")}, AdviceLog.With())
	r.EnglishNames = true
	r.Fail(name, Because("away", "a\n\x1b[1mb"), AdviceLog.With())
	want := []Finding{
		{name.In(i18n.Chinese), OK, "搜索", ""},
		{name.In(i18n.Chinese), Warn, "100%; of it", AdviceServe.In(i18n.Chinese, " --data x")},
		{name.In(i18n.Chinese), Fail, "前面还有一条消息，请稍等…", AdviceLog.In(i18n.Chinese)},
		{"bots", Fail, "away (a; [1mb)", AdviceLog.In(i18n.Chinese)},
	}
	if !slices.Equal(r.Findings, want) || !r.Failed() {
		t.Errorf("the report is %+v, want %+v", r.Findings, want)
	}
}

func TestTexts(t *testing.T) {
	for text, want := range map[string]string{"": "?", " a\x07\nb ": "a; b", "two words": "two words"} {
		if got := Foreign(text); got != want {
			t.Errorf("%q is shown as %q, want %q", text, got, want)
		}
	}
	for word, want := range map[string]string{"a-b": "a-b", "two words": "'two words'", "it's": `'it'\''s'`} {
		if got := Quote(word); got != want {
			t.Errorf("%q is quoted %s, want %s", word, got, want)
		}
	}
}
