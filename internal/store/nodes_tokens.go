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
	Revoked time.Time `json:"revoked_at,omitzero"`
	// Key is the id of the key that the peer got the token with; empty: an invitation.
	Key string `json:"-"`
	// Version is part of the token. It is 0 until the token is replaced or revoked.
	Version int64 `json:"-"`
}

const peerTokenColumns = `peer, role, hash, scopes, created_at, used_at, revoked_at, key, version`

func readPeerToken(s scanner) (k PeerToken, err error) {
	var (
		created       int64
		used, revoked sql.NullInt64
	)
	err = s.Scan(&k.Peer, &k.Role, &k.Hash, jsonList{&k.Scopes}, &created, &used, &revoked, &k.Key, &k.Version)
	k.Created, k.Used, k.Revoked = fromMillis(created), fromNullMillis(used), fromNullMillis(revoked)
	return k, err
}

// SetToken stores the token of a peer, as it was read, for a role, and replaces the previous one.
// The creation time of an identical token does not change. It returns [ErrNotFound] if the peer is
// gone or its secret version has changed.
func (t Peers) SetToken(ctx context.Context, p Peer, k PeerToken) (kept PeerToken, err error) {
	err = t.db.tx(ctx, func(tx *sql.Tx) (err error) {
		kept, err = t.setToken(ctx, tx, p, k)
		return err
	})
	return kept, err
}

// ReplaceToken is [Peers.SetToken] for a token in place of one that others may hold.
func (t Peers) ReplaceToken(ctx context.Context, p Peer, k PeerToken) (kept PeerToken, err error) {
	err = t.change(ctx, func(tx *sql.Tx) (err error) {
		if kept, err = t.setToken(ctx, tx, p, k); err == nil {
			err = noteTokenChange(ctx, tx, p.ID)
		}
		return err
	})
	return kept, err
}

func (t Peers) setToken(ctx context.Context, tx *sql.Tx, p Peer, k PeerToken) (PeerToken, error) {
	var id string
	if err := tx.QueryRowContext(ctx, t.db.locking(`SELECT id FROM peers WHERE id = $1 AND secret_version = $2`,
		"FOR NO KEY UPDATE"), p.ID, p.SecretVersion).Scan(&id); err != nil {
		return PeerToken{}, err
	}
	return readPeerToken(tx.QueryRowContext(ctx,
		`INSERT INTO peer_tokens (peer, role, hash, scopes, created_at, key, version) VALUES ($1, $2, $3, $4, $5, $6, $7)
		ON CONFLICT (peer, role) DO UPDATE SET hash = excluded.hash, scopes = excluded.scopes,
			created_at = CASE WHEN peer_tokens.hash = excluded.hash THEN peer_tokens.created_at ELSE excluded.created_at END,
			revoked_at = NULL, key = excluded.key, version = excluded.version
		RETURNING `+peerTokenColumns, p.ID, k.Role, k.Hash, encodeList(sortedUnique(k.Scopes)), millis(k.Created),
		k.Key, k.Version))
}

// RevokeToken ends the token of a peer for a role. It returns [ErrNotFound] if there is none that
// is valid.
func (t Peers) RevokeToken(ctx context.Context, peer, role string, at time.Time) error {
	return t.change(ctx, func(tx *sql.Tx) error {
		if err := changed(tx.ExecContext(ctx, `UPDATE peer_tokens SET revoked_at = $1
			WHERE peer = $2 AND role = $3 AND revoked_at IS NULL`, millis(at), peer, role)); err != nil {
			return err
		}
		return noteTokenChange(ctx, tx, peer)
	})
}

// noteTokenChange lets instances with connections of a peer notice that a token has ended.
func noteTokenChange(ctx context.Context, tx *sql.Tx, peer string) error {
	_, err := tx.ExecContext(ctx, `UPDATE peers SET token_changes = token_changes + 1 WHERE id = $1`, peer)
	return err
}

// NextTokenVersion returns a version for a token that none had before.
func (t Peers) NextTokenVersion(ctx context.Context) (version int64, err error) {
	err = t.db.tx(ctx, func(tx *sql.Tx) (err error) {
		version, err = nextPeerSecret(ctx, tx)
		return err
	})
	return version, err
}

// TokensOfKey lists the valid tokens that peers got with a key.
func (t Peers) TokensOfKey(ctx context.Context, key string) ([]PeerToken, error) {
	return all(ctx, t.db, readPeerToken, `SELECT `+peerTokenColumns+
		` FROM peer_tokens WHERE key = $1 AND revoked_at IS NULL ORDER BY peer, role`, key)
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
