package store

import (
	"slices"
	"strings"
)

// pointRows collects new points and changes of others, and the rows of their plans, tags and search
// words, that one transaction writes. For PostgreSQL one statement writes several rows of a table;
// for SQLite, where that is no faster, one for each row.
type pointRows struct {
	points, sittings [][]any // values of new rows
	updates          []pointUpdate
	texts            []int64 // numbers of points with another text
	added, removed   tagRows
	// words of points by number. Replaced are those of points that had some already.
	words, replaced wordRows
}

// pointUpdate are the columns of a point that change, and their values.
type pointUpdate struct {
	columns         []string
	values          []any
	number, version int64
}

type tagRows struct {
	tags   []string
	points []int64
}

type wordRows struct {
	points []int64
	words  []string
}

// putPoint changes the columns of a point that differ from what it was. No others are part of the
// statement: SQLite writes the entries of each index that has one of its columns, whether the value
// is another or not.
func (r *pointRows) putPoint(before, after *Point) {
	u := pointUpdate{number: before.Number, version: before.Version}
	was, is := pointValues(before), pointValues(after)
	for i, column := range strings.Split(pointValueColumns, ", ") {
		if is[i] != was[i] {
			u.columns, u.values = append(u.columns, column), append(u.values, is[i])
		}
	}
	r.updates = append(r.updates, u)
	if after.Question != before.Question || after.Answer != before.Answer {
		r.texts = append(r.texts, before.Number)
	}
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

// addTo adds the statements that write the changes and rows, which are all of one person. Their run
// returns [errStale] if one of the points has another version.
func (r *pointRows) addTo(b *batch, db *DB, person string) {
	together := 1
	if db.hasRoundTrips() {
		together = rowsTogether
	}
	b.addRows(`INSERT INTO learn_points (number, id, person, version, staged, `+pointValueColumns+`) VALUES `, together,
		r.points)
	b.addRows(insertSittings, together, r.sittings)
	db.updatePoints(b, r.updates)
	// After the points: a vector that is being written waits for them, or knows that they changed.
	for chunk := range slices.Chunk(r.texts, inListSize) {
		b.add(`DELETE FROM learn_vectors WHERE point IN (`+inPlaceholders(1)+`)`, inArgs(chunk)...)
	}
	db.removeTags(b, person, r.removed)
	db.addTags(b, person, r.added)
	db.writeWords(b, r.words, false)
	db.writeWords(b, r.replaced, true)
}

// rowsTogether is how many new rows one statement for PostgreSQL writes. Each number of rows up to
// it is another prepared statement.
const rowsTogether = 50
