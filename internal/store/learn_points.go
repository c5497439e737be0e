package store

import (
	"context"
	"database/sql"
	"fmt"
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

// QueueKey is the cursor of a page of a queue.
type QueueKey struct {
	Queue  Queue     `json:"q"`
	Due    Day       `json:"d"`
	DueAt  time.Time `json:"a,omitzero"`
	Number int64     `json:"n"`
}

// KeyOf returns the cursor after a point in its queue.
func KeyOf(p *Point) QueueKey {
	return QueueKey{Queue: p.Queue(), Due: p.Card.Due, DueAt: p.Card.DueAt, Number: p.Number}
}

// QueueFilter selects points of a queue.
type QueueFilter struct {
	Queue Queue
	Today Day       // points due later, or buried after today, are left out
	Now   time.Time // in QueueSteps, points due later are left out
	Deck  *string
	Tag   string
	Skip  []string // decks to leave out; only the first 30 count
	Where []Condition
}

// isEmpty reports whether the conditions want points of other queues, for which the whole queue
// would be read in vain.
func (f *QueueFilter) isEmpty() bool {
	return slices.ContainsFunc(f.Where, func(c Condition) bool {
		switch {
		case c.Not:
			return false
		case c.Field == FieldNew:
			return f.Queue != QueueNew
		case c.Field == FieldLearning:
			return f.Queue != QueueSteps
		case c.Field == FieldReview:
			return f.Queue != QueueDay
		}
		return c.Field == FieldDue && f.Queue == QueueNew
	})
}

// tag returns a tag that all points of the filter have; empty: there is none.
func (f *QueueFilter) tag() string {
	if f.Tag != "" {
		return f.Tag
	}
	for _, c := range f.Where {
		if c.Field == FieldTag && !c.Not {
			return c.Text
		}
	}
	return ""
}

// withoutTag returns the filter without the condition of [QueueFilter.tag].
func (f QueueFilter) withoutTag() QueueFilter {
	if f.Tag != "" {
		f.Tag = ""
		return f
	}
	i := slices.IndexFunc(f.Where, func(c Condition) bool { return c.Field == FieldTag && !c.Not })
	f.Where = slices.Delete(slices.Clone(f.Where), i, i+1)
	return f
}

// preferTagIndex reports whether points of a queue with a tag, at most so many, are found faster
// through the tag than through the queue. Where fewer points wait than have the tag, as usual in
// QueueSteps and QueueDay, scanning the queue reads only a few rows.
func (t Learn) preferTagIndex(ctx context.Context, person string, f QueueFilter, most int) (bool, error) {
	tag := f.tag()
	if tag == "" {
		return false, nil
	}
	until := Day(0) // new points are counted under day 0
	switch f.Queue {
	case QueueSteps:
		until = f.Today + 1
	case QueueDay:
		until = f.Today
	}
	var waiting, tagged int
	err := t.db.readTogether(ctx, countQueued(&waiting, person, f.Queue, until, f.Deck),
		countTagged(&tagged, person, tag))
	if err != nil || waiting <= tagged || tagged <= selectiveLimit {
		return waiting > tagged, err
	}
	reads := float64(waiting)
	if len(f.Skip) == 0 && len(f.withoutTag().Where) == 0 {
		// By the share of the first ones with the tag, so many are read until there are enough.
		share, err := t.taggedAmongFirst(ctx, person, f, tag)
		if err != nil {
			return false, err
		}
		reads = min(reads, float64(most)/share)
	}
	return t.db.lookupCost()*float64(tagged) < reads, nil
}

// taggedAmongFirst returns which share of the first points in a queue has a tag. It reads no
// points, only indexes.
func (t Learn) taggedAmongFirst(ctx context.Context, person string, f QueueFilter, tag string) (float64, error) {
	first, args := `SELECT number FROM learn_points WHERE person = $1 AND queue = $2`, []any{person, int64(f.Queue)}
	if f.Deck != nil {
		first, args = first+` AND deck = $3`, append(args, *f.Deck)
	}
	n := len(args)
	args = append(args, selectiveLimit, person, tag)
	return one(ctx, t.db, func(s scanner) (share float64, err error) { return share, s.Scan(&share) },
		fmt.Sprintf(`SELECT COUNT(*) * 1.0 / %d FROM (%s ORDER BY due, due_at, number LIMIT $%d) AS first_ones
			WHERE EXISTS (SELECT 1 FROM learn_tags WHERE person = $%d AND tag = $%d AND point = number)`, selectiveLimit, first,
			n+1, n+2, n+3), args...)
}

// countQueued counts the points in a queue until a day, in a deck if it is not nil.
func countQueued(n *int, person string, queue Queue, until Day, deck *string) reading {
	query, args := `SELECT COALESCE(SUM(n), 0) FROM learn_counts WHERE person = $1 AND queue = $2 AND day <= $3`,
		[]any{person, int64(queue), int64(until)}
	if deck != nil {
		query, args = query+` AND deck = $4`, append(args, *deck)
	}
	return reading{query, args, func(s scanner) error { return s.Scan(n) }}
}

// Queued lists the points of a queue in order, after a cursor.
func (t Learn) Queued(ctx context.Context, person string, f QueueFilter, after QueueKey, limit int) ([]Point, error) {
	q, err := t.queueQuery(ctx, person, pointColumns, f, limit)
	if err != nil || q == nil {
		return nil, err
	}
	if after.Number != 0 {
		q.and(`(due, due_at, number) > (` + q.arg(int64(after.Due)) + `, ` + q.arg(zeroMillis(after.DueAt)) + `, ` +
			q.arg(after.Number) + `)`)
	}
	read := all[Point]
	if len(f.Where) > 0 {
		read = allOnce[Point]
	}
	return read(ctx, t.db, readPoint, q.text+` ORDER BY due, due_at, number LIMIT `+q.arg(limit), q.args...)
}

// CountQueued counts the points of a queue by deck, at most so many together.
func (t Learn) CountQueued(ctx context.Context, person string, f QueueFilter, most int) ([]Count, error) {
	q, err := t.queueQuery(ctx, person, `deck, queue`, f, most)
	if err != nil || q == nil {
		return nil, err
	}
	// In the order of the queue, its index ends the count at the limit. Without it PostgreSQL may
	// join all points with a tag first.
	return allOnce(ctx, t.db, readCount, `SELECT deck, queue, 0, COUNT(*) FROM (`+q.text+
		` ORDER BY due, due_at, number LIMIT `+q.arg(most)+`) AS counted GROUP BY deck, queue`, q.args...)
}

// KinPoint is a point with kin.
type KinPoint struct{ Deck, Kin string }

// KinQueued lists those with kin among the first points of a queue, at most so many, in order.
func (t Learn) KinQueued(ctx context.Context, person string, f QueueFilter, most int) ([]KinPoint, error) {
	q, err := t.queueQuery(ctx, person, `deck, kin, due, due_at, number`, f, most)
	if err != nil || q == nil {
		return nil, err
	}
	return allOnce(ctx, t.db, func(s scanner) (p KinPoint, err error) { return p, s.Scan(&p.Deck, &p.Kin) },
		`SELECT deck, kin FROM (`+q.text+` ORDER BY due, due_at, number LIMIT `+q.arg(most)+
			`) AS first WHERE kin <> '' ORDER BY due, due_at, number`, q.args...)
}

// queueQuery returns the query for columns of the points of a queue, of which at most so many are
// wanted; nil if there are none.
func (t Learn) queueQuery(ctx context.Context, person, columns string, f QueueFilter, most int) (*pointQuery, error) {
	if f.isEmpty() {
		return nil, nil
	}
	q := queryFrom(`SELECT `+columns+` FROM learn_points`, person)
	sooner, err := t.preferTagIndex(ctx, person, f, most)
	if err != nil {
		return nil, err
	}
	if sooner {
		q.skipPersonIndex()
	}
	if sooner && t.db.estimatesRows() {
		q.lookUpTagged(person, f.tag(), f.Queue)
		f = f.withoutTag()
	}
	q.scans = !sooner
	PointFilter{Deck: f.Deck, Tag: f.Tag}.addTo(t.db, q, person)
	q.and(`queue = ` + strconv.Itoa(int(f.Queue)))
	q.and(`buried <= ` + q.arg(int64(f.Today)))
	switch f.Queue {
	case QueueSteps:
		q.and(`due <= ` + q.arg(int64(f.Today)+1))
		q.and(`due_at <= ` + q.arg(millis(f.Now)))
	case QueueDay:
		q.and(`due <= ` + q.arg(int64(f.Today)))
	}
	t.addConditions(q, person, Selection{Where: f.Where, Today: f.Today, Now: f.Now})
	for _, deck := range f.Skip[:min(len(f.Skip), 30)] {
		q.and(`deck <> ` + q.arg(deck))
	}
	return q, nil
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
