package wire

import (
	"bytes"
	"crypto/ed25519"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"net/netip"
	"slices"
	"strings"
	"testing"
)

// goldenKeys are keys of known bytes.
func goldenKeys(t testing.TB) *Keys {
	t.Helper()
	secret := make([]byte, 64)
	for i := range secret {
		secret[i] = byte(i)
	}
	k, err := keysOf(secret, SessionID{0: 0xa0, 15: 0xaf})
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// TestGoldenFrames fixes the bytes of the protocol: homes and relays of different versions meet.
func TestGoldenFrames(t *testing.T) {
	for _, c := range []struct {
		t     Type
		value any
		want  string
	}{
		{TypeHello, Hello{Instance: "a1", Secret: "s"}, "01001e" + hex.EncodeToString([]byte(`{"instance":"a1","secret":"s"}`))},
		{TypeHello, Hello{Instance: "a1"}, "010011" + hex.EncodeToString([]byte(`{"instance":"a1"}`))},
		{TypeWelcome, Welcome{Names: []string{"anna.relay.example.org"}, Session: SessionID{0: 1}, Heartbeat: 5000},
			"02005b" + hex.EncodeToString([]byte(
				`{"names":["anna.relay.example.org"],"session":"AQAAAAAAAAAAAAAAAAAAAA","heartbeat_ms":5000}`))},
		{TypeRefused, Refused{ReasonUnknown}, "030014" + hex.EncodeToString([]byte(`{"reason":"unknown"}`))},
		{TypePing, nil, "040000"},
		{TypePong, nil, "050000"},
		{TypeDial, Dial(258), "0600020102"},
		{TypeGoAway, nil, "070000"},
	} {
		var b bytes.Buffer
		if err := WriteFrame(&b, c.t, c.value); err != nil {
			t.Fatal(err)
		}
		if got := hex.EncodeToString(b.Bytes()); got != c.want {
			t.Errorf("%v is %s, want %s", c.value, got, c.want)
		}
		kind, payload, err := ReadFrame(&b, make([]byte, MaxPayload))
		if err != nil || kind != c.t || len(payload) != len(c.want)/2-frameHead {
			t.Errorf("%v is read as %d %q, %v", c.value, kind, payload, err)
		}
	}
}

func TestGoldenPreamble(t *testing.T) {
	k := goldenKeys(t)
	const want = "50425231a00000000000000000000000000000af0000000000000007"
	p := k.Preamble(7)
	if got := hex.EncodeToString(p); !strings.HasPrefix(got, want) || len(p) != PreambleSize ||
		got[len(want):] != goldenPreambleTag {
		t.Errorf("the preamble is %s", got)
	}
	h := k.Header(7, MQTT, netip.MustParseAddrPort("203.0.113.9:4711"))
	if got := hex.EncodeToString(h); got != goldenHeader || len(h) != HeaderSize {
		t.Errorf("the header is %s", got)
	}
	if !IsPreamble(p[0]) || IsPreamble(0x16) {
		t.Error("a preamble is not told from TLS")
	}
}

const (
	goldenPreambleTag = "7823e970b9e1d9c1c7be9484fc0674c7"
	goldenHeader      = "a7c936ea947b982bee7bf306379a523733b127d349d5477196ca028800772ce2560e0920"
)

func TestPreambleIsAuthentic(t *testing.T) {
	k := goldenKeys(t)
	p := k.Preamble(7)
	if err := k.CheckPreamble(p); err != nil {
		t.Fatal(err)
	}
	for i := range p {
		changed := bytes.Clone(p)
		changed[i] ^= 1
		if err := k.CheckPreamble(changed); !errors.Is(err, ErrPreamble) {
			t.Errorf("byte %d may be changed", i)
		}
	}
	client := netip.MustParseAddrPort("[2001:db8::7]:443")
	h := k.Header(7, HTTPS, client)
	if kind, at, err := k.OpenHeader(7, h); err != nil || kind != HTTPS || at != client {
		t.Errorf("%d, %s, %v", kind, at, err)
	}
	if _, _, err := k.OpenHeader(8, h); !errors.Is(err, ErrPreamble) {
		t.Error("a header is good for another connection")
	}
	h[0] ^= 1
	if _, _, err := k.OpenHeader(7, h); !errors.Is(err, ErrPreamble) {
		t.Error("a header may be changed")
	}
}

func TestCode(t *testing.T) {
	key := ed25519.NewKeyFromSeed(make([]byte, 32))
	relay, err := KeyFingerprint(key)
	if err != nil {
		t.Fatal(err)
	}
	c := NewCode(relay)
	got, err := ParseCode(" " + c.String() + "\n")
	if err != nil || got != c {
		t.Errorf("%v, %v", got, err)
	}
	for _, bad := range []string{"", "pbjoin_", c.String()[1:], c.String() + "A", strings.ToUpper(c.String()),
		strings.Replace(c.String(), c.Secret, strings.Repeat("!", len(c.Secret)), 1)} {
		if _, err := ParseCode(bad); !errors.Is(err, ErrCode) {
			t.Errorf("%q is accepted", bad)
		}
	}
}

// The names come from a relay that nobody has to believe.
func TestNames(t *testing.T) {
	many := slices.Repeat([]string{"a.b"}, MaxNames+1)
	for _, c := range []struct {
		names []string
		want  bool
	}{
		{nil, false}, {[]string{"anna.relay.example.org"}, true}, {[]string{"anna.relay.test", "board_1.example.org"}, true},
		{[]string{""}, false}, {[]string{"a b"}, false}, {[]string{"a.b", "c.d/e"}, false}, {[]string{"localhost"}, false},
		{[]string{"Anna.relay.test"}, false}, {[]string{"anna.relay.test."}, false}, {[]string{"a..b"}, false},
		{[]string{"192.0.2.1"}, false}, {[]string{"a.b:443"}, false}, {[]string{"a.b@c.d"}, false},
		{[]string{strings.Repeat("a.", 127) + "b"}, false}, {many[1:], true}, {many, false},
	} {
		text, err := json.Marshal(Welcome{Names: c.names, Heartbeat: 1})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := ParseWelcome(text); (err == nil) != c.want {
			t.Errorf("%q: %v", c.names, err)
		}
	}
}

func FuzzReadFrame(f *testing.F) {
	for _, v := range []any{Hello{Instance: "a"}, Welcome{Names: []string{"a.b"}, Heartbeat: 1}, Refused{"x"}, Dial(3)} {
		for t := TypeHello; t <= TypeGoAway; t++ {
			var b bytes.Buffer
			if err := WriteFrame(&b, t, v); err != nil {
				f.Fatal(err)
			}
			f.Add(b.Bytes())
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		buffer, r := make([]byte, MaxPayload), bytes.NewReader(data)
		for {
			_, payload, err := ReadFrame(r, buffer)
			if err != nil {
				if !errors.Is(err, ErrFrame) && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
					t.Fatal(err)
				}
				return
			}
			if h, err := ParseHello(payload); err == nil && h.Instance == "" {
				t.Error("a home has no instance")
			}
			if w, err := ParseWelcome(payload); err == nil && !AreNames(w.Names) {
				t.Errorf("%q are names", w.Names)
			}
			ParseRefused(payload) //nolint:errcheck // it must not panic
			ParseDial(payload)    //nolint:errcheck // it must not panic
		}
	})
}

func FuzzPreamble(f *testing.F) {
	k := goldenKeys(f)
	f.Add(k.Preamble(1), k.Header(1, HTTPS, netip.MustParseAddrPort("192.0.2.1:1")))
	f.Fuzz(func(t *testing.T, p, h []byte) {
		if k.CheckPreamble(p) == nil {
			_, number, err := ReadPreamble(p)
			if err != nil || !bytes.Equal(p, k.Preamble(number)) {
				t.Errorf("%x is accepted", p)
			}
		}
		if kind, at, err := k.OpenHeader(1, h); err == nil && !bytes.Equal(h, k.Header(1, kind, at)) {
			t.Errorf("%x is accepted", h)
		}
		if code, err := ParseCode(string(p)); err == nil && code.Secret == "" {
			t.Errorf("%q is a code", p)
		}
	})
}
