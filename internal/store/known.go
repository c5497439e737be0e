package store

import (
	"context"
	"errors"
	"sync"
	"time"
)

const (
	// knownFor is how long a row that was read is used while the database is away.
	knownFor = 5 * time.Minute
	// knownMost bounds the rows that are remembered. When there are more, all are forgotten.
	knownMost = 20_000
	// knownWait bounds the wait for a row that is remembered, and awayFor is how long the
	// database is not asked for such rows after that was too long, or after it failed.
	knownWait = time.Second
	awayFor   = time.Second
)

// known are the rows without which nobody can be answered, as they were read last: keys,
// people, bots, bindings. They are used only while the database is away, so that a short
// outage of PostgreSQL is not heard. With SQLite there is none: the file is here.
type known struct {
	mu   sync.Mutex
	rows map[knownKey]knownRow
	away time.Time // until then the database is not asked
	age  int       // how often everything was forgotten: what was read before is not kept after
}

type knownKey struct{ table, id string }

type knownRow struct {
	row any
	at  time.Time
}

// ForgetKnown forgets all rows that would be used while the database is away. It is called
// when somebody's rights have changed, also by another instance.
func (db *DB) ForgetKnown() {
	if db.known != nil {
		db.known.mu.Lock()
		defer db.known.mu.Unlock()
		clear(db.known.rows)
		db.known.age++
	}
}

// IsAway reports whether the database was away a moment ago, so that what can be done
// without it should be.
func (db *DB) IsAway() bool {
	if db.known == nil {
		return false
	}
	db.known.mu.Lock()
	defer db.known.mu.Unlock()
	return time.Now().Before(db.known.away)
}

// recall reads a row, and takes the one that it remembers if the database is away.
func recall[T any](ctx context.Context, db *DB, key knownKey, read func(context.Context) (T, error)) (T, error) {
	if db.known == nil {
		return read(ctx)
	}
	now := time.Now()
	row, age, away := db.known.find(key, now)
	if row != nil && away {
		return row.(T), nil
	}
	limited := ctx
	if row != nil {
		var cancel context.CancelFunc
		limited, cancel = context.WithTimeout(ctx, knownWait)
		defer cancel()
	}
	v, err := read(limited)
	switch {
	case err == nil:
		db.known.keep(key, v, now, age)
	case errors.Is(err, ErrNotFound):
		db.known.drop(key)
	case row != nil && ctx.Err() == nil && IsAway(err):
		db.known.isAway()
		return row.(T), nil
	}
	return v, err
}

// find returns a row, nil if it is not remembered, and what [known.keep] wants to know.
func (k *known) find(key knownKey, now time.Time) (row any, age int, away bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if r := k.rows[key]; now.Sub(r.at) < knownFor {
		row = r.row
	}
	return row, k.age, now.Before(k.away)
}

// keep remembers a row that was read at a time.
func (k *known) keep(key knownKey, row any, at time.Time, age int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if age != k.age {
		return
	}
	if len(k.rows) >= knownMost {
		clear(k.rows)
	}
	k.rows[key] = knownRow{row, at}
	k.away = time.Time{}
}

func (k *known) drop(key knownKey) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.rows, key)
}

func (k *known) isAway() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.away = time.Now().Add(awayFor)
}
