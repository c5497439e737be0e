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
	good  map[string]recent // by hash of a secret, or id
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

// Authenticate is like [Service.Authenticate], with a result that may be one second old.
func (r *Recent) Authenticate(ctx context.Context, secret string, scopes ...string) (Principal, error) {
	if secret == "" {
		return Principal{}, ErrNoKey
	}
	hash := seal.Hash(secret)
	return r.recent(hash, scopes, func() (Principal, error) { return r.accounts.byHash(ctx, hash, scopes) })
}

// Recheck authenticates a key again by its id, with a result that may be one second old. Tokens of
// the key that have expired meanwhile do not matter.
func (r *Recent) Recheck(ctx context.Context, id string, scopes ...string) (Principal, error) {
	return r.recent(id, scopes, func() (Principal, error) {
		k, err := r.accounts.db.Keys.ByID(ctx, id)
		return r.accounts.principal(ctx, k, err, scopes)
	})
}

// recent returns what is remembered under a name, or looks it up.
func (r *Recent) recent(name string, scopes []string,
	lookUp func() (Principal, error)) (Principal, error) {
	now := r.accounts.now()
	r.mu.RLock()
	have, ok := r.good[name]
	r.mu.RUnlock()
	if ok && now.Sub(have.at) < recentTTL && !have.expired(now) {
		if !slices.ContainsFunc(scopes, func(s string) bool { return slices.Contains(have.principal.Key.Scopes, s) }) {
			return Principal{}, ErrScope
		}
		return have.principal, nil
	}
	p, err := lookUp()
	if err == nil {
		r.remember(name, recent{p, now})
	}
	return p, err
}

func (r recent) expired(now time.Time) bool {
	for _, at := range []time.Time{r.principal.Key.Expires, r.principal.Key.TokenExpires} {
		if !at.IsZero() && !now.Before(at) {
			return true
		}
	}
	return false
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
