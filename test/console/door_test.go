package console

import (
	"testing"

	"patchbay/internal/console/browsertest"
)

// The first visitor reads the code in the terminal, opens the first account, and is
// led on from there.
func TestFirstRun(t *testing.T) {
	h := newHouse(t)
	code := h.says(`setup code is ([0-9A-Z]{4}-[0-9A-Z]{4})`)
	b := h.browser(phone)
	b.Open("/")
	b.See("form[action='/setup']")
	b.Type("[name=code]", "AAAA-AAAA")
	b.Type("[name=name]", ada)
	b.Type("[name=password]", adaPassword)
	b.Expect("status of 403")
	b.Press("\r")
	b.Reads("[role=alert]", "setup code is wrong")
	if got := browsertest.Ask[string](b, "document.querySelector('[name=name]').value"); got != ada {
		t.Errorf("the name that was typed is now %q", got)
	}
	b.Fill("[name=code]", code)
	b.Type("[name=password]", adaPassword)
	b.Press("\r")
	b.Reads("main", "Hello, "+ada)
	for _, road := range []string{"glasses", "board", "agent"} {
		b.See("main a[href='/guide/" + road + "']")
	}
	// The light at the end of a road turns on by itself.
	b.Click("main a[href='/guide/glasses']")
	b.Click("a[href='/bots/new?kind=echo']")
	b.Type("[name=name]", "Parrot")
	b.Press("\r")
	b.Until("/^\\/bots\\/1\\b/.test(location.pathname)")
	b.Open("/guide/glasses")
	b.See("#sign .light:not(.on)")
	if a, err := h.glasses(1, "wearer-1").Ask(h.limit(), "Hello", nil); err != nil || a.Err != "" {
		t.Fatalf("the glasses: %v %s", err, a.Err)
	}
	b.See("#sign .light.on")
	// Whoever comes next signs in.
	other := h.browser(laptopDark)
	other.Open("/setup")
	other.See("form[action='/signin']")
}

// Signing in leads to the page that was asked for, and signing out away from it.
func TestSignInAndOut(t *testing.T) {
	h := adasHouse(t)
	b := h.browser(laptopDark)
	b.Open("/settings?x=1")
	b.See("form[action='/signin']")
	b.Type("[name=name]", ada)
	b.Type("[name=password]", "wrong horse")
	b.Expect("status of 403")
	b.Press("\r")
	b.Reads("[role=alert]", "用户名或密码不对")
	b.Type("[name=password]", adaPassword)
	b.Press("\r")
	b.See("main#page")
	b.Until("location.pathname === '/settings'")
	b.Click("form[action='/signout'] button")
	b.See("form[action='/signin']")
	b.Open("/")
	b.See("form[action='/signin']")
}

// Language and ground are chosen on the page, and stay.
func TestLooks(t *testing.T) {
	h := adasHouse(t)
	b := h.browser(phone)
	b.Open("/signin")
	ground := func() string { return browsertest.Ask[string](b, "getComputedStyle(document.body).backgroundColor") }
	light := ground()
	b.Click("form[action='/look'] [value=dark]")
	b.Until("document.documentElement.dataset.theme === 'dark'")
	if ground() == light {
		t.Error("the dark ground is as the light one")
	}
	b.Click("form[action='/look'] [name=lang]")
	b.Until("document.documentElement.lang === 'zh-CN'")
	b.Reads("h1", "登录")
	b.Open("/signin")
	b.Until("document.documentElement.lang === 'zh-CN' && document.documentElement.dataset.theme === 'dark'")
	b.Dark(true)
	b.Click("form[action='/look'] [value=light]")
	b.Until("document.documentElement.dataset.theme === 'light'")
	if ground() != light {
		t.Error("the light ground is not there where the browser likes it dark")
	}
}

// The first visit costs little.
func TestFirstLoad(t *testing.T) {
	h := adasHouse(t)
	b := h.hers(phone)
	b.Open("/")
	b.See("h1")
	b.Until("document.readyState === 'complete'")
	if n := b.Came(); n == 0 || n > 150<<10 {
		t.Errorf("the first visit takes %.1f KiB", float64(n)/1024)
	} else {
		t.Logf("the first visit takes %.1f KiB", float64(n)/1024)
	}
}
