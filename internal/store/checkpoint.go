package store

import (
	"context"
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
			c.db.checkpoint(ctx) //nolint:errcheck // should it fail, a writer does it at checkpointPages
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
// many of them are in the database file now.
func (db *DB) checkpoint(ctx context.Context) (pages, taken int, err error) {
	var busy int
	err = db.r.QueryRowContext(ctx, `PRAGMA wal_checkpoint(PASSIVE)`).Scan(&busy, &pages, &taken)
	return pages, taken, err
}
