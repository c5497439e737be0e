package relay_test

import (
	"bytes"
	"crypto/sha256"
	"crypto/tls"
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
	if n := anna.links.Status()[0].Streams; n != 1 {
		t.Errorf("%d streams are left", n)
	}
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

// clientHello is the first record of a client.
func clientHello(t *testing.T, name string) []byte {
	t.Helper()
	here, there := net.Pipe()
	defer there.Close()
	go func() {
		tls.Client(here, &tls.Config{ServerName: name, InsecureSkipVerify: true}).Handshake() //nolint:errcheck // it ends with the pipe
		here.Close()
	}()
	b := make([]byte, 16<<10)
	n, err := there.Read(b)
	if err != nil {
		t.Fatal(err)
	}
	return b[:n]
}

// alerted checks that the relay refuses what a client says with an alert; 0: without a word.
func (r *rig) alerted(text []byte, code byte) {
	r.t.Helper()
	c, err := net.Dial("tcp", r.address)
	if err != nil {
		r.t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(patience)) //nolint:errcheck // TCP has it
	c.Write(text)                           //nolint:errcheck // it may be refused at once
	got, err := io.ReadAll(c)
	if code == 0 && len(got) > 0 || code != 0 && (len(got) != 7 || got[0] != 21 || got[6] != code) {
		r.t.Errorf("%.20q is answered %.8x, %v, want alert %d", text, got, err, code)
	}
}

func TestAbuse(t *testing.T) {
	r := newRig(t, relay.Limits{HelloTimeout: 300 * time.Millisecond, HellosOfAddress: 8, Hold: 100 * time.Millisecond})
	anna := r.newHome("anna")
	r.alerted([]byte("GET / HTTP/1.1\r\nHost: anna\r\n\r\n"), 0)
	r.alerted(clientHello(t, "nobody."+domain), 112)
	r.alerted(clientHello(t, ""), 112)
	r.alerted(clientHello(t, "anna."+domain)[:40], 0) // never ends
	r.alerted([]byte{0x16, 3, 1, 0, 5, 1, 0xff, 0xff, 0xff, 0}, 40)
	r.alerted(append([]byte("PBR1"), make([]byte, 40)...), 0)
	r.alerted([]byte("PBR1"), 0)
	for reason, want := range map[string]float64{"malformed": 3, "unknown": 1, "no_name": 1, "preamble": 2} {
		if got := r.refused(reason); got != want {
			t.Errorf("%s: %v, want %v", reason, got, want)
		}
	}
	// Many who say nothing do not keep others out for longer than their time.
	var idle []net.Conn
	for range 20 {
		c, err := net.Dial("tcp", r.address)
		if err != nil {
			t.Fatal(err)
		}
		idle = append(idle, c)
	}
	eventually(t, "too many of an address are refused", func() bool { return r.refused("address") > 0 })
	for _, c := range idle {
		c.SetDeadline(time.Now().Add(patience)) //nolint:errcheck // TCP has it
		io.ReadAll(c)                           //nolint:errcheck // it ends
		c.Close()
	}
	r.mustAnswer("anna")
	anna.stop()
	eventually(t, "the relay knows", func() bool { return r.gauge("patchbay_relay_homes") == 0 })
	r.alerted(clientHello(t, "anna."+domain), 80)
}

// Connections for the relay itself have the limits of others, until they are those of a home.
func TestLimitsOfTheRelayItself(t *testing.T) {
	r := newRig(t, relay.Limits{HellosOfAddress: 2})
	for range 2 { // strangers who say nothing after the handshake
		c, err := tls.Dial("tcp", r.address, &tls.Config{InsecureSkipVerify: true, ServerName: domain,
			NextProtos: []string{wire.ALPN}, Certificates: []tls.Certificate{certificate(t, "x.test")}})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
	}
	r.alerted(clientHello(t, "nobody."+domain), 80)

	r = newRig(t, relay.Limits{AddressRate: 1})
	for range 20 {
		if resp, err := client(t, r.address).Get("https://" + domain + "/healthz"); err == nil {
			resp.Body.Close()
		}
	}
	if r.refused("address") == 0 {
		t.Error("the pages have no limit")
	}
	eventually(t, "there is room again", func() bool {
		resp, err := client(t, r.address).Get("https://" + domain + "/healthz")
		if err == nil {
			resp.Body.Close()
		}
		return err == nil
	})
}

// The limits of a home hold.
func TestLimitsOfAHome(t *testing.T) {
	r := newRig(t, relay.Limits{Streams: 2, Idle: 400 * time.Millisecond})
	r.newHome("anna")
	r.newHome("ben")
	_, one := open(t, r.address, "anna")
	_, two := open(t, r.address, "anna")
	r.alerted(clientHello(t, "anna."+domain), 80)
	r.mustAnswer("ben")
	ended(t, one) // idle
	ended(t, two)
	r.mustAnswer("anna")

	if _, err := r.folder.Add(relay.Home{Name: "carl", Quota: 10_000}); err != nil {
		t.Fatal(err)
	}
}

// A client that keeps connections open which the home has ended does not keep others out.
func TestHalfClosed(t *testing.T) {
	r := newRig(t, relay.Limits{HalfClosed: 100 * time.Millisecond})
	r.newHome("anna")
	c, err := net.Dial("tcp", r.address)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(patience)) //nolint:errcheck // TCP has it
	c.Write(clientHello(t, "anna."+domain)) //nolint:errcheck // seen below
	c.Write([]byte{21, 3, 3, 0, 2, 2, 80})  //nolint:errcheck // an alert: the home closes its end
	if _, err := io.ReadAll(c); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the stream ends", func() bool { return r.gauge("patchbay_relay_streams") == 0 })
}

// One address has a part of the connections of a home.
func TestStreamsOfAddress(t *testing.T) {
	r := newRig(t, relay.Limits{StreamsOfAddress: 2})
	r.newHome("anna")
	r.newHome("ben")
	one, _ := open(t, r.address, "anna")
	open(t, r.address, "anna")
	r.alerted(clientHello(t, "anna."+domain), 80)
	if r.refused("address") != 1 {
		t.Error("not refused for the address")
	}
	r.mustAnswer("ben")
	one.Close()
	eventually(t, "the first one has ended", func() bool { return r.gauge("patchbay_relay_streams") == 1 })
	r.mustAnswer("anna")
}

// The quota of a month holds, also for streams that are open.
func TestQuota(t *testing.T) {
	r := newRig(t, relay.Limits{Idle: 400 * time.Millisecond})
	code, err := r.folder.Add(relay.Home{Name: "anna", Quota: 100_000})
	if err != nil {
		t.Fatal(err)
	}
	anna := &atHome{t: t, name: "anna", to: []string{r.address}, code: []wire.Code{code}}
	anna.start()
	defer anna.stop()
	anna.linked()
	r.mustAnswer("anna")
	ask(t, r.address, "anna", strings.Repeat("x", 200_000)) //nolint:errcheck // it may be cut
	eventually(t, "the quota is used up", func() bool {
		ask(t, r.address, "anna", "x") //nolint:errcheck // it is counted below
		return r.refused("quota") > 0
	})
	r.kill()
	r.start() // the usage is remembered
	anna.linked()
	r.alerted(clientHello(t, "anna."+domain), 80)
	if r.refused("quota") != 1 {
		t.Error("not refused for the quota")
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
