package store

import (
	"context"
	"database/sql"
	"errors"
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

// ErrTokenChanged means that a token was replaced, revoked or issued since it was read.
var ErrTokenChanged = errors.New("the token of the peer has changed meanwhile")

// SetToken stores the token of a peer, as it was read, for a role, in place of was, which is zero
// if there was none. The creation time of an identical token does not change. It returns
// [ErrNotFound] if the peer is gone, its secret version has changed, or the key that it gets the
// token with is no longer valid, and [ErrTokenChanged] if was is not its token any more.
func (t Peers) SetToken(ctx context.Context, p Peer, k, was PeerToken) (kept PeerToken, err error) {
	err = t.db.tx(ctx, func(tx *sql.Tx) (err error) {
		kept, err = t.setToken(ctx, tx, p, k, was)
		return err
	})
	return kept, err
}

// ReplaceToken is [Peers.SetToken] for a token in place of one that others may hold. It ends the
// invitation of the peer.
func (t Peers) ReplaceToken(ctx context.Context, p Peer, k, was PeerToken) (kept PeerToken, err error) {
	err = t.change(ctx, func(tx *sql.Tx) (err error) {
		if err := noteTokenChange(ctx, tx, p.ID); err != nil {
			return err
		}
		kept, err = t.setToken(ctx, tx, p, k, was)
		return err
	})
	return kept, err
}

func (t Peers) setToken(ctx context.Context, tx *sql.Tx, p Peer, k, was PeerToken) (PeerToken, error) {
	// Whoever changes tokens locks their peer first, so that a revocation is before or after this.
	var id string
	if err := tx.QueryRowContext(ctx, t.db.locking(`SELECT id FROM peers WHERE id = $1 AND secret_version = $2`,
		"FOR NO KEY UPDATE"), p.ID, p.SecretVersion).Scan(&id); err != nil {
		return PeerToken{}, err
	}
	if k.Key != "" && (k.Key != was.Key || !was.Revoked.IsZero()) {
		if err := tx.QueryRowContext(ctx, t.db.locking(`SELECT id FROM keys WHERE id = $1 AND revoked_at IS NULL`,
			"FOR SHARE"), k.Key).Scan(&id); err != nil {
			return PeerToken{}, err
		}
	}
	now, err := readPeerToken(tx.QueryRowContext(ctx, `SELECT `+peerTokenColumns+
		` FROM peer_tokens WHERE peer = $1 AND role = $2`, p.ID, k.Role))
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return PeerToken{}, err
	}
	if now.Hash != was.Hash || now.Version != was.Version || !now.Revoked.Equal(was.Revoked) {
		return PeerToken{}, ErrTokenChanged
	}
	return readPeerToken(tx.QueryRowContext(ctx,
		`INSERT INTO peer_tokens (peer, role, hash, scopes, created_at, key, version) VALUES ($1, $2, $3, $4, $5, $6, $7)
		ON CONFLICT (peer, role) DO UPDATE SET hash = excluded.hash, scopes = excluded.scopes,
			created_at = CASE WHEN peer_tokens.hash = excluded.hash THEN peer_tokens.created_at ELSE excluded.created_at END,
			revoked_at = NULL, key = excluded.key, version = excluded.version
		RETURNING `+peerTokenColumns, p.ID, k.Role, k.Hash, encodeList(sortedUnique(k.Scopes)), millis(k.Created),
		k.Key, k.Version))
}

// RevokeToken ends the token of a peer for a role, and its invitation. It returns [ErrNotFound] if
// there is no token that is valid.
func (t Peers) RevokeToken(ctx context.Context, peer, role string, at time.Time) error {
	return t.change(ctx, func(tx *sql.Tx) error {
		if err := noteTokenChange(ctx, tx, peer); err != nil {
			return err
		}
		return changed(tx.ExecContext(ctx, `UPDATE peer_tokens SET revoked_at = $1
			WHERE peer = $2 AND role = $3 AND revoked_at IS NULL`, millis(at), peer, role))
	})
}

// noteTokenChange lets instances with connections of a peer notice that a token has ended, and ends
// the invitation that it has used, with which it would get another.
func noteTokenChange(ctx context.Context, tx *sql.Tx, peer string) error {
	if _, err := tx.ExecContext(ctx, `UPDATE peers SET token_changes = token_changes + 1 WHERE id = $1`,
		peer); err != nil {
		return err
	}
	return forgetInvites(ctx, tx, peer)
}

// NextTokenVersion returns a version for a token that none had before.
func (t Peers) NextTokenVersion(ctx context.Context) (version int64, err error) {
	err = t.db.tx(ctx, func(tx *sql.Tx) (err error) {
		version, err = nextPeerSecret(ctx, tx)
		return err
	})
	return version, err
}

// TokensOfKey lists the valid tokens that peers got with a key or one that was created with it.
func (t Peers) TokensOfKey(ctx context.Context, key string) ([]PeerToken, error) {
	return all(ctx, t.db, readPeerToken, `WITH RECURSIVE made (id) AS (
			SELECT id FROM keys WHERE id = $1 UNION SELECT k.id FROM keys k JOIN made m ON k.parent = m.id
		) SELECT `+peerTokenColumns+
		` FROM peer_tokens WHERE key IN (SELECT id FROM made) AND revoked_at IS NULL ORDER BY peer, role`, key)
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
		if _, err = tx.ExecContext(ctx, `DELETE FROM peer_tokens WHERE peer = $1`, id); err != nil {
			return err
		}
		return forgetInvites(ctx, tx, id)
	})
}

// nextPeerSecret returns a secret version that no peer ever had.
func nextPeerSecret(ctx context.Context, tx *sql.Tx) (version int64, err error) {
	err = tx.QueryRowContext(ctx, `UPDATE counters SET value = value + 1 WHERE name = 'peer_secret' RETURNING value`).
		Scan(&version)
	return version, err
}
