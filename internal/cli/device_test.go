package cli

import (
	"strings"
	"testing"
	"time"

	"patchbay/internal/account"
	"patchbay/internal/app"
	"patchbay/internal/control"
	"patchbay/internal/hub/hubtest"
	"patchbay/internal/store"
)

const kitchenMAC = "aa:bb:cc:00:00:01"

// shows makes a device request a pairing code, and returns the code.
func shows(t *testing.T, b *app.Base, hardware, client string) string {
	t.Helper()
	_, code, err := b.Accounts.DeviceSeen(t.Context(), store.DeviceCall{
		Kind: "xiaozhi", Hardware: hardware, Client: client,
		Article: "bread-compact", Version: "2.0.3", Address: "192.0.2.7",
	})
	if err != nil || code == "" {
		t.Fatalf("%s shows %q (%v)", hardware, code, err)
	}
	return code
}

// withKitchen returns a desk with a person, a bot, and a device named kitchen.
func withKitchen(t *testing.T) (*desk, *app.Base) {
	t.Helper()
	d := withParrot(t, "PATCHBAY_SECRET="+hubtest.Secret)
	b := d.base()
	p, err := b.Store.People.ByName(t.Context(), "ada")
	if err != nil {
		t.Fatal(err)
	}
	// In the past, so that no server waits for the device to connect.
	past := account.New(b.Store, b.Box, func() time.Time { return time.Now().Add(-time.Minute) })
	if _, err := past.ApproveDevice(t.Context(), account.NewDevice{Person: p.ID,
		Code: shows(t, b, kitchenMAC, "client-1"), Name: "kitchen"}); err != nil {
		t.Fatal(err)
	}
	return d, b
}

func TestDeviceCommands(t *testing.T) {
	d := withParrot(t)
	b := d.base()
	if got := d.ok("device", "list"); !strings.Contains(got, "no devices yet") {
		t.Errorf("an empty list is %q", got)
	}
	if got := d.ok("device", "list", "--waiting"); got != "No device shows a pairing code.\n" {
		t.Errorf("without one that waits the list is %q", got)
	}
	code := shows(t, b, kitchenMAC, "client-1")
	var waiting control.Waiting
	d.json(&waiting, "device", "list", "--waiting")
	if waiting.Count != 1 || waiting.Devices[0].Hardware != kitchenMAC {
		t.Errorf("waiting are %+v", waiting)
	}
	if got := d.ok("device", "list", "--waiting"); !strings.Contains(got, "1   "+kitchenMAC+"  bread-compact") ||
		strings.Contains(got, code) {
		t.Errorf("the list of those that wait is\n%s", got)
	}

	if got := d.ok("device", "approve", code[:3], code[3:]); !strings.Contains(got,
		"Device 1 (bread-compact 0001) now belongs to ada.") || !strings.Contains(got, "device bind 1 BOT") {
		t.Errorf("approve says %q", got)
	}
	if got := d.ok("device", "rename", "1", "kitchen"); got != "Device 1 is now called kitchen.\n" {
		t.Errorf("rename says %q", got)
	}
	if got := d.ok("device", "bind", "AABBCC000001",
		"parrot"); !strings.HasPrefix(got, "The bot parrot answers device 1 (kitchen) now.\nIt cannot talk yet: no ") {
		t.Errorf("bind says %q", got)
	}
	if got := d.ok("device", "set", "kitchen", "transport=mqtt"); !strings.Contains(got, "mqtt") {
		t.Errorf("set says %q", got)
	}
	if got := d.ok("device", "set", "kitchen", "room= my kitchen "); got != "Device 1 (kitchen) is in this room now: my kitchen.\n" {
		t.Errorf("set says %q", got)
	}
	var row deviceRow
	d.json(&row, "device", "approve", shows(t, b, "aa:bb:cc:00:00:02", "client-2"), "--name", "bath", "--room", "upstairs",
		"--bot", "1")
	if row.Number != 2 || row.Room != "upstairs" || row.BotName != "parrot" || row.OwnerName != "ada" || row.Online != nil ||
		row.Mute != control.MuteEngines {
		t.Errorf("approved is %+v", row)
	}
	var rows []deviceRow
	d.json(&rows, "device", "list")
	if len(rows) != 2 || rows[0].Transport != "mqtt" || rows[0].BotName != "parrot" || rows[1].Name != "bath" {
		t.Errorf("listed are %+v", rows)
	}
	if got := d.ok("device", "list"); !strings.Contains(got, "1   kitchen  my kitchen  ada    parrot  mqtt       –      2.0.3") {
		t.Errorf("the list is\n%s", got)
	}
	var view deviceView
	d.json(&view, "device", "show", "kitchen")
	if view.Hardware != kitchenMAC || view.Address != "192.0.2.7" || view.Status != nil {
		t.Errorf("shown is %+v", view)
	}
	shown := d.ok("device", "show", "kitchen")
	for _, want := range []string{"Device 1: kitchen (xiaozhi, –)\n", "\n  owner      ada\n", "\n  room       my kitchen\n",
		"\n  hardware   " + kitchenMAC + "\n", "\n  transport  mqtt\n"} {
		if !strings.Contains(shown, want) {
			t.Errorf("%q is not in\n%s", want, shown)
		}
	}
	// Without a choice of the owner the server's transport is used, and not one named "default".
	if rows[1].Transport != "" || rows[1].Uses != "websocket" {
		t.Errorf("without a choice it is %+v", rows[1])
	}
	if got := d.ok("device", "list") + d.ok("device", "show", "bath"); strings.Count(got, "websocket") != 2 ||
		strings.Contains(got, "default") {
		t.Errorf("without a choice the list is\n%s", got)
	}
	// Without a server, it is unknown whether the device is asleep.
	for _, args := range [][]string{{"play", "kitchen", "http://127.0.0.1:1/bell.ogg"}, {"stop", "kitchen"},
		{"call", "kitchen", "status"}} {
		if o := d.do("", append([]string{"device"}, args...)...); o.code != exitFailed ||
			!strings.Contains(o.stderr, "only while a server runs") || !strings.Contains(o.stderr, "patchbay serve") ||
			strings.Contains(o.stderr, "asleep") {
			t.Errorf("%v says %+v", args, o)
		}
	}
	row = deviceRow{}
	if d.json(&row, "device", "bind", "kitchen", "none"); row.Bot != 0 {
		t.Errorf("unbound is %+v", row)
	}
	if d.json(&row, "device", "set", "kitchen", "transport=default", "--json"); row.Number != 1 {
		t.Errorf("set is %+v", row)
	}
	if got := d.ok("device", "set", "kitchen", "room=", "transport="); got != "Device 1 (kitchen) is in no room now.\n"+
		"Device 1 (kitchen) uses this transport after its next restart: default.\n" {
		t.Errorf("set says %q", got)
	}
	for _, secret := range []string{"client-1", "code_hash", code} {
		if all := shown + d.ok("device", "list", "--json") + d.ok("device", "show", "kitchen",
			"--json"); strings.Contains(all, secret) {
			t.Errorf("%q is told", secret)
		}
	}
	if o := d.do("n\n", "device", "rm", "bath"); o.code != exitFailed ||
		!strings.Contains(o.stderr, "Remove device 2 (bath)?") {
		t.Errorf("rm went on after no: %+v", o)
	}
	if got := d.ok("device", "rm", "bath", "--yes"); got != "Device 2 (bath) is removed.\n" {
		t.Errorf("rm says %q", got)
	}
	events, err := b.Store.AdminEvents.Newest(t.Context(), "", 9)
	if err != nil || len(events) != 9 || events[0].Action != control.EventDeviceRemoved ||
		events[0].About != "#2 bath (aa:bb:cc:00:00:02)" {
		t.Errorf("the journal has %+v (%v)", events, err)
	}
	d.env = append(d.env, "LC_ALL=zh_CN.UTF-8")
	if got := d.ok("device", "list"); !strings.Contains(got, "固件") || strings.Contains(got, "bath") {
		t.Errorf("the list in Chinese is\n%s", got)
	}
}

// A device that was erased shows a pairing code again; the command tells its owner.
func TestDeviceErased(t *testing.T) {
	d, b := withKitchen(t)
	code := shows(t, b, kitchenMAC, "client-2")
	if got := d.ok("device", "list"); !strings.Contains(got, "shows a pairing code") {
		t.Errorf("the list is\n%s", got)
	}
	if got := d.ok("device", "show", "kitchen"); !strings.Contains(got,
		"it was erased, or another device imitates it") {
		t.Errorf("it is shown as\n%s", got)
	}
	d.ok("device", "bind", "1", "parrot")
	d.env = append(d.env, "PATCHBAY_XIAOZHI_VOICE=repeat")
	if got := d.ok("device", "approve", code); !strings.Contains(got, "Device 1 (kitchen) now belongs to ada.\n"+
		"The bot parrot answers it.\nIt cannot talk: the configuration") {
		t.Errorf("approve says %q", got)
	}
}

func TestDeviceErrors(t *testing.T) {
	d, b := withKitchen(t)
	d.ok("user", "add", "bob", "--role", "member")
	d.ok("bot", "add", "--name", "bobs", "--kind", "echo", "--user", "bob")
	d.ok("device", "approve", shows(t, b, "aa:bb:cc:00:00:02", "client-2"), "--user", "bob", "--name", "lamp")
	erased := shows(t, b, kitchenMAC, "client-3")
	for _, c := range []struct {
		code int
		args []string
		want []string
	}{
		{exitFailed, []string{"approve", "12x456", "--user", "ada"},
			[]string{"no device shows this code", "read it from the device again"}},
		{exitFailed, []string{"approve", erased, "--user", "bob"}, []string{"belongs to somebody else", "device rm"}},
		{exitFailed, []string{"approve", erased, "--user", "ada", "--bot", "bobs"}, []string{`no bot "bobs"`}},
		{exitFailed, []string{"approve", erased, "--user", "ada", "--name", strings.Repeat("x", 61)},
			[]string{"60 characters"}},
		{exitFailed, []string{"approve", erased}, []string{"--user NAME"}},
		{exitFailed, []string{"show", "nothing"}, []string{`no device "nothing"`, "device list"}},
		{exitFailed, []string{"bind", "kitchen", "bobs"}, []string{`no bot "bobs"`, "bot list"}},
		{exitFailed, []string{"rename", "kitchen", ""}, []string{"cannot be empty"}},
		{exitFailed, []string{"rm", "kitchen"}, []string{"nothing was removed", "--yes"}},
		{exitUsage, []string{"set", "kitchen", "transport=pigeon"}, []string{`"pigeon"`, "websocket, mqtt or default"}},
		{exitUsage, []string{"set", "kitchen", "color=red"}, []string{`"color"`, "transport"}},
		{exitUsage, []string{"set", "kitchen"}, []string{"<k=v>"}},
		{exitFailed, []string{"tools", "kitchen"}, []string{"only while a server runs", "patchbay serve"}},
		{exitFailed, []string{"call", "kitchen", "status"}, []string{"only while a server runs"}},
		{exitFailed, []string{"play", "kitchen", "device_test.go"}, []string{"no Ogg, WAV or MP3", "ffmpeg"}},
		{exitFailed, []string{"play", "kitchen", "/does/not/exist"}, []string{"/does/not/exist"}},
		{exitUsage, []string{"record", "kitchen"}, []string{"--out"}},
		{exitUsage, []string{"record", "kitchen", "--out", "x", "--seconds", "0"}, []string{"--seconds is 0"}},
		{exitUsage, []string{"call", "kitchen", "status", "--wait", "-1s"}, []string{"--wait"}},
		{exitUsage, []string{"listen", "kitchen", "--json"}, []string{"--out FILE"}},
		{exitUsage, []string{"alert", "kitchen", "title"}, []string{"<text>"}},
	} {
		d.failing(c.code, "", append([]string{"device"}, c.args...), c.want...)
	}
	d.ok("device", "rename", "lamp", "kitchen")
	d.failing(exitFailed, "", []string{"device", "show", "kitchen"}, "several people", "number")
	d.ok("device", "show", "2")
}
