package udp

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"patchbay/internal/plug/xiaozhi/wire"
)

// patience is the timeout for what happens soon, on a busy machine.
const patience = 20 * time.Second

// rig is a server on a socket.
type rig struct {
	t   *testing.T
	s   *Server
	reg *prometheus.Registry
}

func newRig(t *testing.T, opt Options) *rig {
	t.Helper()
	r := &rig{t: t, reg: prometheus.NewRegistry()}
	opt.Registerer, opt.PublicHost = r.reg, "127.0.0.1"
	s, err := Listen("127.0.0.1:0", opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	r.s = s
	return r
}

// count returns a metric; label is the value of its label, if it has one.
func (r *rig) count(name, label string) int {
	r.t.Helper()
	families, err := r.reg.Gather()
	if err != nil {
		r.t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != "patchbay_audio_"+name {
			continue
		}
		for _, m := range f.GetMetric() {
			if l := m.GetLabel(); len(l) == 0 || l[0].GetValue() == label {
				return int(m.GetCounter().GetValue() + m.GetGauge().GetValue())
			}
		}
	}
	return 0
}

// until waits for the value of a metric.
func (r *rig) until(name, label string, want int) {
	r.t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for limit := time.Now().Add(patience); time.Now().Before(limit); <-tick.C {
		if r.count(name, label) >= want {
			break
		}
	}
	if got := r.count(name, label); got != want {
		r.t.Fatalf("%s of %s: %d, want %d", name, label, got, want)
	}
}

// board is the peer of a session.
type board struct {
	t      testing.TB
	conn   net.Conn
	cipher *wire.Cipher
	ssrc   uint32
}

func newBoard(t testing.TB, s *Server, x *Session) *board {
	t.Helper()
	link := x.Link()
	key, nonce, err := link.Secrets()
	if err != nil {
		t.Fatal(err)
	}
	if nonce != wire.Nonce(x.ssrc) {
		t.Fatalf("nonce %x", nonce)
	}
	c, err := wire.NewCipher(key[:])
	if err != nil {
		t.Fatal(err)
	}
	b := &board{t: t, cipher: c, ssrc: x.ssrc}
	b.move(s)
	return b
}

// move gives the board another port.
func (b *board) move(s *Server) {
	b.t.Helper()
	conn, err := net.Dial("udp4", s.Addr().String())
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(patience))
	b.conn = conn
}

func (b *board) seal(sequence uint32, opus []byte) []byte {
	return b.cipher.Seal(nil, wire.Header{SSRC: b.ssrc, Sequence: sequence}, opus)
}

func (b *board) raw(datagram []byte) {
	b.t.Helper()
	if _, err := b.conn.Write(datagram); err != nil {
		b.t.Fatal(err)
	}
}

func (b *board) send(sequence uint32, opus []byte) {
	b.t.Helper()
	b.raw(b.seal(sequence, opus))
}

// receive returns the next packet of the server.
func (b *board) receive() (wire.Header, []byte) {
	b.t.Helper()
	buf := make([]byte, 2000)
	n, err := b.conn.Read(buf)
	if err != nil {
		b.t.Fatal(err)
	}
	opus, h, err := b.cipher.Open(nil, buf[:n])
	if err != nil {
		b.t.Fatal(err)
	}
	return h, opus
}

func (r *rig) open(frame time.Duration) *Session {
	r.t.Helper()
	x, err := r.s.Open(frame)
	if err != nil {
		r.t.Fatal(err)
	}
	return x
}

// expect receives a packet with a given sequence.
func (r *rig) expect(x *Session, sequence uint32, opus []byte) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	p, err := x.Receive(ctx, nil)
	if err != nil || p.Sequence != sequence || string(p.Opus) != string(opus) {
		r.t.Fatalf("packet %d %q, %v; want %d %q", p.Sequence, p.Opus, err, sequence, opus)
	}
}

// speech returns a packet as boards send it, 60 ms, that contains a text.
func speech(text string) []byte { return append([]byte{0x58}, text...) }
