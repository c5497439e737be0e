package opus

import (
	"bytes"
	"errors"
	"testing"
	"time"
)

const (
	ms20 = 20 * time.Millisecond
	ms60 = 60 * time.Millisecond
)

// drain pops all packets of a framer.
func drain(f *Framer) (packets [][]byte) {
	for {
		p, ok := f.Pop(nil)
		if !ok {
			return packets
		}
		packets = append(packets, p)
	}
}

func TestFramer(t *testing.T) {
	for name, c := range map[string]struct {
		want time.Duration
		in   []string
		out  []string // after Flush
	}{
		"three of 20 ms, equal":     {ms60, []string{"\x48ab", "\x48cd", "\x48ef"}, []string{"\x4b\x03abcdef"}},
		"three of 20 ms, not equal": {ms60, []string{"\x48a", "\x48bc", "\x48d"}, []string{"\x4b\x83\x01\x02abcd"}},
		"silence":                   {ms60, []string{"\x48", "\x48", "\x48"}, []string{"\x4b\x03"}},
		"unchanged":                 {ms60, []string{"\x58abc", "\x58"}, []string{"\x58abc", "\x58"}},
		"60 to 20":                  {ms20, []string{"\x4b\x83\x01\x02abcd"}, []string{"\x48a", "\x48bc", "\x48d"}},
		"120 to 60":                 {ms60, []string{"\x4b\x06abcdef"}, []string{"\x4b\x03abc", "\x4b\x03def"}},
		"40 to 60": {ms60, []string{"\x49ab", "\x49cd", "\x49ef"},
			[]string{"\x4b\x03abc", "\x4b\x03def"}},
		"10 to 20":             {ms20, []string{"\x40a", "\x40bc"}, []string{"\x42\x01abc"}},
		"the end is filled up": {ms60, []string{"\x48a"}, []string{"\x4b\x83\x01\x00a"}},
		"a change is filled up": {ms60, []string{"\x48a", "\x68b", "\x68c", "\x68d"},
			[]string{"\x4b\x83\x01\x00a", "\x6b\x03bcd"}},
		"to and fro": {ms60, []string{"\x48a", "\x68b", "\x48c"},
			[]string{"\x4b\x83\x01\x00a", "\x6b\x83\x01\x00b", "\x4b\x83\x01\x00c"}},
	} {
		t.Run(name, func(t *testing.T) {
			f := NewFramer(c.want)
			var out [][]byte
			for _, p := range c.in {
				if err := f.Push([]byte(p)); err != nil {
					t.Fatal(err)
				}
				out = append(out, drain(f)...)
			}
			f.Flush()
			out = append(out, drain(f)...)
			for i := range max(len(out), len(c.out)) {
				if i >= len(out) || i >= len(c.out) || string(out[i]) != c.out[i] {
					t.Fatalf("got %q, want %q", out, c.out)
				}
			}
		})
	}
}

func TestFramerRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		want   time.Duration
		packet string
		err    error
	}{
		"one frame of 60 into 20": {ms20, "\x58abc", ErrFrameDuration},
		"40 into 60":              {ms60, "\x50abc", ErrFrameDuration},
		"garbage":                 {ms60, "\x4b\x00", ErrMalformed},
		"nothing":                 {ms60, "", ErrMalformed},
	} {
		f := NewFramer(c.want)
		if err := f.Push([]byte(c.packet)); !errors.Is(err, c.err) {
			t.Errorf("%s: %v", name, err)
		}
		if f.Flush(); len(drain(f)) > 0 {
			t.Errorf("%s: something was taken", name)
		}
	}
}

// TestFramerSound repackets a stream and decodes it: the audio is unchanged.
func TestFramerSound(t *testing.T) {
	for _, e := range []Encoding{
		{SampleRate: 16000, Frame: ms20, Bitrate: 24000}, {SampleRate: 24000, Frame: ms20, Bitrate: 32000,
			Complexity: 5},
	} {
		stream := encode(t, e, sweep(e.SampleRate, 100, 3000, 1200*time.Millisecond))
		want := decode(t, 48000, stream)
		wide, narrow := NewFramer(ms60), NewFramer(ms20)
		var joined, apart [][]byte
		for _, p := range stream {
			if err := wide.Push(p); err != nil {
				t.Fatal(err)
			}
			joined = append(joined, drain(wide)...)
		}
		for _, p := range joined {
			if err := narrow.Push(p); err != nil {
				t.Fatal(err)
			}
			apart = append(apart, drain(narrow)...)
		}
		if len(joined) != len(stream)/3 || len(apart) != len(stream) {
			t.Fatalf("%d packets became %d and %d", len(stream), len(joined), len(apart))
		}
		for i := range stream {
			if !bytes.Equal(stream[i], apart[i]) {
				t.Fatalf("packet %d changed", i)
			}
		}
		got := decode(t, 48000, joined)
		if len(got) != len(want) {
			t.Fatalf("%d samples became %d", len(want), len(got))
		}
		for i := range got {
			if got[i] != want[i] {
				t.Fatalf("sample %d: %d became %d", i, want[i], got[i])
			}
		}
	}
}

func TestFramerAllocatesNothing(t *testing.T) {
	f, buf, in := NewFramer(ms60), make([]byte, 0, 64), []byte("\x48abc")
	if n := testing.AllocsPerRun(100, func() {
		for range 3 {
			if err := f.Push(in); err != nil {
				t.Error(err)
			}
		}
		if _, ok := f.Pop(buf); !ok {
			t.Error("no packet")
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func FuzzFramer(f *testing.F) {
	f.Add([]byte("\x03\x48ab\x03\x48cd\x02\x68a\x08\x4b\x06abcdef"), byte(24))
	f.Add([]byte("\x01\x48\x04\x58abc"), byte(8))
	f.Fuzz(func(t *testing.T, b []byte, units byte) {
		want := time.Duration(units) * 2500 * time.Microsecond
		fr := NewFramer(want)
		var p Packet
		var in, out []byte // the bytes of all frames
		for len(b) > 0 {
			n := min(int(b[0]), len(b)-1)
			packet := b[1 : 1+n]
			b = b[1+n:]
			if err := fr.Push(packet); err != nil {
				continue
			}
			if err := p.Parse(packet); err != nil {
				t.Fatalf("took what is malformed: %v", err)
			}
			for i := range p.Count() {
				in = append(in, p.Frame(i)...)
			}
			out = append(out, popped(t, fr, want)...)
		}
		fr.Flush()
		out = append(out, popped(t, fr, want)...)
		if !bytes.Equal(in, out) {
			t.Fatalf("%d bytes in, %d out", len(in), len(out))
		}
	})
}

func popped(t *testing.T, f *Framer, want time.Duration) (frames []byte) {
	for _, packet := range drain(f) {
		var p Packet
		if err := p.Parse(packet); err != nil || p.Duration() != want {
			t.Fatalf("%v, %s instead of %s", err, p.Duration(), want)
		}
		for i := range p.Count() {
			frames = append(frames, p.Frame(i)...)
		}
	}
	return frames
}
