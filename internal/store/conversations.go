package store

import (
	"context"
	"database/sql"
	"time"
)

// Exchange is a turn in the conversation history: a question and its answer.
type Exchange struct {
	Turn         string    `json:"turn"`
	Bot          int64     `json:"bot"`
	Person       string    `json:"person"`
	Conversation string    `json:"conversation"`
	At           time.Time `json:"at"`
	Question     string    `json:"question"`
	Answer       string    `json:"answer"`
	// Undelivered reports that the answer came after the asker had disconnected, and is still to be
	// delivered.
	Undelivered bool `json:"unheard,omitempty"`
	// ActsFor is the id of the account to which it belongs, if the bot is shared with it; empty: to
	// the bot's owner.
	ActsFor string `json:"acts_for,omitempty"`
}

// Conversations accesses the tables of the conversation history.
type Conversations struct{ db *DB }

const exchangeColumns = `turn, bot, person, conversation, at, question, answer, unheard, acts_for`

func readExchange(s scanner) (e Exchange, err error) {
	var at int64
	err = s.Scan(&e.Turn, &e.Bot, &e.Person, &e.Conversation, &at, &e.Question, &e.Answer, &e.Undelivered,
		&e.ActsFor)
	e.At = fromMillis(at)
	return e, err
}

// Last returns the newest n exchanges of a conversation, oldest first.
func (t Conversations) Last(ctx context.Context, bot int64, person, conversation string, n int) ([]Exchange, error) {
	return all(ctx, t.db, readExchange, `SELECT `+exchangeColumns+` FROM (
		SELECT `+exchangeColumns+` FROM exchanges WHERE bot = $1 AND person = $2 AND conversation = $3 ORDER BY at DESC, turn DESC LIMIT $4
	) newest ORDER BY at, turn`, bot, person, conversation, n)
}

// ByTurn returns the exchange of a turn, or [ErrNotFound].
func (t Conversations) ByTurn(ctx context.Context, turn string) (Exchange, error) {
	return one(ctx, t.db, readExchange, `SELECT `+exchangeColumns+` FROM exchanges WHERE turn = $1`, turn)
}

// Ends returns the first and the last exchange of a conversation, or [ErrNotFound].
func (t Conversations) Ends(ctx context.Context, bot int64, person, conversation string) (first, last Exchange,
	err error) {
	const query = `SELECT ` + exchangeColumns + ` FROM exchanges WHERE bot = $1 AND person = $2 AND conversation = $3`
	first, err = one(ctx, t.db, readExchange, query+` ORDER BY at, turn LIMIT 1`, bot, person, conversation)
	if err != nil {
		return first, last, err
	}
	last, err = one(ctx, t.db, readExchange, query+` ORDER BY at DESC, turn DESC LIMIT 1`, bot, person, conversation)
	return first, last, err
}

// PastConversation is a conversation in a list.
type PastConversation struct {
	Conversation string    `json:"conversation"`
	Question     string    `json:"question"` // the first that is kept
	Last         time.Time `json:"last"`
}

// pastConversations groups the conversations in exchanges_conversation alone; only the first
// exchange of those that are listed is read.
const pastConversations = `SELECT g.conversation, (
		SELECT question FROM exchanges WHERE bot = $1 AND person = $2 AND conversation = g.conversation
		ORDER BY at, turn LIMIT 1
	), g.newest FROM (
		SELECT conversation, MAX(at) AS newest FROM exchanges WHERE bot = $1 AND person = $2
		GROUP BY conversation ORDER BY MAX(at) DESC, conversation DESC LIMIT $3
	) g ORDER BY g.newest DESC, g.conversation DESC`

// Past lists a person's conversations with a bot, the last one first.
func (t Conversations) Past(ctx context.Context, bot int64, person string, limit int) ([]PastConversation, error) {
	return all(ctx, t.db, func(s scanner) (c PastConversation, err error) {
		var last int64
		err = s.Scan(&c.Conversation, &c.Question, &last)
		c.Last = fromMillis(last)
		return c, err
	}, pastConversations, bot, person, limit)
}

// Undelivered returns a bot's answers that are still to be delivered to a person, oldest first, at
// most 3.
func (t Conversations) Undelivered(ctx context.Context, bot int64, person string) ([]Exchange, error) {
	return all(ctx, t.db, readExchange, `SELECT `+exchangeColumns+` FROM exchanges
		WHERE bot = $1 AND person = $2 AND unheard ORDER BY at, turn LIMIT 3`, bot, person)
}

// MarkDelivered records that a late answer was delivered.
func (t Conversations) MarkDelivered(ctx context.Context, turn string) error {
	_, err := t.db.exec(ctx, `UPDATE exchanges SET unheard = $1 WHERE turn = $2`, false, turn)
	return err
}

// Save inserts an exchange, or updates the answer of an existing one.
func (t Conversations) Save(ctx context.Context, e Exchange) error {
	return t.db.commits.commit(ctx, func(ctx context.Context, tx *sql.Tx) error { return saveExchange(ctx, tx, e) })
}

func saveExchange(ctx context.Context, tx *sql.Tx, e Exchange) error {
	_, err := tx.ExecContext(ctx, `INSERT INTO exchanges (`+exchangeColumns+`) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
		ON CONFLICT (turn) DO UPDATE SET answer = excluded.answer, unheard = excluded.unheard`, sanitizeArgs([]any{
		e.Turn, e.Bot, e.Person, e.Conversation, millis(e.At), e.Question, e.Answer, e.Undelivered,
		e.ActsFor,
	})...)
	return err
}

// SaveRemainder stores the text that did not fit on a person's display, for "go on". An empty rest
// deletes it.
func (t Conversations) SaveRemainder(ctx context.Context, bot int64, person, rest string, at time.Time) error {
	if rest == "" {
		_, err := t.db.exec(ctx, `DELETE FROM pages WHERE bot = $1 AND person = $2`, bot, person)
		return err
	}
	_, err := t.db.exec(ctx, `INSERT INTO pages (bot, person, rest, at) VALUES ($1, $2, $3, $4)
		ON CONFLICT (bot, person) DO UPDATE SET rest = excluded.rest, at = excluded.at`, bot, person, rest, millis(at))
	return err
}

// Remainder returns the text of SaveRemainder if it was stored after since, or "".
func (t Conversations) Remainder(ctx context.Context, bot int64, person string, since time.Time) (string, error) {
	rest, err := one(ctx, t.db, func(s scanner) (text string, err error) { return text, s.Scan(&text) },
		`SELECT rest FROM pages WHERE bot = $1 AND person = $2 AND at > $3`, bot, person, millis(since))
	if err == ErrNotFound {
		return "", nil
	}
	return rest, err
}

// Conversation summarizes a conversation, without its exchanges.
type Conversation struct {
	Bot          int64     `json:"bot"`
	BotName      string    `json:"bot_name"`
	Person       string    `json:"person"`
	Conversation string    `json:"conversation"`
	Exchanges    int64     `json:"exchanges"`
	Last         time.Time `json:"last"`
}
