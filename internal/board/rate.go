package board

import (
	"sync"
	"time"

	"golang.org/x/time/rate"

	"patchbay/internal/tool"
)

// rates bound how often keys, and bots, call tools. They count on each instance.
type rates struct {
	perMinute int // for those without a rule of their own; 0: any number

	mu    sync.Mutex
	each  map[payer]*bucket
	swept time.Time
}

// payer is whose calls are counted together: a key, a bot, or a person who comes
// through a door without a key.
type payer struct {
	key, door, person string
	bot               int64
}

type bucket struct {
	*rate.Limiter
	perMinute int
	used      time.Time
}

// allow counts a call and says whether it is one too many. Callers can save up a
// tenth of a minute's calls, ten at least.
func (r *rates) allow(who tool.Caller, perMinute int) bool {
	if perMinute == 0 {
		perMinute = r.perMinute
	}
	if perMinute == 0 {
		return true
	}
	by := payer{key: who.Key}
	switch {
	case who.Bot != 0:
		by = payer{bot: who.Bot}
	case who.Key == "":
		by = payer{door: who.Door, person: who.Person}
	}
	now := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	if now.Sub(r.swept) > time.Hour {
		r.swept = now
		for other, b := range r.each {
			if now.Sub(b.used) > time.Minute {
				delete(r.each, other) // it has everything saved up again
			}
		}
	}
	b := r.each[by]
	if b == nil || b.perMinute != perMinute {
		b = &bucket{rate.NewLimiter(rate.Limit(float64(perMinute)/60), max(perMinute/10, 10)), perMinute, now}
		r.each[by] = b
	}
	b.used = now
	return b.AllowN(now, 1)
}
