package store

import (
	"context"
	"database/sql"
	"time"
)

// PeerInvite lets one node be paired without asking its owner, who made it. Only hashes of its
// token and of the code by which that is fetched are stored.
type PeerInvite struct {
	ID        string
	Owner     string
	Key       string // id of the key that made it; empty: none
	TokenHash string
	CodeHash  string // empty: it was fetched, or has none
	URL       string // address of the gateway, as the owner knows it
	Peer      string // that has used it; empty: none
	Created   time.Time
	Expires   time.Time
}

// ListedInvite is a valid invitation with the names of what it refers to.
type ListedInvite struct {
	PeerInvite
	OwnerName, KeyName, PeerName string // empty: there is none
}

// MaxInvites is the maximum number of a person's invitations at a time.
const MaxInvites = 100

const inviteColumns = `id, owner, key, token_hash, code_hash, url, peer, created_at, expires_at`

func readInvite(s scanner) (i PeerInvite, err error) {
	var (
		created, expires int64
		code             sql.NullString
	)
	err = s.Scan(&i.ID, &i.Owner, &i.Key, &i.TokenHash, &code, &i.URL, &i.Peer, &created, &expires)
	i.CodeHash, i.Created, i.Expires = code.String, fromMillis(created), fromMillis(expires)
	return i, err
}

// Invite stores an invitation and forgets those that have expired. It returns [ErrFull] if its
// owner has [MaxInvites].
func (t Peers) Invite(ctx context.Context, i PeerInvite) error {
	return t.locked(ctx, func(tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, `DELETE FROM peer_invites WHERE expires_at <= $1`,
			millis(i.Created)); err != nil {
			return err
		}
		var has int
		if err := tx.QueryRowContext(ctx, `SELECT COUNT(*) FROM peer_invites WHERE owner = $1`, i.Owner).
			Scan(&has); err != nil {
			return err
		}
		if has >= MaxInvites {
			return ErrFull
		}
		_, err := tx.ExecContext(ctx, `INSERT INTO peer_invites (`+inviteColumns+`)
			VALUES ($1, $2, $3, $4, $5, $6, '', $7, $8)`,
			sanitizeArgs([]any{i.ID, i.Owner, i.Key, i.TokenHash, i.CodeHash, i.URL, millis(i.Created),
				millis(i.Expires)})...)
		return err
	})
}

// validInvite is the condition of an invitation that can be used: it has not expired, and the key
// that made it is not revoked. Its parameter is the time.
const validInvite = `expires_at > $1 AND (key = '' OR EXISTS (
	SELECT 1 FROM keys WHERE keys.id = peer_invites.key AND revoked_at IS NULL))`

// InviteByToken returns the valid invitation with a token, or [ErrNotFound].
func (t Peers) InviteByToken(ctx context.Context, hash string, now time.Time) (PeerInvite, error) {
	return one(ctx, t.db, readInvite, `SELECT `+inviteColumns+
		` FROM peer_invites WHERE `+validInvite+` AND token_hash = $2`, millis(now), hash)
}

// UseInvite binds an invitation to a peer. It returns [ErrNotFound] if it has expired, or another
// peer has used it.
func (t Peers) UseInvite(ctx context.Context, id, peer string, now time.Time) error {
	return t.locked(ctx, func(tx *sql.Tx) error {
		return changed(tx.ExecContext(ctx, `UPDATE peer_invites SET peer = $1, code_hash = NULL
			WHERE id = $2 AND peer IN ('', $1) AND expires_at > $3`, peer, id, millis(now)))
	})
}

// FetchInvite returns the valid invitation with a code, which fetches it once. Otherwise it returns
// [ErrNotFound].
func (t Peers) FetchInvite(ctx context.Context, codeHash string, now time.Time) (i PeerInvite, err error) {
	const valid = ` WHERE ` + validInvite + ` AND code_hash = $2`
	if _, err := one(ctx, t.db, readInvite, `SELECT `+inviteColumns+` FROM peer_invites`+valid, millis(now),
		codeHash); err != nil {
		return i, err // guesses lock nothing
	}
	err = t.locked(ctx, func(tx *sql.Tx) (err error) {
		i, err = readInvite(tx.QueryRowContext(ctx, `UPDATE peer_invites SET code_hash = NULL`+valid+
			` RETURNING `+inviteColumns, millis(now), codeHash))
		return err
	})
	return i, err
}

// Invites returns the valid invitations of a person, or of everybody if owner is empty, the newest
// first.
func (t Peers) Invites(ctx context.Context, owner string, now time.Time) ([]ListedInvite, error) {
	return all(ctx, t.db, func(s scanner) (i ListedInvite, err error) {
		var created, expires int64
		err = s.Scan(&i.ID, &i.Owner, &i.Key, &i.URL, &i.Peer, &created, &expires, &i.OwnerName, &i.KeyName,
			&i.PeerName)
		i.Created, i.Expires = fromMillis(created), fromMillis(expires)
		return i, err
	}, `SELECT id, owner, key, url, peer, created_at, expires_at,
		COALESCE((SELECT people.name FROM people WHERE people.id = peer_invites.owner), ''),
		COALESCE((SELECT keys.name FROM keys WHERE keys.id = peer_invites.key), ''),
		COALESCE((SELECT peers.name FROM peers WHERE peers.id = peer_invites.peer AND peers.owner = peer_invites.owner), '')
		FROM peer_invites WHERE `+validInvite+` AND ($2 = '' OR owner = $2)
		ORDER BY created_at DESC, id`, millis(now), owner)
}

// CancelInvite ends an invitation that no peer has used. Otherwise it returns [ErrNotFound].
func (t Peers) CancelInvite(ctx context.Context, id string) error {
	return t.locked(ctx, func(tx *sql.Tx) error {
		return changed(tx.ExecContext(ctx, `DELETE FROM peer_invites WHERE id = $1 AND peer = ''`, id))
	})
}

// forgetInvites ends the invitations that a peer has used.
func forgetInvites(ctx context.Context, tx *sql.Tx, peer string) error {
	_, err := tx.ExecContext(ctx, `DELETE FROM peer_invites WHERE peer = $1`, peer)
	return err
}
