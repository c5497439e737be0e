package test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"patchbay/internal/control"
	"patchbay/internal/plug/openai/openaitest"
	"patchbay/internal/plug/openclaw/openclawtest"
	"patchbay/internal/plug/openclaw/wire"
	"patchbay/internal/plug/xiaozhi/sim"
)

// A real OpenClaw gateway with the certificate that it has made itself: a board that joins it and a
// bot that its agent answers are refused until a person has accepted the fingerprint, and again
// when the certificate has been replaced.
func TestOpenClawCertificate(t *testing.T) {
	if testing.Short() {
		t.Skip("starts OpenClaw")
	}
	model, err := openaitest.Start()
	must(t, err)
	t.Cleanup(model.Close)
	model.Answer = func(*openaitest.Request) openaitest.Reply { return answers(openaitest.Text("It is me.")) }
	c := &clawCertificate{clawAgent: &clawAgent{t: t}}
	c.gateway = openclawtest.Gateway(t, openclawtest.Options{Model: model.URL, TLS: true,
		Allow: []string{"mcp.tools.call"}})
	c.boardServer = newBoardServer(t, "PATCHBAY_XIAOZHI_SILENCE=1h") // OpenClaw may take long to start again
	c.speaker = c.online(limited(t, time.Minute), "Speaker", "websocket", sim.Options{})
	c.awake(t)
	var glasses addedKey
	c.json(t, &glasses, "key", "add", "--name", "glasses", "--scope", "lingzhu")
	c.glasses = glasses.Key
	var bot addedBot
	c.json(t, &bot, "bot", "add", "--name", "claw", "--kind", "openclaw", "--set", "url="+c.gateway.URL,
		"--set", "token="+c.gateway.Token)
	c.bot = bot.ID
	for _, step := range []struct {
		name string
		run  func(*testing.T)
	}{
		{"refused", c.refused}, {"accepted", c.accepted}, {"replaced", c.replaced}, {"accepted anew", c.acceptedAnew},
	} {
		if !t.Run(step.name, step.run) {
			return
		}
	}
}

// clawCertificate is a real gateway with a certificate of its own, and a server of ours beside it.
type clawCertificate struct {
	*clawAgent
	first string // fingerprint of the certificate that OpenClaw has made
}

// fingerprint returns what the command prints that people are told to run on the gateway's machine.
func (c *clawCertificate) fingerprint(t *testing.T, command string) string {
	t.Helper()
	words := strings.Fields(command)
	if len(words) < 2 || words[0] != "openssl" {
		t.Fatalf("people are told to run %q", command)
	}
	for i, w := range words {
		words[i] = strings.Replace(w, "~", c.gateway.Home(), 1)
	}
	out, err := exec.Command(words[0], words[1:]...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", command, err, out)
	}
	_, text, _ := strings.Cut(string(out), "=")
	print, ok := wire.ParseFingerprint(text)
	if !ok {
		t.Fatalf("%s prints %s", command, out)
	}
	return print
}

// line returns the line of an output that begins with a word.
func line(t *testing.T, output, word string) string {
	t.Helper()
	for l := range strings.Lines(output) {
		if l = strings.TrimSpace(l); strings.HasPrefix(l, word) {
			return l
		}
	}
	t.Fatalf("no line begins with %q in\n%s", word, output)
	return ""
}

// obeyHere runs a command of ours that a message gives.
func (c *clawCertificate) obeyHere(t *testing.T, command string) {
	t.Helper()
	words := strings.Fields(command)
	if words[0] != "patchbay" {
		t.Fatalf("people are told to run %q", command)
	}
	c.run(t, words[1:]...)
}

// findings returns what doctor says about the gateway and the bot.
func (c *clawCertificate) findings(t *testing.T) (found []string) {
	t.Helper()
	out, _ := c.command("doctor", "--json").Output() // it fails while they are refused
	var all []struct{ Check, State, Found, Advice string }
	decodeJSON(t, string(out), &all)
	for _, f := range all {
		if strings.HasPrefix(f.Check, fmt.Sprint("bot ", c.bot)) || strings.Contains(f.Check, "at gateway home") {
			found = append(found, f.State+" "+f.Found+" "+f.Advice)
		}
	}
	return found
}

// mustFind fails unless doctor reports the board and the bot with all of the texts.
func (c *clawCertificate) mustFind(t *testing.T, texts ...string) {
	t.Helper()
	found := c.findings(t)
	if len(found) != 2 {
		t.Errorf("doctor says %q", found)
	}
	for _, f := range found {
		for _, text := range append(texts, "fail ") {
			if !strings.Contains(f, text) {
				t.Errorf("doctor says nothing of %q in %q", text, f)
			}
		}
	}
}

func (c *clawCertificate) refused(t *testing.T) {
	out := c.run(t, "shim", "add", "home", "--url", c.gateway.URL, "--token", c.gateway.Token, "--wait", "1m")
	c.first = c.fingerprint(t, line(t, out, "openssl "))
	if !strings.Contains(out, "certificate not accepted") || !strings.Contains(out, "\n  "+c.first+"\n") {
		t.Errorf("shim add says\n%s", out)
	}
	if n := c.joined(t, control.NodeUntrusted); n.Code != control.NodeUntrusted || n.Certificate == nil ||
		*n.Certificate != (control.Certificate{Shown: c.first}) || !strings.Contains(n.Problem, c.first) {
		t.Errorf("%+v", n)
	}
	if a := c.answer(t, "first", "who is there?"); !strings.Contains(a, "OpenClaw 网关的证书未被接受") {
		t.Errorf("glasses are told %q", a)
	}
	h := c.health(t)
	if h.Connections != 0 || h.Code != control.NodeUntrusted || h.Certificate == nil ||
		*h.Certificate != (control.Certificate{Shown: c.first}) {
		t.Errorf("%+v", h)
	}
	c.mustFind(t, c.first, "tls_fingerprint="+c.first)
	if list := c.run(t, "bot", "list"); !strings.Contains(list, "certificate not accepted") {
		t.Errorf("bot list says\n%s", list)
	}
}

// accepted runs the commands that were printed.
func (c *clawCertificate) accepted(t *testing.T) {
	c.obeyHere(t, line(t, c.run(t, "shim", "status", "home"), "patchbay shim set "))
	c.obeyHere(t, line(t, c.run(t, "bot", "show", fmt.Sprint(c.bot)), "patchbay bot set "))
	c.obey(t, c.joined(t, control.NodeApproval).Command)
	c.joined(t, control.UpstreamReady)
	c.works(t, 43)
}

// works uses the board at the gateway, and asks the gateway's agent.
func (c *clawCertificate) works(t *testing.T, volume int) {
	t.Helper()
	c.awake(t)
	params, err := json.Marshal(given{"name": "self.audio_speaker.set_volume", "arguments": given{"volume": volume}})
	must(t, err)
	out := c.gateway.CLI(t, "nodes", "invoke", "--node", "Speaker", "--command", "mcp.tools.call", "--json",
		"--params", string(params))
	if v := c.speaker.Volume(); v != volume {
		t.Errorf("the volume is %d: %s", v, out)
	}
	waitWithin(t, 2*time.Minute, "the agent answers", func() bool {
		return c.answer(t, fmt.Sprint("works ", volume), "who is there?") == "It is me."
	})
	if h := c.health(t); h.Connections != 1 || h.Code != "" || h.Certificate != nil {
		t.Errorf("%+v", h)
	}
	for _, f := range c.findings(t) {
		if strings.HasPrefix(f, "fail ") {
			t.Errorf("doctor says %s", f)
		}
	}
}

// replaced gives the gateway another certificate, as somebody in between would have.
func (c *clawCertificate) replaced(t *testing.T) {
	fresh := openclawtest.NewSelfMade(t)
	second := wire.Fingerprint(fresh.DER)
	cert, key := c.gateway.Files()
	fresh.Write(t, cert, key)
	waitWithin(t, 2*time.Minute, "the gateway has noticed its certificate, and restarts", func() bool {
		out, err := c.gateway.Shell(t, `openclaw gateway call gateway.restart.request --params '{"reason":"a test"}'`)
		return err == nil || !strings.Contains(out+err.Error(), "fingerprint mismatch")
	})
	want := control.Certificate{Shown: second, Pinned: c.first}
	n := c.joined(t, control.NodeChanged)
	if n.Code != control.NodeChanged || n.Certificate == nil || *n.Certificate != want ||
		!strings.Contains(n.Problem, c.first) || !strings.Contains(n.Problem, second) {
		t.Errorf("%+v", n)
	}
	if a := c.answer(t, "replaced", "who is there?"); !strings.Contains(a, "OpenClaw 网关的证书变了") {
		t.Errorf("glasses are told %q", a)
	}
	if h := c.health(t); h.Code != control.NodeChanged || h.Certificate == nil || *h.Certificate != want {
		t.Errorf("%+v", h)
	}
	status := c.run(t, "shim", "status", "home")
	if !strings.Contains(status, "certificate changed") || !strings.Contains(status, "\n  "+c.first+"\n") ||
		!strings.Contains(status, "\n  "+second+"\n") {
		t.Errorf("shim status says\n%s", status)
	}
	if got := c.fingerprint(t, line(t, status, "openssl ")); got != second {
		t.Errorf("the gateway's machine shows %s, not %s", got, second)
	}
	c.mustFind(t, c.first, second)
}

// acceptedAnew accepts the new certificate over the API.
func (c *clawCertificate) acceptedAnew(t *testing.T) {
	second := c.joined(t, control.NodeChanged).Certificate.Shown
	var all struct{ Upstreams []control.Upstream }
	must(t, c.boardServer.ask(ctx, http.MethodGet, "/api/v1/upstreams", nil, &all))
	set := given{"settings": given{"tls_fingerprint": second}}
	for _, path := range []string{fmt.Sprint("upstreams/", all.Upstreams[0].Number), fmt.Sprint("bots/", c.bot)} {
		must(t, c.boardServer.ask(ctx, http.MethodPatch, "/api/v1/"+path, set, new(given)))
	}
	c.joined(t, control.UpstreamReady)
	c.works(t, 44)
	c.server.stop() //nolint:errcheck // its log counts
	log := c.server.log()
	for _, level := range []string{"WARN", "ERROR"} {
		line := regexp.MustCompile("level=" + level + ` msg="openclaw: there is no connection to the gateway".* problem=certificate_`)
		if !line.MatchString(log) {
			t.Errorf("nothing about the certificate of level %s", level)
		}
	}
	if !strings.Contains(log, "fingerprint="+second+" pinned="+c.first) {
		t.Error("the log does not name both certificates")
	}
}
