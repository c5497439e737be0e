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
	maxTokenStrikes = 6
	maxIPStrikes    = 30
	// maxStruck bounds each of the four tables: 4,096 entries of some 100 bytes.
	maxStruck = 4096
)

// negative is how long an unknown token is believed to stay unknown.
const negative = 5 * time.Second

// strikes counts bad tokens by token and by address. Tokens are kept as hashes.
type strikes struct {
	mu      sync.Mutex
	byToken ledger[[32]byte]
	byIP    ledger[string]
}

type strike struct {
	asked time.Time // when the store was last asked for it
	count int
}

func newStrikes(window time.Duration) *strikes {
	return &strikes{byToken: ledger[[32]byte]{window: window}, byIP: ledger[string]{window: window}}
}

// known says that the store said "nobody" to the token a moment ago, so that a
// client that hammers does not reach the database each time. After false the
// caller asks the store.
func (s *strikes) known(token string) bool {
	key := sha256.Sum256([]byte(token))
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	k, before := s.byToken.find(key, now)
	if k.asked.IsZero() {
		k.asked = before.asked
	}
	if k.asked.IsZero() {
		return false
	}
	if now.Sub(k.asked) < min(negative, s.byToken.window) {
		return true
	}
	k.asked = now
	s.byToken.now[key] = k
	return false
}

// verdict is what follows from one more bad token.
type verdict struct {
	first   bool // of its address in this window
	before  int  // bad tokens of its address in the window before
	tooMany bool
}

// strike counts one bad (or missing) token.
func (s *strikes) strike(ip, token string) verdict {
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	k, before := s.byIP.bump(ip, now)
	v := verdict{first: k.count == 1, before: before.count, tooMany: k.count > maxIPStrikes}
	if token != "" {
		t, _ := s.byToken.bump(sha256.Sum256([]byte(token)), now)
		v.tooMany = v.tooMany || t.count > maxTokenStrikes
	}
	return v
}

// ledger counts per window, and remembers the window before. When it is full a
// new window begins early: somebody with thousands of addresses can lift the
// throttling, nothing more.
type ledger[K comparable] struct {
	window time.Duration
	since  time.Time
	now    map[K]strike
	before map[K]strike
}

// find reads an entry of this window and of the one before.
func (l *ledger[K]) find(key K, now time.Time) (k, before strike) {
	age := now.Sub(l.since)
	if l.now == nil || age > l.window || len(l.now) >= maxStruck {
		l.before = l.now
		if age > 2*l.window {
			l.before = nil
		}
		l.now, l.since = make(map[K]strike), now
	}
	return l.now[key], l.before[key]
}

// bump adds one to an entry.
func (l *ledger[K]) bump(key K, now time.Time) (k, before strike) {
	k, before = l.find(key, now)
	if k.asked.IsZero() {
		k.asked = or(before.asked, now)
	}
	k.count++
	l.now[key] = k
	return k, before
}
