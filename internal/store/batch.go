package store

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
)

// batch collects statements that write, and whose results no other needs, for the end of a
// transaction.
type batch []statement

type statement struct {
	query string
	args  []any
	must  int64 // rows that it must change, or [errStale] is returned; 0: any number
}

func (b *batch) add(query string, args ...any) {
	*b = append(*b, statement{query: query, args: args})
}

// addRows adds new rows, so many with one statement. The head ends in VALUES.
func (b *batch) addRows(head string, together int, rows [][]any) {
	for some := range slices.Chunk(rows, together) {
		var text strings.Builder
		text.WriteString(head)
		args := make([]any, 0, len(some)*len(some[0]))
		for i, row := range some {
			before := "("
			if i > 0 {
				before = ", ("
			}
			for _, value := range row {
				args = append(args, value)
				text.WriteString(before + "$" + strconv.Itoa(len(args)))
				before = ", "
			}
			text.WriteString(")")
		}
		b.add(text.String(), args...)
	}
}

// run runs the statements in their order. PostgreSQL gets all of them at once, as each would be a
// round trip to its server.
func (b batch) run(ctx context.Context, db *DB, tx *sql.Tx) error {
	if conn, ok := db.transactions.Load(tx); ok && len(b) > 1 {
		return b.runTogether(ctx, conn.(*sql.Conn))
	}
	for _, s := range b {
		n, err := affected(tx.ExecContext(ctx, s.query, s.args...))
		if err != nil {
			return err
		}
		if s.must != 0 && n != s.must {
			return errStale
		}
	}
	return nil
}

// runTogether runs the statements in a transaction of a connection to PostgreSQL.
func (b batch) runTogether(ctx context.Context, conn *sql.Conn) error {
	return rawly(ctx, conn, func(conn *pgx.Conn) error { return b.send(ctx, conn) })
}

// rawly passes the driver's own connection to f. Within Raw neither a panic nor
// [driver.ErrBadConn] may happen: database/sql would wait for a transaction to end.
func rawly(ctx context.Context, conn *sql.Conn, f func(*pgx.Conn) error) error {
	var panicked any
	err := conn.Raw(func(own any) error {
		conn := own.(*stdlib.Conn).Conn()
		defer func() {
			if panicked = recover(); panicked != nil {
				conn.Close(ctx) //nolint:errcheck // it may be in the middle of a result
			}
		}()
		return f(conn)
	})
	if panicked != nil {
		panic(panicked)
	}
	if ctx.Err() == nil && pgconn.SafeToRetry(err) { // as the driver says of single statements
		return driver.ErrBadConn
	}
	return err
}

func (b batch) send(ctx context.Context, conn *pgx.Conn) error {
	var out pgx.Batch
	var stale bool
	for _, s := range b {
		out.Queue(s.query, s.args...).Exec(func(tag pgconn.CommandTag) error {
			stale = stale || s.must != 0 && tag.RowsAffected() != s.must
			return nil
		})
	}
	err := conn.SendBatch(ctx, &out).Close()
	if stale { // also where the rows of a point that is gone were refused
		return errStale
	}
	return err
}

// reading is a query, and what takes its rows.
type reading struct {
	query string
	args  []any
	row   func(scanner) error
}

// into is a reading that appends to a slice, as [appendAll] does.
func into[T any](to *[]T, read func(scanner) (T, error), query string, args ...any) reading {
	return reading{query, sanitizeArgs(args), func(s scanner) error {
		v, err := read(s)
		if err == nil {
			*to = append(*to, v)
		}
		return err
	}}
}

// readTogether runs queries that [DB.prepared] may keep. PostgreSQL gets all of them at once; each
// sees what was committed before it, as if they came one by one.
func (db *DB) readTogether(ctx context.Context, list ...reading) error {
	if db.hasRoundTrips() && len(list) > 0 {
		return translate(withConn(ctx, db.reader(ctx), func(conn *sql.Conn) error {
			return rawly(ctx, conn, func(conn *pgx.Conn) error { return sendReadings(ctx, conn, list) })
		}))
	}
	for _, r := range list {
		nothing := func(s scanner) (struct{}, error) { return struct{}{}, r.row(s) }
		if _, err := all(ctx, db, nothing, r.query, r.args...); err != nil {
			return err
		}
	}
	return nil
}

// readOnce is [DB.readTogether] for queries that are not kept, as those of [allOnce].
func (db *DB) readOnce(ctx context.Context, list ...reading) error {
	if db.hasRoundTrips() {
		return db.readTogether(ctx, list...)
	}
	for _, r := range list {
		if err := scanAll(ctx, db.reader(ctx), r.query, r.args, r.row); err != nil {
			return err
		}
	}
	return nil
}

// readIn is [DB.readTogether] in a transaction.
func (db *DB) readIn(ctx context.Context, tx *sql.Tx, list ...reading) error {
	if conn, ok := db.transactions.Load(tx); ok {
		return rawly(ctx, conn.(*sql.Conn), func(conn *pgx.Conn) error { return sendReadings(ctx, conn, list) })
	}
	for _, r := range list {
		if err := scanAll(ctx, tx, r.query, r.args, r.row); err != nil {
			return err
		}
	}
	return nil
}

func sendReadings(ctx context.Context, conn *pgx.Conn, list []reading) error {
	var out pgx.Batch
	for _, r := range list {
		out.Queue(r.query, r.args...).Query(func(rows pgx.Rows) error {
			for rows.Next() {
				if err := r.row(rows); err != nil {
					return err
				}
			}
			return rows.Err()
		})
	}
	return conn.SendBatch(ctx, &out).Close()
}

// withConn passes a connection to f, and another one if it is broken before f has reached the
// server, as database/sql does.
func withConn(ctx context.Context, pool *sql.DB, f func(*sql.Conn) error) error {
	for try := 0; ; try++ {
		conn, err := pool.Conn(ctx)
		if err != nil {
			return err
		}
		err = func() error {
			defer conn.Close() //nolint:errcheck // gives it back
			return f(conn)
		}()
		if !errors.Is(err, driver.ErrBadConn) || try == 2 {
			return err
		}
	}
}
