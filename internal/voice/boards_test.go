package voice

import (
	"bytes"
	"fmt"
	"sync"
	"syscall"
	"testing"
	"time"

	"patchbay/internal/voice/opus"
	"patchbay/internal/voice/pace"
)

// BenchmarkBoards plays to many boards at once, in real time, for six seconds: samples are encoded
// and sent on time.
func BenchmarkBoards(b *testing.B) {
	for _, complexity := range []int{0, 5} {
		for _, boards := range []int{50, 100} {
			b.Run(fmt.Sprintf("c%d/%d", complexity, boards), func(b *testing.B) {
				o := Output{opus.Encoding{SampleRate: 24000, Frame: 60 * ms, Bitrate: 24000, Complexity: complexity},
					opus.NewEncoderPool(boards)}
				sound := wav(b, 24000, sweep(24000, 6*time.Second)).Bytes()
				for b.Loop() {
					speak(b, boards, sound, o)
				}
				if err := o.Encoders.Close(b.Context()); err != nil {
					b.Error(err)
				}
			})
		}
	}
}

func speak(b *testing.B, boards int, sound []byte, o Output) {
	var mu sync.Mutex
	var all pace.Stats
	var wg sync.WaitGroup
	before, start := cpu(b), time.Now()
	for i := range boards {
		wg.Go(func() {
			// The starts are spread.
			h := pace.Hooks{Send: func([]byte, time.Duration) error { return nil },
				NotBefore: start.Add(200*ms + time.Duration(i)*60*ms/time.Duration(boards))}
			src := WAV(bytes.NewReader(sound), o)
			stats, err := pace.NewPlayer(pace.Options{Tail: -1}).Play(b.Context(), 0, src, h)
			if err != nil {
				b.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			all.Frames += stats.Frames
			all.Gaps += stats.Gaps
			all.Late += stats.Late
			all.MaxLateness = max(all.MaxLateness, stats.MaxLateness)
			all.Jitter.Merge(stats.Jitter)
		})
	}
	wg.Wait()
	used := cpu(b) - before
	b.ReportMetric(float64(all.Gaps), "gaps")
	b.ReportMetric(float64(all.Jitter.Quantile(0.99))/1e6, "p99-ms")
	b.ReportMetric(float64(all.MaxLateness)/1e6, "max-ms")
	b.ReportMetric(100*float64(used)/float64(time.Since(start))/float64(boards), "%cpu/board")
}

// cpu is the processor time of the process.
func cpu(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
