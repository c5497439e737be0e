package test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"patchbay/internal/control"
	"patchbay/internal/plug/openai/openaitest"
	"patchbay/internal/plug/openclaw/openclawtest"
	glasses "patchbay/internal/plug/rokid/sim"
	"patchbay/internal/plug/xiaozhi/sim"
	"patchbay/internal/proxytest"
	"patchbay/internal/store"
	"patchbay/internal/talk"
)

// connected is a real OpenClaw in which our connector is installed, with a server of ours that it
// connects to by a proxy.
type connected struct {
	*clawAgent
	proxy  *proxytest.Proxy
	listen string
}

// Our connector in a real OpenClaw: it is installed by the commands that people are given, its
// agent answers glasses, and an answer survives what happens to the connection.
func TestOpenClawConnector(t *testing.T) {
	if testing.Short() {
		t.Skip("starts OpenClaw")
	}
	openclawtest.LoadSchema(t) // skips the test without it
	o := &connected{clawAgent: &clawAgent{t: t}, listen: freeAddress(t)}
	model, err := openaitest.Start()
	must(t, err)
	t.Cleanup(model.Close)
	model.Answer = o.think
	o.gateway = openclawtest.Gateway(t, openclawtest.Options{Model: model.URL, Settings: sharpEyed()})
	o.proxy = proxytest.New(t, o.listen)
	o.boardServer = &boardServer{t: t, installation: newInstallation(store.Options{Folder: t.TempDir()},
		"PATCHBAY_PUBLIC_URL=http://"+o.proxy.Addr(), "PATCHBAY_XIAOZHI_MQTT=127.0.0.1:0",
		"PATCHBAY_XIAOZHI_AUDIO=127.0.0.1:0")}
	patchbay() // is built first
	w := startStopwatch()
	o.run(t, "user", "add", "ada")
	o.server = o.serve(t, "--listen", o.listen)
	if !t.Run("is installed", func(t *testing.T) { o.isInstalled(t, w) }) ||
		!t.Run("first answer", func(t *testing.T) { o.firstAnswer(t, w) }) {
		return
	}
	var key addedKey
	o.json(t, &key, "key", "add", "--name", "admin", "--scope", "admin")
	o.key = key.Key
	o.speaker = o.online(limited(t, time.Minute), "Speaker", "websocket", sim.Options{})
	o.awake(t)
	t.Run("streams", o.streams)
	t.Run("remembers", o.remembers)
	t.Run("disconnected", o.disconnected)
	t.Run("interrupted", o.interrupted)
	t.Run("sees", o.sees)
	t.Run("commands", o.commands)
	t.Run("photographs", o.photographs)
	t.Run("calls", o.calls)
	t.Run("doctor", o.looksGood)
	t.Run("fails", o.fails)
	t.Run("line cut", o.lineCut)
	t.Run("line silent", o.lineSilent)
	t.Run("server restarts", o.serverRestarts)
	t.Run("server killed", o.serverKilled)
	t.Run("plugin restarts", o.pluginRestarts)
	t.Run("key replaced", o.keyReplaced)
}

// awaitBot waits until the bot is connected, or is not.
func (o *connected) awaitBot(t *testing.T, connected bool) (b control.BotStatus) {
	t.Helper()
	waitWithin(t, 2*time.Minute, fmt.Sprintf("the bot is connected: %t", connected), func() bool {
		decodeJSON(t, o.run(t, "bot", "show", "1", "--json"), &b)
		return b.Connections > 0 == connected
	})
	return b
}

// worn returns simulated glasses.
func (o *connected) worn(user string) *glasses.Glasses {
	g := glasses.New(glasses.Options{URL: o.url + "/sse/rokid", Key: o.glasses, AgentID: "1", UserID: user,
		Timeout: 2 * time.Minute})
	o.t.Cleanup(g.Close)
	return g
}

// toolCall is a model's call of one of OpenClaw's tools, which it finds in a catalogue.
func toolCall(name string, args any) []openaitest.Step {
	arguments, _ := json.Marshal(args)
	return openaitest.CallInPieces(0, "call_1", name, string(arguments))
}

// commands has the agent give each command to the glasses that they know.
func (o *connected) commands(t *testing.T) {
	g := o.worn("U2")
	for _, c := range []struct {
		words string
		args  given
		want  talk.Command
	}{
		{"take me to the zoo", given{"action": "open", "poi_name": "Zoo", "navi_type": "walk"},
			talk.Command{Name: talk.CommandNavigate,
				Args: map[string]string{"action": "open", "poi_name": "Zoo", "navi_type": "1"}}},
		{"do not lead me any more", given{"action": "close"},
			talk.Command{Name: talk.CommandNavigate, Args: map[string]string{"action": "close"}}},
		{"remind me of the dentist", given{"action": "create", "title": "Dentist", "start_time": "2026-12-01T09:30:00"},
			talk.Command{Name: talk.CommandCalendar, Args: map[string]string{"action": "create", "title": "Dentist",
				"start_time": "2026-12-01 09:30", "end_time": "2026-12-01 10:30"}}},
		{"that is all for today", given{}, talk.Command{Name: talk.CommandLeave}},
	} {
		a := o.commanded(t, g, c.words, c.want.Name, c.args)
		if !reflect.DeepEqual(a.Commands, []talk.Command{c.want}) || !strings.Contains(a.Text, "sent to the device") {
			t.Errorf("%s: %+v %q", c.words, a.Commands, a.Text)
		}
	}
	// The agent is told what is wrong with a command, and the glasses get nothing.
	a := o.commanded(t, g, "remind me of nothing", talk.CommandCalendar,
		given{"action": "create", "title": "", "start_time": "2026-12-01 09:30"})
	if len(a.Commands) > 0 || !strings.Contains(a.Text, "title is missing") {
		t.Errorf("%+v %q", a.Commands, a.Text)
	}
}

// commanded asks with the glasses, for which the agent calls the tool of a command.
func (o *connected) commanded(t *testing.T, g *glasses.Glasses, words, tool string, args given) glasses.Answer {
	t.Helper()
	o.reply(words, answers(toolCall("tool_call", given{"id": tool, "args": args})...))
	a, err := g.Ask(t.Context(), words, nil)
	must(t, err)
	if len(a.Violations) > 0 {
		t.Errorf("%s: %q", words, a.Violations)
	}
	return a
}

// photographs has the agent ask the glasses for a photo. They send it as their next turn, in which
// the model sees it, in the conversation that it was asked for in.
func (o *connected) photographs(t *testing.T) {
	const words, photo = "what is on this shelf", "Look at the picture"
	g := o.worn("U3")
	a := o.commanded(t, g, words, talk.CommandTakePhoto, given{})
	if !reflect.DeepEqual(a.Commands, []talk.Command{{Name: talk.CommandTakePhoto}}) {
		t.Fatalf("%+v %q", a.Commands, a.Text)
	}
	o.reply(photo, answers(openaitest.Text("Three books.")))
	a, err := g.Photo(t.Context(), boardPicture(t), nil)
	must(t, err)
	if a.Text != "Three books." || len(a.Violations) > 0 {
		t.Errorf("%q %q", a.Text, a.Violations)
	}
	asked := o.asked(photo)
	if len(asked) != 1 {
		t.Fatalf("the model was shown it %d times", len(asked))
	}
	if body := string(asked[0].Body); !strings.Contains(body, "data:image/") || !strings.Contains(body, words) {
		t.Error("the model has not seen the photo, or does not know what it was for")
	}
}

// calls has the agent turn the volume of a board.
func (o *connected) calls(t *testing.T) {
	const name = "speaker_self_audio_speaker_set_volume"
	o.awake(t)
	call := func(words string, volume int) string {
		o.reply(words, answers(toolCall("tool_call", given{"id": "patchbay_call",
			"args": given{"name": name, "arguments": given{"volume": volume}}})...))
		return o.answer(t, words, words)
	}
	if a := call("make it quiet", 11); o.speaker.Volume() == 11 {
		t.Errorf("it called what nobody has allowed: %q", a)
	}
	o.run(t, "bot", "set", "1", "allow_tools="+name)
	if a := call("make it loud", 46); o.speaker.Volume() != 46 {
		t.Errorf("the volume is %d: %q", o.speaker.Volume(), a)
	}
	var all struct{ Calls []control.Call }
	must(t, o.boardServer.ask(ctx, http.MethodGet, "/api/v1/calls", nil, &all))
	if !slices.ContainsFunc(all.Calls, func(c control.Call) bool {
		return strings.HasSuffix(c.Tool, name) && c.Channel == "bot" && c.Outcome == "done"
	}) {
		t.Errorf("the trail has %+v", all.Calls)
	}
}

// fails has the model refuse.
func (o *connected) fails(t *testing.T) {
	o.reply("fail with 400", openaitest.Reply{Status: http.StatusBadRequest, Message: "no such thing"})
	if a := o.answer(t, "fails", "fail with 400"); a == "" {
		t.Error("nothing is said of a model that refuses")
	} else {
		t.Logf("glasses heard %q", a)
	}
}

// looksGood checks what is said of a bot that is well.
func (o *connected) looksGood(t *testing.T) {
	if b := o.awaitBot(t, true); b.Gateway != "2026.9.6" {
		t.Errorf("%+v", b)
	}
	out, _ := o.command("doctor", "--json").Output() // other checks may fail
	var findings []struct{ Check, State, Found string }
	decodeJSON(t, string(out), &findings)
	if !slices.ContainsFunc(findings, func(f struct{ Check, State, Found string }) bool {
		return strings.HasPrefix(f.Check, "bot 1") && f.State == "ok"
	}) {
		t.Errorf("%+v", findings)
	}
}

// broken begins an answer, breaks something in its middle, and returns what the glasses heard.
func (o *connected) broken(t *testing.T, words string, breaks func()) *asking {
	t.Helper()
	goOn := make(chan struct{})
	o.reply(words, answers(openaitest.Text("One, "), openaitest.Wait(goOn), openaitest.Text("two, "),
		openaitest.Text("three.")))
	a := o.begin(t, words, words)
	a.hears(t, "One,")
	breaks()
	close(goOn)
	<-a.done
	return a
}

// lineCut cuts the connection in mid-answer.
func (o *connected) lineCut(t *testing.T) {
	before := o.metric("patchbay_cable_frames_total")
	if a := o.broken(t, "count across a cut", o.proxy.Drop); a.err != nil || a.text != "One, two, three." {
		t.Errorf("%q (%v)", a.text, a.err)
	}
	if o.metric("patchbay_cable_frames_total") == before {
		t.Error("nothing went over the connection")
	}
}

// lineSilent has the connection lose everything from now on, without either side being told.
func (o *connected) lineSilent(t *testing.T) {
	began := time.Now()
	a := o.broken(t, "count across a silence", o.proxy.MuteExisting)
	if a.err != nil || !strings.HasSuffix(a.text, "two, three.") || !strings.HasPrefix(a.text, "One,") {
		t.Errorf("%q (%v)", a.text, a.err)
	}
	t.Logf("it took %v: %q", time.Since(began).Round(time.Second), a.text)
}

// serverRestarts restarts the server in mid-answer: the answer ends before, and the connector comes
// back by itself.
func (o *connected) serverRestarts(t *testing.T) {
	stopped := make(chan error, 1)
	a := o.broken(t, "count across a restart", func() { go func() { stopped <- o.server.stop() }() })
	if a.err != nil || a.text != "One, two, three." {
		t.Errorf("%q (%v)", a.text, a.err)
	}
	must(t, <-stopped)
	o.server = o.serve(o.t, "--listen", o.listen)
	began := time.Now()
	o.awaitBot(t, true)
	t.Logf("it was back after %v", time.Since(began).Round(time.Millisecond))
	o.reply("still there", answers(openaitest.Text("Still here.")))
	if a := o.answer(t, "restarted", "still there?"); a != "Still here." {
		t.Errorf("%q", a)
	}
}

// serverKilled kills the server in mid-answer: the agent goes on, and what it says then is told at
// the next turn.
func (o *connected) serverKilled(t *testing.T) {
	a := o.broken(t, "count across a kill", o.server.kill)
	if strings.Contains(a.text, "three.") {
		t.Errorf("%q (%v)", a.text, a.err)
	}
	o.server = o.serve(o.t, "--listen", o.listen)
	o.awaitBot(t, true)
	o.reply("what was it", answers(openaitest.Text("Nothing.")))
	waitWithin(t, time.Minute, "the rest is told", func() bool {
		return strings.Contains(o.answer(t, "killed", "what was it?"), "three.")
	})
}

// pluginRestarts reloads the plugin while it answers: OpenClaw lets the answer end.
func (o *connected) pluginRestarts(t *testing.T) {
	reloaded := make(chan error, 1)
	a := o.broken(t, "count across a reload", func() {
		go func() {
			_, err := o.gateway.Shell(t, "openclaw plugins reload patchbay")
			reloaded <- err
		}()
	})
	if a.err != nil || !strings.HasPrefix(a.text, "One, ") || a.text == "One, " {
		t.Errorf("%q (%v)", a.text, a.err)
	}
	must(t, <-reloaded)
	o.awaitBot(t, true)
	o.reply("and now", answers(openaitest.Text("Again here.")))
	waitWithin(t, 2*time.Minute, "the agent answers again", func() bool {
		return o.answer(t, "reloaded", "and now?") == "Again here."
	})
}

// keyReplaced replaces the key: the old one is refused, and the new one is all that has to be set.
func (o *connected) keyReplaced(t *testing.T) {
	out := o.run(t, "bot", "rotate", "1")
	o.awaitBot(t, false)
	at := strings.Index(out, "openclaw config set")
	if at < 0 {
		t.Fatalf("people are told %q", out)
	}
	_, err := o.gateway.Shell(t, out[at:])
	must(t, err)
	o.awaitBot(t, true)
	o.reply("a new key", answers(openaitest.Text("It fits.")))
	if a := o.answer(t, "key", "a new key"); a != "It fits." {
		t.Errorf("%q", a)
	}
}
