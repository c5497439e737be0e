package store

import (
	"context"
	"database/sql"
	"slices"
	"strconv"
	"strings"
	"time"
)

const pointColumns = `number, id, person, deck, question, answer, tags, in_plan, suspended, draft, kin, origin, created_at, updated_at, deleted_at, version, ` +
	`phase, step, stability, difficulty, due, due_at, buried, reps, lapses, last_at, last_day, note, ord, flag, source`

func readPoint(s scanner) (p Point, err error) {
	var tags string
	var created, updated, dueAt, lastAt int64
	var deleted sql.NullInt64
	c := &p.Card
	err = s.Scan(&p.Number, &p.ID, &p.Person, &p.Deck, &p.Question, &p.Answer, &tags, &p.InPlan, &p.Suspended, &p.Draft,
		&p.Kin, &p.Origin,
		&created, &updated, &deleted, &p.Version,
		&c.Phase, &c.Step, &c.Stability, &c.Difficulty, &c.Due, &dueAt, &c.Buried, &c.Reps, &c.Lapses, &lastAt,
		&c.LastDay, &p.Note, &p.Ord, &p.Flag, &p.Source)
	p.Tags = splitTags(tags)
	p.Created, p.Updated, p.Deleted = fromMillis(created), fromMillis(updated), fromNullMillis(deleted)
	c.DueAt, c.LastAt = fromZero(dueAt), fromZero(lastAt)
	return p, err
}

// zeroMillis is millis, with 0 for the zero time.
func zeroMillis(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

func fromZero(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return fromMillis(ms)
}

// splitTags splits the stored tags; a tag has no line breaks.
func splitTags(s string) []string {
	if s == "" {
		return nil
	}
	return strings.Split(s, "\n")
}

func joinTags(tags []string) string { return strings.Join(tags, "\n") }

// queueDay returns the day under which a point is counted: 0 unless it is due on one.
func queueDay(p *Point) Day {
	if p.Queue() <= QueueNew {
		return 0
	}
	return p.Card.Due
}

// pointValues returns the column values of a point, except number, id, person and version.
func pointValues(p *Point) []any {
	c := &p.Card
	return sanitizeArgs([]any{
		p.Deck, p.Question, p.Answer, joinTags(p.Tags), p.InPlan, p.Suspended, p.Draft, p.Kin, p.Origin,
		millis(p.Created), millis(p.Updated), nullMillis(p.Deleted),
		int64(p.Queue()), int64(c.Phase), c.Step, c.Stability, c.Difficulty, int64(c.Due), zeroMillis(c.DueAt),
		int64(c.Buried), c.Reps, c.Lapses, zeroMillis(c.LastAt), int64(c.LastDay),
		p.Note, p.Ord, p.Flag, p.Source,
	})
}

const pointValueColumns = `deck, question, answer, tags, in_plan, suspended, draft, kin, origin, created_at, updated_at, deleted_at, ` +
	`queue, phase, step, stability, difficulty, due, due_at, buried, reps, lapses, last_at, last_day, note, ord, flag, source`

// Point returns a point that is not in the trash.
func (t Learn) Point(ctx context.Context, person, id string) (Point, error) {
	return one(ctx, t.db, readPoint, `SELECT `+pointColumns+
		` FROM learn_points WHERE person = $1 AND id = $2 AND deleted_at IS NULL AND staged IS NULL`, person, id)
}

// PointWithPlan returns what [Learn.Point] returns, and the plan of the point in its order.
func (t Learn) PointWithPlan(ctx context.Context, person, id string) (Point, []Sitting, error) {
	const which = ` FROM learn_points WHERE person = $1 AND id = $2 AND deleted_at IS NULL AND staged IS NULL`
	var points []Point
	var plan []Sitting
	err := t.db.readTogether(ctx, into(&points, readPoint, `SELECT `+pointColumns+which, person, id),
		into(&plan, readSitting, `SELECT `+sittingColumns+` FROM learn_sittings WHERE point = (SELECT number`+which+
			`) ORDER BY number, created_at`, person, id))
	if err == nil && len(points) == 0 {
		err = ErrNotFound
	}
	return append(points, Point{})[0], plan, err
}

// PointBySitting returns the point of a sitting.
func (t Learn) PointBySitting(ctx context.Context, person, sitting string) (Point, error) {
	return one(ctx, t.db, readPoint, `SELECT `+pointColumns+
		` FROM learn_points WHERE person = $1 AND deleted_at IS NULL AND staged IS NULL
		AND number = (SELECT point FROM learn_sittings WHERE person = $2 AND id = $3)`, person, person, sitting)
}

// PointsByNumber returns points by their numbers, in any order. Missing points and those in the
// trash are left out.
func (t Learn) PointsByNumber(ctx context.Context, person string, numbers []int64) ([]Point, error) {
	out := make([]Point, 0, len(numbers))
	for chunk := range slices.Chunk(numbers, inListSize) {
		var err error
		out, err = appendAll(ctx, t.db, out, readPoint, `SELECT `+pointColumns+` FROM learn_points WHERE number IN (`+
			inPlaceholders(1)+`) AND deleted_at IS NULL AND staged IS NULL`, inArgs(chunk)...)
		if err != nil {
			return nil, err
		}
	}
	// The person is compared here: with a condition on it, the database would scan all points of
	// the person.
	return slices.DeleteFunc(out, func(p Point) bool { return p.Person != person }), nil
}

// PointFilter selects points. The zero value selects all that are not in the trash.
type PointFilter struct {
	Deck  *string // nil: any deck
	Tag   string  // empty: any
	Trash bool    // only points in the trash
	Draft bool    // drafts only
}

// PointKey is the cursor of a page of points.
type PointKey struct {
	At     time.Time // creation time, or for the trash, deletion time
	Number int64
}

// Key returns the cursor after a point.
func (f PointFilter) Key(p *Point) PointKey {
	if f.Trash {
		return PointKey{p.Deleted, p.Number}
	}
	return PointKey{p.Created, p.Number}
}

// Points lists a person's points after a cursor, newest first, or for the trash, last deleted
// first. The zero cursor starts at the beginning.
func (t Learn) Points(ctx context.Context, person string, f PointFilter, after PointKey, limit int) ([]Point, error) {
	q := queryFrom(`SELECT `+pointColumns+` FROM learn_points`, person)
	order := `created_at`
	if f.Trash {
		order = `deleted_at`
	}
	few, err := t.isSelective(ctx, person, f)
	if err != nil {
		return nil, err
	}
	if few {
		order += ` + 0`
		if f.Tag != "" {
			q.skipPersonIndex()
		}
	}
	q.scans = !few
	f.addTo(t.db, q, person)
	if after.Number != 0 {
		q.and(`(` + order + `, number) < (` + q.arg(millis(after.At)) + `, ` + q.arg(after.Number) + `)`)
	}
	return all(ctx, t.db, readPoint, q.text+` ORDER BY `+order+` DESC, number DESC LIMIT `+q.arg(limit), q.args...)
}

// selectiveLimit is the number of points with a tag up to which a query starts from the tag index.
const selectiveLimit = 2000

// isSelective reports whether a filter leaves few of many points: those with a rare tag, and
// drafts, which their person confirms one by one.
func (t Learn) isSelective(ctx context.Context, person string, f PointFilter) (bool, error) {
	if f.Tag == "" {
		return f.Draft && !f.Trash, nil
	}
	n, err := t.CountTagged(ctx, person, f.Tag)
	return n <= selectiveLimit, err
}

// countTagged counts the points with a tag.
func countTagged(n *int, person, tag string) reading {
	return reading{`SELECT n FROM learn_tag_counts WHERE person = $1 AND tag = $2`, sanitizeArgs([]any{person, tag}),
		func(s scanner) error { return s.Scan(n) }}
}

func (f PointFilter) addTo(db *DB, q *pointQuery, person string) {
	if f.Trash {
		q.and(`deleted_at IS NOT NULL`)
	} else {
		q.and(`deleted_at IS NULL`)
	}
	if f.Deck != nil {
		q.and(`deck = ` + q.arg(*f.Deck))
	}
	if f.Draft {
		q.and(`draft`)
	}
	if f.Tag != "" {
		q.and(db.hasTag(q, person, f.Tag, q.scans))
	}
}

// pointQuery is a query over a person's points. The number of texts is bounded by the combinations
// of filters.
type pointQuery struct {
	text  string
	args  []any
	scans bool // points are found in some order of theirs, not through a tag
}

func queryFrom(head, person string) *pointQuery {
	return &pointQuery{text: head + ` WHERE person = $1 AND staged IS NULL`, args: []any{person}}
}

// skipPersonIndex makes the database find the points of a tag first and sort them afterwards.
// Otherwise it would scan all points of the person until enough have the tag. An index is not used
// for an expression.
func (q *pointQuery) skipPersonIndex() {
	q.text = strings.Replace(q.text, `person =`, `person || '' =`, 1)
}

func (q *pointQuery) and(condition string) { q.text += ` AND ` + condition }

func (q *pointQuery) arg(v any) string {
	q.args = append(q.args, v)
	return "$" + strconv.Itoa(len(q.args))
}

const sittingColumns = `id, point, day, number, completed_at, created_at, recall`

func readSitting(s scanner) (v Sitting, err error) {
	var completed sql.NullInt64
	var created int64
	err = s.Scan(&v.ID, &v.Point, &v.Day, &v.Number, &completed, &created, &v.Recall)
	v.Completed, v.Created = fromNullMillis(completed), fromMillis(created)
	return v, err
}

// Sittings returns the plans of points, by point number, each in order.
func (t Learn) Sittings(ctx context.Context, numbers []int64) (map[int64][]Sitting, error) {
	out := make(map[int64][]Sitting, len(numbers))
	for chunk := range slices.Chunk(numbers, inListSize) {
		list, err := all(ctx, t.db, readSitting, `SELECT `+sittingColumns+` FROM learn_sittings WHERE point IN (`+
			inPlaceholders(1)+`) ORDER BY point, number, created_at`, inArgs(chunk)...)
		if err != nil {
			return nil, err
		}
		for _, s := range list {
			out[s.Point] = append(out[s.Point], s)
		}
	}
	return out, nil
}
