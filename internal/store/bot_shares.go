package store

import (
	"context"
	"database/sql"
	"strconv"
)

// Share sets who may ask a bot besides its owner: everybody, or some people; nobody ends it.
func (t Bots) Share(ctx context.Context, number int64, everybody bool, people []string) error {
	return t.db.changeAccess(ctx, func(tx *sql.Tx) error {
		return share(ctx, tx, "bot", number, everybody, people)
	})
}

// SetShared adds a person to those who may ask some bots by name, and removes the person from
// those of all others.
func (t Bots) SetShared(ctx context.Context, person string, numbers []int64) error {
	return t.db.changeAccess(ctx, func(tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, `DELETE FROM bot_people WHERE person = $1`, person); err != nil {
			return err
		}
		for _, n := range numbers {
			if _, err := tx.ExecContext(ctx, `INSERT INTO bot_people (bot, person) VALUES ($1, $2)`, n,
				person); err != nil {
				return err
			}
		}
		return nil
	})
}

// SharedWith lists the bots of others that a person may ask, by number, at most 1,000.
func (t Bots) SharedWith(ctx context.Context, person string) ([]Bot, error) {
	return all(ctx, t.db, readBot, `SELECT `+botColumns+` FROM bots WHERE `+isShared("bot", "$1")+
		` ORDER BY number LIMIT 1000`, person)
}

// Usable lists the bots that a person may ask: their own, by number, and then those that others
// share with them.
func (t Bots) Usable(ctx context.Context, person string) ([]Bot, error) {
	own, err := t.ByOwner(ctx, person)
	if err != nil || person == "" {
		return own, err
	}
	shared, err := t.SharedWith(ctx, person)
	return append(own, shared...), err
}

// MayAsk reports whether a bot belongs to a person or is shared with them.
func (t Bots) MayAsk(ctx context.Context, number int64, person string) (bool, error) {
	return readCached(ctx, t.db, cacheKey{"bot_people", strconv.FormatInt(number, 10) + " " + person},
		func(ctx context.Context) (bool, error) {
			return one(ctx, t.db, func(s scanner) (is bool, err error) {
				var n int
				err = s.Scan(&n)
				return n > 0, err
			}, `SELECT COUNT(*) FROM bots WHERE number = $2 AND (owner = $1 OR `+isShared("bot", "$1")+`)`, person, number)
		})
}

// Shares lists the ids of the people with whom bots are shared by name, by bot.
func (t Bots) Shares(ctx context.Context) (map[int64][]string, error) {
	return sharesOf(ctx, t.db, "bot")
}
