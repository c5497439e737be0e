//go:build unix

package hub

import (
	"syscall"
	"time"
)

// mostProcessorTime is the maximum processor time of a request after its caller has left.
const mostProcessorTime = slowdown * 250 * time.Millisecond

// processorTime is the processor time of this process, independent of the load of the machine.
func processorTime() time.Duration {
	var r syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &r) != nil {
		return 0
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}
