package devices_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"patchbay/internal/account"
	"patchbay/internal/console/consoletest"
	"patchbay/internal/console/devices"
	"patchbay/internal/console/page"
	"patchbay/internal/control"
	"patchbay/internal/hub"
	"patchbay/internal/plug/xiaozhi"
	"patchbay/internal/store"
	"patchbay/internal/tool"
)

// installation is an installation with a connected device of ada's, kettle.
type installation struct {
	*consoletest.Rig
	t      *testing.T
	kettle store.Device
	socket *hub.Registration
	gadget *gadget
	listen func(ctx context.Context, device int64, w io.Writer) error
}

// gadget simulates a device: it returns the arguments of a call, unless told to return something
// else.
type gadget struct {
	mu    sync.Mutex
	calls []string
	say   map[string]*tool.Result
	err   error
}

func (g *gadget) Call(_ context.Context, c *tool.Call) (*tool.Result, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.calls = append(g.calls, c.Tool+" "+string(c.Args)+" "+c.Caller.Channel)
	switch {
	case c.Tool == "status" || c.Tool == "self.get_device_status":
	case g.err != nil:
		return nil, g.err
	}
	if r := g.say[c.Tool]; r != nil {
		return r, nil
	}
	return tool.Text("true"), nil
}

func (g *gadget) called(want string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, c := range g.calls {
		if c == want {
			return true
		}
	}
	return false
}

const later = `"later":{"type":"boolean","default":false,"description":"If the board is asleep, deliver this when it wakes"}`

var kettleTools = []tool.Tool{
	{Name: "status", Title: "Connection status",
		Input: json.RawMessage(`{"type":"object","properties":{},"additionalProperties":false}`),
		Hints: tool.ReadOnlyHints()},
	{Name: "show", Title: "Show a text",
		Input: json.RawMessage(`{"type":"object","properties":{"text":{"type":"string","maxLength":500},` + later +
			`},"required":["text"],"additionalProperties":false}`)},
	{Name: "play", Title: "Play a sound",
		Input: json.RawMessage(`{"type":"object","properties":{"url":{"type":"string"},"sound":{"type":"string"},"text":{"type":"string"},` + later + `},"additionalProperties":false}`)},
	{Name: "stop", Title: "Stop playback", Input: json.RawMessage(`{"type":"object","properties":{}}`)},
	{Name: "record", Title: "Record", Audience: "user",
		Input: json.RawMessage(`{"type":"object","properties":{"seconds":{"type":"integer","minimum":1,"maximum":300,"default":10}}}`)},
	{Name: "reboot", Title: "Restart the board", Audience: "user", Dangerous: true,
		Input: json.RawMessage(`{"type":"object"}`)},
	{Name: "self.get_device_status", Title: "Device status", Description: "How it is",
		Input: json.RawMessage(`{"type":"object","properties":{}}`)},
	{Name: "self.audio_speaker.set_volume", Title: "Volume", Description: "Sets the volume",
		Input: json.RawMessage(`{"type":"object","properties":{"volume":{"type":"integer","minimum":0,"maximum":100}},"required":["volume"]}`)},
	{Name: "self.screen.set_theme", Title: "Theme of the screen",
		Input: json.RawMessage(`{"type":"object","properties":{"theme":{"type":"string"}},"required":["theme"]}`)},
	{Name: "self.camera.take_photo", Title: "Take a photo",
		Input: json.RawMessage(`{"type":"object","properties":{"question":{"type":"string"}},"required":["question"]}`)},
}

func newInstance(t *testing.T) *installation {
	t.Helper()
	h := &installation{t: t, gadget: &gadget{say: map[string]*tool.Result{
		"status": tool.JSON(map[string]any{"online": true, "state": "idle", "via": "mqtt",
			"waiting": 2}),
		"self.get_device_status": tool.Text(`{"audio_speaker":{"volume":37},"screen":{"brightness":60,"theme":"dark"},"battery":{"level":80,"charging":false},"network":{"type":"wifi","ssid":"home"}}`),
	}}}
	h.Rig = consoletest.New(t, consoletest.Options{Control: control.Options{
		Listen: func(context.Context, int64, tool.Caller,
			io.Writer) error {
			return errors.New("pages do not play Ogg")
		},
		Hear: func(ctx context.Context, device int64, _ tool.Caller, w io.Writer) error {
			return h.listen(ctx, device, w)
		},
		Voice: control.VoiceActions{Mute: func(kind string) string {
			if kind == "script" {
				return control.MuteEngines
			}
			return ""
		}},
		BoardVoice: control.VoiceOptions{
			Settings: func() any { return new(xiaozhi.VoiceSettings) },
			Texts:    xiaozhi.VoiceTexts(),
			Effective: func(_ context.Context, d store.Device) any {
				s := xiaozhi.EffectiveVoice(d, xiaozhi.BotVoice{})
				return &s
			},
			Engines: func(context.Context) ([]string, error) { return []string{"home", "cloud"}, nil },
		},
	}}, func(r *consoletest.Rig) []page.Route { return devices.Routes(r.Control) })
	h.kettle = h.own(h.Person, "aa:aa:aa:aa:aa:01", "kettle")
	h.plug()
	return h
}

// plug connects the kettle.
func (h *installation) plug() {
	h.t.Helper()
	var err error
	h.socket, err = h.Hub.Register(hub.ProviderRef{ID: hub.DeviceProviderID(h.kettle.Number), Owner: h.Person.ID,
		Slug: "kettle", Kind: "xiaozhi", Title: "kettle", Held: true}, h.gadget)
	if err != nil {
		h.t.Fatal(err)
	}
	h.socket.SetTools(kettleTools)
}

// shows makes a device request a pairing code, and returns the code.
func (h *installation) shows(hardware string) string {
	h.t.Helper()
	_, code, err := h.Accounts.DeviceSeen(h.t.Context(), store.DeviceCall{Kind: "xiaozhi", Hardware: hardware,
		Client: "client of " + hardware, Article: "bread-compact", Version: "2.0.3",
		Features: json.RawMessage(`{"chip":"esp32s3"}`)})
	if err != nil || code == "" {
		h.t.Fatalf("%s shows %q (%v)", hardware, code, err)
	}
	return code
}

// own gives a device to a person, some time ago, so that it is not pending.
func (h *installation) own(p store.Person, hardware, name string) store.Device {
	h.t.Helper()
	code := h.shows(hardware)
	past := account.New(h.Store, h.Box, func() time.Time { return time.Now().Add(-time.Minute) })
	d, err := past.ApproveByCode(h.t.Context(), account.NewDevice{Person: p.ID, Code: code, Name: name})
	if err != nil {
		h.t.Fatal(err)
	}
	return d
}

func TestList(t *testing.T) {
	h := newInstance(t)
	ada, bob := h.SignedInAs(h.Person), h.SignedInAs(h.Bob)
	h.own(h.Person, "aa:aa:aa:aa:aa:02", "lamp")
	h.own(h.Bob, "aa:aa:aa:aa:aa:03", "bobs radio")
	p := ada.Get("/devices")
	if !p.Contains("kettle", "lamp", "bread-compact · firmware 2.0.3", `class="light on">Awake`, "Asleep",
		`href="/gateway"`) || p.Contains("radio") || p.Contains("waits to be approved") {
		t.Errorf("ada sees %s", p.Text)
	}
	if p := bob.Get("/devices"); !p.Contains("bobs radio") || p.Contains("kettle") {
		t.Errorf("bob sees %s", p.Text)
	}
	if p := ada.Get("/devices?text=KET"); !p.Contains("kettle", `value="KET"`) || p.Contains("lamp") {
		t.Errorf("looking for a kettle, ada sees %s", p.Text)
	}
	if p := ada.Get("/devices?text=%3Cb%3E"); !p.Contains("None has “&lt;b&gt;”") {
		t.Errorf("looking for nothing, ada sees %s", p.Text)
	}
	// Only admins see that a device is waiting.
	h.shows("aa:aa:aa:aa:aa:04")
	if p := ada.Get("/devices"); !p.Contains("1 device shows a code") {
		t.Errorf("ada is not told that a device waits: %s", p.Text)
	}
	if p := bob.Get("/devices"); p.Contains("shows a code and waits") {
		t.Error("bob is told that a device waits")
	}
	if p := h.SignedInAs(h.newcomer("eve")).Get("/devices"); !p.Contains("No device yet", `href="/devices/approve"`) {
		t.Errorf("who has no device sees %s", p.Text)
	}
}

func (h *installation) newcomer(name string) store.Person {
	h.t.Helper()
	p, err := h.Accounts.AddPerson(h.t.Context(), name, account.RoleMember, "en", "")
	if err != nil {
		h.t.Fatal(err)
	}
	return p
}

// A long list is paged.
func TestPages(t *testing.T) {
	h := newInstance(t)
	for i := range 60 {
		h.own(h.Bob, fmt.Sprintf("bb:aa:aa:aa:aa:%02x", i), fmt.Sprintf("device %02d", i))
	}
	bob := h.SignedInAs(h.Bob)
	p := bob.Get("/devices")
	if n := strings.Count(p.Text, `class="device"`); n != 50 || !p.Contains(">More<") {
		t.Fatalf("the first page has %d devices: %s", n, p.Text)
	}
	_, rest, _ := strings.Cut(p.Text, `href="/devices?after=`)
	after, _, _ := strings.Cut(rest, `"`)
	p = bob.Get("/devices?after=" + after)
	if n := strings.Count(p.Text, `class="device"`); n != 10 || p.Contains(">More<") ||
		!p.Contains("device 59", "To the beginning") {
		t.Errorf("the second page has %d devices: %s", n, p.Text)
	}
}

func TestApprove(t *testing.T) {
	h := newInstance(t)
	bob := h.SignedInAs(h.Bob)
	bot, _, err := h.Registry.Add(t.Context(), hub.NewBot{Owner: h.Bob.ID, Name: "bobs bot", Kind: "script"})
	if err != nil {
		t.Fatal(err)
	}
	others := h.AddScript(t, nil, nil) // ada's
	h.own(h.Bob, "aa:aa:aa:aa:aa:02", "lamp")
	if p := bob.Get("/devices/approve"); p.Status != http.StatusOK ||
		!p.Contains("bobs bot", "Six digits") || p.Contains(others.Name) {
		t.Fatalf("the form is %s", p.Text)
	}
	code := h.shows("aa:aa:aa:aa:aa:05")
	for _, c := range []struct {
		code, name, bot string
		status          int
		want            string
	}{
		{"000000", "radio", "", 404, "no device shows this code"},
		{"no code", "radio", "", 404, "no device shows this code"},
		{code, "lamp", "", 409, "another device of the same owner has this name"},
		{code, strings.Repeat("x", 200), "", 422, "name-wrong"},
		{code, "radio", fmt.Sprint(others.Number), 404, "no bot"},
	} {
		p := bob.Post("/devices/approve", "code", c.code, "name", c.name, "bot", c.bot)
		if p.Status != c.status || !p.Contains(c.want, `value="`+c.code+`"`, `value="`+c.name+`"`) {
			t.Errorf("code %s, name %s: %d %s", c.code, c.name, p.Status, p.Text)
		}
	}
	if p := bob.Post("/devices/approve", "code", code, "name", "radio", "room", "a\nb"); p.Status != 422 ||
		!p.Contains(`id="room-wrong"`, "cannot have control characters") || p.Contains("name-wrong") {
		t.Errorf("a room of two lines: %d %s", p.Status, p.Text)
	}
	p := bob.Post("/devices/approve", "code", code[:3]+" "+code[3:], "name", "radio", "room", " attic ",
		"bot", fmt.Sprint(bot.Number))
	if !strings.HasPrefix(p.Path, "/devices/3?approved") || !p.Contains("Approved", "radio", "attic", "bobs bot",
		"aa:aa:aa:aa:aa:05", "bobs bot cannot talk through it yet", "An administrator can set up voice") ||
		p.Contains(`href="/settings/voice"`) {
		t.Errorf("after that, bob is at %s: %s", p.Path, p.Text)
	}
	if p := bob.Get("/devices/approve"); !p.Contains(`<option value="attic">`) {
		t.Errorf("the room is not suggested: %s", p.Text)
	}
	// An erased device can be approved again by its owner.
	code = h.erased("aa:aa:aa:aa:aa:01")
	if p := bob.Post("/devices/approve", "code", code); p.Status != 409 ||
		!p.Contains("belongs to somebody else, who has to remove it first, on its page") {
		t.Errorf("bob approves ada's kettle: %d %s", p.Status, p.Text)
	}
	ada := h.SignedInAs(h.Person)
	if p := ada.Get("/devices/1"); !p.Contains("Waits for approval", "approve it again") {
		t.Errorf("ada is not told: %s", p.Text)
	}
	if p := ada.Get("/devices/approve"); !p.Contains("Devices that show a code", "aa:aa:aa:aa:aa:01") {
		t.Errorf("ada does not see what waits: %s", p.Text)
	}
	if p := bob.Get("/devices/approve"); p.Contains("aa:aa:aa:aa:aa:01") {
		t.Error("bob sees what waits")
	}
	// Wrong codes are rate-limited.
	for range 30 {
		p = bob.Post("/devices/approve", "code", "123123")
	}
	if p.Status != http.StatusTooManyRequests || !p.Contains("too many codes were tried") {
		t.Errorf("after many guesses: %d %s", p.Status, p.Text)
	}
}

// erased makes a device connect that has lost its identity, and returns its code.
func (h *installation) erased(hardware string) string {
	h.t.Helper()
	_, code, err := h.Accounts.DeviceSeen(h.t.Context(), store.DeviceCall{Kind: "xiaozhi", Hardware: hardware,
		Client: "another one"})
	if err != nil || code == "" {
		h.t.Fatalf("%s shows %q (%v)", hardware, code, err)
	}
	return code
}

func TestSettings(t *testing.T) {
	h := newInstance(t)
	ada := h.SignedInAs(h.Person)
	bot := h.AddScript(t, nil, nil)
	h.own(h.Person, "aa:aa:aa:aa:aa:02", "lamp")
	if p := ada.Get("/devices/1/settings"); !p.Contains(`value="kettle"`, `<option value="none" selected>`,
		`<option value="default" selected>`) {
		t.Fatalf("the form is %s", p.Text)
	}
	for _, c := range []struct {
		name, bot, transport string
		status               int
		want                 string
	}{
		{"lamp", "none", "default", 409, "another device of the same owner"},
		{"", "none", "default", 422, "name-wrong"},
		{"kettle", "77", "default", 404, "no bot"},
		{"kettle", "none", "pigeon", 422, "pigeon"},
	} {
		if p := ada.Post("/devices/1/settings", "name", c.name, "bot", c.bot,
			"transport", c.transport); p.Status != c.status || !p.Contains(c.want) {
			t.Errorf("%+v gives %d %s", c, p.Status, p.Text)
		}
	}
	if p := ada.Post("/devices/1/settings", "name", "x", "room", strings.Repeat("x", 61), "bot", "none", "transport",
		"default"); p.Status != 422 || !p.Contains(`id="room-wrong"`, "60 characters") || p.Contains("name-wrong") {
		t.Errorf("a room with a long name: %d %s", p.Status, p.Text)
	}
	p := ada.Post("/devices/1/settings", "name", "Tea & more", "room", "Parlour", "bot", fmt.Sprint(bot.Number), "transport", "mqtt")
	if p.Path != "/devices/1/settings?saved" || !p.Contains("Saved.",
		`value="Tea &amp; more"`, `value="Parlour"`, fmt.Sprintf(`<option value="%d" selected>`, bot.Number),
		`<option value="mqtt" selected>`) {
		t.Errorf("after that, ada is at %s: %s", p.Path, p.Text)
	}
	d, err := h.Store.Devices.ByNumber(t.Context(), 1)
	if err != nil || d.Name != "Tea & more" || d.Room != "Parlour" || d.Bot != bot.Number || d.Transport != "mqtt" {
		t.Errorf("kept is %+v (%v)", d, err)
	}
	if p := ada.Post("/devices/1/remove"); p.Path != "/devices?removed" || !p.Contains("The device is removed.") ||
		p.Contains("Tea") {
		t.Errorf("after removing it, ada is at %s: %s", p.Path, p.Text)
	}
	if _, err := h.Store.Devices.ByNumber(t.Context(), 1); err == nil {
		t.Error("it is there still")
	}
}

func TestVoice(t *testing.T) {
	h := newInstance(t)
	ada := h.SignedInAs(h.Person)
	if p := ada.Get("/devices/1/voice"); !p.Contains(`name="speed"`, "Speech engines", "There are: home, cloud.") {
		t.Fatalf("the form is %s", p.Text)
	}
	for _, c := range []struct {
		name, value string
		want        string
	}{
		{"speed", "fast", "set-speed-wrong"},
		{"speed", "9", "between 0.25 and 4"},
		{"engines", "home, attic", "no speech engine &#34;attic&#34;"},
		{"volume", "200", `aria-invalid="true"`},
	} {
		if p := ada.Post("/devices/1/voice", c.name, c.value); p.Status != 422 || !p.Contains(c.want, c.value) {
			t.Errorf("%+v gives %d %s", c, p.Status, p.Text)
		}
	}
	p := ada.Post("/devices/1/voice", "language", "ja", "speed", "0.9", "wake_words", "小明小明, Hey", "engines", "cloud")
	if p.Path != "/devices/1/voice?saved" || !p.Contains(`value="ja" lang="ja" selected`, `value="0.9"`, ">小明小明, Hey</textarea>") {
		t.Errorf("after that, ada is at %s: %s", p.Path, p.Text)
	}
	ada.Post("/devices/1/voice", "language", "", "speed", "0.9", "wake_words", "小明小明, Hey", "engines", "cloud")
	d, err := h.Store.Devices.ByNumber(t.Context(), 1)
	if want := `{"speed":0.9,"engines":["cloud"],"wake_words":["小明小明","Hey"]}`; err != nil || string(d.Voice) != want {
		t.Errorf("kept is %s (%v)", d.Voice, err)
	}
	events, err := h.Store.AdminEvents.Newest(t.Context(), "", 2)
	if err != nil || len(events) != 2 || events[0].Action != control.EventDeviceVoice {
		t.Errorf("the events are %+v (%v)", events, err)
	}
	p = ada.Get("/devices/1/voice", "Cookie", "patchbay-lang=zh")
	if !p.Contains(`placeholder="你好小帕"`, `placeholder="800ms"`) {
		t.Errorf("the examples in Chinese: %s", p.Text)
	}
}

// A device of another person looks as if it did not exist.
func TestOthers(t *testing.T) {
	h := newInstance(t)
	h.listen = func(context.Context, int64, io.Writer) error { t.Error("bob listens"); return nil }
	bob := h.SignedInAs(h.Bob)
	lamp := h.own(h.Bob, "aa:aa:aa:aa:aa:02", "lamp")
	for _, b := range []struct {
		who  *consoletest.Browser
		path string
	}{{bob, "/devices/1"}, {bob, "/devices/kettle"}, {h.SignedInAs(h.Person), "/devices/" + fmt.Sprint(lamp.Number)}} {
		for _, rest := range []string{"", "/live", "/now", "/settings", "/voice", "/tools", "/listening", "/listening?on=1",
			"/listen", "/recordings", "/recordings/export"} {
			if p := b.who.Get(b.path + rest); p.Status != http.StatusNotFound || p.Contains("set_volume") {
				t.Errorf("GET %s%s gives %d %s", b.path, rest, p.Status, p.Text)
			}
		}
		for _, rest := range []string{"/settings", "/voice", "/remove", "/recordings/delete", "/tools/stop", "/tools/show", "/play"} {
			if p := b.who.Post(b.path+rest, "name", "mine", "arg.text", "hello", "arg.url",
				"http://a.example/"); p.Status != http.StatusNotFound {
				t.Errorf("POST %s%s gives %d %s", b.path, rest, p.Status, p.Text)
			}
		}
	}
	if len(h.gadget.calls) != 0 {
		t.Errorf("the kettle was called: %q", h.gadget.calls)
	}
	if d, err := h.Store.Devices.ByNumber(t.Context(), 1); err != nil || d.Name != "kettle" {
		t.Errorf("the kettle is %+v (%v)", d, err)
	}
	if p := h.Anonymous().Get("/devices/1"); !strings.HasPrefix(p.Path, "/signin") {
		t.Errorf("a stranger is at %s", p.Path)
	}
}
