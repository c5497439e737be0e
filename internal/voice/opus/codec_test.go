package opus

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// shared is the encoder pool of most tests.
var shared = NewEncoderPool(4)

func TestMain(m *testing.M) {
	code := m.Run()
	if err := shared.Close(context.Background()); err != nil {
		fmt.Println(err)
		code = 1
	}
	os.Exit(code)
}

func open(t testing.TB, e Encoding) *Encoder {
	t.Helper()
	enc, err := shared.Open(t.Context(), e)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(enc.Close)
	return enc
}

func encode(t testing.TB, e Encoding, pcm []int16) (packets [][]byte) {
	t.Helper()
	enc := open(t, e)
	defer enc.Close()
	for n := e.Samples(); len(pcm) >= n; pcm = pcm[n:] {
		p, err := enc.Encode(pcm[:n], nil)
		if err != nil {
			t.Fatal(err)
		}
		packets = append(packets, p)
	}
	return packets
}

func decode(t testing.TB, rate int, packets [][]byte) (pcm []int16) {
	t.Helper()
	d, err := NewDecoder(rate)
	if err != nil {
		t.Fatal(err)
	}
	buf := make([]int16, d.Samples(MaxDuration))
	for i, p := range packets {
		n, err := d.Decode(p, buf)
		if err != nil {
			t.Fatalf("packet %d: %v", i, err)
		}
		pcm = append(pcm, buf[:n]...)
	}
	return pcm
}

// sweep is a sine that rises from one frequency to another.
func sweep(rate int, from, to float64, d time.Duration) []int16 {
	pcm := make([]int16, int(d.Seconds()*float64(rate)))
	for i := range pcm {
		x := float64(i) / float64(rate)
		f := from + (to-from)*x/d.Seconds()/2
		pcm[i] = int16(8000 * math.Sin(2*math.Pi*f*x))
	}
	return pcm
}

// likeness is the maximum correlation of two sounds, -1 to 1, over all delays of up to most
// samples, and that delay.
func likeness(a, b []int16, most int) (best float64, at int) {
	for shift := range most {
		var ab, aa, bb float64
		for i := 0; i+shift < len(b) && i < len(a); i++ {
			x, y := float64(a[i]), float64(b[i+shift])
			ab, aa, bb = ab+x*y, aa+x*x, bb+y*y
		}
		if c := ab / math.Sqrt(aa*bb+1); c > best {
			best, at = c, shift
		}
	}
	return best, at
}

func TestEncodeAndDecode(t *testing.T) {
	for _, rate := range []int{16000, 24000} {
		for _, ms := range []int{20, 60} {
			for _, complexity := range []int{0, 5} {
				e := Encoding{SampleRate: rate, Frame: time.Duration(ms) * time.Millisecond, Complexity: complexity,
					Bitrate: 32000}
				pcm := sweep(rate, 200, 1500, 1200*time.Millisecond)
				packets := encode(t, e, pcm)
				bytes := 0
				var p Packet
				for _, b := range packets {
					if err := p.Parse(b); err != nil || p.Duration() != e.Frame || p.TOC&4 != 0 {
						t.Fatalf("%+v: %v, %s", e, err, p.Duration())
					}
					bytes += len(b)
				}
				enc := open(t, e)
				delay := enc.Lookahead()
				enc.Close()
				like, at := likeness(pcm, decode(t, rate, packets), rate/50)
				perSecond := float64(8*bytes) / 1.2
				t.Logf("%d Hz, %d ms, complexity %d: %s, likeness %.4f at a delay of %d (%d announced), %.0f bit/s",
					rate, ms, complexity, p.TOC.Mode(), like, at, delay, perSecond)
				if like < 0.98 || perSecond > 40000 || at < delay-rate/1000 || at > delay+rate/1000 {
					t.Error("this is not the same sound")
				}
			}
		}
	}
}

// TestEncodeEverything encodes with all options. It uses noise, which needs the most stack, and
// then repeats an earlier sound.
func TestEncodeEverything(t *testing.T) {
	for _, rate := range []int{8000, 12000, 16000, 24000, 48000} {
		for _, ms := range []int{10, 20, 40, 60} {
			for complexity := 0; complexity <= 10; complexity += 5 {
				for _, bitrate := range []int{0, 6000, 128000} {
					for _, music := range []bool{false, true} {
						e := Encoding{SampleRate: rate, Frame: time.Duration(ms) * time.Millisecond,
							Complexity: complexity, Bitrate: bitrate, Music: music, FEC: !music, Loss: 10}
						noise := make([]int16, 4*e.Samples())
						for i := range noise {
							noise[i] = int16(rand.N(65536) - 32768)
						}
						for _, p := range encode(t, e, noise) {
							if Duration(p) != e.Frame {
								t.Fatalf("%+v: a packet of %s", e, Duration(p))
							}
						}
					}
				}
			}
		}
	}
}

func TestDTX(t *testing.T) {
	e := Encoding{SampleRate: 16000, Frame: ms60, DTX: true}
	silent := 0
	packets := encode(t, e, make([]int16, 50*e.Samples()))
	for _, p := range packets {
		if len(p) == 1 {
			silent++
		}
	}
	if silent < 30 {
		t.Errorf("%d of %d packets of silence are one byte", silent, len(packets))
	}
}

// TestFEC checks the flag of packets that repeat the one before (LBRR, RFC 6716 §4.2.3).
func TestFEC(t *testing.T) {
	repeats := func(fec bool) (n int) {
		e := Encoding{SampleRate: 16000, Frame: ms20, Bitrate: 24000, FEC: fec, Loss: 20}
		for _, p := range encode(t, e, sweep(16000, 200, 900, time.Second)) {
			if TOC(p[0]).Mode() == SILK && TOC(p[0]).Code() == 0 && p[1]&0x40 != 0 {
				n++
			}
		}
		return n
	}
	if with, without := repeats(true), repeats(false); with < 10 || without != 0 {
		t.Errorf("%d packets repeat with FEC, %d without", with, without)
	}
}

func TestEncodingIsChecked(t *testing.T) {
	for _, e := range []Encoding{
		{},
		{SampleRate: 44100, Frame: ms60},
		{SampleRate: 16000, Frame: 30 * time.Millisecond},
		{SampleRate: 16000, Frame: ms60, Complexity: 11},
		{SampleRate: 16000, Frame: ms60, Bitrate: 5},
		{SampleRate: 16000, Frame: ms60, Loss: 101},
	} {
		if enc, err := shared.Open(t.Context(), e); err == nil {
			enc.Close()
			t.Errorf("%+v was accepted", e)
		}
	}
	enc := open(t, Encoding{SampleRate: 16000, Frame: ms60})
	if _, err := enc.Encode(make([]int16, 959), nil); err == nil {
		t.Error("959 samples were accepted as 960")
	}
}

// TestEncodersAreBounded opens all encoders of a pool, and one more.
func TestEncodersAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewEncoderPool(2)
		e := Encoding{SampleRate: 16000, Frame: ms60}
		var open [2]*Encoder
		for i := range open {
			var err error
			if open[i], err = s.Open(t.Context(), e); err != nil {
				t.Fatal(err)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := s.Open(ctx, e); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("a third: %v", err)
		}
		var third *Encoder
		go func() { third, _ = s.Open(t.Context(), e) }()
		synctest.Wait()
		if third != nil {
			t.Fatal("a third is open")
		}
		open[0].Close()
		open[0].Close()
		synctest.Wait()
		if third == nil {
			t.Fatal("nobody could take the place of the first")
		}
		if _, err := open[0].Encode(make([]int16, 960), nil); !errors.Is(err, ErrClosed) {
			t.Errorf("encode after close: %v", err)
		}
		third.Close()
		ctx, cancel = context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := s.Close(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("closed under an open encoder: %v", err)
		}
		if _, err := open[1].Encode(make([]int16, 960), nil); err != nil {
			t.Errorf("the open encoder: %v", err)
		}
		if _, err := s.Open(t.Context(), e); !errors.Is(err, ErrClosed) {
			t.Errorf("open after close: %v", err)
		}
	})
}

// TestEncodersAreApart checks that two encoders that run at the same time do not affect each other.
func TestEncodersAreApart(t *testing.T) {
	e := Encoding{SampleRate: 16000, Frame: ms60, Bitrate: 24000}
	low, high := sweep(16000, 100, 300, time.Second), sweep(16000, 1000, 3000, time.Second)
	alone := [][][]byte{encode(t, e, low), encode(t, e, high)}
	var both [2][][]byte
	var wg sync.WaitGroup
	for i, pcm := range [][]int16{low, high} {
		wg.Go(func() { both[i] = encode(t, e, pcm) })
	}
	wg.Wait()
	for i := range both {
		if fmt.Sprint(both[i]) != fmt.Sprint(alone[i]) {
			t.Errorf("stream %d changed in company", i)
		}
	}
}

func TestEncodeAllocatesNothing(t *testing.T) {
	enc := open(t, Encoding{SampleRate: 24000, Frame: ms60, Bitrate: 24000})
	pcm, buf := sweep(24000, 100, 3000, ms60), make([]byte, 0, 1500)
	if n := testing.AllocsPerRun(50, func() {
		if _, err := enc.Encode(pcm, buf); err != nil {
			t.Error(err)
		}
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestDecode(t *testing.T) {
	d, err := NewDecoder(16000)
	if err != nil {
		t.Fatal(err)
	}
	pcm := make([]int16, d.Samples(MaxDuration))
	for _, c := range []struct {
		packet []byte
		n      int
		ok     bool
	}{
		{[]byte{0x58}, 960, true},           // DTX
		{nil, 960, true},                    // lost
		{[]byte{}, 0, false},                // not a packet
		{[]byte{0x4b, 0x00}, 0, false},      // no frames
		{[]byte{0x48, 1, 2, 3}, 320, true},  // 20 ms of something
		{nil, 320, true},                    // lost, as long as the one before
		{[]byte{0x4b, 0x03, 1}, 0, false},   // truncated
		{[]byte{0x4b, 0x06}, 6 * 320, true}, // 120 ms
	} {
		if n, err := d.Decode(c.packet, pcm); n != c.n || (err == nil) != c.ok {
			t.Errorf("%x: %d samples, %v", c.packet, n, err)
		}
	}
	if _, err := d.Decode([]byte{0x58}, pcm[:959]); err == nil {
		t.Error("960 samples found room in 959")
	}
	if _, err := NewDecoder(44100); err == nil {
		t.Error("44100 Hz was accepted")
	}
}

func FuzzDecode(f *testing.F) {
	for _, b := range recording(f, "09_no.opk")[:12] {
		f.Add(b, []byte{0x58})
	}
	f.Add([]byte{0xbb, 3, 1, 2, 3}, []byte{0x6b, 3, 1, 2, 3})
	f.Fuzz(func(t *testing.T, a, b []byte) {
		d, err := NewDecoder(24000)
		if err != nil {
			t.Fatal(err)
		}
		pcm := make([]int16, d.Samples(MaxDuration))
		for _, packet := range [][]byte{a, b, a} {
			n, err := d.Decode(packet, pcm)
			if err == nil && packet != nil && n != d.Samples(Duration(packet)) {
				t.Fatalf("%d samples for %s", n, Duration(packet))
			}
		}
	})
}

// TestModuleIsWhatWasBuilt compares the committed module with its checksum.
func TestModuleIsWhatWasBuilt(t *testing.T) {
	sums, err := os.ReadFile("libopus/SHA256SUMS")
	if err != nil {
		t.Fatal(err)
	}
	if want := fmt.Sprintf("%x  encoder.wasm\n", sha256.Sum256(libopus)); !strings.Contains(string(sums), want) {
		t.Errorf("encoder.wasm is not in SHA256SUMS: %s", want)
	}
}

func BenchmarkEncode(b *testing.B) {
	for _, rate := range []int{16000, 24000} {
		for _, complexity := range []int{0, 5} {
			b.Run(fmt.Sprintf("%dkHz-c%d", rate/1000, complexity), func(b *testing.B) {
				e := Encoding{SampleRate: rate, Frame: ms60, Complexity: complexity, Bitrate: 24000}
				enc := open(b, e)
				defer enc.Close()
				pcm := decode(b, rate, recording(b, "02_please_take_a_photo.opk"))
				frames, buf := len(pcm)/e.Samples(), make([]byte, 0, 1500)
				i := 0
				b.ReportAllocs()
				for b.Loop() {
					if _, err := enc.Encode(pcm[i%frames*e.Samples():(i%frames+1)*e.Samples()], buf); err != nil {
						b.Fatal(err)
					}
					i++
				}
			})
		}
	}
}

func BenchmarkDecode(b *testing.B) {
	d, err := NewDecoder(16000)
	if err != nil {
		b.Fatal(err)
	}
	packets, pcm := recording(b, "02_please_take_a_photo.opk"), make([]int16, 1920)
	i := 0
	b.ReportAllocs()
	for b.Loop() {
		if _, err := d.Decode(packets[i%len(packets)], pcm); err != nil {
			b.Fatal(err)
		}
		i++
	}
}

func BenchmarkOpen(b *testing.B) {
	s := NewEncoderPool(1 << 20)
	first := time.Now()
	warm, err := s.Open(b.Context(), Encoding{SampleRate: 16000, Frame: ms60})
	if err != nil {
		b.Fatal(err)
	}
	b.Logf("the first took %s", time.Since(first))
	var open []*Encoder
	for b.Loop() {
		e, err := s.Open(b.Context(), Encoding{SampleRate: 16000, Frame: ms60})
		if err != nil {
			b.Fatal(err)
		}
		if open = append(open, e); len(open) == 64 {
			for _, e := range open {
				e.Close()
			}
			open = open[:0]
		}
	}
	for _, e := range append(open, warm) {
		e.Close()
	}
	if err := s.Close(b.Context()); err != nil {
		b.Fatal(err)
	}
}
