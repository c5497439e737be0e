package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"patchbay/internal/account"
	"patchbay/internal/api"
	"patchbay/internal/app"
	"patchbay/internal/control"
	"patchbay/internal/hub"
	"patchbay/internal/hub/hubtest"
	"patchbay/internal/plug/xiaozhi/sim"
	"patchbay/internal/store"
	"patchbay/internal/tool"
)

// testKitchen simulates a device with the tools that the tests need.
type testKitchen struct{ asleep atomic.Bool }

func (k *testKitchen) Call(_ context.Context, c *tool.Call) (*tool.Result, error) {
	var args struct {
		Seconds int
		Wait    int
		Later   bool
		Sound   []byte
	}
	if err := json.Unmarshal(c.Args, &args); err != nil {
		return nil, err
	}
	if k.asleep.Load() && !args.Later {
		return nil, tool.Fail(tool.Offline, "The board is asleep.", nil)
	}
	switch {
	case c.Tool == toolRecord && args.Seconds == 5:
		return &tool.Result{Content: json.RawMessage(fmt.Sprintf(`[{"type":"audio","mimeType":"audio/ogg; wait=%d","data":"T2dnUw=="}]`, args.Wait))}, nil
	case args.Later:
		return tool.Text("kept: " + string(c.Args)), nil
	case c.Tool == toolStatus:
		return tool.JSON(map[string]any{"volume": 70, "face": map[string]any{"eyes": "open"}}), nil
	case c.Tool == toolRecord && args.Seconds == 3:
		return &tool.Result{Content: json.RawMessage(`[{"type":"text","text":"three seconds"},{"type":"audio","mimeType":"audio/ogg","data":"T2dnUw=="}]`)}, nil
	case c.Tool == toolRecord && args.Seconds == 4:
		return tool.ErrorResult("the microphone is broken"), nil
	case len(args.Sound) > 0:
		return tool.Text(fmt.Sprintf("played %d bytes, %q first", len(args.Sound), args.Sound[:4])), nil
	}
	if c.Progress != nil && c.Tool == "self.slow" {
		c.Progress(tool.Progress{Done: 1, Total: 2, Message: "slowly"})
	}
	return tool.Text(c.Tool + " " + string(c.Args)), nil
}

// kitchenServer is a server with that device on the data directory of a desk.
type kitchenServer struct {
	url    string
	device *testKitchen
	socket *hub.Registration
	listen func(ctx context.Context, device int64, w io.Writer) error
}

// hold sets whether the device is awake.
func (s *kitchenServer) hold(awake bool) {
	s.device.asleep.Store(!awake)
	s.socket.Hold(awake)
}

func serveKitchen(t *testing.T, d *desk) *kitchenServer {
	t.Helper()
	rig := hubtest.New(t, hubtest.Options{DB: store.Options{Folder: d.data}})
	s := &kitchenServer{device: &testKitchen{}}
	apiHandler, err := api.New(api.Options{
		Control: control.New(control.Options{
			Hub: rig.Hub, Accounts: rig.Accounts,
			Listen: func(ctx context.Context, device int64, _ tool.Caller, w io.Writer) error {
				return s.listen(ctx, device, w)
			},
		}),
		Guard: account.NewGuard(100, nil), Logger: slog.New(slog.NewTextHandler(t.Output(), nil)),
		Address: func(*http.Request) netip.Addr { return netip.MustParseAddr("127.0.0.1") },
	})
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(apiHandler)
	t.Cleanup(srv.Close)
	s.url = srv.URL
	text, err := json.Marshal(app.Running{URL: srv.URL, Key: apiHandler.Key(), PID: os.Getpid()})
	if err == nil {
		err = os.WriteFile(filepath.Join(d.data, "server.json"), text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	s.socket, err = rig.Hub.Register(hub.ProviderRef{ID: "board:1", Owner: rig.Person.ID,
		Slug: "kitchen", Kind: "xiaozhi", Title: "kitchen", Held: true}, s.device)
	if err != nil {
		t.Fatal(err)
	}
	free := json.RawMessage(`{"type":"object"}`)
	s.socket.SetTools([]tool.Tool{
		{Name: "self.audio_speaker.set_volume", Description: "Set the volume.",
			Input: json.RawMessage(`{"type":"object","properties":{"volume":{"type":"integer"},"why":{"type":"string"}}}`)},
		{Name: "self.slow", Description: "Take time", Input: free},
		{Name: toolStatus, Input: free, Hints: tool.ReadOnlyHints()}, {Name: toolShow, Input: free},
		{Name: toolAlert, Input: free}, {Name: toolPlay, Input: free},
		{Name: toolStop, Input: free}, {Name: toolRecord, Input: free},
		{Name: toolReboot, Input: free, Dangerous: true},
	})
	return s
}

func TestDeviceLive(t *testing.T) {
	d, _ := withKitchen(t)
	s := serveKitchen(t, d)
	if got := d.ok("device", "list"); !strings.Contains(got, "online") {
		t.Errorf("the list is\n%s", got)
	}
	if got := d.ok("device", "show", "kitchen"); !strings.Contains(got, "(xiaozhi, online)") ||
		!strings.Contains(got, "\nStatus\n  face.eyes = open\n  volume = 70\n") {
		t.Errorf("it is shown as\n%s", got)
	}
	var view deviceView
	if d.json(&view, "device", "show", "kitchen"); view.Online == nil || !*view.Online ||
		!strings.Contains(string(view.Status), `"open"`) {
		t.Errorf("it is shown as %+v", view)
	}
	tools := d.ok("device", "tools", "kitchen")
	for _, want := range []string{"self.audio_speaker.set_volume  allowed", "reboot                         dangerous",
		"kitchen_self_audio_speaker_set_volume\n"} {
		if !strings.Contains(tools, want) {
			t.Errorf("%q is not in\n%s", want, tools)
		}
	}
	if got := d.ok("device", "tools", "kitchen", "--schemas"); !strings.Contains(got,
		"self.audio_speaker.set_volume (allowed, from kitchen)\nSet the volume.\n\nArguments\n{") {
		t.Errorf("the tools with schemas are\n%s", got)
	}
	s.hold(false)
	if got := d.ok("device", "list"); !strings.Contains(got, "asleep") {
		t.Errorf("the list is\n%s", got)
	}
	if got := d.ok("device", "show", "kitchen"); !strings.Contains(got, "(xiaozhi, asleep)") ||
		strings.Contains(got, "Status") {
		t.Errorf("asleep it is shown as\n%s", got)
	}
	s.socket.Unregister()
	if got := d.ok("device", "tools", "kitchen"); !strings.Contains(got, "not connected yet") {
		t.Errorf("without tools it says %q", got)
	}
}

func TestDeviceCalls(t *testing.T) {
	d, _ := withKitchen(t)
	s := serveKitchen(t, d)
	sound := filepath.Join(t.TempDir(), "bell.ogg")
	if err := os.WriteFile(sound, append([]byte("OggS"), make([]byte, maxPlayed-4)...), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ args, want string }{
		{"call kitchen self.audio_speaker.set_volume volume=5 why=5",
			`self.audio_speaker.set_volume {"volume":5,"why":"5"}`},
		{"call kitchen kitchen_self_audio_speaker_set_volume volume=5 why=5",
			`self.audio_speaker.set_volume {"volume":5,"why":"5"}`},
		{`call 1 self.audio_speaker.set_volume volume=6 --args {"volume":5}`,
			`self.audio_speaker.set_volume {"volume":6}`},
		{"call kitchen status", `{"face":{"eyes":"open"},"volume":70}`},
		{"display kitchen hello", `show {"text":"hello"}`},
		{"display kitchen hello --later", `kept: {"later":true,"text":"hello"}`},
		{"alert kitchen Oven done", `alert {"text":"done","title":"Oven"}`},
		{"alert kitchen Oven done --emotion happy --later",
			`kept: {"emotion":"happy","later":true,"text":"done","title":"Oven"}`},
		{"play kitchen " + sound, fmt.Sprintf(`played %d bytes, "OggS" first`, maxPlayed)},
		{"play kitchen https://example.org/a.ogg --text News",
			`play {"text":"News","url":"https://example.org/a.ogg"}`},
		{"play kitchen https://example.org/a.ogg --later", `kept: {"later":true,"url":"https://example.org/a.ogg"}`},
		{"stop kitchen", "stop {}"},
	} {
		if got := d.ok(append([]string{"device"}, strings.Fields(c.args)...)...); got != c.want+"\n" {
			t.Errorf("%s gives %q, want %q", c.args, got, c.want)
		}
	}
	if o := d.do("", "device", "call", "kitchen", "self.slow"); o.stdout != "self.slow {}\n" ||
		o.stderr != "1/2 slowly\n" {
		t.Errorf("with progress it gives %+v", o)
	}
	var line api.ToolLine
	if d.json(&line, "device", "stop", "kitchen"); line.Result == nil || line.Result.PlainText() != "stop {}" {
		t.Errorf("as JSON it is %+v", line)
	}
	d.failing(exitFailed, "", []string{"device", "reboot", "kitchen"}, "dangerous",
		"patchbay tool allow kitchen_reboot")
	d.failing(exitFailed, "", []string{"device", "call", "kitchen", "nothing"}, "kitchen has no tool nothing",
		"unknown_tool")
	d.failing(exitFailed, "", []string{"device", "call", "attic", "status"}, `no device "attic"`)
	s.hold(false)
	d.failing(exitFailed, "", []string{"device", "stop", "kitchen"}, "asleep", "offline")
	if err := os.WriteFile(sound, append([]byte("OggS"), make([]byte, maxPlayed)...), 0o600); err != nil {
		t.Fatal(err)
	}
	d.failing(exitFailed, "", []string{"device", "play", "kitchen", sound}, "larger than 2 MiB")
}

func TestDeviceRecord(t *testing.T) {
	d, _ := withKitchen(t)
	serveKitchen(t, d)
	file := filepath.Join(t.TempDir(), "sound.ogg")
	if got := d.ok("device", "record", "kitchen", "--out", file, "--seconds", "3"); got != file+
		": audio/ogg, 4 bytes\n" {
		t.Errorf("it says %q", got)
	}
	if got, err := os.ReadFile(file); string(got) != "OggS" {
		t.Errorf("the file has %q (%v)", got, err)
	}
	var r recording
	if d.json(&r, "device", "record", "kitchen", "--out", file, "--seconds",
		"3"); r != (recording{file, "audio/ogg", 4}) {
		t.Errorf("as JSON it is %+v", r)
	}
	for wait, want := range map[string]string{"2m": "wait=120", "1h": "wait=240", "0s": "wait=0"} {
		if got := d.ok("device", "record", "kitchen", "--out", file, "--seconds", "5",
			"--wait", wait); !strings.Contains(got, want+",") {
			t.Errorf("with --wait %s it says %q", wait, got)
		}
	}
	none := filepath.Join(t.TempDir(), "none.ogg")
	d.failing(exitFailed, "", []string{"device", "record", "kitchen", "--out", none, "--seconds", "4"},
		"the microphone is broken")
	d.failing(exitFailed, "", []string{"device", "record", "kitchen", "--out", none}, "no sound")
	if _, err := os.Stat(none); err == nil {
		t.Error("a file was written without a sound")
	}
	// Pictures and sounds of device tools are saved like those of other tools.
	if o := d.do("", "device", "call", "kitchen", "record", "seconds=3",
		"--out", file); o.stdout != "three seconds\n" || !strings.Contains(o.stderr, "4 bytes") {
		t.Errorf("it gives %+v", o)
	}
}

// With the flag, a command waits for a sleeping device, and says so once.
func TestDeviceWait(t *testing.T) {
	d, _ := withKitchen(t)
	s := serveKitchen(t, d)
	s.hold(false)
	var stdout, stderr safeBuffer
	done := make(chan int, 1)
	go func() {
		done <- Run(t.Context(), []string{"device", "call", "kitchen", "status", "--wait", "2m"}, strings.NewReader(""),
			&stdout, &stderr, d.env)
	}()
	d.until("the word that it waits", func() bool {
		return strings.Contains(stderr.String(),
			"kitchen is asleep; waiting")
	})
	s.hold(true)
	if code := <-done; code != exitOK || !strings.Contains(stdout.String(), "open") ||
		strings.Count(stderr.String(), "\n") != 1 {
		t.Errorf("it ends with %d: %q, %q", code, stdout.String(), stderr.String())
	}
	s.hold(false)
	if o := d.do("", "device", "call", "kitchen", "status", "--wait", "10ms"); o.code != exitFailed ||
		!strings.Contains(o.stderr, "(offline)") {
		t.Errorf("when the time is over it gives %+v", o)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var told safeBuffer
	go func() {
		done <- Run(ctx, []string{"device", "record", "kitchen", "--out", "x", "--wait", "2m"}, strings.NewReader(""),
			&told, &told, d.env)
	}()
	d.until("the word that it waits", func() bool { return strings.Contains(told.String(), "waiting") })
	cancel()
	if code := <-done; code != exitInterrupted {
		t.Errorf("interrupted it ends with %d", code)
	}
}

func TestDeviceListen(t *testing.T) {
	d, _ := withKitchen(t)
	s := serveKitchen(t, d)
	heard := make(chan struct{})
	s.listen = func(ctx context.Context, device int64, w io.Writer) error {
		if _, err := io.WriteString(w, fmt.Sprintf("OggS of %d", device)); err != nil {
			return err
		}
		close(heard)
		<-ctx.Done()
		return ctx.Err()
	}
	// Ctrl-C is the normal end, not an error.
	file := filepath.Join(t.TempDir(), "sound.ogg")
	ctx, cancel := context.WithCancel(t.Context())
	var stdout, stderr safeBuffer
	done := make(chan int, 1)
	go func() {
		done <- Run(ctx, []string{"device", "listen", "kitchen", "--out", file}, strings.NewReader(""), &stdout,
			&stderr, d.env)
	}()
	<-heard
	d.until("the sound", func() bool { b, _ := os.ReadFile(file); return len(b) > 0 })
	cancel()
	if code := <-done; code != exitOK || stdout.String() != file+": audio/ogg, 9 bytes\n" ||
		!strings.HasPrefix(stderr.String(), "Listening to kitchen; press Ctrl-C to stop") {
		t.Errorf("it ends with %d: %q, %q", code, stdout.String(), stderr.String())
	}
	if got, err := os.ReadFile(file); string(got) != "OggS of 1" {
		t.Errorf("heard is %q (%v)", got, err)
	}

	s.listen = func(_ context.Context, _ int64, w io.Writer) error {
		_, err := w.Write(bytes.Repeat([]byte("OggS"), 50_000))
		return err
	}
	if o := d.do("", "device", "listen", "kitchen"); o.code != exitOK || len(o.stdout) != 200_000 {
		t.Errorf("to standard output come %d bytes, and %d %q", len(o.stdout), o.code, o.stderr)
	}
	s.listen = func(_ context.Context, _ int64, w io.Writer) error {
		io.WriteString(w, "OggS") //nolint:errcheck // the connection is aborted anyway
		return io.ErrUnexpectedEOF
	}
	if o := d.do("", "device", "listen", "kitchen", "--out", file); o.code != exitFailed ||
		!strings.Contains(o.stderr, "patchbay: the connection broke") {
		t.Errorf("what breaks off gives %+v", o)
	}
	s.listen = func(context.Context, int64, io.Writer) error {
		return tool.Fail(tool.Offline, "The board is asleep.", nil)
	}
	none := filepath.Join(t.TempDir(), "none.ogg")
	d.failing(exitFailed, "", []string{"device", "listen", "kitchen", "--out", none}, "The board is asleep.")
	if _, err := os.Stat(none); err == nil {
		t.Error("a file was made without a sound")
	}
}

// A running server picks up changes to its data directory.
func TestDeviceOnServer(t *testing.T) {
	d := withParrot(t)
	s := d.serve()
	b := sim.New(sim.Options{OTA: s.URL + "/xiaozhi/ota/", MAC: kitchenMAC, Scale: 0.02})
	t.Cleanup(b.Close)
	booted := make(chan error, 1)
	go func() { booted <- b.Boot(t.Context()) }()
	d.until("the device", func() bool { return strings.Contains(d.ok("device", "list", "--waiting"), kitchenMAC) })
	shown, err := b.Await(t.Context(), func(v sim.View) bool { return v.Displayed != "" })
	if err != nil {
		t.Fatal(err)
	}
	code := shown.Displayed[strings.LastIndex(shown.Displayed, "\n")+1:]
	d.ok("device", "approve", code, "--name", "kitchen", "--bot", "parrot")
	if got := d.ok("device", "display", "kitchen", "hello", "--later"); !strings.Contains(got, "when it wakes") {
		t.Errorf("a device that was approved a moment ago is told %q", got)
	}
	if err := <-booted; err != nil {
		t.Error(err)
	}
	if got := d.ok("device", "show", "kitchen"); !strings.Contains(got, "(xiaozhi, asleep)") ||
		!strings.Contains(got, "  waiting = 1\n") {
		t.Errorf("it is shown as\n%s", got)
	}
	d.ok("device", "rename", "kitchen", "bath")
	d.until("the new name", func() bool { return strings.Contains(d.ok("device", "tools", "bath"), " bath_status\n") })
	d.ok("device", "rm", "bath", "--yes")
	d.until("the end of its tools", func() bool { return !strings.Contains(d.ok("tool", "list"), "bath_status") })
}

// Everything that does not need the data directory works remotely too.
func TestDevicesFromElsewhere(t *testing.T) {
	d, b := withKitchen(t)
	d.ok("user", "add", "bob", "--role", "member")
	s := serveKitchen(t, d)
	var admin, member struct{ Key string }
	d.json(&admin, "key", "add", "--user", "ada", "--name", "a", "--scope", "admin")
	d.json(&member, "key", "add", "--user", "bob", "--name", "m", "--scope", "operator")
	elsewhere := blankDesk(t)
	at := func(key string, args ...string) []string {
		return append(append([]string{"device"}, args...), "--server", s.url, "--key", key)
	}
	code := shows(t, b, "aa:bb:cc:00:00:02", "client-2")
	if got := elsewhere.ok(at(member.Key, "list", "--waiting")...); !strings.Contains(got, "show a pairing code: 1.") ||
		strings.Contains(got, "aa:bb") {
		t.Errorf("a member is told %q", got)
	}
	if got := elsewhere.ok(at(admin.Key, "list", "--waiting")...); !strings.Contains(got, "aa:bb:cc:00:00:02") {
		t.Errorf("an admin is told %q", got)
	}
	if got := elsewhere.ok(at(member.Key, "approve", code, "--name", "lamp")...); !strings.Contains(got,
		"Device 2 (lamp) now belongs to bob.") {
		t.Errorf("approve says %q", got)
	}
	if got := elsewhere.ok(at(member.Key, "list")...); strings.Contains(got, "kitchen") ||
		!strings.Contains(got, "lamp") {
		t.Errorf("a member sees\n%s", got)
	}
	elsewhere.failing(exitFailed, "", at(member.Key, "stop", "kitchen"), `no device "kitchen"`)
	elsewhere.failing(exitFailed, "", at(member.Key, "approve", "000000"), "no device shows this code")
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"set", "lamp", "transport=websocket"}, "websocket"},
		{[]string{"rename", "lamp", "my lamp"}, "Device 2 is now called my lamp."},
		{[]string{"bind", "my lamp", "none"}, "No bot answers device 2 (my lamp) now."},
		{[]string{"show", "my lamp"}, "Device 2: my lamp (xiaozhi, asleep)"},
		{[]string{"rm", "my lamp", "--yes"}, "Device 2 (my lamp) is removed."},
	} {
		if got := elsewhere.ok(at(member.Key, c.args...)...); !strings.Contains(got, c.want) {
			t.Errorf("%v says %q, want %q", c.args, got, c.want)
		}
	}
	if got := elsewhere.ok(at(admin.Key, "stop", "kitchen")...); got != "stop {}\n" {
		t.Errorf("stop says %q", got)
	}
	if got := elsewhere.ok(at(admin.Key, "show", "kitchen")...); !strings.Contains(got, "volume = 70") {
		t.Errorf("it is shown as\n%s", got)
	}
}
