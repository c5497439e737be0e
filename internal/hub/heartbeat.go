package hub

import (
	"sync"
	"time"
)

// Messages on the bus can get lost, even the end of an answer: a bus server that crashes loses
// what it has not forwarded. So the answering instance sends heartbeats while it works, and the
// waiting instance gives up when they stop.
const (
	// acceptTimeout is how long an asker waits for the first frame, and the interval at which it
	// checks that frames still arrive.
	acceptTimeout = 2 * time.Second
	// heartbeatInterval is the interval at which the answering instance sends heartbeats.
	heartbeatInterval = 2 * time.Second
	// maxSilentChecks is the number of checks in a row without a frame after which an answer
	// counts as lost. A person who waits must get a message within 10 s.
	maxSilentChecks = 4
)

// startHeartbeat calls say from another goroutine every heartbeatInterval until end is called.
// end waits for the last say to return.
func startHeartbeat(say func()) (end func()) {
	stop := make(chan struct{})
	var done sync.WaitGroup
	done.Go(func() {
		tick := time.NewTicker(heartbeatInterval)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				say()
			case <-stop:
				return
			}
		}
	})
	return func() {
		close(stop)
		done.Wait()
	}
}
