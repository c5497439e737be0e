package test

import (
	"os"
	"testing"
	"time"

	"patchbay/internal/plug/xiaozhi/sim"
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
	b := h.online(limit, "kitchen", "websocket", sim.Options{KeepAudio: true, Lang: "en-US"})
	h.run(t, "device", "bind", "kitchen", "parrot")
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
