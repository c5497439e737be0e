package endpoint

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"patchbay/internal/voice/opus"
)

const frame = 60 * time.Millisecond

func recording(t testing.TB, name string) (packets [][]byte) {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	for len(b) >= 2 {
		n := int(binary.BigEndian.Uint16(b))
		packets, b = append(packets, b[2:2+n]), b[2+n:]
	}
	if len(packets) == 0 || len(b) != 0 {
		t.Fatalf("%s: %d packets and %d bytes", name, len(packets), len(b))
	}
	return packets
}

func recordings(t testing.TB) []string {
	t.Helper()
	names, err := filepath.Glob("testdata/*.opk")
	if err != nil || len(names) != 10 {
		t.Fatalf("%d recordings: %v", len(names), err)
	}
	return names
}

func (e Event) String() string { return [...]string{"none", "began", "ended"}[e] }

// moment is an event and its time.
type moment struct {
	event Event
	at    time.Duration
}

func listen(d *Detector, packets [][]byte) (heard []moment) {
	var at time.Duration
	for _, p := range packets {
		at += max(opus.Duration(p), 0)
		if e := d.Packet(p); e != None {
			heard = append(heard, moment{e, at})
		}
	}
	return heard
}

// boardPacket is a packet of 60 ms of SILK, like a board's, with these three flags.
func boardPacket(flags byte) []byte { return []byte{0x58, flags << 5, 1, 2, 3} }

// dtx is a packet of 60 ms of silence.
var dtx = []byte{0x58}

func times(n int, packets ...[]byte) [][]byte { return slices.Repeat(packets, n) }

// TestPhrases checks that every phrase begins soon after its first flag, and ends once, on time
// after its last one. The first of two recordings must not change the result of the second.
func TestPhrases(t *testing.T) {
	d := New(Options{})
	for _, name := range recordings(t) {
		packets := recording(t, name)
		first, last := time.Duration(-1), time.Duration(-1) // first and last voiced packet
		set := 0
		for i, p := range packets {
			for k := range 3 {
				if len(p) > 1 && p[1]<<k&0x80 != 0 {
					last = time.Duration(i)*frame + time.Duration(k+1)*flagDuration
					if first < 0 {
						first = last - flagDuration
					}
					set++
				}
			}
		}
		heard := listen(d, packets)
		if len(heard) != 2 || heard[0].event != Began || heard[1].event != Ended {
			t.Errorf("%s: %v", name, heard)
			continue
		}
		begin, end := heard[0].at-first, heard[1].at-last
		t.Logf("%s: begins after %s, ends after %s, voiced %s", filepath.Base(name), begin, end, d.VoicedDuration())
		if begin > 300*time.Millisecond || end < 800*time.Millisecond || end > 800*time.Millisecond+frame {
			t.Errorf("%s: begins after %s, ends after %s", name, begin, end)
		}
		if all := time.Duration(set) * flagDuration; d.VoicedDuration() > all || d.VoicedDuration() < all*9/10 {
			t.Errorf("%s: %s voiced, of %s", name, d.VoicedDuration(), all)
		}
	}
}

func TestEvents(t *testing.T) {
	voice, quiet := boardPacket(7), boardPacket(0)
	celt := func(size int) []byte { return append([]byte{0xb8}, make([]byte, size-1)...) } // 20 ms
	// 3 × 20 ms of SILK, a byte each
	three := func(f ...byte) []byte { return append([]byte{0x4b, 0x03}, f...) }
	ms := func(n int) time.Duration { return time.Duration(n) * time.Millisecond }
	for name, c := range map[string]struct {
		options Options
		packets [][]byte
		heard   []moment
		voiced  time.Duration
	}{
		"silence":                 {packets: times(10_000, quiet)},
		"silence in single bytes": {packets: times(10_000, dtx)},
		"both":                    {packets: times(1500, dtx, dtx, dtx, dtx, dtx, dtx, quiet)},
		"twelve flags":            {packets: slices.Concat(times(9, quiet), times(4, voice), times(9, quiet))},
		"thirteen flags": {packets: slices.Concat(times(9, quiet), [][]byte{boardPacket(1)},
			times(4, voice)), heard: []moment{{Began, ms(840)}}, voiced: ms(260)},
		"thirteen of fifteen": {packets: [][]byte{boardPacket(5), voice, boardPacket(3), voice, voice},
			heard: []moment{{Began, ms(300)}}, voiced: ms(260)},
		"at both ends of fifteen": {packets: slices.Concat([][]byte{{0x48, 0x80}, {0x48, 0}, {0x48, 0}},
			times(12, []byte{0x48, 0x80})), heard: []moment{{Began, ms(300)}}, voiced: ms(260)},
		"thirteen, but far apart": {packets: times(100, boardPacket(5), boardPacket(3), boardPacket(6), quiet)},
		"every third":             {packets: times(1000, boardPacket(4), boardPacket(2), boardPacket(1))},
		"more is asked for": {options: Options{Speech: 99}, packets: times(5, voice),
			heard: []moment{{Began, ms(300)}}, voiced: ms(300)},
		"less is asked for": {options: Options{Speech: 1}, packets: [][]byte{boardPacket(4)},
			heard: []moment{{Began, ms(60)}}, voiced: ms(20)},
		"less is enough to go on": {options: Options{Speech: 1},
			packets: times(5, slices.Concat([][]byte{boardPacket(4)}, times(9, dtx))...),
			heard:   []moment{{Began, ms(60)}}, voiced: ms(100)},
		"it ends": {packets: slices.Concat(times(5, voice), times(100, dtx)),
			heard: []moment{{Began, ms(300)}, {Ended, ms(300 + 840)}}, voiced: ms(300)},
		"a shorter pause is enough": {options: Options{Silence: ms(300)},
			packets: slices.Concat(times(5, voice), times(9, dtx)), heard: []moment{{Began, ms(300)}, {Ended, ms(600)}},
			voiced: ms(300)},
		"a pause of 660 ms": {packets: slices.Concat(times(5, voice), times(11, dtx), times(2, voice),
			times(13, dtx)), heard: []moment{{Began, ms(300)}}, voiced: ms(320)},
		"twice": {packets: times(2, slices.Concat(times(6, voice), times(14, dtx))...),
			heard:  []moment{{Began, ms(300)}, {Ended, ms(1200)}, {Began, ms(1500)}, {Ended, ms(2400)}},
			voiced: ms(360)},
		"it ends in flickering": {packets: slices.Concat(times(5, voice),
			times(9, boardPacket(4), boardPacket(2))), heard: []moment{{Began, ms(300)}, {Ended, ms(1140)}},
			voiced: ms(320)},
		"packets of 20 ms": {packets: times(13, []byte{0x48, 0x80}), heard: []moment{{Began, ms(260)}},
			voiced: ms(260)},
		"packets of 10 ms": {packets: times(13, []byte{0x40, 0x80}), heard: []moment{{Began, ms(130)}},
			voiced: ms(130)},
		"packets of 3 × 20 ms": {packets: times(5, three(0x80, 0xff, 0x80)), heard: []moment{{Began, ms(300)}},
			voiced: ms(300)},
		"one frame of three": {packets: times(100, three(0x80, 0, 0))},
		"hybrid": {packets: times(5, []byte{0x6b, 3, 0x80, 0xff, 0x80}),
			heard: []moment{{Began, ms(300)}}, voiced: ms(300)},
		"hybrid silence": {packets: times(1000, []byte{0x6b, 3, 0, 0x7f, 0})},
		"CELT": {packets: slices.Concat(times(50, celt(3)), times(20, celt(60)),
			times(60, celt(20))), heard: []moment{{Began, ms(1260)}, {Ended, ms(1400 + 800)}}, voiced: ms(400)},
		"CELT that is not so quiet": {packets: slices.Concat(times(20, celt(60)), times(60, celt(21))),
			heard: []moment{{Began, ms(260)}}, voiced: ms(1600)},
		"CELT silence":              {packets: times(1000, celt(celtSilence), celt(1), celt(3))},
		"CELT silence with padding": {packets: times(100, append([]byte{0xbb, 0x43, 60}, make([]byte, 69)...))},
		"CELT in packets of 60 ms": {packets: times(5, append([]byte{0xbb, 3}, make([]byte, 120)...)),
			heard: []moment{{Began, ms(300)}}, voiced: ms(300)},
		"CELT in packets of 2.5 ms": {packets: times(13, append([]byte{0xa0}, make([]byte, 20)...)),
			heard: []moment{{Began, 13 * 2500 * time.Microsecond}}, voiced: 13 * 2500 * time.Microsecond},
		"nothing that is Opus": {packets: times(1000, []byte{}, []byte{0xff}, []byte{0x5b, 0x80})},
		"other things end it as well": {packets: slices.Concat(times(5, voice), times(14, []byte{})),
			heard: []moment{{Began, ms(300)}, {Ended, ms(300)}}, voiced: ms(300)},
	} {
		t.Run(name, func(t *testing.T) {
			d := New(c.options)
			heard := listen(d, c.packets)
			if !slices.Equal(heard, c.heard) || d.VoicedDuration() != c.voiced {
				t.Errorf("heard %v, voiced %s; want %v, %s", heard, d.VoicedDuration(), c.heard, c.voiced)
			}
			if want := len(c.heard)%2 == 1; d.IsSpeaking() != want {
				t.Errorf("speaking: %t", d.IsSpeaking())
			}
			d.Reset()
			if d.IsSpeaking() || d.VoicedDuration() != 0 {
				t.Error("Reset does not forget")
			}
			if again := listen(d, c.packets); !slices.Equal(again, heard) {
				t.Errorf("after Reset: %v", again)
			}
		})
	}
}

// TestNoise checks that steady noise is not detected as speech once the encoder has adapted to it,
// and that speech in that noise is detected, and ends. Detection is unreliable in louder noise than
// this.
func TestNoise(t *testing.T) {
	decoder, err := opus.NewDecoder(16000)
	if err != nil {
		t.Fatal(err)
	}
	var speech []int16
	buf := make([]int16, decoder.Samples(opus.MaxDuration))
	for _, p := range recording(t, "testdata/05_tell_me_a_story_about_a_dog.opk") {
		n, err := decoder.Decode(p, buf)
		if err != nil {
			t.Fatal(err)
		}
		speech = append(speech, buf[:n]...)
	}
	encoders := opus.NewEncoderPool(1)
	t.Cleanup(func() {
		if err := encoders.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	const second, adapts, length = 16000, 2, 30
	for _, colour := range []float64{0, 0.95} { // coefficient of a low-pass filter
		for _, level := range []float64{-60, -50, -40, -35} { // dBFS
			t.Run(fmt.Sprintf("%g dB, %g", level, colour), func(t *testing.T) {
				random := rand.New(rand.NewPCG(1, 2))
				pcm := make([]int16, length*second)
				var x float64
				for i := range pcm {
					x = colour*x + math.Sqrt(1-colour*colour)*random.NormFloat64()
					v := x * math.Pow(10, level/20) * math.MaxInt16
					if k := i - 20*second; k >= 0 && k < len(speech) {
						v += float64(speech[k])
					}
					pcm[i] = int16(max(math.MinInt16, min(math.MaxInt16, v)))
				}
				e := opus.Encoding{SampleRate: second, Frame: frame, DTX: true}
				encoder, err := encoders.Open(t.Context(), e)
				if err != nil {
					t.Fatal(err)
				}
				defer encoder.Close()
				var packets [][]byte
				for n := e.Samples(); len(pcm) >= n; pcm = pcm[n:] {
					p, err := encoder.Encode(pcm[:n], nil)
					if err != nil {
						t.Fatal(err)
					}
					packets = append(packets, p)
				}
				set, from, to := 0, adapts*second/e.Samples(), 20*second/e.Samples()
				for _, p := range packets[from:to] {
					if len(p) > 1 {
						set += bits.OnesCount8(p[1] >> 5)
					}
				}
				heard := listen(New(Options{}), packets[from:])
				t.Logf("%d%% of the flags are set in noise; heard %v", set*100/3/(to-from), heard)
				if len(heard) != 2 || heard[0].at < (20-adapts)*time.Second || heard[1].at > (20-adapts+5)*time.Second {
					t.Errorf("heard %v", heard)
				}
			})
		}
	}
}

func TestPacketAllocatesNothing(t *testing.T) {
	packets := append(recording(t, "testdata/00_turn_on_the_light_in_the_kitchen.opk"),
		append([]byte{0xbb, 3}, make([]byte, 120)...))
	d := New(Options{})
	if n := testing.AllocsPerRun(100, func() { listenOnly(d, packets) }); n != 0 {
		t.Errorf("%v allocations for %d packets", n, len(packets))
	}
}

func listenOnly(d *Detector, packets [][]byte) {
	for _, p := range packets {
		d.Packet(p)
	}
}

func BenchmarkPacket(b *testing.B) {
	packets := recording(b, "testdata/00_turn_on_the_light_in_the_kitchen.opk")
	d := New(Options{})
	for i := 0; b.Loop(); i++ {
		d.Packet(packets[i%len(packets)])
	}
}

// FuzzPacket feeds arbitrary packets to a detector. Began and Ended must alternate, and there is
// never more voice than audio.
func FuzzPacket(f *testing.F) {
	for _, name := range recordings(f) {
		b, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b, uint16(800), int8(6))
	}
	f.Add([]byte("\x00\x04\xb8abc\x00\x01\xb8\x00\x00\x00\x02\x4b\x83"), uint16(1), int8(-1))
	f.Fuzz(func(t *testing.T, b []byte, silence uint16, speech int8) {
		o := Options{Silence: time.Duration(silence) * time.Millisecond, Speech: int(speech)}
		d := New(o)
		var sound time.Duration
		for len(b) >= 2 {
			n := min(int(binary.BigEndian.Uint16(b)), len(b)-2)
			p := b[2 : 2+n]
			b = b[2+n:]
			before := d.IsSpeaking()
			e := d.Packet(p)
			sound += opus.Duration(p)
			if want := map[Event]bool{None: before, Began: true, Ended: false}[e]; d.IsSpeaking() != want ||
				e != None && before == want {
				t.Fatalf("%s, speaking before %t, after %t", e, before, d.IsSpeaking())
			}
			if d.VoicedDuration() < 0 || d.VoicedDuration() > window*opus.MaxDuration+sound {
				t.Fatalf("%s voiced in %s", d.VoicedDuration(), sound)
			}
		}
	})
}
