package wire

import (
	"encoding/binary"
	"errors"
)

// Framing is the framing of audio in the binary frames of a WebSocket. The OTA response sets it,
// and the board names it in its handshake (xiaozhi-esp32 main/protocols/websocket_protocol.cc,
// WebsocketProtocol::OpenAudioChannel).
type Framing int

// The framings. FramingBare is the default of boards. FramingTimed and FramingShort are
// BinaryProtocol2 and BinaryProtocol3 in xiaozhi-esp32 main/protocols/protocol.h.
const (
	FramingBare  Framing = 1 // the Opus packet and nothing else
	FramingTimed Framing = 2 // a header of 16 bytes with a timestamp
	FramingShort Framing = 3 // a header of 4 bytes
)

// Lengths of the headers, in bytes.
const (
	timedHeader = 16
	shortHeader = 4
)

// ErrFrame reports a binary frame without audio in the agreed framing.
var ErrFrame = errors.New("no audio in the framing agreed upon")

// Valid reports whether f is one of the framings.
func (f Framing) Valid() bool { return FramingBare <= f && f <= FramingShort }

// Header returns the length of the header, in bytes.
func (f Framing) Header() int {
	switch f {
	case FramingTimed:
		return timedHeader
	case FramingShort:
		return shortHeader
	}
	return 0
}

// Append appends a frame. Only FramingTimed uses timestamp, in milliseconds. A packet longer than
// [MaxPacket] is not appended: its length does not fit into the header, and boards do not check the
// length that they read (xiaozhi-esp32 main/protocols/websocket_protocol.cc,
// WebsocketProtocol::OpenAudioChannel).
func (f Framing) Append(b []byte, timestamp uint32, opus []byte) []byte {
	if len(opus) > MaxPacket {
		return b
	}
	switch f {
	case FramingTimed:
		b = append(b, 0, 2, 0, 0, 0, 0, 0, 0)
		b = binary.BigEndian.AppendUint32(b, timestamp)
		b = binary.BigEndian.AppendUint32(b, uint32(len(opus)))
	case FramingShort:
		b = append(b, 0, 0)
		b = binary.BigEndian.AppendUint16(b, uint16(len(opus)))
	}
	return append(b, opus...)
}

// Parse returns the packet in a frame, and its timestamp if the framing has one. The packet shares
// the frame's memory, and may be empty. Bytes after the packet are ignored. The error is
// [ErrFrame].
func (f Framing) Parse(frame []byte) (opus []byte, timestamp uint32, err error) {
	switch f {
	case FramingTimed:
		if len(frame) < timedHeader || binary.BigEndian.Uint16(frame) != 2 || binary.BigEndian.Uint16(frame[2:]) != 0 {
			return nil, 0, ErrFrame
		}
		size := binary.BigEndian.Uint32(frame[12:])
		if uint64(size) > uint64(len(frame)-timedHeader) {
			return nil, 0, ErrFrame
		}
		return frame[timedHeader:][:size], binary.BigEndian.Uint32(frame[8:]), nil
	case FramingShort:
		if len(frame) < shortHeader || frame[0] != 0 {
			return nil, 0, ErrFrame
		}
		size := int(binary.BigEndian.Uint16(frame[2:]))
		if size > len(frame)-shortHeader {
			return nil, 0, ErrFrame
		}
		return frame[shortHeader:][:size], 0, nil
	}
	return frame, 0, nil
}
