package store

import "context"

// ShimNodes is the table of what nodes at somebody else's gateway must not lose.
type ShimNodes struct{ db *DB }

// Get returns what was kept for a device at an upstream, sealed; [ErrNotFound] if
// there is nothing.
func (t ShimNodes) Get(ctx context.Context, upstream int64, device string) (string, error) {
	return one(ctx, t.db, func(s scanner) (kept string, err error) { return kept, s.Scan(&kept) },
		`SELECT kept FROM shim_nodes WHERE upstream = $1 AND device = $2`, upstream, device)
}

// Save keeps it. An upstream that was removed meanwhile is an error.
func (t ShimNodes) Save(ctx context.Context, upstream int64, device, kept string) error {
	_, err := t.db.exec(ctx, `INSERT INTO shim_nodes (upstream, device, kept) VALUES ($1, $2, $3)
		ON CONFLICT (upstream, device) DO UPDATE SET kept = excluded.kept`, upstream, device, kept)
	return err
}
