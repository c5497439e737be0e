package xiaozhi_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"patchbay/internal/netx"
	"patchbay/internal/plug/xiaozhi/sim"
	"patchbay/internal/plug/xiaozhi/wire"
	"patchbay/internal/talk"
	"patchbay/internal/voice/endpoint/endpointtest"
	"patchbay/internal/voice/engine"
	"patchbay/internal/voice/opus"
)

const (
	// echoDelay is how much later than its loudspeaker plays it a board's microphone has a sound.
	echoDelay = 100 * time.Millisecond
	// wordDelay is how much later than it was said a recogniser knows a word.
	wordDelay = 200 * time.Millisecond
	// slowStop is how long a single "stop" may take, on a busy machine.
	slowStop = 1500 * time.Millisecond
	// roomTime is how much sound a room keeps.
	roomTime = 16 * time.Second
)

// room is where a board stands that cancels no echo: its microphone hears what its loudspeaker
// plays, and people. It is also the recogniser, which understands all words, also those of the
// board, and some of them wrongly.
type room struct {
	t       testing.TB
	echo    float64              // share of what the loudspeaker plays
	speech  map[string][]float64 // sentences as people and the engine say them, at 16 kHz
	encoder *opus.Encoder
	decoder *opus.Decoder

	mu      sync.Mutex
	began   time.Time
	sound   [int(roomTime/time.Second) * engine.Rate]float64
	before  int // sample before which the microphone has heard everything
	words   []roomWord
	unheard int // words until the next that is misunderstood
}

type roomWord struct {
	text string
	said time.Time
}

// newRoom returns a room in which the echo is so many decibels louder than people.
func newRoom(ctx context.Context, t *testing.T, decibels float64) *room {
	t.Helper()
	clips, err := endpointtest.Clips("../../voice")
	must(t, err)
	r := &room{t: t, echo: math.Pow(10, decibels/20), speech: map[string][]float64{}, began: time.Now()}
	for _, c := range clips {
		if c.Packets != nil {
			name := strings.TrimSuffix(c.Name, ".opk")
			r.speech[strings.ReplaceAll(name[3:], "_", " ")] = c.Speech(0.06)
		}
	}
	r.speech["stop"] = r.speech["stop the music"][:engine.Rate*3/10]
	for chinese, english := range map[string]string{"停": "stop", "给我讲一个小狗的故事": "tell me a story about a dog",
		"把厨房的灯打开": "turn on the light in the kitchen", "今天的天气怎么样": "what is the weather today",
		"请拍一张照片": "please take a photo", "音量调到五十": "set the volume to fifty", "早上好": "good morning",
		"现在是几点钟": "what time is it now"} {
		r.speech[chinese] = r.speech[english]
	}
	pool := opus.NewEncoderPool(1)
	r.encoder, err = pool.Open(ctx, opus.Encoding{SampleRate: engine.Rate, Frame: wire.UplinkFrame})
	must(t, err)
	t.Cleanup(func() { // after the board's end
		r.encoder.Close()
		must(t, pool.Close(context.Background()))
	})
	r.decoder, err = opus.NewDecoder(engine.Rate)
	must(t, err)
	return r
}

// at returns the number of the sample at a time.
func (r *room) at(t time.Time) int { return int(t.Sub(r.began) * engine.Rate / time.Second) }

// add mixes a sound into what the microphone hears. Requires mu.
func (r *room) add(at time.Time, sound []float64, share float64) {
	first := r.at(at)
	for i, s := range sound {
		if first+i >= r.before {
			r.sound[(first+i)%len(r.sound)] += share * s
		}
	}
}

// say has a person say a sentence. It returns when they begin.
func (r *room) say(text string) time.Time {
	now := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.add(now, r.speech[text], 1)
	r.addWords(now, text)
	return now
}

// addWords adds the words of sentences that begin at a time. Requires mu.
func (r *room) addWords(at time.Time, texts ...string) {
	for _, text := range texts {
		length := time.Duration(len(r.speech[text])) * time.Second / engine.Rate
		words := strings.Fields(text)
		if text[0] >= utf8.RuneSelf {
			words = strings.Split(text, "")
		}
		for i, word := range words {
			r.words = append(r.words, roomWord{word, at.Add(length * time.Duration(i+1) / time.Duration(len(words)))})
		}
		at = at.Add(length)
	}
}

// sentences returns the sentences of a text that is spoken.
func sentences(text string) (list []string) {
	for s := range strings.FieldsFuncSeq(text, func(r rune) bool { return r == '.' || r == '。' }) {
		if s = strings.ToLower(strings.TrimSpace(s)); s != "" {
			list = append(list, s)
		}
	}
	return list
}

// onEvent is the board's [sim.Options].OnEvent: the words of the board are heard a bit wrongly.
func (r *room) onEvent(e sim.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	switch e.Kind {
	case sim.EventSentence:
		had := len(r.words)
		r.addWords(now, sentences(e.Text)...)
		for i := had; i < len(r.words); i++ {
			if r.unheard++; r.unheard%5 != 0 {
				continue
			}
			if r.words[i].text[0] < utf8.RuneSelf {
				r.words[i].text = "ember"
			} else {
				r.words[i].text = "雨"
			}
		}
	case sim.EventState: // what was not played is not heard
		r.words = slices.DeleteFunc(r.words, func(w roomWord) bool { return w.said.After(now.Add(echoDelay)) })
	}
}

// play is the board's [sim.Options].Play.
func (r *room) play(at time.Time, packet []byte) {
	pcm := make([]int16, r.decoder.Samples(opus.MaxDuration))
	n, err := r.decoder.Decode(packet, pcm)
	if err != nil {
		r.t.Error(err)
		return
	}
	sound := make([]float64, n)
	for i := range sound {
		sound[i] = float64(pcm[i])
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.add(at.Add(echoDelay), sound, r.echo)
}

// record is the board's [sim.Options].Record.
func (r *room) record(until time.Time) []byte {
	pcm := make([]int16, engine.Rate*wire.UplinkFrame/time.Second)
	r.mu.Lock()
	first := r.at(until.Add(-wire.UplinkFrame))
	for i := range pcm {
		s := &r.sound[(first+i)%len(r.sound)]
		pcm[i] = int16(max(math.MinInt16, min(math.MaxInt16, *s)))
		*s = 0
	}
	r.before = first + len(pcm)
	r.mu.Unlock()
	packet, err := r.encoder.Encode(pcm, nil)
	if err != nil {
		r.t.Error(err)
	}
	return packet
}

// heard returns the words that were said between two times.
func (r *room) heard(from, to time.Time) (text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	slices.SortStableFunc(r.words, func(a, b roomWord) int { return a.said.Compare(b.said) })
	for _, w := range r.words {
		if w.said.After(from) && w.said.Before(to) {
			text = engine.JoinTexts(text, w.text)
		}
	}
	return text
}

// engine returns an engine that says the room's sentences, and understands them.
func (r *room) engine() engine.Engine {
	var began sync.Map // of utterances, by their numbers
	listener := &streamListener{text: func(utterance int, _ time.Duration, finished bool) string {
		now := time.Now()
		from, _ := began.LoadOrStore(utterance, now.Add(-time.Second))
		if finished {
			return r.heard(from.(time.Time), now)
		}
		return r.heard(from.(time.Time), now.Add(-wordDelay))
	}}
	speak := func(_ context.Context, text string, _ engine.Manner) (engine.Clip, error) {
		var sound bytes.Buffer
		for _, s := range sentences(text) {
			for _, sample := range r.speech[s] {
				_ = binary.Write(&sound, binary.LittleEndian, int16(sample)) // never fails
			}
		}
		return engine.Clip{Format: engine.PCM, Rate: engine.Rate, Sound: io.NopCloser(&sound)}, nil
	}
	return engine.Engine{Listener: listener, Speaker: engine.SpeakOnce(speak)}
}

// selfTalk is what a person and a board say that hears itself.
type selfTalk struct {
	decibels       float64
	lang           string
	question, stop string
	parts          []string // of the answer
}

// TestSelfEcho has a board without echo cancellation hear itself while it speaks. It must not
// interrupt itself or answer itself, and has to hear somebody who says "stop". With CHECK_ALL, it
// speaks for ten minutes, and most stops have to come within 700 ms.
func TestSelfEcho(t *testing.T) {
	t.Parallel()
	answers, stops := 1, 1
	english := selfTalk{-6, "en-US", "tell me a story about a dog", "stop", []string{"Turn on the light in the kitchen.",
		"What is the weather today.", "Please take a photo.", "Set the volume to fifty.", "Good morning.",
		"What time is it now."}}
	chinese := selfTalk{-6, "zh-CN", "给我讲一个小狗的故事", "停", []string{"把厨房的灯打开。", "今天的天气怎么样。",
		"请拍一张照片。", "音量调到五十。", "早上好。", "现在是几点钟。"}}
	talks := []selfTalk{english, chinese}
	if os.Getenv("CHECK_ALL") != "" {
		answers, stops = 44, 10
		for _, decibels := range []float64{-20, -10} {
			english.decibels = decibels
			talks = append(talks, english)
		}
	}
	for _, talks := range talks {
		t.Run(fmt.Sprint(talks.stop, " ", talks.decibels, " dB"), func(t *testing.T) {
			t.Parallel()
			testSelfEcho(t, talks, answers, stops)
		})
	}
}

func testSelfEcho(t *testing.T, talks selfTalk, answers, stops int) {
	ctx := limit(t, time.Duration(answers+stops)*25*time.Second)
	r := newRoom(ctx, t, talks.decibels)
	h := newTestServer(t, testServerOptions{boards: withEngines(engine.Link{Name: "room", Engine: r.engine()})})
	b := h.device(sim.Options{Lang: talks.lang, Mode: wire.ModeRealtime, OnEvent: r.onEvent, Play: r.play,
		Record: r.record})
	must(t, b.Boot(ctx))
	var asked atomic.Int32
	parts := talks.parts
	if answers > 1 {
		parts = slices.Repeat(parts, 2)
	}
	whole := ""
	for _, part := range parts {
		whole = engine.JoinTexts(whole, part)
	}
	h.bindScript(ctx, b, func(_ context.Context, turn *talk.Turn, emit talk.Emit) error {
		if asked.Add(1); !strings.HasSuffix(turn.Text(), talks.question) {
			t.Errorf("the bot was asked %q", turn.Text())
		}
		return emit(talk.Text(whole))
	})
	must(t, b.Press(ctx))
	for n := range answers {
		r.say(talks.question)
		_, err := b.Await(ctx, func(v sim.View) bool { return v.Answers == n+1 && v.State == sim.Listening })
		must(t, err)
		said := ""
		for _, s := range b.LastAnswer().Sentences {
			said = engine.JoinTexts(said, s)
		}
		if diff := cmp.Diff(whole, said); diff != "" {
			t.Errorf("answer %d:\n%s", n, diff)
		}
		must(t, netx.Wait(ctx, 2*time.Second)) // the board hears the rest of its echo
	}
	meter := sim.NewMeter()
	t.Cleanup(meter.Close)
	quick := 0
	for n := range stops {
		r.say(talks.question)
		_, err := b.Await(ctx, func(v sim.View) bool { return v.State == sim.Speaking && v.Displayed != "" })
		must(t, err)
		must(t, netx.Wait(ctx, 500*time.Millisecond+rand.N(3*time.Second)))
		said, stalled := r.say(talks.stop), meter.Stalled()
		_, err = b.Await(ctx, func(v sim.View) bool {
			return v.Answers == answers+n+1 && v.State == sim.Listening
		})
		must(t, err)
		took := time.Since(said)
		t.Logf("stopped after %s", took.Round(time.Millisecond))
		if took <= 700*time.Millisecond {
			quick++
		}
		if stalled = meter.Stalled() - stalled; stops == 1 && took > slowStop+stalled {
			t.Errorf("stopped after %s, and the machine stood still for %s of that", took, stalled)
		}
		must(t, netx.Wait(ctx, 2*time.Second))
	}
	if int(asked.Load()) != answers+stops {
		t.Errorf("the bot was asked %d times, not %d", asked.Load(), answers+stops)
	}
	if stops > 1 && quick < stops*9/10 {
		t.Errorf("%d of %d stops were quick", quick, stops)
	}
	clean(t, b)
}
