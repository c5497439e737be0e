package store

import (
	"context"
	"database/sql"
	"time"
)

// MaxTimers and MaxTimersOfOwner are the maximum numbers of timers of a device, and of all devices
// of its owner. They protect people from a model that sets one after the other.
const (
	MaxTimers        = 20
	MaxTimersOfOwner = 100
)

// How often a timer rings. Empty: once.
const (
	RepeatDaily    = "daily"
	RepeatWeekdays = "weekdays" // Monday to Friday
)

// Timer is a timer or a reminder that somebody set at a device.
type Timer struct {
	Number  int64     `json:"id"` // never reused
	Device  int64     `json:"device"`
	Text    string    `json:"text"` // what to say; empty: only that the time is up
	Due     time.Time `json:"due_at"`
	Repeat  string    `json:"repeat,omitempty"`
	Zone    string    `json:"time_zone"`
	Clock   string    `json:"clock"` // local time of day of Due, such as 07:00:00
	Created time.Time `json:"created_at"`
}

// Next returns when a timer that repeats is due after now; zero if it does not.
func (t *Timer) Next(now time.Time) time.Time {
	zone, err := time.LoadLocation(t.Zone)
	if err != nil {
		zone = time.UTC
	}
	clock, err := time.Parse(time.TimeOnly, t.Clock)
	if t.Repeat == "" || err != nil {
		return time.Time{}
	}
	for day := t.Due.In(zone); ; {
		day = day.AddDate(0, 0, 1)
		// A time that the clock skips is the one after the change.
		at := time.Date(day.Year(), day.Month(), day.Day(), clock.Hour(), clock.Minute(), clock.Second(), 0, zone)
		weekend := at.Weekday() == time.Saturday || at.Weekday() == time.Sunday
		if at.After(now) && !(t.Repeat == RepeatWeekdays && weekend) {
			return at.UTC()
		}
	}
}

// Timers accesses the table of timers. Removing a device deletes its timers.
type Timers struct{ db *DB }

const timerColumns = `number, device, text, due_at, repeats, zone, clock, created_at`

func readTimer(s scanner) (t Timer, err error) {
	var due, created int64
	err = s.Scan(&t.Number, &t.Device, &t.Text, &due, &t.Repeat, &t.Zone, &t.Clock, &created)
	t.Due, t.Created = fromMillis(due), fromMillis(created)
	return t, err
}

// Add stores a timer and returns it with its number. It returns [ErrFull] if the device or its
// owner has the maximum, and [ErrNotFound] if there is no such device.
func (t Timers) Add(ctx context.Context, r Timer) (Timer, error) {
	err := t.db.tx(ctx, func(tx *sql.Tx) error {
		// The counter's lock makes concurrent calls count each other's timers.
		if err := tx.QueryRowContext(ctx, `UPDATE counters SET value = value + 1 WHERE name = 'timer' RETURNING value`).
			Scan(&r.Number); err != nil {
			return err
		}
		var owner sql.NullString
		if err := tx.QueryRowContext(ctx, `SELECT owner FROM devices WHERE number = $1`, r.Device).
			Scan(&owner); err != nil {
			return err
		}
		var own, all int
		if err := tx.QueryRowContext(ctx, `SELECT COALESCE(SUM(CASE WHEN t.device = $1 THEN 1 ELSE 0 END), 0), COUNT(*)
			FROM timers t JOIN devices d ON d.number = t.device WHERE t.device = $1 OR d.owner = $2`,
			r.Device, owner.String).Scan(&own, &all); err != nil {
			return err
		}
		if own >= MaxTimers || all >= MaxTimersOfOwner {
			return ErrFull
		}
		_, err := tx.ExecContext(ctx, `INSERT INTO timers (`+timerColumns+`, held_until)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, 0)`, sanitizeArgs([]any{r.Number, r.Device, r.Text, millis(r.Due),
			r.Repeat, r.Zone, r.Clock, millis(r.Created)})...)
		return err
	})
	r.Due, r.Created = fromMillis(millis(r.Due)), fromMillis(millis(r.Created))
	return r, err
}

// Of lists the timers of a device, the next one first.
func (t Timers) Of(ctx context.Context, device int64) ([]Timer, error) {
	return all(ctx, t.db, readTimer, `SELECT `+timerColumns+` FROM timers WHERE device = $1 ORDER BY due_at, number`,
		device)
}

// Remove deletes a timer of a device. It returns [ErrNotFound] if there is no such timer.
func (t Timers) Remove(ctx context.Context, device, number int64) error {
	n, err := t.db.exec(ctx, `DELETE FROM timers WHERE device = $1 AND number = $2`, device, number)
	if err == nil && n == 0 {
		return ErrNotFound
	}
	return err
}

// Due lists timers that are due at a time and that nobody holds, the first ones first. The next
// call lists the rest, if there are many.
func (t Timers) Due(ctx context.Context, at, now time.Time) ([]Timer, error) {
	return all(ctx, t.db, readTimer, `SELECT `+timerColumns+
		` FROM timers WHERE due_at <= $1 AND held_until <= $2 ORDER BY due_at, number LIMIT 200`, millis(at),
		millis(now))
}

// Hold reserves a timer for one caller until the given time. It returns false if somebody else
// holds it, or it is not due at the same time any more.
func (t Timers) Hold(ctx context.Context, r Timer, now, until time.Time) (bool, error) {
	n, err := t.db.exec(ctx, `UPDATE timers SET held_until = $1 WHERE number = $2 AND due_at = $3 AND held_until <= $4`,
		millis(until), r.Number, millis(r.Due), millis(now))
	return n > 0, err
}

// Finish deletes a timer that has rung, or sets when it rings next. A zero time deletes it.
func (t Timers) Finish(ctx context.Context, r Timer, next time.Time) error {
	query, args := `DELETE FROM timers WHERE number = $1 AND due_at = $2`, []any{r.Number, millis(r.Due)}
	if !next.IsZero() {
		query = `UPDATE timers SET due_at = $3, held_until = 0 WHERE number = $1 AND due_at = $2`
		args = append(args, millis(next))
	}
	_, err := t.db.exec(ctx, query, args...)
	return err
}

// Release lets others hold a timer again.
func (t Timers) Release(ctx context.Context, r Timer) error {
	_, err := t.db.exec(ctx, `UPDATE timers SET held_until = 0 WHERE number = $1 AND due_at = $2`, r.Number,
		millis(r.Due))
	return err
}
