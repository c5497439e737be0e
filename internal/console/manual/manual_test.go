package manual_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"patchbay/internal/console/bots"
	"patchbay/internal/console/consoletest"
	"patchbay/internal/console/home"
	"patchbay/internal/console/manual"
	"patchbay/internal/console/page"
)

func newRig(t *testing.T) *consoletest.Rig {
	return consoletest.New(t, consoletest.Options{}, func(*consoletest.Rig) []page.Route {
		return slices.Concat(manual.Routes(), home.Routes(), bots.Routes())
	})
}

// TestManual reads the manual without an account, in two languages.
func TestManual(t *testing.T) {
	r := newRig(t)
	b := r.Anonymous()
	for _, c := range []struct {
		path   string
		status int
		want   []string
	}{
		{"/docs", http.StatusOK, []string{"How to", `href="/docs/learn"`, "/signin"}},
		{"/docs/learn", http.StatusOK, []string{"spaced repetition", `href="/docs/tools#the-audit-trail"`, `<nav class="on-page"`}},
		{"/docs/nonsense", http.StatusNotFound, nil},
		{"/docs?q=forgotten+pear", http.StatusOK, []string{"Nothing was found"}},
		{"/docs?q=backup", http.StatusOK, []string{`class="hit"`, "/docs/operating#"}},
		{"/docs?q=%3Cscript%3Ealert(1)", http.StatusOK, []string{"&lt;script&gt;"}},
		{"/docs/picture/img/console-home.png", http.StatusOK, nil},
		{"/docs/picture/learn.md", http.StatusNotFound, nil},
		{"/docs/picture/../manual.go", http.StatusNotFound, nil},
	} {
		p := b.Get(c.path)
		if p.Status != c.status || !p.Contains(c.want...) {
			t.Errorf("%s: %d, want %d and %q in %.3000s", c.path, p.Status, c.status, c.want, p.Text)
		}
	}
	if p := b.Get("/docs/learn", "Accept-Language", "zh-CN"); !p.Contains(`<html lang="zh-CN"`, "知识点", `lang="zh-CN"`) {
		t.Errorf("in Chinese: %.2000s", p.Text)
	}
	if p := b.Get("/docs/learn", "Accept-Language", "ja"); !p.Contains(`<html lang="ja"`, "マニュアル", "spaced repetition", `lang="en"`) {
		t.Errorf("in Japanese: %.2000s", p.Text)
	}
}

// TestPagesLinkToTheManual follows the link of console pages to the section about them.
func TestPagesLinkToTheManual(t *testing.T) {
	r := newRig(t)
	b := r.SignedInAs(r.Person)
	for path, want := range map[string]string{
		"/bots/new": "/docs/bots", "/": "/docs/console", "/docs": "/docs",
	} {
		if p := b.Get(path); !strings.Contains(p.Text, `href="`+want+`"`) {
			t.Errorf("%s does not link to %s", path, want)
		}
	}
	if p := b.Get("/docs/learn?at=in-a-browser"); p.Status != http.StatusOK || !p.Contains("spaced repetition") {
		t.Errorf("the section: %d", p.Status)
	}
}
