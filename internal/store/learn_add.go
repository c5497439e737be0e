package store

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"strings"
	"time"
)

// NewPoint is a point to add, with its plan and existing log entries.
type NewPoint struct {
	Point    Point
	Sittings []Sitting
	Log      []LogEntry

	known []string // ids of entries of the log that the person had already; they are not in Log any more
}

// Add inserts points, all or none, and assigns their numbers. It returns [ErrExists] if the person
// already uses an id or an origin.
func (t Learn) Add(ctx context.Context, person string, points []NewPoint) error {
	return withNumbers(points, func() error {
		return t.commit(ctx, func(ctx context.Context, tx *sql.Tx) error {
			return t.add(ctx, tx, person, points, nil)
		})
	})
}

// AddNote inserts a note, whose number is of [NewNoteNumber], and its points, all or none. The
// person must have no note with its GUID.
func (t Learn) AddNote(ctx context.Context, n *Note, points []NewPoint) error {
	return withNumbers(points, func() error {
		return t.commit(ctx, func(ctx context.Context, tx *sql.Tx) error {
			return t.add(ctx, tx, n.Person, points, n)
		})
	})
}

// add adds points, and their note if it is not nil.
func (t Learn) add(ctx context.Context, tx *sql.Tx, person string, points []NewPoint, n *Note) error {
	var d learnDeltas
	if err := t.db.resolveDecks(ctx, tx, person, points, t.db.lock(person)...); err != nil {
		return err
	}
	if n != nil {
		values, err := noteValues(n, "")
		if err != nil {
			return err
		}
		d.more.add(insertNote, values...)
	}
	for i := range points {
		if err := insertPoint(ctx, tx, person, &points[i], "", &d.rows); err != nil {
			return err
		}
		d.countAdded(&points[i])
	}
	if err := d.write(ctx, t.db, tx, person); err != nil {
		return err
	}
	for i := range points {
		if err := adoptLog(ctx, tx, person, points[i].Point.Number, points[i].known); err != nil {
			return err
		}
	}
	return nil
}

// numberTries is the number of attempts to write points with new numbers, in case another instance
// generated the same ones in the same millisecond.
const numberTries = 3

// withNumbers assigns numbers and writes points, and retries with other numbers on ErrExists. A
// taken number cannot be told from a taken id, but a taken id fails again.
func withNumbers(points []NewPoint, write func() error) error {
	for try := 1; ; try++ {
		for i := range points {
			points[i].Point.Number = newPointNumber()
		}
		if err := write(); try == numberTries || !errors.Is(err, ErrExists) {
			return err
		}
	}
}

// resolveDecks moves points of deleted decks to the default deck, and locks the others against
// deletion until the transaction ends. Some readings are done before.
func (db *DB) resolveDecks(ctx context.Context, tx *sql.Tx, person string, points []NewPoint,
	list ...reading) error {
	var found []string
	known := map[string]bool{"": true}
	for i := range points {
		if deck := points[i].Point.Deck; !known[deck] {
			known[deck] = true
			list = append(list, db.deckReading(&found, person, deck))
		}
	}
	if err := db.readIn(ctx, tx, list...); err != nil {
		return err
	}
	for i := range points {
		if p := &points[i].Point; !slices.Contains(found, p.Deck) {
			p.Deck = ""
		}
	}
	return nil
}

// deckReading appends a deck to found, locked against deletion until the transaction ends, unless
// it has been deleted.
func (db *DB) deckReading(found *[]string, person, deck string) reading {
	return into(found, func(s scanner) (id string, err error) { return id, s.Scan(&id) },
		db.locking(`SELECT id FROM learn_decks WHERE person = $1 AND id = $2`, `FOR KEY SHARE`), person, deck)
}

// resolveDeck returns the deck for a new point: the given one, locked against deletion until the
// transaction ends, or the default deck if it has been deleted, as its other points.
func (db *DB) resolveDeck(ctx context.Context, tx *sql.Tx, person, deck string) (string, error) {
	if deck == "" {
		return "", nil
	}
	var found []string
	err := db.readIn(ctx, tx, db.deckReading(&found, person, deck))
	return strings.Join(found, ""), err
}

func (d *learnDeltas) countAdded(n *NewPoint) {
	d.countPoint(&n.Point, 1)
	d.countTags(n.Point.Tags, 1)
	for i := range n.Log {
		d.countReview(&n.Log[i])
	}
}

// insertPoint adds a point and its plan to r, and writes its entries of the log.
func insertPoint(ctx context.Context, tx *sql.Tx, person string, n *NewPoint, staged string, r *pointRows) error {
	p := &n.Point
	p.Person, p.Version = person, 1
	r.points = append(r.points, append([]any{p.Number, p.ID, p.Person, p.Version, nullString(staged)},
		pointValues(p)...))
	r.putTags(p, nil)
	r.putWords(p, false)
	for i := range n.Sittings {
		n.Sittings[i].Point = p.Number
		r.sittings = append(r.sittings, sittingValues(person, &n.Sittings[i]))
	}
	fresh := n.Log[:0:0]
	for i := range n.Log {
		e := &n.Log[i]
		e.Point, e.Person, e.Deck = p.Number, person, p.Deck
		// The log survives deletion, so a point that is imported again may have entries, which were
		// counted when they were written.
		added, err := affected(tx.ExecContext(ctx, insertLog+` ON CONFLICT (person, id) DO NOTHING`, logValues(e)...))
		if err != nil {
			return err
		}
		if added == 0 {
			n.known = append(n.known, e.ID)
		} else {
			fresh = append(fresh, *e)
		}
	}
	n.Log = fresh
	return nil
}

// adoptLog gives a point the entries of the log that it brought and that belong to no point any
// more.
func adoptLog(ctx context.Context, tx *sql.Tx, person string, point int64, entries []string) error {
	for _, id := range entries {
		if _, err := tx.ExecContext(ctx, `UPDATE learn_log SET point = $1 WHERE person = $2 AND id = $3
			AND NOT EXISTS (SELECT 1 FROM learn_points p WHERE p.number = learn_log.point)`,
			sanitizeArgs([]any{point, person, id})...); err != nil {
			return err
		}
	}
	return nil
}

// CardKey is a card of a note.
type CardKey struct {
	Note int64
	Ord  int
}

// PointIDs returns the ids of a person's points, and the ids by origin and by card, including the
// trash.
func (t Learn) PointIDs(ctx context.Context, person string) (ids map[string]bool, byOrigin map[string]string,
	byCard map[CardKey]string, err error) {
	type row struct {
		origin, id string
		card       CardKey
	}
	rows, err := all(ctx, t.db, func(s scanner) (r row, err error) {
		return r, s.Scan(&r.origin, &r.id, &r.card.Note, &r.card.Ord)
	}, `SELECT origin, id, note, ord FROM learn_points WHERE person = $1 AND staged IS NULL`, person)
	ids, byOrigin, byCard = make(map[string]bool, len(rows)), map[string]string{}, map[CardKey]string{}
	for _, r := range rows {
		ids[r.id] = true
		if r.origin != "" {
			byOrigin[r.origin] = r.id
		}
		if r.card.Note != 0 {
			byCard[r.card] = r.id
		}
	}
	return ids, byOrigin, byCard, err
}

// EmptyTrash permanently deletes the points that a person put into the trash before a time, and
// returns their number. An empty person means everybody.
func (t Learn) EmptyTrash(ctx context.Context, person string, before time.Time) (int, error) {
	n, err := t.db.runInBatches(ctx, func(tx *sql.Tx, limit int) (int64, error) {
		return t.emptyTrashBatch(ctx, tx, person, millis(before), limit)
	})
	return int(n), err
}

func (t Learn) emptyTrashBatch(ctx context.Context, tx *sql.Tx, person string, before int64,
	limit int) (n int64, err error) {
	const condition = `number IN (SELECT number FROM learn_points WHERE deleted_at < $1 AND staged IS NULL AND ($2 = '' OR person = $2)
		ORDER BY person, deleted_at, number LIMIT $3)`
	byPerson := map[string]*learnDeltas{}
	rows, err := tx.QueryContext(ctx, `SELECT person, deck, tags, note FROM learn_points WHERE `+condition, before,
		person, limit)
	if err != nil {
		return 0, err
	}
	var notes []int64
	for rows.Next() {
		var who, deck, tags string
		var note int64
		if err := rows.Scan(&who, &deck, &tags, &note); err != nil {
			rows.Close()
			return 0, err
		}
		if note != 0 {
			notes = append(notes, note)
		}
		if byPerson[who] == nil {
			byPerson[who] = &learnDeltas{counts: map[Count]int{}}
		}
		n++
		byPerson[who].counts[Count{Deck: deck, Queue: QueueTrash}]--
		byPerson[who].countTags(splitTags(tags), -1)
	}
	if err := errors.Join(rows.Err(), rows.Close()); err != nil || n == 0 {
		return 0, err
	}
	// The recalled text is deleted with the point; the review itself stays in the log.
	if _, err := tx.ExecContext(ctx,
		`UPDATE learn_log SET recall = '' WHERE recall <> '' AND point IN (SELECT number FROM learn_points WHERE `+
			condition+`)`, before, person, limit); err != nil {
		return 0, err
	}
	if err := t.db.dropWords(ctx, tx, condition, before, person, limit); err != nil {
		return 0, err
	}
	if _, err := tx.ExecContext(ctx, `DELETE FROM learn_points WHERE `+condition, before, person, limit); err != nil {
		return 0, err
	}
	if err := dropNotes(ctx, tx, notes); err != nil {
		return 0, err
	}
	for who, d := range byPerson {
		if err := d.write(ctx, t.db, tx, who); err != nil {
			return 0, err
		}
	}
	return n, nil
}
