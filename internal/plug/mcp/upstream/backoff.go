package upstream

import (
	"context"
	"math/rand/v2"
	"time"
)

// stableAfter is how long a connection must last to reset the back-off.
const stableAfter = 30 * time.Second

// backoff computes the delays between connection attempts: each is twice as long, up to a limit,
// with random jitter, so that a restarted server is not flooded.
type backoff struct {
	minDelay, maxDelay, current time.Duration
}

func newBackoff(first, most time.Duration) *backoff {
	return &backoff{minDelay: first, maxDelay: most, current: first}
}

func (p *backoff) reset() { p.current = p.minDelay }

// next returns a random delay between half of the current back-off and all of it.
func (p *backoff) next() time.Duration {
	d := p.current
	p.current = min(2*p.current, p.maxDelay)
	return d/2 + rand.N(d/2+1)
}

// sleep waits for d. It returns false if ctx or ended ended first.
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
