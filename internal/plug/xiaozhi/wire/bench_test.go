package wire

import "testing"

// BenchmarkDatagram measures the server's work for a packet, without the network.
func BenchmarkDatagram(b *testing.B) {
	c, _ := NewCipher(make([]byte, 16))
	opus, sealed, opened := make([]byte, 180), make([]byte, 0, MaxDatagram), make([]byte, 0, MaxDatagram)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		sealed = c.Seal(sealed[:0], Header{Sequence: uint32(i)}, opus)
		opened, _, _ = c.Open(opened[:0], sealed)
	}
}

func BenchmarkFrame(b *testing.B) {
	opus, frame := make([]byte, 180), make([]byte, 0, 256)
	b.ReportAllocs()
	for b.Loop() {
		frame = FramingTimed.Append(frame[:0], 1, opus)
		_, _, _ = FramingTimed.Parse(frame)
	}
}

func BenchmarkMessage(b *testing.B) {
	m := []byte(`{"session_id":"0198c6b0","type":"listen","state":"start","mode":"auto"}`)
	b.ReportAllocs()
	for b.Loop() {
		_, _ = Parse(m)
	}
}
