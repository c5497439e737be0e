package xiaozhi_test

import (
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"patchbay/internal/plug/xiaozhi"
)

// BenchmarkHome measures OTA requests of ten boards.
func BenchmarkHome(b *testing.B) {
	r := newRig(b, func(o *xiaozhi.DiscoveryOptions) { o.AutoOwner, o.CallsPerMinute = "me", 1<<40 })
	const boards = 10
	took := make([][]time.Duration, boards)
	var wg sync.WaitGroup
	for i := range boards {
		wg.Go(func() {
			h := headers(fmt.Sprintf("aa:bb:cc:dd:ee:%02x", i), uuid1)
			for range b.N/boards + 1 {
				begin := time.Now()
				if res := r.do(http.MethodPost, xiaozhi.OTAPath, h, full); res.status != http.StatusOK {
					b.Errorf("%d %s", res.status, res.body)
				}
				took[i] = append(took[i], time.Since(begin))
			}
		})
	}
	wg.Wait()
	all := slices.Sorted(slices.Values(slices.Concat(took...)))
	b.ReportMetric(float64(all[len(all)/2].Microseconds())/1000, "p50-ms")
	b.ReportMetric(float64(all[len(all)*95/100].Microseconds())/1000, "p95-ms")
}
