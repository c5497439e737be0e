package store

import "context"

// RelayLinks accesses what is remembered of relays, by their address.
type RelayLinks struct{ db *DB }

// Get returns what is remembered of a relay, or [ErrNotFound].
func (t RelayLinks) Get(ctx context.Context, server string) (string, error) {
	return one(ctx, t.db, func(s scanner) (kept string, err error) { return kept, s.Scan(&kept) },
		`SELECT kept FROM relay_links WHERE server = $1`, server)
}

// Begin stores the first memory of a relay, unless another instance was faster, and returns what is
// stored then.
func (t RelayLinks) Begin(ctx context.Context, server, kept string) (string, error) {
	_, err := t.db.exec(ctx, `INSERT INTO relay_links (server, kept) VALUES ($1, $2)
		ON CONFLICT (server) DO NOTHING`, server, kept)
	if err != nil {
		return "", err
	}
	return t.Get(ctx, server)
}

// Save replaces what is remembered of a relay.
func (t RelayLinks) Save(ctx context.Context, server, kept string) error {
	return t.db.execOne(ctx, `UPDATE relay_links SET kept = $2 WHERE server = $1`, server, kept)
}
