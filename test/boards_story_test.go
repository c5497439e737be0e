package test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"patchbay/internal/plug/mcp/mcptest"
	"patchbay/internal/plug/xiaozhi/sim"
)

// sixDigits matches the code that a board shows while it waits for its owner.
var sixDigits = regexp.MustCompile(`\b\d{6}\b`)

// showsCode waits until a board shows a code.
func showsCode(t *testing.T, b *sim.Board) string {
	t.Helper()
	v, err := b.Await(limited(t, 20*time.Second), func(v sim.View) bool {
		return v.State == sim.Activating &&
			sixDigits.MatchString(v.Displayed)
	})
	must(t, err)
	return sixDigits.FindString(v.Displayed)
}

// tools returns a device's tools by their own names.
func (h *boardServer) tools(device string) map[string]boardTool {
	h.t.Helper()
	var list []boardTool
	h.json(h.t, &list, "device", "tools", device)
	out := map[string]boardTool{}
	for _, x := range list {
		out[x.Own] = x
	}
	return out
}

// fails runs a command that must fail with the given text.
func (h *boardServer) fails(want string, args ...string) {
	h.t.Helper()
	if out, err := h.try(args...); err == nil || !strings.Contains(out, want) {
		h.t.Errorf("patchbay %s: %q (%v), want %q", strings.Join(args, " "), out, err, want)
	}
}

// says runs a command that must print the given text.
func (h *boardServer) says(want string, args ...string) {
	h.t.Helper()
	if out := h.run(h.t, args...); !strings.Contains(out, want) {
		h.t.Errorf("patchbay %s: %q, want %q", strings.Join(args, " "), out, want)
	}
}

// A board shows a code, its owner enters it, and then calls the board's tools from a terminal and
// with an assistant, as the rules allow.
func TestBoardStory(t *testing.T) {
	t.Parallel()
	h := newBoardServer(t)
	limit := limited(t, 60*time.Second)
	picture := boardPicture(t)
	b := h.board(sim.Options{Picture: picture, Profile: sim.FW25})
	h.says("There are no devices", "device", "list")
	booted := make(chan error, 1)
	go func() { booted <- b.Boot(limit) }()
	code := showsCode(t, b)
	h.says(b.MAC(), "device", "list", "--waiting")
	h.fails("no device shows this code", "device", "approve", "000000")
	h.says("Device 1 (Kitchen) now belongs to ada.", "device", "approve", code, "--name", "Kitchen")
	must(t, <-booted)
	h.says("asleep", "device", "show", "Kitchen")
	h.fails("asleep", "device", "call", "Kitchen", "self.audio_speaker.set_volume", "volume=30")

	must(t, h.wake(limit, b))
	h.says("online", "device", "show", "Kitchen")
	h.says("online", "device", "list")
	h.says("true", "device", "call", "Kitchen", "self.audio_speaker.set_volume", "volume=30")
	if v := b.Volume(); v != 30 {
		t.Errorf("the volume is %d", v)
	}
	h.fails("100", "device", "call", "Kitchen", "self.audio_speaker.set_volume", "volume=101")
	file := filepath.Join(t.TempDir(), "photo.jpg")
	h.run(t, "device", "call", "Kitchen", "self.camera.take_photo", "question=What is there?", "--out", file)
	if got, err := os.ReadFile(file); err != nil || !bytes.Equal(got, picture) {
		t.Errorf("the photo has %d bytes (%v)", len(got), err)
	}
	tools := h.tools("Kitchen")
	assisted := false // not without Node.js
	t.Run("assistant", func(t *testing.T) { h.assistant(t, b, tools); assisted = true })
	t.Run("rules", func(t *testing.T) { h.boardRules(t, b, tools) })
	t.Run("trail", func(t *testing.T) { h.boardTrail(t, assisted) })
	t.Run("changes", func(t *testing.T) { h.boardChanges(t, b) })
}

// assistant runs a program that uses the official TypeScript SDK.
func (h *boardServer) assistant(t *testing.T, b *sim.Board, tools map[string]boardTool) {
	h.t = t
	var key addedKey
	h.json(t, &key, "key", "add", "--name", "assistant", "--scope", "mcp",
		"--deny-tool", tools["self.screen.set_theme"].Name)
	peer := mcptest.TypeScript(t, "streamable", h.url+"/mcp", key.Key)
	var listed []struct{ Name string }
	must(t, peer.Do("list", nil).Decode("tools", &listed))
	for own, want := range map[string]bool{
		"self.audio_speaker.set_volume": true, "self.camera.take_photo": true, "show": true, "play": true,
		"status":                true,
		"self.screen.set_theme": false, "self.reboot": false, "self.upgrade_firmware": false, "reboot": false,
	} {
		if tools[own].Name == "" {
			t.Errorf("there is no %s", own)
		}
		if got := slices.ContainsFunc(listed,
			func(x struct{ Name string }) bool { return x.Name == tools[own].Name }); got != want {
			t.Errorf("%s is listed: %t", own, got)
		}
	}
	if got := peer.Call(tools["self.audio_speaker.set_volume"].Name, given{"volume": 55}); got.Text() != "true" ||
		b.Volume() != 55 {
		t.Errorf("the volume is %d, and it says %q", b.Volume(), got.Text())
	}
	var photo called
	must(t, peer.Call(tools["self.camera.take_photo"].Name, given{"question": "What is there?"}).Decode("result",
		&photo))
	if !bytes.Equal(photo.data(t, "image"), boardPicture(t)) {
		t.Error("it is another photo")
	}
	for _, own := range []string{"self.reboot", "reboot", "self.upgrade_firmware", "self.screen.set_theme"} {
		e := peer.Finish(peer.Start("call", given{"name": tools[own].Name, "args": given{"theme": "dark"}}))
		var said called
		if e.Name() != "failed" && (e.Decode("result", &said) != nil || !said.IsError) {
			t.Errorf("%s gives %v", own, e)
		}
	}
	if v := b.View(); v.Theme == "dark" || b.Report().Boots != 1 {
		t.Errorf("what was refused was done: %+v, %d starts", v, b.Report().Boots)
	}
}

// boardRules checks that dangerous tools are refused until they are allowed.
func (h *boardServer) boardRules(t *testing.T, b *sim.Board, tools map[string]boardTool) {
	h.t = t
	limit := limited(t, 30*time.Second)
	for _, own := range []string{"reboot", "self.reboot", "self.upgrade_firmware"} {
		if tools[own].State != "dangerous" {
			t.Errorf("%s: %+v", own, tools[own])
		}
	}
	h.fails("allow", "device", "reboot", "Kitchen")
	h.fails("allow", "device", "call", "Kitchen", "self.reboot")
	name := tools["show"].Name
	h.run(t, "tool", "deny", name)
	h.until("a rule is heard of", func() bool { return h.tools("Kitchen")["show"].State == "denied" })
	h.fails("not allowed", "device", "display", "Kitchen", "hello")
	h.run(t, "tool", "reset", name)
	h.until("a rule is heard of", func() bool { return h.tools("Kitchen")["show"].State == "allowed" })
	h.run(t, "device", "display", "Kitchen", "hello")
	_, err := b.Await(limit, func(v sim.View) bool { return v.Displayed == "hello" })
	must(t, err)

	for boots, own := range []string{"self.reboot", "reboot"} {
		h.run(t, "tool", "allow", tools[own].Name)
		h.until("a rule is heard of", func() bool { return h.tools("Kitchen")[own].State == "allowed" })
		h.run(t, "device", "call", "Kitchen", own)
		h.until("the board has started again", func() bool { return b.Report().Boots == boots+2 && settled(b.View()) })
		must(t, b.Wake(limit))
	}
}

// boardTrail checks that the calls are in the audit trail.
func (h *boardServer) boardTrail(t *testing.T, assisted bool) {
	h.t = t
	var calls []struct {
		Tool, Outcome, Channel, Code string
		KeyName                      string `json:"key_name"`
	}
	h.json(t, &calls, "calls", "--limit", "1000")
	seen := map[string]int{}
	for _, c := range calls {
		seen[fmt.Sprintf("%s %s %s", c.Tool[strings.Index(c.Tool, "_")+1:], c.KeyName, c.Outcome)]++
	}
	wanted := []string{"self_audio_speaker_set_volume  done", "self_audio_speaker_set_volume  refused",
		"self_reboot  refused", "self_reboot  done", "show  refused", "show  done"}
	if assisted {
		wanted = append(wanted, "self_audio_speaker_set_volume assistant done", "self_camera_take_photo assistant done",
			"self_reboot assistant refused", "reboot assistant refused", "self_screen_set_theme assistant refused")
	}
	for _, want := range wanted {
		if seen[want] == 0 {
			t.Errorf("the trail has no %q: %v", want, seen)
		}
	}
}

// boardChanges renames the board, binds and removes it.
func (h *boardServer) boardChanges(t *testing.T, b *sim.Board) {
	h.t = t
	limit := limited(t, 30*time.Second)
	h.run(t, "bot", "add", "--name", "parrot", "--kind", "echo")
	h.says("The bot parrot answers device 1 (Kitchen) now.", "device", "bind", "Kitchen", "parrot")
	h.says("parrot", "device", "show", "Kitchen")
	h.says("Device 1 is now called Bath.", "device", "rename", "Kitchen", "Bath")
	h.until("its tools have the new name", func() bool {
		return strings.HasPrefix(h.tools("Bath")["status"].Name,
			"bath_")
	})
	h.says("true", "device", "call", "Bath", "self.audio_speaker.set_volume", "volume=31")
	h.says("is removed", "device", "rm", "Bath", "--yes")
	_, err := b.Await(limit, settled) // the server disconnects it
	must(t, err)
	h.fails("no device", "device", "call", "Bath", "self.audio_speaker.set_volume", "volume=32")
	if err := b.Wake(limit); err == nil {
		t.Error("a board that was removed can talk")
	}
	pleased(t, b)
	again := make(chan error, 1)
	go func() { again <- b.Boot(limit) }()
	h.says("Device 2 (Kitchen) now belongs to ada.", "device", "approve", showsCode(t, b), "--name", "Kitchen")
	must(t, <-again)
	must(t, h.wake(limit, b))
	h.says("true", "device", "call", "Kitchen", "self.audio_speaker.set_volume", "volume=33")
}
