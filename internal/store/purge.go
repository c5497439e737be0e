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

	"patchbay/internal/netx"
)

// Limits sets the ages at which Purge deletes rows.
type Limits struct {
	Traces    time.Time // delete traces that began earlier, without a recording
	Exchanges time.Time // delete exchanges that began earlier
	Calls     time.Time // delete calls and admin events that began earlier, and usage of earlier days
	Now       time.Time // delete what has expired by this time
}

// usedTokenRetention is how long used and expired invitations are stored, so that a wearer with an
// old QR code gets a precise error.
const usedTokenRetention = 24 * time.Hour

// minUsage is how long the usage of a day is kept at least: in every time zone until the day, for
// which limits hold, is over.
const minUsage = 72 * time.Hour

// Lifetimes of OAuth clients: of one that nobody has let in, and of one after its last use once its
// keys are revoked. Some clients register anew for each connection.
const (
	unusedClientLife = time.Hour
	usedClientLife   = 30 * 24 * time.Hour
)

// Purge deletes old rows and returns their number. Large tables are emptied in small batches, so
// that others can write in between. The SQLite file is shrunk afterwards.
func (db *DB) Purge(ctx context.Context, l Limits) (int64, error) {
	ctx = longRunning(ctx)
	var total int64
	var errs []error
	for _, d := range []struct {
		query  string
		before time.Time
	}{
		{`DELETE FROM recordings WHERE turn IN (SELECT turn FROM recordings WHERE expires_at < $1
			ORDER BY expires_at LIMIT $2)`, l.Now},
		{`DELETE FROM traces WHERE turn IN (SELECT t.turn FROM traces t WHERE t.at < $1
			AND NOT EXISTS (SELECT 1 FROM recordings r WHERE r.turn = t.turn) ORDER BY t.at LIMIT $2)`, l.Traces},
		{`DELETE FROM exchanges WHERE turn IN (SELECT turn FROM exchanges WHERE at < $1 ORDER BY at LIMIT $2)`,
			l.Exchanges},
		{`DELETE FROM media WHERE token_hash IN (SELECT token_hash FROM media WHERE expires_at < $1 ORDER BY expires_at LIMIT $2)`, l.Now},
	} {
		n, err := db.execInBatches(ctx, d.query, millis(d.before))
		total += n
		errs = append(errs, err)
	}
	// Small tables need no batches.
	for _, d := range []struct {
		query  string
		before time.Time
	}{
		{`DELETE FROM pages WHERE at < $1`, l.Exchanges},
		{`DELETE FROM chat_sessions WHERE updated_at < $1`, l.Exchanges},
		{`DELETE FROM bind_tokens WHERE expires_at < $1`, l.Now.Add(-usedTokenRetention)},
		{`DELETE FROM learn_talks WHERE until_at < $1`, l.Now},
		{`DELETE FROM bind_pending WHERE expires_at < $1`, l.Now},
		{`DELETE FROM peer_requests WHERE kind = '` + RequestDevice + `' AND refreshed_at <= $1`,
			l.Now.Add(-PeerRequestLife)},
		{`DELETE FROM sign_ins WHERE seen_at < $1`, l.Now.Add(-SignInIdle)},
		// An expired round is kept for a while, so that whoever comes back late is told so.
		{`DELETE FROM oidc_rounds WHERE expires_at < $1`, l.Now.Add(-time.Hour)},
		{`DELETE FROM approvals WHERE expires_at < $1`, l.Now},
		{`DELETE FROM bind_tries WHERE tried_at < $1`, l.Now.Add(-time.Hour)},
		{`DELETE FROM sign_in_tries WHERE began_at < $1`, l.Now.Add(-time.Hour)},
	} {
		n, err := db.exec(ctx, d.query, millis(d.before))
		total += n
		errs = append(errs, err)
	}
	usage := l.Calls
	if today := l.Now.Add(-minUsage); usage.After(today) {
		usage = today
	}
	n, err := db.SpeechUsage.purge(ctx, usage)
	total, errs = total+n, append(errs, err)
	n, err = db.OAuth.purge(ctx, l.Now, l.Now.Add(-unusedClientLife), l.Now.Add(-usedClientLife))
	total, errs = total+n, append(errs, err)
	n, err = db.purgeAudit(ctx, l.Calls)
	total += n
	return total, errors.Join(append(errs, err, db.shrink(ctx))...)
}

// Sizes, in rows, of the batches in which much is deleted or changed. With SQLite nobody else can
// write during a batch.
const (
	initialBatch  = 200
	smallestBatch = 10
	largestBatch  = 1_000
	// batchTime is the intended duration of a batch. The size of the next one is adjusted to it.
	batchTime = 15 * time.Millisecond
)

// runPaced calls step until it handles fewer than limit items. step returns how many it handled and
// how long it blocked other writers. After each step runPaced pauses for as long as the step
// blocked them.
func runPaced(ctx context.Context, step func(limit int) (n int64, took time.Duration, err error)) (total int64,
	err error) {
	for limit := initialBatch; ; {
		n, took, err := step(limit)
		total += n
		if err != nil || n < int64(limit) {
			return total, err
		}
		if err := netx.Wait(ctx, took); err != nil {
			return total, err
		}
		// Grow by a factor of two at most: one fast step is not representative.
		wanted := int(float64(limit) * float64(batchTime) / float64(max(took, time.Microsecond)))
		limit = max(smallestBatch, min(wanted, 2*limit, largestBatch))
	}
}

// runInBatches runs change in successive transactions, see [runPaced].
func (db *DB) runInBatches(ctx context.Context, change func(tx *sql.Tx, limit int) (int64, error)) (int64, error) {
	ctx = longRunning(ctx)
	return runPaced(ctx, func(limit int) (n int64, took time.Duration, err error) {
		var began time.Time // set inside the transaction: waiting for it blocks nobody
		err = db.tx(ctx, func(tx *sql.Tx) (err error) {
			began = time.Now()
			n, err = change(tx, limit)
			return err
		})
		if err != nil {
			return 0, 0, err
		}
		db.written.Add(n / rowsPerCommit)
		return n, time.Since(began), nil
	})
}

// execInBatches runs a statement repeatedly until it changes fewer rows than its limit, which is
// its last parameter.
func (db *DB) execInBatches(ctx context.Context, query string, args ...any) (int64, error) {
	return db.runInBatches(ctx, func(tx *sql.Tx, limit int) (int64, error) {
		return affected(tx.ExecContext(ctx, query, sanitizeArgs(append(args[:len(args):len(args)], limit))...))
	})
}

// updateInPages finds rows page by page, oldest first, and runs change on each page in a
// transaction. The last three parameters of find are the time and id of the last row of the
// previous page, and the page size; it returns ids and times. find runs outside the transaction and
// blocks nobody.
func (db *DB) updateInPages(ctx context.Context, find, change string, args ...any) (total int64, err error) {
	type row struct {
		id string
		at int64
	}
	ctx = longRunning(ctx)
	last := row{at: math.MinInt64}
	_, err = runPaced(ctx, func(limit int) (int64, time.Duration, error) {
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

// affected returns the number of rows that a statement has changed.
func affected(res sql.Result, err error) (int64, error) {
	if err != nil {
		return 0, err
	}
	return res.RowsAffected()
}

const (
	// autoVacuumIncremental is SQLite's auto_vacuum mode in which a file can be shrunk gradually.
	// It is set when the database is created.
	autoVacuumIncremental = 2
	// minFreePages is the minimum number of free pages left in the file, and freePagesDivisor the
	// fraction of the file (1/20): hourly deletions make room for the next hour's rows.
	minFreePages     = 1_000
	freePagesDivisor = 20
)

// shrink gradually removes free pages from the SQLite file, as in [runPaced]. A database created
// without incremental vacuum does not shrink until a backup of it is restored.
func (db *DB) shrink(ctx context.Context) error {
	if db.path == "" { // PostgreSQL vacuums by itself
		return nil
	}
	_, err := runPaced(ctx, func(limit int) (n int64, took time.Duration, err error) {
		var mode, pages, free int64
		row := db.r.QueryRowContext(ctx,
			`SELECT auto_vacuum, page_count, freelist_count FROM pragma_auto_vacuum, pragma_page_count, pragma_freelist_count`)
		if err := row.Scan(&mode, &pages, &free); err != nil {
			return 0, 0, err
		}
		n = min(free-max(minFreePages, pages/freePagesDivisor), int64(limit))
		if mode != autoVacuumIncremental || n <= 0 {
			return 0, 0, nil
		}
		conn, err := db.w.Conn(ctx)
		if err != nil {
			return 0, 0, err
		}
		defer conn.Close()
		began := time.Now()
		// The pragma returns one row for each removed page, and all must be read.
		rows, err := conn.QueryContext(ctx, fmt.Sprintf(`PRAGMA incremental_vacuum(%d)`, n))
		if err != nil {
			return 0, 0, err
		}
		for rows.Next() {
		}
		db.written.Add(n / rowsPerCommit)
		return n, time.Since(began), errors.Join(rows.Err(), rows.Close())
	})
	return err
}
