package devices_test

import (
	"context"
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"testing"

	"patchbay/internal/console/browsertest"
	"patchbay/internal/console/consoletest"
	"patchbay/internal/hub"
	"patchbay/internal/store"
	"patchbay/internal/tool"
)

var sayTools = []tool.Tool{
	{Name: "say", Title: "Say",
		Input: json.RawMessage(`{"type":"object","properties":{"text":{"type":"string"},"later":{"type":"boolean","default":true}},"required":["text"]}`)},
	{Name: "timer_set", Title: "Set a timer",
		Input: json.RawMessage(`{"type":"object","properties":{"at":{"type":"string"},"text":{"type":"string"},"seconds":{"type":"integer"}}}`)},
}

// speaks gives the kettle tools for texts and timers, and takes its camera if it has none.
func (h *installation) speaks(camera bool) {
	h.socket.SetTools(slices.DeleteFunc(append(slices.Clone(kettleTools), sayTools...), func(t tool.Tool) bool {
		return t.Name == "self.camera.take_photo" && !camera
	}))
}

// inRoom gives a device to ada.
func (h *installation) inRoom(hardware, name, room string) store.Device {
	h.t.Helper()
	d := h.own(h.Person, hardware, name)
	if err := h.Accounts.SetDeviceRoom(h.t.Context(), d.Number, room); err != nil {
		h.t.Fatal(err)
	}
	return d
}

var heading = regexp.MustCompile(`(?s)<h2 id="room-\d+">(.*?)</h2>`)

// headings returns the rooms of a page.
func headings(p consoletest.Page) (list []string) {
	for _, m := range heading.FindAllStringSubmatch(p.Text, -1) {
		list = append(list, strings.TrimSpace(m[1]))
	}
	return list
}

// Devices are listed by room, in alphabetical order of the reader's language.
func TestRooms(t *testing.T) {
	h := newInstance(t)
	ada := h.SignedInAs(h.Person)
	if got := headings(ada.Get("/devices")); got != nil {
		t.Errorf("without rooms the headings are %q", got)
	}
	h.inRoom("aa:aa:aa:aa:aa:02", "radio", "卧室")
	h.inRoom("aa:aa:aa:aa:aa:03", "lamp", "attic")
	h.inRoom("aa:aa:aa:aa:aa:04", "speaker", "厨房")
	h.inRoom("aa:aa:aa:aa:aa:05", "clock", "Bath")
	h.inRoom("aa:aa:aa:aa:aa:06", "bell", "attic")
	p := ada.Get("/devices")
	if got, want := headings(p), []string{"attic", "Bath", "卧室", "厨房", "Without a room"}; !slices.Equal(got, want) {
		t.Errorf("the headings are %q, want %q", got, want)
	}
	if at := func(name string) int { return strings.Index(p.Text, ">"+name+"</a>") }; at("lamp") < 0 ||
		at("bell") < at("lamp") || at("clock") < at("bell") || at("kettle") < at("speaker") {
		t.Errorf("the order is not that of rooms: %s", p.Text)
	}
	if p := ada.Get("/devices?text=ATTIC"); !p.Contains("lamp", "bell") || p.Contains("clock") {
		t.Errorf("looking for a room, ada sees %s", p.Text)
	}
}

// A tile offers two things, which depend on what the device can do and on whether it is awake.
func TestTileOffers(t *testing.T) {
	h := newInstance(t)
	ada := h.SignedInAs(h.Person)
	offers := func(what string, want ...string) {
		t.Helper()
		p := ada.Get("/devices")
		for _, offer := range []string{"Take a photo", "Quieter", "Louder", "Say something", "Show a text", "Set a timer"} {
			button := offer + `<span class="unseen">, kettle</span>`
			if p.Contains(button) != slices.Contains(want, offer) {
				t.Errorf("%s: offered is not %q: %s", what, want, p.Text)
			}
		}
	}
	offers("with a display", "Take a photo", "Show a text")
	h.speaks(true)
	offers("with a camera", "Take a photo", "Say something")
	h.speaks(false)
	offers("with a loudspeaker", "Quieter", "Louder", "Say something")
	h.socket.Hold(false)
	offers("asleep", "Say something", "Set a timer")
	h.socket.SetTools(kettleTools[8:])
	offers("asleep, without tools that wait")
	h.socket.Hold(true)
	h.speaks(false)
	for _, name := range []string{"kettle_say", "kettle_self_audio_speaker_set_volume"} {
		if err := h.Store.ToolRules.Set(t.Context(), store.ToolRule{Owner: h.Person.ID, Tool: name, Rule: hub.RuleDeny,
			Created: h.kettle.Created}); err != nil {
			t.Fatal(err)
		}
	}
	if err := h.Hub.OnToolsChanged(t.Context(), func(context.Context) error { return nil }); err != nil {
		t.Fatal(err)
	}
	offers("with denied tools", "Show a text")
}

// The results of what tiles offer are told in the status line, with the name of the device.
func TestTileCalls(t *testing.T) {
	h := newInstance(t)
	h.speaks(true)
	ada := h.SignedInAs(h.Person)
	const volume = "/devices/1/tools/self.audio_speaker.set_volume"
	for _, c := range []struct {
		is, by, call, want string
	}{
		{"37", "10", `{"volume":47}`, "The volume is 47 now."},
		{"37", "-10", `{"volume":27}`, "The volume is 27 now."},
		{"95", "10", `{"volume":100}`, "The volume is 100 now."},
		{"3", "-10", `{"volume":0}`, "The volume is 0 now."},
		{"3", "1000", "", "does not say how loud"},
		{"null", "10", "", "does not say how loud"},
	} {
		h.gadget.mu.Lock()
		h.gadget.calls = nil
		h.gadget.say["self.get_device_status"] = tool.Text(`{"audio_speaker":{"volume":` + c.is + `}}`)
		h.gadget.mu.Unlock()
		p := ada.DoHX("POST", volume, "as", "tile", "by", c.by)
		if !p.Contains("<strong>kettle</strong>", c.want, "data-dismisses") || p.Contains("<html") ||
			h.gadget.called("self.audio_speaker.set_volume "+c.call+" console") != (c.call != "") {
			t.Errorf("%+v: %s, %q", c, p.Text, h.gadget.calls)
		}
	}
	if p := ada.Post(volume, "as", "tile", "by", "10"); !p.Contains("<html", "does not say how loud", "Back to the device") {
		t.Errorf("without a script: %s", p.Text)
	}
	for _, c := range []struct{ result, want string }{
		{`{"spoken":true,"seconds":2}`, "It has said that."},
		{`{"spoken":false,"interrupted":true}`, "Somebody stopped it before the end."},
		{`{"delivered":false,"waits":true}`, "It is kept, and delivered when the device wakes up."},
	} {
		h.gadget.mu.Lock()
		h.gadget.say["say"] = &tool.Result{Content: tool.Text("x").Content, Structured: json.RawMessage(c.result)}
		h.gadget.mu.Unlock()
		if p := ada.DoHX("POST", "/devices/1/tools/say", "as", "tile", "arg.text", "hello", "arg.later",
			"true"); !p.Contains("kettle", c.want) || !h.gadget.called(`say {"text":"hello","later":true} console`) {
			t.Errorf("%+v: %s, %q", c, p.Text, h.gadget.calls)
		}
	}
	h.gadget.err = tool.Fail(tool.Offline, "The board is asleep.", nil)
	if p := ada.DoHX("POST", "/devices/1/tools/say", "as", "tile", "arg.text", "hello", "arg.later",
		"true"); !p.Contains("<strong>kettle</strong>", `role="alert"`) || p.Contains("Do it when it wakes up") {
		t.Errorf("what fails: %s", p.Text)
	}
}

// Tiles by mouse and by keyboard, on a phone and on a desk.
func TestTilesInABrowser(t *testing.T) {
	h := newInstance(t)
	h.speaks(false)
	h.inRoom("aa:aa:aa:aa:aa:02", "radio", "Attic")
	if err := h.Accounts.SetDeviceRoom(t.Context(), h.kettle.Number, "Kitchen"); err != nil {
		t.Fatal(err)
	}
	h.gadget.say["say"] = &tool.Result{Content: tool.Text("x").Content, Structured: json.RawMessage(`{"spoken":true}`)}
	b := h.browser()
	for _, width := range []int64{390, 1280} {
		b.SetWidth(width)
		b.Open("/devices")
		b.WaitText(".room:first-of-type h2", "Attic")
		b.Click(`#d1 button[name=by][value="10"]`)
		b.WaitText("#told", "The volume is 47 now.")
		b.Click("#told [data-dismisses]")
		b.WaitUntil(`document.querySelector("#told").textContent.trim() == "" && document.activeElement.id == "page"`)
		fits(t, b, "the list")
	}
	if columns := browsertest.Evaluate[int](b,
		`new Set([...document.querySelectorAll(".tile")].map(e => e.getBoundingClientRect().width)).size`); columns != 1 {
		t.Errorf("tiles have %d widths", columns)
	}
	// By keyboard: open the field, type, and send. What is typed stays while the list is updated.
	b.Script(`document.querySelector("#d1 summary").focus()`)
	b.Press("\r")
	b.WaitUntil(`document.querySelector("#d1 details").open`)
	b.Type(`#d1 [name="arg.text"]`, "dinner")
	h.inRoom("aa:aa:aa:aa:aa:03", "lamp", "Bath")
	h.socket.SetTools(append(slices.Clone(kettleTools[:9]), sayTools...)) // announces a change
	b.WaitText("#devices", "Bath")
	b.WaitUntil(`document.querySelector("#d1 details").open && document.activeElement.value == "dinner"`)
	b.Press("\r")
	b.WaitText("#told", "It has said that.")
	if !h.gadget.called(`say {"text":"dinner","later":true} console`) {
		t.Errorf("the device was told %q", h.gadget.calls)
	}
	h.socket.Hold(false)
	b.WaitText("#d1", "Set a timer")
	b.WaitUntil(`!document.querySelector("#d1 button[name=by]")`)
}
