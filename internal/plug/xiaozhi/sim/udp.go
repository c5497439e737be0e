package sim

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
	"time"

	"patchbay/internal/plug/xiaozhi/wire"
)

// udpLink is a conversation over MQTT with audio in datagrams.
type udpLink struct {
	b    *Board
	mqtt *mqttConn

	mu       sync.Mutex
	conn     net.Conn // nil before the server's hello
	addr     string
	seal     *wire.Cipher
	nonce    wire.Header
	sequence uint32
	held     []byte // a datagram to send after the next one
	in       *udpIn
}

// openUDP sends hello over MQTT, waits for the server's hello, and opens the UDP socket.
func (b *Board) openUDP(ctx context.Context) (*audioChannel, error) {
	ch := b.newAudioChannel(true, wire.FramingBare)
	b.mu.Lock()
	line := b.mqtt
	if line == nil || b.ctx.Err() != nil {
		b.mu.Unlock()
		return nil, errors.New("MQTT is not connected")
	}
	l := &udpLink{b: b, mqtt: line}
	ch.link = l
	b.ch = ch
	b.mu.Unlock()
	if err := line.publish(b.helloMessage(3, wire.UDP)); err != nil {
		return ch, err
	}
	if err := b.awaitHello(ctx, ch); err != nil {
		return ch, err
	}
	return ch, b.connectUDP(ctx, ch, l)
}

func (b *Board) connectUDP(ctx context.Context, ch *audioChannel, l *udpLink) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	plan := ch.plan
	if plan == nil {
		b.violate("C3", "there is no udp in the hello")
		return errors.New("the server's hello has no udp")
	}
	key, nonce, err := plan.Secrets()
	if err != nil {
		b.violate("C3", "the hello has %v", err)
		return fmt.Errorf("the server's hello: %w", err)
	}
	if plan.Key == b.lastKey {
		b.violate("C16", "two conversations have the same key")
	}
	b.lastKey = plan.Key
	seal, _ := wire.NewCipher(key[:])
	open, _ := wire.NewCipher(key[:])
	whole := wire.Header{Flags: nonce[1]}
	for i := range 4 {
		whole.SSRC = whole.SSRC<<8 | uint32(nonce[4+i])
	}
	l.seal, l.nonce = seal, whole
	l.addr = net.JoinHostPort(plan.Server, strconv.Itoa(plan.Port))
	conn, err := b.opt.Dial(ctx, "udp4", l.addr)
	if err != nil {
		return err
	}
	l.mu.Lock()
	l.conn = conn
	l.mu.Unlock()
	l.in = &udpIn{b: b, ch: ch, cipher: open, upFlags: nonce[1]}
	b.wg.Go(func() { l.in.read(conn) })
	return nil
}

func (l *udpLink) sendText(text []byte) error { return l.mqtt.publish(text) }

func (l *udpLink) sendAudio(opus []byte, timestamp uint32) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.conn == nil {
		return net.ErrClosed
	}
	h := l.nonce
	l.sequence++
	h.Sequence, h.Timestamp = l.sequence, timestamp
	d := l.seal.Seal(nil, h, opus)
	f := l.b.opt.Faults
	if chance(f.Loss) {
		return nil
	}
	if l.held == nil && chance(f.Reorder) {
		l.held = d
		return nil
	}
	_, err := l.conn.Write(d)
	if chance(f.Duplicate) {
		_, _ = l.conn.Write(d)
	}
	if l.held != nil {
		_, _ = l.conn.Write(l.held)
		l.held = nil
	}
	return err
}

// chance returns true with the given probability.
func chance(share float64) bool { return share > 0 && rand.Float64() < share }

func (l *udpLink) sendRaw(binary bool, data []byte) error {
	if !binary {
		return l.mqtt.publish(data)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.conn == nil {
		return net.ErrClosed
	}
	_, err := l.conn.Write(data)
	return err
}

func (l *udpLink) drop(bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.conn != nil {
		_ = l.conn.Close()
		l.conn = nil
	}
}

// udpIn receives the datagrams of a conversation.
type udpIn struct {
	b        *Board
	ch       *audioChannel
	cipher   *wire.Cipher
	upFlags  byte
	last     uint32 // sequence
	lastTime uint32 // timestamp
	any      bool
}

func (u *udpIn) read(conn net.Conn) {
	defer context.AfterFunc(u.b.ctx, func() { _ = conn.Close() })()
	buf := make([]byte, wire.MaxDatagram+1)
	var held []byte
	faults := u.b.opt.Faults
	for {
		n, err := conn.Read(buf)
		if err != nil {
			if errors.Is(err, net.ErrClosed) || u.b.ctx.Err() != nil {
				return
			}
			continue // an ICMP error; the board does not notice it
		}
		if chance(faults.Loss) {
			continue
		}
		if held == nil && chance(faults.Reorder) {
			held = append([]byte(nil), buf[:n]...)
			continue
		}
		u.take(buf[:n])
		if held != nil {
			u.take(held)
			held = nil
		}
	}
}

// take handles one datagram (xiaozhi-esp32 main/protocols/mqtt_protocol.cc,
// MqttProtocol::OpenAudioChannel).
func (u *udpIn) take(d []byte) {
	at := time.Now()
	b := u.b
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ctx.Err() != nil || b.ch != u.ch {
		return
	}
	opus, h, err := u.cipher.Open(nil, d)
	if err != nil || len(d) > wire.MaxDatagram {
		b.report.BadDatagrams++
		b.violate("C16", "a datagram of %d bytes is not one that boards take", len(d))
		return
	}
	quiet := b.opt.Faults == Faults{}
	switch {
	case !u.any && h.Sequence != 1 && quiet:
		b.violate("C16", "the first sequence is %d", h.Sequence)
	case u.any && h.Sequence <= u.last:
		b.report.BadDatagrams++
		if quiet {
			b.violate("C16", "the sequence goes from %d to %d", u.last, h.Sequence)
		}
		return
	case u.any && h.Timestamp <= u.lastTime:
		b.violate("C16", "the timestamp does not grow: two packets are encrypted with the same bytes")
	}
	if h.Flags == u.upFlags && h.Timestamp == 0 {
		b.violate("C16",
			"flags and timestamp are those of the board: both directions are encrypted with the same bytes")
	}
	u.any, u.last, u.lastTime = true, h.Sequence, h.Timestamp
	u.ch.lastData = at
	b.onAudio(u.ch, opus, h.Timestamp, at)
}

// Rebind sends further datagrams from another port, as after a NAT timeout.
func (b *Board) Rebind(ctx context.Context) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ch == nil {
		return ErrIdle
	}
	l, ok := b.ch.link.(*udpLink)
	if !ok {
		return errors.New("the conversation has no datagrams")
	}
	conn, err := b.opt.Dial(ctx, "udp4", l.addr)
	if err != nil {
		return err
	}
	l.mu.Lock()
	old := l.conn
	l.conn = conn
	l.mu.Unlock()
	b.wg.Go(func() { l.in.read(conn) })
	if old != nil {
		_ = old.Close()
	}
	return nil
}
