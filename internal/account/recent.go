package account

import (
	"context"
	"slices"
	"sync"
	"time"

	"patchbay/internal/seal"
)

// recentLife is how long a good key is believed without a look into the
// database: a revoked key is refused within that time.
const recentLife = time.Second

// recentKeys bounds the table of keys that were good a moment ago. When it is
// full, the next ones are looked up each time until old ones are dropped.
const recentKeys = 10_000

// Recent authenticates keys that come many times a second, as those of programs
// that call tools do. It is safe for concurrent use.
type Recent struct {
	accounts *Service

	mu    sync.RWMutex
	good  map[string]recent // by hash
	swept time.Time
}

type recent struct {
	principal Principal
	at        time.Time
}

// NewRecent makes a table of keys that were good a moment ago.
func NewRecent(s *Service) *Recent {
	return &Recent{accounts: s, good: map[string]recent{}}
}

// Authenticate is [Service.Authenticate], at most a second old. It also returns the
// hash by which [Recent.Again] knows the key.
func (r *Recent) Authenticate(ctx context.Context, secret string, scopes ...string) (p Principal, hash string, err error) {
	if secret == "" {
		return Principal{}, "", ErrNoKey
	}
	hash = seal.Hash(secret)
	p, err = r.Again(ctx, hash, scopes...)
	return p, hash, err
}

// Again is Authenticate for a key that was good before, by its hash: is it still?
func (r *Recent) Again(ctx context.Context, hash string, scopes ...string) (Principal, error) {
	now := r.accounts.now()
	r.mu.RLock()
	have, ok := r.good[hash]
	r.mu.RUnlock()
	if ok && now.Sub(have.at) < recentLife && !have.expired(now) {
		if !slices.ContainsFunc(scopes, func(s string) bool { return slices.Contains(have.principal.Key.Scopes, s) }) {
			return Principal{}, ErrScope
		}
		return have.principal, nil
	}
	p, err := r.accounts.byHash(ctx, hash, scopes)
	if err == nil {
		r.remember(hash, recent{p, now})
	}
	return p, err
}

func (r recent) expired(now time.Time) bool {
	at := r.principal.Key.Expires
	return !at.IsZero() && !now.Before(at)
}

func (r *Recent) remember(hash string, k recent) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.good) >= recentKeys && k.at.Sub(r.swept) >= recentLife {
		r.swept = k.at
		for other, o := range r.good {
			if k.at.Sub(o.at) >= recentLife {
				delete(r.good, other)
			}
		}
	}
	if len(r.good) < recentKeys {
		r.good[hash] = k
	} else if _, ok := r.good[hash]; ok {
		r.good[hash] = k
	}
}

// Forget drops what was good a moment ago: the rights of somebody have changed.
func (r *Recent) Forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	clear(r.good)
}
