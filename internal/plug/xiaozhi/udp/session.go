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

// queueLength is how many packets of a board wait for Receive: almost four seconds. It must hold
// the wake word, up to 33 packets at once: two seconds of sound (xiaozhi-esp32
// main/audio/engines/afe_audio_engine.cc, wake_word_audio_cache_). When the queue is full, the
// oldest packet is dropped and counted, since current speech matters more.
const queueLength = 64

// slotSize is the initial capacity of a queue slot, in bytes. Speech rarely needs more.
const slotSize = 256

// Packet is an audio packet of a board.
type Packet struct {
	Opus      []byte
	Sequence  uint32 // 1 for the first after the hello; packets may arrive out of order
	Timestamp uint32 // of the packet that the board played then, with server AEC; 0 otherwise
}

// Session is the audio of one conversation. Its methods are safe for concurrent use, except
// Receive.
type Session struct {
	s     *Server
	ssrc  uint32
	frame time.Duration
	link  wire.Link

	// Used only by the server's reader.
	decrypter *wire.Cipher
	window    window

	inMu  sync.Mutex
	addr  netip.AddrPort // of the board; zero: unknown
	queue [queueLength]Packet
	first int // index of the oldest packet
	count int
	ready chan struct{} // has a token after a packet was added

	outMu     sync.Mutex
	encrypter *wire.Cipher
	datagram  []byte
	sequence  uint32
	timestamp uint32

	once sync.Once
	done chan struct{}
}

// Link returns the UDP part of the server's hello. It includes the key.
func (x *Session) Link() wire.Link { return x.link }

// Addr returns the board's address, zero before its first datagram. It changes when the board's NAT
// mapping changes.
func (x *Session) Addr() netip.AddrPort {
	x.inMu.Lock()
	defer x.inMu.Unlock()
	return x.addr
}

// Send sends a packet to the board's last address. timestamp is in ms and must grow from packet to
// packet; otherwise it is replaced by the last one plus 1, since packets with equal timestamps
// could share key stream. The error is [ErrNoAddress], [ErrPacket], [ErrTimestampsExhausted],
// [ErrClosed], or that of the network. Nil does not mean that the packet arrives.
func (x *Session) Send(opus []byte, timestamp uint32) error {
	if len(opus) == 0 || len(opus) > wire.MaxDatagram-wire.HeaderSize {
		return ErrPacket
	}
	x.outMu.Lock()
	defer x.outMu.Unlock()
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
		return ErrTimestampsExhausted
	}
	x.sequence++
	x.timestamp = max(timestamp, x.timestamp+1)
	h := wire.Header{Flags: wire.DownlinkFlags, SSRC: x.ssrc, Timestamp: x.timestamp, Sequence: x.sequence}
	x.datagram = x.encrypter.Seal(x.datagram[:0], h, opus)
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

// Receive waits for a packet of the board, in the order of arrival. Opus is in buf, if that is
// large enough. Up to 64 packets are queued; then the oldest is dropped. The error is ctx's, or
// [ErrClosed]. It must not be called concurrently.
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
	x.inMu.Lock()
	defer x.inMu.Unlock()
	if x.count == 0 {
		return Packet{}, false
	}
	p := x.queue[x.first]
	p.Opus = append(buf[:0], p.Opus...)
	x.first = (x.first + 1) % queueLength
	x.count--
	return p, true
}

// Close ends the session and forgets its number and key.
func (x *Session) Close() {
	x.once.Do(func() {
		close(x.done)
		x.s.remove(x)
	})
}

// handleDatagram handles a datagram of the session. Only the reader calls it.
func (x *Session) handleDatagram(datagram, plain []byte, from netip.AddrPort) verdict {
	h, err := wire.ParseHeader(datagram)
	if err != nil {
		return badLength
	}
	if v := x.window.check(h.Sequence); v != accepted {
		return v
	}
	opus, _, err := x.decrypter.Open(plain[:0], datagram)
	if err != nil {
		return notOpus
	}
	d, err := wire.Duration(opus)
	if err != nil {
		return notOpus
	}
	announced := x.frame == 0 || d == x.frame
	if at := x.Addr(); !announced && at.IsValid() && at != from {
		return notOpus // neither address nor packet length identify the board
	}
	newest := x.window.mark(h.Sequence)
	x.push(opus, h, from, newest)
	if !announced {
		return unexpectedLength
	}
	return accepted
}

// push queues a packet, and trusts its address if the packet is the newest: datagrams that were in
// transit when the address changed do not change it back.
func (x *Session) push(opus []byte, h wire.Header, from netip.AddrPort, newest bool) {
	m := x.s.metrics
	x.inMu.Lock()
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
	x.inMu.Unlock()
	select {
	case x.ready <- struct{}{}:
	default:
	}
}
