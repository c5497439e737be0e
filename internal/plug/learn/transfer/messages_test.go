package transfer

import (
	"errors"
	"regexp"
	"strings"
	"testing"

	"patchbay/internal/i18n"
)

var han = regexp.MustCompile(`\p{Han}`)

// Errors of rows are available in both languages.
func TestBadInBothLanguages(t *testing.T) {
	long := strings.Repeat("x", MaxText+1)
	for _, c := range []struct{ format, text string }{
		{CSV, "question,answer,deck\n,,d\n"}, {CSV, "question,answer\n,a\n"}, {CSV, "question,answer\nq,\n"},
		{CSV, "question,answer\n" + long + ",a\n"}, {CSV, "question,answer\nq," + long + "\n"},
		{CSV, "question,answer,tags\nq,a,\"x" + manyTags() + "\"\n"},
		{CSV, "question,answer\nq\"x,a\n"}, {CSV, "question,answer\n\"q\"x,a\n"},
		{CSV, "question,answer,created_at\nq,a,soon\n"}, {CSV, "question,answer,updated_at\nq,a,soon\n"},
		{Markdown, "only words\n\nand more\n"},
		{JSON, `[{"question":"q"}]`}, {JSON, `[{"question":1,"answer":"a"}]`}, {JSON, `["x"]`},
		{JSON, `{"decks":[1],"points":[]}`}, {JSON, `[{"question":"q","answer":"a","tags":{}}]`},
		{Rows, `[{"id":"1","question":"q"}]`}, {Rows, `[{"id":1,"question":"q","answer":"a"}]`},
		{Rows, `[{"id":"1","question":"q","answer":"a","created_at":"soon"}]`},
		{Rows, "id,knowledge_point_id,review_date,review_number\n1,2,soon,1\n"},
		{Rows, "id,knowledge_point_id,review_date,review_number\n1,2,2026-01-02,-1\n"},
		{Rows, "id,knowledge_point_id,review_date,review_number\n1,2,2026-01-02,x\n"},
		{Rows, "id,knowledge_point_id,review_date,review_number\n1,,2026-01-02,1\n"},
		{Rows, "id,knowledge_point_id,review_date,created_at\n1,2,2026-01-02,soon\n"},
	} {
		_, bad, err := read(t, c.format, c.text, ReadOptions{})
		if err != nil || len(bad) == 0 {
			t.Errorf("%.60q: %v, %v", c.text, bad, err)
		}
		for _, b := range bad {
			if zh := b.In(i18n.Chinese); !han.MatchString(zh) || han.MatchString(b.Why) || b.In(i18n.English) != b.Why {
				t.Errorf("%.60q is %q in Chinese and %q in English", c.text, zh, b.Why)
			}
		}
	}
	if b := (RowError{Why: "as it was sent"}); b.In(i18n.Chinese) != b.Why {
		t.Errorf("%q", b.In(i18n.Chinese))
	}
}

// manyTags returns more distinct tags than an item can have.
func manyTags() string {
	var b strings.Builder
	for i := range MaxTags {
		b.WriteString(",tag")
		b.WriteString(strings.Repeat("i", i))
	}
	return b.String()
}

// Errors of whole files are available in both languages.
func TestUnreadableInBothLanguages(t *testing.T) {
	for _, c := range []struct{ format, text string }{
		{"", "nothing in particular"}, {JSON, `{"x":1}`}, {JSON, `[{"question"`}, {JSON, `[{]`}, {JSON, `3`},
		{JSON, `{"points":3}`}, {JSON, `{"patchbay_learn":99,"points":[]}`},
		{JSON, `{"patchbay_learn":"x","points":[]}`},
		{Rows, `{"x":1}`}, {Rows, "question,answer,user_id\nq,a,1\n"}, {CSV, "question,x\nq,a\n"},
		{CSV, "answer,x\nq,a\n"}, {CSV, "a,b,c\n"},
		{CSV, "\xff\xfe\x00\xd8"}, {CSV, "caf\xe9,\xe9\n"},
		{Anki, "no package"}, {"xml", "x"},
	} {
		_, _, err := read(t, c.format, c.text, ReadOptions{})
		if err == nil {
			t.Errorf("%q is taken", c.text)
			continue
		}
		zh, en := i18n.Localize(err, i18n.Chinese), i18n.Localize(err, i18n.English)
		if !han.MatchString(zh) || han.MatchString(en) || en != err.Error() {
			t.Errorf("%q is %q in Chinese and %q in English", c.text, zh, en)
		}
		var e *UnreadableError
		if c.format == "xml" {
			continue
		}
		if !errors.As(err, &e) || !strings.HasPrefix(en, "the file cannot be read: ") ||
			!han.MatchString(i18n.Localize(e.Why, i18n.Chinese)) {
			t.Errorf("%q: %q", c.text, en)
		}
	}
	if err := (&TooManyError{7}); !han.MatchString(i18n.Localize(err, i18n.Chinese)) {
		t.Errorf("%q", i18n.Localize(err, i18n.Chinese))
	}
}
