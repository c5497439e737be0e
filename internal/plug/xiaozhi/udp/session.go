package udp

import (
	"context"
	"errors"
	"math"
	"net"
	"net/netip"
	"sync"
	"time"

	"patchbay/internal/plug/xiaozhi/wire"
)

// queueLength is how many packets of a board wait to be received, almost four
// seconds. What a board sends after the wake word, 33 packets at once, must fit.
// When it is full, the oldest is dropped and counted: what is said now matters more.
const queueLength = 64

// slotSize is what a place in the queue has room for at first, in bytes. Speech
// rarely needs more.
const slotSize = 256

// Packet is what a board sent.
type Packet struct {
	Opus      []byte
	Sequence  uint32 // 1 for the first after the hello; packets that were overtaken come late
	Timestamp uint32 // of the packet that it played then, if it says so; 0 otherwise
}

// Session is the audio of one conversation. Its methods may be called from many
// goroutines.
type Session struct {
	s     *Server
	ssrc  uint32
	frame time.Duration
	link  wire.Link

	// The reader's.
	open   *wire.Cipher
	window window

	in    sync.Mutex
	addr  netip.AddrPort // of the board, once it is known
	queue [queueLength]Packet
	first int // the oldest
	count int
	ready chan struct{} // has a token if something came

	out       sync.Mutex
	seal      *wire.Cipher
	datagram  []byte
	sequence  uint32
	timestamp uint32

	once sync.Once
	done chan struct{}
}

// Link is what the board has to be told in the server's hello. It has the key in it.
func (x *Session) Link() wire.Link { return x.link }

// Addr is where the board is, and zero before its first datagram. It changes when
// the board's router gives it another.
func (x *Session) Addr() netip.AddrPort {
	x.in.Lock()
	defer x.in.Unlock()
	return x.addr
}

// Send sends a packet to where the board was heard of last. The timestamp is in
// milliseconds and has to grow from packet to packet; one that does not is replaced
// by the next one, since two packets with the same would be encrypted with the same
// bytes. The error is [ErrNoAddress], [ErrPacket], [ErrUsedUp], [ErrClosed], or the
// network's. That there is none does not mean that the packet arrives.
func (x *Session) Send(opus []byte, timestamp uint32) error {
	if len(opus) == 0 || len(opus) > wire.MaxDatagram-wire.HeaderSize {
		return ErrPacket
	}
	x.out.Lock()
	defer x.out.Unlock()
	select {
	case <-x.done:
		return ErrClosed
	default:
	}
	to := x.Addr()
	if !to.IsValid() {
		return ErrNoAddress
	}
	if x.timestamp == math.MaxUint32 || x.sequence == math.MaxUint32 {
		return ErrUsedUp
	}
	x.sequence++
	x.timestamp = max(timestamp, x.timestamp+1)
	h := wire.Header{Flags: wire.DownlinkFlags, SSRC: x.ssrc, Timestamp: x.timestamp, Sequence: x.sequence}
	x.datagram = x.seal.Seal(x.datagram[:0], h, opus)
	if _, err := x.s.conn.WriteToUDPAddrPort(x.datagram, to); err != nil {
		x.s.metrics.unsent.Inc()
		if errors.Is(err, net.ErrClosed) {
			return ErrClosed
		}
		return err
	}
	x.s.metrics.sent.Inc()
	return nil
}

// Receive waits for a packet of the board. Opus is in buf, if that is large enough.
// Packets come as they arrive. 64 wait; of more, the oldest are dropped. The error is
// the context's, or [ErrClosed]. It is for one goroutine at a time.
func (x *Session) Receive(ctx context.Context, buf []byte) (Packet, error) {
	for {
		select {
		case <-x.done:
			return Packet{}, ErrClosed
		default:
		}
		if p, ok := x.pop(buf); ok {
			return p, nil
		}
		select {
		case <-x.ready:
		case <-x.done:
		case <-ctx.Done():
			return Packet{}, ctx.Err()
		}
	}
}

func (x *Session) pop(buf []byte) (Packet, bool) {
	x.in.Lock()
	defer x.in.Unlock()
	if x.count == 0 {
		return Packet{}, false
	}
	p := x.queue[x.first]
	p.Opus = append(buf[:0], p.Opus...)
	x.first = (x.first + 1) % queueLength
	x.count--
	return p, true
}

// Close ends the session. Its number and its key are forgotten.
func (x *Session) Close() {
	x.once.Do(func() {
		close(x.done)
		x.s.forget(x)
	})
}

// take looks at a datagram of the session's. It is the reader's.
func (x *Session) take(datagram, plain []byte, from netip.AddrPort) verdict {
	h, err := wire.ParseHeader(datagram)
	if err != nil {
		return badLength
	}
	if v := x.window.look(h.Sequence); v != good {
		return v
	}
	opus, _, err := x.open.Open(plain[:0], datagram)
	if err != nil {
		return noOpus
	}
	d, err := wire.Duration(opus)
	if err != nil {
		return noOpus
	}
	announced := x.frame == 0 || d == x.frame
	if at := x.Addr(); !announced && at.IsValid() && at != from {
		return noOpus // neither where it comes from nor what it is speaks for the board
	}
	newest := x.window.mark(h.Sequence)
	x.push(opus, h, from, newest)
	if !announced {
		return unannounced
	}
	return good
}

// push puts a packet into the queue and believes its address if nothing newer came
// from elsewhere: what was under way when the address changed does not change it
// back.
func (x *Session) push(opus []byte, h wire.Header, from netip.AddrPort, newest bool) {
	m := x.s.metrics
	x.in.Lock()
	if newest && from != x.addr {
		if x.addr.IsValid() {
			m.moved.Inc()
		}
		x.addr = from
	}
	if x.count == queueLength {
		x.first = (x.first + 1) % queueLength
		x.count--
		m.dropped.Inc()
	}
	p := &x.queue[(x.first+x.count)%queueLength]
	x.count++
	if p.Opus == nil {
		p.Opus = make([]byte, 0, max(slotSize, len(opus)))
	}
	p.Opus = append(p.Opus[:0], opus...)
	p.Sequence, p.Timestamp = h.Sequence, h.Timestamp
	x.in.Unlock()
	select {
	case x.ready <- struct{}{}:
	default:
	}
}
