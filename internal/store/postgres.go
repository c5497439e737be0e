package store

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
)

// How long PostgreSQL is waited for. Whoever asks a wearer's question has to be told within
// some seconds what is wrong.
const (
	// statementLimit bounds a statement, from what is sent to the first that is heard.
	statementLimit = 5 * time.Second
	// serverLimit is what the server itself allows for it: it should say so before the
	// connection is given up.
	serverLimit = statementLimit - 500*time.Millisecond
	// patientLimit bounds what takes long: migrations, retention, what people delete.
	patientLimit = 10 * time.Minute
	// connectLimit bounds the making of a connection.
	connectLimit = 2 * time.Second
	// pingLimit bounds the question whether a connection that was idle still works, and
	// idleLimit is from when on it is asked.
	pingLimit = 500 * time.Millisecond
	idleLimit = time.Second
	// inTransaction is how long the server keeps a transaction whose client says nothing, as
	// after its machine has gone: its locks hold up others.
	inTransaction = 10 * time.Second
	// connectAgain is how long nobody else tries to connect after that has failed.
	connectAgain = 250 * time.Millisecond
)

// patientConns is how many of an instance's connections are for what takes long.
const patientConns = 2

// connectPostgres makes the pools: one for what somebody waits for, one for what takes long.
func connectPostgres(o Options) (quick, patient *sql.DB, err error) {
	config, err := pgx.ParseConfig(o.URL)
	if err != nil {
		// The driver's error may quote the URL with its password.
		return nil, nil, errors.New("the database URL cannot be read; it should look like postgres://user:password@host/name")
	}
	if config.ConnectTimeout == 0 {
		config.ConnectTimeout = connectLimit
	}
	quick, patient = newLine(config, statementLimit, serverLimit), newLine(config, patientLimit, 0)
	quick.SetMaxOpenConns(max(1, o.MaxConns-patientConns))
	quick.SetMaxIdleConns(o.MaxConns)
	quick.SetConnMaxIdleTime(5 * time.Minute)
	patient.SetMaxOpenConns(patientConns)
	patient.SetMaxIdleConns(1)
	patient.SetConnMaxIdleTime(time.Minute)
	return quick, patient, nil
}

type patience struct{}

// patient marks what takes long by its nature: its statements may take [patientLimit], on
// connections of their own.
func patient(ctx context.Context) context.Context { return context.WithValue(ctx, patience{}, true) }

// writer is the pool for a statement that changes something.
func (db *DB) writer(ctx context.Context) *sql.DB {
	if db.patient != nil && ctx.Value(patience{}) != nil {
		return db.patient
	}
	return db.w
}

// reader is the pool for a statement that only reads.
func (db *DB) reader(ctx context.Context) *sql.DB {
	if db.patient != nil && ctx.Value(patience{}) != nil {
		return db.patient
	}
	return db.r
}

// line is the way to a PostgreSQL server. When it notices that the server is silent, all
// connections from before are given up, so that only one of them is waited for.
type line struct {
	driver.Connector
	limit  time.Duration
	silent atomic.Int64 // when the server was last found silent, in Unix nanoseconds

	mu     sync.Mutex
	failed time.Time // when no connection could be made; zero: the last one was
	why    error
	trying bool // somebody tries again
}

// newLine makes a pool whose statements are given up after limit; server, if not 0, is what
// the server is told about that.
func newLine(config *pgx.ConnConfig, limit, server time.Duration) *sql.DB {
	l := &line{limit: limit}
	own := config.Copy()
	dial := own.DialFunc
	own.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return &limitedConn{Conn: c, line: l, made: time.Now()}, nil
	}
	l.Connector = stdlib.GetConnector(*own,
		stdlib.OptionAfterConnect(func(ctx context.Context, c *pgx.Conn) error {
			_, err := c.Exec(ctx, `SELECT set_config('statement_timeout', $1, false), set_config('idle_in_transaction_session_timeout', $2, false)`,
				milliseconds(server), milliseconds(inTransaction))
			return err
		}),
		stdlib.OptionShouldPing(func(ctx context.Context, p stdlib.ShouldPingParams) bool { return false }),
		stdlib.OptionResetSession(l.reset),
	)
	return sql.OpenDB(l)
}

func milliseconds(d time.Duration) string { return d.Truncate(time.Millisecond).String() }

// Connect makes a connection. While none can be made one tries at a time, and the others are
// told at once what that found.
func (l *line) Connect(ctx context.Context) (driver.Conn, error) {
	l.mu.Lock()
	if l.why != nil && (l.trying || time.Since(l.failed) < connectAgain) {
		defer l.mu.Unlock()
		return nil, l.why
	}
	l.trying = l.why != nil
	l.mu.Unlock()
	c, err := l.Connector.Connect(ctx)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.trying = false
	switch {
	case err == nil:
		l.why = nil
	case ctx.Err() == nil: // otherwise it says nothing of the server
		l.why, l.failed = err, time.Now()
	}
	return c, err
}

// reset looks at a connection before it is used again: [driver.ErrBadConn] has another one
// used instead.
func (l *line) reset(ctx context.Context, c *pgx.Conn) error {
	own := limitedOf(c)
	if own == nil {
		return nil
	}
	if own.made.UnixNano() <= l.silent.Load() {
		return own.giveUp()
	}
	if idle := time.Since(time.Unix(0, own.heard.Load())); idle <= idleLimit {
		return nil
	}
	limited, cancel := context.WithTimeout(ctx, pingLimit)
	defer cancel()
	if err := c.Ping(limited); err != nil {
		if ctx.Err() == nil && limited.Err() != nil {
			l.isSilent()
		}
		return own.giveUp()
	}
	return nil
}

func (l *line) isSilent() { l.silent.Store(time.Now().UnixNano()) }

// limitedOf is what is below a connection of pgx.
func limitedOf(c *pgx.Conn) *limitedConn {
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

// limitedConn ends reads that take too long. pgx reads only what it waits for.
type limitedConn struct {
	net.Conn
	line  *line
	made  time.Time
	heard atomic.Int64 // when something came, in Unix nanoseconds

	mu  sync.Mutex
	own time.Time // the deadline that pgx has set, for a context that ends
}

// giveUp ends a connection without a word, for which a silent server would be waited for.
func (c *limitedConn) giveUp() error {
	c.Close()
	return driver.ErrBadConn
}

func (c *limitedConn) Read(b []byte) (int, error) {
	c.mu.Lock()
	limited := c.own.IsZero()
	if limited {
		c.Conn.SetReadDeadline(time.Now().Add(c.line.limit)) //nolint:errcheck // then the read fails
	}
	c.mu.Unlock()
	n, err := c.Conn.Read(b)
	switch {
	case err == nil:
		c.heard.Store(time.Now().UnixNano())
	case limited && errors.Is(err, os.ErrDeadlineExceeded):
		c.mu.Lock()
		ours := c.own.IsZero()
		c.mu.Unlock()
		if ours {
			c.line.isSilent()
			err = errSilent
		}
	}
	return n, err
}

// errSilent says that the server did not answer in time. It is a [net.Error] so that pgx
// knows the connection for broken.
var errSilent error = silentError{}

type silentError struct{}

func (silentError) Error() string   { return "the database server does not answer" }
func (silentError) Timeout() bool   { return true }
func (silentError) Temporary() bool { return false }
func (silentError) Unwrap() error   { return os.ErrDeadlineExceeded }

func (c *limitedConn) SetDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.own = t
	return c.Conn.SetDeadline(t)
}

func (c *limitedConn) SetReadDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.own = t
	return c.Conn.SetReadDeadline(t)
}

// isURL reports whether it is the address of a PostgreSQL database.
func isURL(url string) bool {
	return strings.HasPrefix(url, "postgres://") || strings.HasPrefix(url, "postgresql://")
}
