package activity_test

import (
	"strings"
	"testing"

	"patchbay/internal/account"
	"patchbay/internal/console/browsertest"
	"patchbay/internal/console/consoletest"
)

// A live page shows new records at the top without a reload, at the widths of a phone and a laptop.
func TestFollowInABrowser(t *testing.T) {
	r := newRig(t, consoletest.Options{})
	bot := r.AddScript(t, nil, echoes)
	asks(t, r, bot, "before")
	token, err := r.Accounts.Admit(t.Context(), r.Person, account.Browser{})
	if err != nil {
		t.Fatal(err)
	}
	b := browsertest.New(t, r.URL)
	b.Cookie("patchbay", token)
	b.Cookie("patchbay-lang", "en")
	b.SetWidth(390)
	b.Open("/activity")
	b.Click("main .head a.button")
	b.WaitText("main .head", "Following")
	b.Script("document.title = 'the same page'")
	asks(t, r, bot, "one")
	b.WaitUntil("document.querySelectorAll('#rows > li').length == 2")
	asks(t, r, bot, "fail")
	b.WaitUntil("document.querySelectorAll('#rows > li').length == 3")
	if first := b.Text("#rows > li:first-child"); !strings.Contains(first, "failed") {
		t.Errorf("on top is %q", first)
	}
	// A turn that ends late is updated in place, and the focus stays.
	_, slow, end := leaves(t, r)
	row := "#rows > li:has(a[href$='" + slow + "'])"
	b.WaitText(row, "the asker left")
	asks(t, r, bot, "two")
	b.WaitUntil("document.querySelectorAll('#rows > li').length == 5")
	b.Script("document.querySelector(\"" + row + " a\").focus()")
	end()
	b.WaitText(row, "over after")
	if !browsertest.Evaluate[bool](b, "document.activeElement.matches(\""+row+
		" a\") && document.querySelectorAll('#rows > li')[1].matches(\""+row+"\")") {
		t.Error("what ended late has not stayed where it was")
	}
	if title := browsertest.Evaluate[string](b, "document.title"); title != "the same page" {
		t.Errorf("it was loaded again: %q", title)
	}
	b.Click("#rows > li:first-child a")
	b.WaitText("h1", bot.Name)
	for _, width := range []int64{390, 1280} {
		b.SetWidth(width)
		for _, path := range []string{"/activity?outcome=done", "/activity/calls", "/activity/charts",
			"/activity/privacy"} {
			b.Open(path)
			b.WaitVisible("h1")
			if over := browsertest.Evaluate[int](b, "document.documentElement.scrollWidth - innerWidth"); over > 0 {
				t.Errorf("%s is %d wider than %d", path, over, width)
			}
		}
	}
}
