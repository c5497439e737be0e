package stream

import (
	"encoding/binary"
	"encoding/json"
	"math"
	"time"

	"patchbay/internal/voice/engine"
)

// dialect is what a server understands and says during one utterance. It is not safe for concurrent
// use, except for first.
type dialect interface {
	// first returns the message before the sound; nil: there is none.
	first() []byte
	// encode appends samples as the server wants them.
	encode(b []byte, samples []int16) []byte
	// end returns the message after the sound.
	end() []byte
	// ended is told that the end follows, after a number of messages with sound.
	ended(messages int)
	// accept handles a message and reports whether it was the last one that matters. The error is
	// an [*engine.Error].
	accept(message []byte) (last bool, err error)
	// transcript returns what was said so far.
	transcript() engine.Transcript
	// patience returns how long to wait for the next message after the end, and whether there is no
	// more text if none comes.
	patience(l limits) (limit time.Duration, isEnd bool)
}

// newDialect returns the dialect of a new utterance.
func (l *listener) newDialect(h engine.Hints) dialect {
	switch l.settings.Dialect {
	case FunASR:
		return newFunASR(&l.settings, h.Words)
	case Vosk:
		return &vosk{}
	}
	return &sherpa{}
}

// appendPCM appends samples as PCM with 16 bits, little endian.
func appendPCM(b []byte, samples []int16) []byte {
	for _, s := range samples {
		b = binary.LittleEndian.AppendUint16(b, uint16(s))
	}
	return b
}

// appendFloats appends samples as 32-bit floats from -1 to 1, little endian.
func appendFloats(b []byte, samples []int16) []byte {
	for _, s := range samples {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(float32(s)/(1<<15)))
	}
	return b
}

// decode parses a message. Its text is not quoted in the error: it may be a transcript.
func decode(message []byte, into any) error {
	if err := json.Unmarshal(message, into); err != nil {
		return engine.Errorf(engine.Broken, "a message of the server is not the JSON that it should be")
	}
	return nil
}
