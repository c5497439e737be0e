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

// The packets of MQTT 3.1.1 that boards and their test clients send, and their
// answers.
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

// ErrProtocol says that the far side sent what a client of MQTT 3.1.1 must not, or
// what is not served here.
var ErrProtocol = errors.New("not MQTT as it is spoken here")

func broken(what string) error { return fmt.Errorf("%w: %s", ErrProtocol, what) }

// head is the start of a packet.
type head struct {
	kind, flags byte
	length      int // of what follows
}

// readHead reads the start of a packet. It waits in two bytes of the caller's, so
// that a connection on which nothing comes has no buffer.
func readHead(r io.Reader, two *[2]byte) (head, error) {
	if _, err := io.ReadFull(r, two[:]); err != nil {
		return head{}, err
	}
	h := head{kind: two[0] >> 4, flags: two[0] & 15, length: int(two[1] & 0x7f)}
	for shift := 7; two[1]&0x80 != 0; shift += 7 {
		if shift > 21 {
			return head{}, broken("a length of more than four bytes")
		}
		if _, err := io.ReadFull(r, two[1:]); err != nil {
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return head{}, err
		}
		h.length |= int(two[1]&0x7f) << shift
	}
	return h, nil
}

// appendHead appends the start of a packet.
func appendHead(b []byte, kind, flags byte, length int) []byte {
	b = append(b, kind<<4|flags)
	for length >= 128 {
		b = append(b, byte(length)|0x80)
		length >>= 7
	}
	return append(b, byte(length))
}

// fields takes the body of a packet apart. What is wrong is remembered.
type fields struct {
	rest []byte
	bad  bool
}

func (f *fields) take(n int) []byte {
	if f.bad || n > len(f.rest) {
		f.bad, f.rest = true, nil
		return nil
	}
	part := f.rest[:n]
	f.rest = f.rest[n:]
	return part
}

func (f *fields) byte() byte {
	if b := f.take(1); b != nil {
		return b[0]
	}
	return 0
}

func (f *fields) uint16() uint16 {
	if b := f.take(2); b != nil {
		return binary.BigEndian.Uint16(b)
	}
	return 0
}

func (f *fields) bytes() []byte { return f.take(int(f.uint16())) }

// text is a text of at most so many bytes.
func (f *fields) text(limit int) string {
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

// connectPacket is what a client says about itself.
type connectPacket struct {
	keepalive                    uint16 // in seconds; 0: none
	clientID, username, password string
}

// parseConnect reads a CONNECT. The error is a [Refusal] if an answer is in order,
// and [ErrProtocol] if the connection can only be closed.
func parseConnect(body []byte) (connectPacket, error) {
	var p connectPacket
	f := fields{rest: body}
	name, level := string(f.bytes()), f.byte()
	if f.bad || name != "MQTT" && name != "MQIsdp" {
		return p, broken("the first packet is no CONNECT")
	}
	if name == "MQTT" && level != 4 || name == "MQIsdp" && level != 3 {
		return p, WrongVersion
	}
	flags := f.byte()
	p.keepalive = f.uint16()
	p.clientID = f.text(math.MaxUint16)
	if flags&0x04 != 0 { // a will, which nobody here would carry out
		f.bytes()
		f.bytes()
	} else if flags&0x38 != 0 {
		return p, broken("flags of a will that is not there")
	}
	if flags&0x80 != 0 {
		p.username = f.text(math.MaxUint16)
	}
	if flags&0x40 != 0 {
		p.password = string(f.bytes())
	}
	switch {
	case f.bad || len(f.rest) > 0 || flags&0x01 != 0 || flags&0x18 == 0x18:
		return p, broken("a CONNECT that is malformed")
	case flags&0xc0 == 0x40:
		return p, broken("a password without a user")
	case p.clientID == "":
		return p, BadClientID
	}
	return p, nil
}

// publishPacket is a message. Its slices are parts of what was read.
type publishPacket struct {
	qos            byte
	id             uint16 // with a QoS of 1
	topic, payload []byte
}

func parsePublish(flags byte, body []byte) (publishPacket, error) {
	p := publishPacket{qos: flags >> 1 & 3}
	if p.qos > 1 {
		return p, broken("a message with a QoS that is not served")
	}
	f := fields{rest: body}
	p.topic = f.bytes()
	if p.qos == 1 {
		if p.id = f.uint16(); p.id == 0 {
			f.bad = true
		}
	}
	p.payload = f.rest
	if f.bad || len(p.topic) == 0 {
		return p, broken("a PUBLISH that is malformed")
	}
	return p, nil
}

// appendSubAck appends the answer to the body of a SUBSCRIBE: a client gets its
// own topic, and nothing else.
func appendSubAck(b []byte, flags byte, body []byte, own string) ([]byte, error) {
	f := fields{rest: body}
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
		return b, broken("a SUBSCRIBE that is malformed")
	}
	b = appendHead(b, kindSubAck, 0, 2+len(codes))
	return append(binary.BigEndian.AppendUint16(b, id), codes...), nil
}

// appendUnsubAck appends the answer to the body of an UNSUBSCRIBE, which changes
// nothing.
func appendUnsubAck(b []byte, flags byte, body []byte) ([]byte, error) {
	f := fields{rest: body}
	id := f.uint16()
	count := 0
	for !f.bad && len(f.rest) > 0 {
		f.bad = len(f.bytes()) == 0 || f.bad
		count++
	}
	if f.bad || count == 0 || id == 0 || flags != 2 {
		return b, broken("an UNSUBSCRIBE that is malformed")
	}
	return binary.BigEndian.AppendUint16(appendHead(b, kindUnsubAck, 0, 2), id), nil
}

// appendPublish appends a message with a QoS of 0.
func appendPublish(b []byte, topic string, payload []byte) []byte {
	b = appendHead(b, kindPublish, 0, 2+len(topic)+len(payload))
	b = append(binary.BigEndian.AppendUint16(b, uint16(len(topic))), topic...)
	return append(b, payload...)
}

// The sizes of buffers, which connections share. What boards say is below the
// first, but for the lists of their tools.
var bufferSizes = [...]int{512, 4 << 10, 16 << 10, MaxPacket + 256}

var buffers [len(bufferSizes)]sync.Pool

// takeBuffer is a buffer with room for so many bytes, at most [MaxPacket] and a
// topic. Its length is 0.
func takeBuffer(n int) *[]byte {
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

func giveBuffer(b *[]byte) {
	for i, size := range bufferSizes {
		if cap(*b) == size {
			*b = (*b)[:0]
			buffers[i].Put(b)
			return
		}
	}
}
