package apkg

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"encoding/json"
	"errors"
	"math"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// collection is an open database of either schema.
type collection struct {
	db     *sql.DB
	conn   *sql.Conn
	modern bool // note types and decks in tables

	types    map[int64]*noteType
	decks    map[int64]string
	contents Contents
	// oldEase means that answers while learning have three values: 1 again, 2 good, 3 easy, as in
	// the first scheduler (rslib/src/storage/revlog/v2_upgrade.sql).
	oldEase bool
	work    int64 // bytes of fields that templates have processed
}

// openCollection opens an untrusted database. The caller closes the collection, even after an
// error.
func openCollection(ctx context.Context, path string, o Options) (*collection, error) {
	c := &collection{db: sql.OpenDB(connector(address(path,
		"mode=ro&immutable=1&_pragma=trusted_schema(0)&_pragma=query_only(1)&_pragma=cell_size_check(1)&_pragma=cache_size(-8192)")))}
	var err error
	if c.conn, err = c.connect(ctx); err != nil {
		return c, c.broken(ctx, err)
	}
	if err := c.load(ctx, o); err != nil {
		return c, c.broken(ctx, err)
	}
	return c, nil
}

// ankiDriver is the SQLite driver with the collation of Anki's newer tables, "unicase"
// (rslib/src/storage/sqlite.rs).
var ankiDriver = sync.OnceValue(func() *sqlite.Driver {
	d := &sqlite.Driver{}
	d.MustRegisterCollationUtf8("unicase", compareUnicase)
	return d
})

// address builds the driver's URI of a database file, escaping its path.
func address(path, query string) string {
	return (&url.URL{Scheme: "file", Opaque: (&url.URL{Path: filepath.ToSlash(path)}).EscapedPath(),
		RawQuery: query}).String()
}

// connector opens a database with ankiDriver without registering that driver globally.
type connector string

func (c connector) Connect(context.Context) (driver.Conn, error) { return ankiDriver().Open(string(c)) }
func (c connector) Driver() driver.Driver                        { return ankiDriver() }

// connect opens a connection that rejects huge values.
func (c *collection) connect(ctx context.Context) (*sql.Conn, error) {
	conn, err := c.db.Conn(ctx)
	if err != nil {
		return nil, err
	}
	for limit, value := range map[int]int{sqlite3.SQLITE_LIMIT_LENGTH: maxValue, sqlite3.SQLITE_LIMIT_ATTACHED: 0} {
		if _, err := sqlite.Limit(conn, limit, value); err != nil {
			return nil, errors.Join(err, conn.Close())
		}
	}
	return conn, nil
}

func (c *collection) close() {
	if c.conn != nil {
		_ = c.conn.Close()
	}
	_ = c.db.Close()
}

// broken returns the context's error if the caller gave up, and otherwise an error about the file.
func (c *collection) broken(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, ErrBroken):
		return err
	}
	return msgWhy.Errorf(ErrBroken, err)
}

func (c *collection) load(ctx context.Context, o Options) error {
	for _, table := range []string{"col", "notes", "cards", "revlog"} {
		if ok, err := c.plainTable(ctx, table); err != nil {
			return err
		} else if !ok {
			return msgNoTable.Errorf(table)
		}
	}
	var err error
	if c.modern, err = c.plainTable(ctx, "notetypes"); err != nil {
		return err
	}
	load := c.loadOld
	if c.modern {
		load = c.loadModern
	}
	if err := load(ctx); err != nil {
		return err
	}
	c.index()
	conf := parseSettings(c.contents.Config)
	c.oldEase = conf.Scheduler < 2
	var created int64
	if err := c.row(ctx, "SELECT CAST(COALESCE(crt, 0) AS INTEGER) FROM col LIMIT 1", &created); err != nil {
		return err
	}
	zone := o.zone()
	if conf.Offset != nil && *conf.Offset > -1000 && *conf.Offset < 1000 {
		zone = time.FixedZone("", -int(*conf.Offset)*60)
	}
	c.contents.Created, c.contents.Day = created, dateOf(moment(created, time.Second).In(zone))
	return nil
}

// index finds note types and decks by their ids.
func (c *collection) index() {
	c.types, c.decks = make(map[int64]*noteType), make(map[int64]string)
	for _, t := range c.contents.Types {
		var old oldType
		if json.Unmarshal(t.JSON, &old) == nil {
			c.types[t.ID] = old.noteType()
		}
	}
	for _, d := range c.contents.Decks {
		c.decks[d.ID] = d.Name
	}
	// The name of the default deck depends on the language.
	c.decks[1] = ""
}

// plainTable reports whether there is a table of this name. Views, virtual tables and computed
// columns would run code from the file, so they are rejected.
func (c *collection) plainTable(ctx context.Context, name string) (bool, error) {
	var kind, text string
	err := c.row(ctx,
		"SELECT CAST(type AS TEXT), CAST(COALESCE(sql, '') AS TEXT) FROM sqlite_schema WHERE name = $1 AND type IN ('table', 'view')", &kind, &text, name)
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	var computed int
	if err := c.row(ctx, "SELECT count(*) FROM pragma_table_xinfo($1) WHERE hidden <> 0", &computed, name); err != nil {
		return false, err
	}
	if kind != "table" || computed > 0 || strings.Contains(strings.ToUpper(cut(text, 200)), "VIRTUAL") {
		return false, msgStrangeTable.Errorf(name)
	}
	return true, nil
}

// row reads one row. Pointers in what receive the columns; other values are arguments of the query.
func (c *collection) row(ctx context.Context, query string, what ...any) error {
	var into, args []any
	for _, w := range what {
		switch w.(type) {
		case *int64, *int, *string, *[]byte:
			into = append(into, w)
		default:
			args = append(args, w)
		}
	}
	return c.conn.QueryRowContext(ctx, query, args...).Scan(into...)
}

// each scans each row of a query into the pointers and calls f.
func (c *collection) each(ctx context.Context, query string, f func() error, into ...any) error {
	rows, err := c.conn.QueryContext(ctx, query)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := rows.Scan(into...); err != nil {
			return err
		}
		if err := f(); err != nil {
			return err
		}
	}
	return rows.Err()
}

// moment converts a time since 1970, or returns the zero time if it is out of range.
func moment(n int64, unit time.Duration) time.Time {
	const last = 253_402_300_799 // 9999-12-31T23:59:59Z
	perSecond := int64(time.Second / unit)
	if n <= 0 || n/perSecond > last {
		return time.Time{}
	}
	return time.Unix(n/perSecond, n%perSecond*int64(unit)).UTC()
}

// small limits n to the range of an int32, for counters and intervals that hostile files make huge.
func small(n int64) int { return int(min(max(n, math.MinInt32), math.MaxInt32)) }
