package hub

import (
	"sync"
	"time"
)

// epochs number the connections of devices and bots, so that all instances agree which of
// two is the newer. It is a hybrid logical clock: milliseconds of the wall clock, and always
// higher than any number that this instance has made or received. So a device that moves to
// another instance gets a higher number there, also if the clocks of the two differ, unless
// the first connection was made while the instances could not hear each other.
type epochs struct {
	mu   sync.Mutex
	last int64
}

// next returns the number of a new connection.
func (e *epochs) next() int64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.last = max(e.last+1, time.Now().UnixMilli())
	return e.last
}

// observe advances the clock to a number that another instance has made.
func (e *epochs) observe(epoch int64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.last = max(e.last, epoch)
}
