package app

import (
	"context"
	"os"
	"sync/atomic"
	"testing"
	"time"
	"unicode/utf8"

	"patchbay/internal/voice/engines/dashscope/dashscopetest"
	"patchbay/internal/voice/engines/openai/openaitest"
	"patchbay/internal/voice/engines/stream/streamtest"
	"patchbay/internal/voice/engines/volcengine/volcenginetest"
	"patchbay/internal/voice/engines/wyoming/wyomingtest"
)

// provider counts what an engine gets.
type provider struct{ samples, characters atomic.Int64 }

func (p *provider) hear(samples []int16) string {
	p.samples.Add(int64(len(samples)))
	return "What is the weather today?"
}

func (p *provider) say(text string) []int16 {
	p.characters.Add(int64(utf8.RuneCountInString(text)))
	return make([]int16, 4800)
}

// Sums are those that the provider of each kind has counted. One that bills characters by a measure
// of its own is believed.
func TestSpeechUsageOfEngines(t *testing.T) {
	t.Parallel()
	const perCharacter = 2 // that Volcengine bills
	for name, c := range map[string]struct {
		factor int64
		flags  func(*testing.T, *provider) map[string]string
	}{
		"dashscope": {1, func(t *testing.T, p *provider) map[string]string {
			s := dashscopetest.New(t, dashscopetest.Options{Transcript: p.hear, Sound: p.say})
			return map[string]string{"speech.url": "dashscope+" + s.URL, "speech.key": dashscopetest.Key}
		}},
		"volcengine": {perCharacter, func(t *testing.T, p *provider) map[string]string {
			s := volcenginetest.New(t, volcenginetest.Options{Transcript: p.hear, Sound: p.say,
				Billed: func(text string) int { return perCharacter * utf8.RuneCountInString(text) }})
			return map[string]string{"speech.url": "volcengine+" + s.URL,
				"speech.key": volcenginetest.AppKey + ":" + volcenginetest.AccessKey}
		}},
		"wyoming": {1, func(t *testing.T, p *provider) map[string]string {
			s := wyomingtest.New(t, wyomingtest.Options{Transcript: p.hear, Sound: p.say})
			return map[string]string{"speech.url": s.Address}
		}},
		"stream": {1, func(t *testing.T, p *provider) map[string]string {
			s := streamtest.New(t, streamtest.Options{Dialect: "vosk", Transcribe: p.hear, LeaveOpen: true})
			voice := openaitest.New(t)
			voice.Sound = p.say
			return map[string]string{"speech.url": "vosk+" + s.URL, "speech.speak_url": voice.URL,
				"speech.speak_key": openaitest.Key}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := new(provider)
			testUsage(t, p, c.flags(t, p), c.factor)
		})
	}
}

func testUsage(t *testing.T, p *provider, flags map[string]string, factor int64) {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	turns := 2
	if os.Getenv("CHECK_ALL") != "" {
		turns = 10
	}
	b := newBilling(t)
	b.flags = flags
	stop := b.start()
	board := b.board(ctx)
	for range turns {
		a, err := board.Ask(ctx, question(t))
		must(t, err)
		if a.Transcript == "" || len(a.Sentences) != 1 {
			t.Fatalf("the board understood %q and said %q", a.Transcript, a.Sentences)
		}
	}
	board.Close()
	stop()
	b.start()
	total := b.usage(ctx).Total
	near(t, "seconds", total.Seconds, float64(p.samples.Load())/16000)
	near(t, "characters", float64(total.Characters), float64(factor*p.characters.Load()))
}
