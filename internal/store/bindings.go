package store

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"time"
)

// Binding joins a wearer to a bot. The wearer is known by the user id that the
// platform sends, as vouched for by the owner of the key it is sent with (the
// publisher): the same id under another publisher is somebody else.
type Binding struct {
	Publisher string    `json:"publisher"`
	UserID    string    `json:"user_id"`
	Bot       int64     `json:"bot"`
	AgentID   string    `json:"agent_id"` // as the platform sent it when they were bound
	Created   time.Time `json:"created_at"`
}

// BindToken is an invitation to bind: a token in a QR code and a six-digit code
// to be spoken, either of them good once.
type BindToken struct {
	ID        string
	Bot       int64
	TokenHash string
	CodeHash  string
	Created   time.Time
	Expires   time.Time
	Used      time.Time
}

// Wearer names who asks: a user id under a publisher.
type Wearer struct{ Publisher, UserID string }

// Bindings is the tables of bindings, invitations and tries.
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
	t.Created, t.Expires, t.Used = fromMillis(created), fromMillis(expires), fromMaybe(used)
	return t, err
}

// Of finds a wearer's binding.
func (t Bindings) Of(ctx context.Context, w Wearer) (Binding, error) {
	// That there is none is remembered too: the wearer is answered by another bot then.
	b, err := recall(ctx, t.db, knownKey{"bindings", w.Publisher + " " + w.UserID}, func(ctx context.Context) (*Binding, error) {
		b, err := one(ctx, t.db, readBinding, `SELECT `+bindingColumns+` FROM bindings WHERE publisher = $1 AND user_id = $2`, w.Publisher, w.UserID)
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

// ByBot lists the wearers bound to a bot, oldest first, 1,000 at most.
func (t Bindings) ByBot(ctx context.Context, bot int64) ([]Binding, error) {
	return all(ctx, t.db, readBinding, `SELECT `+bindingColumns+` FROM bindings WHERE bot = $1 ORDER BY created_at LIMIT 1000`, bot)
}

// Counts says how many wearers are bound to each of an owner's bots (everybody's for an
// empty owner). Bots without any are not among them.
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

// RemoveAll unbinds everybody from a bot and returns how many they were.
func (t Bindings) RemoveAll(ctx context.Context, bot int64) (int64, error) {
	return t.db.exec(ctx, `DELETE FROM bindings WHERE bot = $1`, bot)
}

// Switch points an existing binding to another bot.
func (t Bindings) Switch(ctx context.Context, w Wearer, bot int64) error {
	return t.db.execOne(ctx, `UPDATE bindings SET bot = $1 WHERE publisher = $2 AND user_id = $3`, bot, w.Publisher, w.UserID)
}

// AddToken keeps an invitation. A code that is taken is [ErrExists].
func (t Bindings) AddToken(ctx context.Context, bt BindToken) error {
	_, err := t.db.exec(ctx, `INSERT INTO bind_tokens (`+tokenColumns+`) VALUES ($1, $2, $3, $4, $5, $6, NULL)`,
		bt.ID, bt.Bot, bt.TokenHash, bt.CodeHash, millis(bt.Created), millis(bt.Expires))
	return err
}

// Token finds an invitation by its id.
func (t Bindings) Token(ctx context.Context, id string) (BindToken, error) {
	return one(ctx, t.db, readBindToken, `SELECT `+tokenColumns+` FROM bind_tokens WHERE id = $1`, id)
}

// TokenByHash finds an invitation by the hash of its token or of its code.
func (t Bindings) TokenByHash(ctx context.Context, hash string) (BindToken, error) {
	return one(ctx, t.db, readBindToken, `SELECT `+tokenColumns+` FROM bind_tokens WHERE token_hash = $1 OR code_hash = $2`, hash, hash)
}

// Redeem uses an invitation up and binds the wearer, both or neither. It
// returns [ErrExists] if the invitation was used by somebody else in the
// meantime or the wearer is bound already, and [ErrOccupied] if the bot takes
// only one wearer (alone) and has another.
func (t Bindings) Redeem(ctx context.Context, tokenID string, b Binding, alone bool) error {
	return t.db.tx(ctx, func(tx *sql.Tx) error {
		// Touching the bot's row makes two wearers who redeem two invitations
		// of one bot at the same moment wait for each other.
		if _, err := tx.ExecContext(ctx, `UPDATE bots SET version = version WHERE number = $1`, b.Bot); err != nil {
			return err
		}
		res, err := tx.ExecContext(ctx, `UPDATE bind_tokens SET used_at = $1 WHERE id = $2 AND used_at IS NULL`, millis(b.Created), tokenID)
		if err != nil {
			return err
		}
		if n, err := res.RowsAffected(); err != nil || n == 0 {
			return orElse(err, ErrExists)
		}
		if alone {
			var others int
			if err := tx.QueryRowContext(ctx, `SELECT COUNT(*) FROM bindings WHERE bot = $1`, b.Bot).Scan(&others); err != nil {
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

// AwaitPhoto notes that a wearer was asked for a photo in a session of the
// platform, until expires.
func (t Bindings) AwaitPhoto(ctx context.Context, w Wearer, agentID, messageID string, expires time.Time) error {
	_, err := t.db.exec(ctx, `INSERT INTO bind_pending (publisher, user_id, agent_id, message_id, expires_at) VALUES ($1, $2, $3, $4, $5)
		ON CONFLICT (publisher, user_id, agent_id, message_id) DO UPDATE SET expires_at = excluded.expires_at`,
		w.Publisher, w.UserID, agentID, messageID, millis(expires))
	return err
}

// TakePhotoWait says whether the wearer had been asked for a photo and not
// sent one, and forgets it.
func (t Bindings) TakePhotoWait(ctx context.Context, w Wearer, agentID, messageID string, now time.Time) (bool, error) {
	n, err := t.db.exec(ctx, `DELETE FROM bind_pending WHERE publisher = $1 AND user_id = $2 AND agent_id = $3 AND message_id = $4 AND expires_at > $5`,
		w.Publisher, w.UserID, agentID, messageID, millis(now))
	return n > 0, err
}

// Try counts one try of a wearer to guess a code, and returns how many there
// were since the given time, with this one.
func (t Bindings) Try(ctx context.Context, w Wearer, now, since time.Time) (n int, err error) {
	err = t.db.tx(ctx, func(tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, `INSERT INTO bind_tries (publisher, user_id, tried_at) VALUES ($1, $2, $3)`,
			w.Publisher, w.UserID, millis(now)); err != nil {
			return err
		}
		return tx.QueryRowContext(ctx, `SELECT COUNT(*) FROM bind_tries WHERE publisher = $1 AND user_id = $2 AND tried_at > $3`,
			w.Publisher, w.UserID, millis(since)).Scan(&n)
	})
	return n, err
}

// Reserve is [Bindings.Try] for a try of which it is not known yet whether it is a guess;
// [Bindings.Release] takes it back. It is committed before the others are counted, so that
// of many at the same moment none is overlooked.
func (t Bindings) Reserve(ctx context.Context, w Wearer, now, since time.Time) (ticket string, n int, err error) {
	ticket = rand.Text()
	_, err = t.db.exec(ctx, `INSERT INTO bind_tries (publisher, user_id, tried_at, ticket) VALUES ($1, $2, $3, $4)`,
		w.Publisher, w.UserID, millis(now), ticket)
	if err != nil {
		return "", 0, err
	}
	err = t.db.w.QueryRowContext(ctx, `SELECT COUNT(*) FROM bind_tries WHERE publisher = $1 AND user_id = $2 AND tried_at > $3`,
		w.Publisher, w.UserID, millis(since)).Scan(&n)
	return ticket, n, translate(err)
}

// Release takes a reserved try back.
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
