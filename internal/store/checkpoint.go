package store

import (
	"context"
	"database/sql"
	"time"
)

const (
	// checkpointPages is the size of the write-ahead log at which an SQLite writer checkpoints by
	// itself, which takes it tens of milliseconds: 128 MiB. Normally the checkpointer does so
	// earlier.
	checkpointPages = 32_768
	// checkpointAfter is the number of commits that trigger a checkpoint, and checkpointEvery the
	// interval after which fewer do. Commits wait for the disk while a checkpoint writes to it:
	// many small ones cost them less than a few large ones.
	checkpointAfter = 50
	checkpointEvery = 2 * time.Second
	// rowsPerCommit is the number of deleted rows that count as one more commit.
	rowsPerCommit = 50
	pageSize      = 4096 // SQLite's default page size, in bytes
	// maxLogPages is the size of the log beyond which writers wait briefly for a checkpoint that
	// restarts it: 64 MiB. The log file is truncated to that size.
	maxLogPages = 16_384
	// checkpointPoll is the interval at which the checkpointer looks for work.
	checkpointPoll = 100 * time.Millisecond
)

// checkpointer copies SQLite's write-ahead log into the database file, so that no writer has to
// wait for that. Its passive checkpoints wait for no writer or reader; pages still in use are left
// to the next one.
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
	tick := time.NewTicker(checkpointPoll)
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
			pages, _, err := c.db.checkpoint(ctx, c.db.r) // on failure, a writer does it at checkpointPages
			if err == nil && pages > maxLogPages {
				// Once more, so that little is left for the one that writers wait for.
				c.db.checkpoint(ctx, c.db.r) //nolint:errcheck // as below
				c.db.checkpoint(ctx, c.db.w) //nolint:errcheck // the next checkpoint retries
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

// checkpoint runs a passive checkpoint and returns the pages of the log and how many of them are in
// the database file. On the write connection, with no reader on an older snapshot, it copies all
// pages, so that the log restarts; under constant writing it never would otherwise.
func (db *DB) checkpoint(ctx context.Context, through *sql.DB) (pages, taken int, err error) {
	var busy int
	err = through.QueryRowContext(ctx, `PRAGMA wal_checkpoint(PASSIVE)`).Scan(&busy, &pages, &taken)
	return pages, taken, err
}
