package store

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"strconv"
	"strings"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// tx runs f in its own transaction, and rolls back if f fails.
func (db *DB) tx(ctx context.Context, f func(*sql.Tx) error) (err error) {
	defer func() { db.noteDiskError(err) }()
	tx, end, err := db.begin(ctx)
	if err != nil {
		return err
	}
	defer end()
	if err := f(tx); err != nil {
		tx.Rollback() //nolint:errcheck // the error of f is returned
		return translate(err)
	}
	db.written.Add(1)
	return translate(tx.Commit())
}

// begin begins a transaction. For PostgreSQL its connection is kept for batches until end.
func (db *DB) begin(ctx context.Context) (tx *sql.Tx, end func(), err error) {
	if !db.hasRoundTrips() {
		tx, err = db.writer(ctx).BeginTx(ctx, nil)
		return tx, func() { tx.Rollback() }, err //nolint:errcheck // after a panic
	}
	for try := 0; ; try++ {
		conn, err := db.writer(ctx).Conn(ctx)
		if err != nil {
			return nil, nil, err
		}
		if tx, err = conn.BeginTx(ctx, nil); err == nil {
			db.transactions.Store(tx, conn)
			return tx, func() {
				db.transactions.Delete(tx)
				tx.Rollback() //nolint:errcheck // after a panic; Close would wait for it
				conn.Close()  //nolint:errcheck // gives it back
			}, nil
		}
		conn.Close()                                        //nolint:errcheck // the error of the transaction is returned
		if !errors.Is(err, driver.ErrBadConn) || try == 2 { // as database/sql does
			return nil, nil, err
		}
	}
}

// exec runs one statement and returns the number of changed rows.
func (db *DB) exec(ctx context.Context, query string, args ...any) (int64, error) {
	db.written.Add(1)
	res, err := db.writer(ctx).ExecContext(ctx, query, sanitizeArgs(args)...)
	if err != nil {
		db.noteDiskError(err)
		return 0, translate(err)
	}
	return res.RowsAffected()
}

// execOne is exec for a statement that must change a row; if it changes none, it returns
// ErrNotFound.
func (db *DB) execOne(ctx context.Context, query string, args ...any) error {
	n, err := db.exec(ctx, query, args...)
	if err == nil && n == 0 {
		err = ErrNotFound
	}
	return err
}

// translate maps driver errors to the errors of this package.
func translate(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, sql.ErrNoRows):
		return ErrNotFound
	}
	if e, ok := errors.AsType[*sqlite.Error](err); ok {
		switch e.Code() {
		case sqlite3.SQLITE_CONSTRAINT_UNIQUE, sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY:
			return ErrExists
		case sqlite3.SQLITE_CONSTRAINT_FOREIGNKEY:
			return ErrNotFound
		}
	}
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		switch e.Code {
		case "23505":
			return ErrExists
		case "23503":
			return ErrNotFound
		}
	}
	return err
}

func readNumber(s scanner) (n int64, err error) { return n, s.Scan(&n) }

// scanner is a *sql.Row or *sql.Rows.
type scanner interface{ Scan(...any) error }

// one reads a single row. It returns ErrNotFound if there is none.
func one[T any](ctx context.Context, db *DB, read func(scanner) (T, error), query string, args ...any) (T, error) {
	st, err := db.prepared(ctx, query)
	if err != nil {
		var none T
		return none, err
	}
	v, err := read(st.QueryRowContext(ctx, sanitizeArgs(args)...))
	return v, translate(err)
}

// all reads every row of a query.
func all[T any](ctx context.Context, db *DB, read func(scanner) (T, error), query string, args ...any) ([]T, error) {
	return appendAll(ctx, db, nil, read, query, args...)
}

// appendAll appends every row of a query to a slice.
func appendAll[T any](ctx context.Context, db *DB, to []T, read func(scanner) (T, error), query string,
	args ...any) ([]T, error) {
	st, err := db.prepared(ctx, query)
	if err != nil {
		return nil, err
	}
	rows, err := st.QueryContext(ctx, sanitizeArgs(args)...)
	if err != nil {
		return nil, translate(err)
	}
	defer rows.Close()
	for rows.Next() {
		v, err := read(rows)
		if err != nil {
			return nil, err
		}
		to = append(to, v)
	}
	return to, rows.Err()
}

// allOnce is all for a query whose text depends on what people write, or has numbers in it. There
// is no end of such texts, so their statements are not kept.
func allOnce[T any](
	ctx context.Context, db *DB, read func(scanner) (T, error), query string, args ...any,
) (out []T, err error) {
	err = scanAll(ctx, db.reader(ctx), query, sanitizeArgs(args), func(s scanner) error {
		v, err := read(s)
		if err == nil {
			out = append(out, v)
		}
		return err
	})
	return out, err
}

// allPlanned is all for a query whose best plan depends on its arguments. Of a prepared statement
// PostgreSQL may keep one plan for all of them: with it, words that all points have took 35 ms.
func allPlanned[T any](
	ctx context.Context, db *DB, read func(scanner) (T, error), query string, args ...any,
) ([]T, error) {
	if db.dialect != "postgres" {
		return all(ctx, db, read, query, args...)
	}
	return allOnce(ctx, db, read, query, append([]any{pgx.QueryExecModeExec}, args...)...)
}

// prepared returns the prepared statement of a read query, because parsing takes longer than
// running it. Queries are constants of this package or built from a few filter combinations, so the
// cache is bounded; for others there is [allOnce].
func (db *DB) prepared(ctx context.Context, query string) (*sql.Stmt, error) {
	return prepareOnce(ctx, db.r, &db.statements, query, func() string { return query })
}

// insertKey identifies a prepared INSERT by table and number of rows.
type insertKey struct {
	table string
	rows  int
}

// preparedInsert returns a statement that inserts several rows and skips those whose key exists.
// Call it before the transaction begins: SQLite has only one write connection.
func (db *DB) preparedInsert(ctx context.Context, table, columns string, rows int) (*sql.Stmt, error) {
	return prepareOnce(ctx, db.w, &db.inserts, insertKey{table, rows},
		func() string { return db.insertText(table, columns, rows) })
}

// insertText returns an INSERT of several rows that skips existing keys. The databases differ here.
// SQLite treats $1 as a parameter name and searches it among all others, so that several hundred
// names take longer than the rows themselves; "?" avoids that. With ON CONFLICT SQLite also copies
// the pages that each row changes, in case a later row fails; OR IGNORE does not.
func (db *DB) insertText(table, columns string, rows int) string {
	n, mark := 0, func(n int) string { return "$" + strconv.Itoa(n) }
	if db.dialect == "sqlite" {
		mark = func(int) string { return "?" }
	}
	values := make([]string, rows)
	for i := range values {
		marks := make([]string, strings.Count(columns, ",")+1)
		for j := range marks {
			n++
			marks[j] = mark(n)
		}
		values[i] = "(" + strings.Join(marks, ", ") + ")"
	}
	text := "INTO " + table + " (" + columns + ") VALUES " + strings.Join(values, ", ")
	if db.dialect == "sqlite" {
		return "INSERT OR IGNORE " + text
	}
	return "INSERT " + text + " ON CONFLICT DO NOTHING"
}

// prepareOnce returns the cached statement for key, or prepares and caches it.
func prepareOnce(ctx context.Context, pool *sql.DB, known *sync.Map, key any, query func() string) (*sql.Stmt, error) {
	if st, ok := known.Load(key); ok {
		return st.(*sql.Stmt), nil
	}
	st, err := pool.PrepareContext(ctx, query())
	if err != nil {
		return nil, translate(err)
	}
	if was, loaded := known.LoadOrStore(key, st); loaded {
		st.Close()
		return was.(*sql.Stmt), nil
	}
	return st, nil
}

// inListSize is the number of values in an IN list; shorter lists are padded, so that the query
// text is always the same.
const inListSize = 50

// inPlaceholders returns the placeholders of an IN list whose first argument has a number.
func inPlaceholders(from int) string {
	var b strings.Builder
	for i := range inListSize {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString("$" + strconv.Itoa(from+i))
	}
	return b.String()
}

// inArgs returns the arguments of an IN list with some values, at least one and at most inListSize.
func inArgs[T any](values []T) []any {
	args := make([]any, inListSize)
	for i := range args {
		args[i] = values[min(i, len(values)-1)]
	}
	return args
}

// querier is a pool of connections or a transaction.
type querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// scanAll passes each row of a query to a function, without holding them in memory. It ends with
// the first error of the function.
func scanAll(ctx context.Context, from querier, query string, args []any, row func(scanner) error) error {
	rows, err := from.QueryContext(ctx, query, args...)
	if err != nil {
		return translate(err)
	}
	defer rows.Close()
	for rows.Next() {
		if err := row(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}
