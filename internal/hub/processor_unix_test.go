//go:build unix

package hub

import (
	"bytes"
	"encoding/json"
	"strings"
	"syscall"
	"testing"
	"time"
)

// mostProcessorTime is the maximum processor time of what one request costs, on the machine whose
// referenceTime is below.
const mostProcessorTime = 50 * time.Millisecond

// processorTime is the processor time of this process, independent of the load of the machine.
func processorTime() time.Duration {
	var r syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &r) != nil {
		return 0
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

// referenceTime is the processor time of the reference work.
const referenceTime = 4 * time.Millisecond

var referenceText = []byte("[" + strings.Repeat(`{"a":[1234,"text",null]},`, 5000) + "0]")

// slowness returns how much slower this machine is now, with the race detector or without, than the
// one on which the limits were set; at least 1.
func slowness() float64 {
	used := leastTime(5, func() {
		dec := json.NewDecoder(bytes.NewReader(referenceText))
		dec.UseNumber()
		var v any
		_ = dec.Decode(&v) // it is valid
	})
	return max(1, float64(used)/float64(referenceTime))
}

// leastTime returns the least processor time of several runs: others include work of the garbage
// collector for something else.
func leastTime(runs int, f func()) time.Duration {
	least := time.Duration(0)
	for i := range runs {
		before := processorTime()
		f()
		if used := processorTime() - before; i == 0 || used < least {
			least = used
		}
	}
	return least
}

// wantCheap fails a test if f, which can be repeated, takes too much processor time.
func wantCheap(t *testing.T, what string, f func()) {
	t.Helper()
	used := leastTime(1, f)
	if used > mostProcessorTime {
		used = leastTime(5, f) // other tests run beside it
	}
	t.Logf("%s took %v", what, used)
	if used <= mostProcessorTime {
		return
	}
	if limit := time.Duration(slowdown * slowness() * float64(mostProcessorTime)); used > limit {
		t.Errorf("%s took %v of the processor, more than %v", what, used, limit)
	}
}
