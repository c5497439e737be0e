package talk_test

import (
	"errors"
	"fmt"
	"io"
	"testing"

	"patchbay/internal/talk"
)

// An error has the words of a language wherever it is wrapped, and what is not ours
// stays as it is.
func TestLocalize(t *testing.T) {
	lamp := talk.Say{Zh: "灯有 %d 盏", En: "there are %d lamps"}.Wrong(3)
	window := talk.Say{Zh: "窗开着", En: "the window is open"}.Wrong()
	wanted := talk.Say{Zh: "数字", En: "a number"}
	for name, c := range map[string]struct {
		err    error
		zh, en string
	}{
		"ours":          {lamp, "灯有 3 盏", "there are 3 lamps"},
		"nobody's":      {io.EOF, "EOF", "EOF"},
		"wrapped":       {fmt.Errorf("kitchen: %w", lamp), "kitchen: 灯有 3 盏", "kitchen: there are 3 lamps"},
		"wrapped twice": {fmt.Errorf("2: %w", fmt.Errorf("1: %w", window)), "2: 1: 窗开着", "2: 1: the window is open"},
		"several": {errors.Join(lamp, io.EOF, window), "灯有 3 盏\nEOF\n窗开着",
			"there are 3 lamps\nEOF\nthe window is open"},
		"several inside": {fmt.Errorf("%w, %w", window, lamp), "窗开着, 灯有 3 盏", "the window is open, there are 3 lamps"},
		"in its words": {talk.Say{Zh: "在 %s：%v", En: "in %s: %v"}.Wrong("x", lamp), "在 x：灯有 3 盏",
			"in x: there are 3 lamps"},
		"a Say in it": {talk.Say{Zh: "要%s", En: "give %s"}.Wrong(wanted), "要数字", "give a number"},
	} {
		if got := talk.Localize(c.err, talk.Chinese); got != c.zh {
			t.Errorf("%s is %q in Chinese, want %q", name, got, c.zh)
		}
		if got := talk.Localize(c.err, talk.English); got != c.en || c.err.Error() != c.en {
			t.Errorf("%s is %q in English, and %q as an error, want %q", name, got, c.err, c.en)
		}
	}
	if err := (talk.Say{Zh: "读不了：%v", En: "it cannot be read: %v"}).Wrong(io.ErrUnexpectedEOF); !errors.Is(err,
		io.ErrUnexpectedEOF) {
		t.Errorf("%v has forgotten its cause", err)
	}
}
