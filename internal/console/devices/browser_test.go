package devices_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"testing"
	"time"

	"patchbay/internal/account"
	"patchbay/internal/console/browsertest"
	"patchbay/internal/tool"
)

// browser is Chromium in which ada is signed in.
func (h *house) browser() *browsertest.Browser {
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

// fits says that a page is no wider than the window.
func fits(t *testing.T, b *browsertest.Browser, what string) {
	t.Helper()
	if wide := browsertest.Ask[int](b, "document.documentElement.scrollWidth - document.documentElement.clientWidth"); wide > 0 {
		t.Errorf("%s is %d pixels too wide", what, wide)
	}
}

// A slider sets the volume; forms show what came of them where they stand; and what the
// device tells by itself appears.
func TestDeviceInABrowser(t *testing.T) {
	h := newHouse(t)
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
		b.Width(width)
		b.Open("/devices/1")
		b.Reads("#volume-now", "37")
		// One touch, and one by the keyboard.
		b.Fill("#volume", fmt.Sprint(width%100))
		b.Reads("#volume-told", "Done.")
		if want := fmt.Sprintf(`self.audio_speaker.set_volume {"volume":%d} console`, width%100); !h.gadget.called(want) {
			t.Errorf("the device was told %q, and not %s", h.gadget.calls, want)
		}
		fits(t, b, "the page")
	}
	b.Script(`document.querySelector("#volume").focus()`)
	b.Press("\u0303") // to the right
	b.Until(`document.querySelector("#volume-now").textContent.trim() == "81"`)

	b.Fill("#doing textarea", "hello")
	b.Script(`document.querySelector("#doing textarea").form.requestSubmit()`)
	b.Reads("#doing .told-here", "shown")

	h.socket.Notify("patchbay/talk", json.RawMessage(`{"session":"1"}`))
	b.Reads("#notices", "Somebody began to talk to it")
	h.gadget.mu.Lock()
	h.gadget.say["status"] = tool.JSON(map[string]any{"online": true, "state": "idle", "listeners": []any{map[string]any{"name": "eve", "what": "listen", "since": time.Now()}}})
	h.gadget.mu.Unlock()
	h.socket.Notify("patchbay/heard", json.RawMessage(`{"name":"eve","what":"listen"}`))
	b.Reads("#notices", "eve is listening")
	b.Reads("#now", "eve is listening since")
	if typed := browsertest.Ask[string](b, `document.querySelector("#doing textarea").value`); typed != "hello" {
		t.Errorf("what was typed is %q by now", typed)
	}

	b.Click("#ear button")
	b.Reads("#ear", "You are listening to kettle")
	b.Click("#ear button")
	b.Until(`!document.querySelector("#ear audio")`)

	// It falls asleep: the page says so by itself, and offers to wait.
	h.socket.Hold(false)
	b.Reads("#presence", "Asleep")
	b.Reads("#now", "It is asleep")
	h.gadget.mu.Lock()
	h.gadget.err = tool.Fail(tool.Offline, "The board is asleep.", nil)
	h.gadget.mu.Unlock()
	b.Script(`document.querySelector("#doing textarea").form.requestSubmit()`)
	b.Reads("#doing .told-here", "Do it when it wakes up")
	h.gadget.mu.Lock()
	h.gadget.err = nil
	h.gadget.mu.Unlock()
	b.Click(`#doing .told-here button[name="arg.later"]`)
	b.Reads("#doing .told-here", "shown")
	if !h.gadget.called(`show {"text":"hello","later":true} console`) {
		t.Errorf("the device was told %q", h.gadget.calls)
	}
}

// A board that has just come tells its tools a moment later: what can be set comes to a
// page that is open by then.
func TestSlidersComeLater(t *testing.T) {
	h := newHouse(t)
	h.socket.Offer(kettleTools[:5])
	b := h.browser()
	b.Open("/devices/1")
	b.Reads("#now", "Awake, idle")
	b.Until("!document.querySelector('#volume')")
	h.socket.Offer(kettleTools)
	b.Reads("#volume-now", "37")
}

// The list follows what happens, and the forms of tools work in place.
func TestToolsInABrowser(t *testing.T) {
	h := newHouse(t)
	b := h.browser()
	b.Open("/devices")
	b.Reads(".list .light", "Awake")
	h.socket.Hold(false)
	b.Reads(".list .light", "Asleep")
	h.socket.Hold(true)
	b.Reads(".list .light", "Awake")
	for _, width := range []int64{390, 1280} {
		b.Width(width)
		b.Open("/devices/1/tools")
		b.Script(`document.querySelectorAll("details.tool").forEach(d => d.open = true)`)
		fits(t, b, "the page of tools")
	}
	b.Script(`const e = document.querySelector('form[action$="take_photo"] [name="arg.question"]'); e.removeAttribute("required"); e.form.requestSubmit()`)
	b.Reads(".wrong", "This is needed.")
	h.gadget.mu.Lock()
	h.gadget.say["self.camera.take_photo"] = &tool.Result{Content: json.RawMessage(`[{"type":"text","text":"{\"a\":1}"},{"type":"image","mimeType":"image/gif","data":"R0lGODlhAQABAAAAACwAAAAAAQABAAA="},{"type":"audio","mimeType":"audio/wav","data":"UklGRiQAAABXQVZFZm10IBAAAAABAAEAgD4AAAB9AAACABAAZGF0YQAAAAA="}]`)}
	h.gadget.mu.Unlock()
	b.Type(`form[action$="take_photo"] [name="arg.question"]`, "what?")
	b.Script(`document.querySelector('form[action$="take_photo"]').requestSubmit()`)
	b.Reads(".result pre", `"a": 1`)
	b.Until(`document.querySelector(".result img").naturalWidth == 1`)
	b.Until(`document.querySelector(".result audio")`)
	b.Until(`!document.querySelector(".wrong")`)
}
