package sim

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"time"

	"patchbay/internal/plug/xiaozhi/wire"
)

// The packets of MQTT 3.1.1 that a board sends or understands.
const (
	mqttConnect  = 1
	mqttConnAck  = 2
	mqttPublish  = 3
	mqttPingReq  = 12
	mqttPingResp = 13
)

const (
	// maxPacket bounds what a broker may send in one packet, in bytes.
	maxPacket = 256 << 10
	// reconnectAfter is how long a board waits before it connects again.
	reconnectAfter = 10 * time.Second
	// mqttBuffer is what a connection reads at a time: small, for many boards in one
	// process.
	mqttBuffer = 256
)

// mqttLine is an MQTT connection as the firmware's: it publishes with QoS 0, pings,
// and subscribes to nothing.
type mqttLine struct {
	b       *Board
	conn    net.Conn
	topic   string
	since   time.Time
	wait    time.Duration // between pings
	timer   *time.Timer
	waiting bool // for the answer to a ping; the board's mutex guards it
	ghost   bool // half open; the same

	mu  sync.Mutex
	out []byte
}

// connectMQTT connects to the broker that the flash knows.
func (b *Board) connectMQTT(ctx context.Context) error {
	b.mu.Lock()
	plan := b.flash.mqttPlan()
	b.mu.Unlock()
	conn, err := b.shakeMQTT(ctx, plan, plan.Password)
	if err != nil {
		return err
	}
	l := &mqttLine{b: b, conn: conn, topic: plan.Publish, since: time.Now(), wait: time.Duration(plan.Keepalive) * time.Second / 2}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ctx.Err() != nil {
		l.drop(false)
		return ErrClosed
	}
	if b.line != nil {
		b.line.drop(false)
	}
	b.line = l
	b.wg.Go(l.read)
	l.timer = time.AfterFunc(l.wait, l.tick)
	b.changed()
	return nil
}

// refusedMQTT is a broker's code for no.
type refusedMQTT struct{ code byte }

func (r *refusedMQTT) Error() string {
	return fmt.Sprintf("the broker refuses the connection: code %d", r.code)
}

// shakeMQTT connects and waits until the broker has agreed.
func (b *Board) shakeMQTT(ctx context.Context, plan wire.MQTTPlan, password string) (net.Conn, error) {
	a, err := wire.ParseEndpoint(plan.Endpoint)
	if err != nil {
		return nil, fmt.Errorf("the address of the broker: %w", err)
	}
	conn, err := b.dial(ctx, a)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	_ = conn.SetDeadline(time.Now().Add(connectLimit))
	if _, err = conn.Write(appendConnect(nil, plan, password)); err == nil {
		var ack [4]byte
		if _, err = io.ReadFull(conn, ack[:]); err == nil {
			switch {
			case ack[0] != mqttConnAck<<4 || ack[1] != 2:
				err = errors.New("the broker does not answer CONNECT with CONNACK")
			case ack[3] != 0:
				err = &refusedMQTT{ack[3]}
			}
		}
	}
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	_ = conn.SetDeadline(time.Time{})
	return conn, nil
}

func appendConnect(b []byte, plan wire.MQTTPlan, password string) []byte {
	body := appendMQTTText(nil, "MQTT")
	flags := byte(0x02) // a clean session
	if plan.Username != "" {
		flags |= 0x80
		if password != "" {
			flags |= 0x40
		}
	}
	body = append(body, 4, flags)
	body = binary.BigEndian.AppendUint16(body, uint16(plan.Keepalive))
	body = appendMQTTText(body, plan.ClientID)
	if flags&0x80 != 0 {
		body = appendMQTTText(body, plan.Username)
	}
	if flags&0x40 != 0 {
		body = appendMQTTText(body, password)
	}
	return append(appendLength(append(b, mqttConnect<<4), len(body)), body...)
}

func appendMQTTText(b []byte, s string) []byte {
	return append(binary.BigEndian.AppendUint16(b, uint16(len(s))), s...)
}

// appendLength appends the remaining length of a packet.
func appendLength(b []byte, n int) []byte {
	for n >= 128 {
		b = append(b, byte(n)|0x80)
		n >>= 7
	}
	return append(b, byte(n))
}

// readPacket reads a packet. Its body is new memory.
func readPacket(in *bufio.Reader) (head byte, body []byte, err error) {
	if head, err = in.ReadByte(); err != nil {
		return 0, nil, err
	}
	n, shift := 0, 0
	for {
		c, err := in.ReadByte()
		if err != nil {
			return 0, nil, err
		}
		n |= int(c&0x7f) << shift
		if c&0x80 == 0 {
			break
		}
		if shift += 7; shift > 21 {
			return 0, nil, errors.New("a packet without a length")
		}
	}
	if n > maxPacket {
		return 0, nil, errors.New("a packet is too long")
	}
	if n > 0 {
		body = make([]byte, n)
	}
	_, err = io.ReadFull(in, body)
	return head, body, err
}

// publish sends a message.
func (l *mqttLine) publish(payload []byte) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.out = appendLength(append(l.out[:0], mqttPublish<<4), 2+len(l.topic)+len(payload))
	l.out = append(appendMQTTText(l.out, l.topic), payload...)
	err := l.write(l.out)
	if cap(l.out) > 1<<10 {
		l.out = nil // an idle board needs no memory for what it said once
	}
	return err
}

func (l *mqttLine) write(p []byte) error {
	_ = l.conn.SetWriteDeadline(time.Now().Add(writeLimit))
	_, err := l.conn.Write(p)
	return err
}

// tick pings. Timers cost less than goroutines.
func (l *mqttLine) tick() {
	b := l.b
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ctx.Err() != nil || b.line != l {
		return
	}
	if l.waiting {
		b.violate("C15", "a ping is not answered for %v", l.wait)
		_ = l.conn.Close() // the reader sees it
		return
	}
	l.waiting = true
	b.wg.Go(func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		_ = l.write([]byte{mqttPingReq << 4, 0}) // the reader sees what is wrong
	})
	l.timer.Reset(l.wait)
}

func (l *mqttLine) drop(reset bool) {
	if l.timer != nil {
		l.timer.Stop()
	}
	dropTCP(l.conn, reset)
}

// read is the net task of MQTT.
func (l *mqttLine) read() {
	b := l.b
	defer context.AfterFunc(b.ctx, func() { dropTCP(l.conn, false) })()
	defer l.conn.Close() //nolint:errcheck // it is over
	in := bufio.NewReaderSize(l.conn, mqttBuffer)
	for {
		head, body, err := readPacket(in)
		if err != nil {
			b.mqttEnded(l, err)
			return
		}
		b.mu.Lock()
		switch head >> 4 {
		case mqttPublish:
			b.onPublish(l, head, body)
		case mqttPingResp:
			l.waiting = false
		default:
			b.violate("C15", "the broker sends a packet of type %d", head>>4)
		}
		b.mu.Unlock()
	}
}

// onPublish is a message. The caller holds b.mu.
func (b *Board) onPublish(l *mqttLine, head byte, body []byte) {
	if b.ctx.Err() != nil {
		return
	}
	if l.ghost {
		if b.line != nil && time.Since(b.line.since) > b.opt.Slack { // else the server does not know yet
			b.violate("C13", "the old connection gets data when there is a newer one")
		}
		return
	}
	if head&6 != 0 {
		b.violate("C15", "a message comes with QoS %d", head>>1&3)
		return
	}
	if len(body) < 2 || len(body)-2 < int(binary.BigEndian.Uint16(body)) {
		b.violate("C15", "a message has no topic")
		return
	}
	if b.ch != nil {
		b.ch.lastData = time.Now()
	}
	b.onText(b.ch, body[2+int(binary.BigEndian.Uint16(body)):], time.Now())
}

// mqttEnded is the end of a connection. The board comes back after a while; a
// conversation goes on meanwhile, as far as it can.
func (b *Board) mqttEnded(l *mqttLine, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.line != l || b.ctx.Err() != nil {
		return
	}
	b.line = nil
	l.drop(false)
	if b.ch != nil && !b.ch.helloed {
		b.gone(b.ch, true, "MQTT ended: "+err.Error())
	} else {
		b.event(EventGone, "MQTT ended: "+strings.TrimSpace(err.Error()))
	}
	b.reconnectLater()
}

// reconnectLater connects again after a while. The caller holds b.mu.
func (b *Board) reconnectLater() {
	time.AfterFunc(b.scaled(reconnectAfter), func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.schedule(func(ctx context.Context) {
			b.mu.Lock()
			needed := b.line == nil && b.overMQTT && b.state >= Idle
			b.mu.Unlock()
			if !needed {
				return
			}
			if err := b.connectMQTT(ctx); err != nil {
				b.mu.Lock()
				b.reconnectLater()
				b.mu.Unlock()
			}
		})
	})
}
