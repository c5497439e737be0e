package store

import (
	"context"
	"strconv"
	"strings"
	"time"
)

// Readable selects the conversations, traces and calls that a key may read.
type Readable struct {
	Owner string // whose they are; must not be empty
	// All selects all of the owner's. Otherwise those of Key and of its Person, which is how
	// turns of the key name who asked, and those of Bots.
	All         bool
	Key, Person string
	Bots        []int64
	Bot         int64 // only those of this bot; 0: any
}

// readsBot is a condition on a bot's number, with the parameter of [Readable.bots].
const readsBot = ` LIKE '%,' || CAST(bot AS TEXT) || ',%'`

// bots returns the numbers of the bots as text, each between commas.
func (r *Readable) bots() string {
	var b strings.Builder
	b.WriteByte(',')
	for _, n := range r.Bots {
		b.WriteString(strconv.FormatInt(n, 10) + ",")
	}
	return b.String()
}

// all returns the parameter for All.
func (r *Readable) all() string {
	if r.All {
		return "all"
	}
	return ""
}

// Readable lists the conversations that r selects whose last exchange was before the given time,
// newest first.
func (t Conversations) Readable(ctx context.Context, r *Readable, before time.Time, limit int) ([]Conversation, error) {
	return all(ctx, t.db, func(s scanner) (c Conversation, err error) {
		var last int64
		err = s.Scan(&c.Bot, &c.BotName, &c.Person, &c.Conversation, &c.Exchanges, &last)
		c.Last = fromMillis(last)
		return c, err
	}, `SELECT bot, name, person, conversation, COUNT(*), MAX(at) FROM (
			SELECT e.bot, b.name, e.person, e.conversation, e.at FROM exchanges e JOIN bots b ON b.number = e.bot
			WHERE b.owner = $1 AND e.acts_for = '' AND ($2 = 0 OR e.bot = $2)) owned
		WHERE $3 = 'all' OR person = $4 OR $5`+readsBot+` GROUP BY bot, name, person, conversation
		HAVING MAX(at) < $6 ORDER BY MAX(at) DESC, bot, person, conversation LIMIT $7`,
		r.Owner, r.Bot, r.all(), r.Person, r.bots(), millis(before), limit)
}

// Readable lists the traces that r selects, newest first.
func (t Traces) Readable(ctx context.Context, r *Readable, limit int) ([]Trace, error) {
	return all(ctx, t.db, readTrace, `SELECT `+traceColumns+` FROM traces WHERE owner = $1 AND ($2 = 0 OR bot = $2)
		AND ($3 = 'all' OR person = $4 OR $5`+readsBot+`) ORDER BY at DESC, turn DESC LIMIT $6`,
		r.Owner, r.Bot, r.all(), r.Person, r.bots(), limit)
}

// Readable lists the calls that r selects, newest first.
func (t Calls) Readable(ctx context.Context, r *Readable, limit int) ([]Call, error) {
	return all(ctx, t.db, readCall, `SELECT `+callColumns+` FROM calls WHERE person = $1 AND ($2 = 0 OR bot = $2)
		AND ($3 = 'all' OR key = $4 OR $5`+readsBot+`) ORDER BY at DESC, id DESC LIMIT $6`,
		r.Owner, r.Bot, r.all(), r.Key, r.bots(), limit)
}
