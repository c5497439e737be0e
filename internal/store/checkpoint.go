package store

import (
	"context"
	"database/sql"
	"time"
)

const (
	// checkpointPages is when a writer of SQLite takes what it wrote over from the
	// write-ahead log into the database file itself, which takes it tens of
	// milliseconds: 64 MiB. Before that somebody else does it.
	checkpointPages = 16_384
	// checkpointAfter is how many commits are taken over together, and
	// checkpointEvery after what time fewer are.
	checkpointAfter = 200
	checkpointEvery = 2 * time.Second
	// rowsOfCommit is how many rows that one commit deletes count as another one.
	rowsOfCommit = 50
	pageSize     = 4096 // SQLite's
	// logKept is up to how many pages the log grows before those who write wait for a
	// moment, so that it begins anew: 16 MiB. Its file is cut to that.
	logKept = 4_096
	// checkpointLook is how often it is looked whether there is something to do.
	checkpointLook = 100 * time.Millisecond
)

// A checkpointer takes over what was written from SQLite's write-ahead log into the
// database file, so that no writer has to wait for that. It never waits for a
// writer or a reader either: what it cannot have yet it takes the next time.
type checkpointer struct {
	db   *DB
	stop context.CancelFunc
	done chan struct{}
}

func newCheckpointer(db *DB) *checkpointer {
	ctx, stop := context.WithCancel(context.Background())
	c := &checkpointer{db: db, stop: stop, done: make(chan struct{})}
	go c.run(ctx)
	return c
}

func (c *checkpointer) run(ctx context.Context) {
	defer close(c.done)
	tick := time.NewTicker(checkpointLook)
	defer tick.Stop()
	for last := time.Now(); ; {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			if n := c.db.written.Load(); n < checkpointAfter && (n == 0 || now.Sub(last) < checkpointEvery) {
				continue
			}
			c.db.written.Store(0)
			last = now
			pages, _, err := c.db.checkpoint(ctx, c.db.r) // should it fail, a writer does it at checkpointPages
			if err == nil && pages > logKept {
				c.db.checkpoint(ctx, c.db.w) //nolint:errcheck // the next one does it
			}
		}
	}
}

func (c *checkpointer) close() {
	if c != nil {
		c.stop()
		<-c.done
	}
}

// checkpoint takes over what it can, and says how many pages the log has and how
// many of them are in the database file now. Through the connection for writing
// that is everything, if nobody reads what was before: the log begins anew then,
// which it never does while others write all the time.
func (db *DB) checkpoint(ctx context.Context, through *sql.DB) (pages, taken int, err error) {
	var busy int
	err = through.QueryRowContext(ctx, `PRAGMA wal_checkpoint(PASSIVE)`).Scan(&busy, &pages, &taken)
	return pages, taken, err
}
