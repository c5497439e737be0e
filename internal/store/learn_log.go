package store

import (
	"context"
	"time"
)

const logColumns = `id, person, point, deck, kind, at, day, zone, grade, queue, sitting, recall, score, took_ms, channel, elapsed, state, outcome, undoes, source`

func readLog(s scanner) (e LogEntry, err error) {
	var at, took int64
	var before, after string
	err = s.Scan(&e.ID, &e.Person, &e.Point, &e.Deck, &e.Kind, &at, &e.Day, &e.Zone, &e.Grade, &e.Queue, &e.Sitting,
		&e.Recall, &e.Score, &took, &e.Channel, &e.Elapsed, &before, &after, &e.Undoes, &e.Source)
	e.At, e.Took = fromMillis(at), time.Duration(took)*time.Millisecond
	e.Before, e.After = []byte(before), []byte(after)
	return e, err
}

// Log lists a person's review log after a time and id, oldest first, of one point, or of all if
// point is 0.
func (t Learn) Log(ctx context.Context, person string, point int64, after time.Time, afterID string,
	limit int) ([]LogEntry, error) {
	const query = `SELECT ` + logColumns + ` FROM learn_log WHERE person = $1 AND (at, id) > ($2, $3)`
	from := zeroMillis(after)
	if after.IsZero() {
		from = -1 << 60
	}
	if point == 0 {
		return all(ctx, t.db, readLog, query+` ORDER BY at, id LIMIT $4`, person, from, afterID, limit)
	}
	return all(ctx, t.db, readLog, query+` AND point = $4 ORDER BY at, id LIMIT $5`, person, from, afterID, point,
		limit)
}

// Entry returns an entry of the review log.
func (t Learn) Entry(ctx context.Context, person, id string) (LogEntry, error) {
	return one(ctx, t.db, readLog, `SELECT `+logColumns+` FROM learn_log WHERE person = $1 AND id = $2`, person, id)
}

// LastReview returns a person's last review that was not undone, or ErrNotFound.
func (t Learn) LastReview(ctx context.Context, person string) (LogEntry, error) {
	undone := map[string]bool{}
	at, id := int64(1)<<62, ""
	for limit := 20; ; limit *= 4 {
		page, err := all(ctx, t.db, readLog, `SELECT `+logColumns+
			` FROM learn_log WHERE person = $1 AND (at, id) < ($2, $3) ORDER BY at DESC, id DESC LIMIT $4`, person, at,
			id, limit)
		if err != nil {
			return LogEntry{}, err
		}
		if e, ok := lastReview(page, undone); ok {
			return e, nil
		}
		if len(page) < limit {
			return LogEntry{}, ErrNotFound
		}
		last := page[len(page)-1]
		at, id = millis(last.At), last.ID
	}
}

// lastReview returns the newest review that was not undone among entries, newest first. An undo is
// newer than its review, and is recorded in undone.
func lastReview(entries []LogEntry, undone map[string]bool) (LogEntry, bool) {
	for _, e := range entries {
		switch {
		case e.Kind == LogUndo:
			undone[e.Undoes] = true
		case e.Kind == LogReview && !undone[e.ID]:
			return e, true
		}
	}
	return LogEntry{}, false
}
