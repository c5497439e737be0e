package i18n_test

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"testing"

	"patchbay/internal/i18n"
)

// An error has the words of a language wherever it is wrapped, and what is not ours
// stays as it is.
func TestLocalize(t *testing.T) {
	many := i18n.Message("%d before you, one moment…").Errorf(3)
	one := i18n.Message("One before you, one moment…").Errorf()
	wanted := i18n.Message("Search")
	for name, c := range map[string]struct {
		err    error
		zh, en string
	}{
		"ours":        {many, "前面还有 3 条消息，请稍等…", "3 before you, one moment…"},
		"a library's": {io.EOF, "EOF", "EOF"},
		"wrapped": {fmt.Errorf("kitchen: %w", many), "kitchen: 前面还有 3 条消息，请稍等…",
			"kitchen: 3 before you, one moment…"},
		"wrapped twice": {fmt.Errorf("2: %w", fmt.Errorf("1: %w", one)), "2: 1: 前面还有一条消息，请稍等…",
			"2: 1: One before you, one moment…"},
		"several": {errors.Join(many, io.EOF, one), "前面还有 3 条消息，请稍等…\nEOF\n前面还有一条消息，请稍等…",
			"3 before you, one moment…\nEOF\nOne before you, one moment…"},
		"several inside": {fmt.Errorf("%w, %w", one, many), "前面还有一条消息，请稍等…, 前面还有 3 条消息，请稍等…",
			"One before you, one moment…, 3 before you, one moment…"},
		"in its words": {i18n.Message("%s: %v").Errorf("x", many), "x：前面还有 3 条消息，请稍等…",
			"x: 3 before you, one moment…"},
		"a message in it": {i18n.Message("Something went wrong: %s").Errorf(wanted), "处理出错：搜索",
			"Something went wrong: Search"},
	} {
		if got := i18n.Localize(c.err, i18n.Chinese); got != c.zh {
			t.Errorf("%s is %q in Chinese, want %q", name, got, c.zh)
		}
		if got := i18n.Localize(c.err, i18n.English); got != c.en || c.err.Error() != c.en {
			t.Errorf("%s is %q in English, and %q as an error, want %q", name, got, c.err, c.en)
		}
	}
	if err := (i18n.Message("it cannot be read: %v")).Errorf(io.ErrUnexpectedEOF); !errors.Is(err,
		io.ErrUnexpectedEOF) {
		t.Errorf("%v has forgotten its cause", err)
	}
}

// A copied file whose header still names the language that it was copied from would offer the same
// language twice.
func TestLanguageNames(t *testing.T) {
	seen := map[string]i18n.Lang{}
	for _, l := range i18n.Languages() {
		for _, name := range slices.Compact([]string{l.Name(), l.EnglishName()}) {
			if other, taken := seen[name]; taken || name == "" {
				t.Errorf("%s: the name %q is empty, or also that of %q", l, name, other)
			}
			seen[name] = l
		}
	}
	if zh := i18n.Lang("zh"); zh.Name() != "中文" || zh.EnglishName() != "Chinese" {
		t.Errorf("Chinese is called %q, %q", zh.Name(), zh.EnglishName())
	}
}
