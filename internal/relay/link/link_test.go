package link

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"runtime"
	"testing"

	"patchbay/internal/relay/wire"
)

// A relay that asks for any number of data connections does not exhaust the home.
func TestDialsAreBounded(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	l := &Link{Options: Options{Logger: slog.New(slog.DiscardHandler),
		Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}}, server: "192.0.2.1"}
	before := runtime.NumGoroutine()
	var sessions []*session
	for range 2 { // one is about to go
		s := newSession(l, nil, wire.Welcome{}, nil)
		sessions = append(sessions, s)
		for range 20 {
			if err := s.dial(ctx, []byte{0xff, 0xff}); err != nil {
				t.Fatal(err)
			}
		}
	}
	if n := runtime.NumGoroutine() - before; n > maxWaits+maxWaits/8 {
		t.Errorf("%d goroutines", n)
	}
	cancel()
	for _, s := range sessions {
		s.workers.Wait()
	}
	if n := l.waits.Load(); n != 0 {
		t.Errorf("%d are counted for ever", n)
	}
}

// sharedKeys are the keys of a control connection.
func sharedKeys(t *testing.T) *wire.Keys {
	t.Helper()
	_, key, _ := ed25519.GenerateKey(rand.Reader) //nolint:errcheck // it never fails
	own, err := wire.Certificate(key)
	if err != nil {
		t.Fatal(err)
	}
	a, b := net.Pipe()
	defer a.Close()
	defer b.Close()
	home := tls.Client(a, &tls.Config{InsecureSkipVerify: true})
	done := make(chan error, 1)
	go func() { done <- home.HandshakeContext(t.Context()) }()
	relay := tls.Server(b, &tls.Config{Certificates: []tls.Certificate{own}, SessionTicketsDisabled: true})
	if err := errors.Join(relay.HandshakeContext(t.Context()), <-done); err != nil {
		t.Fatal(err)
	}
	keys, err := wire.NewKeys(relay.ConnectionState(), wire.SessionID{})
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

// Streams beyond the limit are not accepted, and there is room again when one has ended.
func TestStreamsAreBounded(t *testing.T) {
	web := newListener()
	l := &Link{streams: maxStreams, listeners: map[wire.Kind]*listener{wire.HTTPS: web}}
	keys := sharedKeys(t)
	s := newSession(l, nil, wire.Welcome{}, keys)
	offer := func(number uint64) (relay net.Conn, done chan error) {
		relay, home := net.Pipe()
		done = make(chan error, 1)
		go func() { done <- s.await(t.Context(), home, number) }()
		relay.Write(keys.Header(number, wire.HTTPS, netip.MustParseAddrPort("192.0.2.1:1"))) //nolint:errcheck // seen below
		return relay, done
	}
	relay, done := offer(1)
	if b, err := io.ReadAll(relay); len(b) > 0 || !errors.Is(<-done, errStreams) {
		t.Errorf("%x, %v", b, err)
	}
	l.finish()
	relay, done = offer(2)
	var ack [1]byte
	if _, err := io.ReadFull(relay, ack[:]); err != nil || ack[0] != wire.Ack {
		t.Fatal(err)
	}
	c, err := web.Accept()
	if err = errors.Join(err, <-done); err != nil || l.streams != maxStreams {
		t.Fatal(err, l.streams)
	}
	c.Close()
	if l.streams != maxStreams-1 {
		t.Errorf("%d streams", l.streams)
	}
}

// A relay cannot give a client an address that has rights here.
func TestBelieved(t *testing.T) {
	proxies := []netip.Prefix{netip.MustParsePrefix("203.0.113.0/24"), netip.MustParsePrefix("2001:db8:1::/48")}
	for at, want := range map[string]string{
		"198.51.100.7:1": "198.51.100.7:1", "[2001:db8::7]:1": "[2001:db8::7]:1", "127.0.0.1:1": "192.0.0.8:1",
		"10.0.0.1:1": "192.0.0.8:1", "[fe80::1]:1": "192.0.0.8:1", "203.0.113.9:1": "192.0.0.8:1",
		"[::ffff:203.0.113.9]:1": "192.0.0.8:1", "[2001:db8:1::9]:1": "192.0.0.8:1",
	} {
		if got := believed(netip.MustParseAddrPort(at), proxies).String(); got != want {
			t.Errorf("%s counts as %s", at, got)
		}
	}
}
