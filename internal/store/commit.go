package store

import (
	"context"
	"database/sql"
	"errors"
	"sync"
)

// errClosed answers writes that come after Close.
var errClosed = errors.New("the database is closed")

// maxBatch is how many writes share one commit. With a disk that takes 5 ms to
// sync, 128 a commit are 25,000 writes a second.
const maxBatch = 128

// commitsAtOnce is how many commits PostgreSQL is given at a time, so that one that hangs
// does not stop the others. SQLite has one writer.
const commitsAtOnce = 4

// maxQueue is how many writes can wait. A turn has two at the most, one when its
// asker goes and one when its bot ends, and there are 2,000 turns at a time.
// Beyond that, those who write wait.
const maxQueue = 4096

// A committer writes what many turns finish with at the same time. Writes that
// wait while one commit runs share the next one, so that the disk is asked to
// sync once for all of them.
type committer struct {
	db    *DB
	queue chan *write
	slots chan struct{} // one for each commit at a time
	once  sync.Once
	stop  chan struct{}
	done  chan struct{}
}

type write struct {
	do  func(context.Context, *sql.Tx) error
	err chan error // buffered
}

func newCommitter(db *DB) *committer {
	c := &committer{db: db, queue: make(chan *write, maxQueue), slots: make(chan struct{}, 1), stop: make(chan struct{}), done: make(chan struct{})}
	if db.path == "" { // SQLite has one writer
		c.slots = make(chan struct{}, commitsAtOnce)
	}
	go c.run()
	return c
}

// commit runs do in a transaction, perhaps together with others, and returns
// when it is on the disk. If ctx ends before, the write is still to come: only
// the end of the process can prevent it then.
func (c *committer) commit(ctx context.Context, do func(context.Context, *sql.Tx) error) error {
	w := &write{do: do, err: make(chan error, 1)}
	select {
	case c.queue <- w:
	case <-c.stop:
		return errClosed
	}
	select {
	case err := <-w.err:
		return err
	case <-c.done:
		select {
		case err := <-w.err:
			return err
		default:
			return errClosed
		}
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (c *committer) close() {
	c.once.Do(func() { close(c.stop) })
	<-c.done
}

func (c *committer) run() {
	defer close(c.done)
	var running sync.WaitGroup
	defer running.Wait()
	for {
		select {
		case w := <-c.queue:
			// While all slots are taken more writes come, which share the next commit.
			c.slots <- struct{}{}
			batch := c.gather(w)
			running.Go(func() {
				c.flush(batch)
				<-c.slots
			})
		case <-c.stop:
			running.Wait()
			for {
				select {
				case w := <-c.queue:
					c.flush(c.gather(w))
				default:
					return
				}
			}
		}
	}
}

// gather takes what waits already, up to a full batch.
func (c *committer) gather(first *write) []*write {
	batch := []*write{first}
	for len(batch) < maxBatch {
		select {
		case w := <-c.queue:
			batch = append(batch, w)
		default:
			return batch
		}
	}
	return batch
}

// flush commits a batch. One bad write fails a whole transaction, so a batch
// that failed is written again one by one, and only the bad one is told; but not if the
// database is away.
func (c *committer) flush(batch []*write) {
	ctx := context.Background()
	err := c.db.tx(ctx, func(tx *sql.Tx) error {
		for _, w := range batch {
			if err := w.do(ctx, tx); err != nil {
				return err
			}
		}
		return nil
	})
	for _, w := range batch {
		if err != nil && len(batch) > 1 && !IsAway(err) {
			w.err <- c.db.tx(ctx, func(tx *sql.Tx) error { return w.do(ctx, tx) })
		} else {
			w.err <- err
		}
	}
}
