package store

import (
	"context"
	"database/sql"
	"slices"
	"strings"
)

// pointRows collects the rows of tags and search words of points that one transaction writes. For
// PostgreSQL they are written with one statement for each table, since each statement is a round
// trip to its server; for SQLite, which has none, one by one.
type pointRows struct {
	added, removed tagRows
	// words of points by number. Replaced are those of points that had some already.
	words, replaced wordRows
}

type tagRows struct {
	tags   []string
	points []int64
}

type wordRows struct {
	points []int64
	words  []string
}

// putTags adds the tags of a point that it did not have, and removes those that it has no more.
func (r *pointRows) putTags(p *Point, had []string) {
	r.added.put(p.Number, p.Tags, had)
	r.removed.put(p.Number, had, p.Tags)
}

// put adds those of a point's tags that are not among others.
func (r *tagRows) put(point int64, tags, others []string) {
	for _, tag := range tags {
		if !slices.Contains(others, tag) {
			r.tags, r.points = append(r.tags, sanitizeText(tag)), append(r.points, point)
		}
	}
}

// putWords sets the search words of a point.
func (r *pointRows) putWords(p *Point, replace bool) {
	own := personPrefix(p.Person)
	var words strings.Builder
	for _, word := range p.Words {
		words.WriteString(own + word + " ")
	}
	rows := &r.words
	if replace {
		rows = &r.replaced
	}
	rows.points, rows.words = append(rows.points, p.Number), append(rows.words, words.String())
}

// write writes the rows, which are all of one person.
func (r *pointRows) write(ctx context.Context, db *DB, tx *sql.Tx, person string) error {
	if err := db.removeTags(ctx, tx, person, r.removed); err != nil {
		return err
	}
	if err := db.addTags(ctx, tx, person, r.added); err != nil {
		return err
	}
	if err := db.writeWords(ctx, tx, r.words, false); err != nil {
		return err
	}
	return db.writeWords(ctx, tx, r.replaced, true)
}
