package store

import "context"

// ShimNodes accesses the persistent state of devices that are nodes at another gateway.
type ShimNodes struct{ db *DB }

// Get returns the sealed state of a device at an upstream, or [ErrNotFound].
func (t ShimNodes) Get(ctx context.Context, upstream int64, device string) (string, error) {
	return one(ctx, t.db, func(s scanner) (kept string, err error) { return kept, s.Scan(&kept) },
		`SELECT kept FROM shim_nodes WHERE upstream = $1 AND device = $2`, upstream, device)
}

// Save stores the sealed state of a device. It fails if the upstream has been removed.
func (t ShimNodes) Save(ctx context.Context, upstream int64, device, kept string) error {
	_, err := t.db.exec(ctx, `INSERT INTO shim_nodes (upstream, device, kept) VALUES ($1, $2, $3)
		ON CONFLICT (upstream, device) DO UPDATE SET kept = excluded.kept`, upstream, device, kept)
	return err
}
