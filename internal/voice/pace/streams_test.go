package pace

import (
	"fmt"
	"sync"
	"syscall"
	"testing"
	"time"
)

// BenchmarkStreams plays many streams at once, in real time, for ten seconds each. It reports how
// late the packets are and what a stream costs.
func BenchmarkStreams(b *testing.B) {
	for _, streams := range []int{1, 200, 1000} {
		b.Run(fmt.Sprint(streams), func(b *testing.B) {
			for b.Loop() {
				const frames = 167
				var mu sync.Mutex
				var all Stats
				var wg sync.WaitGroup
				before, start := cpu(b), time.Now()
				for i := range streams {
					wg.Go(func() {
						p := NewPlayer(Options{Tail: -1})
						// The starts are spread.
						h := Hooks{Send: func([]byte, time.Duration) error { return nil },
							NotBefore: start.Add(time.Duration(i) * 60 * ms / time.Duration(streams))}
						stats, err := p.Play(b.Context(), 0, &script{n: frames}, h)
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
				if all.Frames != streams*frames || all.Gaps > 0 {
					b.Errorf("%d packets, %d gaps", all.Frames, all.Gaps)
				}
				b.ReportMetric(float64(all.Jitter.Quantile(0.5))/1e6, "p50-ms")
				b.ReportMetric(float64(all.Jitter.Quantile(0.99))/1e6, "p99-ms")
				b.ReportMetric(float64(all.MaxLateness)/1e6, "max-ms")
				b.ReportMetric(100*float64(used)/float64(time.Since(start))/float64(streams), "%cpu/stream")
				b.ReportMetric(float64(used)/float64(all.Frames), "cpu-ns/packet")
			}
		})
	}
}

// cpu is the processor time of the process.
func cpu(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
