package relay_test

import (
	"crypto/ed25519"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"patchbay/internal/relay"
	"patchbay/internal/relay/link"
	"patchbay/internal/relay/wire"
)

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

// control opens a control connection with the key of a home, which has said nothing yet.
func (h *atHome) control() *tls.Conn {
	h.t.Helper()
	m, _ := h.memory.Load(h.to[0])
	own, err := wire.Certificate(m.(link.Memory).Key)
	if err != nil {
		h.t.Fatal(err)
	}
	c, err := tls.Dial("tcp", h.to[0], &tls.Config{InsecureSkipVerify: true, ServerName: domain,
		NextProtos: []string{wire.ALPN}, Certificates: []tls.Certificate{own}})
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(patience)) //nolint:errcheck // TCP has it
	return c
}

// hello says hello and returns the type of the answer, and its payload.
func (h *atHome) hello(c *tls.Conn, instance string) (wire.Type, string) {
	h.t.Helper()
	if err := wire.WriteFrame(c, wire.TypeHello, wire.Hello{Instance: instance}); err != nil {
		h.t.Fatal(err)
	}
	kind, payload, err := wire.ReadFrame(c, make([]byte, wire.MaxPayload))
	if err != nil {
		h.t.Fatal(err)
	}
	return kind, string(payload)
}

// A home that comes while the relay stops, or for which there is no room, is told so at once.
func TestNoRoom(t *testing.T) {
	r := newRig(t, relay.Limits{})
	r.kill()
	r.drain, r.beat = patience, time.Minute // nobody is silent for too long
	r.start()
	anna := r.newHome("anna")
	stream, _ := open(t, r.address, "anna")
	for i := range 15 {
		if kind, text := anna.hello(anna.control(), fmt.Sprint(i)); kind != wire.TypeWelcome {
			t.Fatalf("%d: %d %s", i, kind, text)
		}
	}
	if kind, text := anna.hello(anna.control(), "last"); kind != wire.TypeRefused || !strings.Contains(text, "full") {
		t.Errorf("%d %s", kind, text)
	}
	late := anna.control()
	r.stop()
	eventually(t, "it drains", func() bool { return !r.server.Ready() })
	if kind, text := anna.hello(late, "late"); kind != wire.TypeRefused || !strings.Contains(text, "stopping") {
		t.Errorf("%d %s", kind, text)
	}
	stream.Close()
}

// A home whose relay stops comes again at once.
func TestStoppingIsShort(t *testing.T) {
	_, key, _ := ed25519.GenerateKey(nil) //nolint:errcheck // it never fails
	own, err := wire.Certificate(key)
	if err != nil {
		t.Fatal(err)
	}
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{own},
		NextProtos: []string{wire.ALPN}, ClientAuth: tls.RequireAnyClientCert})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	came := make(chan bool, 100)
	go func() { // a relay that only stops
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			if _, _, err := wire.ReadFrame(c, make([]byte, wire.MaxPayload)); err == nil {
				came <- true
				wire.WriteFrame(c, wire.TypeRefused, wire.Refused{Reason: wire.ReasonStopping}) //nolint:errcheck // seen below
			}
			c.Close()
		}
	}()
	print, err := wire.KeyFingerprint(key)
	if err != nil {
		t.Fatal(err)
	}
	anna := &atHome{t: t, name: "anna", to: []string{l.Addr().String()}, code: []wire.Code{wire.NewCode(print)}}
	anna.start()
	defer anna.stop()
	eventually(t, "it comes again", func() bool { return len(came) > 1 })
	anna.refusedFor(wire.ReasonStopping)
}
