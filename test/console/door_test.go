package console

import (
	"fmt"
	"testing"

	"patchbay/internal/console/browsertest"
)

// The first visitor reads the code in the terminal, opens the first account, and is
// led on from there.
func TestFirstRun(t *testing.T) { everyLook(t, firstRun) }

func firstRun(t *testing.T, l look) {
	h := newHouse(t, l.lang)
	code := h.says(l.in("设置码是", "setup code is") + ` ([0-9A-Z]{4}-[0-9A-Z]{4})`)
	b := h.browser(l)
	b.Open("/")
	b.See("form[action='/setup']")
	l.right(t, b)
	b.Type("[name=code]", "AAAA-AAAA")
	b.Type("[name=name]", ada)
	b.Type("[name=password]", adaPassword)
	b.Expect("status of 403")
	b.Press("\r")
	b.Reads("[role=alert]", l.in("设置码不对", "setup code is wrong"))
	l.right(t, b)
	if got := browsertest.Ask[string](b, "document.querySelector('[name=name]').value"); got != ada {
		t.Errorf("the name that was typed is now %q", got)
	}
	b.Fill("[name=code]", code)
	b.Type("[name=password]", adaPassword)
	b.Press("\r")
	b.Reads("main", l.in("你好，", "Hello, ")+ada)
	l.right(t, b)
	for _, road := range []string{"glasses", "board", "agent"} {
		b.See("main a[href='/guide/" + road + "']")
	}
	// The light at the end of a road turns on by itself.
	b.Click("main a[href='/guide/glasses']")
	b.Click("a[href='/bots/new?kind=echo']")
	b.Type("[name=name]", l.in("鹦鹉", "Parrot"))
	b.Press("\r")
	b.Until("/^\\/bots\\/1\\b/.test(location.pathname)")
	b.Open("/guide/glasses")
	b.See("#sign .light:not(.on)")
	if a, err := h.glasses(1, "wearer-1").Ask(h.limit(), "Hello", nil); err != nil || a.Err != "" {
		t.Fatalf("the glasses: %v %s", err, a.Err)
	}
	b.See("#sign .light.on")
	l.right(t, b)
	// Whoever comes next signs in.
	other := h.browser(l)
	other.Open("/setup")
	other.See("form[action='/signin']")
}

// Signing in leads to the page that was asked for, and signing out away from it.
func TestSignInAndOut(t *testing.T) { everyLook(t, signInAndOut) }

func signInAndOut(t *testing.T, l look) {
	h := l.house(t)
	b := h.browser(l)
	b.Open("/settings?x=1")
	b.See("form[action='/signin']")
	b.Type("[name=name]", ada)
	b.Type("[name=password]", "wrong horse")
	b.Expect("status of 403")
	b.Press("\r")
	b.Reads("[role=alert]", l.in("用户名或密码不对", "The name or the password is wrong"))
	l.right(t, b)
	b.Type("[name=password]", adaPassword)
	b.Press("\r")
	b.See("main#page")
	b.Until("location.pathname === '/settings'")
	b.Click("form[action='/signout'] button")
	b.See("form[action='/signin']")
	b.Open("/")
	b.See("form[action='/signin']")
}

// Language and ground are chosen on the page, and stay, whatever the browser likes.
func TestLooks(t *testing.T) { everyLook(t, chooseLook) }

func chooseLook(t *testing.T, l look) {
	h := l.house(t)
	b := h.browser(l)
	ground := func() string {
		b.Script(settled)
		return browsertest.Ask[string](b, "getComputedStyle(document.body).backgroundColor")
	}
	b.Open("/signin")
	likes := ground()
	b.Click("form[action='/look'] [value=dark]")
	b.Until("document.documentElement.dataset.theme === 'dark'")
	b.Dark(false)
	dark := ground()
	b.Click("form[action='/look'] [value=light]")
	b.Until("document.documentElement.dataset.theme === 'light'")
	b.Dark(true)
	light := ground()
	if dark == light {
		t.Error("the dark ground is as the light one")
	}
	if l.dark && likes != dark || !l.dark && likes != light {
		t.Errorf("before anything is chosen the ground is %s; dark is %s, light is %s", likes, dark, light)
	}
	b.Click("form[action='/look'] [name=lang]")
	b.Until(fmt.Sprintf("document.documentElement.lang === %q", l.in("en", "zh-CN")))
	b.Reads("h1", l.in("Sign in", "登录"))
	b.Open("/signin")
	b.Until(fmt.Sprintf("document.documentElement.lang === %q && document.documentElement.dataset.theme === 'light'", l.in("en", "zh-CN")))
	look{l.width, l.in("en", "zh"), false}.right(t, b)
}

// The first visit costs little.
func TestFirstLoad(t *testing.T) { everyLook(t, firstLoad) }

func firstLoad(t *testing.T, l look) {
	h := l.house(t)
	b := h.hers(l)
	b.Open("/")
	b.See("h1")
	b.Until("document.readyState === 'complete'")
	if n := b.Came(); n == 0 || n > 150<<10 {
		t.Errorf("the first visit takes %.1f KiB", float64(n)/1024)
	} else {
		t.Logf("the first visit takes %.1f KiB", float64(n)/1024)
	}
}
