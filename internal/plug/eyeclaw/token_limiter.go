package eyeclaw

import (
	"crypto/sha256"
	"sync"
	"time"
)

// What bad tokens may do in one window. A plugin whose token was replaced tries
// about four times in the first minute and twice in each later one, for ever;
// whatever is above that is not a plugin.
const (
	maxBadPerToken = 6
	maxBadPerIP    = 30
	// maxLimiterEntries bounds each of the four tables: 4,096 entries of some 100 bytes.
	maxLimiterEntries = 4096
)

// unknownTokenTTL is how long an unknown token is believed to stay unknown.
const unknownTokenTTL = 5 * time.Second

// badTokenLimiter counts bad tokens by token and by address. Tokens are kept as hashes.
type badTokenLimiter struct {
	mu      sync.Mutex
	byToken windowCounter[[32]byte]
	byIP    windowCounter[string]
}

type badTokenEntry struct {
	lookedUpAt time.Time // when the store was last asked for it
	count      int
}

func newBadTokenLimiter(window time.Duration) *badTokenLimiter {
	return &badTokenLimiter{byToken: windowCounter[[32]byte]{window: window},
		byIP: windowCounter[string]{window: window}}
}

// isKnownBad reports whether the store did not know the token within [unknownTokenTTL], so that
// frequent retries do not reach the database each time. After false the caller asks the store.
func (s *badTokenLimiter) isKnownBad(token string) bool {
	key := sha256.Sum256([]byte(token))
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	k, before := s.byToken.find(key, now)
	if k.lookedUpAt.IsZero() {
		k.lookedUpAt = before.lookedUpAt
	}
	if k.lookedUpAt.IsZero() {
		return false
	}
	if now.Sub(k.lookedUpAt) < min(unknownTokenTTL, s.byToken.window) {
		return true
	}
	k.lookedUpAt = now
	s.byToken.current[key] = k
	return false
}

// badTokenResult is what follows from one more bad token.
type badTokenResult struct {
	first   bool // of its address in this window
	before  int  // bad tokens of its address in the window before
	tooMany bool
}

// record counts one bad (or missing) token.
func (s *badTokenLimiter) record(ip, token string) badTokenResult {
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	k, before := s.byIP.increment(ip, now)
	v := badTokenResult{first: k.count == 1, before: before.count, tooMany: k.count > maxBadPerIP}
	if token != "" {
		t, _ := s.byToken.increment(sha256.Sum256([]byte(token)), now)
		v.tooMany = v.tooMany || t.count > maxBadPerToken
	}
	return v
}

// windowCounter counts per window, and remembers the window before. When it is full a
// new window begins early: somebody with thousands of addresses can lift the
// throttling, nothing more.
type windowCounter[K comparable] struct {
	window   time.Duration
	since    time.Time
	current  map[K]badTokenEntry
	previous map[K]badTokenEntry
}

// find returns a key's entries of this window and of the one before.
func (l *windowCounter[K]) find(key K, now time.Time) (k, before badTokenEntry) {
	age := now.Sub(l.since)
	if l.current == nil || age > l.window || len(l.current) >= maxLimiterEntries {
		l.previous = l.current
		if age > 2*l.window {
			l.previous = nil
		}
		l.current, l.since = make(map[K]badTokenEntry), now
	}
	return l.current[key], l.previous[key]
}

// increment adds one to an entry.
func (l *windowCounter[K]) increment(key K, now time.Time) (k, before badTokenEntry) {
	k, before = l.find(key, now)
	if k.lookedUpAt.IsZero() {
		k.lookedUpAt = orDefault(before.lookedUpAt, now)
	}
	k.count++
	l.current[key] = k
	return k, before
}
