package console

import (
	"fmt"
	"testing"

	"patchbay/internal/console/browsertest"
)

// The first visitor reads the code in the terminal, creates the first account, and is guided on
// from there.
func TestFirstRun(t *testing.T) { everyLook(t, firstRun) }

func firstRun(t *testing.T, l look) {
	h := newTestServer(t, l.lang)
	code := h.says(l.in("设置码是", "setup code is") + ` ([0-9A-Z]{4}-[0-9A-Z]{4})`)
	b := h.browser(l)
	b.Open("/")
	b.WaitVisible("form[action='/setup']")
	l.right(t, b)
	b.Type("[name=code]", "AAAA-AAAA")
	b.Type("[name=name]", ada)
	b.Type("[name=password]", adaPassword)
	b.AllowProblem("status of 403")
	b.Press("\r")
	b.WaitText("[role=alert]", l.in("设置码不对", "setup code is wrong"))
	l.right(t, b)
	if got := browsertest.Evaluate[string](b, "document.querySelector('[name=name]').value"); got != ada {
		t.Errorf("the name that was typed is now %q", got)
	}
	b.Fill("[name=code]", code)
	b.Type("[name=password]", adaPassword)
	b.WaitUntil("document.querySelector('[name=zone]').value === Intl.DateTimeFormat().resolvedOptions().timeZone")
	b.Press("\r")
	b.WaitText("main", l.in("你好，", "Hello, ")+ada)
	b.WaitUntil(l.in("!/正在查找/", "!/Looking around/") + ".test(document.querySelector('#found').textContent)")
	l.right(t, b)
	for _, setupPath := range []string{"glasses", "board", "agent"} {
		b.WaitVisible("main a[href='/guide/" + setupPath + "']")
	}
	// The status light at the end of a setup path turns on by itself.
	b.Click("main a[href='/guide/glasses']")
	b.Click("a[href='/bots/new?kind=echo']")
	b.Type("[name=name]", l.in("鹦鹉", "Parrot"))
	b.Press("\r")
	b.WaitUntil("/^\\/bots\\/1\\b/.test(location.pathname)")
	b.Open("/guide/glasses")
	b.WaitVisible("#sign .light:not(.on)")
	if a, err := h.glasses(1, "wearer-1").Ask(h.limit(), "Hello", nil); err != nil || a.Err != "" {
		t.Fatalf("the glasses: %v %s", err, a.Err)
	}
	b.WaitVisible("#sign .light.on")
	l.right(t, b)
	// The next visitor signs in.
	other := h.browser(l)
	other.Open("/setup")
	other.WaitVisible("form[action='/signin']")
}

// Signing in leads to the requested page, and signing out leaves it.
func TestSignInAndOut(t *testing.T) { everyLook(t, signInAndOut) }

func signInAndOut(t *testing.T, l look) {
	h := l.server(t)
	b := h.browser(l)
	b.Open("/settings?x=1")
	b.WaitVisible("form[action='/signin']")
	b.Type("[name=name]", ada)
	b.Type("[name=password]", "wrong horse")
	b.AllowProblem("status of 403")
	b.Press("\r")
	b.WaitText("[role=alert]", l.in("用户名或密码不对", "The name or the password is wrong"))
	l.right(t, b)
	b.Type("[name=password]", adaPassword)
	b.Press("\r")
	b.WaitVisible("main#page")
	b.WaitUntil("location.pathname === '/settings'")
	b.Click("form[action='/signout'] button")
	b.WaitVisible("form[action='/signin']")
	b.Open("/")
	b.WaitVisible("form[action='/signin']")
}

// Language and colour scheme are chosen on the page, and stay, whatever the browser prefers.
func TestLooks(t *testing.T) { everyLook(t, chooseLook) }

func chooseLook(t *testing.T, l look) {
	h := l.server(t)
	b := h.browser(l)
	ground := func() string {
		b.Script(settled)
		return browsertest.Evaluate[string](b, "getComputedStyle(document.body).backgroundColor")
	}
	b.Open("/signin")
	likes := ground()
	b.Click("form[action='/look'] [value=dark]")
	b.WaitUntil("document.documentElement.dataset.theme === 'dark'")
	b.SetDark(false)
	dark := ground()
	b.Click("form[action='/look'] [value=light]")
	b.WaitUntil("document.documentElement.dataset.theme === 'light'")
	b.SetDark(true)
	light := ground()
	if dark == light {
		t.Error("the dark ground is as the light one")
	}
	if l.dark && likes != dark || !l.dark && likes != light {
		t.Errorf("before anything is chosen the ground is %s; dark is %s, light is %s", likes, dark, light)
	}
	b.Click(fmt.Sprintf("form[action='/look'] [name=lang][value=%s]", l.in("en", "zh")))
	b.WaitUntil(fmt.Sprintf("document.documentElement.lang === %q", l.in("en", "zh-CN")))
	b.WaitText("h1", l.in("Sign in", "登录"))
	b.Open("/signin")
	b.WaitUntil(fmt.Sprintf("document.documentElement.lang === %q && document.documentElement.dataset.theme === 'light'", l.in("en", "zh-CN")))
	look{l.width, l.in("en", "zh"), false}.right(t, b)
}

// The first visit loads little data.
func TestFirstLoad(t *testing.T) { everyLook(t, firstLoad) }

func firstLoad(t *testing.T, l look) {
	h := l.server(t)
	b := h.adaBrowser(l)
	b.Open("/")
	b.WaitVisible("h1")
	b.WaitUntil("document.readyState === 'complete'")
	if n := b.BytesReceived(); n == 0 || n > 60<<10 {
		t.Errorf("the first visit takes %.1f KiB", float64(n)/1024)
	} else {
		t.Logf("the first visit takes %.1f KiB", float64(n)/1024)
	}
}
