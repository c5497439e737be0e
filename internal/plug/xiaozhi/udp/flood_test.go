package udp

import (
	"context"
	"encoding/binary"
	"flag"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"patchbay/internal/plug/xiaozhi/wire"
)

var (
	floodFor  = flag.Duration("flood", 0, "measure for so long what a flood does to conversations")
	floodRate = flag.Int("flood.rate", 50_000, "garbage per second")
	floodSize = flag.Int("flood.sessions", 200, "conversations")
)

// A flood of garbage does not disturb active conversations. The clients share the processors with
// the server, so the results are worse than what boards see. By default the test is short and
// small; -flood 20s measures.
func TestFlood(t *testing.T) {
	size, rate, span := 20, 2_000, time.Second
	if *floodFor > 0 {
		size, rate, span = *floodSize, *floodRate, *floodFor
	}
	r := newRig(t, Options{})
	ctx, cancel := context.WithTimeout(context.Background(), span)
	defer cancel()
	var flood, talkers sync.WaitGroup
	victim := r.open(wire.UplinkFrame)
	var garbage atomic.Int64
	flood.Go(func() { sendFlood(ctx, t, r, victim, rate, &garbage) })
	boards := make([]*talker, size)
	for i := range boards {
		x := r.open(wire.UplinkFrame)
		boards[i] = &talker{x: x, b: newBoard(t, r.s, x)}
		_ = boards[i].b.conn.SetDeadline(time.Time{})
		talkers.Go(func() { boards[i].talk(ctx, t, time.Duration(i)*60*time.Millisecond/time.Duration(size)) })
	}
	talkers.Wait()
	flood.Wait()

	var up, down direction
	for _, b := range boards {
		up.add(&b.up)
		down.add(&b.down)
	}
	for name, d := range map[string]*direction{"up": &up, "down": &down} {
		t.Logf("%s: %d packets sent, %d lost; on the way p50 %v, p99 %v, worst %v; apart from 60 ms p50 %v, p99 %v, worst %v",
			name, d.sent, d.sent-len(d.delays), at(d.delays, 50), at(d.delays, 99), at(d.delays, 100), at(d.jitter, 50),
			at(d.jitter, 99), at(d.jitter, 100))
		if d.sent != len(d.delays) || d.sent < size {
			t.Errorf("%s: %d packets of %d arrived", name, len(d.delays), d.sent)
		}
	}
	t.Logf("%d sessions, %.0f garbage/s", size, float64(garbage.Load())/span.Seconds())
	for _, v := range verdictNames {
		t.Logf("  %s: %d", v, r.count("received_datagrams_total", v))
	}
	t.Logf("  dropped: %d", r.count("dropped_packets_total", ""))
}

// direction counts the packets of one direction.
type direction struct {
	sent           int
	got            atomic.Int64
	delays, jitter []time.Duration
	last           time.Time
}

func (d *direction) add(o *direction) {
	d.sent += o.sent
	d.delays = append(d.delays, o.delays...)
	d.jitter = append(d.jitter, o.jitter...)
}

// arrived handles a packet that contains its send time.
func (d *direction) arrived(opus []byte) {
	now := time.Now()
	d.delays = append(d.delays, now.Sub(time.Unix(0, int64(binary.BigEndian.Uint64(opus[1:])))))
	if !d.last.IsZero() {
		d.jitter = append(d.jitter, (now.Sub(d.last) - wire.UplinkFrame).Abs())
	}
	d.last = now
	d.got.Add(1)
}

func (d *direction) missing() bool { return int(d.got.Load()) < d.sent }

func at(d []time.Duration, percent int) time.Duration {
	if len(d) == 0 {
		return 0
	}
	slices.Sort(d)
	return d[min(len(d)-1, len(d)*percent/100)].Round(time.Microsecond)
}

func stamped() []byte {
	opus := make([]byte, 150)
	opus[0] = 0x58
	binary.BigEndian.PutUint64(opus[1:], uint64(time.Now().UnixNano()))
	return opus
}

// talker is a board and its server, which both send audio.
type talker struct {
	x        *Session
	b        *board
	up, down direction
}

// talk sends every 60 ms in both directions until the context ends, and then waits for packets in
// transit.
func (k *talker) talk(ctx context.Context, t *testing.T, phase time.Duration) {
	last, stop := context.WithCancel(context.Background())
	defer stop()
	var readers sync.WaitGroup
	readers.Go(func() { // the server's session
		buf := make([]byte, 0, 2000)
		for {
			p, err := k.x.Receive(last, buf)
			if err != nil {
				return
			}
			k.up.arrived(p.Opus)
		}
	})
	readers.Go(func() { // the board
		cipher := k.b.fresh(t, k.x)
		buf, plain := make([]byte, 2000), make([]byte, 0, 2000)
		for {
			n, err := k.b.conn.Read(buf)
			if err != nil {
				return
			}
			if opus, _, err := cipher.Open(plain, buf[:n]); err == nil {
				k.down.arrived(opus)
			}
		}
	})
	timer := time.NewTimer(phase)
	defer timer.Stop()
	for next := time.Now().Add(phase); ctx.Err() == nil; {
		<-timer.C
		k.up.sent++
		k.b.send(uint32(k.up.sent), stamped())
		if k.up.sent > 1 || k.x.Addr().IsValid() {
			if err := k.x.Send(stamped(), uint32(k.up.sent*60)); err == nil {
				k.down.sent++
			}
		}
		next = next.Add(wire.UplinkFrame)
		timer.Reset(time.Until(next))
	}
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for limit := time.Now().Add(2 * time.Second); time.Now().Before(limit) && (k.up.missing() || k.down.missing()); {
		<-tick.C
	}
	stop()
	_ = k.b.conn.Close()
	readers.Wait()
}

// fresh returns another cipher of the session, since a Cipher must not be shared.
func (b *board) fresh(t *testing.T, x *Session) *wire.Cipher {
	link := x.Link()
	key, _, err := link.Secrets()
	if err != nil {
		t.Error(err)
	}
	c, err := wire.NewCipher(key[:])
	if err != nil {
		t.Error(err)
	}
	return c
}

// sendFlood sends garbage: random bytes, datagrams of unknown sessions, and datagrams of the
// victim's session with a wrong key.
func sendFlood(ctx context.Context, t *testing.T, r *rig, victim *Session, rate int, sent *atomic.Int64) {
	conn, err := net.Dial("udp4", r.s.Addr().String())
	if err != nil {
		t.Error(err)
		return
	}
	defer conn.Close() //nolint:errcheck // only written to
	wrong, _ := wire.NewCipher(make([]byte, 16))
	var pool [300][]byte
	for i := range pool {
		opus := make([]byte, 20+rand.IntN(200))
		for j := range opus {
			opus[j] = byte(rand.Uint32())
		}
		switch i % 3 {
		case 0:
			pool[i] = opus
		case 1:
			pool[i] = wrong.Seal(nil, wire.Header{SSRC: rand.Uint32(), Sequence: 1}, opus)
		case 2:
			pool[i] = wrong.Seal(nil, wire.Header{SSRC: victim.ssrc, Sequence: 1 + rand.Uint32N(2*maxAhead)}, opus)
		}
	}
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	begin := time.Now()
	for n := 0; ctx.Err() == nil; <-tick.C {
		for due := int(time.Since(begin).Seconds() * float64(rate)); n < due; n++ {
			if _, err := conn.Write(pool[n%len(pool)]); err == nil {
				sent.Add(1)
			}
		}
	}
}

// BenchmarkTake measures the reader without the system calls.
func BenchmarkTake(b *testing.B) {
	s, err := Listen("127.0.0.1:0", Options{PublicHost: "127.0.0.1"})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	x, err := s.Open(wire.UplinkFrame)
	if err != nil {
		b.Fatal(err)
	}
	c := newBoard(b, s, x)
	datagram := c.seal(1, append([]byte{0x58}, make([]byte, 149)...))
	stranger := c.seal(1, make([]byte, 150))
	stranger[4] ^= 1
	plain := make([]byte, 0, wire.MaxDatagram)
	from := s.Addr()
	b.Run("audio", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			x.window = window{}
			if s.handleDatagram(datagram, plain, from) != accepted {
				b.Fatal("refused")
			}
		}
	})
	b.Run("garbage", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if s.handleDatagram(stranger, plain, from) != unknown {
				b.Fatal("not refused")
			}
		}
	})
}
