package xiaozhi_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"patchbay/internal/plug/xiaozhi"
	"patchbay/internal/plug/xiaozhi/sim"
	"patchbay/internal/store"
	"patchbay/internal/talk"
	"patchbay/internal/voice/engine"
	"patchbay/internal/voice/engines/dashscope"
	"patchbay/internal/voice/engines/dashscope/dashscopetest"
	"patchbay/internal/voice/engines/httpspeech"
	"patchbay/internal/voice/engines/httpspeech/httpspeechtest"
	"patchbay/internal/voice/engines/openai"
	"patchbay/internal/voice/engines/openai/openaitest"
	realtimeengine "patchbay/internal/voice/engines/realtime"
	"patchbay/internal/voice/engines/stream"
	"patchbay/internal/voice/engines/stream/streamtest"
	"patchbay/internal/voice/engines/volcengine"
	"patchbay/internal/voice/engines/volcengine/volcenginetest"
	"patchbay/internal/voice/engines/wyoming"
	"patchbay/internal/voice/engines/wyoming/wyomingtest"
	"patchbay/internal/voice/opus"
	"patchbay/internal/voice/realtime"
	"patchbay/internal/voice/realtime/realtimetest"
	"patchbay/internal/voice/voicetest"
	"patchbay/internal/voice/words"
)

// wires are engines with real speech, each behind its wire on loopback. Those that only listen, or
// only speak, do the rest by the wire of OpenAI.
var wires = []struct {
	name string
	open func(testing.TB, *voicetest.Speech) (engine.Engine, error)
}{
	{"openai", openOpenAI},
	{"wyoming", func(t testing.TB, s *voicetest.Speech) (engine.Engine, error) {
		server := wyomingtest.New(t, wyomingtest.Options{Transcript: s.Hear, Sound: s.Say,
			Rate: voicetest.Rate})
		return wyoming.New(wyoming.Settings{Address: server.Address}, engine.Options{})
	}},
	{"funasr", openStream(stream.FunASR)},
	{"vosk", openStream(stream.Vosk)},
	{"sherpa", openStream(stream.Sherpa)},
	{"dashscope", func(t testing.TB, s *voicetest.Speech) (engine.Engine, error) {
		server := dashscopetest.New(t, dashscopetest.Options{Transcript: s.Hear, Sound: s.Say})
		return dashscope.New(dashscope.Settings{URL: server.URL, APIKey: dashscopetest.Key}, engine.Options{})
	}},
	{"volcengine", func(t testing.TB, s *voicetest.Speech) (engine.Engine, error) {
		server := volcenginetest.New(t, volcenginetest.Options{Transcript: s.Hear, Sound: s.Say})
		return volcengine.New(volcengine.Settings{URL: server.URL, AppKey: volcenginetest.AppKey,
			AccessKey: volcenginetest.AccessKey}, engine.Options{})
	}},
	{"realtime", openRealtime(realtime.OpenAI)},
	{"qwen", openRealtime(realtime.Qwen)},
	{"http", func(t testing.TB, s *voicetest.Speech) (engine.Engine, error) {
		server := httpspeechtest.New(t, httpspeechtest.Options{Sound: func(text string) []int16 {
			return voicetest.Resample(t, s.Say(text), httpspeechtest.Rate)
		}})
		e, err := httpspeech.New(httpspeech.Settings{URL: server.URL, Body: `{"text":"{text}"}`}, engine.Options{})
		must(t, err)
		other, err := openOpenAI(t, s)
		e.Listener = other.Listener
		return e, err
	}},
}

func openOpenAI(t testing.TB, s *voicetest.Speech) (engine.Engine, error) {
	server := openaitest.New(t)
	server.Transcript = s.Hear
	server.Sound = func(text string) []int16 { return voicetest.Resample(t, s.Say(text), openaitest.Rate) }
	return openai.New(openai.Settings{BaseURL: server.URL, APIKey: openaitest.Key, Format: "wav"}, engine.Options{})
}

func openStream(dialect string) func(testing.TB, *voicetest.Speech) (engine.Engine, error) {
	return func(t testing.TB, s *voicetest.Speech) (engine.Engine, error) {
		server := streamtest.New(t, streamtest.Options{Dialect: dialect, Transcribe: s.Hear,
			Partials: []streamtest.Partial{{Text: "a"}}, LeaveOpen: dialect != stream.Sherpa})
		e, err := stream.New(stream.Settings{URL: server.URL, Dialect: dialect}, engine.Options{})
		must(t, err)
		other, err := openOpenAI(t, s)
		e.Speaker = other.Speaker
		return e, err
	}
}

func openRealtime(spelling realtime.Spelling) func(testing.TB, *voicetest.Speech) (engine.Engine, error) {
	return func(t testing.TB, s *voicetest.Speech) (engine.Engine, error) {
		server := realtimetest.New(t, realtimetest.Options{Spelling: spelling, Transcript: s.Hear, Sound: s.Say})
		e, err := realtimeengine.New(realtimeengine.Settings{URL: server.URL + "/v1/realtime",
			APIKey: realtimetest.Key, Spelling: string(spelling)}, engine.Options{})
		if e.Speaker == nil {
			must(t, err)
			var other engine.Engine
			other, err = openOpenAI(t, s)
			e.Speaker = other.Speaker
		}
		return e, err
	}
}

// atOnce is how many boards talk at a time.
const atOnce = 4

// TestRealSpeech has boards ask what people say, in English and in Chinese, on both transports and
// over the wire of each engine. A bot repeats it, and what the board plays is the phrase again.
func TestRealSpeech(t *testing.T) {
	for name, speech := range map[string]func(testing.TB) *voicetest.Speech{"English": voicetest.English,
		"Chinese": voicetest.Chinese} {
		for _, transport := range []string{store.TransportSocket, store.TransportMQTT} {
			t.Run(name+" "+transport, func(t *testing.T) {
				testRealSpeech(t, speech(t), transport == store.TransportMQTT)
			})
		}
	}
}

func testRealSpeech(t *testing.T, s *voicetest.Speech, mqtt bool) {
	ctx := limit(t, 3*time.Minute)
	chains := map[string]*engine.Chain{}                                        // by the board's address
	settings := xiaozhi.VoiceSettings{Language: s.Language, Fillers: new(bool)} // nothing but the answer
	h := newTestServer(t, testServerOptions{mqtt: mqtt, boards: func(o *xiaozhi.Options) {
		o.Voice = xiaozhi.Dialogue{
			Engines:  func(d store.Device) *engine.Chain { return chains[d.Hardware] },
			Settings: func(context.Context, store.Device) xiaozhi.VoiceSettings { return settings },
		}
	}})
	pool := opus.NewEncoderPool(1)
	t.Cleanup(func() { must(t, pool.Close(context.WithoutCancel(ctx))) })
	var talks []func()
	for i, phrase := range s.Phrases { // each from a board of its own
		wire := wires[i%len(wires)]
		e, err := wire.open(t, s)
		must(t, err)
		t.Cleanup(e.Close)
		b := h.device(sim.Options{Lang: s.Language, KeepAudio: true})
		chains[b.MAC()] = &engine.Chain{Links: []engine.Link{{Name: wire.name, Engine: e}}}
		must(t, b.Boot(ctx))
		h.bindScript(ctx, b, func(_ context.Context, turn *talk.Turn, emit talk.Emit) error {
			return emit(talk.Text(turn.Text()))
		})
		packets := voicetest.Packets(t, pool, s.Say(phrase))
		talks = append(talks, func() {
			a, err := b.Ask(ctx, packets)
			if err != nil {
				t.Errorf("%s: %q: %v", wire.name, phrase, err)
				return
			}
			if words.Letters(a.Transcript) != words.Letters(phrase) {
				t.Errorf("%s: %q is understood as %q", wire.name, phrase, a.Transcript)
			}
			if got := s.Hear(voicetest.Samples(t, a.Audio)); got != phrase {
				t.Errorf("%s: %q is played as %q", wire.name, phrase, got)
			}
			clean(t, b)
		})
	}
	var all sync.WaitGroup
	next := make(chan func())
	for range atOnce {
		all.Go(func() {
			for talk := range next {
				talk()
			}
		})
	}
	for _, talk := range talks {
		next <- talk
	}
	close(next)
	all.Wait()
}
