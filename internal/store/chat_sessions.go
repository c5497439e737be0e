package store

import (
	"context"
	"database/sql"
	"time"
)

// ChatSession is a conversation of a person with a bot that programs of OpenClaw list and name.
type ChatSession struct {
	Owner string
	Bot   int64
	Name  string // unique per owner and bot
	// Conversation is the conversation of its exchanges; a reset begins another.
	Conversation     string
	Label            string
	Pinned           bool
	Archived         time.Time // zero: it is not archived
	Verbosity        string    // how much programs show of tools: "off", "on" or "full"; empty: their default
	Created, Updated time.Time
}

// ChatSessions accesses the table of chat sessions.
type ChatSessions struct{ db *DB }

const chatSessionColumns = `owner, bot, name, conversation, label, pinned, archived_at, created_at,
	updated_at, verbosity`

func readChatSession(s scanner) (c ChatSession, err error) {
	var created, updated int64
	var archived sql.NullInt64
	err = s.Scan(&c.Owner, &c.Bot, &c.Name, &c.Conversation, &c.Label, &c.Pinned, &archived, &created, &updated,
		&c.Verbosity)
	c.Archived, c.Created, c.Updated = fromNullMillis(archived), fromMillis(created), fromMillis(updated)
	return c, err
}

// Get returns a session, or [ErrNotFound].
func (t ChatSessions) Get(ctx context.Context, owner string, bot int64, name string) (ChatSession, error) {
	return one(ctx, t.db, readChatSession, `SELECT `+chatSessionColumns+
		` FROM chat_sessions WHERE owner = $1 AND bot = $2 AND name = $3`, owner, bot, name)
}

// Open returns the session with the owner, bot and name of c, and adds c if there is none.
func (t ChatSessions) Open(ctx context.Context, c ChatSession) (ChatSession, error) {
	if _, err := t.db.exec(ctx, `INSERT INTO chat_sessions (`+chatSessionColumns+`)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10) ON CONFLICT (owner, bot, name) DO NOTHING`,
		sanitizeArgs([]any{c.Owner, c.Bot, c.Name, c.Conversation, c.Label, c.Pinned, nullMillis(c.Archived),
			millis(c.Created), millis(c.Updated), c.Verbosity})...); err != nil {
		return c, err
	}
	return t.Get(ctx, c.Owner, c.Bot, c.Name)
}

// Touch notes when something was last said in a session.
func (t ChatSessions) Touch(ctx context.Context, owner string, bot int64, name string, at time.Time) error {
	_, err := t.db.exec(ctx, `UPDATE chat_sessions SET updated_at = $4
		WHERE owner = $1 AND bot = $2 AND name = $3 AND updated_at < $4`, owner, bot, name, millis(at))
	return err
}

// Save writes the conversation, the label and the flags of a session. It returns [ErrNotFound] if
// there is none.
func (t ChatSessions) Save(ctx context.Context, c ChatSession) error {
	args := sanitizeArgs([]any{c.Owner, c.Bot, c.Name, c.Conversation, c.Label, c.Pinned, nullMillis(c.Archived),
		millis(c.Updated), c.Verbosity})
	return t.db.execOne(ctx, `UPDATE chat_sessions SET conversation = $4, label = $5, pinned = $6, archived_at = $7,
		updated_at = $8, verbosity = $9 WHERE owner = $1 AND bot = $2 AND name = $3`, args...)
}

// ChatSessionFilter selects sessions of an owner.
type ChatSessionFilter struct {
	Owner string
	Bot   int64     // 0: of all bots
	Since time.Time // updated since then; zero: all
	// Archived selects archived ones, All both kinds.
	Archived, All bool
	Label         string // exactly; empty: any
}

// List lists sessions, pinned ones first, then by the time of their last change, newest first.
// Total is the number of all that the filter selects.
func (t ChatSessions) List(ctx context.Context, f ChatSessionFilter, offset, limit int) (page []ChatSession,
	total int, err error) {
	const selected = ` FROM chat_sessions WHERE owner = $1 AND ($2 = 0 OR bot = $2) AND updated_at >= $3
		AND ($4 OR (archived_at IS NOT NULL) = $5) AND ($6 = '' OR label = $6)`
	args := sanitizeArgs([]any{f.Owner, f.Bot, millis(f.Since), f.All, f.Archived, f.Label})
	total, err = one(ctx, t.db, func(s scanner) (n int, err error) { return n, s.Scan(&n) },
		`SELECT COUNT(*)`+selected, args...)
	if err != nil {
		return nil, 0, err
	}
	page, err = all(ctx, t.db, readChatSession, `SELECT `+chatSessionColumns+selected+
		` ORDER BY pinned DESC, updated_at DESC, bot, name LIMIT $7 OFFSET $8`, append(args, limit, offset)...)
	return page, total, err
}

// Remove removes a session with its exchanges, as far as they are the asker's. It returns
// [ErrNotFound] if there is none.
func (t ChatSessions) Remove(ctx context.Context, c ChatSession, asker string) error {
	if err := t.db.execOne(ctx, `DELETE FROM chat_sessions WHERE owner = $1 AND bot = $2 AND name = $3`, c.Owner,
		c.Bot, c.Name); err != nil {
		return err
	}
	_, err := t.db.execInBatches(ctx, `DELETE FROM exchanges WHERE turn IN (SELECT turn FROM exchanges
		WHERE bot = $1 AND person = $2 AND conversation = $3 LIMIT $4)`, c.Bot, asker, c.Conversation)
	return err
}
