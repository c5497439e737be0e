package store

import (
	"context"
	"database/sql"
	"errors"
	"maps"
	"slices"
	"time"
)

// NewPoint is a point to add, with its plan and existing log entries.
type NewPoint struct {
	Point    Point
	Sittings []Sitting
	Log      []LogEntry
}

// Add inserts points, all or none, and assigns their numbers. It returns [ErrExists] if the person
// already uses an id or an origin.
func (t Learn) Add(ctx context.Context, person string, points []NewPoint) error {
	return withNumbers(points, func() error {
		return t.commit(ctx, person, func(ctx context.Context, tx *sql.Tx) error {
			var d learnDeltas
			if err := t.db.resolveDecks(ctx, tx, person, points); err != nil {
				return err
			}
			for i := range points {
				if err := t.db.insertPoint(ctx, tx, person, &points[i], ""); err != nil {
					return err
				}
				d.countAdded(&points[i])
			}
			return d.write(ctx, tx, person)
		})
	})
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

// resolveDecks moves points of deleted decks to the default deck.
func (db *DB) resolveDecks(ctx context.Context, tx *sql.Tx, person string, points []NewPoint) (err error) {
	known := map[string]string{"": ""}
	for i := range points {
		p := &points[i].Point
		deck, ok := known[p.Deck]
		if !ok {
			if deck, err = db.resolveDeck(ctx, tx, person, p.Deck); err != nil {
				return err
			}
			known[p.Deck] = deck
		}
		p.Deck = deck
	}
	return nil
}

// resolveDeck returns the deck for a new point: the given one, locked against deletion until the
// transaction ends, or the default deck if it has been deleted, as its other points.
func (db *DB) resolveDeck(ctx context.Context, tx *sql.Tx, person, deck string) (string, error) {
	if deck == "" {
		return "", nil
	}
	var id string
	err := tx.QueryRowContext(ctx, db.locking(`SELECT id FROM learn_decks WHERE person = $1 AND id = $2`,
		`FOR KEY SHARE`), person, deck).Scan(&id)
	if errors.Is(err, sql.ErrNoRows) {
		return "", nil
	}
	return id, err
}

func (d *learnDeltas) countAdded(n *NewPoint) {
	d.countPoint(&n.Point, 1)
	d.countTags(n.Point.Tags, 1)
	for i := range n.Log {
		d.countReview(&n.Log[i])
	}
}

func (db *DB) insertPoint(ctx context.Context, tx *sql.Tx, person string, n *NewPoint, staged string) error {
	p := &n.Point
	p.Person, p.Version = person, 1
	args := append([]any{p.Number, p.ID, p.Person, p.Version, nullString(staged)}, pointValues(p)...)
	_, err := tx.ExecContext(ctx, `INSERT INTO learn_points (number, id, person, version, staged, `+pointValueColumns+
		`) VALUES
		($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23, $24, $25, $26, $27, $28, $29)`, args...)
	if err != nil {
		return err
	}
	if err := writeTags(ctx, tx, p, false); err != nil {
		return err
	}
	if err := db.writeWords(ctx, tx, p, false); err != nil {
		return err
	}
	for i := range n.Sittings {
		n.Sittings[i].Point = p.Number
		if err := insertSitting(ctx, tx, person, &n.Sittings[i]); err != nil {
			return err
		}
	}
	for i := range n.Log {
		n.Log[i].Point, n.Log[i].Person, n.Log[i].Deck = p.Number, person, p.Deck
		// The log survives deletion, so a point that is imported again has entries already.
		if err := writeLog(ctx, tx, &n.Log[i],
			` ON CONFLICT (person, id) DO UPDATE SET point = excluded.point`); err != nil {
			return err
		}
	}
	return nil
}

// Import adds many points in several steps. They are invisible until [Import.Finish];
// [Import.Abort] deletes them.
type Import struct {
	t      Learn
	person string
	name   string
	deltas learnDeltas
	staged int
}

// NewImport begins an import. The name must be unique and never reused.
func (t Learn) NewImport(person, name string) *Import {
	return &Import{t: t, person: person, name: name}
}

// Stage writes some points. A thousand at a time block other writers for some hundred milliseconds.
func (m *Import) Stage(ctx context.Context, points []NewPoint) error {
	ctx = longRunning(ctx)
	err := withNumbers(points, func() error {
		return m.t.db.tx(ctx, func(tx *sql.Tx) error {
			if err := m.t.db.resolveDecks(ctx, tx, m.person, points); err != nil {
				return err
			}
			for i := range points {
				if err := m.t.db.insertPoint(ctx, tx, m.person, &points[i], m.name); err != nil {
					return err
				}
			}
			return nil
		})
	})
	if err == nil {
		m.staged += len(points)
		for i := range points {
			m.deltas.countAdded(&points[i])
		}
	}
	return err
}

// PointEdit is an update of an existing point by an import.
type PointEdit struct {
	ID               string
	Question, Answer string
	Tags             []string
	Words            []string
	Updated          time.Time
}

// Finish applies edits to existing points and makes all staged points visible, in one transaction.
func (m *Import) Finish(ctx context.Context, edits []PointEdit) error {
	err := m.finish(ctx, edits)
	if err == nil && m.staged > analyzeThreshold {
		m.t.db.analyzeTables(ctx, "learn_points", "learn_sittings", "learn_tags", "learn_log", "learn_words")
	}
	return err
}

// analyzeThreshold is the number of new points after which the table statistics are updated.
const analyzeThreshold = 1000

func (m *Import) finish(ctx context.Context, edits []PointEdit) error {
	ctx = longRunning(ctx)
	return m.t.db.tx(ctx, func(tx *sql.Tx) error {
		if err := m.recountMovedDecks(ctx, tx); err != nil {
			return err
		}
		for i := range edits {
			if err := m.edit(ctx, tx, &edits[i]); err != nil {
				return err
			}
		}
		if _, err := tx.ExecContext(ctx, `UPDATE learn_points SET staged = NULL WHERE staged = $1`,
			m.name); err != nil {
			return err
		}
		return m.deltas.write(ctx, tx, m.person)
	})
}

// recountMovedDecks moves the counters of decks that were deleted during the import.
func (m *Import) recountMovedDecks(ctx context.Context, tx *sql.Tx) error {
	decks := map[string]bool{}
	for k := range m.deltas.counts {
		decks[k.Deck] = true
	}
	for _, from := range slices.Sorted(maps.Keys(decks)) {
		to, err := m.t.db.resolveDeck(ctx, tx, m.person, from)
		if err != nil {
			return err
		}
		if to != from {
			m.deltas.moveDeck(from, to)
		}
	}
	return nil
}

// moveDeck moves the counters of one deck to another.
func (d *learnDeltas) moveDeck(from, to string) {
	for k, n := range maps.Clone(d.counts) {
		if k.Deck == from {
			delete(d.counts, k)
			k.Deck = to
			d.counts[k] += n
		}
	}
	for k, w := range maps.Clone(d.days) {
		if k.deck == from {
			delete(d.days, k)
			k.deck = to
			if there := d.days[k]; there != nil {
				there.add(w)
			} else {
				d.days[k] = w
			}
		}
	}
}

func (w *DayWork) add(more *DayWork) {
	w.Fresh, w.Due, w.Took = w.Fresh+more.Fresh, w.Due+more.Due, w.Took+more.Took
	w.Again, w.Hard, w.Good, w.Easy = w.Again+more.Again, w.Hard+more.Hard, w.Good+more.Good, w.Easy+more.Easy
}

func (m *Import) edit(ctx context.Context, tx *sql.Tx, e *PointEdit) error {
	p := Point{ID: e.ID, Person: m.person, Tags: e.Tags, Words: e.Words}
	// The lock prevents changes to the tags before they are counted.
	query := m.t.db.locking(`SELECT tags FROM learn_points WHERE person = $1 AND id = $2 AND staged IS NULL`,
		`FOR UPDATE`)
	var tags string
	if err := tx.QueryRowContext(ctx, query, m.person, e.ID).Scan(&tags); err == nil {
		m.deltas.countTags(splitTags(tags), -1)
		m.deltas.countTags(e.Tags, 1)
	}
	err := tx.QueryRowContext(ctx,
		`UPDATE learn_points SET question = $1, answer = $2, tags = $3, updated_at = $4, version = version + 1
		WHERE person = $5 AND id = $6 AND staged IS NULL RETURNING number`,
		sanitizeArgs([]any{e.Question, e.Answer, joinTags(e.Tags), millis(e.Updated), m.person, e.ID})...).
		Scan(&p.Number)
	if errors.Is(err, sql.ErrNoRows) {
		return nil // it was deleted for good meanwhile
	}
	if err != nil {
		return err
	}
	if err := writeTags(ctx, tx, &p, true); err != nil {
		return err
	}
	return m.t.db.writeWords(ctx, tx, &p, true)
}

// Abort deletes the staged points.
func (m *Import) Abort(ctx context.Context) error {
	return m.t.db.removePoints(ctx, `staged = $1`, m.name)
}

// PointIDs returns the ids of a person's points, and the ids by origin, including the trash.
func (t Learn) PointIDs(ctx context.Context, person string) (ids map[string]bool, byOrigin map[string]string,
	err error) {
	type row struct{ origin, id string }
	rows, err := all(ctx, t.db, func(s scanner) (r row, err error) { return r, s.Scan(&r.origin, &r.id) },
		`SELECT origin, id FROM learn_points WHERE person = $1 AND staged IS NULL`, person)
	ids, byOrigin = make(map[string]bool, len(rows)), map[string]string{}
	for _, r := range rows {
		ids[r.id] = true
		if r.origin != "" {
			byOrigin[r.origin] = r.id
		}
	}
	return ids, byOrigin, err
}

// removePoints permanently deletes points and all their data except the review log.
func (db *DB) removePoints(ctx context.Context, condition string, args ...any) error {
	ctx = longRunning(ctx)
	return db.tx(ctx, func(tx *sql.Tx) error {
		if err := db.dropWords(ctx, tx, condition, args...); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, `DELETE FROM learn_points WHERE `+condition, args...)
		return err
	})
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
	rows, err := tx.QueryContext(ctx, `SELECT person, deck, tags FROM learn_points WHERE `+condition, before, person,
		limit)
	if err != nil {
		return 0, err
	}
	for rows.Next() {
		var who, deck, tags string
		if err := rows.Scan(&who, &deck, &tags); err != nil {
			rows.Close()
			return 0, err
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
	for who, d := range byPerson {
		if err := d.write(ctx, tx, who); err != nil {
			return 0, err
		}
	}
	return n, nil
}
