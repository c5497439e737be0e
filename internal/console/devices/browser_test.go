package devices_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"patchbay/internal/account"
	"patchbay/internal/console/browsertest"
	"patchbay/internal/tool"
)

// browser returns a window of Chromium in which ada is signed in.
func (h *installation) browser() *browsertest.Browser {
	h.t.Helper()
	token, err := h.Accounts.Admit(h.t.Context(), h.Person, account.Browser{})
	if err != nil {
		h.t.Fatal(err)
	}
	b := browsertest.New(h.t, h.URL)
	b.Cookie("patchbay", token)
	b.Cookie("patchbay-lang", "en")
	return b
}

// fits checks that a page is not wider than the window.
func fits(t *testing.T, b *browsertest.Browser, what string) {
	t.Helper()
	if wide := browsertest.Evaluate[int](b,
		"document.documentElement.scrollWidth - document.documentElement.clientWidth"); wide > 0 {
		t.Errorf("%s is %d pixels too wide", what, wide)
	}
}

// A slider sets the volume; forms show results in place; and notices of the device appear.
func TestDeviceInABrowser(t *testing.T) {
	h := newInstance(t)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	h.listen = func(c context.Context, _ int64, w io.Writer) error {
		select {
		case <-c.Done():
		case <-ctx.Done():
		}
		return c.Err()
	}
	h.gadget.say["show"] = tool.Text("shown")
	b := h.browser()
	for _, width := range []int64{390, 1280} {
		b.SetWidth(width)
		b.Open("/devices/1")
		b.WaitText("#volume-now", "37")
		// Once by mouse, and once by keyboard.
		b.Fill("#volume", fmt.Sprint(width%100))
		b.WaitText("#volume-told", "Done.")
		if want := fmt.Sprintf(`self.audio_speaker.set_volume {"volume":%d} console`,
			width%100); !h.gadget.called(want) {
			t.Errorf("the device was told %q, and not %s", h.gadget.calls, want)
		}
		fits(t, b, "the page")
	}
	b.Script(`document.querySelector("#volume").focus()`)
	b.Press("\u0303") // right arrow
	b.WaitUntil(`document.querySelector("#volume-now").textContent.trim() == "81"`)

	b.Fill("#doing textarea", "hello")
	b.Script(`document.querySelector("#doing textarea").form.requestSubmit()`)
	b.WaitText("#doing .told-here", "shown")

	h.socket.Notify("patchbay/conversation_started", json.RawMessage(`{"session":"1"}`))
	b.WaitText("#notices", "Somebody began to talk to it")
	h.gadget.mu.Lock()
	h.gadget.say["status"] = tool.JSON(map[string]any{"online": true, "state": "idle",
		"listeners": []any{map[string]any{"name": "eve", "what": "listen", "since": time.Now()}}})
	h.gadget.mu.Unlock()
	h.socket.Notify("patchbay/listening_started", json.RawMessage(`{"name":"eve","what":"listen"}`))
	b.WaitText("#notices", "eve is listening")
	b.WaitText("#now", "eve is listening since")
	if typed := browsertest.Evaluate[string](b, `document.querySelector("#doing textarea").value`); typed != "hello" {
		t.Errorf("what was typed is %q by now", typed)
	}

	b.Click("#ear button")
	b.WaitText("#ear", "You are listening to kettle")
	b.Click("#ear button")
	b.WaitUntil(`!document.querySelector("#ear audio")`)

	// The device falls asleep: the page shows that without a reload, and offers to queue the call.
	h.socket.Hold(false)
	b.WaitText("#presence", "Asleep")
	b.WaitText("#now", "It is asleep")
	h.gadget.mu.Lock()
	h.gadget.err = tool.Fail(tool.Offline, "The board is asleep.", nil)
	h.gadget.mu.Unlock()
	b.Script(`document.querySelector("#doing textarea").form.requestSubmit()`)
	b.WaitText("#doing .told-here", "Do it when it wakes up")
	h.gadget.mu.Lock()
	h.gadget.err = nil
	h.gadget.mu.Unlock()
	b.Click(`#doing .told-here button[name="arg.later"]`)
	b.WaitText("#doing .told-here", "shown")
	if !h.gadget.called(`show {"text":"hello","later":true} console`) {
		t.Errorf("the device was told %q", h.gadget.calls)
	}
}

// A field for a file shows the name of the file that was chosen, also after an update of the page.
func TestFileInABrowser(t *testing.T) {
	h := newInstance(t)
	name := filepath.Join(t.TempDir(), "bell.wav")
	if err := os.WriteFile(name, []byte("no sound"), 0o600); err != nil {
		t.Fatal(err)
	}
	b := h.browser()
	b.SetWidth(390)
	b.Open("/devices/1")
	const field = `form[action$="/play"] .picked`
	b.WaitText(field, "No file is chosen.")
	b.Upload(field+" input", name)
	b.WaitText(field, "bell.wav")
	h.speaks(false)
	b.WaitText("#doing", "Say something")
	b.WaitText(field, "bell.wav")
	fits(t, b, "the page")
	b.Script(`document.querySelector('` + field + `').closest("form").requestSubmit()`)
	b.WaitText("#doing", "This is neither a WAV")
	b.Script(`document.querySelector('` + field + `').closest("form").reset()`)
	b.WaitText(field, "No file is chosen.")
}

// A board that has just connected announces its tools a moment later: the settings appear on a page
// that is open by then.
func TestSlidersComeLater(t *testing.T) {
	h := newInstance(t)
	h.socket.SetTools(kettleTools[:5])
	b := h.browser()
	b.Open("/devices/1")
	b.WaitText("#now", "Awake, idle")
	b.WaitUntil("!document.querySelector('#volume')")
	h.socket.SetTools(kettleTools)
	b.WaitText("#volume-now", "37")
}

// The page with all tools shows what the device can do now, and whether it is awake; what somebody
// has opened and filled in stays.
func TestToolsUpdate(t *testing.T) {
	h := newInstance(t)
	h.socket.SetTools(kettleTools[:5])
	b := h.browser()
	b.Open("/devices/1/tools")
	b.WaitText("#presence", "Awake")
	b.Script(`document.querySelector('form[action$="/tools/show"]').closest("details").open = true`)
	b.Type(`form[action$="/tools/show"] [name="arg.text"]`, "half a text")
	b.WaitUntil(`!document.querySelector('form[action$="set_volume"]')`)
	h.socket.SetTools(kettleTools)
	b.WaitVisible("#tools details:has(form[action$='set_volume'])")
	b.WaitUntil(`document.querySelector('form[action$="/tools/show"] [name="arg.text"]').value == "half a text"`)
	b.WaitUntil(`document.querySelector('form[action$="/tools/show"]').closest("details").open`)
	h.socket.Hold(false)
	b.WaitText("#presence", "Asleep")
}

// The list updates itself, and the forms of tools work in place.
func TestToolsInABrowser(t *testing.T) {
	h := newInstance(t)
	b := h.browser()
	b.Open("/devices")
	b.WaitText(".tile .light", "Awake")
	h.socket.Hold(false)
	b.WaitText(".tile .light", "Asleep")
	h.socket.Hold(true)
	b.WaitText(".tile .light", "Awake")
	for _, width := range []int64{390, 1280} {
		b.SetWidth(width)
		b.Open("/devices/1/tools")
		b.Script(`document.querySelectorAll("details.tool").forEach(d => d.open = true)`)
		fits(t, b, "the page of tools")
	}
	b.Script(`const e = document.querySelector('form[action$="take_photo"] [name="arg.question"]'); e.removeAttribute("required"); e.form.requestSubmit()`)
	b.WaitText(".wrong", "This is needed.")
	h.gadget.mu.Lock()
	h.gadget.say["self.camera.take_photo"] = &tool.Result{Content: json.RawMessage(`[{"type":"text","text":"{\"a\":1}"},{"type":"image","mimeType":"image/gif","data":"R0lGODlhAQABAAAAACwAAAAAAQABAAA="},{"type":"audio","mimeType":"audio/wav","data":"UklGRiQAAABXQVZFZm10IBAAAAABAAEAgD4AAAB9AAACABAAZGF0YQAAAAA="}]`)}
	h.gadget.mu.Unlock()
	b.Type(`form[action$="take_photo"] [name="arg.question"]`, "what?")
	b.Script(`document.querySelector('form[action$="take_photo"]').requestSubmit()`)
	b.WaitText(".result .facts", "1")
	b.WaitUntil(`document.querySelector(".result pre").textContent.includes("\"a\": 1")`)
	b.WaitUntil(`document.querySelector(".result img").naturalWidth == 1`)
	b.WaitUntil(`document.querySelector(".result audio")`)
	b.WaitUntil(`!document.querySelector(".wrong")`)
}
