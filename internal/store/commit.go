package store

import (
	"context"
	"database/sql"
	"errors"
	"sync"
)

// errClosed is returned for writes after Close.
var errClosed = errors.New("the database is closed")

// maxBatch is the maximum number of writes in one commit. With a disk that takes 5 ms to sync, 128
// per commit are 25,000 writes per second.
const maxBatch = 128

// maxConcurrentCommits is the number of concurrent commits to PostgreSQL, so that one that hangs
// does not block the others. SQLite has one writer.
const maxConcurrentCommits = 4

// maxQueue is the capacity of the write queue. A turn queues at most two writes, one when its asker
// disconnects and one when its bot ends, and there are 2,000 concurrent turns. When the queue is
// full, writers block.
const maxQueue = 4096

// committer groups concurrent writes. Writes that wait while one commit runs share the next one, so
// that the disk syncs once for all of them.
type committer struct {
	db    *DB
	queue chan *write
	slots chan struct{} // one per concurrent commit
	once  sync.Once
	stop  chan struct{}
	done  chan struct{}
}

type write struct {
	do  func(context.Context, *sql.Tx) error
	err chan error // buffered
}

func newCommitter(db *DB) *committer {
	c := &committer{db: db, queue: make(chan *write, maxQueue), slots: make(chan struct{}, 1),
		stop: make(chan struct{}), done: make(chan struct{})}
	if db.path == "" { // SQLite has one writer
		c.slots = make(chan struct{}, maxConcurrentCommits)
	}
	go c.run()
	return c
}

// commit runs do in a transaction, perhaps together with others, and returns when it is durable. If
// ctx ends first, commit returns, but the write still happens unless the process ends.
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
			// While all slots are taken, more writes queue up and share the next commit.
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

// gather collects queued writes, up to a full batch.
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

// flush commits a batch. One bad write fails the whole transaction, so the writes of a failed batch
// are retried one by one and only the bad one gets the error, unless the database is away.
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
