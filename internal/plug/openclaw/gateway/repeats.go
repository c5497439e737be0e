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
	// maxRepeats is how many calls of one person are remembered by their keys, and
	// maxRepeatsAll of all together.
	maxRepeats    = 1000
	maxRepeatsAll = 100_000
	// maxRepeated bounds an answer that is remembered, in bytes. A call that brought
	// more is carried out again.
	maxRepeated = 16 << 10
)

// repeats remembers what calls brought, so that an operator that has lost its
// connection can make them again without their being carried out twice.
type repeats struct {
	mu      sync.Mutex
	people  map[string]*remembered
	all     int
	sweeper time.Time
}

// remembered are the calls of one person, the oldest first.
type remembered struct {
	byKey map[string]*repeat
	order list.List
}

// repeat is a call that was made. What it brought is known when its done is closed.
type repeat struct {
	person, key string
	print       [sha256.Size]byte
	at          time.Time
	done        chan struct{} // nil until somebody waits
	over        bool
	place       *list.Element
	answer
}

// answer is what a call brought.
type answer struct {
	payload []byte
	err     *wire.Error
}

// otherCall is told who uses a key again for another call.
var otherCall = wire.Invalid("idempotencyKey was used for another call")

func (r *repeats) init() { r.people = map[string]*remembered{} }

// begin begins a call. If the same one was made, or is being made, it returns what
// that one brought; otherwise mine is to be given to end.
func (r *repeats) begin(ctx context.Context, person, key string, print [sha256.Size]byte) (mine *repeat, before *answer, e *wire.Error) {
	for {
		now := time.Now()
		r.mu.Lock()
		r.sweep(now)
		p := r.people[person]
		if p == nil {
			p = &remembered{byKey: map[string]*repeat{}}
			r.people[person] = p
		}
		was := p.byKey[key]
		if was == nil {
			for p.order.Len() >= maxRepeats || r.all >= maxRepeatsAll && p.order.Len() > 0 {
				r.forget(p.order.Front().Value.(*repeat))
			}
			mine = &repeat{person: person, key: key, print: print, at: now}
			mine.place = p.order.PushBack(mine)
			p.byKey[key] = mine
			r.people[person] = p // it was taken out if it was empty
			r.all++
			r.mu.Unlock()
			return mine, nil, nil
		}
		if was.print != print {
			r.mu.Unlock()
			return nil, nil, otherCall
		}
		if was.over {
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
			return nil, nil, ended(ctx)
		}
		r.mu.Lock()
		answer, known := was.answer, was.over
		r.mu.Unlock()
		if known {
			return nil, &answer, nil
		}
		// It was not carried out. So it is now.
	}
}

// end notes what a call brought. One that the node cannot have heard of is forgotten:
// making it again is what its key is for.
func (r *repeats) end(mine *repeat, payload []byte, e *wire.Error, sent bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	mine.over = sent && len(payload) <= maxRepeated
	if mine.over {
		mine.payload, mine.err = payload, e
		mine.at = time.Now()
	} else {
		r.forget(mine)
	}
	if mine.done != nil {
		mine.over = mine.over || sent // whoever waits gets even a long one
		mine.payload, mine.err = payload, e
		close(mine.done)
	}
}

// forget forgets a call. With mu held.
func (r *repeats) forget(was *repeat) {
	p := r.people[was.person]
	if p == nil || p.byKey[was.key] != was {
		return
	}
	delete(p.byKey, was.key)
	p.order.Remove(was.place)
	r.all--
	if p.order.Len() == 0 {
		delete(r.people, was.person)
	}
}

// sweep forgets what is old, now and then. With mu held.
func (r *repeats) sweep(now time.Time) {
	if now.Sub(r.sweeper) < wire.RunTTL/10 {
		return
	}
	r.sweeper = now
	for _, p := range r.people {
		for at := p.order.Front(); at != nil; {
			was, next := at.Value.(*repeat), at.Next()
			if now.Sub(was.at) > wire.RunTTL && was.over {
				r.forget(was)
			}
			at = next
		}
	}
}
