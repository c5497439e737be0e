package test

import (
	"cmp"
	"context"
	"os"
	"strings"
	"testing"
	"time"

	chat "patchbay/internal/plug/openai/openaitest"
	"patchbay/internal/plug/xiaozhi/sim"
	engine "patchbay/internal/voice/engines/openai/openaitest"
	"patchbay/internal/voice/engines/wyoming/wyomingtest"
	"patchbay/internal/voice/voicetest"
)

// TestTalkWithoutService sets voice up with the programs of this machine, as the manual tells, and
// talks: what a board says is understood, and it is answered aloud in words that are understood
// again.
func TestTalkWithoutService(t *testing.T) {
	speech := voicetest.English(t)
	t.Parallel()
	h := newBoardServer(t)
	limit := limited(t, 2*time.Minute)
	h.says("has the lines now; restart the server", "voice", "setup", "--offline", "--write")
	must(t, h.stop())
	h.server = h.serve(t)
	h.says("listens", "voice", "engine", "list")
	h.run(t, "bot", "add", "--name", "parrot", "--kind", "echo")
	h.talks(limit, speech, "parrot")
}

// TestTalkByOneKey sets voice up with the key of a service that hears, answers and speaks, as the
// manual tells, and talks.
func TestTalkByOneKey(t *testing.T) {
	speech := voicetest.English(t)
	t.Parallel()
	h := newBoardServer(t)
	service := engine.New(t)
	service.Transcript = func(samples []int16) string { return cmp.Or(speech.Hear(samples), "good morning") }
	service.Sound = func(text string) []int16 { return voicetest.Resample(t, speech.Say(text), engine.Rate) }
	service.Other = newRepeatingModel(t, engine.Key)
	setUp := h.command("voice", "setup", "--service", "openai", "--url", service.URL, "--key-stdin")
	setUp.Stdin = strings.NewReader(engine.Key + "\n")
	out, err := setUp.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "Bot 1 (Robin) is added.") {
		t.Fatalf("%v: %s", err, out)
	}
	h.talks(limited(t, 2*time.Minute), speech, "Robin")
}

// TestTalkByWyoming sets voice up with two Wyoming servers and a model, as the manual tells, and
// talks.
func TestTalkByWyoming(t *testing.T) {
	speech := voicetest.English(t)
	t.Parallel()
	h := newBoardServer(t)
	hears := wyomingtest.New(t, wyomingtest.Options{Mute: true, Transcript: func(samples []int16) string {
		return cmp.Or(speech.Hear(samples), "good morning")
	}})
	speaks := wyomingtest.New(t, wyomingtest.Options{Deaf: true, Rate: voicetest.Rate, Sound: speech.Say})
	h.says("is added", "voice", "setup", "--wyoming", hears.Address, "--wyoming", speaks.Address)
	model := newRepeatingModel(t, "")
	h.says("is added", "bot", "add", "--role", "companion", "--kind", "openai", "--name", "ollama",
		"--set", "base_url="+model.URL, "--set", "model=qwen3:8b")
	h.talks(limited(t, 2*time.Minute), speech, "ollama")
}

// newRepeatingModel returns a chat API that answers with the question.
func newRepeatingModel(t *testing.T, key string) *chat.Server {
	t.Helper()
	model, err := chat.StartWith(func(s *chat.Server) {
		s.Key = key
		s.Answer = func(r *chat.Request) chat.Reply {
			all := r.Chat.Messages
			return chat.Reply{Steps: chat.Words(all[len(all)-1].Text(), 0)}
		}
	})
	must(t, err)
	t.Cleanup(model.Close)
	return model
}

// talks has a board ask a bot that repeats what it hears, and listens to the answers.
func (h *boardServer) talks(limit context.Context, speech *voicetest.Speech, bot string) {
	t := h.t
	t.Helper()
	b := h.online(limit, "kitchen", "websocket", sim.Options{KeepAudio: true, Lang: "en-US"})
	h.run(t, "device", "bind", "kitchen", bot)
	h.run(t, "device", "voice", "kitchen", "--set", "fillers=false") // on a busy machine
	for file, phrase := range map[string]string{"01_what_is_the_weather_today": "what is the weather today",
		"07_what_time_is_it_now": "what time is it now"} {
		data, err := os.ReadFile("../internal/voice/endpoint/testdata/" + file + ".opk")
		must(t, err)
		packets, err := sim.ParseSpeech(data)
		must(t, err)
		a, err := b.Ask(limit, packets)
		must(t, err)
		if a.Transcript != phrase {
			t.Errorf("%q is understood as %q", phrase, a.Transcript)
		}
		if got := speech.Hear(voicetest.Samples(t, a.Audio)); got != phrase {
			t.Errorf("%q is spoken as %q", phrase, got)
		}
	}
	pleased(t, b)
}
