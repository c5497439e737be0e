package store

import (
	"context"
	"database/sql"
	"slices"
)

// CountTagged returns the number of a person's points with a tag, including the trash.
func (t Learn) CountTagged(ctx context.Context, person, tag string) (n int, err error) {
	err = t.db.readTogether(ctx, countTagged(&n, person, tag))
	return n, err
}

// RenameTag replaces a tag by another in up to most points, including the trash, and returns how
// many it changed: fewer than most if none are left. words returns the new search words of a point.
func (t Learn) RenameTag(ctx context.Context, person, from, to string, most int,
	words func(*Point) []string) (n int, err error) {
	err = retryDeadlock(func() error {
		return t.db.tx(ctx, func(tx *sql.Tx) error {
			points, err := t.lockTagged(ctx, tx, person, from, most)
			n = len(points)
			if err != nil || n == 0 {
				return err
			}
			var d learnDeltas
			for i := range points {
				p := &points[i]
				had := p.Tags
				d.countTags(had, -1)
				p.Tags = slices.DeleteFunc(slices.Clone(had),
					func(tag string) bool { return tag == from || tag == to })
				p.Tags = append(p.Tags, to)
				slices.Sort(p.Tags)
				d.countTags(p.Tags, 1)
				p.Words = words(p)
				if err := retag(ctx, tx, p, had, &d.rows); err != nil {
					return err
				}
			}
			return d.write(ctx, t.db, tx, person)
		})
	})
	return n, err
}

// lockTagged reads and locks points that have a tag. Those of an unfinished import are left out:
// they are still invisible.
func (t Learn) lockTagged(ctx context.Context, tx *sql.Tx, person, tag string, most int) ([]Point, error) {
	rows, err := tx.QueryContext(ctx, t.db.locking(`SELECT `+pointColumns+` FROM learn_points WHERE number IN
		(SELECT t.point FROM learn_tags t JOIN learn_points p ON p.number = t.point WHERE t.person = $1 AND t.tag = $2 AND p.staged IS NULL ORDER BY t.point LIMIT $3) ORDER BY number`, `FOR UPDATE`),
		person, tag, most)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var out []Point
	for rows.Next() {
		p, err := readPoint(rows)
		if err != nil {
			return nil, err
		}
		out = append(out, p)
	}
	return out, rows.Err()
}

// retag writes a point that had other tags, but for the rows that it adds to r.
func retag(ctx context.Context, tx *sql.Tx, p *Point, had []string, r *pointRows) error {
	if _, err := tx.ExecContext(ctx, `UPDATE learn_points SET tags = $1, version = version + 1 WHERE number = $2`,
		sanitizeArgs([]any{joinTags(p.Tags), p.Number})...); err != nil {
		return err
	}
	r.putTags(p, had)
	r.putWords(p, true)
	return nil
}
