// Package wire has the frames of Volcengine's speech services, for recognition, speech and dialogue
// (volcengine.com/docs/6561/1354869 and 6561/1329505, binary protocol).
package wire

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"io"
)

// MaxPayload limits the payload of a frame, in bytes, before and after decompression.
const MaxPayload = 1 << 20

// Type is the kind of a frame.
type Type byte

// The types.
const (
	FullRequest   Type = 0x1
	AudioRequest  Type = 0x2
	FullResponse  Type = 0x9
	AudioResponse Type = 0xb
	ErrorResponse Type = 0xf
)

// Flags say which fields a frame has. A frame has a sequence or an event, not both.
type Flags byte

// The flags.
const (
	None             Flags = 0x0
	PositiveSequence Flags = 0x1
	LastNoSequence   Flags = 0x2 // the last frame, without a sequence
	NegativeSequence Flags = 0x3 // the last frame
	WithEvent        Flags = 0x4
)

// Event tells what a frame of a connection or session means.
type Event int32

// Events of a client.
const (
	StartConnection  Event = 1
	FinishConnection Event = 2
	StartSession     Event = 100
	CancelSession    Event = 101
	FinishSession    Event = 102
	TaskRequest      Event = 200
)

// Events of a server.
const (
	ConnectionStarted  Event = 50
	ConnectionFailed   Event = 51
	ConnectionFinished Event = 52
	SessionStarted     Event = 150
	SessionCanceled    Event = 151
	SessionFinished    Event = 152
	SessionFailed      Event = 153
	UsageResponse      Event = 154
	SentenceStart      Event = 350
	SentenceEnd        Event = 351
	Audio              Event = 352
)

// firstSession is the first event of a session. Those below are of a connection.
const firstSession = 100

// hasID reports whether a frame with the event has an id. A client does not know that of the
// connection.
func (e Event) hasID(t Type) bool { return e >= firstSession || t >= FullResponse }

// Values of fields of the header.
const (
	version    = 1
	headerSize = 4
	inJSON     = 1 // serialization of the payload; 0 is none
	gzipped    = 1 // compression; 0 is none
)

// Frame is a message.
type Frame struct {
	Type     Type
	Flags    Flags
	JSON     bool   // the payload is JSON
	Gzip     bool   // the payload is compressed on the wire; Payload never is
	Code     uint32 // of an ErrorResponse
	Sequence int32
	Event    Event
	ID       string // of the session, or of the connection
	Payload  []byte
}

// hasSequence reports whether frames have a sequence.
func (f Flags) hasSequence() bool { return f == PositiveSequence || f == NegativeSequence }

// Append appends the frame to b.
func (f *Frame) Append(b []byte) []byte {
	var serialization, compression byte
	if f.JSON {
		serialization = inJSON
	}
	payload := f.Payload
	if f.Gzip {
		compression = gzipped
		payload = compress(payload)
	}
	b = append(b, version<<4|headerSize/4, byte(f.Type)<<4|byte(f.Flags), serialization<<4|compression, 0)
	if f.Type == ErrorResponse {
		b = binary.BigEndian.AppendUint32(b, f.Code)
	}
	if f.Flags.hasSequence() {
		b = binary.BigEndian.AppendUint32(b, uint32(f.Sequence))
	}
	if f.Flags == WithEvent {
		b = binary.BigEndian.AppendUint32(b, uint32(f.Event))
		if f.Event.hasID(f.Type) {
			b = appendSized(b, []byte(f.ID))
		}
	}
	return appendSized(b, payload)
}

func appendSized(b, data []byte) []byte {
	return append(binary.BigEndian.AppendUint32(b, uint32(len(data))), data...)
}

func compress(data []byte) []byte {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = w.Write(data) // into memory
	_ = w.Close()
	return b.Bytes()
}

// Errors of Parse.
var (
	errShort  = errors.New("the frame ends too early")
	errHeader = errors.New("the frame has an unknown header")
	errRest   = errors.New("the frame is longer than its payload")
	errGzip   = errors.New("the payload cannot be decompressed")
	errSize   = errors.New("the payload is too long")
)

// Parse parses a frame. Which fields it has is told by its header alone. The payload may be a part
// of b.
func Parse(b []byte) (Frame, error) {
	r := reader{b: b}
	head := r.bytes(headerSize)
	if r.err != nil {
		return Frame{}, r.err
	}
	size := int(head[0]&0xf) * 4
	if head[0]>>4 != version || size < headerSize {
		return Frame{}, errHeader
	}
	r.bytes(size - headerSize) // extensions, which nobody uses
	f := Frame{Type: Type(head[1] >> 4), Flags: Flags(head[1] & 0xf), JSON: head[2]>>4 == inJSON,
		Gzip: head[2]&0xf == gzipped}
	if f.Flags > WithEvent || head[2]&0xf > gzipped {
		return Frame{}, errHeader
	}
	if f.Type == ErrorResponse {
		f.Code = r.uint32()
	}
	if f.Flags.hasSequence() {
		f.Sequence = int32(r.uint32())
	}
	if f.Flags == WithEvent {
		f.Event = Event(r.uint32())
		if f.Event.hasID(f.Type) {
			f.ID = string(r.sized())
		}
	}
	f.Payload = r.sized()
	switch {
	case r.err != nil:
		return Frame{}, r.err
	case len(r.b) > 0:
		return Frame{}, errRest
	case f.Gzip && len(f.Payload) > 0:
		err := f.decompress()
		return f, err
	}
	return f, nil
}

func (f *Frame) decompress() error {
	z, err := gzip.NewReader(bytes.NewReader(f.Payload))
	if err != nil {
		return errGzip
	}
	f.Payload, err = io.ReadAll(io.LimitReader(z, MaxPayload+1))
	switch {
	case err != nil:
		return errGzip
	case len(f.Payload) > MaxPayload:
		return errSize
	}
	return nil
}

// reader takes fields from the front of b.
type reader struct {
	b   []byte
	err error
}

func (r *reader) bytes(n int) []byte {
	if r.err != nil || n < 0 || n > len(r.b) {
		r.err = errShort
		return nil
	}
	data := r.b[:n]
	r.b = r.b[n:]
	return data
}

func (r *reader) uint32() uint32 {
	data := r.bytes(4)
	if data == nil {
		return 0
	}
	return binary.BigEndian.Uint32(data)
}

func (r *reader) sized() []byte {
	n := r.uint32()
	if n > MaxPayload {
		r.err = errSize
		return nil
	}
	return r.bytes(int(n))
}
