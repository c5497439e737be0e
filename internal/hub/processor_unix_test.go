//go:build unix

package hub

import (
	"syscall"
	"time"
)

// mostProcessorTime is what a request may use of the processor after its caller has left.
const mostProcessorTime = slowdown * 250 * time.Millisecond

// processorTime is what this process has used, however busy the machine is.
func processorTime() time.Duration {
	var r syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &r) != nil {
		return 0
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}
