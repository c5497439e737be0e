package hub_test

import (
	"context"
	"encoding/json"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"patchbay/internal/hub"
	"patchbay/internal/hub/hubtest"
	"patchbay/internal/tool"
)

// BenchmarkCall measures calls of a tool that changes something, with SQLite on the disk, one after
// the other and 32 at a time: with a journal, and without one, where calls wait for their commit.
func BenchmarkCall(b *testing.B) {
	for _, at := range []int{1, 32} {
		b.Run("waits/"+strconv.Itoa(at), func(b *testing.B) { callMany(b, at, hub.Options{}) })
		b.Run("journal/"+strconv.Itoa(at), func(b *testing.B) { callMany(b, at, hub.Options{Folder: b.TempDir()}) })
	}
}

func callMany(b *testing.B, at int, o hub.Options) {
	r := hubtest.New(b, hubtest.Options{Hub: o})
	done := &tool.Result{Content: json.RawMessage(`[{"type":"text","text":"true"}]`)}
	s, err := r.Hub.Register(hub.ProviderRef{ID: "board:1", Slug: "kitchen", Kind: "xiaozhi", Owner: r.Person.ID,
		Held: true}, providerFunc(func(context.Context, *tool.Call) (*tool.Result, error) { return done, nil }))
	if err != nil {
		b.Fatal(err)
	}
	s.SetTools([]tool.Tool{{Name: "self.audio_speaker.set_volume",
		Input: json.RawMessage(`{"type":"object","properties":{"volume":{"type":"integer","minimum":0,"maximum":100}},"required":["volume"]}`)}})
	who := access(r, `{"per_minute":100000000}`)
	var next atomic.Int64
	var mu sync.Mutex
	var took []time.Duration
	b.ReportAllocs()
	b.ResetTimer()
	var work sync.WaitGroup
	for range at {
		work.Go(func() {
			var own []time.Duration
			for next.Add(1) <= int64(b.N) {
				began := time.Now()
				if _, err := r.Hub.Call(context.Background(), who,
					"kitchen_self_audio_speaker_set_volume",
					&tool.Call{Args: json.RawMessage(`{"volume":50}`)}); err != nil {
					b.Error(err)
					return
				}
				own = append(own, time.Since(began))
			}
			mu.Lock()
			defer mu.Unlock()
			took = append(took, own...)
		})
	}
	work.Wait()
	b.StopTimer()
	slices.Sort(took)
	if len(took) > 0 {
		b.ReportMetric(float64(took[len(took)/2].Nanoseconds())/1e3, "p50-µs")
		b.ReportMetric(float64(took[len(took)*99/100].Nanoseconds())/1e3, "p99-µs")
		b.ReportMetric(float64(len(took))/b.Elapsed().Seconds(), "calls/s")
	}
}
