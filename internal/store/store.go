// Package store persists the data of an installation: people, keys, bots, bindings, conversations,
// traces, call records and short-lived pictures. It supports SQLite (a file in the data folder) and
// PostgreSQL with the same SQL text.
//
// A write is durable when its method returns: SQLite runs in WAL mode with synchronous=FULL,
// PostgreSQL with its defaults. All methods are safe for concurrent use.
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
	"sync"
	"sync/atomic"

	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"
)

// Errors that callers distinguish.
var (
	ErrNotFound        = errors.New("not found")
	ErrExists          = errors.New("exists already")
	ErrOccupied        = errors.New("bound to somebody else")
	ErrFull            = errors.New("too many are kept already")
	ErrTooLarge        = errors.New("too large to be kept")
	ErrExceedsApproval = errors.New("more than was approved")
	ErrAlreadyApproved = errors.New("approved already")
	ErrLast            = errors.New("the last one there is")
)

//go:embed migrations/*.sql
var migrations embed.FS

// FileName is the SQLite database inside the data folder.
const FileName = "patchbay.db"

// Options configures the database connection.
type Options struct {
	// URL is a postgres:// URL; empty means SQLite in Folder.
	URL string
	// Folder is the data folder. It is created if missing.
	Folder string
	// Version is the version of this program. It is recorded with the schema, so that an older
	// program can name it when it refuses the database.
	Version string
	// MaxConns limits the connections to PostgreSQL, two of which are reserved for long-running
	// statements, and the read connections to SQLite; 0 means 12.
	MaxConns int
	// BeforeMigrate is called before migrations change a database that has been used. An error of
	// it leaves the database as it is. It may be nil.
	BeforeMigrate func(context.Context, Pending) error
}

// Pending describes migrations that are about to be applied.
type Pending struct {
	DB       *DB   // only [DB.Snapshot], [DB.Dialect] and [DB.Size] work yet
	From, To int64 // newest migration of the database, and of this program
	// Version is the version of the program that migrated the database before; empty: unknown.
	Version string
}

// DB is an open database. Each exported field accesses one group of tables.
type DB struct {
	People          People
	Keys            Keys
	Bots            Bots
	Bindings        Bindings
	Conversations   Conversations
	Traces          Traces
	Media           Media
	Upstreams       Upstreams
	UpstreamSignIns UpstreamSignIns
	Pins            Pins
	SpeechEngines   SpeechEngines
	SpeechUsage     SpeechUsage
	ShimNodes       ShimNodes
	ToolRules       ToolRules
	ToolSets        ToolSets
	ToolWordings    ToolWordings
	ChatSessions    ChatSessions
	Calls           Calls
	Leases          Leases
	Certificates    Certificates
	Learn           Learn
	Devices         Devices
	Outbox          Outbox
	Timers          Timers
	Recordings      Recordings
	Peers           Peers
	SignIns         SignIns
	Linked          LinkedPeople
	Invitations     Invitations
	Authenticators  Authenticators
	Passkeys        Passkeys
	Approvals       Approvals
	OAuth           OAuth
	AdminEvents     AdminEvents
	Audit           Audit
	Secrets         Secrets
	RelayLinks      RelayLinks
	PushDevices     PushDevices

	w, r         *sql.DB  // SQLite: w is a single connection; PostgreSQL: both are one pool
	longPool     *sql.DB  // for long-running statements; nil for SQLite, see [longRunning]
	transactions sync.Map // the *sql.Conn of each *sql.Tx of PostgreSQL
	dialect      string
	path         string // of the SQLite database
	commits      *committer
	disk         atomic.Pointer[error] // see DiskError
	written      atomic.Int64          // commits since the last checkpoint
	checkpointer *checkpointer         // nil for PostgreSQL, which checkpoints by itself
	merger       *wordsMerger

	onAccess func()    // see OnAccess; may be nil
	rowCache *rowCache // nil for SQLite

	imports    runningImports
	statements sync.Map // query → *sql.Stmt on r
	inserts    sync.Map // insert → *sql.Stmt on w
}

// Open opens the database, applies pending migrations, and starts the group committer, which Close
// stops.
func Open(ctx context.Context, o Options) (*DB, error) {
	if o.MaxConns <= 0 {
		o.MaxConns = 12
	}
	db, err := connect(o)
	if err != nil {
		return nil, err
	}
	if err := db.migrate(ctx, o); err != nil {
		db.closePools()
		return nil, err
	}
	if err := db.createFirstChain(ctx); err != nil {
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
	db.UpstreamSignIns = UpstreamSignIns{db}
	db.Pins = Pins{db}
	db.SpeechEngines = SpeechEngines{db}
	db.SpeechUsage = SpeechUsage{db}
	db.ShimNodes = ShimNodes{db}
	db.ToolRules = ToolRules{db}
	db.ToolSets = ToolSets{db}
	db.ToolWordings = ToolWordings{db}
	db.ChatSessions = ChatSessions{db}
	db.Calls = Calls{db}
	db.Leases = Leases{db}
	db.Certificates = Certificates{db}
	db.Learn = Learn{db}
	db.Devices = Devices{db}
	db.Outbox = Outbox{db}
	db.Timers = Timers{db}
	db.Recordings = Recordings{db}
	db.Peers = Peers{db}
	db.SignIns, db.Linked, db.Invitations = SignIns{db}, LinkedPeople{db}, Invitations{db}
	db.Authenticators, db.Passkeys = Authenticators{db}, Passkeys{db}
	db.Approvals = Approvals{db}
	db.OAuth = OAuth{db}
	db.AdminEvents = AdminEvents{db}
	db.Audit = Audit{db}
	db.Secrets = Secrets{db}
	db.RelayLinks = RelayLinks{db}
	db.PushDevices = PushDevices{db}
	db.commits = newCommitter(db)
	if db.merger, err = newWordsMerger(ctx, db); err != nil {
		db.commits.close()
		db.closePools()
		return nil, fmt.Errorf("prepare the search index: %w", err)
	}
	if db.dialect == "sqlite" {
		db.checkpointer = newCheckpointer(db)
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
	quick, long, err := connectPostgres(o)
	if err != nil {
		return nil, err
	}
	return &DB{w: quick, r: quick, longPool: long, dialect: "postgres",
		rowCache: &rowCache{rows: map[cacheKey]cachedRow{}}}, nil
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
	pragmas := []string{"journal_mode(WAL)", fmt.Sprintf("wal_autocheckpoint(%d)", checkpointPages),
		fmt.Sprintf("journal_size_limit(%d)", maxLogPages*pageSize)}
	if size == 0 { // SQLite accepts auto_vacuum only before the first write
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

// touch creates the database file with permissions 0600, before SQLite would create it with the
// process's defaults, and returns its size.
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

// escapePath escapes a file path, so that '?' and '%' in a folder's name are not read as part of
// the connection string.
func escapePath(p string) string {
	return (&url.URL{Path: filepath.ToSlash(p)}).EscapedPath()
}

func (db *DB) migrate(ctx context.Context, o Options) error {
	files, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return err
	}
	// Some migrations, such as that of the full-text search, are different for each database.
	dialect, others := goose.DialectSQLite3, "*_postgres.sql"
	if db.dialect == "postgres" {
		dialect, others = goose.DialectPostgres, "*_sqlite.sql"
	}
	excluded, err := fs.Glob(files, others)
	if err != nil {
		return err
	}
	opts := []goose.ProviderOption{goose.WithExcludeNames(excluded)}
	if db.dialect == "postgres" {
		// Several instances may start on one database at the same time.
		locker, err := lock.NewPostgresSessionLocker()
		if err != nil {
			return err
		}
		opts = append(opts, goose.WithSessionLocker(locker))
	}
	p, err := goose.NewProvider(dialect, db.writer(longRunning(ctx)), files, opts...)
	if err != nil {
		return fmt.Errorf("prepare the database: %w", err)
	}
	if err := db.checkNotNewer(ctx); err != nil {
		return err
	}
	if err := db.announce(ctx, p, o.BeforeMigrate); err != nil {
		return err
	}
	done, err := p.Up(ctx)
	if err != nil {
		return fmt.Errorf("bring the database up to date: %w", err)
	}
	if len(done) == 0 {
		return nil
	}
	if err := db.tuneTables(ctx); err != nil {
		return err
	}
	return db.recordVersion(ctx, o.Version)
}

// Close commits the queued writes and closes the database. Further calls do nothing.
func (db *DB) Close() error {
	db.commits.close()
	db.merger.close()
	db.checkpointer.close()
	return db.closePools()
}

func (db *DB) closePools() error {
	if db.longPool != nil {
		return errors.Join(db.w.Close(), db.longPool.Close())
	}
	return errors.Join(db.r.Close(), db.w.Close())
}

// Dialect returns "sqlite" or "postgres".
func (db *DB) Dialect() string { return db.dialect }

// Ping runs a trivial query and returns its error.
func (db *DB) Ping(ctx context.Context) error {
	var one int
	return db.w.QueryRowContext(ctx, `SELECT 1`).Scan(&one)
}

// locking appends a PostgreSQL row-lock clause to a query, such as FOR UPDATE. SQLite needs none:
// it has one writer at a time.
func (db *DB) locking(query, lock string) string {
	if db.dialect == "postgres" {
		return query + " " + lock
	}
	return query
}

// analyzeTables updates the planner statistics of tables. PostgreSQL would notice many new rows by
// itself, but not at once. It does nothing with SQLite, whose queries force their plans.
func (db *DB) analyzeTables(ctx context.Context, tables ...string) {
	ctx = longRunning(ctx)
	for _, table := range tables {
		if db.dialect != "postgres" {
			return
		}
		if _, err := db.exec(ctx, `ANALYZE `+table); err != nil {
			return // statistics only affect speed
		}
	}
}

// estimatesRows reports whether the database chooses indexes by estimated numbers of rows, as
// PostgreSQL does.
func (db *DB) estimatesRows() bool { return db.dialect == "postgres" }

// hasRoundTrips reports whether each statement is a round trip to a server.
func (db *DB) hasRoundTrips() bool { return db.dialect == "postgres" }
