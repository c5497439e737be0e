package store

import (
	"context"
	"database/sql"
	"time"
)

// PeerToken is a token with which a peer connects in one role. The token itself is
// not kept.
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
	err = s.Scan(&k.Peer, &k.Role, &k.Hash, listed{&k.Scopes}, &created, &used)
	k.Created, k.Used = fromMillis(created), fromMaybe(used)
	return k, err
}

// SetToken keeps the token of a peer, as it was read, for a role; another one for
// that role ends. The time of one that is the same stays what it was. [ErrNotFound]
// says that the peer is gone, or has another secret version by now.
func (t Peers) SetToken(ctx context.Context, p Peer, k PeerToken) (kept PeerToken, err error) {
	err = t.db.tx(ctx, func(tx *sql.Tx) error {
		var id string
		if err := tx.QueryRowContext(ctx, t.db.locking(`SELECT id FROM peers WHERE id = $1 AND secret_version = $2`, "FOR NO KEY UPDATE"),
			p.ID, p.SecretVersion).Scan(&id); err != nil {
			return err
		}
		var err error
		kept, err = readPeerToken(tx.QueryRowContext(ctx, `INSERT INTO peer_tokens (peer, role, hash, scopes, created_at) VALUES ($1, $2, $3, $4, $5)
			ON CONFLICT (peer, role) DO UPDATE SET hash = excluded.hash, scopes = excluded.scopes,
				created_at = CASE WHEN peer_tokens.hash = excluded.hash THEN peer_tokens.created_at ELSE excluded.created_at END
			RETURNING `+peerTokenColumns, p.ID, k.Role, k.Hash, asList(sorted(k.Scopes)), millis(k.Created)))
		return err
	})
	return kept, err
}

// Token is what is kept of the token of a peer for a role.
func (t Peers) Token(ctx context.Context, peer, role string) (PeerToken, error) {
	return one(ctx, t.db, readPeerToken, `SELECT `+peerTokenColumns+` FROM peer_tokens WHERE peer = $1 AND role = $2`, peer, role)
}

// Tokens lists what is kept of a peer's tokens, by role.
func (t Peers) Tokens(ctx context.Context, peer string) ([]PeerToken, error) {
	return all(ctx, t.db, readPeerToken, `SELECT `+peerTokenColumns+` FROM peer_tokens WHERE peer = $1 ORDER BY role`, peer)
}

// TokenByHash finds the token of this hash.
func (t Peers) TokenByHash(ctx context.Context, hash string) (PeerToken, error) {
	return one(ctx, t.db, readPeerToken, `SELECT `+peerTokenColumns+` FROM peer_tokens WHERE hash = $1`, hash)
}

// MarkTokenUsed notes when a token was last used, to the minute: a use less than a
// minute after the noted one is not written.
func (t Peers) MarkTokenUsed(ctx context.Context, peer, role string, at time.Time) error {
	return t.db.commits.commit(ctx, func(ctx context.Context, tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `UPDATE peer_tokens SET used_at = $1 WHERE peer = $2 AND role = $3 AND (used_at IS NULL OR used_at < $4)`,
			millis(at), peer, role, millis(at.Add(-time.Minute)))
		return err
	})
}

// Rotate ends all tokens of a peer.
func (t Peers) Rotate(ctx context.Context, id string) error {
	return t.change(ctx, func(tx *sql.Tx) error {
		version, err := nextPeerSecret(ctx, tx)
		if err != nil {
			return err
		}
		if err := changed(tx.ExecContext(ctx, `UPDATE peers SET secret_version = $1 WHERE id = $2`, version, id)); err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, `DELETE FROM peer_tokens WHERE peer = $1`, id)
		return err
	})
}

// nextPeerSecret is a secret version that no peer ever had.
func nextPeerSecret(ctx context.Context, tx *sql.Tx) (version int64, err error) {
	err = tx.QueryRowContext(ctx, `UPDATE counters SET value = value + 1 WHERE name = 'peer_secret' RETURNING value`).Scan(&version)
	return version, err
}
