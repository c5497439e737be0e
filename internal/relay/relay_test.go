package relay_test

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"patchbay/internal/proxytest"
	"patchbay/internal/relay"
	"patchbay/internal/relay/link"
	"patchbay/internal/relay/wire"
)

func stringReader(s string) io.Reader { return strings.NewReader(s) }

// mustAnswer asks a home and checks the answer.
func (r *rig) mustAnswer(name string) {
	r.t.Helper()
	got, err := ask(r.t, r.address, name, "what is the time")
	if err != nil || !strings.HasPrefix(got, name+" 192.0.0.8:") || !strings.HasSuffix(got, " what is the time") {
		r.t.Errorf("%s answers %q, %v", name, got, err)
	}
}

// Two homes behind one relay get what is theirs, and are back after each of the three was stopped.
func TestTwoHomes(t *testing.T) {
	r := newRig(t, relay.Limits{})
	anna, ben := r.newHome("anna"), r.newHome("ben")
	for range 5 {
		r.mustAnswer("anna")
		r.mustAnswer("ben")
	}

	anna.stop()
	r.mustAnswer("ben")
	anna.start()
	anna.linked()
	r.mustAnswer("anna")

	r.kill()
	r.start()
	anna.linked()
	ben.linked()
	r.mustAnswer("anna")
	r.mustAnswer("ben")
	s := ben.links.Status()[0]
	if s.Names[0] != "ben."+domain || s.Problem != nil {
		t.Errorf("%+v", s)
	}
	eventually(t, "the round trip is measured", func() bool { return ben.links.Status()[0].RoundTrip > 0 })
}

// Clients that come while their home or the relay is away for a moment wait for it.
func TestClientsWait(t *testing.T) {
	r := newRig(t, relay.Limits{})
	anna := r.newHome("anna")
	anna.stop()
	eventually(t, "the relay knows", func() bool { return r.gauge("patchbay_relay_homes") == 0 })
	answer := make(chan error, 1)
	go func() {
		_, err := ask(t, r.address, "anna", "hello")
		answer <- err
	}()
	eventually(t, "the client waits", func() bool { return r.gauge("patchbay_relay_streams") == 1 })
	anna.start()
	if err := <-answer; err != nil {
		t.Error(err)
	}
}

func (r *rig) gauge(name string) float64 {
	r.t.Helper()
	families, err := r.registry.Gather()
	if err != nil {
		r.t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == name {
			return f.GetMetric()[0].GetGauge().GetValue()
		}
	}
	return -1
}

// Large bodies pass in both directions at once, unchanged.
func TestLargeBodies(t *testing.T) {
	r := newRig(t, relay.Limits{})
	r.newHome("anna")
	body := make([]byte, 8<<20)
	for i := range body {
		body[i] = byte(rand.Uint32()) //nolint:gosec // no secret
	}
	resp, err := client(t, r.address).Post("https://anna."+domain+"/", "text/plain", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	if err != nil || len(got) < len(body) || sha256.Sum256(got[len(got)-len(body):]) != sha256.Sum256(body) {
		t.Errorf("%d bytes came back, %v", len(got), err)
	}
}

// Only a join code lets a home in, once, and a name stays with the home that has it.
func TestJoining(t *testing.T) {
	r := newRig(t, relay.Limits{})
	anna := r.newHome("anna")
	code := anna.code

	other := &atHome{t: t, name: "anna", to: anna.to, code: code}
	other.start()
	defer other.stop()
	other.refusedFor(wire.ReasonUsed)

	stranger := &atHome{t: t, name: "eve", to: anna.to, code: []wire.Code{{Relay: code[0].Relay, Secret: "x"}}}
	stranger.start()
	defer stranger.stop()
	stranger.refusedFor(wire.ReasonUnknown)

	// A home without a code does not even say who it is, since it does not know the relay.
	blind := &atHome{t: t, name: "eve", to: anna.to}
	blind.start()
	defer blind.stop()
	eventually(t, "it needs a code", func() bool { return says(blind, "has not joined") })

	// The code is not needed again.
	anna.stop()
	anna.code = nil
	anna.start()
	anna.linked()
	r.mustAnswer("anna")

	// A relay with another key is somebody else.
	r.kill()
	if err := os.Remove(filepath.Join(string(r.folder), "relay.key")); err != nil {
		t.Fatal(err)
	}
	r.start()
	eventually(t, "the relay is another one", func() bool { return says(anna, "another key") })
}

func says(h *atHome, text string) bool {
	err := h.links.Status()[0].Problem
	return err != nil && strings.Contains(err.Error(), text)
}

func (h *atHome) refusedFor(reason wire.Reason) {
	h.t.Helper()
	eventually(h.t, "refused: "+string(reason), func() bool {
		e, ok := errors.AsType[*link.RefusedError](h.links.Status()[0].Problem)
		return ok && e.Reason == reason
	})
}

// A removed home is cut off within a second, with its streams, and stays out.
func TestRevoke(t *testing.T) {
	r := newRig(t, relay.Limits{})
	anna := r.newHome("anna")
	_, stream := open(t, r.address, "anna")
	if err := r.folder.Revoke("anna"); err != nil {
		t.Fatal(err)
	}
	ended(t, stream)
	anna.refusedFor(wire.ReasonRevoked)
	r.alerted(clientHello(t, "anna."+domain), 112)
	if _, err := r.folder.Add(relay.Home{Name: "anna"}); err != nil {
		t.Error(err)
	}
}

// A later connection of an instance replaces the earlier one.
func TestReplaced(t *testing.T) {
	r := newRig(t, relay.Limits{})
	anna := r.newHome("anna")
	m, _ := anna.memory.Load(r.address)
	second := &atHome{t: t, name: "anna", to: anna.to}
	second.memory.Store(r.address, m)
	second.start()
	defer second.stop()
	second.linked()
	eventually(t, "the first one is thrown out", func() bool { return anna.links.Status()[0].Problem != nil })
	anna.stop()
	r.mustAnswer("anna")
}

// A link over a network that loses everything, without an error, is given up and made anew.
func TestSilence(t *testing.T) {
	r := newRig(t, relay.Limits{Ack: 300 * time.Millisecond})
	p := proxytest.New(t, r.address)
	anna := r.newHome("anna", p.Addr())
	r.mustAnswer("anna")
	began := anna.links.Status()[0].Since
	p.MuteExisting()
	// The spare connections are dead, and neither side knows: a new one is made for the client.
	r.mustAnswer("anna")
	eventually(t, "the link is made anew", func() bool { return anna.links.Status()[0].Since.After(began) })
	p.Cut()
	eventually(t, "the link is lost", func() bool { return anna.links.Status()[0].Problem != nil })
	p.Pass()
	anna.linked()
	r.mustAnswer("anna")
}

// The streams of a link go on when its control connection ends.
func TestStreamsOutliveTheLink(t *testing.T) {
	r := newRig(t, relay.Limits{})
	anna := r.newHome("anna")
	c, stream := open(t, r.address, "anna")
	m, _ := anna.memory.Load(r.address)
	second := &atHome{t: t, name: "anna", to: anna.to}
	second.memory.Store(r.address, m)
	second.start() // replaces the link of the first
	defer second.stop()
	second.linked()
	if n := anna.links.Status()[0].Streams; n != 1 {
		t.Errorf("%d streams are left", n)
	}
	c.Close()
	ended(t, stream)
	eventually(t, "the stream ends", func() bool { return anna.links.Status()[0].Streams == 0 })
}

// A relay that stops lets its streams end and sends its homes away; the next one on the port has
// them within a moment.
func TestDrain(t *testing.T) {
	r := newRig(t, relay.Limits{})
	r.kill()
	r.drain = patience
	r.start()
	anna := r.newHome("anna")
	c, stream := open(t, r.address, "anna")
	finish := r.kill
	old := r.server
	r.stop()
	eventually(t, "it drains", func() bool { return !old.Ready() })
	r.start()
	eventually(t, "the home is at the next one", func() bool { return r.gauge("patchbay_relay_homes") == 1 })
	r.mustAnswer("anna")
	eventually(t, "one stream is left", func() bool { return anna.links.Status()[0].Streams == 1 })
	c.Close()
	ended(t, stream)
	finish() // it does not take the whole limit
}

// A home may be at several relays.
func TestTwoRelays(t *testing.T) {
	a, b := newRig(t, relay.Limits{}), newRig(t, relay.Limits{})
	code, err := b.folder.Add(relay.Home{Name: "anna"})
	if err != nil {
		t.Fatal(err)
	}
	anna := a.newHome("anna")
	anna.stop()
	anna.to, anna.code = []string{a.address, b.address}, append(anna.code, code)
	anna.start()
	anna.linked()
	a.mustAnswer("anna")
	b.mustAnswer("anna")
	a.kill()
	b.mustAnswer("anna")
	a.start()
}

// A relay of a home cannot stand for another one, although the home has a code for it.
func TestOneRelayIsNotTheOther(t *testing.T) {
	a, b := newRig(t, relay.Limits{}), newRig(t, relay.Limits{})
	code, err := b.folder.Add(relay.Home{Name: "anna"})
	if err != nil {
		t.Fatal(err)
	}
	anna := a.newHome("anna")
	anna.stop()
	anna.to, anna.code = []string{a.address, b.address}, append(anna.code, code)
	anna.start()
	anna.linked()
	a.kill()
	other := &rig{t: t, folder: b.folder, beat: b.beat, address: a.address}
	other.start()
	defer other.kill()
	eventually(t, "it is another relay", func() bool { return says(anna, "another key") })
}

// Other names lead to a home too.
func TestOtherNames(t *testing.T) {
	r := newRig(t, relay.Limits{})
	anna := r.newHome("anna")
	if _, err := r.folder.Add(relay.Home{Name: "ben", Also: []string{"board.example.org"}}); err != nil {
		t.Fatal(err)
	}
	for name, h := range map[string]relay.Home{"taken": {Name: "anna"}, "host taken": {Name: "c", Also: []string{
		"board.example.org"}}, "path": {Name: "../x"}, "capital": {Name: "Anna"}, "dot": {Name: "a.b"}, "empty": {},
		"no host": {Name: "d", Also: []string{"a b.c"}}, "label": {Name: "d", Also: []string{"localhost"}}} {
		if _, err := r.folder.Add(h); err == nil {
			t.Errorf("%s: added", name)
		}
	}
	_ = anna
	resp, err := client(t, r.address).Get("https://" + domain + "/healthz")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if b, err := io.ReadAll(resp.Body); string(b) != "ok\n" || err != nil {
		t.Errorf("%q, %v", b, err)
	}
}

// A recorded preamble is worth nothing, and one of another session neither.
func TestReplay(t *testing.T) {
	r := newRig(t, relay.Limits{})
	seen := make(chan []byte, 100)
	tap, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer tap.Close()
	go func() { // a wire tap that records preambles
		for {
			c, err := tap.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				to, err := net.Dial("tcp", r.address)
				if err != nil {
					return
				}
				defer to.Close()
				b := make([]byte, wire.PreambleSize)
				if _, err := io.ReadFull(c, b); err != nil {
					return
				}
				to.Write(b) //nolint:errcheck // it ends then
				if wire.IsPreamble(b[0]) {
					seen <- b
				}
				go func() {
					io.Copy(c, to) //nolint:errcheck // it ends
					c.Close()
				}()
				io.Copy(to, c) //nolint:errcheck // it ends
			}()
		}
	}()
	r.newHome("anna", tap.Addr().String())
	r.mustAnswer("anna")
	r.alerted(<-seen, 0)
	r.mustAnswer("anna")
}

func TestRedirect(t *testing.T) {
	r := newRig(t, relay.Limits{})
	for host, want := range map[string]string{"anna." + domain: "https://anna." + domain + "/x?y=1", domain + ":80": "https://" +
		domain + "/x?y=1", "evil.example.org": "", "a.b." + domain: "", "": ""} {
		req, err := http.NewRequest(http.MethodGet, "http://x/x?y=1", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Host = host
		var w recorder
		r.server.Redirect().ServeHTTP(&w, req)
		if got := w.Header().Get("Location"); got != want {
			t.Errorf("%s: %q", host, got)
		}
	}
}

type recorder struct{ h http.Header }

func (r *recorder) Header() http.Header {
	if r.h == nil {
		r.h = http.Header{}
	}
	return r.h
}
func (r *recorder) Write(b []byte) (int, error) { return len(b), nil }
func (r *recorder) WriteHeader(int)             {}
