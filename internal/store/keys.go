package store

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"time"
)

// Key is a secret with which a program acts for a person. Only its hash is stored.
type Key struct {
	ID     string   `json:"id"`
	Person string   `json:"person"` // id
	Name   string   `json:"name"`
	Scopes []string `json:"scopes"`
	Bot    int64    `json:"bot,omitempty"` // the only bot it may use; 0: any its person may use
	Hash   string   `json:"-"`
	Hint   string   `json:"hint"` // the first characters of the secret
	// Rules restricts the tools that the key may call, as JSON; empty: all that its person may.
	Rules string `json:"-"`
	// Parent is the id of the key that created this one; empty: a person created it.
	Parent string `json:"parent,omitempty"`
	// Client is the id of the program that the key was made for by OAuth; empty: a person made it.
	Client  string    `json:"client,omitempty"`
	Created time.Time `json:"created_at"`
	Expires time.Time `json:"expires_at,omitzero"`
	Revoked time.Time `json:"revoked_at,omitzero"`
	Used    time.Time `json:"last_used_at,omitzero"`
	// TokenExpires is when the token expires by whose hash the key was found; zero: it was found by
	// its own, or its id.
	TokenExpires time.Time `json:"-"`
}

// Keys accesses the table of keys.
type Keys struct{ db *DB }

const keyColumns = `id, person, name, scopes, bot, hash, hint, created_at, expires_at, revoked_at, last_used_at, rules, parent, client`

const insertKeyRow = `INSERT INTO keys (` + keyColumns + `) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)`

// keyValues are the values of keyColumns.
func keyValues(k Key) []any {
	return []any{k.ID, k.Person, k.Name, strings.Join(k.Scopes, " "), sql.NullInt64{Int64: k.Bot, Valid: k.Bot != 0},
		k.Hash, k.Hint, millis(k.Created), nullMillis(k.Expires), nullMillis(k.Revoked), nullMillis(k.Used), k.Rules,
		k.Parent, k.Client}
}

func readKey(s scanner) (k Key, err error) {
	var (
		scopes                 string
		bot                    sql.NullInt64
		created                int64
		expires, revoked, used sql.NullInt64
	)
	err = s.Scan(&k.ID, &k.Person, &k.Name, &scopes, &bot, &k.Hash, &k.Hint, &created, &expires, &revoked, &used,
		&k.Rules, &k.Parent, &k.Client)
	k.Scopes = strings.Fields(scopes)
	k.Bot = bot.Int64
	k.Created, k.Expires, k.Revoked, k.Used = fromMillis(created), fromNullMillis(expires), fromNullMillis(revoked),
		fromNullMillis(used)
	return k, err
}

// Add inserts a key. It returns [ErrNotFound] if the person or bot does not exist, and [ErrExists]
// if the secret is in use.
func (t Keys) Add(ctx context.Context, k Key) error {
	_, err := t.db.exec(ctx, insertKeyRow, keyValues(k)...)
	return err
}

// ByHash returns the key with the secret of this hash, or with an access token of it, even if
// revoked or expired.
func (t Keys) ByHash(ctx context.Context, hash string) (Key, error) {
	return readCached(ctx, t.db, cacheKey{"keys", hash}, func(ctx context.Context) (Key, error) {
		k, err := one(ctx, t.db, readKey, `SELECT `+keyColumns+` FROM keys WHERE hash = $1`, hash)
		if !errors.Is(err, ErrNotFound) {
			return k, err
		}
		token, err := t.db.OAuth.Token(ctx, hash)
		if err == nil && token.Kind != TokenAccess {
			err = ErrNotFound
		}
		if err == nil {
			k, err = t.ByID(ctx, token.Key)
			k.TokenExpires = token.Expires
		}
		return k, err
	})
}

// ByID returns a key, even if revoked or expired.
func (t Keys) ByID(ctx context.Context, id string) (Key, error) {
	return one(ctx, t.db, readKey, `SELECT `+keyColumns+` FROM keys WHERE id = $1`, id)
}

// ByPerson lists a person's keys, or all keys for an empty person, oldest first, at most 1,000.
func (t Keys) ByPerson(ctx context.Context, person string) ([]Key, error) {
	return all(ctx, t.db, readKey, `SELECT `+keyColumns+
		` FROM keys WHERE $1 = '' OR person = $1 ORDER BY created_at, id LIMIT 1000`, person)
}

// ByBot lists the keys that are restricted to a bot, oldest first, at most 1,000.
func (t Keys) ByBot(ctx context.Context, bot int64) ([]Key, error) {
	return all(ctx, t.db, readKey, `SELECT `+keyColumns+` FROM keys WHERE bot = $1 ORDER BY created_at, id LIMIT 1000`,
		bot)
}

// Revoke permanently revokes a key and all its descendants by Parent. Keys that are revoked already
// keep their time.
func (t Keys) Revoke(ctx context.Context, id string, at time.Time) error {
	return t.db.changeAccess(ctx, func(tx *sql.Tx) error {
		return changed(tx.ExecContext(ctx, `UPDATE keys SET revoked_at = COALESCE(revoked_at, $1) WHERE id IN (
			WITH RECURSIVE made (id) AS (
				SELECT id FROM keys WHERE id = $2 UNION SELECT k.id FROM keys k JOIN made m ON k.parent = m.id
			) SELECT id FROM made)`, millis(at), id))
	})
}

// MarkUsed records when a key was last used, to the minute: a use less than a minute after the
// recorded one is not written.
func (t Keys) MarkUsed(ctx context.Context, id string, at time.Time) error {
	return t.db.commits.commit(ctx, func(ctx context.Context, tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx,
			`UPDATE keys SET last_used_at = $1 WHERE id = $2 AND (last_used_at IS NULL OR last_used_at < $3)`,
			millis(at), id, millis(at.Add(-time.Minute)))
		return err
	})
}

// SetRules replaces the rules of a key.
func (t Keys) SetRules(ctx context.Context, id, rules string) error {
	err := t.db.changeTools(ctx, func(tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, `UPDATE counters SET value = value + 1 WHERE name = 'access'`); err != nil {
			return err
		}
		return changed(tx.ExecContext(ctx, `UPDATE keys SET rules = $1 WHERE id = $2`, rules, id))
	})
	t.db.accessChanged(err)
	return err
}
