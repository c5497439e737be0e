package hub

import (
	"sync"
	"time"

	"golang.org/x/time/rate"

	"patchbay/internal/tool"
)

// rates bound how often keys, and bots, call tools. They count on each instance.
type rates struct {
	perMinute int // for those without a rule of their own; 0: any number

	mu      sync.Mutex
	buckets map[rateKey]*bucket
	sweptAt time.Time
}

// rateKey is whose calls are counted together: a key, a bot, or a person who comes
// through a channel without a key.
type rateKey struct {
	key, channel, person string
	bot                  int64
}

type bucket struct {
	*rate.Limiter
	perMinute int
	usedAt    time.Time
}

// allow counts a call and reports whether it is one too many. Callers can save up a
// tenth of a minute's calls, ten at least.
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
				delete(r.buckets, other) // it has everything saved up again
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
