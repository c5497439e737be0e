// Package browsertest drives Chromium for tests of pages.
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
	"github.com/chromedp/cdproto/webauthn"
	"github.com/chromedp/chromedp"

	weblog "github.com/chromedp/cdproto/log"
)

// patience is how long a test waits for a page to show something. It is long because test machines
// are busy.
const patience = time.Minute

// Browser is one window of Chromium with its own cookies. When the test ends, it reports console
// messages of the pages and requests to other hosts as failures.
type Browser struct {
	t    testing.TB
	ctx  context.Context
	base *url.URL

	mu       sync.Mutex
	problems []string
	expected []string // texts that problems may contain
	came     float64  // bytes received over the network
}

// Path returns the path of Chromium. It skips the test if there is none, unless CI=true.
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

// New opens a window of 1280 by 900 pixels at an address, in a Chromium of its own.
func New(t testing.TB, address string) *Browser {
	t.Helper()
	c := &Chromium{}
	t.Cleanup(c.Stop)
	return c.Window(t, address)
}

// Chromium is one browser process for many isolated windows: starting it takes longer than most
// tests. It starts with the first window, and again if it has crashed; its owner calls Stop.
type Chromium struct {
	// Microphone is a WAV file that pages hear from the microphone, again and again. With it, they
	// may use microphone and camera, which shows moving colours. Empty: there is neither.
	Microphone string

	mu      sync.Mutex
	running context.Context
	end     context.CancelFunc
}

// start returns the context of a running Chromium, starting it if needed.
func (c *Chromium) start(path string) (context.Context, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.running != nil && c.running.Err() == nil {
		return c.running, nil
	}
	c.stop()
	o := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.NoSandbox,
		chromedp.DisableGPU, chromedp.WindowSize(1280, 900))
	for _, name := range []string{"disable-quic", "disable-background-networking", "disable-component-update",
		"disable-sync", "disable-dev-shm-usage"} {
		o = append(o, chromedp.Flag(name, true))
	}
	if c.Microphone != "" {
		o = append(o, chromedp.Flag("use-fake-device-for-media-stream", true),
			chromedp.Flag("use-fake-ui-for-media-stream", true),
			chromedp.Flag("use-file-for-fake-audio-capture", c.Microphone))
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

// Stop ends the process. No window may be open any more.
func (c *Chromium) Stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stop()
}

// Window opens a window of 1280 by 900 pixels at an address, with its own cookies and cache. It has
// the focus, like the window a person looks at.
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
		for _, text := range b.problems {
			t.Error(text)
		}
	})
	if err := chromedp.Listen(ctx, b.onEvent); err != nil {
		t.Fatal(err)
	}
	b.SetWidth(1280)
	if _, err := chromedp.Call(ctx, emulation.SetFocusEmulationEnabled,
		emulation.SetFocusEmulationEnabledParams{Enabled: true}); err != nil {
		t.Fatal(err)
	}
	return b
}

// AllowProblem accepts console messages that contain a text.
func (b *Browser) AllowProblem(text string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.expected = append(b.expected, text)
}

// onEvent records problems: console messages, exceptions and requests to other hosts.
func (b *Browser) onEvent(event any) {
	text := ""
	switch e := event.(type) {
	case *network.EventLoadingFinished:
		b.mu.Lock()
		b.came += e.EncodedDataLength
		b.mu.Unlock()
	case *network.EventRequestWillBeSent:
		if u, err := url.Parse(e.Request.URL); err != nil ||
			u.Host != b.base.Host && u.Scheme != "data" && u.Scheme != "blob" {
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
	b.problems = append(b.problems, text)
}

// Do runs actions, each with a timeout of its own.
func (b *Browser) Do(steps ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	if err := chromedp.Do(ctx, steps...); err != nil {
		b.fail(err)
	}
}

// fail ends the test and logs what the page shows.
func (b *Browser) fail(err error) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, 5*time.Second)
	defer cancel()
	at, _ := chromedp.Run(ctx, chromedp.Location())                                      //nolint:errcheck // only for the failure message
	shown, _ := chromedp.Run(ctx, chromedp.Evaluate[string]("document.body?.innerText")) //nolint:errcheck // only for the failure message
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

// Cookie sets a cookie.
func (b *Browser) Cookie(name, value string) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	if _, err := chromedp.Call(ctx, network.SetCookie, network.SetCookieParams{Name: name, Value: value,
		URL: b.base.String()}); err != nil {
		b.t.Fatal(err)
	}
}

// AddAuthenticator gives the browser an authenticator for passkeys.
func (b *Browser) AddAuthenticator(o webauthn.VirtualAuthenticatorOptions) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	if _, err := chromedp.Call(ctx, webauthn.Enable, webauthn.EnableParams{}); err != nil {
		b.t.Fatal(err)
	}
	if _, err := chromedp.Call(ctx, webauthn.AddVirtualAuthenticator,
		webauthn.AddVirtualAuthenticatorParams{Options: &o}); err != nil {
		b.t.Fatal(err)
	}
}

// Open loads a page.
func (b *Browser) Open(path string) {
	b.t.Helper()
	b.Do(chromedp.Navigate(b.base.JoinPath().String() + path))
}

// WaitVisible waits until an element is visible.
func (b *Browser) WaitVisible(selector string) {
	b.t.Helper()
	b.Do(chromedp.WaitVisible(chromedp.CSS(selector)))
}

// WaitText waits until an element that matches selector contains a text.
func (b *Browser) WaitText(selector, text string) {
	b.t.Helper()
	b.WaitUntil(fmt.Sprintf("[...document.querySelectorAll(%q)].some(e => e.innerText.includes(%q) || e.value === %[2]q)", selector, text))
}

// WaitUntil waits until a JavaScript expression is true, also across page loads.
func (b *Browser) WaitUntil(expression string) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		// An error means that the page is being replaced.
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

// Type types at the end of a field.
func (b *Browser) Type(selector, text string) {
	b.t.Helper()
	b.Do(chromedp.SendKeys(chromedp.CSS(selector), text))
}

// Fill sets the value of a field, with the events of typing.
func (b *Browser) Fill(selector, value string) {
	b.t.Helper()
	b.WaitVisible(selector)
	b.Script(fmt.Sprintf(`{const e = document.querySelector(%q); e.value = %q; e.dispatchEvent(new Event("input", {bubbles: true})); e.dispatchEvent(new Event("change", {bubbles: true}))}`, selector, value))
}

// Press presses keys in the focused element, once the page is loaded: its text can be read before
// its scripts, which may wait for the keys, have run.
func (b *Browser) Press(keys string) {
	b.t.Helper()
	b.WaitUntil(`document.readyState === "complete"`)
	b.Do(chromedp.KeyEvent(keys))
}

// Click waits until an element is visible, scrolls it away from the edges of the window, where bars
// may cover it, and clicks on it.
func (b *Browser) Click(selector string) {
	b.t.Helper()
	b.WaitVisible(selector)
	b.Script(fmt.Sprintf(`document.querySelector(%q)?.scrollIntoView({block: "center", behavior: "instant"})`,
		selector))
	b.Do(chromedp.Click(chromedp.CSS(selector), chromedp.NodeVisible))
}

// Text returns the visible text of an element.
func (b *Browser) Text(selector string) string {
	b.t.Helper()
	return run(b, chromedp.Text(chromedp.CSS(selector)))
}

// Path returns the path of the page's URL.
func (b *Browser) Path() string {
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

// Evaluate returns the value of a JavaScript expression, and waits if it is a promise.
func Evaluate[T any](b *Browser, expression string) T {
	b.t.Helper()
	return run(b, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
}

// Upload chooses a file in a file input.
func (b *Browser) Upload(selector, file string) {
	b.t.Helper()
	b.Do(chromedp.SetUploadFiles(chromedp.CSS(selector), []string{file}))
}

// BytesReceived returns how many bytes came from the server so far, as compressed on the wire.
func (b *Browser) BytesReceived() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return int(b.came)
}

// SetWidth sets the width of the window: 390 for a phone, 1280 for a laptop.
func (b *Browser) SetWidth(pixels int64) {
	b.t.Helper()
	height := int64(900)
	if pixels < 600 {
		height = 844
	}
	b.Do(chromedp.EmulateViewport(pixels, height))
}

// SetDark sets whether the browser prefers a dark theme.
func (b *Browser) SetDark(dark bool) {
	b.t.Helper()
	value := "light"
	if dark {
		value = "dark"
	}
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	features := []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: value}}
	if _, err := chromedp.Call(ctx, emulation.SetEmulatedMedia,
		emulation.SetEmulatedMediaParams{Features: features}); err != nil {
		b.t.Fatal(err)
	}
}

// acceptDialogs presses the button of each dialog that asks before something is done.
const acceptDialogs = `new MutationObserver(() => document.querySelector("dialog.agree[open] .bad")?.click())
	.observe(document, {childList: true, subtree: true})`

// AcceptDialogs accepts the confirmation dialogs of data-confirm from now on.
func (b *Browser) AcceptDialogs() {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	if _, err := chromedp.Call(ctx, page.AddScriptToEvaluateOnNewDocument,
		page.AddScriptToEvaluateOnNewDocumentParams{Source: acceptDialogs}); err != nil {
		b.t.Fatal(err)
	}
	b.Script(acceptDialogs)
}

// Screenshot returns a picture of an element as a PNG file.
func (b *Browser) Screenshot(selector string) []byte {
	b.t.Helper()
	return run(b, chromedp.Screenshot(chromedp.CSS(selector), chromedp.NodeVisible))
}

// SaveScreenshot writes a picture of the visible page to a PNG file.
func (b *Browser) SaveScreenshot(name string) {
	b.t.Helper()
	picture := run(b, chromedp.CaptureScreenshot())
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		b.t.Fatal(err)
	}
	if err := os.WriteFile(name, picture, 0o644); err != nil {
		b.t.Fatal(err)
	}
}
