package store

import (
	"context"
	"time"
)

// LogRevision is an entry of the review log whose computed fields change, because a review before
// it became known after it: Sitting, Queue, Elapsed, Before and After. It is the only change of an
// entry that is written. When it happened, and what the person did, never changes.
type LogRevision struct{ Was, Now LogEntry }

// History returns the point's reviews and rescheduling since a time, inclusive, oldest first.
// Reviews that were undone are left out.
func (c *PointChange) History(ctx context.Context, since time.Time) ([]LogEntry, error) {
	rows, err := c.tx.QueryContext(ctx, `SELECT `+logColumns+
		` FROM learn_log WHERE point = $1 AND at >= $2 ORDER BY at, id`, c.before.Number, millis(since))
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var list []LogEntry
	undone := map[string]bool{}
	for rows.Next() {
		e, err := readLog(rows)
		if err != nil {
			return nil, err
		}
		if e.Kind == LogUndo {
			undone[e.Undoes] = true // an undo is later than its review
			continue
		}
		list = append(list, e)
	}
	out := list[:0]
	for _, e := range list {
		if !undone[e.ID] {
			out = append(out, e)
		}
	}
	return out, rows.Err()
}

// writeRevisions writes the computed fields of entries, and counts their days again.
func (c *PointChange) writeRevisions(ctx context.Context, db *DB, d *learnDeltas) error {
	for i := range c.Revised {
		was, now := &c.Revised[i].Was, &c.Revised[i].Now
		d.more.add(`UPDATE learn_log SET sitting = $1, queue = $2, elapsed = $3, state = $4, outcome = $5
			WHERE person = $6 AND id = $7`, sanitizeArgs([]any{now.Sitting, int64(now.Queue), now.Elapsed,
			string(now.Before), string(now.After), c.before.Person, was.ID})...)
		if was.Kind != LogReview {
			continue
		}
		deck, err := db.resolveDeck(ctx, c.tx, c.before.Person, was.Deck)
		if err != nil {
			return err
		}
		d.countAs(deck, was, -1)
		d.countAs(deck, now, 1)
	}
	return nil
}

// countAs adds n to what a review is counted as, beside its grade: the first of its point, or one
// that was due.
func (d *learnDeltas) countAs(deck string, e *LogEntry, n int) {
	w := d.day(deck, e.Day)
	switch {
	case e.Elapsed < 0:
		w.Fresh += n
	case e.Queue == QueueDay:
		w.Due += n
	}
}

// day returns the counters of a deck on a day.
func (d *learnDeltas) day(deck string, day Day) *DayWork {
	if d.days == nil {
		d.days = map[dayKey]*DayWork{}
	}
	k := dayKey{deck, day}
	if d.days[k] == nil {
		d.days[k] = &DayWork{}
	}
	return d.days[k]
}
