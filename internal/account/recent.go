package account

import (
	"context"
	"slices"
	"sync"
	"time"

	"patchbay/internal/seal"
)

// recentTTL is how long a valid key is accepted without a database lookup. A revoked key is refused
// within that time.
const recentTTL = time.Second

// maxRecentKeys bounds the cache. When it is full, further keys are looked up each time until old
// entries are dropped.
const maxRecentKeys = 10_000

// Recent caches the authentication of keys that are used many times a second, such as those of
// programs that call tools. It is safe for concurrent use.
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

// NewRecent returns an empty cache.
func NewRecent(s *Service) *Recent {
	return &Recent{accounts: s, good: map[string]recent{}}
}

// Authenticate is like [Service.Authenticate], with a result that may be one second old. It also
// returns the hash of the key for [Recent.Recheck].
func (r *Recent) Authenticate(ctx context.Context, secret string,
	scopes ...string) (p Principal, hash string, err error) {
	if secret == "" {
		return Principal{}, "", ErrNoKey
	}
	hash = seal.Hash(secret)
	p, err = r.Recheck(ctx, hash, scopes...)
	return p, hash, err
}

// Recheck authenticates a key again by its hash.
func (r *Recent) Recheck(ctx context.Context, hash string, scopes ...string) (Principal, error) {
	now := r.accounts.now()
	r.mu.RLock()
	have, ok := r.good[hash]
	r.mu.RUnlock()
	if ok && now.Sub(have.at) < recentTTL && !have.expired(now) {
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
	if len(r.good) >= maxRecentKeys && k.at.Sub(r.swept) >= recentTTL {
		r.swept = k.at
		for other, o := range r.good {
			if k.at.Sub(o.at) >= recentTTL {
				delete(r.good, other)
			}
		}
	}
	if len(r.good) < maxRecentKeys {
		r.good[hash] = k
	} else if _, ok := r.good[hash]; ok {
		r.good[hash] = k
	}
}

// Forget clears the cache, because somebody's rights have changed.
func (r *Recent) Forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	clear(r.good)
}
