package store

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// errStale reports that a point was changed concurrently.
var errStale = errors.New("the point was changed in between")

// maxRetries is the number of retries after a concurrent change or a deadlock.
const maxRetries = 10

// PointChange is a change of one point in progress. The callback of [Learn.Change] sets Point and
// Sittings to their new values, Log to the entries to add to the review log, and Revised to those
// to correct.
type PointChange struct {
	Point    Point
	Sittings []Sitting // ordered by number
	Log      []LogEntry
	// Unchanged is set by the callback of [Learn.ChangeMany] for a point that stays as it is.
	Unchanged bool
	// Revised are entries of the log whose computed fields change.
	Revised []LogRevision
	// BuryKin buries the point's kin until this day; 0: it does not.
	BuryKin Day

	before         Point
	sittingsBefore []Sitting
	tx             *sql.Tx
	load           map[Day]int // points due per day; filled 64 days at a time
	loaded         map[Day]bool
}

// Change reads a point, calls f to change it, and writes the changes in one transaction. The point
// may be in the trash. If f returns an error, nothing is written and the error is returned. f may
// be called more than once, and must read only through the change.
func (t Learn) Change(ctx context.Context, person, id string,
	f func(context.Context, *PointChange) error) (*PointChange, error) {
	for try := 0; ; try++ {
		var made *PointChange
		var refused error
		err := t.commit(ctx, func(ctx context.Context, tx *sql.Tx) error {
			made, refused = nil, nil
			c, err := t.db.readChange(ctx, tx, person, id, t.db.lock(person)...)
			if errors.Is(err, sql.ErrNoRows) {
				refused = ErrNotFound
				return nil
			}
			if err != nil {
				return err
			}
			if refused = f(ctx, c); refused != nil {
				return nil // nothing has been written
			}
			made = c
			return c.write(ctx, t.db)
		})
		switch {
		case errors.Is(err, errStale) && try < maxRetries:
			continue
		case err != nil:
			return nil, err
		}
		return made, refused
	}
}

// commit runs do, which locks a person, through the committer. If PostgreSQL still aborts it
// because of a deadlock, it is retried.
func (t Learn) commit(ctx context.Context, do func(context.Context, *sql.Tx) error) error {
	return retryDeadlock(func() error { return t.db.commits.commit(ctx, do) })
}

// lockPerson locks a person's learning data until tx ends.
func (db *DB) lockPerson(ctx context.Context, tx *sql.Tx, person string) error {
	return db.readIn(ctx, tx, db.lock(person)...)
}

// lock serializes the changes of a person's learning data over all instances, because each writes
// the same counters in its own order. Inserts of rows that reference the person are not blocked.
// SQLite, which has one writer, needs none.
func (db *DB) lock(person string) []reading {
	if !db.hasRoundTrips() {
		return nil
	}
	return []reading{{`SELECT 1 FROM people WHERE id = $1 FOR NO KEY UPDATE`, sanitizeArgs([]any{person}),
		func(scanner) error { return nil }}}
}

// retryDeadlock retries write when PostgreSQL aborts it because of a deadlock.
func retryDeadlock(write func() error) error {
	for try := 0; ; try++ {
		err := write()
		if e, ok := errors.AsType[*pgconn.PgError](err); !ok || e.Code != pgDeadlock || try == maxRetries {
			return err
		}
	}
}

// pgDeadlock is the SQLSTATE of PostgreSQL's deadlock_detected.
const pgDeadlock = "40P01"

// readChange reads a point to be changed. Some readings are done before.
func (db *DB) readChange(ctx context.Context, tx *sql.Tx, person, id string, list ...reading) (*PointChange, error) {
	const which = ` FROM learn_points WHERE person = $1 AND id = $2 AND staged IS NULL`
	var points []Point
	c := &PointChange{tx: tx}
	list = append(list, into(&points, readPoint, `SELECT `+pointColumns+which, person, id),
		into(&c.Sittings, readSitting, `SELECT `+sittingColumns+` FROM learn_sittings WHERE point = (SELECT number`+
			which+`) ORDER BY number, created_at`, person, id))
	if err := db.readIn(ctx, tx, list...); err != nil {
		return nil, err
	}
	if len(points) == 0 {
		return nil, sql.ErrNoRows
	}
	c.Point, c.before, c.sittingsBefore = points[0], points[0], slices.Clone(c.Sittings)
	c.before.Tags = slices.Clone(c.Point.Tags)
	return c, nil
}

// Before returns the point before the change.
func (c *PointChange) Before() *Point { return &c.before }

// Entry returns an entry of the person's review log.
func (c *PointChange) Entry(ctx context.Context, id string) (LogEntry, error) {
	e, err := readLog(c.tx.QueryRowContext(ctx, `SELECT `+logColumns+` FROM learn_log WHERE person = $1 AND id = $2`,
		sanitizeArgs([]any{c.before.Person, id})...))
	return e, translate(err)
}

// LastReview returns the point's last review that was not undone, or ErrNotFound.
func (c *PointChange) LastReview(ctx context.Context) (LogEntry, error) {
	rows, err := c.tx.QueryContext(ctx, `SELECT `+logColumns+
		` FROM learn_log WHERE point = $1 ORDER BY at DESC, id DESC`, c.before.Number)
	if err != nil {
		return LogEntry{}, err
	}
	defer rows.Close()
	undone := map[string]bool{}
	for rows.Next() {
		e, err := readLog(rows)
		if err != nil {
			return LogEntry{}, err
		}
		if last, ok := lastReview([]LogEntry{e}, undone); ok {
			return last, nil
		}
	}
	return LogEntry{}, cmp.Or(rows.Err(), error(ErrNotFound))
}

// Undone reports whether a review was undone.
func (c *PointChange) Undone(ctx context.Context, id string) (bool, error) {
	var n int
	err := c.tx.QueryRowContext(ctx,
		`SELECT COUNT(*) FROM learn_log WHERE person = $1 AND undoes = $2 AND undoes <> ''`,
		sanitizeArgs([]any{c.before.Person, id})...).Scan(&n)
	return n > 0, err
}

// Load returns the number of the person's points due on a day.
func (c *PointChange) Load(ctx context.Context, day Day) int {
	const page = 64
	first := day - day%page
	if !c.loaded[first] {
		if c.loaded == nil {
			c.load, c.loaded = map[Day]int{}, map[Day]bool{}
		}
		c.loaded[first] = true
		rows, err := c.tx.QueryContext(ctx,
			`SELECT day, SUM(n) FROM learn_counts WHERE person = $1 AND queue = 3 AND day BETWEEN $2 AND $3 GROUP BY day`,
			c.before.Person, int64(first), int64(first+page-1))
		if err != nil {
			return 0 // the load is only used to spread reviews
		}
		defer rows.Close()
		for rows.Next() {
			var d Day
			var n int
			if rows.Scan(&d, &n) == nil {
				c.load[d] = n
			}
		}
	}
	return c.load[day]
}

func (c *PointChange) write(ctx context.Context, db *DB) error {
	var d learnDeltas
	if err := c.writePoint(ctx, db, &d); err != nil {
		return err
	}
	return d.write(ctx, db, c.tx, c.Point.Person)
}

// writePoint adds what is to write, and changes of counters, to d.
func (c *PointChange) writePoint(ctx context.Context, db *DB, d *learnDeltas) error {
	p := &c.Point
	if p.Deck != c.before.Deck {
		var err error
		if p.Deck, err = db.resolveDeck(ctx, c.tx, p.Person, p.Deck); err != nil {
			return err
		}
	}
	d.rows.putPoint(&c.before, p)
	p.Version = c.before.Version + 1
	d.countMove(&c.before, p)
	if !slices.Equal(c.before.Tags, p.Tags) {
		d.countTags(c.before.Tags, -1)
		d.countTags(p.Tags, 1)
		d.rows.putTags(p, c.before.Tags)
	}
	if p.Words != nil {
		d.rows.putWords(p, true)
	}
	c.writeSittings(&d.more)
	for i := range c.Log {
		if err := c.resolveLogDeck(ctx, db, &c.Log[i]); err != nil {
			return err
		}
		d.more.add(insertLog, logValues(&c.Log[i])...)
		d.countReview(&c.Log[i])
	}
	if err := c.writeRevisions(ctx, db, d); err != nil {
		return err
	}
	if c.BuryKin != 0 && p.Kin != "" {
		d.more.add(`UPDATE learn_points SET buried = $1, version = version + 1 WHERE person = $2 AND kin = $3 AND kin <> '' AND number <> $4
			AND deleted_at IS NULL AND buried < $5 AND (queue = 1 OR queue = 3 AND due < $6)`,
			int64(c.BuryKin), p.Person, p.Kin, p.Number, int64(c.BuryKin), int64(c.BuryKin))
	}
	return nil
}

// resolveLogDeck sets the deck in which a log entry counts: the point's current deck, or for an
// undo the deck in which the review was counted.
func (c *PointChange) resolveLogDeck(ctx context.Context, db *DB, e *LogEntry) (err error) {
	if e.Kind == LogUndo && e.Deck != c.Point.Deck {
		e.Deck, err = db.resolveDeck(ctx, c.tx, c.Point.Person, e.Deck)
		return err
	}
	e.Deck = c.Point.Deck
	return nil
}

func (c *PointChange) writeSittings(b *batch) {
	for i := range c.Sittings {
		s := &c.Sittings[i]
		s.Point = c.Point.Number
		at := slices.IndexFunc(c.sittingsBefore, func(w Sitting) bool { return w.ID == s.ID })
		switch {
		case at < 0:
			b.addRows(insertSittings, 1, [][]any{sittingValues(c.Point.Person, s)})
		case c.sittingsBefore[at] != *s:
			b.add(`UPDATE learn_sittings SET day = $1, number = $2, completed_at = $3, recall = $4
				WHERE person = $5 AND id = $6`,
				sanitizeArgs([]any{int64(s.Day), s.Number, nullMillis(s.Completed), s.Recall, c.Point.Person, s.ID})...)
		}
	}
	for _, w := range c.sittingsBefore {
		if !slices.ContainsFunc(c.Sittings, func(s Sitting) bool { return s.ID == w.ID }) {
			b.add(`DELETE FROM learn_sittings WHERE person = $1 AND id = $2`, c.Point.Person, w.ID)
		}
	}
}

const insertSittings = `INSERT INTO learn_sittings (id, person, point, day, number, completed_at, created_at, recall)
	VALUES `

func sittingValues(person string, s *Sitting) []any {
	return sanitizeArgs([]any{s.ID, person, s.Point, int64(s.Day), s.Number, nullMillis(s.Completed), millis(s.Created),
		s.Recall})
}

const insertLog = `INSERT INTO learn_log (` + logColumns +
	`) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20)`

func logValues(e *LogEntry) []any {
	return sanitizeArgs([]any{e.ID, e.Person, e.Point, e.Deck, e.Kind, millis(e.At), int64(e.Day), e.Zone,
		int64(e.Grade), int64(e.Queue), e.Sitting, e.Recall, e.Score, e.Took.Milliseconds(), e.Channel, e.Elapsed,
		string(e.Before), string(e.After), e.Undoes, e.Source})
}

// learnDeltas collects the changes of counters, and the rows that are written together with them.
type learnDeltas struct {
	rows   pointRows
	more   batch // run after those of rows
	counts map[Count]int
	days   map[dayKey]*DayWork
	tags   map[string]int
}

func (d *learnDeltas) countTags(tags []string, n int) {
	if d.tags == nil {
		d.tags = map[string]int{}
	}
	for _, tag := range tags {
		d.tags[tag] += n
	}
}

type dayKey struct {
	deck string
	day  Day
}

func (d *learnDeltas) countPoint(p *Point, n int) {
	if d.counts == nil {
		d.counts = map[Count]int{}
	}
	d.counts[Count{Deck: p.Deck, Queue: p.Queue(), Day: queueDay(p)}] += n
}

func (d *learnDeltas) countMove(from, to *Point) {
	d.countPoint(from, -1)
	d.countPoint(to, 1)
}

// countReview counts a review, or subtracts it for an undo.
func (d *learnDeltas) countReview(e *LogEntry) {
	n := 1
	switch e.Kind {
	case LogReview:
	case LogUndo:
		n = -1
	default:
		return
	}
	w := d.day(e.Deck, e.Day)
	switch e.Grade {
	case Again:
		w.Again += n
	case Hard:
		w.Hard += n
	case Easy:
		w.Easy += n
	default:
		w.Good += n
	}
	d.countAs(e.Deck, e, n)
	// An undo has no duration: the time was spent. One that is part of a correction has that of the
	// review, because the corrected one has it again.
	w.Took += time.Duration(n) * e.Took
}

// write applies the deltas in a fixed order, so that two instances do not deadlock.
func (d *learnDeltas) write(ctx context.Context, db *DB, tx *sql.Tx, person string) error {
	var b batch
	d.rows.addTo(&b, db, person)
	b = append(b, d.more...)
	d.addCounts(&b, person)
	return b.run(ctx, db, tx)
}

func (d *learnDeltas) addCounts(b *batch, person string) {
	keys := make([]Count, 0, len(d.counts))
	for k, n := range d.counts {
		if n != 0 {
			keys = append(keys, k)
		}
	}
	slices.SortFunc(keys, func(a, b Count) int {
		return cmp.Or(cmp.Compare(a.Queue, b.Queue), cmp.Compare(a.Day, b.Day), strings.Compare(a.Deck, b.Deck))
	})
	for _, k := range keys {
		b.add(`INSERT INTO learn_counts (person, deck, queue, day, n) VALUES ($1, $2, $3, $4, $5)
			ON CONFLICT (person, queue, day, deck) DO UPDATE SET n = learn_counts.n + excluded.n`, person, k.Deck,
			int64(k.Queue), int64(k.Day), d.counts[k])
	}
	for _, tag := range slices.Sorted(maps.Keys(d.tags)) {
		if n := d.tags[tag]; n != 0 {
			b.add(`INSERT INTO learn_tag_counts (person, tag, n) VALUES ($1, $2, $3)
				ON CONFLICT (person, tag) DO UPDATE SET n = learn_tag_counts.n + excluded.n`,
				sanitizeArgs([]any{person, tag, n})...)
		}
	}
	days := make([]dayKey, 0, len(d.days))
	for k := range d.days {
		days = append(days, k)
	}
	slices.SortFunc(days, func(a, b dayKey) int {
		return cmp.Or(cmp.Compare(a.day, b.day), strings.Compare(a.deck, b.deck))
	})
	for _, k := range days {
		w := d.days[k]
		b.add(`INSERT INTO learn_days (person, deck, day, fresh, due, again, hard, good, easy, took_ms) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
			ON CONFLICT (person, day, deck) DO UPDATE SET fresh = learn_days.fresh + excluded.fresh, due = learn_days.due + excluded.due, again = learn_days.again + excluded.again, hard = learn_days.hard + excluded.hard,
			good = learn_days.good + excluded.good, easy = learn_days.easy + excluded.easy, took_ms = learn_days.took_ms + excluded.took_ms`,
			person, k.deck, int64(k.day), w.Fresh, w.Due, w.Again, w.Hard, w.Good, w.Easy, w.Took.Milliseconds())
	}
}
