package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"time"
)

// BulkBatch is how many points of a bulk edit change in one transaction, so that other writers get
// their turn.
const BulkBatch = 250

// BulkPart is a part of the last bulk edit of a person, which can be undone.
type BulkPart struct {
	ID      string // of the edit; greater than those of earlier ones
	Part    int
	Edit    json.RawMessage // what was done
	Changes json.RawMessage // what the points were before and after
	N       int             // number of points
	Until   time.Time       // when it is forgotten
}

// ManyPoints are points to change together.
type ManyPoints struct {
	Numbers []int64 // at most [BulkBatch]
	Plans   bool    // their plans are needed too; otherwise Sittings are empty and stay as they are
}

// ChangeMany changes points in one transaction. f changes them as in [Learn.Change], and sets
// Unchanged of those that stay as they are; it returns the part of the edit to store, or nil. If it
// fails, nothing is written. It may be called more than once. Missing points are left out. A stored
// part replaces earlier edits: only the last can be undone. A part that replaces names is deleted;
// nil: none.
func (t Learn) ChangeMany(ctx context.Context, person string, points ManyPoints,
	f func([]*PointChange) (*BulkPart, error), replaces *BulkPart) error {
	if len(points.Numbers) > BulkBatch {
		return errors.New("too many points for one transaction")
	}
	for try := 0; ; try++ {
		err := retryDeadlock(func() error {
			return t.db.tx(ctx, func(tx *sql.Tx) error { return t.changeMany(ctx, tx, person, points, f, replaces) })
		})
		if !errors.Is(err, errStale) || try == maxRetries {
			return err
		}
	}
}

func (t Learn) changeMany(ctx context.Context, tx *sql.Tx, person string, points ManyPoints,
	f func([]*PointChange) (*BulkPart, error), replaces *BulkPart) error {
	changes, err := t.readChanges(ctx, tx, person, points)
	if err != nil {
		return err
	}
	part, err := f(changes)
	if err != nil {
		return err
	}
	var d learnDeltas
	for _, c := range changes {
		if c.Unchanged {
			continue
		}
		if err := c.writePoint(ctx, t.db, &d); err != nil {
			return err
		}
	}
	if replaces != nil {
		d.more.add(`DELETE FROM learn_bulk WHERE person = $1 AND id = $2 AND part = $3`, person, replaces.ID, replaces.Part)
	}
	if part != nil {
		d.more.add(`DELETE FROM learn_bulk WHERE person = $1 AND id < $2`, person, part.ID)
		d.more.add(`INSERT INTO learn_bulk (person, id, part, edit, changes, n, until_at)
			VALUES ($1, $2, $3, $4, $5, $6, $7)`,
			sanitizeArgs([]any{person, part.ID, part.Part, string(part.Edit), string(part.Changes), part.N,
				millis(part.Until)})...)
	}
	return d.write(ctx, t.db, tx, person)
}

// readChanges locks a person and reads points of theirs, in the order of their numbers.
func (t Learn) readChanges(ctx context.Context, tx *sql.Tx, person string, points ManyPoints) ([]*PointChange, error) {
	list := t.db.lock(person)
	var found []Point
	var plans []Sitting
	for chunk := range slices.Chunk(points.Numbers, inListSize) {
		list = append(list, into(&found, readPoint, `SELECT `+pointColumns+` FROM learn_points WHERE number IN (`+
			inPlaceholders(1)+`) AND staged IS NULL ORDER BY number`, inArgs(chunk)...))
		if points.Plans {
			list = append(list, into(&plans, readSitting, `SELECT `+sittingColumns+
				` FROM learn_sittings WHERE point IN (`+inPlaceholders(1)+`) ORDER BY point, number, created_at`,
				inArgs(chunk)...))
		}
	}
	if err := t.db.readIn(ctx, tx, list...); err != nil {
		return nil, err
	}
	var out []*PointChange
	byNumber := map[int64]*PointChange{}
	for _, p := range found {
		if p.Person != person {
			continue
		}
		c := &PointChange{Point: p, before: p, tx: tx}
		c.before.Tags = slices.Clone(p.Tags)
		out, byNumber[p.Number] = append(out, c), c
	}
	for _, v := range plans {
		if c := byNumber[v.Point]; c != nil {
			c.Sittings, c.sittingsBefore = append(c.Sittings, v), append(c.sittingsBefore, v)
		}
	}
	return out, nil
}

// ForgetOldBulks forgets the bulk edits of all people that cannot be undone any more.
func (t Learn) ForgetOldBulks(ctx context.Context, now time.Time) error {
	_, err := t.db.exec(ctx, `DELETE FROM learn_bulk WHERE until_at < $1`, millis(now))
	return err
}

// LastBulk is the last bulk edit of a person that can be undone.
type LastBulk struct {
	ID     string
	Edit   json.RawMessage // what was done
	Points int             // number of points of all its parts that are left
}

// LastBulk returns the last bulk edit of a person that can be undone at a time, or [ErrNotFound].
func (t Learn) LastBulk(ctx context.Context, person string, now time.Time) (LastBulk, error) {
	return one(ctx, t.db, func(s scanner) (b LastBulk, err error) {
		var edit string
		err = s.Scan(&b.ID, &edit, &b.Points)
		b.Edit = json.RawMessage(edit)
		return b, err
	}, `SELECT id, edit,
		(SELECT SUM(n) FROM learn_bulk a WHERE a.person = $1 AND a.id = learn_bulk.id AND a.until_at >= $2)
		FROM learn_bulk WHERE person = $1 AND until_at >= $2
		AND id = (SELECT MAX(id) FROM learn_bulk WHERE person = $1 AND until_at >= $2) ORDER BY part LIMIT 1`,
		person, millis(now))
}

// FirstPart returns the first part that is left of a bulk edit, or [ErrNotFound].
func (t Learn) FirstPart(ctx context.Context, person, id string) (BulkPart, error) {
	return one(ctx, t.db, func(s scanner) (b BulkPart, err error) {
		var edit, changes string
		var until int64
		err = s.Scan(&b.ID, &b.Part, &edit, &changes, &b.N, &until)
		b.Edit, b.Changes, b.Until = json.RawMessage(edit), json.RawMessage(changes), fromMillis(until)
		return b, err
	}, `SELECT id, part, edit, changes, n, until_at FROM learn_bulk WHERE person = $1 AND id = $2 ORDER BY part LIMIT 1`,
		person, id)
}

// NumbersByID returns the numbers of points by their IDs: those in the trash, or the others. What
// is missing is left out.
func (t Learn) NumbersByID(ctx context.Context, person string, ids []string, trash bool) (map[string]int64, error) {
	type row struct {
		id     string
		number int64
	}
	out := make(map[string]int64, len(ids))
	state := `IS NULL`
	if trash {
		state = `IS NOT NULL`
	}
	for chunk := range slices.Chunk(ids, inListSize) {
		rows, err := all(ctx, t.db, func(s scanner) (r row, err error) { return r, s.Scan(&r.id, &r.number) },
			`SELECT id, number FROM learn_points WHERE id IN (`+inPlaceholders(1)+`) AND person = $`+
				strconv.Itoa(inListSize+1)+` AND staged IS NULL AND deleted_at `+state,
			sanitizeArgs(append(inArgs(chunk), person))...)
		if err != nil {
			return nil, err
		}
		for _, r := range rows {
			out[r.id] = r.number
		}
	}
	return out, nil
}
