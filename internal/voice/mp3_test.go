package voice

import (
	"bytes"
	"errors"
	"io"
	"os"
	"testing"
	"testing/iotest"
	"time"
)

func mp3File(t testing.TB, name string) []byte {
	t.Helper()
	data, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// TestMP3 checks that files of two sample rates, with one channel and with two, are played while
// they arrive byte by byte. speech-24k.mp3 is "Good morning" by flite, tone-44k-id3.mp3 half a
// second of 440 Hz after an ID3 tag; both were encoded by LAME 3.100.
func TestMP3(t *testing.T) {
	for name, length := range map[string]time.Duration{"speech-24k.mp3": 950 * ms, "tone-44k-id3.mp3": 500 * ms} {
		t.Run(name, func(t *testing.T) {
			packets, err := play(t, MP3(iotest.OneByteReader(bytes.NewReader(mp3File(t, name))), board24()))
			if err != io.EOF {
				t.Fatal(err)
			}
			// An encoder adds up to four frames of silence, of 26 ms each.
			if got := time.Duration(len(packets)) * 60 * ms; got < length || got > length+250*ms {
				t.Errorf("%s of sound, want %s", got, length)
			}
			loud := 0
			for _, s := range listen(t, 24000, packets) {
				if max(s, -s) > 2000 {
					loud++
				}
			}
			if loud < 2000 {
				t.Errorf("%d loud samples", loud)
			}
		})
	}
}

// TestMP3Faults checks that what ends early or is no MP3 gives errors.
func TestMP3Faults(t *testing.T) {
	whole := mp3File(t, "speech-24k.mp3")
	broken := errors.New("the connection broke")
	in := io.MultiReader(bytes.NewReader(whole[:3000]), iotest.ErrReader(broken))
	if _, err := play(t, MP3(in, board24())); !errors.Is(err, broken) {
		t.Errorf("a broken connection: %v", err)
	}
	if packets, err := play(t, MP3(bytes.NewReader(whole[:3000]), board24())); err != io.EOF || len(packets) < 5 {
		t.Errorf("half a file: %d packets, %v", len(packets), err)
	}
	for name, data := range map[string][]byte{"nothing": nil, "text": []byte("<html>not found</html>"),
		"a tag without sound": []byte("ID3\x04\x00\x00\x7f\x7f\x7f\x7fabc"), "half a tag": []byte("ID3\x04")} {
		if _, err := play(t, MP3(bytes.NewReader(data), board24())); !errors.Is(err, ErrMalformedMP3) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// FuzzMP3 checks that no bytes break the decoder.
func FuzzMP3(f *testing.F) {
	f.Add(mp3File(f, "speech-24k.mp3")[:400])
	f.Add(mp3File(f, "tone-44k-id3.mp3")[:700])
	f.Fuzz(func(t *testing.T, data []byte) {
		b, err := decodeMP3(bytes.NewReader(data))
		out := make([]byte, 4<<10)
		for n := 0; err == nil; {
			if n, err = b.Read(out); n == 0 && err == nil {
				t.Fatal("neither samples nor an error")
			}
		}
		if !errors.Is(err, io.EOF) && !errors.Is(err, ErrMalformedMP3) {
			t.Error(err)
		}
	})
}

func BenchmarkMP3(b *testing.B) {
	data := mp3File(b, "speech-24k.mp3")
	out := make([]byte, 4<<10)
	for b.Loop() {
		s, err := decodeMP3(bytes.NewReader(data))
		for err == nil {
			_, err = s.Read(out)
		}
	}
}
