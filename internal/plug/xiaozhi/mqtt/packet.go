package mqtt

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"sync"
	"unicode/utf8"
)

// MQTT 3.1.1 packet types that boards and test clients send, and those of the responses (MQTT 3.1.1
// §2.2.1).
const (
	kindConnect     = 1
	kindConnAck     = 2
	kindPublish     = 3
	kindPubAck      = 4
	kindSubscribe   = 8
	kindSubAck      = 9
	kindUnsubscribe = 10
	kindUnsubAck    = 11
	kindPingReq     = 12
	kindPingResp    = 13
	kindDisconnect  = 14
)

// ErrProtocol reports a packet that violates MQTT 3.1.1, or is not supported here.
var ErrProtocol = errors.New("not MQTT as it is spoken here")

func protocolError(what string) error { return fmt.Errorf("%w: %s", ErrProtocol, what) }

// head is the fixed header of a packet (MQTT 3.1.1 §2.2).
type head struct {
	kind, flags byte
	length      int // remaining length
}

// readHead reads the fixed header of a packet. It waits with a buffer of two bytes, so that idle
// connections need no more.
func readHead(r io.Reader, buf *[2]byte) (head, error) {
	if _, err := io.ReadFull(r, buf[:]); err != nil {
		return head{}, err
	}
	h := head{kind: buf[0] >> 4, flags: buf[0] & 15, length: int(buf[1] & 0x7f)}
	for shift := 7; buf[1]&0x80 != 0; shift += 7 {
		if shift > 21 {
			return head{}, protocolError("a length of more than four bytes")
		}
		if _, err := io.ReadFull(r, buf[1:]); err != nil {
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return head{}, err
		}
		h.length |= int(buf[1]&0x7f) << shift
	}
	return h, nil
}

// appendHead appends the fixed header of a packet.
func appendHead(b []byte, kind, flags byte, length int) []byte {
	b = append(b, kind<<4|flags)
	for length >= 128 {
		b = append(b, byte(length)|0x80)
		length >>= 7
	}
	return append(b, byte(length))
}

// bodyReader parses the body of a packet. bad is set after any error.
type bodyReader struct {
	rest []byte
	bad  bool
}

func (f *bodyReader) take(n int) []byte {
	if f.bad || n > len(f.rest) {
		f.bad, f.rest = true, nil
		return nil
	}
	part := f.rest[:n]
	f.rest = f.rest[n:]
	return part
}

func (f *bodyReader) byte() byte {
	if b := f.take(1); b != nil {
		return b[0]
	}
	return 0
}

func (f *bodyReader) uint16() uint16 {
	if b := f.take(2); b != nil {
		return binary.BigEndian.Uint16(b)
	}
	return 0
}

func (f *bodyReader) bytes() []byte { return f.take(int(f.uint16())) }

// text returns a UTF-8 string of at most limit bytes (MQTT 3.1.1 §1.5.3).
func (f *bodyReader) text(limit int) string {
	b := f.bytes()
	if len(b) > limit || !utf8.Valid(b) {
		f.bad = true
		return ""
	}
	s := string(b)
	if strings.IndexByte(s, 0) >= 0 {
		f.bad = true
	}
	return s
}

// connectPacket has the contents of a CONNECT.
type connectPacket struct {
	keepalive                    uint16 // in seconds; 0: none
	clientID, username, password string
}

// parseConnect parses a CONNECT (MQTT 3.1.1 §3.1). The error is a [Refusal] if it calls for a
// CONNACK, and [ErrProtocol] if the connection must be closed.
func parseConnect(body []byte) (connectPacket, error) {
	var p connectPacket
	f := bodyReader{rest: body}
	name, level := string(f.bytes()), f.byte()
	if f.bad || name != "MQTT" && name != "MQIsdp" {
		return p, protocolError("the first packet is no CONNECT")
	}
	if name == "MQTT" && level != 4 || name == "MQIsdp" && level != 3 {
		return p, WrongVersion
	}
	flags := f.byte()
	p.keepalive = f.uint16()
	p.clientID = f.text(math.MaxUint16)
	if flags&0x04 != 0 { // the will is ignored
		f.bytes()
		f.bytes()
	} else if flags&0x38 != 0 {
		return p, protocolError("flags of a will that is not there")
	}
	if flags&0x80 != 0 {
		p.username = f.text(math.MaxUint16)
	}
	if flags&0x40 != 0 {
		p.password = string(f.bytes())
	}
	switch {
	case f.bad || len(f.rest) > 0 || flags&0x01 != 0 || flags&0x18 == 0x18:
		return p, protocolError("a CONNECT that is malformed")
	case flags&0xc0 == 0x40:
		return p, protocolError("a password without a user")
	case p.clientID == "":
		return p, BadClientID
	}
	return p, nil
}

// publishPacket is a message (MQTT 3.1.1 §3.3). Its slices share memory with the packet.
type publishPacket struct {
	qos            byte
	id             uint16 // only with QoS 1
	topic, payload []byte
}

func parsePublish(flags byte, body []byte) (publishPacket, error) {
	p := publishPacket{qos: flags >> 1 & 3}
	if p.qos > 1 {
		return p, protocolError("a message with a QoS that is not served")
	}
	f := bodyReader{rest: body}
	p.topic = f.bytes()
	if p.qos == 1 {
		if p.id = f.uint16(); p.id == 0 {
			f.bad = true
		}
	}
	p.payload = f.rest
	if f.bad || len(p.topic) == 0 {
		return p, protocolError("a PUBLISH that is malformed")
	}
	return p, nil
}

// appendSubAck appends the SUBACK for a SUBSCRIBE (MQTT 3.1.1 §3.8, §3.9): it grants the client's
// own topic, and nothing else.
func appendSubAck(b []byte, flags byte, body []byte, own string) ([]byte, error) {
	f := bodyReader{rest: body}
	id := f.uint16()
	var codes []byte
	for !f.bad && len(f.rest) > 0 {
		filter, qos := f.bytes(), f.byte()
		f.bad = f.bad || len(filter) == 0 || qos > 2
		code := byte(0x80)
		if string(filter) == own {
			code = 0
		}
		codes = append(codes, code)
	}
	if f.bad || len(codes) == 0 || id == 0 || flags != 2 {
		return b, protocolError("a SUBSCRIBE that is malformed")
	}
	b = appendHead(b, kindSubAck, 0, 2+len(codes))
	return append(binary.BigEndian.AppendUint16(b, id), codes...), nil
}

// appendUnsubAck appends the UNSUBACK for an UNSUBSCRIBE, which has no effect (MQTT 3.1.1 §3.10,
// §3.11).
func appendUnsubAck(b []byte, flags byte, body []byte) ([]byte, error) {
	f := bodyReader{rest: body}
	id := f.uint16()
	count := 0
	for !f.bad && len(f.rest) > 0 {
		f.bad = len(f.bytes()) == 0 || f.bad
		count++
	}
	if f.bad || count == 0 || id == 0 || flags != 2 {
		return b, protocolError("an UNSUBSCRIBE that is malformed")
	}
	return binary.BigEndian.AppendUint16(appendHead(b, kindUnsubAck, 0, 2), id), nil
}

// appendPublish appends a PUBLISH with QoS 0 (MQTT 3.1.1 §3.3).
func appendPublish(b []byte, topic string, payload []byte) []byte {
	b = appendHead(b, kindPublish, 0, 2+len(topic)+len(payload))
	b = append(binary.BigEndian.AppendUint16(b, uint16(len(topic))), topic...)
	return append(b, payload...)
}

// bufferSizes are the sizes of shared buffers, in bytes. Messages of boards fit into the first,
// apart from lists of tools.
var bufferSizes = [...]int{512, 4 << 10, 16 << 10, MaxPacket + 256}

var buffers [len(bufferSizes)]sync.Pool

// getBuffer returns a buffer with a capacity of at least n and length 0; n is at most [MaxPacket]
// and a topic.
func getBuffer(n int) *[]byte {
	for i, size := range bufferSizes {
		if n <= size {
			if b, ok := buffers[i].Get().(*[]byte); ok {
				return b
			}
			b := make([]byte, 0, size)
			return &b
		}
	}
	b := make([]byte, 0, n)
	return &b
}

func putBuffer(b *[]byte) {
	for i, size := range bufferSizes {
		if cap(*b) == size {
			*b = (*b)[:0]
			buffers[i].Put(b)
			return
		}
	}
}
