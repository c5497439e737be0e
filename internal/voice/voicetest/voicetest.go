// Package voicetest has real speech for tests: programs that speak and recognise a few phrases, in
// English and Chinese. They are Debian's flite, pocketsphinx and espeak-ng; Chinese is recognised
// here, by comparing it with what espeak-ng says (see [Templates]).
package voicetest

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"patchbay/internal/voice/opus"
	"patchbay/internal/voice/pcm"
)

// Rate is the rate of all samples, in Hz.
const Rate = 16000

// Speech speaks and recognises phrases of a language.
type Speech struct {
	Language string
	Phrases  []string
	// Say returns how a text sounds.
	Say func(text string) []int16
	// Hear returns the phrase that was said, or "".
	Hear func(samples []int16) string
}

// need skips a test, or fails it in CI, if a program is missing.
func need(t testing.TB, programs ...string) {
	t.Helper()
	for _, p := range programs {
		if _, err := exec.LookPath(p); err != nil {
			if os.Getenv("CI") != "" {
				t.Fatal(err)
			}
			t.Skip(err)
		}
	}
}

// English returns flite's voice, which pocketsphinx recognises with a grammar of the phrases.
func English(t testing.TB) *Speech {
	t.Helper()
	need(t, "flite", "pocketsphinx_continuous")
	phrases := []string{"turn on the light in the kitchen", "what is the weather today", "please take a photo",
		"set the volume to fifty", "good morning", "tell me a story about a dog", "stop the music",
		"what time is it now", "open the window", "read me the news"}
	grammar := filepath.Join(t.TempDir(), "phrases.jsgf")
	text := "#JSGF V1.0;\ngrammar g;\npublic <phrase> = " + strings.Join(phrases, " | ") + " ;\n"
	if err := os.WriteFile(grammar, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	var one sync.Mutex // it needs a whole core and 105 MB
	return &Speech{Language: "en-US", Phrases: phrases,
		Say: func(text string) []int16 {
			return spoken(t, "flite", "-voice", "slt", "-t", text, "-o", "/dev/stdout")
		},
		Hear: func(samples []int16) string {
			one.Lock()
			defer one.Unlock()
			file := filepath.Join(t.TempDir(), fmt.Sprint(time.Now().UnixNano())+".wav")
			var wav bytes.Buffer
			must(t, pcm.WriteWAV(&wav, Rate, samples))
			must(t, os.WriteFile(file, wav.Bytes(), 0o600))
			out := run(t, "pocketsphinx_continuous", "-infile", file, "-jsgf", grammar, "-logfn", "/dev/null")
			return strings.TrimSpace(string(out))
		}}
}

// Chinese returns the Mandarin of espeak-ng, which is recognised by templates.
func Chinese(t testing.TB) *Speech {
	t.Helper()
	need(t, "espeak-ng")
	s := &Speech{Language: "zh-CN",
		Phrases: []string{"打开客厅的灯", "今天天气怎么样", "请拍一张照片", "把音量调到五十", "早上好",
			"给我讲一个故事", "停止播放音乐", "现在几点了", "关上窗户", "提醒我十分钟以后喝水", "我想听新闻"},
		Say: func(text string) []int16 { return spoken(t, "espeak-ng", "-v", "cmn", "-s", "150", "--stdout", text) }}
	var known Templates
	for _, p := range s.Phrases {
		known.Add(p, s.Say(p))
	}
	s.Hear = known.Recognise
	return s
}

// spoken returns the sound of a program that writes a WAV file to its output.
func spoken(t testing.TB, argv ...string) []int16 { return read(t, run(t, argv...), Rate) }

// Resample returns samples at another rate.
func Resample(t testing.TB, samples []int16, rate int) []int16 {
	var wav bytes.Buffer
	must(t, pcm.WriteWAV(&wav, Rate, samples))
	return read(t, wav.Bytes(), rate)
}

// read returns the samples of a WAV file at a rate.
func read(t testing.TB, wav []byte, rate int) []int16 {
	r, err := pcm.NewWAV(bytes.NewReader(wav), rate)
	must(t, err)
	samples, buf := []int16(nil), make([]int16, 4096)
	for {
		n, err := r.Read(buf)
		samples = append(samples, buf[:n]...)
		if err == io.EOF {
			return samples
		}
		must(t, err)
	}
}

func run(t testing.TB, argv ...string) []byte {
	out, err := exec.CommandContext(t.Context(), argv[0], argv[1:]...).Output()
	if err != nil {
		t.Error(argv[0], err) // by any goroutine
	}
	return out
}

func must(t testing.TB, err error) {
	if err != nil {
		t.Error(err)
	}
}

// Packets encodes samples as a board's microphone does: Opus packets of 60 ms.
func Packets(t testing.TB, pool *opus.EncoderPool, samples []int16) (packets [][]byte) {
	t.Helper()
	e, err := pool.Open(t.Context(), opus.Encoding{SampleRate: Rate, Frame: 60 * time.Millisecond, Complexity: 0,
		Bitrate: 16000, DTX: true})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	const frame = Rate * 60 / 1000
	for at := 0; at < len(samples); at += frame {
		piece := make([]int16, frame)
		copy(piece, samples[at:])
		p, err := e.Encode(piece, nil)
		if err != nil {
			t.Fatal(err)
		}
		packets = append(packets, bytes.Clone(p))
	}
	return packets
}

// Samples decodes what a board has played.
func Samples(t testing.TB, packets [][]byte) (samples []int16) {
	d, err := opus.NewDecoder(Rate)
	must(t, err)
	buf := make([]int16, d.Samples(120*time.Millisecond))
	for _, p := range packets {
		n, err := d.Decode(p, buf)
		must(t, err)
		samples = append(samples, buf[:n]...)
	}
	return samples
}
