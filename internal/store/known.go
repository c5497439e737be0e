package store

import (
	"context"
	"errors"
	"sync"
	"time"
)

const (
	// cacheTTL is how long a cached row is used while the database is away.
	cacheTTL = 5 * time.Minute
	// maxCachedRows limits the cached rows. When it is reached, the cache is cleared.
	maxCachedRows = 20_000
	// cachedReadTimeout limits the read of a row that is cached, and awayPeriod is how long the
	// database is not queried for cached rows after such a read timed out or failed.
	cachedReadTimeout = time.Second
	awayPeriod        = time.Second
)

// rowCache holds the last read keys, people, bots and bindings, which every turn needs. They are
// used only while the database is away, so that a short outage of PostgreSQL goes unnoticed. SQLite
// needs no cache: its file is local.
type rowCache struct {
	mu         sync.Mutex
	rows       map[cacheKey]cachedRow
	awayUntil  time.Time // until then cached rows are used without a query
	generation int       // incremented when the cache is cleared; older reads are not stored after that
}

type cacheKey struct{ table, id string }

type cachedRow struct {
	row any
	at  time.Time
}

// ClearRowCache drops all cached rows. Call it when access rights have changed, also on another
// instance.
func (db *DB) ClearRowCache() {
	if db.rowCache != nil {
		db.rowCache.mu.Lock()
		defer db.rowCache.mu.Unlock()
		clear(db.rowCache.rows)
		db.rowCache.generation++
	}
}

// IsAway reports whether the database was away a moment ago, so that optional queries should be
// avoided.
func (db *DB) IsAway() bool {
	if db.rowCache == nil {
		return false
	}
	db.rowCache.mu.Lock()
	defer db.rowCache.mu.Unlock()
	return time.Now().Before(db.rowCache.awayUntil)
}

// readCached reads a row, and returns the cached one if the database is away.
func readCached[T any](ctx context.Context, db *DB, key cacheKey, read func(context.Context) (T, error)) (T, error) {
	if db.rowCache == nil {
		return read(ctx)
	}
	now := time.Now()
	row, age, away := db.rowCache.find(key, now)
	if row != nil && away {
		return row.(T), nil
	}
	limited := ctx
	if row != nil {
		var cancel context.CancelFunc
		limited, cancel = context.WithTimeout(ctx, cachedReadTimeout)
		defer cancel()
	}
	v, err := read(limited)
	switch {
	case err == nil:
		db.rowCache.put(key, v, now, age)
	case errors.Is(err, ErrNotFound):
		db.rowCache.drop(key)
	case row != nil && ctx.Err() == nil && IsAway(err):
		db.rowCache.markAway()
		return row.(T), nil
	}
	return v, err
}

// find returns the cached row or nil, the current generation for [rowCache.put], and whether the
// database is considered away.
func (k *rowCache) find(key cacheKey, now time.Time) (row any, age int, away bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if r := k.rows[key]; now.Sub(r.at) < cacheTTL {
		row = r.row
	}
	return row, k.generation, now.Before(k.awayUntil)
}

// put caches a row that was read at a time, unless the cache has been cleared since.
func (k *rowCache) put(key cacheKey, row any, at time.Time, age int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if age != k.generation {
		return
	}
	if len(k.rows) >= maxCachedRows {
		clear(k.rows)
	}
	k.rows[key] = cachedRow{row, at}
	k.awayUntil = time.Time{}
}

func (k *rowCache) drop(key cacheKey) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.rows, key)
}

func (k *rowCache) markAway() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.awayUntil = time.Now().Add(awayPeriod)
}
