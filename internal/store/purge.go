package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Limits say what is old.
type Limits struct {
	Traces    time.Time // traces that began before go
	Exchanges time.Time // exchanges that began before go
	Calls     time.Time // calls that began, and acts that were done, before go
	Now       time.Time // what has expired by now goes
}

// Used and expired invitations are kept for a day, so that a wearer who holds
// an old QR code is told what is wrong with it.
const tokenAfterlife = 24 * time.Hour

// Purge deletes what is old and returns how many rows went. Large tables are emptied in
// small batches, and others write in between. The file of SQLite gets smaller by what is
// free in it afterwards.
func (db *DB) Purge(ctx context.Context, l Limits) (int64, error) {
	ctx = patient(ctx)
	var total int64
	var errs []error
	for _, d := range []struct {
		query  string
		before time.Time
	}{
		{`DELETE FROM traces WHERE turn IN (SELECT turn FROM traces WHERE at < $1 ORDER BY at LIMIT $2)`, l.Traces},
		{`DELETE FROM exchanges WHERE turn IN (SELECT turn FROM exchanges WHERE at < $1 ORDER BY at LIMIT $2)`, l.Exchanges},
		{`DELETE FROM media WHERE token_hash IN (SELECT token_hash FROM media WHERE expires_at < $1 ORDER BY expires_at LIMIT $2)`, l.Now},
	} {
		n, err := db.piecemeal(ctx, d.query, millis(d.before))
		total += n
		errs = append(errs, err)
	}
	// These are small.
	for _, d := range []struct {
		query  string
		before time.Time
	}{
		{`DELETE FROM pages WHERE at < $1`, l.Exchanges},
		{`DELETE FROM bind_tokens WHERE expires_at < $1`, l.Now.Add(-tokenAfterlife)},
		{`DELETE FROM learn_talks WHERE until_at < $1`, l.Now},
		{`DELETE FROM bind_pending WHERE expires_at < $1`, l.Now},
		{`DELETE FROM peer_requests WHERE kind = '` + RequestDevice + `' AND refreshed_at <= $1`, l.Now.Add(-PeerRequestLife)},
		{`DELETE FROM sign_ins WHERE seen_at < $1`, l.Now.Add(-SignInIdle)},
		{`DELETE FROM bind_tries WHERE tried_at < $1`, l.Now.Add(-time.Hour)},
		{`DELETE FROM sign_in_tries WHERE began_at < $1`, l.Now.Add(-time.Hour)},
	} {
		n, err := db.exec(ctx, d.query, millis(d.before))
		total += n
		errs = append(errs, err)
	}
	n, err := db.purgeAudit(ctx, l.Calls)
	total += n
	return total, errors.Join(append(errs, err, db.shrink(ctx))...)
}

// How large the batches are in which much is deleted or changed. With SQLite nobody else
// writes while one runs.
const (
	batchFirst = 200
	batchLeast = 10
	batchMost  = 1_000
	// batchTime is how long a batch should take. The next one is larger or smaller by that.
	batchTime = 15 * time.Millisecond
)

// paced runs step, which handles at most limit things and reports how many it has handled
// and how long nobody else could write, until it handles fewer. After each step others
// have as much time as the step took.
func paced(ctx context.Context, step func(limit int) (n int64, took time.Duration, err error)) (total int64, err error) {
	for limit := batchFirst; ; {
		n, took, err := step(limit)
		total += n
		if err != nil || n < int64(limit) {
			return total, err
		}
		select {
		case <-time.After(took):
		case <-ctx.Done():
			return total, ctx.Err()
		}
		// At most twice as many as the last time: one fast step does not say much.
		wanted := int(float64(limit) * float64(batchTime) / float64(max(took, time.Microsecond)))
		limit = max(batchLeast, min(wanted, 2*limit, batchMost))
	}
}

// batches runs change in one transaction after the other, see [paced].
func (db *DB) batches(ctx context.Context, change func(tx *sql.Tx, limit int) (int64, error)) (int64, error) {
	ctx = patient(ctx)
	return paced(ctx, func(limit int) (n int64, took time.Duration, err error) {
		var began time.Time // not before the transaction has: waiting for it holds up nobody
		err = db.tx(ctx, func(tx *sql.Tx) (err error) {
			began = time.Now()
			n, err = change(tx, limit)
			return err
		})
		if err != nil {
			return 0, 0, err
		}
		db.written.Add(n / rowsOfCommit)
		return n, time.Since(began), nil
	})
}

// piecemeal runs a statement that changes some rows at a time until there are no more. Its
// last parameter is how many.
func (db *DB) piecemeal(ctx context.Context, query string, args ...any) (int64, error) {
	return db.batches(ctx, func(tx *sql.Tx, limit int) (int64, error) {
		return affected(tx.ExecContext(ctx, query, texts(append(args[:len(args):len(args)], limit))...))
	})
}

// eachOf finds rows page by page, oldest first, and changes those of one page at a time.
// The last three parameters of find are the time and the id of the last row of the page
// before, and how many rows are on a page; it returns ids and times. Finding holds up nobody.
func (db *DB) eachOf(ctx context.Context, find, change string, args ...any) (total int64, err error) {
	type row struct {
		id string
		at int64
	}
	ctx = patient(ctx)
	last := row{at: math.MinInt64}
	_, err = paced(ctx, func(limit int) (int64, time.Duration, error) {
		page, err := all(ctx, db, func(s scanner) (r row, err error) { return r, s.Scan(&r.id, &r.at) }, find,
			append(args[:len(args):len(args)], last.at, last.id, limit)...)
		if err != nil || len(page) == 0 {
			return 0, 0, err
		}
		last = page[len(page)-1]
		ids, marks := make([]any, len(page)), make([]string, len(page))
		for i, r := range page {
			ids[i], marks[i] = r.id, "$"+strconv.Itoa(i+1)
		}
		var began time.Time
		err = db.tx(ctx, func(tx *sql.Tx) error {
			began = time.Now()
			n, err := affected(tx.ExecContext(ctx, change+` (`+strings.Join(marks, ", ")+`)`, ids...))
			total += n
			return err
		})
		return int64(len(page)), time.Since(began), err
	})
	return total, err
}

// affected is how many rows a statement has changed.
func affected(res sql.Result, err error) (int64, error) {
	if err != nil {
		return 0, err
	}
	return res.RowsAffected()
}

const (
	// autoVacuumIncremental is what SQLite calls the mode in which a file can be made
	// smaller bit by bit. It is chosen when a database is made.
	autoVacuumIncremental = 2
	// freeKept is how many free pages stay in the file at least, and freeShare which part of
	// it: what is deleted every hour is written anew in the next one.
	freeKept  = 1_000
	freeShare = 20
)

// shrink makes the file of SQLite smaller by what is free in it, step by step as [paced]
// does. A database from before that was possible stays as it is, until a backup of it is
// restored.
func (db *DB) shrink(ctx context.Context) error {
	if db.path == "" { // PostgreSQL sees to that itself
		return nil
	}
	_, err := paced(ctx, func(limit int) (n int64, took time.Duration, err error) {
		var mode, pages, free int64
		row := db.r.QueryRowContext(ctx, `SELECT auto_vacuum, page_count, freelist_count FROM pragma_auto_vacuum, pragma_page_count, pragma_freelist_count`)
		if err := row.Scan(&mode, &pages, &free); err != nil {
			return 0, 0, err
		}
		n = min(free-max(freeKept, pages/freeShare), int64(limit))
		if mode != autoVacuumIncremental || n <= 0 {
			return 0, 0, nil
		}
		conn, err := db.w.Conn(ctx)
		if err != nil {
			return 0, 0, err
		}
		defer conn.Close()
		began := time.Now()
		// It is a table that has to be read, one row for each page that goes.
		rows, err := conn.QueryContext(ctx, fmt.Sprintf(`PRAGMA incremental_vacuum(%d)`, n))
		if err != nil {
			return 0, 0, err
		}
		for rows.Next() {
		}
		db.written.Add(n / rowsOfCommit)
		return n, time.Since(began), errors.Join(rows.Err(), rows.Close())
	})
	return err
}
