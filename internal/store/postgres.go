package store

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"patchbay/internal/netx"
)

// Timeouts of PostgreSQL. A wearer who asks a question must get an error within some seconds.
const (
	// statementLimit limits a statement, from sending it to the first byte of the response.
	statementLimit = 5 * time.Second
	// serverLimit is the server's own statement_timeout, shorter so that its error arrives before
	// the connection is given up.
	serverLimit = statementLimit - 500*time.Millisecond
	// longRunningLimit limits long-running statements: migrations, retention, deletions by people.
	longRunningLimit = 10 * time.Minute
	// connectLimit limits the time to connect.
	connectLimit = 2 * time.Second
	// pingLimit limits the check whether an idle connection still works, and idleLimit is the idle
	// time after which it is done.
	pingLimit = 500 * time.Millisecond
	idleLimit = time.Second
	// idleInTransactionLimit is how long the server keeps a transaction whose client is silent, as
	// after a crash of its machine: its locks block others.
	idleInTransactionLimit = 10 * time.Second
	// reconnectDelay is how long no other attempt to connect is made after one has failed.
	reconnectDelay = 250 * time.Millisecond
)

// longRunningConns is the number of an instance's connections for long-running statements.
const longRunningConns = 2

// connectPostgres creates two pools: one for statements that somebody waits for, and one for
// long-running statements.
func connectPostgres(o Options) (quick, long *sql.DB, err error) {
	config, err := pgx.ParseConfig(o.URL)
	if err != nil {
		// The driver's error may quote the URL with its password.
		return nil, nil,
			errors.New("the database URL cannot be read; it should look like postgres://user:password@host/name")
	}
	if config.ConnectTimeout == 0 {
		config.ConnectTimeout = connectLimit
	}
	quick, long = newPool(config, statementLimit, serverLimit), newPool(config, longRunningLimit, 0)
	quick.SetMaxOpenConns(max(1, o.MaxConns-longRunningConns))
	quick.SetMaxIdleConns(o.MaxConns)
	quick.SetConnMaxIdleTime(5 * time.Minute)
	long.SetMaxOpenConns(longRunningConns)
	long.SetMaxIdleConns(1)
	long.SetConnMaxIdleTime(time.Minute)
	return quick, long, nil
}

type longRunningKey struct{}

// longRunning marks a context for statements that may take [longRunningLimit] and run on their own
// connections.
func longRunning(ctx context.Context) context.Context {
	return context.WithValue(ctx, longRunningKey{}, true)
}

// writer returns the pool for statements that write.
func (db *DB) writer(ctx context.Context) *sql.DB {
	if db.longPool != nil && ctx.Value(longRunningKey{}) != nil {
		return db.longPool
	}
	return db.w
}

// reader returns the pool for statements that only read.
func (db *DB) reader(ctx context.Context) *sql.DB {
	if db.longPool != nil && ctx.Value(longRunningKey{}) != nil {
		return db.longPool
	}
	return db.r
}

// connector connects to a PostgreSQL server. When it finds the server silent, all older connections
// are discarded, so that only one of them costs a timeout.
type connector struct {
	driver.Connector
	limit    time.Duration
	silentAt atomic.Int64 // when the server was last found silent, in Unix nanoseconds

	mu       sync.Mutex
	failedAt time.Time // time of the last failed attempt; zero: none
	lastErr  error
	retrying bool // one caller is reconnecting
}

// newPool creates a pool whose statements are given up after limit. server is the statement_timeout
// on the server; 0 means none.
func newPool(config *pgx.ConnConfig, limit, server time.Duration) *sql.DB {
	l := &connector{limit: limit}
	own := config.Copy()
	dial := own.DialFunc
	own.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return &limitedConn{Conn: c, connector: l, made: time.Now()}, nil
	}
	l.Connector = stdlib.GetConnector(*own,
		stdlib.OptionAfterConnect(func(ctx context.Context, c *pgx.Conn) error {
			_, err := c.Exec(ctx,
				`SELECT set_config('statement_timeout', $1, false), set_config('idle_in_transaction_session_timeout', $2, false)`,
				milliseconds(server), milliseconds(idleInTransactionLimit))
			return err
		}),
		stdlib.OptionShouldPing(func(ctx context.Context, p stdlib.ShouldPingParams) bool { return false }),
		stdlib.OptionResetSession(l.reset),
	)
	return sql.OpenDB(l)
}

func milliseconds(d time.Duration) string { return d.Truncate(time.Millisecond).String() }

// Connect opens a connection. While the server is unreachable, only one caller tries at a time and
// the others get its last error at once.
func (l *connector) Connect(ctx context.Context) (driver.Conn, error) {
	l.mu.Lock()
	if l.lastErr != nil && (l.retrying || time.Since(l.failedAt) < reconnectDelay) {
		defer l.mu.Unlock()
		return nil, l.lastErr
	}
	l.retrying = l.lastErr != nil
	l.mu.Unlock()
	c, err := l.Connector.Connect(ctx)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.retrying = false
	switch {
	case err == nil:
		l.lastErr = nil
	case ctx.Err() == nil: // a cancelled attempt says nothing about the server
		l.lastErr, l.failedAt = err, time.Now()
	}
	return c, err
}

// reset checks a connection before it is reused. [driver.ErrBadConn] makes database/sql use another
// one.
func (l *connector) reset(ctx context.Context, c *pgx.Conn) error {
	own := unwrapConn(c)
	if own == nil {
		return nil
	}
	if own.made.UnixNano() <= l.silentAt.Load() {
		return own.discard()
	}
	if idle := time.Since(time.Unix(0, own.lastRead.Load())); idle <= idleLimit {
		return nil
	}
	limited, cancel := context.WithTimeout(ctx, pingLimit)
	defer cancel()
	if err := c.Ping(limited); err != nil {
		if ctx.Err() == nil && limited.Err() != nil {
			l.markSilent()
		}
		return own.discard()
	}
	return nil
}

func (l *connector) markSilent() { l.silentAt.Store(time.Now().UnixNano()) }

// unwrapConn returns the limitedConn below a pgx connection, or nil.
func unwrapConn(c *pgx.Conn) *limitedConn {
	conn := c.PgConn().Conn()
	for {
		switch x := conn.(type) {
		case *limitedConn:
			return x
		case interface{ NetConn() net.Conn }: // TLS
			conn = x.NetConn()
		default:
			return nil
		}
	}
}

// limitedConn limits the duration of reads. pgx reads only when it expects data.
type limitedConn struct {
	net.Conn
	connector *connector
	made      time.Time
	lastRead  atomic.Int64 // time of the last read, in Unix nanoseconds

	mu       sync.Mutex
	deadline time.Time // deadline set by pgx for a context; zero: none
}

// discard closes the connection without a termination message, which could block on a silent
// server.
func (c *limitedConn) discard() error {
	c.Close()
	return driver.ErrBadConn
}

func (c *limitedConn) Read(b []byte) (int, error) {
	c.mu.Lock()
	limited := c.deadline.IsZero()
	if limited {
		c.Conn.SetReadDeadline(time.Now().Add(c.connector.limit)) //nolint:errcheck // the read fails then
	}
	c.mu.Unlock()
	n, err := c.Conn.Read(b)
	switch {
	case err == nil:
		c.lastRead.Store(time.Now().UnixNano())
	case limited && errors.Is(err, os.ErrDeadlineExceeded):
		c.mu.Lock()
		ours := c.deadline.IsZero()
		c.mu.Unlock()
		if ours {
			c.connector.markSilent()
			err = errSilent
		}
	}
	return n, err
}

// errSilent reports that the server did not answer in time. It is a [net.Error], so that pgx treats
// the connection as broken.
var errSilent error = silentError{}

type silentError struct{}

func (silentError) Error() string   { return "the database server does not answer" }
func (silentError) Timeout() bool   { return true }
func (silentError) Temporary() bool { return false }
func (silentError) Unwrap() error   { return os.ErrDeadlineExceeded }

func (c *limitedConn) SetDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.deadline = t
	return c.Conn.SetDeadline(t)
}

func (c *limitedConn) SetReadDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.deadline = t
	return c.Conn.SetReadDeadline(t)
}

// isURL reports whether url is the address of a PostgreSQL database.
func isURL(url string) bool {
	return strings.HasPrefix(url, "postgres://") || strings.HasPrefix(url, "postgresql://")
}

// tuneTables makes PostgreSQL leave a fifth of new pages of points free, and clean up often. A
// change that touches no indexed column, such as other tags, then stays on its page and needs no
// new entry in a dozen indexes (https://www.postgresql.org/docs/current/storage-hot.html): so it
// was with 94 % of such changes in bench/learn, and with 13 % before.
func (db *DB) tuneTables(ctx context.Context) error {
	if db.dialect != "postgres" {
		return nil
	}
	if _, err := db.exec(ctx, `ALTER TABLE learn_points SET (fillfactor = 80)`); err != nil {
		return err
	}
	// By default a table is vacuumed when a fifth of its rows are dead, and analyzed when a tenth
	// are new. A search passes dead rows, and its plan depends on how frequent its words are.
	for _, table := range []string{`learn_points`, `learn_words`, `learn_tags`} {
		if _, err := db.exec(ctx, `ALTER TABLE `+table+
			` SET (autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.02)`); err != nil {
			return err
		}
	}
	// Other tags of ten points are 440 words. Each at its place in the index took 2 ms; in a list
	// that [wordsMerger] empties, all take 0.9 ms.
	_, err := db.exec(ctx, `ALTER INDEX learn_words_words SET (fastupdate = on)`)
	return err
}

// emptyWordList moves the words that were written last to their places in the index, after a pause.
func (db *DB) emptyWordList(ctx context.Context) error {
	if err := netx.Wait(ctx, mergePause); err != nil {
		return err
	}
	_, err := db.longPool.ExecContext(ctx, `SELECT gin_clean_pending_list('learn_words_words')`)
	return err
}

// fromDue makes PostgreSQL read the points that are due, whose number was counted before, in the
// order of the queue. It takes the day and the queue of a point for independent, expects hundreds
// of times as many, and would rather read all points. Of the limit the others are for points that
// have become due since.
func (q *pointQuery) fromDue(person string, until Day, counted int) {
	own, day, limit := q.arg(person), q.arg(int64(until)), q.arg(counted+BulkBatch)
	queued := func(queue Queue) string {
		return `(SELECT * FROM learn_points WHERE person = ` + own + ` AND queue = ` + strconv.Itoa(int(queue)) +
			` AND due <= ` + day + ` ORDER BY due, due_at, number LIMIT ` + limit + `)`
	}
	q.text = strings.Replace(q.text, `FROM learn_points`,
		`FROM (`+queued(QueueSteps)+` UNION ALL `+queued(QueueDay)+`) AS learn_points`, 1)
}

// lookUpTagged makes PostgreSQL look up the points with a tag in a queue by their numbers in one
// scan. As a join it looks them up one by one, in several processes if it expects many, which takes
// longer. Which of them are in the queue is found in indexes, without reading points.
func (q *pointQuery) lookUpTagged(person, tag string, queue Queue) {
	own := q.arg(person)
	q.and(`number = ANY (ARRAY(SELECT point FROM learn_tags WHERE person = ` + own + ` AND tag = ` + q.arg(tag) +
		` AND point IN (SELECT number FROM learn_points WHERE person = ` + own + ` AND queue = ` +
		strconv.Itoa(int(queue)) + `)))`)
}
