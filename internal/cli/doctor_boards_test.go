package cli

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"patchbay/internal/check"
	"patchbay/internal/store"
)

// found returns all findings of one check, one per line.
func (d *desk) found(name string) string {
	d.t.Helper()
	o := d.do("", "doctor", "--json")
	var list []check.Finding
	if err := json.Unmarshal([]byte(o.stdout), &list); err != nil {
		d.t.Fatalf("doctor: %v in %q, %q", err, o.stdout, o.stderr)
	}
	var lines []string
	for _, f := range list {
		if f.Check == name {
			lines = append(lines, string(f.State)+" "+f.Found+" → "+f.Advice)
		}
		if f.State != check.OK && f.Advice == "" {
			d.t.Errorf("no advice about %+v", f)
		}
	}
	return strings.Join(lines, "\n")
}

func TestDoctorOnBoards(t *testing.T) {
	d := withParrot(t)
	d.env = append(d.env, "PATCHBAY_LISTEN="+free(t))
	for _, check := range []string{"voice boards", "address for boards", "MQTT for boards", "sound of boards",
		"firmware for boards"} {
		if got := d.found(check); got != "" {
			t.Errorf("without boards %s is %q", check, got)
		}
	}

	d, b := withKitchen(t)
	d.env = append(d.env, "PATCHBAY_LISTEN="+free(t))
	shows(t, b, "aa:bb:cc:00:00:02", "client-2")
	d.ok("device", "set", "kitchen", "transport=mqtt")
	got := d.found("voice boards")
	for _, want := range []string{
		"ok 1 approved → ", "warn boards that show a code: 1 → Type in the six digits",
		"warn boards that no bot answers: 1, such as kitchen → Give it one: patchbay device bind 1 BOT",
		"warn boards that are set to MQTT, which is not on: 1, such as kitchen",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in\n%s", want, got)
		}
	}
	if strings.Contains(got, "not seen") {
		t.Errorf("a board that has just called is said to be away:\n%s", got)
	}
	d.ok("device", "bind", "kitchen", "parrot")
	d.ok("device", "set", "kitchen", "transport=default")
	if _, _, err := b.Accounts.DeviceSeen(t.Context(), store.DeviceCall{Kind: "xiaozhi", Hardware: kitchenMAC,
		Client: "client-1", At: time.Now().Add(-31 * 24 * time.Hour)}); err != nil {
		t.Fatal(err)
	}
	got = d.found("voice boards")
	if !strings.Contains(got,
		"not seen for 30 days: 1, such as kitchen → Turn it on, or remove it: patchbay device rm 1") ||
		strings.Contains(got, "MQTT") || strings.Contains(got, "no bot") {
		t.Errorf("about a board that is away:\n%s", got)
	}

	d.serve()
	if got := d.found("voice boards"); !strings.Contains(got, "ok 1 approved, 0 awake") {
		t.Errorf("on a server:\n%s", got)
	}
}

// Every setting that keeps boards from connecting or talking is reported.
func TestDoctorOnBoardSettings(t *testing.T) {
	cert, key := certificate(t)
	signed := "PATCHBAY_TLS_CERT=" + cert + " PATCHBAY_TLS_KEY=" + key + " "
	right := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/xiaozhi/ota/" {
			w.Write([]byte("XiaoZhi boards call home here.")) //nolint:errcheck // the test notices
		}
	}))
	defer right.Close()
	turns := httptest.NewServer(http.RedirectHandler(right.URL, http.StatusMovedPermanently))
	defer turns.Close()
	folder := t.TempDir()
	for name, text := range map[string]string{"bread-compact-wifi-2.4.3.bin": "x", "bread.bin": "x",
		"bread-v2.bin": "x", "notes.txt": "x", "lamp-1.0.bin": "", ".hidden": "x"} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const mqtt = "PATCHBAY_XIAOZHI_MQTT=:1883 PATCHBAY_XIAOZHI_AUDIO=:8884 "
	desk, _ := withKitchen(t)
	for _, c := range []struct {
		env   string
		check string
		want  string
	}{
		{"", "address for boards", "warn the server listens on 127.0.0.1"},
		{"", "MQTT for boards", "ok is off"},
		{"PATCHBAY_LISTEN=:0", "address for boards", "ok http://"},
		{"PATCHBAY_PUBLIC_URL=" + right.URL, "address for boards",
			"ok " + right.URL + "/xiaozhi/ota/ is for the Wi-Fi page"},
		{"PATCHBAY_PUBLIC_URL=" + turns.URL, "address for boards",
			"warn " + turns.URL + "/xiaozhi/ota/ does not answer as it should: 301"},
		{"PATCHBAY_PUBLIC_URL=http://[::1]:3000", "address for boards",
			"fail boards cannot use the public URL: it has an IPv6 address"},
		{signed, "address for boards", "warn boards do not trust the certificate"},
		{"PATCHBAY_XIAOZHI_TRANSPORT=mqtt", "settings", "fail "},
		{mqtt, "MQTT for boards", "ok boards connect to port 1883"},
		{mqtt, "sound of boards", "ok UDP :8884"},
		{"PATCHBAY_XIAOZHI_MQTT=127.0.0.1:1883 PATCHBAY_XIAOZHI_AUDIO=:8884", "MQTT for boards",
			"warn 127.0.0.1:1883 can be reached from this machine only"},
		{"PATCHBAY_XIAOZHI_MQTT=:1883 PATCHBAY_XIAOZHI_AUDIO=localhost:8884", "sound of boards",
			"warn localhost:8884 can be reached from this machine only"},
		{"PATCHBAY_XIAOZHI_MQTT=:1883", "MQTT for boards", "fail there is no UDP port"},
		{"PATCHBAY_XIAOZHI_MQTT=:8883 PATCHBAY_XIAOZHI_AUDIO=:8884", "MQTT for boards", "fail boards would speak TLS"},
		{"PATCHBAY_XIAOZHI_MQTT_TLS=:8883", "settings", "fail "},
		{signed + mqtt + "PATCHBAY_XIAOZHI_MQTT_TLS=:8884", "MQTT for boards",
			"fail boards would speak without TLS to the port 8884"},
		{signed + mqtt + "PATCHBAY_XIAOZHI_MQTT_TLS=:8883", "MQTT for boards",
			"ok boards connect to port 8883 with TLS"},
		{mqtt + "PATCHBAY_XIAOZHI_BROKER=board.example.org", "MQTT for boards",
			"ok boards connect to port 8883 with TLS"},
		{mqtt + "PATCHBAY_XIAOZHI_AUDIO_HOST=2001:db8::1", "settings", "fail "},
		{mqtt + "PATCHBAY_XIAOZHI_AUDIO_HOST=192.0.2.1 PATCHBAY_XIAOZHI_AUDIO_PORT=9000", "sound of boards",
			"ok UDP 192.0.2.1:9000"},
		{mqtt + "PATCHBAY_PUBLIC_URL=http://192.0.2.1:1", "sound of boards",
			"warn 192.0.2.1 is not an address of this machine"},
		{mqtt + "PATCHBAY_PUBLIC_URL=" + right.URL, "sound of boards", "ok UDP :8884"},
		{"PATCHBAY_XIAOZHI_JOIN=mqtt://mqtt.example.org PATCHBAY_XIAOZHI_AUDIO=:8884", "sound of boards",
			"fail boards connect to another MQTT server"},
		{"PATCHBAY_XIAOZHI_JOIN=mqtt://mqtt.example.org PATCHBAY_XIAOZHI_AUDIO=:8884", "MQTT for boards",
			"ok boards connect to port 1883"},
		{"PATCHBAY_XIAOZHI_JOIN=mqtts://mqtt.example.org PATCHBAY_XIAOZHI_AUDIO=:8884", "MQTT for boards",
			"ok boards connect to port 8883 with TLS"},
		{"PATCHBAY_XIAOZHI_FIRMWARE=" + filepath.Join(folder, "none"), "firmware for boards",
			"fail no such file or folder: "},
		{"PATCHBAY_XIAOZHI_FIRMWARE=" + t.TempDir(), "firmware for boards", "warn there is none in "},
		{"PATCHBAY_XIAOZHI_FIRMWARE=" + folder, "firmware for boards", "warn bread-v2.bin is offered to no board"},
		{"PATCHBAY_XIAOZHI_FIRMWARE=" + folder, "firmware for boards", "warn lamp-1.0.bin is offered to no board"},
		{"PATCHBAY_XIAOZHI_FIRMWARE=" + folder, "firmware for boards", "ok files: 1 "},
	} {
		d := *desk
		d.t = t
		d.env = append(append(desk.env[:len(desk.env):len(desk.env)], "PATCHBAY_LISTEN=127.0.0.1:0"),
			strings.Fields(c.env)...)
		got := d.found(c.check)
		if !strings.Contains("\n"+got, "\n"+c.want) {
			t.Errorf("with %q %s is\n%s\nwant %q", c.env, c.check, got, c.want)
		}
	}
	// A running server is checked at its actual address, whatever the settings say now.
	running := *desk
	s := running.serve()
	running.env = append(running.env[:len(running.env):len(running.env)], "PATCHBAY_LISTEN=:3000")
	if got, want := running.found("address for boards"), "listens on "+strings.TrimPrefix(s.URL, "http://")+
		" only"; !strings.Contains(got, want) {
		t.Errorf("the address of a server that runs elsewhere is\n%s\nwant %q", got, want)
	}
	d := *desk
	d.env = append(desk.env[:len(desk.env):len(desk.env)], "PATCHBAY_XIAOZHI_FIRMWARE="+folder)
	if got := d.found("firmware for boards"); strings.Contains(got, ".hidden") || strings.Count(got, "warn") != 4 {
		t.Errorf("the folder of firmware is said to be\n%s", got)
	}
}
