// Package netx has what every connection and every retry loop needs: waits that end with a context,
// back-off, and which hosts are this machine.
package netx

import (
	"context"
	"math/rand/v2"
	"net/netip"
	"strings"
	"time"
)

// IsLoopback reports whether a host, without its port, is this machine: localhost or a loopback
// address, which may be in brackets. Names are not resolved.
func IsLoopback(host string) bool {
	if strings.EqualFold(host, "localhost") {
		return true
	}
	a, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return err == nil && a.IsLoopback()
}

// Wait waits for d. If ctx ends before, or has ended already, it returns [context.Cause] of ctx at
// once.
func Wait(ctx context.Context, d time.Duration) error {
	if !WaitUnless(ctx, nil, d) {
		return context.Cause(ctx)
	}
	return nil
}

// WaitUnless waits for d and returns true. If done is closed or ctx ends before, or already, it
// returns false at once. A nil done never ends the wait.
func WaitUnless(ctx context.Context, done <-chan struct{}, d time.Duration) bool {
	select {
	case <-done:
		return false
	case <-ctx.Done():
		return false
	default:
	}
	if d <= 0 {
		return true
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-done:
		return false
	case <-ctx.Done():
		return false
	}
}

// Jitter spreads delays, so that clients that lost the same server do not all return at once: a
// delay is multiplied by a random factor from From to To. The zero value changes nothing.
type Jitter struct{ From, To float64 }

// HalfJitter returns delays between half of the back-off and all of it.
var HalfJitter = Jitter{0.5, 1}

// Of returns a delay with jitter.
func (j Jitter) Of(d time.Duration) time.Duration {
	if j == (Jitter{}) {
		return d
	}
	return time.Duration(float64(d) * (j.From + (j.To-j.From)*rand.Float64()))
}

// noMax is the limit of a [Backoff] without one. It can be doubled.
const noMax = time.Duration(1) << 61

// Backoff computes the delays between attempts. It is exponential: the first delay is First, and
// each further one is twice as long, up to Max, or without limit if Max is 0. Jitter is applied to
// the result. Its methods are not safe for concurrent use.
type Backoff struct {
	First, Max time.Duration
	Jitter     Jitter

	doubled time.Duration // the next delay; 0: First
}

// Next returns the delay before the next attempt. Max may be changed between two calls.
func (b *Backoff) Next() time.Duration {
	limit := b.Max
	if limit <= 0 {
		limit = noMax
	}
	d := min(max(b.doubled, b.First), limit)
	b.doubled = 2 * d
	return b.Jitter.Of(d)
}

// Reset makes First the next delay again, after an attempt that succeeded.
func (b *Backoff) Reset() { b.doubled = 0 }
