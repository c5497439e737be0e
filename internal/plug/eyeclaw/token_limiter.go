package eyeclaw

import (
	"crypto/sha256"
	"sync"
	"time"
)

// Limits of bad tokens per window. A plugin whose token was replaced retries about four times in
// the first minute and twice in each later one, forever (back-off in sdk/src/websocket-client.ts;
// it ignores the reconnect flag). More attempts do not come from a plugin.
const (
	maxBadPerToken = 6
	maxBadPerIP    = 30
	// maxLimiterEntries limits each of the four tables: 4,096 entries of some 100 bytes.
	maxLimiterEntries = 4096
)

// unknownTokenTTL is how long the result that a token is unknown is cached.
const unknownTokenTTL = 5 * time.Second

// badTokenLimiter counts bad tokens by token and by address. Tokens are stored as hashes.
type badTokenLimiter struct {
	mu      sync.Mutex
	byToken windowCounter[[32]byte]
	byIP    windowCounter[string]
}

type badTokenEntry struct {
	lookedUpAt time.Time // time of the last lookup in the store
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

// badTokenResult is the result of recording a bad token.
type badTokenResult struct {
	first   bool // first of its address in this window
	before  int  // bad tokens of its address in the previous window
	tooMany bool
}

// record counts one bad or missing token.
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

// windowCounter counts per window and remembers the previous window. A full table begins a new
// window early, so somebody with thousands of addresses can lift the throttling, but nothing more.
type windowCounter[K comparable] struct {
	window   time.Duration
	since    time.Time
	current  map[K]badTokenEntry
	previous map[K]badTokenEntry
}

// find returns a key's entries of this window and of the previous one.
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
