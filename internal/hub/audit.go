package hub

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"patchbay/internal/store"
)

const (
	// maxAuditQueue limits the records that wait for the database. When it is full, calls wait: the
	// trail has no gaps.
	maxAuditQueue = 8192
	// auditBatchSize is the number of records in a transaction.
	auditBatchSize = 1024
	// auditDelay is how long records wait for others if no caller waits for them. With the commit
	// they are in the database within 50 ms.
	auditDelay = 25 * time.Millisecond
	// auditRetry is the delay before records are retried that the database has refused.
	auditRetry = time.Second
)

// maxArgsBytes limits the arguments in a record, in bytes.
const maxArgsBytes = 16 << 10

// audit stores call records in batches. A call that has an effect is not answered before its record
// survives the death of the process: in the journal or, without one, in the database. The goroutine
// is woken once per batch, not once per record.
//
// Records that the database refuses stay in the journal, and leave memory. Records that do not fit
// anywhere are logged.
type audit struct {
	log    *slog.Logger
	commit func(context.Context, []store.Call) error
	wake   chan struct{} // there is a first record, a full batch, or a waiting caller
	stop   chan struct{}
	done   chan struct{}

	// Only used by the goroutine.
	spare     batch
	nextRetry time.Time // time of the next attempt; zero: the database accepts records

	mu      sync.Mutex
	notFull sync.Cond // signals that the batch is not full any more
	batch   batch
	journal *journal // nil: none
	closed  bool
}

// batch are the records of the next transaction.
type batch struct {
	unsaved   []store.Call    // nowhere else
	journaled []store.Call    // also in the journal
	waiting   []chan struct{} // closed when the unsaved ones are committed, or cannot be
}

func (b *batch) len() int { return len(b.unsaved) + len(b.journaled) }

// newAudit returns a trail with a journal in a folder, or without one if folder is empty or cannot
// be used.
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

// begin stores the record of a call that is about to be executed and may have an effect: if the
// process is killed during the call, the trail has it as lost. [audit.add] ends it.
func (a *audit) begin(row store.Call) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.closed {
		a.journal.begin(row)
	}
}

// add adds a record. When it returns, the record of a call with an effect is safe, or could not be
// stored in reasonable time, which is logged.
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
		default: // it is about to check
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

// journalRow adds a record to the journal and the batch, and reports whether that succeeded.
// Requires mu.
func (a *audit) journalRow(row store.Call) bool {
	if a.journal == nil {
		return false
	}
	kept := append(a.batch.journaled, row) // where the journal sees it without another copy
	if !a.journal.append(&kept[len(kept)-1]) {
		return false
	}
	a.batch.journaled = kept
	return true
}

// waitCommitted waits until all added records are committed, or cannot be.
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
	default: // it is about to check
	}
	select {
	case <-written:
	case <-ctx.Done():
	}
}

// close commits the waiting records and stops. Nothing may be added afterwards.
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

// waitForBatch waits until the batch is full, a caller waits for a record, or the delay is over. It
// reports whether the trail stops.
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

// flush commits the batch, and before it what the database has refused. It reports whether the
// journal has more to commit at once.
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
		clear(rows) // release the texts of the records
	}
	clear(b.waiting)
	a.spare = batch{b.unsaved[:0], b.journaled[:0], b.waiting[:0]}
	return more
}

// commitBatch commits a batch, and the file of the journal whose turn it is. The records of a file
// come from memory if they are all there.
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

// write commits records that share a transaction.
func (a *audit) write(rows []store.Call) error {
	ctx, cancel := context.WithTimeout(context.Background(), writeTimeout)
	defer cancel()
	return a.commit(ctx, rows)
}

// onCommitFailed remembers that the database accepts no records.
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

// journalRows leaves the records of a file in the file, and writes unsaved ones to the journal.
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
