package xiaozhi

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"

	"patchbay/internal/plug/xiaozhi/wire"
	"patchbay/internal/voice/endpoint/endpointtest"
	"patchbay/internal/voice/engine"
	"patchbay/internal/voice/opus"
)

// boardSound makes the sounds of a board that may hear itself.
type boardSound struct {
	t      *testing.T
	random *rand.Rand
	pool   *opus.EncoderPool
	speech [][]float64 // at 16 kHz, all as loud
	stop   []float64   // a word of 0.3 s
}

func newBoardSound(t *testing.T) *boardSound {
	t.Helper()
	clips, err := endpointtest.Clips("../../voice")
	if err != nil {
		t.Fatal(err)
	}
	b := &boardSound{t: t, random: rand.New(rand.NewPCG(1, 2)), pool: opus.NewEncoderPool(1)}
	t.Cleanup(func() { _ = b.pool.Close(context.Background()) })
	for _, c := range clips {
		b.speech = append(b.speech, c.Speech(0.06))
		if c.Name == "06_stop_the_music.opk" {
			b.stop = c.Speech(0.06)[:engine.Rate*3/10]
		}
	}
	return b
}

// answer returns so many seconds of sentences.
func (b *boardSound) answer(seconds int) (sound []float64) {
	for len(sound) < seconds*engine.Rate {
		sound = append(sound, b.speech[b.random.IntN(len(b.speech))]...)
		sound = append(sound, make([]float64, b.random.IntN(engine.Rate/3))...)
	}
	return sound[:seconds*engine.Rate]
}

// encode returns a sound in packets, and as it sounds after that.
func (b *boardSound) encode(sound []float64) (packets [][]byte, pcm [][]int16) {
	b.t.Helper()
	encoder, err := b.pool.Open(b.t.Context(), opus.Encoding{SampleRate: engine.Rate, Frame: wire.UplinkFrame})
	if err != nil {
		b.t.Fatal(err)
	}
	defer encoder.Close()
	decoder, err := opus.NewDecoder(engine.Rate)
	if err != nil {
		b.t.Fatal(err)
	}
	in := make([]int16, decoder.Samples(wire.UplinkFrame))
	for ; len(sound) >= len(in); sound = sound[len(in):] {
		for i := range in {
			in[i] = int16(max(math.MinInt16, min(math.MaxInt16, sound[i])))
		}
		packet, err := encoder.Encode(in, nil)
		if err != nil {
			b.t.Fatal(err)
		}
		out := make([]int16, len(in))
		if _, err := decoder.Decode(packet, out); err != nil {
			b.t.Fatal(err)
		}
		packets, pcm = append(packets, slices.Clone(packet)), append(pcm, out)
	}
	return packets, pcm
}

// hear has a board play an answer and hear it after a delay, some decibels louder, and what is said
// from a time on. It returns what the sound was, packet by packet.
func (b *boardSound) hear(answer []float64, delay time.Duration, decibels float64, at time.Duration,
	said []float64) (sounds []heardSound) {
	b.t.Helper()
	packets, played := b.encode(answer)
	samples := func(d time.Duration) int { return int(d * engine.Rate / time.Second) }
	heard := make([]float64, len(answer))
	for i, s := range slices.Concat(played...) {
		if k := i + samples(delay); k < len(heard) {
			heard[k] = math.Pow(10, decibels/20) * float64(s)
		}
	}
	for i := range heard {
		heard[i] += 20 * b.random.NormFloat64()
		if k := i - samples(at); k >= 0 && k < len(said) {
			heard[i] += said[k]
		}
	}
	_, pcm := b.encode(heard)
	own, now := newOwnSound(), time.Now()
	for i, s := range pcm {
		own.play(packets[i], now.Add(time.Duration(max(i-2, 0))*wire.UplinkFrame))
		voiced := said != nil && time.Duration(i)*wire.UplinkFrame >= at+interruptVoice
		sounds = append(sounds, own.hear(s, now.Add(time.Duration(i+1)*wire.UplinkFrame), voiced))
	}
	return sounds
}

// TestOwnSound has boards hear their own answers, as loud as boards without echo cancellation do,
// and later by up to 0.4 s. They have to know that soon, and to notice a short word over it.
func TestOwnSound(t *testing.T) {
	t.Parallel()
	answers := 6
	if os.Getenv("CHECK_ALL") != "" {
		answers = 100
	}
	for _, decibels := range []float64{-20, -10, -6} {
		t.Run(fmt.Sprint(decibels, " dB"), func(t *testing.T) {
			t.Parallel()
			b := newBoardSound(t)
			noticed := 0
			for n := range answers {
				answer := b.answer(6)
				delay := 50*time.Millisecond + time.Duration(b.random.Int64N(int64(350*time.Millisecond)))
				for i, s := range b.hear(answer, delay, decibels, 0, nil) {
					at := time.Duration(i+1) * wire.UplinkFrame
					if s == soundBoth || s != soundOwn && at > delay+time.Second {
						t.Errorf("answer %d, echo after %s: at %s it was %d", n, delay, at, s)
					}
				}
				at := 1500*time.Millisecond + time.Duration(b.random.Int64N(int64(3*time.Second)))
				sounds := b.hear(answer, delay, decibels, at, b.stop)
				first := time.Duration(slices.Index(sounds, soundBoth)+1) * wire.UplinkFrame
				if took := first - at; took > 0 && took <= 400*time.Millisecond {
					noticed++
				} else {
					t.Logf("answer %d, echo after %s: the word at %s was noticed at %s", n, delay, at, first)
				}
			}
			if noticed < answers*9/10 {
				t.Errorf("%d of %d words were noticed", noticed, answers)
			}
		})
	}
}

// TestOwnSoundCancelled has boards that cancel their echo hear somebody while they play: at once if
// they have played for a while, and otherwise when it is certainly a voice, unless that sounds like
// the answer.
func TestOwnSoundCancelled(t *testing.T) {
	t.Parallel()
	b := newBoardSound(t)
	clips := b.speech[:5]
	if os.Getenv("CHECK_ALL") != "" {
		clips = b.speech
	}
	for n, said := range clips {
		answer := b.answer(6)
		for i, s := range b.hear(answer, 0, math.Inf(-1), 4*time.Second, said) {
			if at := time.Duration(i+1) * wire.UplinkFrame; at > 4*time.Second && s != soundOfOthers {
				t.Errorf("answer %d: at %s it was %d", n, at, s)
			}
		}
		const early = 1200 * time.Millisecond
		sounds := b.hear(answer, 0, math.Inf(-1), early, said)
		known := int((early+interruptVoice)/wire.UplinkFrame) + 1
		if slices.Contains(sounds[known:], soundOwn) || sounds[known+5] != soundOfOthers {
			t.Errorf("answer %d: in the end it was %v", n, sounds)
		}
	}
}

// TestOwnSoundOfOddBoards has a board whose echo is known pause, and then send packets of any
// length.
func TestOwnSoundOfOddBoards(t *testing.T) {
	t.Parallel()
	b := newBoardSound(t)
	packets, pcm := b.encode(b.answer(3))
	own, now := newOwnSound(), time.Now()
	for i, packet := range packets {
		now = now.Add(wire.UplinkFrame)
		own.play(packet, now)
		own.hear(pcm[i], now, false)
	}
	if !own.known {
		t.Fatal("the echo is not known")
	}
	for n := range 2000 {
		now = now.Add(time.Duration(b.random.Int64N(int64(30 * time.Millisecond))))
		if n%40 == 0 { // the board says nothing while it plays on
			for range 70 {
				now = now.Add(wire.UplinkFrame)
				own.play(packets[b.random.IntN(len(packets))], now)
			}
		}
		samples := pcm[b.random.IntN(len(pcm))]
		if n%40 < 8 {
			samples = samples[:ownSamples/4] // shorter than a frame
		}
		own.hear(samples[:b.random.IntN(len(samples))], now, true)
	}
}
