package store

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"
)

const pointColumns = `number, id, person, deck, question, answer, tags, in_plan, suspended, draft, kin, origin, created_at, updated_at, deleted_at, version, ` +
	`phase, step, stability, difficulty, due, due_at, buried, reps, lapses, last_at, last_day`

func readPoint(s scanner) (p Point, err error) {
	var tags string
	var created, updated, dueAt, lastAt int64
	var deleted sql.NullInt64
	c := &p.Card
	err = s.Scan(&p.Number, &p.ID, &p.Person, &p.Deck, &p.Question, &p.Answer, &tags, &p.InPlan, &p.Suspended, &p.Draft, &p.Kin, &p.Origin,
		&created, &updated, &deleted, &p.Version,
		&c.Phase, &c.Step, &c.Stability, &c.Difficulty, &c.Due, &dueAt, &c.Buried, &c.Reps, &c.Lapses, &lastAt, &c.LastDay)
	p.Tags = splitTags(tags)
	p.Created, p.Updated, p.Deleted = fromMillis(created), fromMillis(updated), fromMaybe(deleted)
	c.DueAt, c.LastAt = fromZero(dueAt), fromZero(lastAt)
	return p, err
}

// zeroMillis keeps the zero time as 0.
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

// Tags have no line breaks.
func splitTags(s string) []string {
	if s == "" {
		return nil
	}
	return strings.Split(s, "\n")
}

func joinTags(tags []string) string { return strings.Join(tags, "\n") }

// queueDay is the day under which a point is counted.
func queueDay(p *Point) Day {
	if p.Queue() <= QueueNew {
		return 0
	}
	return p.Card.Due
}

// pointValues are the values of a point's row, all but its number, id, person and
// version.
func pointValues(p *Point) []any {
	c := &p.Card
	return texts([]any{
		p.Deck, p.Question, p.Answer, joinTags(p.Tags), p.InPlan, p.Suspended, p.Draft, p.Kin, p.Origin, millis(p.Created), millis(p.Updated), maybeMillis(p.Deleted),
		int64(p.Queue()), int64(c.Phase), c.Step, c.Stability, c.Difficulty, int64(c.Due), zeroMillis(c.DueAt), int64(c.Buried), c.Reps, c.Lapses, zeroMillis(c.LastAt), int64(c.LastDay),
	})
}

const pointValueColumns = `deck, question, answer, tags, in_plan, suspended, draft, kin, origin, created_at, updated_at, deleted_at, ` +
	`queue, phase, step, stability, difficulty, due, due_at, buried, reps, lapses, last_at, last_day`

// Point finds a point that is not in the trash.
func (t Learn) Point(ctx context.Context, person, id string) (Point, error) {
	return one(ctx, t.db, readPoint, `SELECT `+pointColumns+` FROM learn_points WHERE person = $1 AND id = $2 AND deleted_at IS NULL AND staged IS NULL`, person, id)
}

// PointOf finds the point that a row of a plan, or an entry of the log, belongs to.
func (t Learn) PointOf(ctx context.Context, person, sitting string) (Point, error) {
	return one(ctx, t.db, readPoint, `SELECT `+pointColumns+` FROM learn_points WHERE person = $1 AND deleted_at IS NULL AND staged IS NULL
		AND number = (SELECT point FROM learn_sittings WHERE person = $2 AND id = $3)`, person, person, sitting)
}

// Numbered finds points by their numbers, in any order; those that are missing or
// in the trash are left out.
func (t Learn) Numbered(ctx context.Context, person string, numbers []int64) ([]Point, error) {
	var out []Point
	for chunk := range slices.Chunk(numbers, inMost) {
		// The person is looked at here: a database that is asked for it goes through
		// all that the person has.
		points, err := all(ctx, t.db, readPoint, `SELECT `+pointColumns+` FROM learn_points WHERE number IN (`+inMarks(1)+`) AND deleted_at IS NULL AND staged IS NULL`, inArgs(chunk)...)
		if err != nil {
			return nil, err
		}
		for _, p := range points {
			if p.Person == person {
				out = append(out, p)
			}
		}
	}
	return out, nil
}

// inMost is how many numbers one query looks for; fewer are filled up, so that
// the query is always the same.
const inMost = 50

func inMarks(from int) string {
	var b strings.Builder
	for i := range inMost {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString("$" + strconv.Itoa(from+i))
	}
	return b.String()
}

func inArgs(numbers []int64) []any {
	args := make([]any, inMost)
	for i := range args {
		args[i] = numbers[min(i, len(numbers)-1)]
	}
	return args
}

// PointFilter says which points are meant. The zero value means all that are not
// in the trash.
type PointFilter struct {
	Deck  *string // of this deck
	Tag   string  // with this tag
	Trash bool    // in the trash instead
	Draft bool    // drafts only
}

// PointKey is where a page of points ends.
type PointKey struct {
	At     time.Time // when the point was created, or for the trash, deleted
	Number int64
}

// Key is where a page ends that ends with a point.
func (f PointFilter) Key(p *Point) PointKey {
	if f.Trash {
		return PointKey{p.Deleted, p.Number}
	}
	return PointKey{p.Created, p.Number}
}

// Points lists a person's points, newest first, or for the trash, last deleted
// first, behind a key; the zero key begins.
func (t Learn) Points(ctx context.Context, person string, f PointFilter, after PointKey, limit int) ([]Point, error) {
	q := queryFrom(`SELECT `+pointColumns+` FROM learn_points`, person)
	order := `created_at`
	if f.Trash {
		order = `deleted_at`
	}
	few, err := t.few(ctx, person, f)
	if err != nil {
		return nil, err
	}
	if few {
		order += ` + 0`
		if f.Tag != "" {
			q.unordered()
		}
	}
	f.into(q)
	if after.Number != 0 {
		q.and(`(` + order + `, number) < (` + q.arg(millis(after.At)) + `, ` + q.arg(after.Number) + `)`)
	}
	return all(ctx, t.db, readPoint, q.text+` ORDER BY `+order+` DESC, number DESC LIMIT `+q.arg(limit), q.args...)
}

// fewMost is how many points with a tag are few: sooner found than met by chance.
const fewMost = 2000

// few says whether a filter leaves few of many points: those with a rare tag, and
// drafts, which wait for somebody who reads them one by one.
func (t Learn) few(ctx context.Context, person string, f PointFilter) (bool, error) {
	if f.Tag == "" {
		return f.Draft && !f.Trash, nil
	}
	n, err := t.tagged(ctx, person, f.Tag)
	return n <= fewMost, err
}

// tagged is how many points have a tag.
func (t Learn) tagged(ctx context.Context, person, tag string) (int, error) {
	n, err := one(ctx, t.db, func(s scanner) (n int, err error) { return n, s.Scan(&n) }, `SELECT n FROM learn_tag_counts WHERE person = $1 AND tag = $2`, person, tag)
	if errors.Is(err, ErrNotFound) {
		return 0, nil
	}
	return n, err
}

func (f PointFilter) into(q *pointQuery) {
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
		q.and(`number IN (SELECT point FROM learn_tags WHERE person = ` + q.arg(q.args[0]) + ` AND tag = ` + q.arg(f.Tag) + `)`)
	}
}

// pointQuery is a query over a person's points. There are only as many texts as
// there are combinations of filters.
type pointQuery struct {
	text string
	args []any
}

func queryFrom(head, person string) *pointQuery {
	return &pointQuery{head + ` WHERE person = $1 AND staged IS NULL`, []any{person}}
}

// unordered has the points of a tag found first and put in order then. A database would
// rather go through all points of the person, until it has met enough of these: what is
// reckoned with is in no index.
func (q *pointQuery) unordered() { q.text = strings.Replace(q.text, `person =`, `person || '' =`, 1) }

func (q *pointQuery) and(condition string) { q.text += ` AND ` + condition }

func (q *pointQuery) arg(v any) string {
	q.args = append(q.args, v)
	return "$" + strconv.Itoa(len(q.args))
}

// QueueKey is where a page of a queue ends.
type QueueKey struct {
	Queue  Queue     `json:"q"`
	Due    Day       `json:"d"`
	DueAt  time.Time `json:"a,omitzero"`
	Number int64     `json:"n"`
}

// KeyOf is the key of a point in its queue.
func KeyOf(p *Point) QueueKey {
	return QueueKey{Queue: p.Queue(), Due: p.Card.Due, DueAt: p.Card.DueAt, Number: p.Number}
}

// QueueFilter says what of a queue is meant.
type QueueFilter struct {
	Queue Queue
	Today Day       // what is due later, or buried beyond today, is left out
	Now   time.Time // in the queue of steps: what is due later is left out
	Deck  *string
	Tag   string
	Skip  []string // decks that are left out; 30 at most are heeded
}

// soonerByTag says whether the points of a queue that have a tag are sooner found among
// those with the tag than in the queue: where fewer wait than have the tag, as mostly on
// their steps and for their day, going through the queue is a matter of a few rows.
func (t Learn) soonerByTag(ctx context.Context, person string, f QueueFilter) (bool, error) {
	tagged, err := t.tagged(ctx, person, f.Tag)
	if err != nil || tagged > fewMost {
		return false, err
	}
	until := Day(0) // the new are counted under no day
	switch f.Queue {
	case QueueSteps:
		until = f.Today + 1
	case QueueDay:
		until = f.Today
	}
	query, args := `SELECT COALESCE(SUM(n), 0) FROM learn_counts WHERE person = $1 AND queue = $2 AND day <= $3`, []any{person, int64(f.Queue), int64(until)}
	if f.Deck != nil {
		query, args = query+` AND deck = $4`, append(args, *f.Deck)
	}
	waiting, err := one(ctx, t.db, func(s scanner) (n int, err error) { return n, s.Scan(&n) }, query, args...)
	return waiting > tagged, err
}

// Queued lists the points of a queue in their order, behind a key.
func (t Learn) Queued(ctx context.Context, person string, f QueueFilter, after QueueKey, limit int) ([]Point, error) {
	q := queryFrom(`SELECT `+pointColumns+` FROM learn_points`, person)
	if f.Tag != "" {
		sooner, err := t.soonerByTag(ctx, person, f)
		if err != nil {
			return nil, err
		}
		if sooner {
			q.unordered()
		}
	}
	PointFilter{Deck: f.Deck, Tag: f.Tag}.into(q)
	q.and(`queue = ` + strconv.Itoa(int(f.Queue)))
	order := `due, due_at, number`
	switch f.Queue {
	case QueueSteps:
		q.and(`due <= ` + q.arg(int64(f.Today)+1))
		q.and(`due_at <= ` + q.arg(millis(f.Now)))
	case QueueDay:
		q.and(`due <= ` + q.arg(int64(f.Today)))
		q.and(`buried <= ` + q.arg(int64(f.Today)))
	default:
		q.and(`buried <= ` + q.arg(int64(f.Today)))
	}
	for _, deck := range f.Skip[:min(len(f.Skip), 30)] {
		q.and(`deck <> ` + q.arg(deck))
	}
	if after.Number != 0 {
		q.and(`(due, due_at, number) > (` + q.arg(int64(after.Due)) + `, ` + q.arg(zeroMillis(after.DueAt)) + `, ` + q.arg(after.Number) + `)`)
	}
	return all(ctx, t.db, readPoint, q.text+` ORDER BY `+order+` LIMIT `+q.arg(limit), q.args...)
}

const sittingColumns = `id, point, day, number, completed_at, created_at, recall`

func readSitting(s scanner) (v Sitting, err error) {
	var completed sql.NullInt64
	var created int64
	err = s.Scan(&v.ID, &v.Point, &v.Day, &v.Number, &completed, &created, &v.Recall)
	v.Completed, v.Created = fromMaybe(completed), fromMillis(created)
	return v, err
}

// Sittings lists the plans of points, by point, each in its order.
func (t Learn) Sittings(ctx context.Context, numbers []int64) (map[int64][]Sitting, error) {
	out := make(map[int64][]Sitting, len(numbers))
	for chunk := range slices.Chunk(numbers, inMost) {
		list, err := all(ctx, t.db, readSitting, `SELECT `+sittingColumns+` FROM learn_sittings WHERE point IN (`+inMarks(1)+`) ORDER BY point, number, created_at`, inArgs(chunk)...)
		if err != nil {
			return nil, err
		}
		for _, s := range list {
			out[s.Point] = append(out[s.Point], s)
		}
	}
	return out, nil
}

const logColumns = `id, person, point, deck, kind, at, day, zone, grade, queue, sitting, recall, score, took_ms, door, elapsed, state, outcome, undoes`

func readLog(s scanner) (e LogEntry, err error) {
	var at, took int64
	var before, after string
	err = s.Scan(&e.ID, &e.Person, &e.Point, &e.Deck, &e.Kind, &at, &e.Day, &e.Zone, &e.Grade, &e.Queue, &e.Sitting, &e.Recall, &e.Score, &took, &e.Door, &e.Elapsed, &before, &after, &e.Undoes)
	e.At, e.Took = fromMillis(at), time.Duration(took)*time.Millisecond
	e.Before, e.After = []byte(before), []byte(after)
	return e, err
}

// Log lists a person's entries of the review log, oldest first, of one point, or
// of all if point is 0, behind a time and an id.
func (t Learn) Log(ctx context.Context, person string, point int64, after time.Time, afterID string, limit int) ([]LogEntry, error) {
	const query = `SELECT ` + logColumns + ` FROM learn_log WHERE person = $1 AND (at, id) > ($2, $3)`
	from := zeroMillis(after)
	if after.IsZero() {
		from = -1 << 60
	}
	if point == 0 {
		return all(ctx, t.db, readLog, query+` ORDER BY at, id LIMIT $4`, person, from, afterID, limit)
	}
	return all(ctx, t.db, readLog, query+` AND point = $4 ORDER BY at, id LIMIT $5`, person, from, afterID, point, limit)
}

// Entry finds an entry of the review log.
func (t Learn) Entry(ctx context.Context, person, id string) (LogEntry, error) {
	return one(ctx, t.db, readLog, `SELECT `+logColumns+` FROM learn_log WHERE person = $1 AND id = $2`, person, id)
}

// LastReview is a person's last review that was not taken back.
func (t Learn) LastReview(ctx context.Context, person string) (LogEntry, error) {
	undone := map[string]bool{}
	at, id := int64(1)<<62, ""
	for limit := 20; ; limit *= 4 {
		page, err := all(ctx, t.db, readLog, `SELECT `+logColumns+` FROM learn_log WHERE person = $1 AND (at, id) < ($2, $3) ORDER BY at DESC, id DESC LIMIT $4`, person, at, id, limit)
		if err != nil {
			return LogEntry{}, err
		}
		if e, ok := lastReview(page, undone); ok {
			return e, nil
		}
		if len(page) < limit {
			return LogEntry{}, ErrNotFound
		}
		last := page[len(page)-1]
		at, id = millis(last.At), last.ID
	}
}

// lastReview finds the newest review that was not taken back among entries, of
// which the newest comes first: what takes a review back is newer than it, and is
// noted in undone.
func lastReview(entries []LogEntry, undone map[string]bool) (LogEntry, bool) {
	for _, e := range entries {
		switch {
		case e.Kind == LogUndo:
			undone[e.Undoes] = true
		case e.Kind == LogReview && !undone[e.ID]:
			return e, true
		}
	}
	return LogEntry{}, false
}
