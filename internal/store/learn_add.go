package store

import (
	"context"
	"database/sql"
	"errors"
	"maps"
	"slices"
	"time"
)

// NewPoint is a point that is added, with its plan and what its log has already.
type NewPoint struct {
	Point    Point
	Sittings []Sitting
	Log      []LogEntry
}

// Add adds points, all or none, and gives them their numbers. An id or an origin
// that their person uses already is [ErrExists].
func (t Learn) Add(ctx context.Context, person string, points []NewPoint) error {
	return numbered(points, func() error {
		return t.commit(ctx, person, func(ctx context.Context, tx *sql.Tx) error {
			var d learnDeltas
			if err := t.db.settle(ctx, tx, person, points); err != nil {
				return err
			}
			for i := range points {
				if err := t.db.insertPoint(ctx, tx, person, &points[i], ""); err != nil {
					return err
				}
				d.added(&points[i])
			}
			return d.write(ctx, tx, person)
		})
	})
}

// numberTries is how often points get other numbers because another instance had
// made the same ones in the same millisecond.
const numberTries = 3

// numbered gives points their numbers and writes them. Whether a number was taken
// or an id cannot be told apart: an id is still taken when it is written again.
func numbered(points []NewPoint, write func() error) error {
	for try := 1; ; try++ {
		for i := range points {
			points[i].Point.Number = pointNumber()
		}
		if err := write(); try == numberTries || !errors.Is(err, ErrExists) {
			return err
		}
	}
}

// settle puts points that were meant for a deck that is gone into the one that
// everybody has.
func (db *DB) settle(ctx context.Context, tx *sql.Tx, person string, points []NewPoint) (err error) {
	known := map[string]string{"": ""}
	for i := range points {
		p := &points[i].Point
		deck, ok := known[p.Deck]
		if !ok {
			if deck, err = db.standing(ctx, tx, person, p.Deck); err != nil {
				return err
			}
			known[p.Deck] = deck
		}
		p.Deck = deck
	}
	return nil
}

// standing says where a point goes that is meant for a deck: into it, and the deck
// stays until the transaction ends; or, if it was deleted in between, to where its
// points went.
func (db *DB) standing(ctx context.Context, tx *sql.Tx, person, deck string) (string, error) {
	if deck == "" {
		return "", nil
	}
	var id string
	err := tx.QueryRowContext(ctx, db.locking(`SELECT id FROM learn_decks WHERE person = $1 AND id = $2`, `FOR KEY SHARE`), person, deck).Scan(&id)
	if errors.Is(err, sql.ErrNoRows) {
		return "", nil
	}
	return id, err
}

func (d *learnDeltas) added(n *NewPoint) {
	d.count(&n.Point, 1)
	d.tag(n.Point.Tags, 1)
	for i := range n.Log {
		d.logged(&n.Log[i])
	}
}

func (db *DB) insertPoint(ctx context.Context, tx *sql.Tx, person string, n *NewPoint, staged string) error {
	p := &n.Point
	p.Person, p.Version = person, 1
	args := append([]any{p.Number, p.ID, p.Person, p.Version, nullString(staged)}, pointValues(p)...)
	_, err := tx.ExecContext(ctx, `INSERT INTO learn_points (number, id, person, version, staged, `+pointValueColumns+`) VALUES
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
		// What was imported, deleted for good and is imported again has its log still.
		if err := writeLog(ctx, tx, &n.Log[i], ` ON CONFLICT (person, id) DO UPDATE SET point = excluded.point`); err != nil {
			return err
		}
	}
	return nil
}

// An Import adds many points in several steps. None of them is seen before
// [Import.Finish]; those of an import that was given up go with [Import.Abort], or
// with time.
type Import struct {
	t      Learn
	person string
	name   string
	deltas learnDeltas
	staged int
}

// NewImport begins an import. Its name is unique for ever.
func (t Learn) NewImport(person, name string) *Import {
	return &Import{t: t, person: person, name: name}
}

// Stage writes some points. A thousand at a time keep others waiting for some
// hundred milliseconds.
func (m *Import) Stage(ctx context.Context, points []NewPoint) error {
	ctx = patient(ctx)
	err := numbered(points, func() error {
		return m.t.db.tx(ctx, func(tx *sql.Tx) error {
			if err := m.t.db.settle(ctx, tx, m.person, points); err != nil {
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
			m.deltas.added(&points[i])
		}
	}
	return err
}

// PointEdit is what an import writes anew about a point that is there.
type PointEdit struct {
	ID               string
	Question, Answer string
	Tags             []string
	Words            []string
	Updated          time.Time
}

// Finish changes points that are there and makes everything that was staged
// visible, all at once.
func (m *Import) Finish(ctx context.Context, edits []PointEdit) error {
	err := m.finish(ctx, edits)
	if err == nil && m.staged > manyRows {
		m.t.db.lookAgain(ctx, "learn_points", "learn_sittings", "learn_tags", "learn_log", "learn_words")
	}
	return err
}

// manyRows is how many new points make the database look again at how its tables
// are filled.
const manyRows = 1000

func (m *Import) finish(ctx context.Context, edits []PointEdit) error {
	ctx = patient(ctx)
	return m.t.db.tx(ctx, func(tx *sql.Tx) error {
		if err := m.resettle(ctx, tx); err != nil {
			return err
		}
		for i := range edits {
			if err := m.edit(ctx, tx, &edits[i]); err != nil {
				return err
			}
		}
		if _, err := tx.ExecContext(ctx, `UPDATE learn_points SET staged = NULL WHERE staged = $1`, m.name); err != nil {
			return err
		}
		return m.deltas.write(ctx, tx, m.person)
	})
}

// resettle counts what was staged for a deck that is gone where it went.
func (m *Import) resettle(ctx context.Context, tx *sql.Tx) error {
	decks := map[string]bool{}
	for k := range m.deltas.counts {
		decks[k.Deck] = true
	}
	for _, from := range slices.Sorted(maps.Keys(decks)) {
		to, err := m.t.db.standing(ctx, tx, m.person, from)
		if err != nil {
			return err
		}
		if to != from {
			m.deltas.moved(from, to)
		}
	}
	return nil
}

// moved counts what was one deck's as another's.
func (d *learnDeltas) moved(from, to string) {
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
	// Locked, or others change the tags before they are counted.
	query := m.t.db.locking(`SELECT tags FROM learn_points WHERE person = $1 AND id = $2 AND staged IS NULL`, `FOR UPDATE`)
	var tags string
	if err := tx.QueryRowContext(ctx, query, m.person, e.ID).Scan(&tags); err == nil {
		m.deltas.tag(splitTags(tags), -1)
		m.deltas.tag(e.Tags, 1)
	}
	err := tx.QueryRowContext(ctx, `UPDATE learn_points SET question = $1, answer = $2, tags = $3, updated_at = $4, version = version + 1
		WHERE person = $5 AND id = $6 AND staged IS NULL RETURNING number`,
		texts([]any{e.Question, e.Answer, joinTags(e.Tags), millis(e.Updated), m.person, e.ID})...).Scan(&p.Number)
	if errors.Is(err, sql.ErrNoRows) {
		return nil // it was deleted for good in between
	}
	if err != nil {
		return err
	}
	if err := writeTags(ctx, tx, &p, true); err != nil {
		return err
	}
	return m.t.db.writeWords(ctx, tx, &p, true)
}

// Abort deletes what was staged.
func (m *Import) Abort(ctx context.Context) error {
	return m.t.db.removePoints(ctx, `staged = $1`, m.name)
}

// Known lists the ids of a person's points, and where they came from, also of those
// in the trash.
func (t Learn) Known(ctx context.Context, person string) (ids map[string]bool, byOrigin map[string]string, err error) {
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

// removePoints deletes points for good, with all that belongs to them but the
// review log.
func (db *DB) removePoints(ctx context.Context, condition string, args ...any) error {
	ctx = patient(ctx)
	return db.tx(ctx, func(tx *sql.Tx) error {
		if err := db.dropWords(ctx, tx, condition, args...); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, `DELETE FROM learn_points WHERE `+condition, args...)
		return err
	})
}

// EmptyTrash deletes for good what a person put into the trash before a moment,
// and returns how many points went. An empty person means everybody.
func (t Learn) EmptyTrash(ctx context.Context, person string, before time.Time) (int, error) {
	n, err := t.db.batches(ctx, func(tx *sql.Tx, limit int) (int64, error) {
		return t.emptySome(ctx, tx, person, millis(before), limit)
	})
	return int(n), err
}

func (t Learn) emptySome(ctx context.Context, tx *sql.Tx, person string, before int64, limit int) (n int64, err error) {
	const condition = `number IN (SELECT number FROM learn_points WHERE deleted_at < $1 AND staged IS NULL AND ($2 = '' OR person = $2)
		ORDER BY person, deleted_at, number LIMIT $3)`
	byPerson := map[string]*learnDeltas{}
	rows, err := tx.QueryContext(ctx, `SELECT person, deck, tags FROM learn_points WHERE `+condition, before, person, limit)
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
		byPerson[who].tag(splitTags(tags), -1)
	}
	if err := errors.Join(rows.Err(), rows.Close()); err != nil || n == 0 {
		return 0, err
	}
	// What was said goes with the point; that there was a review stays.
	if _, err := tx.ExecContext(ctx, `UPDATE learn_log SET recall = '' WHERE recall <> '' AND point IN (SELECT number FROM learn_points WHERE `+condition+`)`, before, person, limit); err != nil {
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
