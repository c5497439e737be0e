package pcm

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"testing"
	"testing/iotest"
	"time"
)

// tone is a sine of half the maximum amplitude.
func tone(rate int, hz float64, n int) []float32 {
	s := make([]float32, n)
	for i := range s {
		s[i] = float32(0.5 * math.Sin(2*math.Pi*hz*float64(i)/float64(rate)))
	}
	return s
}

// chirp is a sine that rises from 50 Hz to the given frequency within n samples.
func chirp(rate int, to float64, n int) []float32 {
	s, d := make([]float32, n), float64(n)/float64(rate)
	for i := range s {
		x := float64(i) / float64(rate)
		s[i] = float32(0.5 * math.Sin(2*math.Pi*(50*x+(to-50)*x*x/(2*d))))
	}
	return s
}

// resample resamples a sound in pieces of odd sizes.
func resample(t testing.TB, in, out int, sound []float32) (pcm []int16) {
	t.Helper()
	r, err := NewResampler(in, out)
	if err != nil {
		t.Fatal(err)
	}
	buf := make([]int16, 331)
	pull := func() {
		for n := r.Pull(buf); n > 0; n = r.Pull(buf) {
			pcm = append(pcm, buf[:n]...)
		}
	}
	for len(sound) > 0 {
		n := min(len(sound), 977)
		r.Push(sound[:n])
		sound = sound[n:]
		pull()
	}
	r.Flush()
	pull()
	return pcm
}

// noise is the difference of got and want, in dB below want. The ends, where the sound starts and
// stops abruptly, are left out.
func noise(got []int16, want []float32, ends int) float64 {
	var signal, wrong float64
	for i := ends; i < min(len(got), len(want))-ends; i++ {
		w := float64(want[i])
		d := float64(got[i])/32768 - w
		signal, wrong = signal+w*w, wrong+d*d
	}
	return 10 * math.Log10(signal/(wrong+1e-20))
}

// TestResampleSweep compares a resampled sweep with one generated at the output rate. It rises to
// 43 % of the lower rate.
func TestResampleSweep(t *testing.T) {
	for _, c := range [][2]int{
		{8000, 16000}, {11025, 16000}, {16000, 16000}, {22050, 16000}, {24000, 16000}, {32000, 16000}, {44100, 16000},
		{48000, 16000},
		{8000, 24000}, {16000, 24000}, {22050, 24000}, {44100, 24000}, {48000, 24000}, {96000, 24000},
		{15999, 16000}, {44056, 24000}, // no small ratio
	} {
		in, out := c[0], c[1]
		to := 0.43 * float64(min(in, out))
		got := resample(t, in, out, chirp(in, to, 2*in))
		want := chirp(out, to, 2*out)
		snr := noise(got, want, out/20)
		t.Logf("%d -> %d: %d samples, %.1f dB", in, out, len(got), snr)
		if d := len(got) - len(want); d < 0 || d > 1 {
			t.Errorf("%d -> %d: %d samples, not %d", in, out, len(got), len(want))
		}
		if snr < 75 {
			t.Errorf("%d -> %d: %.1f dB", in, out, snr)
		}
	}
}

// TestResampleStops checks that tones above half the output rate disappear, without aliases.
func TestResampleStops(t *testing.T) {
	for _, c := range []struct {
		in, out int
		hz      float64
	}{{48000, 16000, 8100}, {48000, 16000, 9000}, {48000, 16000, 15000}, {44100, 16000, 8100}, {24000, 16000,
		11000}, {48000, 24000, 12200}} {
		got := resample(t, c.in, c.out, tone(c.in, c.hz, c.in))
		var sum float64
		for _, s := range got[c.out/20 : len(got)-c.out/20] {
			sum += float64(s) * float64(s)
		}
		left := 10 * math.Log10((sum/float64(len(got))+1e-9)/(0.125*32768*32768))
		t.Logf("%.0f Hz, %d -> %d: %.1f dB left", c.hz, c.in, c.out, left)
		if left > -70 {
			t.Errorf("%.0f Hz, %d -> %d: %.1f dB left", c.hz, c.in, c.out, left)
		}
	}
}

func TestResampleConstantAndLoud(t *testing.T) {
	for _, v := range []float32{0.25, 1, -1} {
		sound := make([]float32, 4800)
		for i := range sound {
			sound[i] = v
		}
		for i, s := range resample(t, 48000, 16000, sound)[200:1400] {
			if d := float32(s)/32768 - v; d > 0.0001 || d < -0.0001 {
				t.Fatalf("%v became %d at %d", v, s, i)
			}
		}
	}
}

func TestRatesAreChecked(t *testing.T) {
	for _, c := range [][2]int{{0, 16000}, {16000, 0}, {3999, 16000}, {16000, 192001}, {-8000, 16000}} {
		if _, err := NewResampler(c[0], c[1]); err == nil {
			t.Errorf("%v was accepted", c)
		}
	}
}

// file builds a WAV file. chunks come before the data chunk, whose size is size.
func file(f Format, kind uint16, size uint32, chunks string, data []byte) []byte {
	b := append([]byte("RIFF\x00\x00\x00\x00WAVE"), chunks...)
	var format []byte
	format = binary.LittleEndian.AppendUint16(format, kind)
	format = binary.LittleEndian.AppendUint16(format, uint16(f.Channels))
	format = binary.LittleEndian.AppendUint32(format, uint32(f.Rate))
	format = binary.LittleEndian.AppendUint32(format, uint32(f.Rate*f.Channels*f.Bits/8))
	format = binary.LittleEndian.AppendUint16(format, uint16(f.Channels*f.Bits/8))
	format = binary.LittleEndian.AppendUint16(format, uint16(f.Bits))
	if kind == 0xfffe {
		format = append(format, 22, 0, byte(f.Bits), 0, 3, 0, 0, 0, 1, 0)
		if f.Float {
			format[24] = 3
		}
		format = append(format, make([]byte, 14)...)
	}
	b = append(b, "fmt "...)
	b = append(binary.LittleEndian.AppendUint32(b, uint32(len(format))), format...)
	b = append(b, "data"...)
	return append(binary.LittleEndian.AppendUint32(b, size), data...)
}

func readAll(s *SampleReader) (pcm []int16, err error) {
	buf := make([]int16, 100)
	for {
		n, err := s.Read(buf)
		pcm = append(pcm, buf[:n]...)
		if err != nil {
			return pcm, err
		}
		if n == 0 {
			return pcm, errors.New("nothing and no error")
		}
	}
}

func TestWAV(t *testing.T) {
	f64 := func(v ...float64) (b []byte) {
		for _, v := range v {
			b = binary.LittleEndian.AppendUint64(b, math.Float64bits(v))
		}
		return b
	}
	f32 := func(v ...float32) (b []byte) {
		for _, v := range v {
			b = binary.LittleEndian.AppendUint32(b, math.Float32bits(v))
		}
		return b
	}
	nan := float32(math.NaN())
	for name, c := range map[string]struct {
		file []byte
		pcm  []int16
		err  error // of NewWAV
	}{
		"8 bits": {file(Format{16000, 1, 8, false}, 1, 3, "", []byte{0, 128, 255}), []int16{-32768, 0, 127 << 8},
			nil},
		"16 bits": {file(Format{16000, 1, 16, false}, 1, 6, "", []byte{1, 0, 0, 0x80, 0xff, 0x7f}),
			[]int16{1, -32768, 32767}, nil},
		"24 bits": {file(Format{16000, 1, 24, false}, 1, 6, "", []byte{0, 1, 0, 0, 0, 0x80}), []int16{1, -32768},
			nil},
		"32 bits": {file(Format{16000, 1, 32, false}, 1, 8, "", []byte{0, 0, 1, 0, 0, 0, 0, 0x80}),
			[]int16{1, -32768}, nil},
		"float": {file(Format{16000, 1, 32, true}, 3, 20, "", f32(0.5, -1, 2, nan, 0)),
			[]int16{16384, -32768, 32767, 0, 0}, nil},
		"double": {file(Format{16000, 1, 64, true}, 3, 16, "", f64(0.5, math.Inf(-1))), []int16{16384, -32768},
			nil},
		"extensible":  {file(Format{16000, 1, 16, false}, 0xfffe, 2, "", []byte{1, 0}), []int16{1}, nil},
		"ext., float": {file(Format{16000, 1, 32, true}, 0xfffe, 4, "", f32(0.5)), []int16{16384}, nil},
		"stereo": {file(Format{16000, 2, 16, false}, 1, 8, "", []byte{2, 0, 4, 0, 10, 0, 0xf6, 0xff}),
			[]int16{3, 0}, nil},
		"other chunks": {file(Format{16000, 1, 16, false}, 1, 2,
			"LIST\x03\x00\x00\x00abc\x00junk\x00\x00\x00\x00", []byte{1, 0}), []int16{1}, nil},
		"more after it": {file(Format{16000, 1, 16, false}, 1, 2, "", []byte{1, 0, 'L', 'I', 'S', 'T'}), []int16{1},
			nil},
		"size unknown": {file(Format{16000, 1, 16, false}, 1, math.MaxUint32, "", []byte{1, 0, 2, 0}), []int16{1, 2},
			nil},
		"size zero":     {file(Format{16000, 1, 16, false}, 1, 0, "", []byte{1, 0, 2, 0}), []int16{1, 2}, nil},
		"half a sample": {file(Format{16000, 1, 16, false}, 1, 0, "", []byte{1, 0, 2}), []int16{1}, nil},
		"no sound":      {file(Format{16000, 1, 16, false}, 1, 0, "", nil), nil, nil},
		"not WAV":       {[]byte("OggS but long enough"), nil, ErrMalformed},
		"cut off":       {file(Format{16000, 1, 16, false}, 1, 0, "", nil)[:40], nil, ErrMalformed},
		"empty":         {nil, nil, ErrMalformed},
		"compressed":    {file(Format{16000, 1, 16, false}, 6, 0, "", nil), nil, ErrMalformed},
		"12 bits":       {file(Format{16000, 1, 12, false}, 1, 0, "", nil), nil, ErrMalformed},
		"no channels":   {file(Format{16000, 0, 16, false}, 1, 0, "", nil), nil, ErrMalformed},
		"9 channels":    {file(Format{16000, 9, 16, false}, 1, 0, "", nil), nil, ErrMalformed},
		"1 Hz":          {file(Format{1, 1, 16, false}, 1, 0, "", nil), nil, ErrMalformed},
		"huge chunk":    {[]byte("RIFF\x00\x00\x00\x00WAVEjunk\xff\xff\xff\xff"), nil, ErrMalformed},
		"no format":     {[]byte("RIFF\x00\x00\x00\x00WAVEdata\x02\x00\x00\x00\x01\x00"), nil, ErrMalformed},
		"short format":  {[]byte("RIFF\x00\x00\x00\x00WAVEfmt \x02\x00\x00\x00\x01\x00"), nil, ErrMalformed},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := NewWAV(iotest.OneByteReader(bytes.NewReader(c.file)), 16000)
			if !errors.Is(err, c.err) {
				t.Fatal(err)
			}
			if err != nil {
				return
			}
			pcm, err := readAll(s)
			if !errors.Is(err, io.EOF) || fmt.Sprint(pcm) != fmt.Sprint(c.pcm) {
				t.Errorf("%v, %v", pcm, err)
			}
		})
	}
}

func TestWriteAndRead(t *testing.T) {
	var b bytes.Buffer
	want := []int16{0, 1, -1, 32767, -32768, 1234}
	if err := WriteWAV(&b, 24000, want); err != nil {
		t.Fatal(err)
	}
	if b.Len() != 44+12 || binary.LittleEndian.Uint32(b.Bytes()[4:]) != 36+12 {
		t.Errorf("%d bytes, %x", b.Len(), b.Bytes()[:44])
	}
	s, err := NewWAV(&b, 24000)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := readAll(s); !errors.Is(err, io.EOF) || fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%v, %v", got, err)
	}
}

func TestErrorsOfTheReader(t *testing.T) {
	broken := errors.New("connection reset")
	s, err := NewWAV(io.MultiReader(bytes.NewReader(file(Format{16000, 1, 16, false}, 1, 0, "", []byte{1, 0, 2, 0})),
		iotest.ErrReader(broken)), 16000)
	if err != nil {
		t.Fatal(err)
	}
	pcm, err := readAll(s)
	if !errors.Is(err, broken) || len(pcm) != 2 {
		t.Errorf("%v, %v", pcm, err)
	}
	if _, err := s.Read(make([]int16, 1)); !errors.Is(err, broken) {
		t.Error(err)
	}
}

func FuzzWAV(f *testing.F) {
	f.Add(file(Format{8000, 2, 24, false}, 1, 0, "LIST\x03\x00\x00\x00abc\x00", make([]byte, 60)), true)
	f.Add(file(Format{48000, 1, 32, true}, 0xfffe, 40, "", make([]byte, 60)), false)
	f.Fuzz(func(t *testing.T, b []byte, wide bool) {
		rate := 16000
		if wide {
			rate = 24000
		}
		s, err := NewWAV(bytes.NewReader(b), rate)
		if err != nil {
			if !errors.Is(err, ErrMalformed) {
				t.Fatal(err)
			}
			return
		}
		pcm, err := readAll(s)
		if !errors.Is(err, io.EOF) {
			t.Fatal(err)
		}
		if most := (len(b)*rate/s.format.Rate + 1); len(pcm) > most {
			t.Fatalf("%d samples out of %d bytes", len(pcm), len(b))
		}
	})
}

func BenchmarkResample(b *testing.B) {
	for _, c := range [][2]int{{44100, 16000}, {48000, 16000}, {22050, 24000}, {24000, 16000}} {
		b.Run(fmt.Sprintf("%d-%d", c[0], c[1]), func(b *testing.B) {
			start := time.Now()
			r, err := NewResampler(c[0], c[1])
			if err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(float64(time.Since(start).Microseconds()), "µs/table")
			in, out := tone(c[0], 440, c[0]*60/1000), make([]int16, 4000)
			b.ReportAllocs()
			for b.Loop() { // 60 ms
				r.Push(in)
				r.Pull(out)
			}
		})
	}
}
