package gateway

import (
	"container/list"
	"context"
	"crypto/sha256"
	"sync"
	"time"

	"patchbay/internal/plug/openclaw/wire"
)

const (
	// maxCachedCalls limits the calls remembered by idempotency key per person, and
	// maxCachedCallsTotal overall.
	maxCachedCalls      = 1000
	maxCachedCallsTotal = 100_000
	// maxCachedAnswer limits a remembered response, in bytes. A call with a larger one is
	// executed again.
	maxCachedAnswer = 16 << 10
)

// invokeCache remembers the results of calls, so that an operator that lost its connection can
// repeat them without a second execution.
type invokeCache struct {
	mu       sync.Mutex
	byPerson map[string]*personCalls
	total    int
	sweptAt  time.Time
}

// personCalls are the calls of one person, oldest first.
type personCalls struct {
	byKey map[string]*cachedCall
	order list.List
}

// cachedCall is one call. Its result is set when done is closed.
type cachedCall struct {
	person, key string
	fingerprint [sha256.Size]byte
	at          time.Time
	done        chan struct{} // nil until somebody waits
	complete    bool
	element     *list.Element
	answer
}

// answer is the result of a call.
type answer struct {
	payload []byte
	err     *wire.Error
}

// errKeyReused means that an idempotency key was used for another call.
var errKeyReused = wire.Invalid("idempotencyKey was used for another call")

func (r *invokeCache) init() { r.byPerson = map[string]*personCalls{} }

// begin starts a call. If the same call was made or is running, it returns that call's result;
// otherwise the caller must pass mine to end.
func (r *invokeCache) begin(ctx context.Context, person, key string,
	fingerprint [sha256.Size]byte) (mine *cachedCall, before *answer, e *wire.Error) {
	for {
		now := time.Now()
		r.mu.Lock()
		r.sweep(now)
		p := r.byPerson[person]
		if p == nil {
			p = &personCalls{byKey: map[string]*cachedCall{}}
			r.byPerson[person] = p
		}
		was := p.byKey[key]
		if was == nil {
			for p.order.Len() >= maxCachedCalls || r.total >= maxCachedCallsTotal && p.order.Len() > 0 {
				r.forget(p.order.Front().Value.(*cachedCall))
			}
			mine = &cachedCall{person: person, key: key, fingerprint: fingerprint, at: now}
			mine.element = p.order.PushBack(mine)
			p.byKey[key] = mine
			r.byPerson[person] = p // removed when it was empty
			r.total++
			r.mu.Unlock()
			return mine, nil, nil
		}
		if was.fingerprint != fingerprint {
			r.mu.Unlock()
			return nil, nil, errKeyReused
		}
		if was.complete {
			answer := was.answer
			r.mu.Unlock()
			return nil, &answer, nil
		}
		if was.done == nil {
			was.done = make(chan struct{})
		}
		done := was.done
		r.mu.Unlock()
		select {
		case <-done:
		case <-ctx.Done():
			return nil, nil, contextError(ctx)
		}
		r.mu.Lock()
		answer, known := was.answer, was.complete
		r.mu.Unlock()
		if known {
			return nil, &answer, nil
		}
		// The earlier call was not sent. Execute it now.
	}
}

// end stores the result of a call. A call that the node cannot have received is forgotten, so
// that it can be repeated.
func (r *invokeCache) end(mine *cachedCall, payload []byte, e *wire.Error, sent bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	mine.complete = sent && len(payload) <= maxCachedAnswer
	if mine.complete {
		mine.payload, mine.err = payload, e
		mine.at = time.Now()
	} else {
		r.forget(mine)
	}
	if mine.done != nil {
		mine.complete = mine.complete || sent // waiting callers get even an oversized result
		mine.payload, mine.err = payload, e
		close(mine.done)
	}
}

// forget removes a call. The caller holds mu.
func (r *invokeCache) forget(was *cachedCall) {
	p := r.byPerson[was.person]
	if p == nil || p.byKey[was.key] != was {
		return
	}
	delete(p.byKey, was.key)
	p.order.Remove(was.element)
	r.total--
	if p.order.Len() == 0 {
		delete(r.byPerson, was.person)
	}
}

// sweep removes old calls at intervals. The caller holds mu.
func (r *invokeCache) sweep(now time.Time) {
	if now.Sub(r.sweptAt) < wire.RunTTL/10 {
		return
	}
	r.sweptAt = now
	for _, p := range r.byPerson {
		for at := p.order.Front(); at != nil; {
			was, next := at.Value.(*cachedCall), at.Next()
			if now.Sub(was.at) > wire.RunTTL && was.complete {
				r.forget(was)
			}
			at = next
		}
	}
}
