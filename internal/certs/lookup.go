package certs

import (
	"context"
	"sync"
	"time"

	"patchbay/internal/netx"
	"patchbay/internal/store"
)

const (
	// lookEvery is the least time between two looks for answers to challenges in the database.
	lookEvery = 50 * time.Millisecond
	// lookTime limits a look.
	lookTime = 5 * time.Second
)

// lookup reads the challenges of other instances from the database. Requests come from authorities
// and from strangers, which cannot be told apart. Requests that arrive before a query has begun
// share its result, so that strangers can neither overload the database nor use up a limit: an
// authority gets the result of the next query, however many strangers there are.
type lookup struct {
	read    func(context.Context) ([]store.ACMEChallenge, error)
	looking sync.Mutex // held by who looks
	last    time.Time  // when that was begun; guarded by looking

	mu   sync.Mutex
	next *look // that has not begun; nil: none
}

// look is one reading of the database.
type look struct {
	done  chan struct{}
	found []store.ACMEChallenge
	err   error
}

// all returns the answers that are stored now or later, but not before the call.
func (l *lookup) all(ctx context.Context) ([]store.ACMEChallenge, error) {
	l.mu.Lock()
	k, first := l.next, l.next == nil
	if first {
		k = &look{done: make(chan struct{})}
		l.next = k
	}
	l.mu.Unlock()
	if first {
		l.look(context.WithoutCancel(ctx), k) // others wait for it
	}
	select {
	case <-k.done:
		return k.found, k.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// look makes a look when the one before has ended and is long enough ago.
func (l *lookup) look(ctx context.Context, k *look) {
	defer close(k.done)
	l.looking.Lock()
	defer l.looking.Unlock()
	netx.Wait(ctx, lookEvery-time.Since(l.last)) //nolint:errcheck // it does not end
	l.mu.Lock()
	l.next = nil // later requests need a later query
	l.mu.Unlock()
	l.last = time.Now()
	ctx, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	k.found, k.err = l.read(ctx)
}
