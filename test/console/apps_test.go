package console

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp/kb"

	"patchbay/internal/console/browsertest"
	"patchbay/internal/plug/mcp/apps"
)

// hostile would tell the host if it became HTML.
const hostile = `<img src=x onerror=parent.postMessage({hacked:1},'*')><script>parent.postMessage({hacked:2},'*')</script>`

// hostPolicy is what a host puts before pages that ask for nothing (MCP Apps 2026-01-26, "Host
// Behavior").
const hostPolicy = "sandbox allow-scripts; default-src 'none'; script-src 'self' 'unsafe-inline'; style-src 'self' 'unsafe-inline'; " +
	"img-src 'self' data:; media-src 'self' data:; connect-src 'none'"

// appsHost is a program that shows pages of tools, in Chromium.
type appsHost struct {
	t *testing.T
	b *browsertest.Browser
}

// newAppsHost opens a host that speaks the protocol by a script, shows these pages, and passes
// calls of tools to call, or answers them itself if that is nil.
func newAppsHost(t *testing.T, script []byte, page func(view string) string, call http.HandlerFunc) *appsHost {
	t.Helper()
	axe := axeCore(t)
	read := func(name string) string {
		text, err := os.ReadFile(filepath.Join("testdata", "apps", name))
		must(t, err)
		return string(text)
	}
	probe := read("probe.js")
	mux := http.NewServeMux()
	serve := func(pattern, kind string, text func(*http.Request) string) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", kind+"; charset=utf-8")
			fmt.Fprint(w, text(r))
		})
	}
	serve("/{$}", "text/html", func(*http.Request) string { return read("host.html") })
	serve("/host.js", "text/javascript", func(*http.Request) string { return string(script) })
	mux.HandleFunc("/frame/{view}", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Security-Policy", hostPolicy)
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		fmt.Fprint(w, strings.Replace(page(r.PathValue("view")), "<head>",
			"<head><script>"+axe+"</script><script>"+probe+"</script>", 1))
	})
	if call != nil {
		mux.HandleFunc("POST /call", call)
	}
	web := httptest.NewServer(mux)
	t.Cleanup(web.Close)
	b := browsertest.New(t, web.URL)
	b.Open("/")
	b.WaitUntil("window.host")
	b.Script(fmt.Sprintf("host.relays = %t", call != nil))
	return &appsHost{t, b}
}

// show opens a view with the result of the call that it belongs to.
func (h *appsHost) show(view apps.View, context, input, result string) {
	h.t.Helper()
	h.b.Script(fmt.Sprintf("host.calls.length = 0; host.show('/frame/%s', %s)", view, context))
	h.b.WaitUntil("host.ready")
	h.b.Script(fmt.Sprintf("host.input(%s); host.result(%s)", input, result))
}

// sees waits until the page shows a text.
func (h *appsHost) sees(text string) {
	h.t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	shown := ""
	for time.Now().Before(deadline) {
		if shown = browsertest.Evaluate[string](h.b, "host.probe('text')"); strings.Contains(shown, text) {
			return
		}
	}
	h.t.Fatalf("the page does not show %q, but:\n%s", text, shown)
}

// press waits for a button and presses it.
func (h *appsHost) press(button string) {
	h.t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for time.Now().Before(deadline) {
		if browsertest.Evaluate[bool](h.b, fmt.Sprintf("host.probe('press', null, %q)", button)) {
			return
		}
	}
	h.t.Fatalf("there is no button %q in:\n%s", button, browsertest.Evaluate[string](h.b, "host.probe('text')"))
}

// called waits for a number of calls and returns them as JSON.
func (h *appsHost) called(n int) string {
	h.t.Helper()
	h.b.WaitUntil(fmt.Sprintf("host.calls.length >= %d", n))
	return browsertest.Evaluate[string](h.b, "JSON.stringify(host.calls)")
}

func (h *appsHost) answers(name, results string) {
	h.b.Script(fmt.Sprintf("host.answers[%q] = [%s]", name, results))
}

// isFine checks what is true of every page at any time: it fits, can be used by everybody, and ran
// nothing that came from a tool.
func (h *appsHost) isFine(images int) {
	h.t.Helper()
	if found := browsertest.Evaluate[[]string](h.b, "host.probe('axe')"); len(found) > 0 {
		h.t.Errorf("axe-core: %s", strings.Join(found, "\n"))
	}
	if over := browsertest.Evaluate[int](h.b, "host.probe('wide')"); over > 0 {
		h.t.Errorf("the page is %d pixels too wide at 320", over)
	}
	if n := browsertest.Evaluate[int](h.b, "host.probe('count', 'img')"); n != images {
		h.t.Errorf("the page has %d images, not %d", n, images)
	}
	if wrong := browsertest.Evaluate[string](h.b, "JSON.stringify([host.wrong, host.hacked])"); wrong != "[[],[]]" {
		h.t.Errorf("violations and scripts that ran: %s", wrong)
	}
}

// structured returns a tool's result with JSON, as our endpoints send it.
func structured(json string) string {
	return `{content: [{type: "text", text: JSON.stringify(` + json + `)}]}`
}

const (
	dark = `{theme: "dark", locale: "zh-CN"}`
	pale = `{theme: "light", locale: "en-US"}`
	// card is a question as next_review returns it.
	card = `{knowledge_point_id: "p1", schedule_id: "s1", question: "What is " + hostile, deck: "default", state: "new", review_number: 1, due: "2026-11-26"}`
	left = `{new: 2, learning: 0, review: 1}`
	days = `{again: "1 min", hard: "6 min", good: "10 min", easy: "8 d"}`
)

// somePage returns a page with tools of Learn, or of a board with a hostile name.
func somePage(view string) string {
	return apps.Page(apps.View(view), "Kitchen "+hostile, map[apps.View]map[string]string{
		apps.Learn: {"next": "next_review", "reveal": "reveal_answer", "submit": "submit_review"},
		apps.Board: {"status": "k_self_get_device_status", "volume": "k_self_audio_speaker_set_volume",
			"brightness": "k_self_screen_set_brightness", "theme": "k_self_screen_set_theme"},
		apps.Camera: {"photo": "k_self_camera_take_photo"},
	}[apps.View(view)])
}

// Everything that a person does with the pages, in two hosts: one to the letter of the
// specification, and one by the official library.
func TestAppsInHosts(t *testing.T) {
	plain, err := os.ReadFile(filepath.Join("testdata", "apps", "plain.js"))
	must(t, err)
	t.Run("plain", func(t *testing.T) { useApps(newAppsHost(t, plain, somePage, nil)) })
	t.Run("official", func(t *testing.T) { useApps(newAppsHost(t, bridgeScript(t), somePage, nil)) })
}

// bridgeScript returns the host by the official library as one script.
func bridgeScript(t *testing.T) []byte {
	t.Helper()
	modules, err := filepath.Abs(filepath.Join("..", "peers", "mcp", "node_modules"))
	must(t, err)
	if _, err := os.Stat(filepath.Join(modules, ".bin", "rolldown")); err != nil {
		missing(t, "run `npm ci` in test/peers/mcp to try the pages in a host by the official library")
	}
	folder := t.TempDir()
	must(t, os.Symlink(modules, filepath.Join(folder, "node_modules")))
	source, err := os.ReadFile(filepath.Join("testdata", "apps", "bridge.mjs"))
	must(t, err)
	must(t, os.WriteFile(filepath.Join(folder, "bridge.mjs"), source, 0o600))
	cmd := exec.CommandContext(t.Context(), filepath.Join(modules, ".bin", "rolldown"), "bridge.mjs", "--format", "esm",
		"--platform", "browser", "--file", "bridge.js")
	cmd.Dir = folder
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("rolldown: %v\n%s", err, out)
	}
	script, err := os.ReadFile(filepath.Join(folder, "bridge.js"))
	must(t, err)
	return script
}

func useApps(h *appsHost) {
	h.t.Helper()
	h.b.Script(fmt.Sprintf("window.hostile = %q", hostile))
	h.learn()
	h.learnAlone()
	h.board()
	h.camera()
	h.b.Script("host.end()")
}

func (h *appsHost) learn() {
	h.t.Helper()
	h.answers("reveal_answer", structured(`{...`+card+`, answer: "An answer\nof " + hostile, grades: `+days+`}`))
	h.answers("submit_review", `{isError: true, content: [{type: "text", text: "busy " + hostile}]}, `+
		structured(`{success: true, knowledge_point_id: "p1", grade: "good", next_card: {...`+card+`, knowledge_point_id: "p2", question: "Second?"}, next_grades: `+days+`, remaining: `+left+`}`)+`, `+
		structured(`{success: true, knowledge_point_id: "p2", grade: "easy", next_card: null, remaining: {new: 0, learning: 0, review: 0}}`))
	h.show(apps.Learn, dark, `{deck: "default"}`, structured(`{done: false, card: `+card+`, remaining: `+left+`, grades: `+days+`}`))
	h.sees("What is <img")
	h.sees("今天剩余: 3")
	if ink := browsertest.Evaluate[string](h.b, "host.probe('ink')"); ink != "rgb(22, 25, 29)" {
		h.t.Errorf("in a dark host the page is %s", ink)
	}
	h.isFine(0)
	h.press("显示答案")
	h.sees("of <img")
	h.isFine(0)
	if focus := browsertest.Evaluate[string](h.b, "host.probe('focus')"); !strings.HasPrefix(focus, "忘了") {
		h.t.Errorf("after the answer, the focus is at %q", focus)
	}
	h.b.Script("host.change({locale: 'en-GB', theme: 'light'})")
	h.sees("How well did you know it?")
	h.isFine(0)
	h.press("Good")
	h.sees("busy <img")
	h.press("Good")
	h.called(3)
	h.sees("Second?")
	calls := h.called(3)
	if !strings.Contains(calls, `{"name":"reveal_answer","args":{"knowledge_point_id":"p1"}}`) ||
		strings.Count(calls, `"schedule_id":"s1"`) != 2 || !strings.Contains(calls, `"grade":"good"`) {
		h.t.Errorf("the calls are %s", calls)
	}
	if same := browsertest.Evaluate[bool](h.b, "host.calls[1].args.review_id === host.calls[2].args.review_id"); !same {
		h.t.Errorf("a repeated call has another review_id: %s", calls)
	}
	h.b.WaitUntil("host.contexts.some(c => c.includes('as good') && c.includes('Second?'))")
	h.press("Show the answer") // that of the first card, which is another one
	h.sees("Answer")
	h.press("Easy")
	h.sees("Nothing is left to review now.")
	h.b.WaitUntil("host.size && host.size.height > 0")
}

// learnAlone: a host that passes no calls on has a card without buttons; a cancelled call is told.
func (h *appsHost) learnAlone() {
	h.t.Helper()
	h.b.Script("host.capabilities = {}")
	h.show(apps.Learn, pale, `{}`, structured(`{done: false, card: `+card+`, remaining: `+left+`, grades: `+days+`}`))
	h.sees("The buttons cannot call tools in this program.")
	if n := browsertest.Evaluate[int](h.b, "host.probe('count', 'button')"); n != 0 {
		h.t.Errorf("there are %d buttons", n)
	}
	h.b.Script("host.capabilities = undefined")
	h.show(apps.Learn, pale, `{}`, `{isError: true, content: [{type: "text", text: "It failed."}]}`)
	h.sees("It failed.")
	h.b.Script("host.cancel()")
	h.sees("The call was cancelled.")
}

func (h *appsHost) board() {
	h.t.Helper()
	status := func(volume int) string {
		return structured(fmt.Sprintf(`{audio_speaker: {volume: %d}, screen: {brightness: 75, theme: "light"}, battery: {level: 80, charging: true}, network: {type: "wifi", ssid: hostile, signal: "strong"}}`, volume))
	}
	h.answers("k_self_get_device_status", status(33))
	h.answers("k_self_audio_speaker_set_volume", `{content: [{type: "text", text: "true"}]}`)
	h.answers("k_self_screen_set_theme", `{content: [{type: "text", text: "true"}]}`)
	h.answers("k_self_screen_set_brightness", `{isError: true, content: [{type: "text", text: "no backlight"}]}`)
	h.show(apps.Board, pale, `{}`, status(70))
	h.sees("Battery: 80 %, Charging · Network: wifi, <img")
	h.sees("Kitchen <img")
	h.isFine(0)
	if v := browsertest.Evaluate[string](h.b, "host.probe('value', '#volume')"); v != "70" {
		h.t.Errorf("the volume is %s", v)
	}
	h.b.Script("host.probe('set', '#volume', '41')")
	if calls := h.called(1); calls != `[{"name":"k_self_audio_speaker_set_volume","args":{"volume":41}}]` {
		h.t.Errorf("the calls are %s", calls)
	}
	h.sees("41 %")
	h.press("Dark")
	h.called(2)
	h.b.Script("host.probe('set', '#brightness', '10')")
	h.sees("no backlight")
	h.sees("75 %") // as the board still has it
	h.press("Ask the board again")
	h.sees("33 %")
	h.isFine(0)
	// A call that sets something has no state in its result, so the page asks for it.
	h.show(apps.Board, dark, `{volume: 20}`, `{content: [{type: "text", text: "true"}]}`)
	h.sees("33 %")
	h.sees("音量")
	h.isFine(0)
	// The keyboard reaches the sliders.
	h.b.Script("frame.focus()")
	h.b.Press(kb.Tab)
	h.b.Press(kb.ArrowRight)
	h.sees("34 %")
}

func (h *appsHost) camera() {
	h.t.Helper()
	const pixel = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
	photo := func(kind, said string) string {
		return `{content: [{type: "text", text: JSON.stringify({success: true, text: ` + said + `})}, {type: "image", mimeType: "` +
			kind + `", data: "` + pixel + `"}]}`
	}
	h.answers("k_self_camera_take_photo", photo("image/png", `"A dog"`)+`, `+photo("text/html", `"No picture"`))
	h.show(apps.Camera, pale, `{question: "What is there?"}`, photo("image/png", `"A cat " + hostile`))
	h.sees("A cat <img")
	h.isFine(1)
	h.b.Script("host.probe('set', '#question', 'And now?')")
	h.press("Take another picture")
	h.sees("A dog")
	if calls := h.called(1); calls != `[{"name":"k_self_camera_take_photo","args":{"question":"And now?"}}]` {
		h.t.Errorf("the calls are %s", calls)
	}
	if alt := browsertest.Evaluate[string](h.b, "host.probe('attribute', 'img', 'alt')"); alt != "A dog" {
		h.t.Errorf("the picture is called %q", alt)
	}
	h.press("Take another picture")
	h.sees("The board sent no picture.")
	h.isFine(0)
}
