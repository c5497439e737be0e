package xiaozhi

import (
	"context"
	"testing"

	"patchbay/internal/plug/xiaozhi/wire"
	"patchbay/internal/voice/opus"
)

// FuzzPCM splits sound from a client at any bytes: each frame becomes one packet, and what is less
// than a frame is kept.
func FuzzPCM(f *testing.F) {
	f.Add([]byte("sound"), uint16(1))
	f.Add(make([]byte, 5000), uint16(961))
	pool := opus.NewEncoderPool(1)
	f.Cleanup(func() { _ = pool.Close(context.Background()) })
	f.Fuzz(func(t *testing.T, sound []byte, piece uint16) {
		p, err := newPCMCodec(t.Context(), pool, wire.Audio{SampleRate: 8000})
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		packets, size := 0, max(1, int(piece))
		for rest := sound; len(rest) > 0; {
			n := min(size, len(rest))
			err := p.Encode(rest[:n], func(packet []byte) {
				packets++
				if _, err := p.Decode(packet); err != nil {
					t.Error(err)
				}
			})
			if err != nil {
				t.Fatal(err)
			}
			rest = rest[n:]
		}
		if frame := 960; packets != len(sound)/frame || len(p.rest) != len(sound)%frame {
			t.Errorf("%d bytes are %d packets and %d bytes", len(sound), packets, len(p.rest))
		}
	})
}
