package activity_test

import (
	"strings"
	"testing"

	"patchbay/internal/account"
	"patchbay/internal/console/browsertest"
	"patchbay/internal/console/consoletest"
)

// A page that follows shows what comes on top, without being loaded again, at the widths
// of a telephone and a laptop.
func TestFollowInABrowser(t *testing.T) {
	r := newRig(t, consoletest.Options{})
	bot := r.Script(t, nil, echoes)
	asks(t, r, bot, "before")
	token, err := r.Accounts.Admit(t.Context(), r.Person, account.Browser{})
	if err != nil {
		t.Fatal(err)
	}
	b := browsertest.New(t, r.URL)
	b.Cookie("patchbay", token)
	b.Cookie("patchbay-lang", "en")
	b.Width(390)
	b.Open("/activity")
	b.Click("main .head a.button")
	b.Reads("main .head", "Following")
	b.Script("document.title = 'the same page'")
	asks(t, r, bot, "one")
	b.Until("document.querySelectorAll('#rows > li').length == 2")
	asks(t, r, bot, "fail")
	b.Until("document.querySelectorAll('#rows > li').length == 3")
	if first := b.Text("#rows > li:first-child"); !strings.Contains(first, "failed") {
		t.Errorf("on top is %q", first)
	}
	// What ends late changes where it stands, and the focus stays.
	_, slow, end := leaves(t, r)
	row := "#rows > li:has(a[href$='" + slow + "'])"
	b.Reads(row, "the asker left")
	asks(t, r, bot, "two")
	b.Until("document.querySelectorAll('#rows > li').length == 5")
	b.Script("document.querySelector(\"" + row + " a\").focus()")
	end()
	b.Reads(row, "over after")
	if !browsertest.Ask[bool](b, "document.activeElement.matches(\""+row+" a\") && document.querySelectorAll('#rows > li')[1].matches(\""+row+"\")") {
		t.Error("what ended late has not stayed where it was")
	}
	if title := browsertest.Ask[string](b, "document.title"); title != "the same page" {
		t.Errorf("it was loaded again: %q", title)
	}
	b.Click("#rows > li:first-child a")
	b.Reads("h1", bot.Name)
	for _, width := range []int64{390, 1280} {
		b.Width(width)
		for _, path := range []string{"/activity?outcome=done", "/activity/calls", "/activity/charts", "/activity/privacy"} {
			b.Open(path)
			b.See("h1")
			if over := browsertest.Ask[int](b, "document.documentElement.scrollWidth - innerWidth"); over > 0 {
				t.Errorf("%s is %d wider than %d", path, over, width)
			}
		}
	}
}
