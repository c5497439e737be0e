package store

import (
	"context"
	"database/sql"
	"time"
)

// PeerToken is a token with which a peer connects in one role. Only its hash is stored.
type PeerToken struct {
	Peer    string    `json:"peer"`
	Role    string    `json:"role"`
	Hash    string    `json:"-"`
	Scopes  []string  `json:"scopes"`
	Created time.Time `json:"created_at"`
	Used    time.Time `json:"last_used_at,omitzero"`
}

const peerTokenColumns = `peer, role, hash, scopes, created_at, used_at`

func readPeerToken(s scanner) (k PeerToken, err error) {
	var (
		created int64
		used    sql.NullInt64
	)
	err = s.Scan(&k.Peer, &k.Role, &k.Hash, jsonList{&k.Scopes}, &created, &used)
	k.Created, k.Used = fromMillis(created), fromNullMillis(used)
	return k, err
}

// SetToken stores the token of a peer, as it was read, for a role, and replaces the previous one.
// The creation time of an identical token does not change. It returns [ErrNotFound] if the peer is
// gone or its secret version has changed.
func (t Peers) SetToken(ctx context.Context, p Peer, k PeerToken) (kept PeerToken, err error) {
	err = t.db.tx(ctx, func(tx *sql.Tx) error {
		var id string
		if err := tx.QueryRowContext(ctx, t.db.locking(`SELECT id FROM peers WHERE id = $1 AND secret_version = $2`,
			"FOR NO KEY UPDATE"),
			p.ID, p.SecretVersion).Scan(&id); err != nil {
			return err
		}
		var err error
		kept, err = readPeerToken(tx.QueryRowContext(ctx,
			`INSERT INTO peer_tokens (peer, role, hash, scopes, created_at) VALUES ($1, $2, $3, $4, $5)
			ON CONFLICT (peer, role) DO UPDATE SET hash = excluded.hash, scopes = excluded.scopes,
				created_at = CASE WHEN peer_tokens.hash = excluded.hash THEN peer_tokens.created_at ELSE excluded.created_at END
			RETURNING `+peerTokenColumns, p.ID, k.Role, k.Hash, encodeList(sortedUnique(k.Scopes)), millis(k.Created)))
		return err
	})
	return kept, err
}

// Token returns the token of a peer for a role.
func (t Peers) Token(ctx context.Context, peer, role string) (PeerToken, error) {
	return one(ctx, t.db, readPeerToken, `SELECT `+peerTokenColumns+` FROM peer_tokens WHERE peer = $1 AND role = $2`,
		peer, role)
}

// Tokens lists a peer's tokens by role.
func (t Peers) Tokens(ctx context.Context, peer string) ([]PeerToken, error) {
	return all(ctx, t.db, readPeerToken, `SELECT `+peerTokenColumns+` FROM peer_tokens WHERE peer = $1 ORDER BY role`,
		peer)
}

// MarkTokenUsed records when a token was last used, to the minute: a use less than a minute after
// the recorded one is not written.
func (t Peers) MarkTokenUsed(ctx context.Context, peer, role string, at time.Time) error {
	return t.db.commits.commit(ctx, func(ctx context.Context, tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx,
			`UPDATE peer_tokens SET used_at = $1 WHERE peer = $2 AND role = $3 AND (used_at IS NULL OR used_at < $4)`,
			millis(at), peer, role, millis(at.Add(-time.Minute)))
		return err
	})
}

// Rotate invalidates all tokens of a peer.
func (t Peers) Rotate(ctx context.Context, id string) error {
	return t.change(ctx, func(tx *sql.Tx) error {
		version, err := nextPeerSecret(ctx, tx)
		if err != nil {
			return err
		}
		if err := changed(tx.ExecContext(ctx, `UPDATE peers SET secret_version = $1 WHERE id = $2`, version,
			id)); err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, `DELETE FROM peer_tokens WHERE peer = $1`, id)
		return err
	})
}

// nextPeerSecret returns a secret version that no peer ever had.
func nextPeerSecret(ctx context.Context, tx *sql.Tx) (version int64, err error) {
	err = tx.QueryRowContext(ctx, `UPDATE counters SET value = value + 1 WHERE name = 'peer_secret' RETURNING value`).
		Scan(&version)
	return version, err
}
