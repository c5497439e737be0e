package app

import (
	"context"
	"net/http"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"patchbay/internal/control"
	"patchbay/internal/netx"
	"patchbay/internal/store"
	"patchbay/internal/voice/engines/openai/openaitest"
)

// An engine that reaches a limit of its day, here by another instance, is left out until the next
// day, and the next one goes on. Without another one the person gets the sentence.
func TestDailyLimitsOfEngines(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	b := newBilling(t)
	b.flags = nil // no engines of the configuration
	second := openaitest.New(t)
	var secondHeard atomic.Int64
	second.Transcript = func([]int16) string { secondHeard.Add(1); return "What is the weather today?" }
	second.Sound = b.provider.Sound
	b.start()
	board := b.board(ctx)
	for _, e := range []struct{ name, url, characters string }{
		{"first", b.provider.URL, "1000"}, {"second", second.URL, ""},
	} {
		b.call(ctx, http.MethodPost, "engines", map[string]any{"name": e.name, "kind": "openai", "unchecked": true,
			"settings": map[string]string{"base_url": e.url, "api_key": openaitest.Key, "format": "pcm",
				"daily_minutes": "1", "daily_characters": e.characters}}, new(control.EngineDetail))
	}
	ask := func() []string {
		t.Helper()
		a, err := board.Ask(ctx, question(t))
		must(t, err)
		return a.Sentences
	}
	use := func(engine string) {
		t.Helper()
		must(t, b.base.Store.SpeechUsage.Add(ctx,
			[]store.SpeechUseKey{{Day: "2026-11-25", Owner: b.owner.ID, Device: 99, Engine: engine}},
			[]store.SpeechUse{{Uses: 1, Heard: time.Minute, Characters: 1000}}))
		for {
			var e control.EngineDetail
			b.call(ctx, http.MethodGet, "engines/"+engine, nil, &e)
			if e.State == control.EngineSpent {
				return
			}
			must(t, netx.Wait(ctx, 10*time.Millisecond))
		}
	}
	if ask(); b.seconds.Load() == 0 || secondHeard.Load() != 0 {
		t.Fatal("the first engine was not used")
	}
	use("first")
	heard, spoken := b.seconds.Load(), len(b.provider.Spoken())
	if s := ask(); secondHeard.Load() != 1 || !slices.Contains(second.Spoken(), "What is the weather today?") || len(s) != 1 {
		t.Errorf("the second engine did not go on; the board said %q", s)
	}
	use("second")
	if s := ask(); !slices.Equal(s, []string{"That is all for today. We can talk again tomorrow."}) {
		t.Errorf("the board said %q", s)
	}
	if b.seconds.Load() != heard || len(b.provider.Spoken()) != spoken || secondHeard.Load() != 1 {
		t.Error("an engine was used beyond its limit")
	}
	b.today.Add(4 * 60 * 60) // midnight in China
	if s := ask(); len(s) != 1 || b.seconds.Load() == heard {
		t.Errorf("on the next day the board said %q", s)
	}
}
