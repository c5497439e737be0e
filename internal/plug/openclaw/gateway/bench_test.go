package gateway_test

import (
	"context"
	"encoding/json"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"patchbay/internal/plug/openclaw/gateway"
	"patchbay/internal/plug/openclaw/sim"
	"patchbay/internal/plug/openclaw/wire"
)

// BenchmarkInvoke measures calls of a command through the gateway, from a real operator socket to a
// real node socket and back, one after the other and 32 at a time. A command that only reads does
// not wait for its audit row.
func BenchmarkInvoke(b *testing.B) {
	answer := json.RawMessage(`{"content":[{"type":"text","text":"0123456789012345678901234567890"}]}`)
	for _, command := range []string{"mcp.tools.list", "mcp.tools.call"} {
		for _, at := range []int{1, 32} {
			b.Run(command+"/"+strconv.Itoa(at), func(b *testing.B) {
				r := newRig(b, func(o *gateway.Options) { o.Allow = []string{command}; o.Logger = nil })
				n := r.node(sim.Options{Commands: []string{command}, Serial: true,
					Handler: func(context.Context, string, json.RawMessage) (json.RawMessage, error) {
						return answer,
							nil
					}}, true)
				op := r.operator(r.token)
				measure(b, op.Client, n.ID(), command, at)
			})
		}
	}
}

func measure(b *testing.B, op *sim.Client, node, command string, at int) {
	var next atomic.Int64
	var mu sync.Mutex
	var took []time.Duration
	b.ReportAllocs()
	b.ResetTimer()
	var work sync.WaitGroup
	for range at {
		work.Go(func() {
			var own []time.Duration
			for {
				i := next.Add(1)
				if i > int64(b.N) {
					break
				}
				params := `{"nodeId":"` + node + `","command":"` + command +
					`","params":{"name":"self.audio_speaker.set_volume","arguments":{"volume":50}},"timeoutMs":5000,"idempotencyKey":"` +
					strconv.FormatInt(time.Now().UnixNano(), 36) + strconv.FormatInt(i, 36) + `"}`
				began := time.Now()
				if _, err := op.Request(context.Background(), wire.MethodNodeInvoke, []byte(params)); err != nil {
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
		b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-µs")
		b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-µs")
		b.ReportMetric(float64(len(took))/b.Elapsed().Seconds(), "calls/s")
	}
}
