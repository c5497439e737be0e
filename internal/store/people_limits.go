package store

import (
	"context"
	"database/sql"
	"errors"
	"time"
)

// SetLimits replaces what a person may do. Instances reload the tools that the person has.
func (t People) SetLimits(ctx context.Context, id string, l PersonLimits) error {
	return t.db.changeAccess(ctx, func(tx *sql.Tx) error {
		if err := changed(tx.ExecContext(ctx, `UPDATE people SET limits = $2 WHERE id = $1`, id, l.text())); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, `UPDATE counters SET value = value + 1 WHERE name = 'tools'`)
		return err
	})
}

// SetPaused pauses an account since a time, and ends its sign-ins; the zero time resumes it. It
// returns [ErrLast] if nobody with the needed role would be left who is not paused.
func (t People) SetPaused(ctx context.Context, id string, since time.Time, needed string) error {
	at := int64(0)
	if !since.IsZero() {
		at = millis(since)
	}
	return t.db.changeAccess(ctx, func(tx *sql.Tx) error {
		if at != 0 {
			if err := t.requireOther(ctx, tx, id, needed); err != nil {
				return err
			}
			for _, query := range []string{`DELETE FROM sign_ins WHERE person = $1`, endInvitations} {
				if _, err := tx.ExecContext(ctx, query, id); err != nil {
					return err
				}
			}
		}
		if err := changed(tx.ExecContext(ctx, `UPDATE people SET paused_at = $2 WHERE id = $1`, id, at)); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, `UPDATE counters SET value = value + 1 WHERE name IN ('tools', 'devices', 'peers')`)
		return err
	})
}

// Restricted lists the people who have limits or are paused, by id.
func (t People) Restricted(ctx context.Context) (map[string]Person, error) {
	list, err := all(ctx, t.db, readPerson, `SELECT `+personColumns+` FROM people WHERE limits <> '' OR paused_at <> 0`)
	out := make(map[string]Person, len(list))
	for _, p := range list {
		out[p.ID] = p
	}
	return out, err
}

// TakeQuestion counts a question of a person on a day, such as 2026-11-28, unless most were counted
// on that day already. It reports whether it did. An earlier day than the last one, as in another
// time zone, counts as that.
func (t People) TakeQuestion(ctx context.Context, id, day string, most int) (bool, error) {
	n, err := t.db.exec(ctx, `INSERT INTO questions_asked (person, day, asked) VALUES ($1, $2, 1)
		ON CONFLICT (person) DO UPDATE SET
			asked = CASE WHEN questions_asked.day < excluded.day THEN 1 ELSE questions_asked.asked + 1 END,
			day = CASE WHEN questions_asked.day < excluded.day THEN excluded.day ELSE questions_asked.day END
		WHERE questions_asked.day < excluded.day OR questions_asked.asked < CAST($3 AS BIGINT)`, id, day, most)
	return n > 0, err
}

// QuestionsAsked returns how many questions were counted for a person on a day, as
// [People.TakeQuestion] counts.
func (t People) QuestionsAsked(ctx context.Context, id, day string) (int, error) {
	n, err := one(ctx, t.db, func(s scanner) (n int, err error) { return n, s.Scan(&n) },
		`SELECT asked FROM questions_asked WHERE person = $1 AND day >= $2`, id, day)
	if errors.Is(err, ErrNotFound) {
		err = nil
	}
	return n, err
}

// DayQuestions is how many questions were counted for a person on the last day with some.
type DayQuestions struct {
	Day   string // such as 2026-11-28
	Asked int
}

// EveryQuestionsAsked returns what was counted for people on a day or later, by their ids.
func (t People) EveryQuestionsAsked(ctx context.Context, since string) (map[string]DayQuestions, error) {
	counts := map[string]DayQuestions{}
	_, err := all(ctx, t.db, func(s scanner) (id string, err error) {
		var d DayQuestions
		if err = s.Scan(&id, &d.Day, &d.Asked); err == nil {
			counts[id] = d
		}
		return id, err
	}, `SELECT person, day, asked FROM questions_asked WHERE day >= $1`, since)
	return counts, err
}
