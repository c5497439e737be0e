package store

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"
)

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
	Sizes *QueueSizes // of [Learn.TodayOf], for the same decks and tag; nil: they are read
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

// QueueSizes are what the way to the points of a filter is chosen by. They are read once for all
// queries of the filter.
type QueueSizes struct {
	waiting map[Queue]int
	tagged  int
	shares  map[Queue]float64 // of the tag, as of [Learn.taggedAmongFirst], where it was asked for
}

// Waiting returns how many points of the filter's decks wait in a queue. In QueueSteps that are
// those of tomorrow too, as of the hours after midnight.
func (s *QueueSizes) Waiting(q Queue) int { return s.waiting[q] }

// sizes returns the sizes for a query of a filter with a tag.
func (t Learn) sizes(ctx context.Context, person string, f QueueFilter, tag string) (*QueueSizes, error) {
	if f.Sizes != nil {
		return f.Sizes, nil
	}
	until := Day(0) // new points are counted under day 0
	switch f.Queue {
	case QueueSteps:
		until = f.Today + 1
	case QueueDay:
		until = f.Today
	}
	s, waiting := &QueueSizes{}, 0
	err := t.db.readTogether(ctx, countQueued(&waiting, person, f.Queue, until, f.Deck),
		countTagged(&s.tagged, person, tag))
	s.waiting = map[Queue]int{f.Queue: waiting}
	return s, err
}

// TodayOf returns what counts for a person's day, and the sizes of a filter.
func (t Learn) TodayOf(ctx context.Context, person string, f QueueFilter) (d Today, s *QueueSizes, err error) {
	s = &QueueSizes{}
	steps := 0
	list := append(d.readings(person, f.Today), countQueued(&steps, person, QueueSteps, f.Today+1, f.Deck))
	if tag := f.tag(); tag != "" {
		list = append(list, countTagged(&s.tagged, person, tag))
	}
	err = t.db.readTogether(ctx, list...)
	s.waiting = map[Queue]int{QueueSteps: steps}
	for _, c := range d.Waiting {
		if c.Queue != QueueSteps && (f.Deck == nil || c.Deck == *f.Deck) {
			s.waiting[c.Queue] += c.N
		}
	}
	return d, s, err
}

// preferTagIndex reports whether points of a queue with a tag, at most so many, are found faster
// through the tag than through the queue. Where fewer points wait than have the tag, as usual in
// QueueSteps and QueueDay, scanning the queue reads only a few rows.
func (t Learn) preferTagIndex(ctx context.Context, person string, f QueueFilter, most int) (bool, error) {
	tag := f.tag()
	if tag == "" {
		return false, nil
	}
	sizes, err := t.sizes(ctx, person, f, tag)
	if err != nil {
		return false, err
	}
	waiting, tagged := sizes.waiting[f.Queue], sizes.tagged
	if waiting <= tagged || tagged <= selectiveLimit {
		return waiting > tagged, nil
	}
	reads := float64(waiting)
	if len(f.Skip) == 0 && len(f.withoutTag().Where) == 0 {
		// By the share of the first ones with the tag, so many are read until there are enough.
		share, known := sizes.shares[f.Queue]
		if !known {
			if share, err = t.taggedAmongFirst(ctx, person, f, tag); err != nil {
				return false, err
			}
			if sizes.shares == nil {
				sizes.shares = map[Queue]float64{}
			}
			sizes.shares[f.Queue] = share
		}
		reads = min(reads, float64(most)/share)
	}
	return lookupCost*float64(tagged) < reads, nil
}

// lookupCost is how many entries of an index, in its order, are read with their points in the time
// that it takes to look up one point by its number: measured with 100,000 points, 5,500 of them
// with the tag (bench/console, /learn/review?tag=…). SQLite takes 0.8 µs for an entry, and from
// 0.5 µs, if the point is in another queue, to 1.7 µs for a point.
const lookupCost = 2

// sampleSize is how many points tell the share of a tag. It decides between ways that differ by
// much or matter little, and each point is a search in an index: of 2,000 it took 3 ms.
const sampleSize = 250

// taggedAmongFirst returns which share of the first points in a queue has a tag. It reads no
// points, only indexes; for EXISTS PostgreSQL may read all points with the tag.
func (t Learn) taggedAmongFirst(ctx context.Context, person string, f QueueFilter, tag string) (float64, error) {
	first, args := `SELECT number FROM learn_points WHERE person = $1 AND queue = $2`, []any{person, int64(f.Queue)}
	if f.Deck != nil {
		first, args = first+` AND deck = $3`, append(args, *f.Deck)
	}
	n := len(args)
	args = append(args, person, tag)
	return one(ctx, t.db, func(s scanner) (share float64, err error) { return share, s.Scan(&share) },
		fmt.Sprintf(`SELECT COUNT(*) * 1.0 / %d FROM (%s ORDER BY due, due_at, number LIMIT %d) AS first_ones
			WHERE (SELECT 1 FROM learn_tags WHERE person = $%d AND tag = $%d AND point = number) = 1`, sampleSize, first,
			sampleSize, n+1, n+2), args...)
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

// CountQueued counts the points of queues by deck, at most so many together in each.
func (t Learn) CountQueued(ctx context.Context, person string, queues []QueueFilter, most []int) ([]Count, error) {
	var out []Count
	// In the order of the queue, its index ends the count at the limit. Without it PostgreSQL may
	// join all points with a tag first.
	err := t.readQueues(ctx, person, `deck, queue`, queues, most, func(text string, args []any) reading {
		return into(&out, readCount, `SELECT deck, queue, 0, COUNT(*) FROM (`+text+`) AS counted GROUP BY deck, queue`,
			args...)
	})
	return out, err
}

// KinPoint is a point with kin.
type KinPoint struct {
	Deck, Kin string
	Queue     Queue
}

// KinQueued lists those with kin among the first points of queues, at most so many of each, in
// order.
func (t Learn) KinQueued(ctx context.Context, person string, queues []QueueFilter, most []int) ([]KinPoint, error) {
	var out []KinPoint
	read := func(s scanner) (p KinPoint, err error) { return p, s.Scan(&p.Deck, &p.Kin, &p.Queue) }
	err := t.readQueues(ctx, person, `deck, kin, queue, due, due_at, number`, queues, most,
		func(text string, args []any) reading {
			return into(&out, read, `SELECT deck, kin, queue FROM (`+text+
				`) AS first_ones WHERE kin <> '' ORDER BY due, due_at, number`, args...)
		})
	return out, err
}

// readQueues reads columns of the first points of queues, at most so many of each, queue by queue.
func (t Learn) readQueues(ctx context.Context, person, columns string, queues []QueueFilter, most []int,
	read func(query string, args []any) reading) error {
	var list []reading
	kept := true
	for i, f := range queues {
		q, err := t.queueQuery(ctx, person, columns, f, most[i])
		if err != nil {
			return err
		}
		if q != nil {
			list = append(list, read(q.text+` ORDER BY due, due_at, number LIMIT `+q.arg(most[i]), q.args))
		}
		kept = kept && len(f.Where) == 0
	}
	if kept {
		return t.db.readTogether(ctx, list...)
	}
	return t.db.readOnce(ctx, list...)
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
