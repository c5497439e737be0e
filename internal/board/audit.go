package board

import (
	"context"
	"time"

	"patchbay/internal/store"
)

const (
	// auditQueue is how many rows can wait for the disk. When it is full, calls
	// wait: the trail has no gaps.
	auditQueue = 8192
	// auditBatch is how many rows share a commit.
	auditBatch = 512
	// auditDelay is how long rows of tools that only read wait for company.
	auditDelay = 50 * time.Millisecond
)

// maxArgsKept bounds the arguments in a row, in bytes.
const maxArgsKept = 16 << 10

// audit writes down calls, many at a time.
type audit struct {
	board *Board
	queue chan auditEntry
	stop  chan struct{}
	done  chan struct{}

	// the batch that is being collected, and who waits for it; run's alone
	rows    []store.Call
	waiting []chan struct{}
}

type auditEntry struct {
	row     store.Call
	written chan struct{} // nil if nobody waits
}

func newAudit(b *Board) *audit {
	a := &audit{board: b, queue: make(chan auditEntry, auditQueue), stop: make(chan struct{}), done: make(chan struct{})}
	go a.run()
	return a
}

// add writes a row. With wait set it returns when the row is on the disk, or
// when that cannot be had in reasonable time, which the log tells.
func (a *audit) add(row store.Call, wait bool) {
	e := auditEntry{row: row}
	if wait {
		e.written = make(chan struct{})
	}
	select {
	case a.queue <- e:
	case <-a.done:
		a.board.Logger.Error("a call is missing in the audit trail: the server has stopped", "call", row.ID, "tool", row.Tool)
		return
	}
	if wait {
		select {
		case <-e.written:
		case <-a.done:
		}
	}
}

// close writes what waits and ends. Nothing may be added afterwards.
func (a *audit) close() {
	close(a.stop)
	<-a.done
}

func (a *audit) run() {
	defer close(a.done)
	for {
		select {
		case e := <-a.queue:
			a.gather(e)
			a.flush()
		case <-a.stop:
			for {
				select {
				case e := <-a.queue:
					a.gather(e)
					a.flush()
				default:
					return
				}
			}
		}
	}
}

func (a *audit) take(e auditEntry) {
	a.rows = append(a.rows, e.row)
	if e.written != nil {
		a.waiting = append(a.waiting, e.written)
	}
}

// gather collects rows until the batch is full, somebody waits for one and there
// are no more at the moment, or the delay is over.
func (a *audit) gather(first auditEntry) {
	a.take(first)
	timer := time.NewTimer(auditDelay)
	defer timer.Stop()
	for len(a.rows) < auditBatch {
		if len(a.waiting) > 0 {
			select {
			case e := <-a.queue:
				a.take(e)
				continue
			default:
				return
			}
		}
		select {
		case e := <-a.queue:
			a.take(e)
		case <-timer.C:
			return
		case <-a.stop:
			return
		}
	}
}

func (a *audit) flush() {
	ctx, cancel := context.WithTimeout(context.Background(), writeLimit)
	defer cancel()
	if err := a.board.Store.Calls.Add(ctx, a.rows); err != nil {
		a.board.Logger.Error("calls are missing in the audit trail", "calls", len(a.rows), "first", a.rows[0].ID, "error", err)
	}
	for _, written := range a.waiting {
		close(written)
	}
	clear(a.rows)
	clear(a.waiting)
	a.rows, a.waiting = a.rows[:0], a.waiting[:0]
}
