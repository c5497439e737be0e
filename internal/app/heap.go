package app

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
)

// heapStep is how much is allocated at least between two garbage collections. By itself the runtime
// waits until the heap has doubled: with the 10 MB of a small installation a collection ran at
// every thirtieth call of Learn, took 5 ms of two cores, and made the slowest calls slow. A heap
// that is larger than this doubles, as before.
const heapStep = 64 << 20

var relaxing sync.Once

// relaxCollector makes garbage collections wait for [heapStep], until the process ends, unless the
// environment sets GOGC. An idle server stays as small as it was: the runtime collects every two
// minutes, however little was allocated.
func relaxCollector() {
	if os.Getenv("GOGC") == "" {
		relaxing.Do(adjustCollector)
	}
}

// adjustCollector sets the growth until the next collection, and is called again after that.
func adjustCollector() {
	now := []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/gc/gogc:percent"}}
	metrics.Read(now)
	if percent := heapGrowth(now[0].Value.Uint64()); percent != now[1].Value.Uint64() {
		debug.SetGCPercent(int(percent))
	}
	runtime.AddCleanup(new(collected), func(struct{}) { adjustCollector() }, struct{}{})
}

// collected is garbage at once. Its cleanup runs after the next collection.
type collected struct{ _ [16]byte }

// heapGrowth returns by how many percent the heap grows until the next collection, given its live
// bytes, as a multiple of ten: setting another one stops all goroutines for a moment.
func heapGrowth(live uint64) uint64 {
	return max(100, min(1500, heapStep*10/max(live, 1)*10))
}
