package store

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"time"
)

// Binding assigns a wearer to a bot. A wearer is identified by the user id that the platform sends,
// within the owner of the key it is sent with (the publisher): the same id under another publisher
// is a different wearer.
type Binding struct {
	Publisher string    `json:"publisher"`
	UserID    string    `json:"user_id"`
	Bot       int64     `json:"bot"`
	AgentID   string    `json:"agent_id"` // as sent by the platform at binding time
	Created   time.Time `json:"created_at"`
}

// BindToken is an invitation to bind: a token in a QR code and a six-digit code to be spoken.
// Either works once.
type BindToken struct {
	ID        string
	Bot       int64
	TokenHash string
	CodeHash  string
	Created   time.Time
	Expires   time.Time
	Used      time.Time
}

// Wearer identifies a wearer: a user id under a publisher.
type Wearer struct{ Publisher, UserID string }

// Bindings accesses the tables of bindings, invitations and code attempts.
type Bindings struct{ db *DB }

const (
	bindingColumns = `publisher, user_id, bot, agent_id, created_at`
	tokenColumns   = `id, bot, token_hash, code_hash, created_at, expires_at, used_at`
)

func readBinding(s scanner) (b Binding, err error) {
	var created int64
	err = s.Scan(&b.Publisher, &b.UserID, &b.Bot, &b.AgentID, &created)
	b.Created = fromMillis(created)
	return b, err
}

func readBindToken(s scanner) (t BindToken, err error) {
	var created, expires int64
	var used sql.NullInt64
	err = s.Scan(&t.ID, &t.Bot, &t.TokenHash, &t.CodeHash, &created, &expires, &used)
	t.Created, t.Expires, t.Used = fromMillis(created), fromMillis(expires), fromNullMillis(used)
	return t, err
}

// Of returns a wearer's binding, or [ErrNotFound].
func (t Bindings) Of(ctx context.Context, w Wearer) (Binding, error) {
	// The absence of a binding is cached too: another bot answers the wearer then.
	b, err := readCached(ctx, t.db, cacheKey{"bindings", w.Publisher + " " + w.UserID},
		func(ctx context.Context) (*Binding, error) {
			b, err := one(ctx, t.db, readBinding, `SELECT `+bindingColumns+
				` FROM bindings WHERE publisher = $1 AND user_id = $2`, w.Publisher, w.UserID)
			if errors.Is(err, ErrNotFound) {
				return nil, nil
			}
			return &b, err
		})
	if err == nil && b == nil {
		err = ErrNotFound
	}
	if err != nil {
		return Binding{}, err
	}
	return *b, nil
}

// ByBot lists the bindings of a bot, oldest first, at most 1,000.
func (t Bindings) ByBot(ctx context.Context, bot int64) ([]Binding, error) {
	return all(ctx, t.db, readBinding, `SELECT `+bindingColumns+
		` FROM bindings WHERE bot = $1 ORDER BY created_at LIMIT 1000`, bot)
}

// Counts returns the number of wearers bound to each bot of an owner, or to each bot for an empty
// owner. Bots without wearers are left out.
func (t Bindings) Counts(ctx context.Context, owner string) (map[int64]int, error) {
	type count struct {
		bot int64
		n   int
	}
	list, err := all(ctx, t.db, func(s scanner) (c count, err error) {
		err = s.Scan(&c.bot, &c.n)
		return c, err
	}, `SELECT bot, COUNT(*) FROM bindings JOIN bots ON bots.number = bindings.bot WHERE $1 = '' OR bots.owner = $1 GROUP BY bot`, owner)
	counts := make(map[int64]int, len(list))
	for _, c := range list {
		counts[c.bot] = c.n
	}
	return counts, err
}

// Remove unbinds a wearer.
func (t Bindings) Remove(ctx context.Context, w Wearer) error {
	return t.db.execOne(ctx, `DELETE FROM bindings WHERE publisher = $1 AND user_id = $2`, w.Publisher, w.UserID)
}

// Switch points an existing binding to another bot.
func (t Bindings) Switch(ctx context.Context, w Wearer, bot int64) error {
	return t.db.execOne(ctx, `UPDATE bindings SET bot = $1 WHERE publisher = $2 AND user_id = $3`, bot, w.Publisher,
		w.UserID)
}

// AddToken stores an invitation. It returns [ErrExists] if the code is in use.
func (t Bindings) AddToken(ctx context.Context, bt BindToken) error {
	_, err := t.db.exec(ctx, `INSERT INTO bind_tokens (`+tokenColumns+`) VALUES ($1, $2, $3, $4, $5, $6, NULL)`,
		bt.ID, bt.Bot, bt.TokenHash, bt.CodeHash, millis(bt.Created), millis(bt.Expires))
	return err
}

// Token returns an invitation by its id.
func (t Bindings) Token(ctx context.Context, id string) (BindToken, error) {
	return one(ctx, t.db, readBindToken, `SELECT `+tokenColumns+` FROM bind_tokens WHERE id = $1`, id)
}

// TokenByHash returns an invitation by the hash of its token or of its code.
func (t Bindings) TokenByHash(ctx context.Context, hash string) (BindToken, error) {
	return one(ctx, t.db, readBindToken, `SELECT `+tokenColumns+
		` FROM bind_tokens WHERE token_hash = $1 OR code_hash = $2`, hash, hash)
}

// Redeem marks an invitation as used and binds the wearer, both or neither. It returns [ErrExists]
// if the invitation has been used meanwhile or the wearer is bound already, and [ErrOccupied] if
// the bot takes only one wearer (alone) and has another.
func (t Bindings) Redeem(ctx context.Context, tokenID string, b Binding, alone bool) error {
	return t.db.tx(ctx, func(tx *sql.Tx) error {
		// Updating the bot's row serializes wearers who redeem invitations of one bot at the same
		// moment.
		if _, err := tx.ExecContext(ctx, `UPDATE bots SET version = version WHERE number = $1`, b.Bot); err != nil {
			return err
		}
		res, err := tx.ExecContext(ctx, `UPDATE bind_tokens SET used_at = $1 WHERE id = $2 AND used_at IS NULL`,
			millis(b.Created), tokenID)
		if err != nil {
			return err
		}
		if n, err := res.RowsAffected(); err != nil || n == 0 {
			return orElse(err, ErrExists)
		}
		if alone {
			var others int
			if err := tx.QueryRowContext(ctx, `SELECT COUNT(*) FROM bindings WHERE bot = $1`,
				b.Bot).Scan(&others); err != nil {
				return err
			}
			if others > 0 {
				return ErrOccupied
			}
		}
		_, err = tx.ExecContext(ctx, `INSERT INTO bindings (`+bindingColumns+`) VALUES ($1, $2, $3, $4, $5)`,
			b.Publisher, b.UserID, b.Bot, b.AgentID, millis(b.Created))
		return err
	})
}

// AwaitPhoto records, until expires, that a wearer was asked for a photo in a platform session.
func (t Bindings) AwaitPhoto(ctx context.Context, w Wearer, agentID, messageID string, expires time.Time) error {
	_, err := t.db.exec(ctx,
		`INSERT INTO bind_pending (publisher, user_id, agent_id, message_id, expires_at) VALUES ($1, $2, $3, $4, $5)
		ON CONFLICT (publisher, user_id, agent_id, message_id) DO UPDATE SET expires_at = excluded.expires_at`,
		w.Publisher, w.UserID, agentID, messageID, millis(expires))
	return err
}

// TakePhotoWait deletes the record of a photo request and reports whether there was one that had
// not expired.
func (t Bindings) TakePhotoWait(ctx context.Context, w Wearer, agentID, messageID string, now time.Time) (bool, error) {
	n, err := t.db.exec(ctx,
		`DELETE FROM bind_pending WHERE publisher = $1 AND user_id = $2 AND agent_id = $3 AND message_id = $4 AND expires_at > $5`,
		w.Publisher, w.UserID, agentID, messageID, millis(now))
	return n > 0, err
}

// Reserve records an attempt of a wearer to guess a code, and returns the number of attempts since
// the given time, including this one. [Bindings.Release] takes back one that was no guess. The
// attempt is committed before the others are counted, so that concurrent attempts all count.
func (t Bindings) Reserve(ctx context.Context, w Wearer, now, since time.Time) (ticket string, n int, err error) {
	ticket = rand.Text()
	_, err = t.db.exec(ctx, `INSERT INTO bind_tries (publisher, user_id, tried_at, ticket) VALUES ($1, $2, $3, $4)`,
		w.Publisher, w.UserID, millis(now), ticket)
	if err != nil {
		return "", 0, err
	}
	err = t.db.w.QueryRowContext(ctx,
		`SELECT COUNT(*) FROM bind_tries WHERE publisher = $1 AND user_id = $2 AND tried_at > $3`,
		w.Publisher, w.UserID, millis(since)).Scan(&n)
	return ticket, n, translate(err)
}

// Release deletes a reserved attempt.
func (t Bindings) Release(ctx context.Context, ticket string) error {
	_, err := t.db.exec(ctx, `DELETE FROM bind_tries WHERE ticket = $1`, ticket)
	return err
}

func orElse(err, otherwise error) error {
	if err != nil {
		return err
	}
	return otherwise
}
