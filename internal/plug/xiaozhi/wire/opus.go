package wire

import (
	"errors"
	"time"
)

// ErrOpus reports data that is not an Opus packet.
var ErrOpus = errors.New("no Opus packet")

// Duration returns the duration of an Opus packet, from its first two bytes (RFC 6716 §3.1). A
// packet of one byte is silence, which boards send by DTX (xiaozhi-esp32
// main/audio/audio_service.h, AS_OPUS_ENC_CONFIG). The error is [ErrOpus].
func Duration(opus []byte) (time.Duration, error) {
	if len(opus) == 0 {
		return 0, ErrOpus
	}
	var frame time.Duration
	switch config := opus[0] >> 3; {
	case config < 12: // SILK
		frame = [4]time.Duration{10 * time.Millisecond, 20 * time.Millisecond, 40 * time.Millisecond,
			60 * time.Millisecond}[config&3]
	case config < 16: // hybrid
		frame = [2]time.Duration{10 * time.Millisecond, 20 * time.Millisecond}[config&1]
	default: // CELT
		frame = 2500 * time.Microsecond << (config & 3)
	}
	count := 1
	switch opus[0] & 3 {
	case 1, 2:
		count = 2
	case 3:
		if len(opus) < 2 || opus[1]&63 == 0 {
			return 0, ErrOpus
		}
		count = int(opus[1] & 63)
	}
	if d := time.Duration(count) * frame; d <= 120*time.Millisecond {
		return d, nil
	}
	return 0, ErrOpus
}
