package store

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"fmt"
	"strings"

	"golang.org/x/sync/errgroup"
)

// personPrefix returns a prefix for the search words of a person, so that a search reads only that
// person's points, however many others have the same word. People whose prefixes collide find
// numbers of each other's points, but the points themselves are never read for them.
func personPrefix(person string) string {
	sum := sha256.Sum256([]byte(person))
	return hex.EncodeToString(sum[:4])
}

// writeWords stores the search words of points. The databases differ here: each has its own
// full-text search.
func (db *DB) writeWords(b *batch, rows wordRows, replace bool) {
	switch {
	case len(rows.points) == 0:
		return
	case db.dialect == "postgres":
		b.add(`INSERT INTO learn_words (point, words)
			SELECT point, words::tsvector FROM unnest($1::bigint[], $2::text[]) AS new (point, words)
			ON CONFLICT (point) DO UPDATE SET words = excluded.words`, rows.points, rows.words)
		db.merger.wake()
		return
	}
	query := `INSERT INTO learn_words (rowid, words) VALUES ($1, $2)`
	if replace {
		query = `INSERT OR REPLACE INTO learn_words (rowid, words) VALUES ($1, $2)`
	}
	for i, point := range rows.points {
		b.add(query, point, rows.words[i])
	}
	db.merger.wake()
}

// addTags writes the tags of points.
func (db *DB) addTags(b *batch, person string, rows tagRows) {
	if db.dialect == "postgres" && len(rows.tags) > 0 {
		b.add(`INSERT INTO learn_tags (person, tag, point)
			SELECT $1, tag, point FROM unnest($2::text[], $3::bigint[]) AS new (tag, point)
			ON CONFLICT DO NOTHING`, person, rows.tags, rows.points)
		return
	}
	for i, tag := range rows.tags {
		b.add(`INSERT INTO learn_tags (person, tag, point) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING`, person, tag,
			rows.points[i])
	}
}

// removeTags deletes the tags of points.
func (db *DB) removeTags(b *batch, person string, rows tagRows) {
	if db.dialect == "postgres" && len(rows.tags) > 0 {
		b.add(`DELETE FROM learn_tags t USING unnest($2::text[], $3::bigint[]) AS old (tag, point)
			WHERE t.person = $1 AND t.tag = old.tag AND t.point = old.point`, person, rows.tags, rows.points)
		return
	}
	for i, tag := range rows.tags {
		b.add(`DELETE FROM learn_tags WHERE person = $1 AND tag = $2 AND point = $3`, person, tag, rows.points[i])
	}
}

// dropWords deletes the search words of points. In PostgreSQL they are deleted with the points.
func (db *DB) dropWords(ctx context.Context, tx *sql.Tx, condition string, args ...any) error {
	if db.dialect == "postgres" {
		return nil
	}
	_, err := tx.ExecContext(ctx, `DELETE FROM learn_words WHERE rowid IN (SELECT number FROM learn_points WHERE `+
		condition+`)`, args...)
	db.merger.wake()
	return err
}

// Search returns the numbers of the newest points that have all words, which are ASCII letters and
// digits; a word that ends in * is a prefix. Points in the trash are included.
func (t Learn) Search(ctx context.Context, person string, words []string, limit int) ([]int64, error) {
	if len(words) == 0 {
		return nil, nil
	}
	point, match := `rowid`, `learn_words MATCH $1`
	if t.db.dialect == "postgres" {
		point, match = `point`, `words @@ $1::tsquery`
	}
	return allPlanned(ctx, t.db, readNumber, `SELECT `+point+` FROM learn_words WHERE `+match+
		` ORDER BY `+point+` DESC LIMIT $2`, t.matchText(person, words, t.db.andOperator()), limit)
}

// concurrentSearches is the number of words that [Learn.SearchEach] searches at a time in
// PostgreSQL.
const concurrentSearches = 4

// SearchEach searches each of several words as [Learn.Search] does, at most 60. In PostgreSQL a
// frequent word that the newest points lack takes a millisecond for every 3,000 of them. So words
// that are frequent together, as the pairs of characters of one word are, are found in one pass;
// for those that are left the next goes on behind it, and at last they are searched several at a
// time.
func (t Learn) SearchEach(ctx context.Context, person string, words []string, limit int) ([][]int64, error) {
	s := eachSearch{t: t, person: person, words: words, limit: limit, found: make([][]int64, len(words))}
	for i := range words {
		s.left = append(s.left, i)
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(1)
	if t.db.hasRoundTrips() {
		group.SetLimit(concurrentSearches)
		for before := len(s.left) + 1; len(s.left) > 1 && len(s.left) < before; {
			before = len(s.left)
			if err := s.pass(ctx); err != nil {
				return nil, err
			}
		}
	}
	for _, i := range s.left {
		group.Go(func() (err error) {
			if s.behind == 0 {
				s.found[i], err = t.Search(ctx, person, words[i:i+1], limit)
				return err
			}
			return s.rest(ctx, i)
		})
	}
	return s.found, group.Wait()
}

// eachSearch is a [Learn.SearchEach] in PostgreSQL.
type eachSearch struct {
	t      Learn
	person string
	words  []string
	limit  int
	found  [][]int64
	left   []int // indexes of words of which not all are found, or as many as wanted
	behind int64 // all points from this one on were searched for them; 0: none
}

// pass finds the next points with any of the words that are left.
func (s *eachSearch) pass(ctx context.Context) error {
	var which strings.Builder
	terms, args := make([]string, len(s.left)), make([]any, 2, len(s.left)+3)
	for i, word := range s.left {
		terms[i] = s.words[word]
		args = append(args, s.t.matchText(s.person, terms[i:i+1], ""))
		fmt.Fprintf(&which, " + CASE WHEN words @@ $%d::tsquery THEN %d::bigint ELSE 0 END", len(args), int64(1)<<i)
	}
	most := 2 * s.limit
	args[0], args[1] = s.t.matchText(s.person, terms, " | "), most
	query := `SELECT point, 0` + which.String() + ` FROM learn_words WHERE words @@ $1::tsquery`
	if s.behind != 0 {
		args = append(args, s.behind)
		query += fmt.Sprintf(" AND point < $%d", len(args))
	}
	type hit struct{ point, which int64 }
	hits, err := allPlanned(ctx, s.t.db, func(s scanner) (h hit, err error) { return h, s.Scan(&h.point, &h.which) },
		query+` ORDER BY point DESC LIMIT $2`, args...)
	if err != nil {
		return err
	}
	var left []int
	for i, word := range s.left {
		has := s.found[word]
		for _, h := range hits {
			if h.which>>i&1 == 1 && len(has) < s.limit {
				has = append(has, h.point)
			}
		}
		if s.found[word] = has; len(has) < s.limit && len(hits) == most {
			left = append(left, word)
		}
	}
	if s.left = left; len(hits) > 0 {
		s.behind = hits[len(hits)-1].point
	}
	return nil
}

// rest finds the next points with a word behind those of the passes.
func (s *eachSearch) rest(ctx context.Context, word int) error {
	more, err := allPlanned(ctx, s.t.db, readNumber,
		`SELECT point FROM learn_words WHERE words @@ $1::tsquery AND point < $2 ORDER BY point DESC LIMIT $3`,
		s.t.matchText(s.person, s.words[word:word+1], ""), s.behind, s.limit-len(s.found[word]))
	s.found[word] = append(s.found[word], more...)
	return err
}

// Vector is the embedding of a point by a model.
type Vector struct {
	Point int64
	// Data is opaque to the store. Empty: the model accepts no such text, and need not be called
	// again until the text changes.
	Data []byte
	// Version is the version of the point whose text was embedded. It is only written.
	Version int64
}

// Vectors lists a person's vectors by a model with point numbers greater than after, by point.
func (t Learn) Vectors(ctx context.Context, person, model string, after int64, limit int) ([]Vector, error) {
	return all(ctx, t.db, func(s scanner) (v Vector, err error) { return v, s.Scan(&v.Point, &v.Data) },
		`SELECT point, data FROM learn_vectors WHERE person = $1 AND model = $2 AND point > $3 ORDER BY point LIMIT $4`,
		person, model, after, limit)
}

// VectorCount returns the number of a person's vectors by a model, and the highest point number
// that has one; 0 and 0 if there are none.
func (t Learn) VectorCount(ctx context.Context, person, model string) (n int, last int64, err error) {
	type row struct {
		n    int
		last int64
	}
	r, err := one(ctx, t.db, func(s scanner) (r row, err error) { return r, s.Scan(&r.n, &r.last) },
		`SELECT COUNT(*), COALESCE(MAX(point), 0) FROM learn_vectors WHERE person = $1 AND model = $2`, person, model)
	return r.n, r.last, err
}

// SaveVectors stores vectors, except those whose point has changed since the embedded version or is
// gone.
func (t Learn) SaveVectors(ctx context.Context, person, model string, vectors []Vector) error {
	// In PostgreSQL, points locked by a concurrent change are skipped. A transaction that never
	// waits for a lock cannot deadlock.
	query := t.db.locking(`INSERT INTO learn_vectors (point, person, model, data) SELECT number, person, $1, $2 FROM learn_points WHERE number = $3 AND person = $4 AND version = $5`,
		`FOR SHARE SKIP LOCKED`) + ` ON CONFLICT (point) DO UPDATE SET model = excluded.model, data = excluded.data`
	return t.db.tx(ctx, func(tx *sql.Tx) error {
		for _, v := range vectors {
			data := v.Data
			if data == nil {
				data = []byte{}
			}
			if _, err := tx.ExecContext(ctx, query, model, data, v.Point, person, v.Version); err != nil {
				return err
			}
		}
		return nil
	})
}

// WithoutVector lists a person's points that have no vector by a model, oldest first, after a
// cursor; the zero cursor starts at the beginning.
func (t Learn) WithoutVector(ctx context.Context, person, model string, after PointKey, limit int) ([]Point, error) {
	return all(ctx, t.db, readPoint, `SELECT `+pointColumns+
		` FROM learn_points p WHERE person = $1 AND (created_at, number) > ($2, $3) AND deleted_at IS NULL AND staged IS NULL
		AND NOT EXISTS (SELECT 1 FROM learn_vectors v WHERE v.point = p.number AND v.model = $4) ORDER BY created_at, number LIMIT $5`,
		person, zeroMillis(after.At), after.Number, model, limit)
}

// PeopleLackingVectors lists the people, after a given id, who have more points than vectors by a
// model. People whose only points without a vector are in the trash are among them.
func (t Learn) PeopleLackingVectors(ctx context.Context, model, after string, limit int) ([]string, error) {
	return all(ctx, t.db, func(s scanner) (person string, err error) { return person, s.Scan(&person) },
		`SELECT c.person FROM (SELECT person, SUM(n) AS n FROM learn_counts WHERE person > $1 GROUP BY person) c
		LEFT JOIN (SELECT person, COUNT(*) AS n FROM learn_vectors WHERE model = $2 AND person > $3 GROUP BY person) v ON v.person = c.person
		WHERE c.n > COALESCE(v.n, 0) ORDER BY c.person LIMIT $4`, after, model, after, limit)
}

// wordsCondition selects the points that have all words.
func (t Learn) wordsCondition(q *pointQuery, person string, words []string) string {
	if len(words) == 0 {
		return `TRUE`
	}
	query := q.arg(t.matchText(person, words, t.db.andOperator()))
	if t.db.dialect == "postgres" {
		return `number IN (SELECT point FROM learn_words WHERE words @@ ` + query + `::tsquery)`
	}
	return `number IN (SELECT rowid FROM learn_words WHERE learn_words MATCH ` + query + `)`
}

// hasTag returns the condition that a point has a tag. Where points are read anyway, it is read
// from them: with the table of tags, PostgreSQL reads all points that have it.
func (db *DB) hasTag(q *pointQuery, person, tag string, read bool) string {
	if tag == "" || strings.Contains(tag, "\n") { // no point has such a tag
		return `FALSE`
	}
	if !read {
		return `number IN (SELECT point FROM learn_tags WHERE person = ` + q.arg(person) + ` AND tag = ` + q.arg(tag) + `)`
	}
	place := `instr`
	if db.dialect == "postgres" {
		place = `strpos`
	}
	return place + "('\n' || tags || '\n', " + q.arg(joinTags([]string{"", tag, ""})) + `) > 0`
}

// andOperator is the operator of the database's full-text search for points with both of two words.
func (db *DB) andOperator() string {
	if db.dialect == "postgres" {
		return " & "
	}
	return " AND "
}

// matchText returns words in the form of the database's full-text search, with an operator between
// them.
func (t Learn) matchText(person string, words []string, operator string) string {
	prefix, quote := "*", `"`
	if t.db.dialect == "postgres" {
		prefix, quote = ":*", "'"
	}
	var terms strings.Builder
	own := personPrefix(person)
	for i, word := range words {
		head, star := strings.CutSuffix(word, "*")
		if i > 0 {
			terms.WriteString(operator)
		}
		terms.WriteString(quote + own + head + quote)
		if star {
			terms.WriteString(prefix)
		}
	}
	return terms.String()
}
