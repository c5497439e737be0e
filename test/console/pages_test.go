package console

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"patchbay/internal/console/browsertest"
	"patchbay/internal/i18n"
)

// places are the pages in the menu.
var places = []string{"/", "/talk", "/bots", "/devices", "/gateway", "/tools", "/keys", "/learn", "/activity", "/settings"}

// one matches a number or an ID in an address: one page stands for all of its kind.
var one = regexp.MustCompile(`/([0-9]+|[0-9a-f]{8,}|[0-9a-z]{20,}|[0-9a-f-]{36})(/|$)`)

// pages returns the addresses of all pages reachable by links, one of each kind.
func pages(b *browsertest.Browser) []string {
	var list []string
	known := map[string]int{}
	add := func(address string) {
		path, query, _ := strings.Cut(address, "?")
		kind := one.ReplaceAllString(one.ReplaceAllString(path, "/#$2"), "/#$2")
		if i := strings.Index(query, "="); i > 0 {
			kind += "?" + query[:i]
		}
		most := 1
		if strings.HasPrefix(path, "/tools/") && strings.Contains(path, "_") { // each has its own form
			kind, most = "/tools/#", 6
		}
		if strings.HasPrefix(path, "/docs/") { // all are made alike
			kind, most = "/docs/#", 2
		}
		if known[kind]++; known[kind] <= most {
			list = append(list, address)
		}
	}
	for _, path := range places {
		add(path)
	}
	for i := 0; i < len(list); i++ {
		b.Open(list[i])
		for _, link := range browsertest.Evaluate[[]string](b,
			`[...document.querySelectorAll("a[href]:not([download])")].filter(a => a.origin === location.origin).map(a => a.pathname + a.search)`) {
			if !strings.HasPrefix(link, "/api/") && !strings.HasPrefix(link, "/assets/") &&
				!strings.Contains(link, "download") && !strings.Contains(link, "export") &&
				!strings.Contains(link, "/listening") {
				add(link)
			}
		}
	}
	return list
}

// opens opens an address and reports whether it is a page.
func opens(t *testing.T, b *browsertest.Browser, path string) bool {
	t.Helper()
	b.Open(path)
	status := browsertest.Evaluate[int](b, "performance.getEntriesByType('navigation')[0].responseStatus")
	if status != http.StatusOK || browsertest.Evaluate[int](b, "document.querySelectorAll('h1').length") == 0 {
		t.Errorf("%s: status %d: %s", path, status, b.Text("body"))
		return false
	}
	return true
}

// settled finishes running colour transitions.
const settled = `document.getAnimations().filter(a => a instanceof CSSTransition).forEach(a => a.finish())`

// checks are the checks of every page: a function that returns the violations.
const checks = `(lang => {
  const wrong = [], root = document.documentElement;
  const name = e => e.tagName.toLowerCase() + (e.id && "#" + e.id) + [...e.classList].map(c => "." + c).join("");
  if (root.scrollWidth > innerWidth) {
    const wide = [...document.body.querySelectorAll("*")].filter(e => e.getBoundingClientRect().right > innerWidth + 1 && !e.closest(".scroll, pre, nav"));
    wrong.push("wider than the window by " + (root.scrollWidth - innerWidth) + ": " + wide.slice(0, 4).map(name).join(" "));
  }
  const seen = e => e.checkVisibility();
  const titles = [...document.querySelectorAll("h1")].filter(seen);
  if (titles.length !== 1) wrong.push(titles.length + " first headings");
  let last = 0;
  for (const h of [...document.querySelectorAll("h1, h2, h3, h4")].filter(seen)) {
    const level = +h.tagName[1];
    if (level > last + 1) wrong.push("heading " + level + " after " + last + ": " + h.innerText);
    last = level;
  }
  if (root.lang !== lang) wrong.push("in the language " + root.lang);
  if (!document.title.includes(" · Patchbay")) wrong.push("the title is " + document.title);
  const foreign = lang === "en" ? /\p{Script=Han}+/u : /\b[a-z]+ [a-z]+ [a-z]+\b/;
  for (const e of [...document.querySelectorAll("h1, h2, h3, button, label, legend, summary, th, nav a, .tabs a, .note, .empty, .light")].filter(seen)) {
    if (e.closest("[lang]") !== root || e.querySelector("select, textarea") || e.closest("code, pre, [translate=no]")) continue;
    if (e.tagName === "H1" && location.pathname.startsWith("/tools/")) continue; // as its provider calls it
    const text = e.cloneNode(true);
    text.querySelectorAll("code, pre, .hint, [lang]").forEach(x => x.remove());
    const found = text.textContent.match(foreign);
    if (found) wrong.push("in another language: " + name(e) + " " + found[0]);
  }
  for (const e of document.querySelectorAll("[aria-labelledby], [aria-describedby], label[for]")) {
    for (const id of [e.getAttribute("aria-labelledby"), e.getAttribute("aria-describedby"), e.getAttribute("for")].filter(Boolean).join(" ").split(" ")) {
      if (!document.getElementById(id)) wrong.push(name(e) + " speaks of #" + id + ", which is not there");
    }
  }
  const ids = [...document.querySelectorAll("[id]")].map(e => e.id);
  for (const id of new Set(ids.filter((id, i) => ids.indexOf(id) !== i))) wrong.push("twice there: #" + id);
  return wrong;
})`

// small finds controls that are too small to be touched on a phone.
const small = `[...document.querySelectorAll("main button, main a.button, main select, main input:not([type=hidden], [type=checkbox], [type=radio], [type=file], .unseen)")]
  .filter(e => e.checkVisibility() && !e.closest("[hidden]") && e.getBoundingClientRect().height < 43.5)
  .map(e => e.tagName.toLowerCase() + "." + e.className + " " + (e.innerText || e.name).slice(0, 30) + " " + Math.round(e.getBoundingClientRect().height))`

// wrong returns the violations on the current page.
func (l look) wrong(b *browsertest.Browser) []string {
	var list []string
	for list == nil { // or the next page has just started to load
		b.WaitUntil("document.readyState === 'complete'")
		b.Script(settled)
		list = browsertest.Evaluate[[]string](b, "document.readyState === 'complete' ? "+checks+"("+
			strconv.Quote(i18n.Lang(l.lang).Tag())+") : null")
	}
	if l.width == phone.width {
		for _, what := range browsertest.Evaluate[[]string](b, small) {
			list = append(list, "smaller than a finger: "+what)
		}
	}
	return list
}

// right fails the test if the current page has violations.
func (l look) right(t testing.TB, b *browsertest.Browser) {
	t.Helper()
	for _, wrong := range l.wrong(b) {
		t.Errorf("%s: %s", b.Path(), wrong)
	}
}

// axeCore returns the source of the accessibility checks. Without it the test is skipped, unless
// CI=true.
func axeCore(t testing.TB) string {
	t.Helper()
	source, err := os.ReadFile(filepath.Join("..", "peers", "axe", "node_modules", "axe-core", "axe.min.js"))
	if err != nil && os.Getenv("CI") == "true" {
		t.Fatal(err)
	} else if err != nil {
		t.Skip("run `npm ci` in test/peers/axe to test accessibility")
	}
	return string(source)
}

// finding is a finding of axe-core.
type finding struct {
	ID, Impact, Help string
	Nodes            []string
}

// runAxe returns its findings.
const runAxe = `axe.run(document, {resultTypes: ["violations"], preload: false}).then(r => r.violations.map(v => ({id: v.id, impact: v.impact, help: v.help, nodes: v.nodes.slice(0, 3).map(n => n.html.slice(0, 200) + " — " + (n.any[0] || n.all[0] || n.none[0] || {}).message)})))`

// Every page is right in every look: it fits the screen, is in one language, loads nothing from
// other servers, logs nothing to the browser's console, and axe-core finds nothing serious.
func TestEveryPage(t *testing.T) {
	if testing.Short() {
		t.Skip("opens every page in every language")
	}
	t.Parallel()
	axe := axeCore(t)
	h := furnished(t)
	list, token := pages(h.adaBrowser(phone)), h.token(ada, adaPassword)
	t.Logf("%d pages: %s", len(list), strings.Join(list, " "))
	for _, l := range i18n.Languages() {
		lang := string(l)
		t.Run(lang, func(t *testing.T) {
			t.Parallel()
			everyPage(t, h.window(t, look{phone.width, lang, false}, token), list, lang, axe)
		})
	}
}

// everyPage opens all pages in a language and checks them in all looks of that language.
func everyPage(t *testing.T, b *browsertest.Browser, list []string, lang, axe string) {
	in := inspector{t, b, lang, axe, map[string]int{}}
	for _, path := range list {
		if in.open(path) {
			in.check(path)
		}
	}
	in.tell()
}

// Pages that show a secret once, after a form was sent, are right in every look, too. No link leads
// to them.
func TestPagesShownOnce(t *testing.T) {
	if testing.Short() {
		t.Skip("opens pages in every language")
	}
	t.Parallel()
	axe := axeCore(t)
	h := newServerWithAda(t)
	token := h.token(ada, adaPassword)
	for _, l := range i18n.Languages() {
		lang := string(l)
		t.Run(lang, func(t *testing.T) {
			t.Parallel()
			b := h.window(t, look{phone.width, lang, false}, token)
			in := inspector{t, b, lang, axe, map[string]int{}}
			for _, kind := range []string{"connector", "eyeclaw"} {
				if path := "/bots/new?kind=" + kind; in.open(path) {
					addConnector(b, kind+"-"+lang)
					in.check(path + ", sent")
				}
			}
			if in.open("/gateway") {
				b.Script(`document.querySelector("form[action='/gateway/invite']").closest("details").open = true`)
				b.Click("form[action='/gateway/invite'] button")
				b.WaitUntil("location.pathname === '/gateway/invite'")
				in.check("/gateway/invite")
				if in.open("/gateway") {
					b.WaitVisible("#codes form")
					in.check("/gateway, with a setup code")
				}
			}
			in.tell()
		})
	}
}

// inspector checks pages in all looks of a language.
type inspector struct {
	t      *testing.T
	b      *browsertest.Browser
	lang   string
	axe    string
	milder map[string]int // findings that are not serious, with how often they were made
}

// open opens an address and reports whether it is a page.
func (in *inspector) open(path string) bool {
	in.t.Helper()
	in.b.SetDark(false)
	in.b.SetWidth(phone.width)
	return opens(in.t, in.b, path)
}

// check checks the current page.
func (in *inspector) check(path string) {
	in.t.Helper()
	in.b.Script(in.axe)
	for _, l := range []look{{390, in.lang, false}, {390, in.lang, true}, {1280, in.lang, true},
		{1280, in.lang, false}} {
		in.b.SetWidth(l.width)
		in.b.SetDark(l.dark)
		for _, wrong := range l.wrong(in.b) {
			in.t.Errorf("%s %s: %s", l, path, wrong)
		}
		for _, f := range browsertest.Evaluate[[]finding](in.b, runAxe) {
			if f.Impact == "serious" || f.Impact == "critical" {
				in.t.Errorf("%s %s: %s (%s):\n%s", l, path, f.Help, f.ID, strings.Join(f.Nodes, "\n"))
			} else {
				in.milder[fmt.Sprintf("%s (%s, %s)", f.Help, f.ID, f.Impact)]++
			}
		}
	}
}

// tell logs the findings that are not serious.
func (in *inspector) tell() {
	in.t.Helper()
	for what, times := range in.milder {
		in.t.Logf("milder: %s, %d times", what, times)
	}
}

// stops records on the page where the focus goes, and returns the number of focusable elements.
const stops = `(() => {
  const can = "a[href], button, input:not([type=hidden]), select, textarea, summary, audio[controls], video[controls], [tabindex]:not([tabindex='-1'])";
  const all = [...document.querySelectorAll(can)].filter(e => !e.disabled && e.tabIndex >= 0 && !e.closest("[inert]") && e.checkVisibility({visibilityProperty: true})
    && (e.type !== "radio" || e.checked || ![...document.getElementsByName(e.name)].some(o => o.checked) && document.getElementsByName(e.name)[0] === e));
  const name = e => (e.tagName.toLowerCase() + (e.id && "#" + e.id) + " " + (e.name || e.getAttribute("href") || e.innerText || "")).trim().slice(0, 60);
  window.walk = {order: [], hidden: []};
  document.addEventListener("focusin", e => {
    walk.order.push(all.indexOf(e.target));
    const style = getComputedStyle(e.target);
    const shown = [e.target, ...(e.target.labels ?? [])].some(x => { const s = getComputedStyle(x); return s.outlineStyle !== "none" && parseFloat(s.outlineWidth) > 0 || s.boxShadow !== "none"; });
    const box = e.target.getBoundingClientRect();
    if (!shown) walk.hidden.push(name(e.target) + " has no ring");
    else if (box.width === 0 || box.bottom < 0 || box.right < 0) walk.hidden.push(name(e.target) + " is not on the page");
  });
  walk.over = () => (walk.left ||= document.activeElement === document.body || walk.order.length > 1 && walk.order.at(-1) === 0) && !walk.missed().length;
  walk.missed = () => all.filter((e, i) => e.isConnected && !walk.order.includes(i)).map(name);
  return all.length;
})()`

// The keyboard alone is enough: Tab reaches every control, which shows the focus and releases it
// again; the first stop skips the menu.
func TestKeyboardAlone(t *testing.T) {
	if testing.Short() {
		t.Skip("tabs through every page")
	}
	t.Parallel()
	h := furnished(t)
	b := h.adaBrowser(laptop)
	for _, path := range pages(b) {
		if !opens(t, b, path) {
			continue
		}
		b.Script("document.activeElement?.blur()")
		n := browsertest.Evaluate[int](b, stops)
		for range 3*n + 40 { // date inputs and players have inner stops
			b.Press("\t")
			if browsertest.Evaluate[bool](b, "walk.over()") {
				break
			}
		}
		if missed := browsertest.Evaluate[[]string](b, "walk.missed()"); len(missed) > 0 {
			t.Errorf("%s: never reached: %s", path, strings.Join(missed, ", "))
		}
		for _, what := range slices.Compact(browsertest.Evaluate[[]string](b, "walk.hidden")) {
			t.Errorf("%s: %s", path, what)
		}
		if !browsertest.Evaluate[bool](b, "walk.left") {
			t.Errorf("%s: the focus does not come out again", path)
		}
	}
	b.Open("/")
	b.WaitVisible("h1")
	b.Press("\t")
	b.WaitUntil("document.activeElement.matches('.skip')")
	b.Press("\r")
	b.WaitUntil("document.activeElement.id === 'page' || location.hash === '#page'")
}
