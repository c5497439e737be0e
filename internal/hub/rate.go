package hub

import (
	"sync"
	"time"

	"golang.org/x/time/rate"

	"patchbay/internal/tool"
)

// rates limits the calls of keys and bots. Each instance counts its own.
type rates struct {
	perMinute int // for callers without a rule of their own; 0: no limit

	mu      sync.Mutex
	buckets map[rateKey]*bucket
	sweptAt time.Time
}

// rateKey identifies callers that share a limit: a key, a bot, or a person on a channel without
// keys.
type rateKey struct {
	key, channel, person string
	bot                  int64
}

type bucket struct {
	*rate.Limiter
	perMinute int
	usedAt    time.Time
}

// allow counts a call and reports whether it is within the limit. Callers can save up a tenth of a
// minute's calls, at least ten.
func (r *rates) allow(who tool.Caller, perMinute int) bool {
	if perMinute == 0 {
		perMinute = r.perMinute
	}
	if perMinute == 0 {
		return true
	}
	by := rateKey{key: who.Key}
	switch {
	case who.Bot != 0:
		by = rateKey{bot: who.Bot}
	case who.Key == "":
		by = rateKey{channel: who.Channel, person: who.Person}
	}
	now := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	if now.Sub(r.sweptAt) > time.Hour {
		r.sweptAt = now
		for other, b := range r.buckets {
			if now.Sub(b.usedAt) > time.Minute {
				delete(r.buckets, other) // its budget is full again
			}
		}
	}
	b := r.buckets[by]
	if b == nil || b.perMinute != perMinute {
		b = &bucket{rate.NewLimiter(rate.Limit(float64(perMinute)/60), max(perMinute/10, 10)), perMinute, now}
		r.buckets[by] = b
	}
	b.usedAt = now
	return b.AllowN(now, 1)
}
