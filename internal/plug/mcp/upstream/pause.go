package upstream

import (
	"context"
	"math/rand/v2"
	"time"
)

// steady is how long a connection must have held for its end to count as the
// first misfortune again.
const steady = 30 * time.Second

// pause is how long to wait before the next try: twice as long each time, up to
// a limit, and a little different for everybody, so that a server that comes
// back is not run over.
type pause struct {
	first, most, now time.Duration
}

func newPause(first, most time.Duration) *pause {
	return &pause{first: first, most: most, now: first}
}

func (p *pause) reset() { p.now = p.first }

// next is between half of the present pause and all of it.
func (p *pause) next() time.Duration {
	d := p.now
	p.now = min(2*p.now, p.most)
	return d/2 + rand.N(d/2+1)
}

// sleep waits, and reports false if ctx or the other thing ended first.
func sleep(ctx context.Context, ended <-chan struct{}, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ended:
		return false
	case <-ctx.Done():
		return false
	}
}
