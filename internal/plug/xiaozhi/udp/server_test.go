package udp

import (
	"bytes"
	"context"
	"errors"
	"math"
	"net/netip"
	"strconv"
	"testing"
	"time"

	"patchbay/internal/plug/xiaozhi/wire"
)

// Both directions work from the first datagram on.
func TestConversation(t *testing.T) {
	r := newRig(t, Options{})
	x := r.open(wire.UplinkFrame)
	other := r.open(wire.UplinkFrame)
	if x.Link().Key == other.Link().Key || x.ssrc == other.ssrc {
		t.Error("two sessions with one key or number")
	}
	if err := x.Send(speech("early"), 60); !errors.Is(err, ErrNoAddress) {
		t.Errorf("before the first datagram: %v", err)
	}
	b := newBoard(t, r.s, x)
	b.send(1, []byte{0x58}) // silence
	r.expect(x, 1, []byte{0x58})
	b.raw(b.cipher.Seal(nil, wire.Header{SSRC: b.ssrc, Sequence: 2, Timestamp: 77}, speech("hello")))
	p, err := x.Receive(t.Context(), make([]byte, 0, 100))
	if err != nil || p.Timestamp != 77 || string(p.Opus) != string(speech("hello")) {
		t.Errorf("%v, %v", p, err)
	}
	if x.Addr().String() != b.conn.LocalAddr().String() {
		t.Errorf("address %v, want %v", x.Addr(), b.conn.LocalAddr())
	}

	last := wire.Header{}
	for i, at := range []uint32{0, 60, 120, 120, 90, 180, math.MaxUint32} {
		if err := x.Send(speech(strconv.Itoa(i)), at); err != nil {
			t.Fatal(err)
		}
		h, opus := b.receive()
		if string(opus) != string(speech(strconv.Itoa(i))) || h.SSRC != x.ssrc || h.Flags != 0x80 {
			t.Errorf("%q, %+v", opus, h)
		}
		if h.Sequence != uint32(i+1) || h.Timestamp <= last.Timestamp || at > last.Timestamp && h.Timestamp != at {
			t.Errorf("at %d: %+v after %+v", at, h, last)
		}
		last = h
	}
	if err := x.Send(speech("more"), 0); !errors.Is(err, ErrTimestampsExhausted) {
		t.Errorf("without timestamps: %v", err)
	}
	if err := other.Send(speech("x"), 0); !errors.Is(err, ErrNoAddress) {
		t.Errorf("the other session has an address: %v", err)
	}
	for _, n := range []int{0, wire.MaxDatagram - wire.HeaderSize + 1} {
		if err := x.Send(make([]byte, n), 1); !errors.Is(err, ErrPacket) {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
	r.until("sent_datagrams_total", "sent", 7)
}

// Invalid datagrams get the right verdict, in the order of the checks, and do not change the
// board's address.
func TestRefusals(t *testing.T) {
	for _, c := range []struct {
		name   string
		make   func(b *board) []byte
		reason string
	}{
		{"nothing", func(*board) []byte { return []byte{} }, "length"},
		{"half a header", func(b *board) []byte { return b.seal(101, speech("x"))[:15] }, "length"},
		{"cut off", func(b *board) []byte { d := b.seal(101, speech("x")); return d[:len(d)-1] }, "length"},
		{"too long", func(b *board) []byte {
			d := b.seal(101, append(speech("x"), make([]byte, wire.MaxDatagram-wire.HeaderSize-2)...))
			d[2], d[3] = byte((len(d)+1-16)>>8), byte(len(d)+1-16)
			return append(d, 0)
		}, "length"},
		{"another type", func(b *board) []byte { d := b.seal(101, speech("x")); d[0] = 2; return d }, "type"},
		{"a wrong length and type", func(b *board) []byte {
			d := b.seal(101, speech("x"))
			d[0], d[3] = 2,
				9
			return d
		}, "length"},
		{"another's number", func(b *board) []byte { d := b.seal(101, speech("x")); d[4] ^= 1; return d }, "unknown"},
		{"again", func(b *board) []byte { return b.seal(100, speech("x")) }, "replayed"},
		{"again, and overtaken", func(b *board) []byte { return b.seal(80, speech("x")) }, "replayed"},
		{"old", func(b *board) []byte { return b.seal(36, speech("x")) }, "old"},
		{"zero", func(b *board) []byte { return b.seal(0, speech("x")) }, "old"},
		{"far ahead", func(b *board) []byte { return b.seal(101+maxAhead, speech("x")) }, "ahead"},
		{"no audio", func(b *board) []byte { return b.seal(101, []byte{0x03, 0}) }, "opus"},
		{"empty", func(b *board) []byte { return b.seal(101, nil) }, "opus"},
		{"audio of another length", func(b *board) []byte { return b.seal(101, []byte{0x48, 1, 2}) }, "opus"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, Options{})
			x := r.open(wire.UplinkFrame)
			b := newBoard(t, r.s, x)
			for _, sequence := range []uint32{80, 100} {
				b.send(sequence, speech("good"))
				r.expect(x, sequence, speech("good"))
			}
			before := x.Addr()
			stranger := *b
			stranger.move(r.s)
			stranger.raw(c.make(b))
			r.until("received_datagrams_total", c.reason, 1)
			if x.Addr() != before {
				t.Error("the address was believed")
			}
			for _, sequence := range []uint32{37, 99, 101} { // nothing was marked
				b.send(sequence, speech("still"))
				r.expect(x, sequence, speech("still"))
			}
			r.until("received_datagrams_total", "accepted", 5)
		})
	}
}

// A wrong key mostly yields packets of another length than announced, by which it is detected.
func TestWrongKey(t *testing.T) {
	r := newRig(t, Options{})
	x, other := r.open(wire.UplinkFrame), r.open(wire.UplinkFrame)
	b := newBoard(t, r.s, other)
	b.ssrc = x.ssrc
	const n = 2000
	plain := make([]byte, 0, wire.MaxDatagram)
	passed := 0
	for i := range uint32(n) {
		if x.handleDatagram(b.seal(i%60+1, speech("some words")), plain, r.s.Addr()) == accepted {
			passed++
		}
		x.window = window{}
	}
	if passed > n/10 {
		t.Errorf("%d of %d pass", passed, n)
	}
}

// The session follows a board to a new address; datagrams in transit do not change it back.
func TestRebinding(t *testing.T) {
	r := newRig(t, Options{})
	x := r.open(wire.UplinkFrame)
	b := newBoard(t, r.s, x)
	b.send(1, speech("one"))
	r.expect(x, 1, speech("one"))
	old := *b
	b.move(r.s)
	b.send(3, speech("three"))
	r.expect(x, 3, speech("three"))
	old.send(2, speech("two"))
	r.expect(x, 2, speech("two"))
	if err := x.Send(speech("down"), 1); err != nil {
		t.Fatal(err)
	}
	if h, opus := b.receive(); h.Sequence != 1 || string(opus) != string(speech("down")) {
		t.Errorf("%+v %q", h, opus)
	}
	r.until("moved_total", "", 1)
}

// When the queue overflows, the newest packets are kept.
func TestQueue(t *testing.T) {
	r := newRig(t, Options{})
	x := r.open(0)
	b := newBoard(t, r.s, x)
	const n = queueLength + 10
	for i := range uint32(n) {
		b.send(i+1, bytes.Repeat([]byte{0x48}, int(i)*10+1))
		r.until("received_datagrams_total", "accepted", int(i)+1)
	}
	for i := uint32(10); i < n; i++ {
		r.expect(x, i+1, bytes.Repeat([]byte{0x48}, int(i)*10+1))
	}
	r.until("dropped_packets_total", "", 10)
}

// A closed session returns ErrClosed and is forgotten.
func TestClose(t *testing.T) {
	r := newRig(t, Options{MaxSessions: 2})
	x, y := r.open(0), r.open(0)
	if _, err := r.s.Open(0); !errors.Is(err, ErrFull) {
		t.Errorf("a third: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if _, err := x.Receive(ctx, nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("nothing came: %v", err)
	}
	b := newBoard(t, r.s, x)
	b.send(1, speech("one"))
	r.expect(x, 1, speech("one"))
	waits := make(chan error, 2)
	for _, s := range []*Session{x, y} {
		go func() {
			_, err := s.Receive(context.Background(), nil)
			waits <- err
		}()
	}
	x.Close()
	x.Close()
	if err := <-waits; !errors.Is(err, ErrClosed) {
		t.Errorf("Receive: %v", err)
	}
	if err := x.Send(speech("late"), 1); !errors.Is(err, ErrClosed) {
		t.Errorf("Send: %v", err)
	}
	b.send(2, speech("two"))
	r.until("received_datagrams_total", "unknown", 1)
	r.until("sessions", "", 1)
	r.s.Close()
	if err := <-waits; !errors.Is(err, ErrClosed) {
		t.Errorf("Receive: %v", err)
	}
	if _, err := r.s.Open(0); !errors.Is(err, ErrClosed) {
		t.Errorf("Open: %v", err)
	}
	r.s.Close()
}

// The public host must be IPv4 or a name.
func TestListen(t *testing.T) {
	if s, err := Listen("127.0.0.1:0", Options{PublicHost: "::1"}); err == nil {
		s.Close()
		t.Error("::1 passes")
	}
	s, err := Listen("127.0.0.1:0", Options{PublicHost: "audio.example.com", PublicPort: 8884})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	x, err := s.Open(0)
	if err != nil {
		t.Fatal(err)
	}
	if l := x.Link(); l.Server != "audio.example.com" || l.Port != 8884 || l.Encryption != "aes-128-ctr" {
		t.Errorf("%s:%d %s", l.Server, l.Port, l.Encryption)
	}
}

// The window agrees with a model that remembers everything.
func TestWindow(t *testing.T) {
	var w window
	seen := map[uint32]bool{}
	top := uint32(0)
	state := uint32(1)
	counts := map[verdict]int{}
	for range 100_000 {
		state = state*1664525 + 1013904223
		sequence := top + 40 - min(top+40, state>>16%140)
		if state>>8&0xff == 0 {
			sequence = top + maxAhead - 3 + state>>28
		}
		want := accepted
		switch {
		case sequence > top+maxAhead:
			want = tooFar
		case sequence == 0 || sequence+windowSize <= top:
			want = tooOld
		case seen[sequence]:
			want = replayed
		}
		got := w.check(sequence)
		counts[got]++
		if got != want {
			t.Fatalf("%d with %d as the newest: %s, want %s", sequence, top, verdictNames[got], verdictNames[want])
		}
		if got == accepted {
			if newest := w.mark(sequence); newest != (sequence > top) {
				t.Fatalf("%d the newest: %t", sequence, newest)
			}
			seen[sequence], top = true, max(top, sequence)
		}
	}
	for _, v := range []verdict{accepted, replayed, tooOld, tooFar} {
		if counts[v] == 0 {
			t.Errorf("never %s", verdictNames[v])
		}
	}
}

// A datagram does not allocate, in either direction.
func TestAllocations(t *testing.T) {
	r := newRig(t, Options{})
	x := r.open(wire.UplinkFrame)
	b := newBoard(t, r.s, x)
	datagram, plain, buf := make([]byte, 0, 2000), make([]byte, 0, wire.MaxDatagram), make([]byte, 0, 2000)
	opus := append(speech(""), make([]byte, 150)...)
	to, err := netip.ParseAddrPort(b.conn.LocalAddr().String()) // it never reads
	if err != nil {
		t.Fatal(err)
	}
	sequence := uint32(0)
	for range queueLength {
		x.push(opus, wire.Header{}, to, true)
	}
	allocs := testing.AllocsPerRun(1000, func() {
		sequence++
		datagram = b.cipher.Seal(datagram[:0], wire.Header{SSRC: b.ssrc, Sequence: sequence}, opus)
		if v := r.s.handleDatagram(datagram, plain, to); v != accepted {
			t.Fatal(verdictNames[v])
		}
		if _, err := x.Receive(context.Background(), buf); err != nil {
			t.Fatal(err)
		}
		if err := x.Send(opus, sequence*60); err != nil {
			t.Fatal(err)
		}
	})
	if allocs >= 1 {
		t.Errorf("%v allocations", allocs)
	}
}

// Every datagram is refused or is audio, and the queue stays consistent.
func FuzzTake(f *testing.F) {
	s, err := Listen("127.0.0.1:0", Options{PublicHost: "127.0.0.1"})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(s.Close)
	key := make([]byte, 16)
	cipher, err := wire.NewCipher(key)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(cipher.Seal(nil, wire.Header{SSRC: 7, Sequence: 1}, speech("hello")), uint32(0), true)
	f.Add(cipher.Seal(nil, wire.Header{SSRC: 7, Sequence: 100}, []byte{0x58}), uint32(101), true)
	f.Add(cipher.Seal(nil, wire.Header{SSRC: 8, Sequence: 1}, speech("hello")), uint32(0), false)
	f.Add([]byte{}, uint32(0), true)
	from := s.Addr()
	f.Fuzz(func(t *testing.T, datagram []byte, top uint32, framed bool) {
		open, _ := wire.NewCipher(key)
		x := &Session{s: s, ssrc: 7, decrypter: open, ready: make(chan struct{}, 1), done: make(chan struct{}),
			window: window{top: top, seen: 1}}
		if framed {
			x.frame = wire.UplinkFrame
		}
		s.mu.Lock()
		s.sessions[7] = x
		s.mu.Unlock()
		plain := make([]byte, 0, wire.MaxDatagram)
		v := s.handleDatagram(datagram, plain, from)
		taken := v == accepted || v == unexpectedLength
		if taken != (x.count == 1) {
			t.Fatalf("%s with %d in the queue", verdictNames[v], x.count)
		}
		if !taken {
			if x.addr.IsValid() || x.window != (window{top: top, seen: 1}) {
				t.Errorf("%s, and something was believed", verdictNames[v])
			}
			return
		}
		if again := s.handleDatagram(datagram, plain, from); again == accepted || again == unexpectedLength {
			t.Error("twice")
		}
		p, err := x.Receive(context.Background(), nil)
		d, bad := wire.Duration(p.Opus)
		if err != nil || bad != nil || (v == unexpectedLength) != (framed && d != wire.UplinkFrame) ||
			len(p.Opus) != len(datagram)-wire.HeaderSize {
			t.Errorf("%x, %v, %v", p.Opus, err, bad)
		}
	})
}

// Packets of another length than the hello announced are accepted and counted, but do not prove a
// change of address.
func TestOtherLength(t *testing.T) {
	r := newRig(t, Options{})
	x := r.open(wire.UplinkFrame)
	b := newBoard(t, r.s, x)
	short := append([]byte{0x48}, "twenty milliseconds"...)
	plain := make([]byte, 0, wire.MaxDatagram)
	here, elsewhere := netip.MustParseAddrPort("192.0.2.1:1"), netip.MustParseAddrPort("192.0.2.2:1")
	if v := x.handleDatagram(b.seal(1, short), plain, here); v != unexpectedLength {
		t.Errorf("the first packet: %v", v)
	}
	if p, err := x.Receive(t.Context(), nil); err != nil || string(p.Opus) != string(short) {
		t.Errorf("received %q, %v", p.Opus, err)
	}
	if v := x.handleDatagram(b.seal(2, short), plain, elsewhere); v != notOpus || x.Addr() != here {
		t.Errorf("from elsewhere: %v, and the board is at %v", v, x.Addr())
	}
	if v := x.handleDatagram(b.seal(2, speech("said")), plain, elsewhere); v != accepted || x.Addr() != elsewhere {
		t.Errorf("as announced from elsewhere: %v, and the board is at %v", v, x.Addr())
	}
}
