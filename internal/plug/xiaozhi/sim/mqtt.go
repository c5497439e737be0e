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

// MQTT 3.1.1 packet types that a board sends or understands (MQTT 3.1.1 §2.2.1).
const (
	mqttConnect  = 1
	mqttConnAck  = 2
	mqttPublish  = 3
	mqttPingReq  = 12
	mqttPingResp = 13
)

const (
	// maxPacket limits a packet of the broker, in bytes.
	maxPacket = 256 << 10
	// reconnectAfter is the pause before the board connects again: the default of ESP-MQTT
	// (mqtt_client.h, network.reconnect_timeout_ms).
	reconnectAfter = 10 * time.Second
	// mqttBuffer is the size of the read buffer: small, for many boards in one process.
	mqttBuffer = 256
)

// mqttConn is an MQTT connection like that of the firmware: it publishes with QoS 0, pings, and
// subscribes to nothing (xiaozhi-esp32 main/protocols/mqtt_protocol.cc; esp-ml307
// src/esp/esp_mqtt.cc).
type mqttConn struct {
	b            *Board
	conn         net.Conn
	topic        string
	since        time.Time
	pingInterval time.Duration // between pings
	timer        *time.Timer
	pingPending  bool // a ping is unanswered; guarded by the board's mutex
	isHalfOpen   bool // the board has forgotten it; guarded likewise

	mu  sync.Mutex
	out []byte
}

// connectMQTT connects to the broker in the stored configuration.
func (b *Board) connectMQTT(ctx context.Context) error {
	b.mu.Lock()
	plan := b.flash.mqttPlan()
	b.mu.Unlock()
	conn, err := b.handshakeMQTT(ctx, plan, plan.Password)
	if err != nil {
		return err
	}
	l := &mqttConn{b: b, conn: conn, topic: plan.Publish, since: time.Now(),
		pingInterval: time.Duration(plan.Keepalive) * time.Second / 2}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ctx.Err() != nil {
		l.drop(false)
		return ErrClosed
	}
	if b.mqtt != nil {
		b.mqtt.drop(false)
	}
	b.mqtt = l
	b.wg.Go(l.read)
	l.timer = time.AfterFunc(l.pingInterval, l.tick)
	b.changed()
	return nil
}

// connAckError is a CONNACK return code other than 0.
type connAckError struct{ code byte }

func (r *connAckError) Error() string {
	return fmt.Sprintf("the broker refuses the connection: code %d", r.code)
}

// handshakeMQTT connects to the broker and waits for its CONNACK.
func (b *Board) handshakeMQTT(ctx context.Context, plan wire.MQTTConfig, password string) (net.Conn, error) {
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
				err = &connAckError{ack[3]}
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

func appendConnect(b []byte, plan wire.MQTTConfig, password string) []byte {
	body := appendMQTTText(nil, "MQTT")
	flags := byte(0x02) // clean session
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

// appendLength appends the remaining length of a packet (MQTT 3.1.1 §2.2.3).
func appendLength(b []byte, n int) []byte {
	for n >= 128 {
		b = append(b, byte(n)|0x80)
		n >>= 7
	}
	return append(b, byte(n))
}

// readPacket reads a packet. The body is not shared.
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

// publish publishes a message.
func (l *mqttConn) publish(payload []byte) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.out = appendLength(append(l.out[:0], mqttPublish<<4), 2+len(l.topic)+len(payload))
	l.out = append(appendMQTTText(l.out, l.topic), payload...)
	err := l.write(l.out)
	if cap(l.out) > 1<<10 {
		l.out = nil // keeps idle boards small
	}
	return err
}

func (l *mqttConn) write(p []byte) error {
	_ = l.conn.SetWriteDeadline(time.Now().Add(writeLimit))
	_, err := l.conn.Write(p)
	return err
}

// tick sends a ping, and drops the connection if the last one is unanswered. A timer costs less
// memory than a goroutine.
func (l *mqttConn) tick() {
	b := l.b
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ctx.Err() != nil || b.mqtt != l {
		return
	}
	if l.pingPending {
		b.violate("C15", "a ping is not answered for %v", l.pingInterval)
		_ = l.conn.Close() // read returns an error
		return
	}
	l.pingPending = true
	b.wg.Go(func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		_ = l.write([]byte{mqttPingReq << 4, 0}) // read returns errors
	})
	l.timer.Reset(l.pingInterval)
}

func (l *mqttConn) drop(reset bool) {
	if l.timer != nil {
		l.timer.Stop()
	}
	dropTCP(l.conn, reset)
}

// read reads packets until the connection ends.
func (l *mqttConn) read() {
	b := l.b
	defer context.AfterFunc(b.ctx, func() { dropTCP(l.conn, false) })()
	defer l.conn.Close() //nolint:errcheck // the connection has ended
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
			l.pingPending = false
		default:
			b.violate("C15", "the broker sends a packet of type %d", head>>4)
		}
		b.mu.Unlock()
	}
}

// onPublish handles a message. Requires b.mu.
func (b *Board) onPublish(l *mqttConn, head byte, body []byte) {
	if b.ctx.Err() != nil {
		return
	}
	if l.isHalfOpen {
		if b.mqtt != nil && time.Since(b.mqtt.since) > b.opt.Slack { // the server may not know yet
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

// mqttEnded handles the end of a connection. The board reconnects later; an open conversation goes
// on meanwhile.
func (b *Board) mqttEnded(l *mqttConn, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.mqtt != l || b.ctx.Err() != nil {
		return
	}
	b.mqtt = nil
	l.drop(false)
	if b.ch != nil && !b.ch.helloed {
		b.onDisconnect(b.ch, true, "MQTT ended: "+err.Error())
	} else {
		b.event(EventDisconnected, "MQTT ended: "+strings.TrimSpace(err.Error()))
	}
	b.reconnectLater()
}

// reconnectLater connects again after reconnectAfter. Requires b.mu.
func (b *Board) reconnectLater() {
	time.AfterFunc(b.scaled(reconnectAfter), func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.schedule(func(ctx context.Context) {
			b.mu.Lock()
			needed := b.mqtt == nil && b.overMQTT && b.state >= Idle
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
