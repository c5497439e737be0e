package app

import (
	"context"
	"math"
	"slices"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"patchbay/internal/control"
	"patchbay/internal/hub"
	"patchbay/internal/store"
	"patchbay/internal/voice/realtime"
	"patchbay/internal/voice/realtime/realtimetest"
)

// What a realtime bot hears and speaks is summed up as its provider has counted it, with its price.
// A limit that is reached stops the next turn with a sentence, and the provider gets nothing.
func TestRealtimeUsageAndLimits(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	var mu sync.Mutex
	var samples, characters int
	service := realtimetest.New(t, realtimetest.Options{Spelling: realtime.OpenAI,
		Transcript: func(s []int16) string {
			mu.Lock()
			defer mu.Unlock()
			samples += len(s)
			return "What is the weather today?"
		},
		Answer: func(realtimetest.Question) realtimetest.Answer {
			mu.Lock()
			defer mu.Unlock()
			text := "Rain today, wind from the west – and 20 °C."
			characters += utf8.RuneCountInString(text)
			return realtimetest.Answer{Text: text}
		},
		Sound: func(string) []int16 { return make([]int16, 3200) }})
	b := newBilling(t)
	b.flags = nil // no speech engines
	b.bot = hub.NewBot{Name: "voice", Kind: "realtime", Set: map[string]string{"url": service.URL,
		"api_key": realtimetest.Key, "model": "m", "price_per_minute": "0.06", "price_per_million_characters": "20"}}
	stop := b.start()
	board := b.board(ctx)
	for range 3 {
		a, err := board.Ask(ctx, question(t))
		must(t, err)
		if len(a.Sentences) != 1 || a.Packets == 0 {
			t.Fatalf("%+v", a)
		}
	}
	board.Close()
	stop()
	b.start()
	mu.Lock()
	seconds, spoken := float64(samples)/16000, characters
	mu.Unlock()
	sums := b.usage(ctx)
	near(t, "seconds", sums.Total.Seconds, seconds)
	near(t, "characters", float64(sums.Total.Characters), float64(spoken))
	near(t, "cost", sums.Total.Cost, seconds/60*0.06+float64(spoken)*20/1e6)
	for _, list := range [][]control.Usage{sums.Days, sums.People, sums.Devices, sums.Engines} {
		if len(list) != 1 || math.Abs(list[0].Seconds-sums.Total.Seconds) > 1e-9 {
			t.Errorf("the sums are %+v", sums)
		}
	}
	if sums.Engines[0].Name != "bot voice" {
		t.Errorf("the engine is %q", sums.Engines[0].Name)
	}

	must(t, b.base.Store.SpeechUsage.Add(ctx,
		[]store.SpeechUseKey{{Day: "2026-11-25", Owner: b.owner.ID, Device: 99, Engine: "elsewhere"}},
		[]store.SpeechUse{{Uses: 1, Heard: time.Hour}}))
	board = b.board(ctx)
	a, err := board.Ask(ctx, question(t))
	must(t, err)
	if want := []string{"That is all for today. We can talk again tomorrow."}; !slices.Equal(a.Sentences, want) {
		t.Errorf("the board said %q", a.Sentences)
	}
	mu.Lock()
	defer mu.Unlock()
	if after := float64(samples) / 16000; after != seconds {
		t.Errorf("the provider heard %v s more", after-seconds)
	}
}
