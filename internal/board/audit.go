package board

import (
	"context"
	"slices"
	"sync"
	"time"

	"patchbay/internal/store"
)

const (
	// auditQueue is how many rows can wait for the disk. When it is full, calls
	// wait: the trail has no gaps.
	auditQueue = 8192
	// auditBatch is how many rows share a commit.
	auditBatch = 1024
	// auditDelay is how long rows of tools that only read wait for company.
	auditDelay = 50 * time.Millisecond
)

// maxArgsKept bounds the arguments in a row, in bytes.
const maxArgsKept = 16 << 10

// audit writes down calls, many at a time. Its goroutine is woken once a batch,
// not once a row.
type audit struct {
	board *Board
	wake  chan struct{} // there is a first row, a whole batch, or somebody who waits
	stop  chan struct{}
	done  chan struct{}

	mu      sync.Mutex
	room    sync.Cond // rows is not full any more
	rows    []store.Call
	waiting []chan struct{} // closed when rows is on the disk
	closed  bool
}

func newAudit(b *Board) *audit {
	a := &audit{board: b, wake: make(chan struct{}, 1), stop: make(chan struct{}), done: make(chan struct{})}
	a.room.L = &a.mu
	go a.run()
	return a
}

// add writes a row. With wait set it returns when the row is on the disk, or
// when that cannot be had in reasonable time, which the log tells.
func (a *audit) add(row store.Call, wait bool) {
	var written chan struct{}
	a.mu.Lock()
	for len(a.rows) >= auditQueue && !a.closed {
		a.room.Wait()
	}
	if a.closed {
		a.mu.Unlock()
		a.board.Logger.Error("a call is missing in the audit trail: the server has stopped", "call", row.ID, "tool", row.Tool)
		return
	}
	a.rows = append(a.rows, row)
	n := len(a.rows)
	if wait {
		written = make(chan struct{})
		a.waiting = append(a.waiting, written)
	}
	a.mu.Unlock()
	if n == 1 || n == auditBatch || wait {
		select {
		case a.wake <- struct{}{}:
		default: // it is about to look
		}
	}
	if wait {
		<-written
	}
}

// close writes what waits and ends. Nothing may be added afterwards.
func (a *audit) close() {
	close(a.stop)
	<-a.done
}

func (a *audit) run() {
	defer close(a.done)
	var spare []store.Call
	for stopped := false; !stopped; {
		select {
		case <-a.wake:
			stopped = a.gather()
		case <-a.stop:
			stopped = true
		}
		spare = a.flush(spare[:0], stopped)
	}
}

// gather waits until the batch is full, somebody waits for a row, or the delay is
// over. It says whether the trail ends here.
func (a *audit) gather() (stopped bool) {
	timer := time.NewTimer(auditDelay)
	defer timer.Stop()
	for {
		a.mu.Lock()
		due := len(a.rows) >= auditBatch || len(a.waiting) > 0
		a.mu.Unlock()
		if due {
			return false
		}
		select {
		case <-a.wake:
		case <-timer.C:
			return false
		case <-a.stop:
			return true
		}
	}
}

// flush writes all rows. The next ones gather in spare, and what held these is
// returned to be the next spare.
func (a *audit) flush(spare []store.Call, last bool) []store.Call {
	a.mu.Lock()
	rows, waiting := a.rows, a.waiting
	a.rows, a.waiting, a.closed = spare, nil, last
	a.room.Broadcast()
	a.mu.Unlock()
	for some := range slices.Chunk(rows, auditBatch) {
		a.write(some)
	}
	for _, written := range waiting {
		close(written)
	}
	clear(rows) // they hold texts of others
	return rows
}

func (a *audit) write(rows []store.Call) {
	ctx, cancel := context.WithTimeout(context.Background(), writeLimit)
	defer cancel()
	if err := a.board.Store.Calls.Add(ctx, rows); err != nil {
		a.board.Logger.Error("calls are missing in the audit trail", "calls", len(rows), "first", rows[0].ID, "error", err)
	}
}
