package store

import (
	"context"
	"database/sql"
	"errors"
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
	for i := range points {
		points[i].Point.Number = pointNumber()
	}
	return t.db.commits.commit(ctx, func(ctx context.Context, tx *sql.Tx) error {
		var d learnDeltas
		for i := range points {
			if err := t.db.insertPoint(ctx, tx, person, &points[i], ""); err != nil {
				return err
			}
			d.added(&points[i])
		}
		return d.write(ctx, tx, person)
	})
}

func (d *learnDeltas) added(n *NewPoint) {
	d.count(&n.Point, 1)
	for i := range n.Log {
		d.logged(n.Point.Deck, &n.Log[i])
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
		n.Log[i].Point, n.Log[i].Person = p.Number, person
		if err := writeLog(ctx, tx, &n.Log[i]); err != nil {
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
}

// NewImport begins an import. Its name is unique for ever.
func (t Learn) NewImport(person, name string) *Import {
	return &Import{t: t, person: person, name: name}
}

// Stage writes some points. A thousand at a time keep others waiting for some
// hundred milliseconds.
func (m *Import) Stage(ctx context.Context, points []NewPoint) error {
	for i := range points {
		points[i].Point.Number = pointNumber()
	}
	err := m.t.db.tx(ctx, func(tx *sql.Tx) error {
		for i := range points {
			if err := m.t.db.insertPoint(ctx, tx, m.person, &points[i], m.name); err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil {
		for i := range points {
			m.deltas.added(&points[i])
		}
	}
	return err
}

// Finish makes everything that was staged visible at once.
func (m *Import) Finish(ctx context.Context) error {
	return m.t.db.tx(ctx, func(tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, `UPDATE learn_points SET staged = NULL WHERE staged = $1`, m.name); err != nil {
			return err
		}
		return m.deltas.write(ctx, tx, m.person)
	})
}

// Abort deletes what was staged.
func (m *Import) Abort(ctx context.Context) error {
	return m.t.db.removePoints(ctx, `staged = $1`, m.name)
}

// Origins finds which of a person's points came from where, also in the trash.
func (t Learn) Origins(ctx context.Context, person string) (map[string]string, error) {
	type row struct{ origin, id string }
	rows, err := all(ctx, t.db, func(s scanner) (r row, err error) { return r, s.Scan(&r.origin, &r.id) },
		`SELECT origin, id FROM learn_points WHERE person = $1 AND origin <> '' AND staged IS NULL`, person)
	out := make(map[string]string, len(rows))
	for _, r := range rows {
		out[r.origin] = r.id
	}
	return out, err
}

// removePoints deletes points for good, with all that belongs to them but the
// review log.
func (db *DB) removePoints(ctx context.Context, condition string, args ...any) error {
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
	n := 0
	err := t.db.tx(ctx, func(tx *sql.Tx) error {
		const condition = `deleted_at < $1 AND staged IS NULL AND ($2 = '' OR person = $2)`
		rows, err := tx.QueryContext(ctx, `SELECT person, deck, COUNT(*) FROM learn_points WHERE `+condition+` GROUP BY person, deck`, millis(before), person)
		if err != nil {
			return err
		}
		byPerson := map[string]*learnDeltas{}
		for rows.Next() {
			var who string
			c := Count{}
			if err := rows.Scan(&who, &c.Deck, &c.N); err != nil {
				rows.Close()
				return err
			}
			if byPerson[who] == nil {
				byPerson[who] = &learnDeltas{counts: map[Count]int{}}
			}
			n += c.N
			byPerson[who].counts[Count{Deck: c.Deck}] -= c.N
		}
		if err := errors.Join(rows.Err(), rows.Close()); err != nil {
			return err
		}
		if n == 0 {
			return nil
		}
		if err := t.db.dropWords(ctx, tx, condition, millis(before), person); err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, `DELETE FROM learn_points WHERE `+condition, millis(before), person); err != nil {
			return err
		}
		for who, d := range byPerson {
			if err := d.write(ctx, tx, who); err != nil {
				return err
			}
		}
		return nil
	})
	return n, err
}
