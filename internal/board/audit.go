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

// audit writes down calls, many at a time.
type audit struct {
	board *Board
	queue chan auditEntry
	stop  chan struct{}
	done  chan struct{}
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
			a.flush(a.gather(e))
		case <-a.stop:
			for {
				select {
				case e := <-a.queue:
					a.flush(a.gather(e))
				default:
					return
				}
			}
		}
	}
}

// gather collects rows until the batch is full, somebody waits for one and there
// are no more at the moment, or the delay is over.
func (a *audit) gather(first auditEntry) []auditEntry {
	batch := []auditEntry{first}
	waiting := first.written != nil
	timer := time.NewTimer(auditDelay)
	defer timer.Stop()
	for len(batch) < auditBatch {
		if waiting {
			select {
			case e := <-a.queue:
				batch = append(batch, e)
				continue
			default:
				return batch
			}
		}
		select {
		case e := <-a.queue:
			batch = append(batch, e)
			waiting = e.written != nil
		case <-timer.C:
			return batch
		case <-a.stop:
			return batch
		}
	}
	return batch
}

func (a *audit) flush(batch []auditEntry) {
	rows := make([]store.Call, len(batch))
	for i, e := range batch {
		rows[i] = e.row
	}
	ctx, cancel := context.WithTimeout(context.Background(), writeLimit)
	defer cancel()
	if err := a.board.Store.Calls.Add(ctx, rows); err != nil {
		a.board.Logger.Error("calls are missing in the audit trail", "calls", len(rows), "first", rows[0].ID, "error", err)
	}
	for _, e := range batch {
		if e.written != nil {
			close(e.written)
		}
	}
}
