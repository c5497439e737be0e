package xiaozhi_test

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"patchbay/internal/plug/xiaozhi"
	"patchbay/internal/plug/xiaozhi/sim"
	events "patchbay/internal/voice/realtime"
	"patchbay/internal/voice/realtime/realtimetest"
)

// TestDuplexSettings checks that a realtime bot has the settings of a board from the next turn, and
// that the board greets, sets its volume and knows the phrases that end the conversation.
func TestDuplexSettings(t *testing.T) {
	t.Parallel()
	ctx := limit(t, 2*time.Minute)
	var heard atomic.Value
	heard.Store(question)
	h, b, service := newDuplex(ctx, t, realtimetest.Options{Spelling: events.OpenAI, Sound: brief,
		Transcript: func([]int16) string { return heard.Load().(string) },
		Answer:     func(realtimetest.Question) realtimetest.Answer { return realtimetest.Answer{Text: "It is fine."} },
	}, false, sim.Options{}, nil)
	d := h.row(ctx, b)
	set(t, h, d, xiaozhi.VoiceSettings{Greeting: "Hi, what's up?", Volume: 42, Voice: "cedar"})
	must(t, b.Press(ctx))
	for b.View().Answers == 0 {
		must(t, b.Talk(ctx, quietPackets(2)))
	}
	if diff := cmp.Diff([]string{"Hi, what's up?"}, b.LastAnswer().Sentences); diff != "" {
		t.Errorf("the greeting: %s", diff)
	}
	ask := func() {
		t.Helper()
		a, err := b.Ask(ctx, append(quietPackets(20), spoken(t)...))
		must(t, err)
		if diff := cmp.Diff([]string{"It is fine."}, a.Sentences); diff != "" || a.Transcript != heard.Load() {
			t.Errorf("%q: %s", a.Transcript, diff)
		}
	}
	_, err := b.Await(ctx, func(v sim.View) bool { return v.Volume == 42 && v.State == sim.Listening })
	must(t, err)
	ask()
	set(t, h, d, xiaozhi.VoiceSettings{Voice: "marin", Language: "ja", ExitPhrases: []string{"Beam me up"}})
	ask()
	all := service.Sessions()
	if len(all) != 2 {
		t.Fatalf("%d sessions", len(all))
	}
	before, after := string(all[0].Update), string(all[1].Update)
	if !strings.Contains(before, `"cedar"`) || strings.Contains(before, `"language"`) ||
		!strings.Contains(after, `"marin"`) || !strings.Contains(after, `"language":"ja"`) {
		t.Errorf("the sessions are %s and %s", before, after)
	}
	heard.Store("Beam me up!")
	ask()
	_, err = b.Await(ctx, func(v sim.View) bool { return v.SessionID == "" })
	must(t, err)
	clean(t, b)
}
