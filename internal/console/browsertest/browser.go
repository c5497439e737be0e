// Package browsertest drives Chromium, for tests of pages as people use them.
package browsertest

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	weblog "github.com/chromedp/cdproto/log"
)

// patience is how long a page may take to show what is waited for. It is long because
// machines that run tests are busy.
const patience = time.Minute

// Browser is one window of Chromium, with cookies of its own. When the test ends, it
// complains about what the console of the pages said, and about requests to any other
// host.
type Browser struct {
	t    testing.TB
	ctx  context.Context
	base *url.URL

	mu       sync.Mutex
	trouble  []string
	expected []string // what trouble may have in it
	came     float64  // bytes, as they come over the network
}

// Path is where Chromium is. The test is skipped if there is none, unless CI=true.
func Path(t testing.TB) string {
	t.Helper()
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	if os.Getenv("CI") == "true" {
		t.Fatal("Chromium is needed: apt-get install chromium")
	}
	t.Skip("no Chromium here")
	return ""
}

// New opens a window of 1280 by 900 on the pages at an address, in a Chromium of its
// own.
func New(t testing.TB, address string) *Browser {
	t.Helper()
	c := &Chromium{}
	t.Cleanup(c.Stop)
	return c.Window(t, address)
}

// Chromium is one for many windows, which know nothing of each other: to start it takes
// longer than most of what is tested. It starts with the first window, and again if it
// has died; whoever has it stops it.
type Chromium struct {
	mu      sync.Mutex
	running context.Context
	end     context.CancelFunc
}

// start returns a Chromium that runs.
func (c *Chromium) start(path string) (context.Context, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.running != nil && c.running.Err() == nil {
		return c.running, nil
	}
	c.stop()
	o := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.DisableGPU, chromedp.WindowSize(1280, 900))
	for _, name := range []string{"disable-quic", "disable-background-networking", "disable-component-update", "disable-sync", "disable-dev-shm-usage"} {
		o = append(o, chromedp.Flag(name, true))
	}
	ctx, cancel := chromedp.NewExecAllocator(context.Background(), o...)
	ctx, cancelTab := chromedp.NewContext(ctx)
	c.running, c.end = ctx, func() {
		chromedp.Cancel(ctx) //nolint:errcheck // it ends with its context anyway
		cancelTab()
		cancel()
	}
	if err := chromedp.Do(ctx); err != nil {
		c.stop()
		return nil, err
	}
	return ctx, nil
}

func (c *Chromium) stop() {
	if c.end != nil {
		c.end()
	}
	c.running, c.end = nil, nil
}

// Stop ends it. There are no windows any more.
func (c *Chromium) Stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stop()
}

// Window opens a window of 1280 by 900 on the pages at an address, with cookies and a
// cache of its own, and as if it were the one that somebody looks at.
func (c *Chromium) Window(t testing.TB, address string) *Browser {
	t.Helper()
	base, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	ctx, err := c.start(Path(t))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := chromedp.NewContext(ctx, chromedp.WithNewBrowserContext())
	b := &Browser{t: t, ctx: ctx, base: base}
	t.Cleanup(func() {
		cancel()
		b.mu.Lock()
		defer b.mu.Unlock()
		for _, text := range b.trouble {
			t.Error(text)
		}
	})
	if err := chromedp.Listen(ctx, b.hear); err != nil {
		t.Fatal(err)
	}
	b.Width(1280)
	if _, err := chromedp.Call(ctx, emulation.SetFocusEmulationEnabled, emulation.SetFocusEmulationEnabledParams{Enabled: true}); err != nil {
		t.Fatal(err)
	}
	return b
}

// Expect says that what the console says may have a text in it.
func (b *Browser) Expect(text string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.expected = append(b.expected, text)
}

// hear notes what a page should not do.
func (b *Browser) hear(event any) {
	text := ""
	switch e := event.(type) {
	case *network.EventLoadingFinished:
		b.mu.Lock()
		b.came += e.EncodedDataLength
		b.mu.Unlock()
	case *network.EventRequestWillBeSent:
		if u, err := url.Parse(e.Request.URL); err != nil || u.Host != b.base.Host && u.Scheme != "data" && u.Scheme != "blob" {
			text = "a page asks another host: " + e.Request.URL
		}
	case *weblog.EventEntryAdded:
		if e.Entry.Level == "error" || e.Entry.Level == "warning" {
			text = fmt.Sprintf("the console says: %s (%s)", e.Entry.Text, e.Entry.URL)
		}
	case *runtime.EventExceptionThrown:
		text = "a script failed: " + e.ExceptionDetails.Text
		if x := e.ExceptionDetails.Exception; x != nil {
			text += " " + x.Description
		}
	case *runtime.EventConsoleAPICalled:
		if e.Type == "error" || e.Type == "warning" {
			text = "a script says:"
			for _, a := range e.Args {
				text += " " + string(a.Value) + a.Description
			}
		}
	}
	if text == "" {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, expected := range b.expected {
		if strings.Contains(text, expected) {
			return
		}
	}
	b.trouble = append(b.trouble, text)
}

// Do carries out steps, each of which may take its time.
func (b *Browser) Do(steps ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	if err := chromedp.Do(ctx, steps...); err != nil {
		b.fail(err)
	}
}

// fail ends the test, and tells what the page shows.
func (b *Browser) fail(err error) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, 5*time.Second)
	defer cancel()
	at, _ := chromedp.Run(ctx, chromedp.Location())                                      //nolint:errcheck // it is told if it is there
	shown, _ := chromedp.Run(ctx, chromedp.Evaluate[string]("document.body?.innerText")) //nolint:errcheck // the same
	b.t.Fatalf("%v\nat %s, which shows:\n%s", err, at, shown)
}

func run[T any](b *Browser, a chromedp.Action[T]) T {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	out, err := chromedp.Run(ctx, a)
	if err != nil {
		b.fail(err)
	}
	return out
}

// Cookie gives the browser a cookie.
func (b *Browser) Cookie(name, value string) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	if _, err := chromedp.Call(ctx, network.SetCookie, network.SetCookieParams{Name: name, Value: value, URL: b.base.String()}); err != nil {
		b.t.Fatal(err)
	}
}

// Open goes to a page.
func (b *Browser) Open(path string) {
	b.t.Helper()
	b.Do(chromedp.Navigate(b.base.JoinPath().String() + path))
}

// See waits until an element is to be seen.
func (b *Browser) See(selector string) {
	b.t.Helper()
	b.Do(chromedp.WaitVisible(chromedp.CSS(selector)))
}

// Reads waits until an element, or one of several, has a text in it.
func (b *Browser) Reads(selector, text string) {
	b.t.Helper()
	b.Until(fmt.Sprintf("[...document.querySelectorAll(%q)].some(e => e.innerText.includes(%q) || e.value === %[2]q)", selector, text))
}

// Until waits until an expression of JavaScript is true, over changes of page.
func (b *Browser) Until(expression string) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		// An error is a page that goes while it is asked.
		if is, err := chromedp.Run(ctx, chromedp.Evaluate[bool]("!!("+expression+")")); err == nil && is {
			return
		}
		select {
		case <-ctx.Done():
			b.fail(fmt.Errorf("it never is that %s", expression))
		case <-tick.C:
		}
	}
}

// Type types into a field, behind what is in it.
func (b *Browser) Type(selector, text string) {
	b.t.Helper()
	b.Do(chromedp.SendKeys(chromedp.CSS(selector), text))
}

// Fill puts a value into a field, as typing it would.
func (b *Browser) Fill(selector, value string) {
	b.t.Helper()
	b.See(selector)
	b.Script(fmt.Sprintf(`{const e = document.querySelector(%q); e.value = %q; e.dispatchEvent(new Event("input", {bubbles: true})); e.dispatchEvent(new Event("change", {bubbles: true}))}`, selector, value))
}

// Press presses keys, wherever the focus is.
func (b *Browser) Press(keys string) {
	b.t.Helper()
	b.Do(chromedp.KeyEvent(keys))
}

// Click clicks on an element once it is to be seen, away from the edges of the window,
// where bars may cover it.
func (b *Browser) Click(selector string) {
	b.t.Helper()
	b.See(selector)
	b.Script(fmt.Sprintf(`document.querySelector(%q)?.scrollIntoView({block: "center", behavior: "instant"})`, selector))
	b.Do(chromedp.Click(chromedp.CSS(selector), chromedp.NodeVisible))
}

// Text is the text of an element, as it is to be seen.
func (b *Browser) Text(selector string) string {
	b.t.Helper()
	return run(b, chromedp.Text(chromedp.CSS(selector)))
}

// At is the address of the page, without the host.
func (b *Browser) At() string {
	b.t.Helper()
	u, err := url.Parse(run(b, chromedp.Location()))
	if err != nil {
		b.t.Fatal(err)
	}
	return u.RequestURI()
}

// Script runs JavaScript in the page.
func (b *Browser) Script(text string) {
	b.t.Helper()
	run(b, chromedp.Evaluate[chromedp.Void](text, chromedp.EvalAwaitPromise))
}

// Ask gives what an expression of JavaScript is, a promise's value too.
func Ask[T any](b *Browser, expression string) T {
	b.t.Helper()
	return run(b, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
}

// Upload chooses a file in a field for files.
func (b *Browser) Upload(selector, file string) {
	b.t.Helper()
	b.Do(chromedp.SetUploadFiles(chromedp.CSS(selector), []string{file}))
}

// Came is how many bytes have come from the server so far, packed as they were.
func (b *Browser) Came() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return int(b.came)
}

// Width makes the window a telephone's (390) or a laptop's (1280).
func (b *Browser) Width(pixels int64) {
	b.t.Helper()
	height := int64(900)
	if pixels < 600 {
		height = 844
	}
	b.Do(chromedp.EmulateViewport(pixels, height))
}

// Dark has the browser prefer a dark ground, or a light one.
func (b *Browser) Dark(dark bool) {
	b.t.Helper()
	value := "light"
	if dark {
		value = "dark"
	}
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	features := []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: value}}
	if _, err := chromedp.Call(ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: features}); err != nil {
		b.t.Fatal(err)
	}
}

// Agree answers what pages ask with data-confirm, from now on.
func (b *Browser) Agree() {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	if _, err := chromedp.Call(ctx, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: "window.confirm = () => true"}); err != nil {
		b.t.Fatal(err)
	}
	b.Script("window.confirm = () => true")
}

// Picture is an element as it is to be seen, as a PNG file.
func (b *Browser) Picture(selector string) []byte {
	b.t.Helper()
	return run(b, chromedp.Screenshot(chromedp.CSS(selector), chromedp.NodeVisible))
}

// Shot writes a picture of what is to be seen to a PNG file.
func (b *Browser) Shot(name string) {
	b.t.Helper()
	picture := run(b, chromedp.CaptureScreenshot())
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		b.t.Fatal(err)
	}
	if err := os.WriteFile(name, picture, 0o644); err != nil {
		b.t.Fatal(err)
	}
}
