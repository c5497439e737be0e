package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"sync/atomic"
	"time"
)

// Learn accesses the tables of knowledge points. Each method sees only the rows of the given
// person; rows of others are [ErrNotFound].
type Learn struct{ db *DB }

// Learner holds a person's settings for learning.
type Learner struct {
	Person   string
	Settings json.RawMessage // a JSON object
	Reminded Day             // last day of a reminder
	Zone     string          // time zone of the person's account; empty: none
}

const (
	accountZone   = `COALESCE((SELECT zone FROM people WHERE id = learn_people.person), '')`
	selectLearner = `SELECT person, settings, reminded, ` + accountZone + ` FROM learn_people WHERE person = $1
		UNION ALL SELECT id, '{}', 0, zone FROM people WHERE id = $2
		AND NOT EXISTS (SELECT 1 FROM learn_people WHERE person = $3)`
	selectDecks = `SELECT id, person, name, settings, created_at, source FROM learn_decks WHERE person = $1 ORDER BY name LIMIT 1000`
)

// Learner returns a person's settings, "{}" if the person never changed them.
func (t Learn) Learner(ctx context.Context, person string) (Learner, error) {
	l, err := one(ctx, t.db, readLearner, selectLearner, person, person, person)
	if errors.Is(err, ErrNotFound) {
		return Learner{Person: person, Settings: json.RawMessage("{}")}, nil
	}
	return l, err
}

// LearnerWithDecks returns what [Learn.Learner] and [Learn.Decks] return.
func (t Learn) LearnerWithDecks(ctx context.Context, person string) (Learner, []Deck, error) {
	var found []Learner
	var decks []Deck
	err := t.db.readTogether(ctx, into(&found, readLearner, selectLearner, person, person, person),
		into(&decks, readDeck, selectDecks, person))
	return append(found, Learner{Person: person, Settings: json.RawMessage("{}")})[0], decks, err
}

func readLearner(s scanner) (l Learner, err error) {
	var settings string
	err = s.Scan(&l.Person, &settings, &l.Reminded, &l.Zone)
	l.Settings = json.RawMessage(settings)
	return l, err
}

// Learners lists all people with settings, for reminders, at most 100,000.
func (t Learn) Learners(ctx context.Context) ([]Learner, error) {
	return all(ctx, t.db, readLearner,
		`SELECT person, settings, reminded, `+accountZone+` FROM learn_people ORDER BY person LIMIT 100000`)
}

// SaveLearner writes a person's settings.
func (t Learn) SaveLearner(ctx context.Context, person string, settings json.RawMessage) error {
	_, err := t.db.exec(ctx, `INSERT INTO learn_people (person, settings, reminded) VALUES ($1, $2, 0)
		ON CONFLICT (person) DO UPDATE SET settings = excluded.settings`, person, string(settings))
	return err
}

// MarkReminded records that a person is reminded on a day. It returns false if that was recorded
// before: another instance sends the reminder then.
func (t Learn) MarkReminded(ctx context.Context, person string, day Day) (bool, error) {
	n, err := t.db.exec(ctx, `UPDATE learn_people SET reminded = $1 WHERE person = $2 AND reminded < $3`, int64(day),
		person, int64(day))
	return n > 0, err
}

// Decks lists a person's decks by name, without the default deck, at most 1,000.
func (t Learn) Decks(ctx context.Context, person string) ([]Deck, error) {
	return all(ctx, t.db, readDeck, selectDecks, person)
}

func readDeck(s scanner) (d Deck, err error) {
	var settings string
	var created int64
	err = s.Scan(&d.ID, &d.Person, &d.Name, &settings, &created, &d.Source)
	d.Settings, d.Created = json.RawMessage(settings), fromMillis(created)
	return d, err
}

// AddDeck inserts a deck. It returns [ErrExists] if the person already uses the name.
func (t Learn) AddDeck(ctx context.Context, d Deck) error {
	_, err := t.db.exec(ctx,
		`INSERT INTO learn_decks (id, person, name, settings, created_at, source) VALUES ($1, $2, $3, $4, $5, $6)`,
		d.ID, d.Person, d.Name, string(d.Settings), millis(d.Created), d.Source)
	return err
}

// SaveDeck writes a deck's name, settings and source.
func (t Learn) SaveDeck(ctx context.Context, d Deck) error {
	return t.db.execOne(ctx, `UPDATE learn_decks SET name = $1, settings = $2, source = $3 WHERE person = $4 AND id = $5`,
		d.Name, string(d.Settings), d.Source, d.Person, d.ID)
}

// RemoveDeck deletes a deck and moves its points to the default deck.
func (t Learn) RemoveDeck(ctx context.Context, person, id string) error {
	return retryDeadlock(func() error { return t.db.tx(ctx, removeDeck(ctx, person, id)) })
}

func removeDeck(ctx context.Context, person, id string) func(*sql.Tx) error {
	return func(tx *sql.Tx) error {
		if err := changed(tx.ExecContext(ctx, `DELETE FROM learn_decks WHERE person = $1 AND id = $2`, person,
			id)); err != nil {
			return err
		}
		for _, query := range []string{
			`UPDATE learn_points SET deck = '', version = version + 1 WHERE person = $1 AND deck = $2`,
			`INSERT INTO learn_counts (person, deck, queue, day, n) SELECT person, '', queue, day, n FROM learn_counts WHERE person = $1 AND deck = $2
				ON CONFLICT (person, queue, day, deck) DO UPDATE SET n = learn_counts.n + excluded.n`,
			`DELETE FROM learn_counts WHERE person = $1 AND deck = $2`,
			`INSERT INTO learn_days (person, deck, day, fresh, due, again, hard, good, easy, took_ms)
				SELECT person, '', day, fresh, due, again, hard, good, easy, took_ms FROM learn_days WHERE person = $1 AND deck = $2
				ON CONFLICT (person, day, deck) DO UPDATE SET fresh = learn_days.fresh + excluded.fresh, due = learn_days.due + excluded.due, again = learn_days.again + excluded.again,
				hard = learn_days.hard + excluded.hard, good = learn_days.good + excluded.good, easy = learn_days.easy + excluded.easy,
				took_ms = learn_days.took_ms + excluded.took_ms`,
			`DELETE FROM learn_days WHERE person = $1 AND deck = $2`,
		} {
			if _, err := tx.ExecContext(ctx, query, person, id); err != nil {
				return err
			}
		}
		return nil
	}
}

// Count is the number of points of a deck in a queue for a day.
type Count struct {
	Deck  string
	Queue Queue
	Day   Day // 0 in QueueNone and QueueNew
	N     int
}

func readCount(s scanner) (c Count, err error) {
	return c, s.Scan(&c.Deck, &c.Queue, &c.Day, &c.N)
}

// Queries of counts, for a person and a day.
const (
	selectWaiting = `SELECT deck, queue, 0, SUM(n) FROM learn_counts WHERE person = $1 AND queue >= 0 AND day <= $2 GROUP BY deck, queue`
	selectTotals  = `SELECT deck, 0, 0, SUM(n) FROM learn_counts WHERE person = $1 AND queue >= 0 GROUP BY deck`
	selectDue     = `SELECT deck, queue, day, n FROM learn_counts
		WHERE person = $1 AND queue IN (2, 3) AND day BETWEEN $2 AND $3 AND n <> 0 ORDER BY day`
	selectBuried = `SELECT deck, queue, 0, COUNT(*) FROM learn_points
		WHERE person = $1 AND buried > $2 AND buried > 0 AND (queue = 1 OR queue IN (2, 3) AND due <= $3) AND deleted_at IS NULL GROUP BY deck, queue`
	selectWork = `SELECT deck, day, fresh, due, again, hard, good, easy, took_ms FROM learn_days WHERE person = $1 AND day >= $2 ORDER BY day LIMIT 100000`
	selectDays = `SELECT '', day, SUM(fresh), SUM(due), SUM(again), SUM(hard), SUM(good), SUM(easy), SUM(took_ms)
		FROM learn_days WHERE person = $1 AND day >= $2 GROUP BY day ORDER BY day LIMIT 100000`
)

// Waiting counts a person's points by deck and queue: all in the queues without a day, and those
// due up to and including the given day.
func (t Learn) Waiting(ctx context.Context, person string, until Day) ([]Count, error) {
	return all(ctx, t.db, readCount, selectWaiting, person, int64(until))
}

// Totals counts a person's points by deck in all queues, without the trash.
func (t Learn) Totals(ctx context.Context, person string) ([]Count, error) {
	return all(ctx, t.db, readCount, selectTotals, person)
}

// Forecast counts the points due on each day from one day to another, inclusive.
func (t Learn) Forecast(ctx context.Context, person string, from, to Day) ([]Count, error) {
	return all(ctx, t.db, readCount, selectDue, person, int64(from), int64(to))
}

// Today is what counts for a person's day.
type Today struct {
	Work    []DayWork // since this day, as of [Learn.Work]
	Waiting []Count   // as of [Learn.Waiting]
	Buried  []Count   // due points that are buried on this day, by deck and queue
}

func (d *Today) readings(person string, today Day) []reading {
	return []reading{
		into(&d.Work, readDayWork, selectWork, person, int64(today)),
		into(&d.Waiting, readCount, selectWaiting, person, int64(today)),
		into(&d.Buried, readCount, selectBuried, person, int64(today), int64(today)),
	}
}

// Today returns what counts for a person's day.
func (t Learn) Today(ctx context.Context, person string, today Day) (d Today, err error) {
	err = t.db.readTogether(ctx, d.readings(person, today)...)
	return d, err
}

// Figures is what a person's statistics are made of.
type Figures struct {
	Today
	Totals []Count   // as of [Learn.Totals]
	Due    []Count   // as of [Learn.Forecast]
	Days   []DayWork // of all decks together, by day
}

// Figures returns what a person's statistics are made of: work since a day, and all that is due
// until another.
func (t Learn) Figures(ctx context.Context, person string, today, since, until Day) (f Figures, err error) {
	err = t.db.readTogether(ctx, append(f.readings(person, today),
		into(&f.Totals, readCount, selectTotals, person),
		into(&f.Due, readCount, selectDue, person, int64(0), int64(until)),
		into(&f.Days, readDayWork, selectDays, person, int64(since)))...)
	return f, err
}

// DayWork summarizes the reviews in a deck on a day.
type DayWork struct {
	Deck  string
	Day   Day
	Fresh int // first reviews of points
	Due   int // reviews of points that were due on a day, without first ones
	// Reviews by grade; Ungraded ones count as Good.
	Again, Hard, Good, Easy int
	Took                    time.Duration
}

// Reviews returns the number of reviews.
func (w *DayWork) Reviews() int { return w.Again + w.Hard + w.Good + w.Easy }

// Work lists a person's reviews since a day, by day, at most 100,000 rows.
func (t Learn) Work(ctx context.Context, person string, from Day) ([]DayWork, error) {
	return all(ctx, t.db, readDayWork, selectWork, person, int64(from))
}

func readDayWork(s scanner) (w DayWork, err error) {
	var ms int64
	err = s.Scan(&w.Deck, &w.Day, &w.Fresh, &w.Due, &w.Again, &w.Hard, &w.Good, &w.Easy, &ms)
	w.Took = time.Duration(ms) * time.Millisecond
	return w, err
}

// TagCount is the number of points with a tag.
type TagCount struct {
	Tag string `json:"tag"`
	N   int    `json:"points"`
}

// Tags lists a person's tags after a given one, by name. Points in the trash count too.
func (t Learn) Tags(ctx context.Context, person, after string, limit int) ([]TagCount, error) {
	return all(ctx, t.db, func(s scanner) (c TagCount, err error) { return c, s.Scan(&c.Tag, &c.N) },
		`SELECT tag, n FROM learn_tag_counts WHERE person = $1 AND tag > $2 AND n > 0 ORDER BY tag LIMIT $3`, person,
		after, limit)
}

// Talk returns the stored state of an asker's conversation about points. It returns [ErrNotFound]
// if there is none or it has expired.
func (t Learn) Talk(ctx context.Context, asker string, now time.Time) (person string, state json.RawMessage,
	err error) {
	type row struct{ person, state string }
	r, err := one(ctx, t.db, func(s scanner) (r row, err error) { return r, s.Scan(&r.person, &r.state) },
		`SELECT person, state FROM learn_talks WHERE asker = $1 AND until_at >= $2`, asker, millis(now))
	return r.person, json.RawMessage(r.state), err
}

// SaveTalk stores the state of a conversation until a time; an empty state deletes it.
func (t Learn) SaveTalk(ctx context.Context, asker, person string, state json.RawMessage, until time.Time) error {
	return t.db.commits.commit(ctx, func(ctx context.Context, tx *sql.Tx) error {
		if len(state) == 0 {
			_, err := tx.ExecContext(ctx, `DELETE FROM learn_talks WHERE asker = $1`, asker)
			return err
		}
		_, err := tx.ExecContext(ctx, `INSERT INTO learn_talks (asker, person, state, until_at) VALUES ($1, $2, $3, $4)
			ON CONFLICT (asker) DO UPDATE SET person = excluded.person, state = excluded.state, until_at = excluded.until_at`,
			sanitizeArgs([]any{asker, person, string(state), millis(until)})...)
		return err
	})
}

var lastNumber atomic.Int64

// NewNoteNumber returns a number for a new note.
func NewNoteNumber() int64 { return newPointNumber() }

// newPointNumber returns a number for a new point: the Unix time in milliseconds, shifted left by
// 15 bits, plus a random part, since other instances generate numbers too. Numbers of this process
// increase.
func newPointNumber() int64 {
	for {
		last := lastNumber.Load()
		next := max(last+1, time.Now().UnixMilli()<<15|rand.Int64N(1<<15))
		if lastNumber.CompareAndSwap(last, next) {
			return next
		}
	}
}
