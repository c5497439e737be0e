package xiaozhi

import (
	"context"
	"encoding/binary"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"

	"patchbay/internal/plug/xiaozhi/sim"
	"patchbay/internal/plug/xiaozhi/udp"
	"patchbay/internal/plug/xiaozhi/wire"
	"patchbay/internal/store"
	"patchbay/internal/voice/endpoint"
)

// mute is a transport that only counts what is sent.
type mute struct{ sent atomic.Int64 }

func (m *mute) Text([]byte) error                 { m.sent.Add(1); return nil }
func (m *mute) Audio([]byte, time.Duration) error { m.sent.Add(1); return nil }
func (m *mute) Close(bool)                        {}

// alone makes a board that is not registered with a hub.
func alone(t testing.TB, voice Voice) *Board {
	t.Helper()
	h, err := NewBoards(Options{Logger: slog.New(slog.DiscardHandler), Voice: voice,
		PublicURL: "http://board.example.org"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(h.Close)
	b := &Board{boards: h, number: 1, mac: mac(1), device: store.Device{Number: 1, Hardware: mac(1), Name: "one"},
		toolset: emptyToolset}
	b.ctx, b.cancel = context.WithCancelCause(h.ctx)
	h.boards[1], h.byMAC[b.mac] = b, b
	return b
}

var usualHello = wire.Hello{Version: 1, Transport: wire.WebSocket,
	Audio: wire.Audio{Format: "opus", SampleRate: 16000, Channels: 1, FrameDuration: 60}}

// talking makes a conversation of a board on a transport.
func talking(t testing.TB, b *Board, ch transport) (*connection, *Conversation) {
	t.Helper()
	l := b.newConnection(store.TransportSocket, quiet{}.RemoteAddr(), serverURL{}, ch.Text, func(error) {})
	c := newConversation(b, b.device, newSessionID(), store.TransportSocket, usualHello, b.output(), ch)
	if !b.attach(l) || !b.attachConversation(l, c) {
		t.Fatal("no conversation begins")
	}
	return l, c
}

// deaf is a voice that ignores all events: the benchmark handles them.
type deaf struct{}

func (deaf) Converse(ctx context.Context, _ *Conversation) { <-ctx.Done() }

// listens has the echo voice handle one event.
func listens(t testing.TB, c *Conversation, p *echoSession) {
	h, err := c.Next()
	if err != nil {
		t.Fatal(err)
	}
	p.onEvent(t.Context(), h)
}

// Each packet of a board costs one allocation at most, of its decoder, and one more for each
// recording's copy.
func TestSoundAllocates(t *testing.T) {
	b := alone(t, deaf{})
	_, c := talking(t, b, &mute{})
	p := &echoSession{c: c, ends: endpoint.New(endpoint.Options{})}
	c.onListenStart(wire.ModeAuto)
	listens(t, c, p)
	packets, i, now := sim.GoodMorning(), 0, time.Now()
	say := func() {
		now = now.Add(60 * time.Millisecond)
		c.onAudio(packets[10+i%10], now) // continuous speech, so that no answer begins
		listens(t, c, p)
		if i++; i%300 == 0 {
			p.reset()
		}
	}
	for range 600 { // fills the reused memory
		say()
	}
	if n := testing.AllocsPerRun(600, say); n > 1 {
		t.Errorf("%v allocations a packet", n)
	}
	tp := newTap()
	if !c.tap(tp) {
		t.Fatal("no tap")
	}
	tapped := func() { say(); <-tp.packets }
	if n := testing.AllocsPerRun(600, tapped); n > 2 {
		t.Errorf("%v allocations a packet with somebody who listens", n)
	}
}

// TestSilentVoice checks that speech keeps a conversation open if nobody answers it, and silence
// does not.
func TestSilentVoice(t *testing.T) {
	b := alone(t, nil)
	_, c := talking(t, b, &mute{})
	c.onListenStart(wire.ModeAuto)
	ended := make(chan struct{})
	go func() { defer close(ended); silentVoice{}.Converse(t.Context(), c) }()
	hear := func(packets ...[]byte) (spoke bool) {
		c.mu.Lock()
		c.lastActivity = time.Time{}
		c.mu.Unlock()
		for _, p := range packets {
			c.onAudio(p, time.Now())
		}
		for c.events.hasAudio() { // ends when the last packet is being heard
			runtime.Gosched()
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		return !c.lastActivity.IsZero()
	}
	if hear(slices.Repeat([][]byte{{0x58}}, 100)...) {
		t.Error("silence keeps the conversation open")
	}
	if !hear(sim.GoodMorning()...) {
		t.Error("speech does not keep the conversation open")
	}
	c.cancel(errGoodbye)
	<-ended
}

func BenchmarkSound(b *testing.B) {
	_, c := talking(b, alone(b, deaf{}), &mute{})
	p := &echoSession{c: c, ends: endpoint.New(endpoint.Options{})}
	c.onListenStart(wire.ModeAuto)
	listens(b, c, p)
	tp := newTap()
	c.tap(tp)
	packets, now := sim.GoodMorning(), time.Now()
	b.ReportAllocs()
	for i := range b.N {
		now = now.Add(60 * time.Millisecond)
		c.onAudio(packets[10+i%10], now)
		listens(b, c, p)
		<-tp.packets
		if i%300 == 0 {
			p.reset()
		}
	}
}

// sockets returns both ends of a WebSocket.
func sockets(t testing.TB, framing wire.Framing) (*webSocket, *websocket.Conn) {
	t.Helper()
	made := make(chan *webSocket, 1)
	over := make(chan struct{})
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		tap := &hijacker{ResponseWriter: w}
		conn, err := websocket.Accept(tap, r, &websocket.AcceptOptions{CompressionMode: websocket.CompressionDisabled})
		if err != nil {
			t.Error(err)
			return
		}
		made <- &webSocket{conn: conn, raw: tap.conn, framing: framing, began: time.Now()}
		<-over
	}))
	far, _, err := websocket.Dial(context.Background(), "ws"+strings.TrimPrefix(srv.URL, "http"), nil)
	if err != nil {
		t.Fatal(err)
	}
	far.SetReadLimit(-1)
	t.Cleanup(func() { _ = far.CloseNow(); close(over); srv.Close() })
	return <-made, far
}

// swallow reads and discards everything.
func swallow(t testing.TB, far *websocket.Conn) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			_, r, err := far.Reader(context.Background())
			if err != nil {
				return
			}
			if _, err := io.Copy(io.Discard, r); err != nil {
				return
			}
		}
	}()
	t.Cleanup(func() { _ = far.CloseNow(); <-done })
}

// BenchmarkAudio checks that a packet for a board costs no allocation on any transport.
func BenchmarkAudio(b *testing.B) {
	packet := sim.GoodMorning()[10]
	for name, framing := range map[string]wire.Framing{"bare": wire.FramingBare, "timed": wire.FramingTimed} {
		b.Run("socket/"+name, func(b *testing.B) {
			s, far := sockets(b, framing)
			swallow(b, far)
			b.ReportAllocs()
			for range b.N {
				if err := s.Audio(packet, 0); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	b.Run("post", func(b *testing.B) {
		srv, err := udp.Listen("127.0.0.1:0", udp.Options{PublicHost: "127.0.0.1"})
		if err != nil {
			b.Fatal(err)
		}
		defer srv.Close()
		session, err := srv.Open(0)
		if err != nil {
			b.Fatal(err)
		}
		sendDatagram(b, srv, session, packet)
		p := &mqttTransport{mqttSession: &mqttSession{board: alone(b, nil)}, audio: session, began: time.Now()}
		b.ReportAllocs()
		for range b.N {
			if err := p.Audio(packet, 0); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// sendDatagram sends a board's first datagram, from which the server learns its address.
func sendDatagram(t testing.TB, srv *udp.Server, session *udp.Session, packet []byte) {
	t.Helper()
	link := session.Link()
	key, nonce, err := link.Secrets()
	if err != nil {
		t.Fatal(err)
	}
	cipher, err := wire.NewCipher(key[:])
	if err != nil {
		t.Fatal(err)
	}
	conn, err := net.Dial("udp", srv.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if _, err := conn.Write(cipher.Seal(nil, wire.Header{SSRC: binary.BigEndian.Uint32(nonce[4:]), Sequence: 1},
		packet)); err != nil {
		t.Fatal(err)
	}
	if _, err := session.Receive(context.Background(), nil); err != nil {
		t.Fatal(err)
	}
}
