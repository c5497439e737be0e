package store

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"time"

	"patchbay/internal/netx"
)

const (
	// mergePages is how many pages of the search index are written in one transaction of the
	// merger. Writers wait for it, about 0.5 ms: it reads many pages if points were changed often.
	mergePages = 1
	// maxMergePages is the same after idleMerges transactions in which nobody else wrote.
	maxMergePages = 16
	idleMerges    = 20
	// mergePause is how long PostgreSQL's merger waits for more words: many together take a
	// fraction of the time, and few make no search slower.
	mergePause = 250 * time.Millisecond
)

// wordsMerger moves what was written last into the main part of the search index, so that no writer
// has to. Searches read both.
//
// In SQLite each write of words makes a segment, of which a few pages are merged at a time. FTS5
// would merge them by itself, but 64 pages for each level of segments within a write that happens
// to be the one (https://sqlite.org/fts5.html#the_automerge_configuration_option), which took it up
// to 90 ms.
//
// In PostgreSQL the words of a write are appended to a list, see [DB.tuneTables]. Without a merger
// the write that fills it with 4 MB empties it, which takes 50 ms.
type wordsMerger struct {
	db    *DB
	work  func(context.Context) error // merges everything
	wrote chan struct{}
	stop  context.CancelFunc
	done  chan struct{}
}

// newWordsMerger starts a merger. Writers still merge 16 segments on one level, or a full list, in
// case the merger is too slow.
func newWordsMerger(ctx context.Context, db *DB) (*wordsMerger, error) {
	m := &wordsMerger{db: db, work: db.emptyWordList, wrote: make(chan struct{}, 1), done: make(chan struct{})}
	if db.path != "" {
		m.work = m.mergeAll
		if err := db.mergeNothing(ctx); err != nil {
			return nil, err
		}
	}
	ctx, m.stop = context.WithCancel(context.Background())
	go m.run(ctx)
	return m, nil
}

// mergeNothing keeps writers of SQLite from merging. It is stored in the database.
func (db *DB) mergeNothing(ctx context.Context) error {
	var set bool
	err := db.r.QueryRowContext(ctx,
		`SELECT EXISTS (SELECT 1 FROM learn_words_config WHERE k = 'automerge' AND v = 0)`).Scan(&set)
	if err == nil && !set {
		_, err = db.w.ExecContext(ctx, `INSERT INTO learn_words (learn_words, rank) VALUES ('automerge', 0)`)
	}
	return err
}

// wake tells the merger that words are being written.
func (m *wordsMerger) wake() {
	select {
	case m.wrote <- struct{}{}:
	default:
	}
}

func (m *wordsMerger) run(ctx context.Context) {
	defer close(m.done)
	for {
		select {
		case <-ctx.Done():
			return
		case <-m.wrote:
			m.work(ctx) //nolint:errcheck // the next write wakes it again
		}
	}
}

// mergeAll merges until nothing is left to be merged. After each transaction it pauses for as long
// as that took: another process that waits for the lock of the file tries again only from time to
// time (https://sqlite.org/c3ref/busy_timeout.html), and would find it taken each time.
func (m *wordsMerger) mergeAll(ctx context.Context) error {
	for alone := 0; ; {
		pages := mergePages
		if alone >= idleMerges {
			pages = maxMergePages
		}
		before, began := m.db.written.Load(), time.Now()
		// A transaction ends before the database is closed: what is cancelled is rolled back later.
		more, err := m.merge(context.WithoutCancel(ctx), pages)
		if err != nil || !more {
			return err
		}
		if err := netx.Wait(ctx, time.Since(began)); err != nil {
			return err
		}
		if alone++; m.db.written.Load() != before+1 {
			alone = 0
		}
	}
}

// merge merges some pages, and reports whether there were any. It does not wait for the disk, since
// the words are the same before and after; the next write that does syncs these pages with its own.
func (m *wordsMerger) merge(ctx context.Context, pages int) (more bool, err error) {
	conn, err := m.db.w.Conn(ctx)
	if err != nil {
		return false, err
	}
	defer conn.Close() //nolint:errcheck // it goes back to the pool
	defer func() {
		if _, e := conn.ExecContext(ctx, `PRAGMA synchronous = FULL`); e != nil {
			// Writers get a new one.
			err = errors.Join(err, e, conn.Raw(func(any) error { return driver.ErrBadConn }))
		}
	}()
	if _, err := conn.ExecContext(ctx, `PRAGMA synchronous = NORMAL`); err != nil {
		return false, err
	}
	tx, err := conn.BeginTx(ctx, nil)
	if err != nil {
		return false, err
	}
	defer tx.Rollback() //nolint:errcheck // it is committed below
	before, err := changes(ctx, tx)
	if err != nil {
		return false, err
	}
	_, err = tx.ExecContext(ctx, `INSERT INTO learn_words (learn_words, rank) VALUES ('merge', $1)`, pages)
	if err != nil {
		return false, err
	}
	after, err := changes(ctx, tx)
	if err != nil {
		return false, err
	}
	// The command itself is one change.
	if more = after-before > 1; !more {
		return false, nil
	}
	m.db.written.Add(1)
	return true, tx.Commit()
}

// changes returns the number of rows that the connection has changed.
func changes(ctx context.Context, tx *sql.Tx) (n int64, err error) {
	return n, tx.QueryRowContext(ctx, `SELECT total_changes()`).Scan(&n)
}

func (m *wordsMerger) close() {
	if m != nil {
		m.stop()
		<-m.done
	}
}
