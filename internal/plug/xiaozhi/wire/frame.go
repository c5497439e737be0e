package wire

import (
	"encoding/binary"
	"errors"
)

// Framing is how audio is put into the binary frames of a WebSocket. The board
// names it in its handshake; the server has told it which to use before.
type Framing int

// The framings. A board that was never told uses the first.
const (
	FramingBare  Framing = 1 // the Opus packet and nothing else
	FramingTimed Framing = 2 // 16 bytes before it, with a timestamp
	FramingShort Framing = 3 // 4 bytes before it
)

// What is before the packet, in bytes.
const (
	timedHeader = 16
	shortHeader = 4
)

// ErrFrame says that a binary frame holds no audio in the framing agreed upon.
var ErrFrame = errors.New("no audio in the framing agreed upon")

// Valid says whether there is such a framing.
func (f Framing) Valid() bool { return FramingBare <= f && f <= FramingShort }

// Header is how many bytes are before the packet.
func (f Framing) Header() int {
	switch f {
	case FramingTimed:
		return timedHeader
	case FramingShort:
		return shortHeader
	}
	return 0
}

// Append appends a frame. The timestamp, in milliseconds, is for FramingTimed
// alone. A packet longer than [MaxPacket] is left out: no length field could tell
// the truth about it, and boards believe what they read.
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

// Parse finds the packet in a frame, and its timestamp if the framing has one. The
// packet shares the frame's memory, and may be empty. The error is [ErrFrame].
// What follows the packet is passed over.
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
