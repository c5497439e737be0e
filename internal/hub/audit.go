package hub

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"patchbay/internal/store"
)

const (
	// maxAuditQueue is how many rows can wait for the disk. When it is full, calls
	// wait: the trail has no gaps.
	maxAuditQueue = 8192
	// auditBatchSize is how many rows share a commit.
	auditBatchSize = 1024
	// auditDelay is how long rows wait for company if nobody waits for them. With
	// their commit they are in the database within 50 ms.
	auditDelay = 25 * time.Millisecond
	// auditRetry is when rows that the database has refused are tried again.
	auditRetry = time.Second
)

// maxArgsBytes bounds the arguments in a row, in bytes.
const maxArgsBytes = 16 << 10

// audit writes down calls, many at a time. A call that has done something is not
// answered before its row is safe from the death of the process: in the journal or,
// without one, in the database. The goroutine is woken once a batch, not once a row.
//
// Rows that the database refuses wait in the journal, and in memory no more. What
// there is no room for any more is told in the log.
type audit struct {
	log    *slog.Logger
	commit func(context.Context, []store.Call) error
	wake   chan struct{} // there is a first row, a whole batch, or somebody who waits
	stop   chan struct{}
	done   chan struct{}

	// Of the goroutine.
	spare     batch
	nextRetry time.Time // when the database is asked again; zero: it takes rows

	mu      sync.Mutex
	notFull sync.Cond // the batch is not full any more
	batch   batch
	journal *journal // nil: there is none
	closed  bool
}

// batch are the rows that are committed next.
type batch struct {
	unsaved   []store.Call    // that are nowhere else
	journaled []store.Call    // that are in the journal too
	waiting   []chan struct{} // closed when the loose ones are committed, or cannot be
}

func (b *batch) len() int { return len(b.unsaved) + len(b.journaled) }

// newAudit makes a trail with a journal in a folder; without one if that is empty,
// or cannot be used.
func newAudit(folder string, log *slog.Logger, commit func(context.Context, []store.Call) error) *audit {
	a := &audit{log: log, commit: commit, wake: make(chan struct{}, 1), stop: make(chan struct{}),
		done: make(chan struct{})}
	a.notFull.L = &a.mu
	if folder != "" {
		var err error
		if a.journal, err = openJournal(folder, log, a.write); err != nil {
			log.Warn("there can be no journal of calls here; calls wait until they are committed", "folder", folder,
				"error", err)
		}
	}
	if a.journal.hasRecovered() {
		a.nextRetry = time.Now().Add(auditRetry)
	}
	go a.run()
	return a
}

// begin writes the row of a call that is about to be carried out and may change something:
// should the process be killed before it ends, the trail has it as lost. It is for [audit.add]
// to end it.
func (a *audit) begin(row store.Call) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.closed {
		a.journal.begin(row)
	}
}

// add writes a row. When it returns, the row of a call that has acted is safe, or
// that cannot be had in reasonable time, which the log tells.
func (a *audit) add(row store.Call, acted bool) {
	var written chan struct{}
	a.mu.Lock()
	for a.batch.len() >= maxAuditQueue && !a.closed {
		a.notFull.Wait()
	}
	if a.closed {
		a.mu.Unlock()
		a.log.Error("a call is missing in the audit trail: the server has stopped", "call", row.ID, "tool", row.Tool)
		return
	}
	b := &a.batch
	switch {
	case acted && a.journalRow(row):
	case acted:
		written = make(chan struct{})
		b.waiting = append(b.waiting, written)
		fallthrough
	default:
		b.unsaved = append(b.unsaved, row)
	}
	n := b.len()
	if acted && written == nil {
		a.journal.end(row.ID)
	}
	a.mu.Unlock()
	if n == 1 || n == auditBatchSize || written != nil {
		select {
		case a.wake <- struct{}{}:
		default: // it is about to look
		}
	}
	if written != nil {
		<-written
		a.mu.Lock()
		defer a.mu.Unlock()
		a.journal.end(row.ID)
		a.journal.tidy() // no commit may follow soon
	}
}

// journalRow puts a row into the journal and the batch, and reports whether it could. With
// mu held.
func (a *audit) journalRow(row store.Call) bool {
	if a.journal == nil {
		return false
	}
	kept := append(a.batch.journaled, row) // where the journal can see it without another copy
	if !a.journal.append(&kept[len(kept)-1]) {
		return false
	}
	a.batch.journaled = kept
	return true
}

// waitCommitted waits until all rows that were added are committed, or cannot be.
func (a *audit) waitCommitted(ctx context.Context) {
	written := make(chan struct{})
	a.mu.Lock()
	if a.closed {
		a.mu.Unlock()
		return
	}
	a.batch.waiting = append(a.batch.waiting, written)
	a.mu.Unlock()
	select {
	case a.wake <- struct{}{}:
	default: // it is about to look
	}
	select {
	case <-written:
	case <-ctx.Done():
	}
}

// close commits what waits and ends. Nothing may be added afterwards.
func (a *audit) close() {
	close(a.stop)
	<-a.done
}

func (a *audit) run() {
	defer close(a.done)
	defer a.journal.close()
	retry := time.NewTimer(0)
	retry.Stop()
	defer retry.Stop()
	if !a.nextRetry.IsZero() {
		retry.Reset(time.Until(a.nextRetry))
	}
	for stopped := false; !stopped; {
		select {
		case <-a.wake:
			stopped = a.waitForBatch()
		case <-retry.C:
		case <-a.stop:
			stopped = true
		}
		for a.flush(stopped) {
		}
		if !a.nextRetry.IsZero() {
			retry.Reset(time.Until(a.nextRetry))
		}
	}
}

// waitForBatch waits until the batch is full, somebody waits for a row, or the delay is
// over. It reports whether the trail ends here.
func (a *audit) waitForBatch() (stopped bool) {
	timer := time.NewTimer(auditDelay)
	defer timer.Stop()
	for {
		a.mu.Lock()
		due := a.batch.len() >= auditBatchSize || len(a.batch.waiting) > 0
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

// flush commits the batch, and before it what the database has refused. It says
// whether the journal has more that can be committed at once.
func (a *audit) flush(last bool) (more bool) {
	a.mu.Lock()
	b := a.batch
	a.batch, a.closed = a.spare, last
	old := a.journal.rotate()
	a.journal.tidy()
	a.notFull.Broadcast()
	a.mu.Unlock()
	if a.nextRetry.After(time.Now()) && !last && len(b.waiting) == 0 {
		a.journalRows(old, b.unsaved)
	} else {
		more = a.commitBatch(old, &b)
	}
	for _, written := range b.waiting {
		close(written)
	}
	for _, rows := range [][]store.Call{b.unsaved, b.journaled} {
		clear(rows) // they hold texts of others
	}
	clear(b.waiting)
	a.spare = batch{b.unsaved[:0], b.journaled[:0], b.waiting[:0]}
	return more
}

// commitBatch commits a batch, and the file of the journal whose turn it is. Rows of a
// file are taken from memory if they are all there.
func (a *audit) commitBatch(old *segment, b *batch) (more bool) {
	var err error
	loose, done := len(b.unsaved), 0
	switch {
	case old == nil:
	case old.onlyOnDisk:
		_, _, err = old.commit(a.write)
	default:
		b.unsaved = append(b.unsaved, b.journaled...)
	}
	for done < len(b.unsaved) && err == nil {
		next := min(done+auditBatchSize, len(b.unsaved))
		if err = a.write(b.unsaved[done:next]); err == nil {
			done = next
		}
	}
	if err != nil {
		a.onCommitFailed(err)
		a.journalRows(old, b.unsaved[min(done, loose):loose])
		return false
	}
	if old != nil {
		if err := old.clear(); err != nil {
			a.log.Warn("a journal of calls cannot be emptied", "file", old.path, "error", err)
		}
	}
	if !a.nextRetry.IsZero() {
		a.nextRetry = time.Time{}
		a.log.Info("the database takes calls again")
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.journal.hasBacklog()
}

// write commits rows that share a transaction.
func (a *audit) write(rows []store.Call) error {
	ctx, cancel := context.WithTimeout(context.Background(), writeTimeout)
	defer cancel()
	return a.commit(ctx, rows)
}

// onCommitFailed remembers that the database takes no rows.
func (a *audit) onCommitFailed(err error) {
	switch {
	case a.journal == nil:
		a.log.Error("the database does not take calls", "error", err)
		return
	case a.nextRetry.IsZero():
		a.log.Error("the database does not take calls; they wait in the journal and are tried again",
			"every", auditRetry, "error", err)
	}
	a.nextRetry = time.Now().Add(auditRetry)
}

// journalRows leaves the rows of a file where they are, and puts loose ones into the journal.
func (a *audit) journalRows(old *segment, loose []store.Call) {
	if old != nil {
		old.onlyOnDisk = true
	}
	a.mu.Lock()
	n := a.journal.appendUnsaved(loose)
	a.mu.Unlock()
	if missing := loose[n:]; len(missing) > 0 {
		a.log.Error("calls are missing in the audit trail", "calls", len(missing), "first", missing[0].ID)
	}
}
