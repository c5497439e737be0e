// Package store keeps what must survive: people, keys, bots, bindings,
// conversations, traces and short-lived pictures. It speaks to SQLite (a file in
// the data folder) and to PostgreSQL with one and the same SQL text.
//
// What a write method has returned for is on the disk: SQLite runs in WAL mode
// with synchronous=FULL, PostgreSQL with its defaults. All methods are safe for
// use by many goroutines.
package store

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// Errors that callers decide by.
var (
	ErrNotFound = errors.New("not found")
	ErrExists   = errors.New("exists already")
	ErrOccupied = errors.New("bound to somebody else")
	ErrFull     = errors.New("too many are kept already")
	ErrTooLarge = errors.New("too large to be kept")
	ErrWider    = errors.New("more than was approved")
	ErrAgreed   = errors.New("approved already")
	ErrLast     = errors.New("the last one there is")
)

//go:embed migrations/*.sql
var migrations embed.FS

// FileName is the SQLite database inside the data folder.
const FileName = "patchbay.db"

// Options say where the database is.
type Options struct {
	// URL is a postgres:// URL; empty means SQLite in Folder.
	URL string
	// Folder is the data folder. It is made if it is missing.
	Folder string
	// Version is that of the program, which is told to older ones.
	Version string
	// MaxConns limits the connections to PostgreSQL, of which two are for what takes long,
	// and the readers of SQLite; 0 means 12.
	MaxConns int
}

// DB is an open database. Each field is one family of tables.
type DB struct {
	People        People
	Keys          Keys
	Bots          Bots
	Bindings      Bindings
	Conversations Conversations
	Traces        Traces
	Media         Media
	Upstreams     Upstreams
	ShimNodes     ShimNodes
	ToolRules     ToolRules
	Calls         Calls
	Leases        Leases
	Learn         Learn
	Devices       Devices
	Outbox        Outbox
	Peers         Peers
	SignIns       SignIns
	Acts          Acts
	Audit         Audit
	Secrets       Secrets

	w, r    *sql.DB // for SQLite w is one connection, for PostgreSQL both are one pool
	patient *sql.DB // for what takes long; nil for SQLite, see [patient]
	dialect string
	path    string // of the SQLite database
	commits *committer
	disk    atomic.Pointer[error] // see DiskTrouble
	written atomic.Int64          // commits that no checkpoint has taken over
	files   *checkpointer         // nil for PostgreSQL, which does that itself

	onAccess func() // see OnAccess; may be nil
	known    *known // nil for SQLite

	statements sync.Map // query → *sql.Stmt on r
	inserts    sync.Map // insert → *sql.Stmt on w
}

// Open opens the database, brings its tables up to date, and starts the group
// committer, which Close stops.
func Open(ctx context.Context, o Options) (*DB, error) {
	if o.MaxConns <= 0 {
		o.MaxConns = 12
	}
	db, err := connect(o)
	if err != nil {
		return nil, err
	}
	if err := db.migrate(ctx, o.Version); err != nil {
		db.closePools()
		return nil, err
	}
	if err := db.beginChain(ctx); err != nil {
		db.closePools()
		return nil, fmt.Errorf("begin the chain of the audit trail: %w", err)
	}
	db.People = People{db}
	db.Keys = Keys{db}
	db.Bots = Bots{db}
	db.Bindings = Bindings{db}
	db.Conversations = Conversations{db}
	db.Traces = Traces{db}
	db.Media = Media{db}
	db.Upstreams = Upstreams{db}
	db.ShimNodes = ShimNodes{db}
	db.ToolRules = ToolRules{db}
	db.Calls = Calls{db}
	db.Leases = Leases{db}
	db.Learn = Learn{db}
	db.Devices = Devices{db}
	db.Outbox = Outbox{db}
	db.Peers = Peers{db}
	db.SignIns = SignIns{db}
	db.Acts = Acts{db}
	db.Audit = Audit{db}
	db.Secrets = Secrets{db}
	db.commits = newCommitter(db)
	if db.dialect == "sqlite" {
		db.files = newCheckpointer(db)
	}
	return db, nil
}

func connect(o Options) (*DB, error) {
	if o.URL == "" {
		return connectSQLite(o)
	}
	if !isURL(o.URL) {
		return nil, errors.New("the database URL must begin with postgres:// (leave it empty for SQLite in the data folder)")
	}
	quick, patient, err := connectPostgres(o)
	if err != nil {
		return nil, err
	}
	return &DB{w: quick, r: quick, patient: patient, dialect: "postgres", known: &known{rows: map[knownKey]knownRow{}}}, nil
}

func connectSQLite(o Options) (*DB, error) {
	if err := os.MkdirAll(o.Folder, 0o700); err != nil {
		return nil, fmt.Errorf("make the data folder: %w", err)
	}
	path := filepath.Join(o.Folder, FileName)
	size, err := touch(path)
	if err != nil {
		return nil, err
	}
	open := func(pragmas ...string) (*sql.DB, error) {
		q := url.Values{"_txlock": {"immediate"}}
		for _, p := range append(pragmas, "busy_timeout(5000)", "foreign_keys(ON)", "synchronous(FULL)") {
			q.Add("_pragma", p)
		}
		return sql.Open("sqlite", (&url.URL{Scheme: "file", Opaque: escapePath(path), RawQuery: q.Encode()}).String())
	}
	pragmas := []string{"journal_mode(WAL)", fmt.Sprintf("wal_autocheckpoint(%d)", checkpointPages), fmt.Sprintf("journal_size_limit(%d)", logKept*pageSize)}
	if size == 0 { // what becomes of free pages is settled before anything else is written
		pragmas = append([]string{"auto_vacuum(INCREMENTAL)"}, pragmas...)
	}
	w, err := open(pragmas...)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	w.SetMaxOpenConns(1)
	r, err := open("query_only(ON)")
	if err != nil {
		w.Close()
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	r.SetMaxOpenConns(o.MaxConns)
	r.SetMaxIdleConns(o.MaxConns)
	return &DB{w: w, r: r, dialect: "sqlite", path: path}, nil
}

// touch makes the database file with rights for its owner only, before SQLite
// would make it with the process's defaults, and returns its size.
func touch(path string) (int64, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return 0, fmt.Errorf("open the database: %w", err)
	}
	info, err := f.Stat()
	if err = errors.Join(err, f.Close()); err != nil {
		return 0, fmt.Errorf("open the database: %w", err)
	}
	return info.Size(), nil
}

// escapePath keeps '?' and '%' in a folder's name from being read as part of
// the connection string.
func escapePath(p string) string {
	return (&url.URL{Path: filepath.ToSlash(p)}).EscapedPath()
}

func (db *DB) migrate(ctx context.Context, version string) error {
	files, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return err
	}
	// The two search for words each in its own way.
	dialect, opts := goose.DialectSQLite3, []goose.ProviderOption{goose.WithExcludeNames([]string{"00004_search_postgres.sql"})}
	if db.dialect == "postgres" {
		dialect, opts = goose.DialectPostgres, []goose.ProviderOption{goose.WithExcludeNames([]string{"00004_search_sqlite.sql"})}
		// Several instances may start at once on one database.
		locker, err := lock.NewPostgresSessionLocker()
		if err != nil {
			return err
		}
		opts = append(opts, goose.WithSessionLocker(locker))
	}
	p, err := goose.NewProvider(dialect, db.writer(patient(ctx)), files, opts...)
	if err != nil {
		return fmt.Errorf("prepare the database: %w", err)
	}
	if err := db.refuseNewer(ctx); err != nil {
		return err
	}
	done, err := p.Up(ctx)
	if err != nil {
		return fmt.Errorf("bring the database up to date: %w", err)
	}
	if len(done) == 0 {
		return nil
	}
	return db.signState(ctx, version)
}

// Close commits what waits and closes the database. Closing again does nothing.
func (db *DB) Close() error {
	db.commits.close()
	db.files.close()
	return db.closePools()
}

func (db *DB) closePools() error {
	if db.patient != nil {
		return errors.Join(db.w.Close(), db.patient.Close())
	}
	return errors.Join(db.r.Close(), db.w.Close())
}

// Dialect is "sqlite" or "postgres".
func (db *DB) Dialect() string { return db.dialect }

// Ping says whether the database answers.
func (db *DB) Ping(ctx context.Context) error {
	var one int
	return db.w.QueryRowContext(ctx, `SELECT 1`).Scan(&one)
}

// tx runs f in a transaction of its own.
func (db *DB) tx(ctx context.Context, f func(*sql.Tx) error) (err error) {
	defer func() { db.noted(err) }()
	tx, err := db.writer(ctx).BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	if err := f(tx); err != nil {
		tx.Rollback() //nolint:errcheck // the first error is the one that counts
		return translate(err)
	}
	db.written.Add(1)
	return translate(tx.Commit())
}

// locking is a query whose rows stay as they are until its transaction ends: lock
// says how, in PostgreSQL's words. SQLite has one writer at a time anyway.
func (db *DB) locking(query, lock string) string {
	if db.dialect == "postgres" {
		return query + " " + lock
	}
	return query
}

// lookAgain has the database see how some tables are filled now. PostgreSQL would
// find out about many new rows by itself, but not at once; SQLite goes by what the
// queries say.
func (db *DB) lookAgain(ctx context.Context, tables ...string) {
	ctx = patient(ctx)
	for _, table := range tables {
		if db.dialect != "postgres" {
			return
		}
		if _, err := db.exec(ctx, `ANALYZE `+table); err != nil {
			return // it only makes queries faster
		}
	}
}

// exec runs one statement and returns how many rows it changed.
func (db *DB) exec(ctx context.Context, query string, args ...any) (int64, error) {
	db.written.Add(1)
	res, err := db.writer(ctx).ExecContext(ctx, query, texts(args)...)
	if err != nil {
		db.noted(err)
		return 0, translate(err)
	}
	return res.RowsAffected()
}

// execOne is exec for a statement that must change a row: none is ErrNotFound.
func (db *DB) execOne(ctx context.Context, query string, args ...any) error {
	n, err := db.exec(ctx, query, args...)
	if err == nil && n == 0 {
		err = ErrNotFound
	}
	return err
}

// translate turns the drivers' errors into the ones callers decide by.
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

// scanner is a row, of one or of many.
type scanner interface{ Scan(...any) error }

// one reads a single row; none is ErrNotFound.
func one[T any](ctx context.Context, db *DB, read func(scanner) (T, error), query string, args ...any) (T, error) {
	st, err := db.prepared(ctx, query)
	if err != nil {
		var none T
		return none, err
	}
	v, err := read(st.QueryRowContext(ctx, texts(args)...))
	return v, translate(err)
}

// all reads every row.
func all[T any](ctx context.Context, db *DB, read func(scanner) (T, error), query string, args ...any) ([]T, error) {
	st, err := db.prepared(ctx, query)
	if err != nil {
		return nil, err
	}
	rows, err := st.QueryContext(ctx, texts(args)...)
	if err != nil {
		return nil, translate(err)
	}
	defer rows.Close()
	var out []T
	for rows.Next() {
		v, err := read(rows)
		if err != nil {
			return nil, err
		}
		out = append(out, v)
	}
	return out, rows.Err()
}

// prepared is the statement of a reading query, which is parsed once: parsing
// takes longer than running it. The queries are constants of this package, so
// that there are only as many as the source has.
func (db *DB) prepared(ctx context.Context, query string) (*sql.Stmt, error) {
	return prepareOnce(ctx, db.r, &db.statements, query, func() string { return query })
}

// insertKey names a statement that inserts rows.
type insertKey struct {
	table string
	rows  int
}

// preparedInsert is a statement that inserts several rows at once and leaves out
// those whose key is there already. A transaction that uses it must not have begun
// yet: SQLite has one connection for writing.
func (db *DB) preparedInsert(ctx context.Context, table, columns string, rows int) (*sql.Stmt, error) {
	return prepareOnce(ctx, db.w, &db.inserts, insertKey{table, rows}, func() string { return db.insertText(table, columns, rows) })
}

// insertText is where the databases differ. For SQLite $1 is a name, and it looks
// for it among all others, so that some hundred names take longer than the rows.
// And with ON CONFLICT it keeps copies of the pages that one row changes, for the
// case that a later one fails, which with OR IGNORE none does.
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

// prepareOnce finds a statement, or makes it.
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

// texts makes what people and programs wrote fit to be kept, in place: PostgreSQL
// refuses zero bytes and broken UTF-8, and with them everything else that is
// written at the same time.
func texts(args []any) []any {
	for i, a := range args {
		switch a := a.(type) {
		case string:
			if !keepable(a) {
				args[i] = fit(a)
			}
		case sql.NullString:
			if !keepable(a.String) {
				args[i] = sql.NullString{String: fit(a.String), Valid: a.Valid}
			}
		}
	}
	return args
}

func keepable(s string) bool { return utf8.ValidString(s) && strings.IndexByte(s, 0) < 0 }

func fit(s string) string {
	const instead = string(utf8.RuneError)
	return strings.ReplaceAll(strings.ToValidUTF8(s, instead), "\x00", instead)
}

// millis is how a time is kept.
func millis(t time.Time) int64 { return t.UnixMilli() }

// maybeMillis keeps the zero time as NULL.
func maybeMillis(t time.Time) sql.NullInt64 {
	return sql.NullInt64{Int64: t.UnixMilli(), Valid: !t.IsZero()}
}

func fromMillis(ms int64) time.Time { return time.UnixMilli(ms).UTC() }

func fromMaybe(ms sql.NullInt64) time.Time {
	if !ms.Valid {
		return time.Time{}
	}
	return fromMillis(ms.Int64)
}
