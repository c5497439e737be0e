package devices_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"mime/multipart"
	"net/http"
	"strings"
	"testing"
	"time"

	"patchbay/internal/account"
	"patchbay/internal/console/consoletest"
	"patchbay/internal/hub"
	"patchbay/internal/store"
	"patchbay/internal/tool"
)

func TestDevice(t *testing.T) {
	h := newInstance(t)
	ada := h.SignedInAs(h.Person)
	p := ada.Get("/devices/1")
	if !p.Contains(`<h1>kettle</h1>`, "Asking the device", "Show a text", "Take a photo", "Play a sound", "Listen in",
		"<summary>Board, firmware and addresses", "aa:aa:aa:aa:aa:01", "esp32s3") {
		t.Errorf("the page is %s", p.Text)
	}
	if p := ada.Get("/devices/1/settings"); !p.Contains(`action="/devices/1/tools/reboot"`, "data-confirm") {
		t.Errorf("it cannot be restarted: %s", p.Text)
	}
	now := ada.DoHX("GET", "/devices/1/now")
	if !now.Contains(`type="range" min="0" max="100" step="1" value="37"`, `<option value="&#34;dark&#34;" selected>Dark`, "80%",
		"wifi · home", "MQTT", "Awake, idle", "Waits until it wakes") || now.Contains("<html") {
		t.Errorf("now is %s", now.Text)
	}
	if p := ada.Get("/devices/1/now"); p.Path != "/devices/1?now" || !p.Contains(`value="37"`, "<html") {
		t.Errorf("without a script, ada is at %s: %s", p.Path, p.Text)
	}
	// A sleeping device is not asked.
	h.socket.Hold(false)
	h.gadget.calls = nil
	if p := ada.DoHX("GET", "/devices/1/now"); !p.Contains("It is asleep") || p.Contains("range") ||
		h.gadget.called("self.get_device_status {} console") {
		t.Errorf("asleep, now is %s after %q", p.Text, h.gadget.calls)
	}
}

func TestCall(t *testing.T) {
	h := newInstance(t)
	ada := h.SignedInAs(h.Person)
	const volume = "/devices/1/tools/self.audio_speaker.set_volume"
	if p := ada.DoHX("POST", volume, "as", "brief", "arg.volume", "25"); p.Status != 200 || !p.Contains("Done.") ||
		!h.gadget.called(`self.audio_speaker.set_volume {"volume":25} console`) {
		t.Errorf("the volume: %d %s, %q", p.Status, p.Text, h.gadget.calls)
	}
	for _, c := range []struct {
		volume, want string
	}{{"101", "volume: It may be 100 at most."}, {"", "volume: This is needed."}, {"loud", "whole number"}} {
		if p := ada.DoHX("POST", volume, "as", "brief", "arg.volume", c.volume); !p.Contains(c.want) {
			t.Errorf("volume %q: %s", c.volume, p.Text)
		}
	}
	// A card shows errors beside the fields and the result below.
	if p := ada.DoHX("POST", volume, "arg.volume", "101"); !p.Contains(`hx-swap="outerMorph"`,
		`role="alert">It may be 100 at most.`) || p.Contains("Done") {
		t.Errorf("a card: %s", p.Text)
	}
	// The firmware lists no themes; the page does.
	const theme = "/devices/1/tools/self.screen.set_theme"
	if p := ada.DoHX("POST", theme, "arg.theme", `"dark"`); !h.gadget.called(`self.screen.set_theme {"theme":"dark"} console`) {
		t.Errorf("the theme: %s, %q", p.Text, h.gadget.calls)
	}
	if p := ada.DoHX("POST", theme, "arg.theme", "purple"); !p.Contains(`role="alert"`) {
		t.Errorf("a theme that is not listed: %s", p.Text)
	}
	h.gadget.say["show"] = tool.ErrorResult("no <display>")
	if p := ada.DoHX("POST", "/devices/1/tools/show", "arg.text", "hi"); !p.Contains("The tool says that it failed",
		"no &lt;display&gt;") || !h.gadget.called(`show {"text":"hi","later":false} console`) {
		t.Errorf("trouble: %s, %q", p.Text, h.gadget.calls)
	}
	h.gadget.say["show"] = &tool.Result{Content: tool.Text("It waits.").Content,
		Structured: json.RawMessage(`{"delivered":false,"waits":true}`)}
	if p := ada.DoHX("POST", "/devices/1/tools/show", "as", "brief", "arg.text",
		"hi"); !p.Contains("It is kept, and delivered when the device wakes up.") || p.Contains("<pre") {
		t.Errorf("what waits: %s", p.Text)
	}
	if p := ada.DoHX("POST", "/devices/1/tools/show", "arg.text", "hi"); !p.Contains("It waits.", "<pre") {
		t.Errorf("what waits, on a card: %s", p.Text)
	}
	// Without JavaScript the result is a page.
	if p := ada.Post(volume, "arg.volume", "7"); p.Status != 200 || !p.Contains("<html", `value="7"`, "true") {
		t.Errorf("without a script: %d %s", p.Status, p.Text)
	}
	if p := ada.Post(volume, "arg.volume", "700"); p.Status != 422 || !p.Contains("<html", "It may be 100 at most.") {
		t.Errorf("without a script, wrongly: %d %s", p.Status, p.Text)
	}
	if p := ada.DoHX("POST", "/devices/1/tools/reboot", "as", "brief"); !p.Contains("Done.") ||
		!h.gadget.called("reboot {} console") {
		t.Errorf("what is dangerous, with the password: %s", p.Text)
	}
	h.gadget.calls = nil
	h.forgetPassword(t)
	if p := ada.DoHX("POST", "/devices/1/tools/reboot", "as", "brief"); !p.Contains(`action="/confirm"`) ||
		h.gadget.called("reboot {} console") {
		t.Errorf("what is dangerous, without: %s", p.Text)
	}
	root, err := h.Accounts.AddPerson(t.Context(), "root", account.RoleAdmin, "en", "")
	if err != nil {
		t.Fatal(err)
	}
	if p := h.SignedInAs(root).DoHX("POST", "/devices/1/tools/reboot", "as", "brief"); !p.Contains("there is no device") ||
		h.gadget.called("reboot {} console") {
		t.Errorf("what is dangerous, by another person: %s", p.Text)
	}
	if p := ada.DoHX("POST", "/devices/1/tools/nothing", "as", "brief"); !p.Contains("There is no such tool.") {
		t.Errorf("what is not there: %s", p.Text)
	}
	h.gadget.say["self.camera.take_photo"] = &tool.Result{Content: json.RawMessage(`[{"type":"text","text":"{\"success\":true,\"text\":\"a cup\"}"},{"type":"image","mimeType":"image/jpeg","data":"/9j/"}]`)}
	if p := ada.DoHX("POST", "/devices/1/tools/self.camera.take_photo", "as", "brief", "arg.question",
		"what?"); !p.Contains(`<p class="words">a cup</p>`, `src="data:image/jpeg;base64,/9j/"`) {
		t.Errorf("the photo: %s", p.Text)
	}
	h.gadget.say["show"] = tool.JSON(map[string]any{"id": 3, "text": "Tea", "in_seconds": 60})
	if p := ada.DoHX("POST", "/devices/1/tools/show", "as", "brief", "arg.text", "hi"); !p.Contains(
		"<dt>in seconds</dt><dd>60</dd>", "<dd>Tea</dd>") {
		t.Errorf("a timer: %s", p.Text)
	}
	h.gadget.say["record"] = &tool.Result{Content: json.RawMessage(`[{"type":"audio","mimeType":"audio/ogg","data":"T2dnUw=="}]`)}
	if p := ada.DoHX("POST", "/devices/1/tools/record", "as", "brief", "arg.seconds", "3"); !p.Contains("<audio",
		"data:audio/ogg;base64,T2dnUw==") || !h.gadget.called(`record {"seconds":3} console`) {
		t.Errorf("the recording: %s", p.Text)
	}
	// A call that the device cannot take now can be queued, once.
	h.gadget.err = tool.Fail(tool.Offline, "The board is asleep.", nil)
	if p := ada.DoHX("POST", "/devices/1/tools/show", "as", "brief", "arg.text",
		"hi"); !p.Contains("nobody talks to it", "Do it when it wakes up", `name="arg.later" value="true"`,
		"The board is asleep.") {
		t.Errorf("asleep: %s", p.Text)
	}
	if p := ada.DoHX("POST", "/devices/1/tools/show", "as", "brief", "arg.text", "hi", "arg.later",
		"true"); p.Contains("Do it when") || !h.gadget.called(`show {"text":"hi","later":true} console`) {
		t.Errorf("later: %s, %q", p.Text, h.gadget.calls)
	}
	if p := ada.DoHX("POST", "/devices/1/tools/self.camera.take_photo", "as", "brief", "arg.question",
		"x"); !p.Contains("It cannot be reached now") || p.Contains("Do it when") {
		t.Errorf("what cannot wait: %s", p.Text)
	}
	if p := ada.DoHX("POST", "/devices/1/tools/record", "as", "brief", "arg.seconds",
		"3"); !p.Contains("Nobody talked to the device meanwhile") {
		t.Errorf("a recording of nobody: %s", p.Text)
	}
}

// forgetPassword makes the last entry of ada's password an hour old.
func (h *installation) forgetPassword(t *testing.T) {
	t.Helper()
	list, err := h.Store.SignIns.ByPerson(t.Context(), h.Person.ID)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range list {
		if err := h.Store.SignIns.Replace(t.Context(), s.ID, s.ID, time.Now().Add(-time.Hour)); err != nil {
			t.Fatal(err)
		}
	}
}

// Each tool has a form on the tools page, unless it is not allowed.
func TestTools(t *testing.T) {
	h := newInstance(t)
	if err := h.Store.ToolRules.Set(t.Context(), store.ToolRule{Owner: h.Person.ID,
		Tool: "kettle_show", Rule: hub.RuleDeny, Created: time.Now()}); err != nil {
		t.Fatal(err)
	}
	if err := h.Hub.OnToolsChanged(t.Context(), func(context.Context) error { return nil }); err != nil {
		t.Fatal(err)
	}
	ada := h.SignedInAs(h.Person)
	p := ada.Get("/devices/1/tools")
	if !p.Contains("Tools of this device", "Tools that every device has", `name="arg.volume" type="number"`,
		`<option value="&#34;light&#34;">Light</option>`,
		"not allowed", "You do not allow this tool", "only looks", "can do harm", "Restart the board",
		">Volume<", `action="/devices/1/tools/reboot"`, "you may have to type your password") ||
		p.Contains(`action="/devices/1/tools/show"`) {
		t.Errorf("the tools are %s", p.Text)
	}
	if p := ada.Get("/devices/1"); !p.Contains("You do not allow this tool") {
		t.Errorf("on its page, what is denied is not said to be: %s", p.Text)
	}
	h.socket.SetTools(nil)
	if p := ada.Get("/devices/1/tools"); !p.Contains("Its tools are not known yet") {
		t.Errorf("without tools there is %s", p.Text)
	}
}

// upload sends a form with a file.
func (h *installation) upload(file []byte, fields ...string) consoletest.Page {
	h.t.Helper()
	var body bytes.Buffer
	form := multipart.NewWriter(&body)
	for i := 0; i < len(fields); i += 2 {
		form.WriteField(fields[i], fields[i+1]) //nolint:errcheck // into memory
	}
	w, _ := form.CreateFormFile("file", "sound.wav") // into memory
	w.Write(file)                                    //nolint:errcheck // into memory
	form.Close()                                     //nolint:errcheck // into memory
	req, err := http.NewRequestWithContext(h.t.Context(), http.MethodPost, h.URL+"/devices/1/play", &body)
	if err != nil {
		h.t.Fatal(err)
	}
	req.Header.Set("Content-Type", form.FormDataContentType())
	req.Header.Set("HX-Request", "true")
	resp, err := h.SignedInAs(h.Person).Do(req)
	if err != nil {
		h.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		h.t.Fatal(err)
	}
	return consoletest.Page{Status: resp.StatusCode, Text: string(text)}
}

func TestPlay(t *testing.T) {
	h := newInstance(t)
	wav := append([]byte("RIFF\x00\x00\x00\x00WAVE"), make([]byte, 40)...)
	if p := h.upload(wav, "as", "brief", "arg.text", "ding"); !p.Contains("Done.") ||
		!strings.HasPrefix(h.gadget.calls[0], `play {"sound":"UklGRg`) ||
		!strings.Contains(h.gadget.calls[0], `"text":"ding"`) {
		t.Errorf("a file: %s, %q", p.Text, h.gadget.calls)
	}
	h.gadget.calls = nil
	if p := h.upload(nil, "as", "brief", "arg.url", "https://a.example/x.ogg"); !p.Contains("Done.") ||
		!h.gadget.called(`play {"url":"https://a.example/x.ogg"} console`) {
		t.Errorf("an address: %s, %q", p.Text, h.gadget.calls)
	}
	h.gadget.calls = nil
	for _, c := range []struct {
		file []byte
		want string
	}{
		{nil, "Choose a file, or give an address."},
		{[]byte("fLaC and so on"), "neither a WAV nor an Ogg nor an MP3"},
		{append([]byte("OggS"), make([]byte, 2<<20)...), "larger than 2 MiB"},
		{append([]byte("OggS"), make([]byte, 8<<20)...), "larger than 2 MiB"},
	} {
		if p := h.upload(c.file, "as", "brief"); !p.Contains(c.want) {
			t.Errorf("a file of %d bytes: %d %s", len(c.file), p.Status, p.Text)
		}
	}
	if len(h.gadget.calls) > 0 {
		t.Errorf("it was called nevertheless: %.200q", h.gadget.calls)
	}
	h.gadget.err = tool.Fail(tool.Offline, "asleep", nil)
	if p := h.upload(wav, "as", "brief"); !p.Contains("Do it when it wakes up") {
		t.Errorf("asleep: %s", p.Text)
	}
	if p := h.upload(wav, "as", "brief", "arg.later", "true"); p.Contains("Do it when it wakes up") ||
		!strings.Contains(h.gadget.calls[1], `"later":true`) {
		t.Errorf("later: %s", p.Text)
	}
}

func TestListen(t *testing.T) {
	h := newInstance(t)
	ada := h.SignedInAs(h.Person)
	h.listen = func(_ context.Context, _ int64, w io.Writer) error {
		_, err := io.WriteString(w, "RIFF and so on")
		return err
	}
	if p := ada.DoHX("GET", "/devices/1/listening?on=1"); !p.Contains("You are listening to kettle",
		`autoplay src="/devices/1/listen"`, "Stop listening") {
		t.Errorf("listening: %s", p.Text)
	}
	if p := ada.DoHX("GET", "/devices/1/listening"); p.Contains("<audio") || !p.Contains("Listen") {
		t.Errorf("not listening any more: %s", p.Text)
	}
	if p := ada.Get("/devices/1/listen"); p.Status != 200 || p.Text != "RIFF and so on" ||
		p.Header.Get("Content-Type") != "audio/wav" {
		t.Errorf("heard is %d %q", p.Status, p.Text)
	}
	h.listen = func(context.Context, int64, io.Writer) error { return tool.Fail(tool.Busy, "Too many listen.", nil) }
	if p := ada.Get("/devices/1/listen"); p.Status != 503 || !p.Contains("Too many listen.") {
		t.Errorf("refused: %d %s", p.Status, p.Text)
	}
	// A person who may not record may not listen either.
	if err := h.Store.ToolRules.Set(t.Context(), store.ToolRule{Owner: h.Person.ID,
		Tool: "kettle_record", Rule: hub.RuleDeny, Created: time.Now()}); err != nil {
		t.Fatal(err)
	}
	if err := h.Hub.OnToolsChanged(t.Context(), func(context.Context) error { return nil }); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/devices/1/listen", "/devices/1/listening?on=1"} {
		if p := ada.Get(path); p.Status != http.StatusForbidden || !p.Contains("not allowed here") {
			t.Errorf("%s without leave to record: %d %s", path, p.Status, p.Text)
		}
	}
}

// The page of a device says who listens now and since when, and who did last; an open page is
// updated at once when somebody starts.
func TestPageSaysWhoListens(t *testing.T) {
	h := newInstance(t)
	ada := h.SignedInAs(h.Person)
	began := time.Date(2026, 3, 4, 9, 30, 0, 0, time.UTC)
	h.gadget.mu.Lock()
	h.gadget.say["status"] = tool.JSON(map[string]any{
		"online": true, "state": "idle", "listeners": []any{map[string]any{"name": "eve", "what": "listen",
			"since": began}},
		"last_listener": map[string]any{"name": "bob", "what": "record", "since": began, "until": began},
	})
	h.gadget.mu.Unlock()
	if p := ada.DoHX("GET", "/devices/1/now"); !p.Contains("eve is listening", "2026-03-04T09:30", "Heard last by",
		"bob recorded") {
		t.Errorf("the page says %s", p.Text)
	}
}
