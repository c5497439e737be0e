package store

import (
	"context"
	"database/sql"
	"database/sql/driver"
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

// runTogether runs the statements in a transaction of a connection to PostgreSQL. Within Raw
// neither a panic nor [driver.ErrBadConn] may happen: database/sql would wait for the transaction
// to end.
func (b batch) runTogether(ctx context.Context, conn *sql.Conn) error {
	var panicked any
	err := conn.Raw(func(own any) error {
		defer func() { panicked = recover() }()
		return b.send(ctx, own.(*stdlib.Conn).Conn())
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
