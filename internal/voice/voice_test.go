package voice

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"patchbay/internal/voice/ogg"
	"patchbay/internal/voice/opus"
	"patchbay/internal/voice/pace"
	"patchbay/internal/voice/pcm"
)

const ms = time.Millisecond

var encoders = opus.NewEncoderPool(4)

func TestMain(m *testing.M) {
	code := m.Run()
	// Close waits for encoders that were not closed.
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if err := encoders.Close(ctx); err != nil {
		fmt.Println(err)
		code = 1
	}
	os.Exit(code)
}

// board24 describes a board that needs 60 ms at 24 kHz.
func board24() Output {
	return Output{opus.Encoding{SampleRate: 24000, Frame: 60 * ms, Bitrate: 32000, Complexity: 5}, encoders}
}

// play reads all packets of a source and closes it.
func play(t testing.TB, s pace.Source) (packets [][]byte, err error) {
	t.Helper()
	if c, ok := s.(io.Closer); ok {
		defer c.Close()
	}
	for {
		p, err := s.Next(t.Context())
		if err != nil {
			return packets, err
		}
		if opus.Duration(p) != 60*ms {
			t.Errorf("packet %d lasts %s", len(packets), opus.Duration(p))
		}
		packets = append(packets, bytes.Clone(p))
	}
}

// listen decodes packets to samples.
func listen(t testing.TB, rate int, packets [][]byte) (sound []int16) {
	t.Helper()
	d, err := opus.NewDecoder(rate)
	if err != nil {
		t.Fatal(err)
	}
	buf := make([]int16, d.Samples(opus.MaxDuration))
	for _, p := range packets {
		n, err := d.Decode(p, buf)
		if err != nil {
			t.Fatal(err)
		}
		sound = append(sound, buf[:n]...)
	}
	return sound
}

// sweep is a sine whose frequency rises from 200 to 1500 Hz.
func sweep(rate int, d time.Duration) []int16 {
	s := make([]int16, int(d.Seconds()*float64(rate)))
	for i := range s {
		x := float64(i) / float64(rate)
		s[i] = int16(9000 * math.Sin(2*math.Pi*(200*x+650*x*x/d.Seconds())))
	}
	return s
}

// likeness is the maximum correlation of two sounds over all delays below 20 ms.
func likeness(rate int, a, b []int16) (best float64) {
	for shift := range rate / 50 {
		var ab, aa, bb float64
		for i := 0; i < len(a) && i+shift < len(b); i++ {
			x, y := float64(a[i]), float64(b[i+shift])
			ab, aa, bb = ab+x*y, aa+x*x, bb+y*y
		}
		best = max(best, ab/math.Sqrt(aa*bb+1))
	}
	return best
}

func wav(t testing.TB, rate int, sound []int16) *bytes.Buffer {
	t.Helper()
	var b bytes.Buffer
	if err := pcm.WriteWAV(&b, rate, sound); err != nil {
		t.Fatal(err)
	}
	return &b
}

// oggFile is a sweep in packets of the given length.
func oggFile(t testing.TB, frame, d time.Duration) (file *bytes.Buffer, packets [][]byte) {
	t.Helper()
	return oggEncoded(t, opus.Encoding{SampleRate: 24000, Frame: frame, Bitrate: 32000, Complexity: 5}, d)
}

func oggEncoded(t testing.TB, e opus.Encoding, d time.Duration) (file *bytes.Buffer, packets [][]byte) {
	t.Helper()
	enc, err := encoders.Open(t.Context(), e)
	if err != nil {
		t.Fatal(err)
	}
	defer enc.Close()
	file = new(bytes.Buffer)
	w, err := ogg.NewWriter(file, ogg.WriterOptions{Channels: 1})
	if err != nil {
		t.Fatal(err)
	}
	for s := sweep(e.SampleRate, d); len(s) >= e.Samples(); s = s[e.Samples():] {
		p, err := enc.Encode(s[:e.Samples()], nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Write(p); err != nil {
			t.Fatal(err)
		}
		packets = append(packets, p)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return file, packets
}

func TestPackets(t *testing.T) {
	in := [][]byte{{0x58, 1}, {0x58}}
	out, err := play(t, Packets(in))
	if !errors.Is(err, io.EOF) || fmt.Sprint(in) != fmt.Sprint(out) {
		t.Errorf("%v, %v", out, err)
	}
}

func TestWAV(t *testing.T) {
	for _, rate := range []int{16000, 24000, 44100} {
		out, err := play(t, WAV(iotest.HalfReader(wav(t, rate, sweep(rate, 1200*ms))), board24()))
		// 20 packets, and one for the encoder's lookahead.
		if !errors.Is(err, io.EOF) || len(out) != 21 {
			t.Fatalf("%d Hz: %d packets, %v", rate, len(out), err)
		}
		if like := likeness(24000, sweep(24000, 1200*ms), listen(t, 24000, out)); like < 0.97 {
			t.Errorf("%d Hz: likeness %.3f", rate, like)
		}
	}
}

// TestOggOpus checks that frames that fit are passed through unchanged, without an encoder.
func TestOggOpus(t *testing.T) {
	for _, frame := range []time.Duration{10 * ms, 20 * ms, 60 * ms} {
		file, packets := oggFile(t, frame, 1200*ms)
		o := board24()
		o.Encoders = nil
		out, err := play(t, OggOpus(file, o))
		if !errors.Is(err, io.EOF) || len(out) != 20 {
			t.Fatalf("%s: %d packets, %v", frame, len(out), err)
		}
		want, got := listen(t, 24000, packets), listen(t, 24000, out)
		if len(want) != len(got) {
			t.Fatalf("%s: %d samples became %d", frame, len(want), len(got))
		}
		for i := range want {
			if want[i] != got[i] {
				t.Fatalf("%s: sample %d changed", frame, i)
			}
		}
	}
}

func TestOggOpusEncodedAgain(t *testing.T) {
	// SILK has frames of 40 ms; CELT would use two of 20.
	file, packets := oggEncoded(t, opus.Encoding{SampleRate: 16000, Frame: 40 * ms, Bitrate: 24000}, 1200*ms)
	if d := opus.TOC(packets[0][0]).FrameDuration(); d != 40*ms {
		t.Fatalf("frames of %s", d)
	}
	whole := bytes.Clone(file.Bytes())
	out, err := play(t, OggOpus(file, board24()))
	if !errors.Is(err, io.EOF) || len(out) != 21 {
		t.Fatalf("%d packets, %v", len(out), err)
	}
	if like := likeness(24000, sweep(24000, 1200*ms), listen(t, 24000, out)); like < 0.95 {
		t.Errorf("likeness %.3f", like)
	}
	o := board24()
	o.Encoders = nil
	if _, err := play(t, OggOpus(bytes.NewReader(whole), o)); !errors.Is(err, ErrNoEncoder) {
		t.Error(err)
	}
}

// TestOggOpusOfOthers plays a file that opusenc wrote.
func TestOggOpusOfOthers(t *testing.T) {
	f, err := os.Open("ogg/testdata/opusenc.opus")
	if err != nil {
		t.Fatal(err)
	}
	out, err := play(t, OggOpus(f, board24()))
	if !errors.Is(err, io.EOF) || len(out) != 12 { // 36 packets of 20 ms
		t.Errorf("%d packets, %v", len(out), err)
	}
	if _, err := f.Stat(); !errors.Is(err, os.ErrClosed) {
		t.Errorf("the file is still open: %v", err)
	}
}

func TestBadSound(t *testing.T) {
	for name, s := range map[string]pace.Source{
		"WAV":  WAV(bytes.NewReader([]byte("this is a web page")), board24()),
		"Ogg":  OggOpus(bytes.NewReader([]byte("this is a web page, a long one")), board24()),
		"none": WAV(wav(t, 16000, make([]int16, 10)), Output{Encoding: board24().Encoding}),
	} {
		if _, err := play(t, s); err == nil || errors.Is(err, io.EOF) {
			t.Errorf("%s: %v", name, err)
		}
	}
	file, _ := oggFile(t, 20*ms, 600*ms)
	if _, err := play(t, OggOpus(bytes.NewReader(file.Bytes()[:file.Len()-5]), board24())); !errors.Is(err,
		io.ErrUnexpectedEOF) {
		t.Errorf("cut off: %v", err)
	}
}

// TestAbortWhileWaiting aborts during a blocked read: the read and the playback end.
func TestAbortWhileWaiting(t *testing.T) {
	file, _ := oggFile(t, 20*ms, 600*ms)
	for name, source := range map[string]func(io.Reader) pace.Source{
		"ogg": func(r io.Reader) pace.Source { return OggOpus(r, board24()) },
		"wav": func(r io.Reader) pace.Source { return WAV(r, board24()) },
	} {
		synctest.Test(t, func(t *testing.T) {
			r, w := io.Pipe()
			written := make(chan error)
			go func() {
				b := file.Bytes()[:200]
				if name == "wav" {
					b = wav(t, 24000, sweep(24000, 600*ms)).Bytes()[:10000]
				}
				_, err := w.Write(b)
				if err == nil {
					_, err = w.Write(nil) // blocks until a read or the end
				}
				written <- err
			}()
			p := pace.NewPlayer(pace.Options{})
			start := time.Now()
			time.AfterFunc(500*ms, func() { p.Abort() })
			_, err := p.Play(t.Context(), 0, source(r), pace.Hooks{Send: func([]byte,
				time.Duration) error {
				return nil
			}})
			if !errors.Is(err, pace.ErrAborted) || time.Since(start) != 500*ms {
				t.Errorf("%s: %v after %s", name, err, time.Since(start))
			}
			<-written
		})
	}
}

// TestEncodersComeBack plays more sounds than the pool has encoders, most of them not to the end.
func TestEncodersComeBack(t *testing.T) {
	for range 10 {
		s := WAV(wav(t, 24000, sweep(24000, 600*ms)), board24())
		if _, err := s.Next(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := s.(io.Closer).Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestSourcesAllocateNothing(t *testing.T) {
	file, _ := oggFile(t, 20*ms, 20*time.Second)
	for name, s := range map[string]pace.Source{"ogg": OggOpus(file, board24()),
		"wav": WAV(wav(t, 44100, sweep(44100, 20*time.Second)), board24())} {
		for range 100 { // until all buffers have grown
			if _, err := s.Next(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if n := testing.AllocsPerRun(100, func() {
			if _, err := s.Next(t.Context()); err != nil {
				t.Error(err)
			}
		}); n > 0 {
			t.Errorf("%s: %v allocations per packet", name, n)
		}
		if err := s.(io.Closer).Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestRecorder(t *testing.T) {
	var file bytes.Buffer
	r, err := NewRecorder(&file, ogg.WriterOptions{Channels: 1})
	if err != nil {
		t.Fatal(err)
	}
	now := time.Unix(1000, 0)
	at := func(after time.Duration, want time.Duration) {
		t.Helper()
		now = now.Add(after)
		if err := r.Packet(now, []byte{0x58, 1, 2, 3}); err != nil {
			t.Fatal(err)
		}
		if r.Length() != want {
			t.Errorf("it lasts %s, not %s", r.Length(), want)
		}
	}
	for i := range 5 { // a burst
		at(0, time.Duration(i+1)*60*ms)
	}
	at(300*ms, 360*ms)
	at(100*ms, 420*ms)                       // a little late
	at(20*ms, 480*ms)                        // a little early
	at(500*ms, 480*ms+420*ms+60*ms)          // 440 ms of nothing: seven packets
	at(70*ms, 1020*ms)                       // the rest is inserted here
	at(time.Hour, 1020*ms+time.Minute+60*ms) // at most longestPause is inserted
	at(60*ms, 1020*ms+time.Minute+120*ms)
	if err := r.Packet(now, nil); !errors.Is(err, opus.ErrMalformed) {
		t.Error(err)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if out, err := play(t, OggOpus(&file, board24())); !errors.Is(err, io.EOF) || len(out) != 1000+19 {
		t.Errorf("%d packets, %v", len(out), err)
	}
}

// TestOthersHearTheSame compares opusdec's decoding of our packets with our decoder's.
func TestOthersHearTheSame(t *testing.T) {
	if _, err := exec.LookPath("opusdec"); err != nil {
		missing(t)
	}
	for _, e := range []opus.Encoding{
		{SampleRate: 16000, Frame: 60 * ms, Bitrate: 24000},
		{SampleRate: 24000, Frame: 60 * ms, Bitrate: 32000},
		{SampleRate: 24000, Frame: 60 * ms, Bitrate: 32000, Complexity: 5},
		{SampleRate: 24000, Frame: 20 * ms, Bitrate: 48000, Complexity: 5, Music: true},
	} {
		name := filepath.Join(t.TempDir(), "a.opus")
		f, err := os.Create(name)
		if err != nil {
			t.Fatal(err)
		}
		w, err := ogg.NewWriter(f, ogg.WriterOptions{Channels: 1})
		if err != nil {
			t.Fatal(err)
		}
		enc, err := encoders.Open(t.Context(), e)
		if err != nil {
			t.Fatal(err)
		}
		sound := sweep(e.SampleRate, 1200*ms)
		var packets [][]byte
		for s := sound; len(s) > 0; s = s[e.Samples():] {
			p, err := enc.Encode(s[:e.Samples()], nil)
			if err != nil {
				t.Fatal(err)
			}
			if err := w.Write(p); err != nil {
				t.Fatal(err)
			}
			packets = append(packets, p)
		}
		enc.Close()
		if err := errors.Join(w.Close(), f.Close()); err != nil {
			t.Fatal(err)
		}
		if out, err := exec.CommandContext(t.Context(), "opusdec", "--quiet", "--rate", "48000", "--no-dither", name,
			name+".wav").CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		theirs := fromFile(t, name+".wav", 48000)
		ours := listen(t, 48000, packets)
		in48 := sweep(48000, 1200*ms)
		same, o, th := likeness(48000, theirs, ours), likeness(48000, in48, ours), likeness(48000, in48, theirs)
		t.Logf("%+v: ours and theirs %.5f, the original and ours %.4f, and theirs %.4f (%d, %d samples)", e, same, o,
			th, len(ours), len(theirs))
		if same < 0.999 || th < 0.9 {
			t.Error("that is not the same sound")
		}
	}
}

func fromFile(t testing.TB, name string, rate int) (sound []int16) {
	t.Helper()
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	s, err := pcm.NewWAV(f, rate)
	if err != nil {
		t.Fatal(err)
	}
	buf := make([]int16, 4096)
	for {
		n, err := s.Read(buf)
		sound = append(sound, buf[:n]...)
		if errors.Is(err, io.EOF) {
			return sound
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// missing skips a test without opus-tools, which CI installs.
func missing(t *testing.T) {
	t.Helper()
	if os.Getenv("CI") != "" {
		t.Fatal("opus-tools is not installed")
	}
	t.Skip("opus-tools is not installed (Debian: apt-get install opus-tools)")
}
