package hub

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"patchbay/internal/store"
)

const (
	// pendingTurnsFolder has the ends of turns that the database has not accepted.
	pendingTurnsFolder = "turns.pending"
	// saveTimeout limits the wait for the database before the end of a turn is written to a file:
	// the additional wait of an asker when the database just stopped responding.
	saveTimeout = 2 * time.Second
	// retryInterval is the interval of retries.
	retryInterval = time.Second
	// maxPendingTurns limits the waiting ends. Beyond it askers get the error that nothing is
	// stored.
	maxPendingTurns = 100_000
)

// turnEnd is what has to be stored of a turn that has ended: its trace and the exchange, or, for an
// answer that came when nobody listened any more, what is added to both.
type turnEnd struct {
	Trace    *store.Trace    `json:"trace,omitempty"`
	Late     *lateEnd        `json:"late,omitempty"`
	Exchange *store.Exchange `json:"exchange,omitempty"`
	// Delivered are turns whose late answers were delivered in this one.
	Delivered []string `json:"heard,omitempty"`
}

// lateEnd is what is added to a stored trace.
type lateEnd struct {
	Turn   string        `json:"turn"`
	After  time.Duration `json:"after"`
	Cause  string        `json:"cause,omitempty"`
	Answer string        `json:"answer,omitempty"`
	// Models are all requests to the model, not just those since.
	Models []store.ModelUse `json:"models,omitempty"`
}

func (e *turnEnd) turn() string {
	if e.Late != nil {
		return e.Late.Turn
	}
	return e.Trace.Turn
}

// write stores it in the database. It is idempotent.
func (e *turnEnd) write(ctx context.Context, db *store.DB) error {
	err := e.finish(ctx, db, e.Exchange)
	if errors.Is(err, store.ErrNotFound) && e.Exchange != nil { // its bot was removed meanwhile
		err = e.finish(ctx, db, nil)
	}
	for _, turn := range e.Delivered {
		if err != nil {
			return err
		}
		err = db.Conversations.MarkDelivered(ctx, turn)
	}
	return err
}

func (e *turnEnd) finish(ctx context.Context, db *store.DB, x *store.Exchange) error {
	if l := e.Late; l != nil {
		return db.Traces.FinishLate(ctx, l.Turn, l.After, l.Cause, l.Answer, l.Models, x)
	}
	return db.Traces.Finish(ctx, *e.Trace, x)
}

// turnJournal keeps ends of turns safe from the death of the process and of the machine while the
// database does not accept them: each in a file of its own, which is synced before the asker hears
// that the turn is done. They are stored in order, by this process or by the next one.
type turnJournal struct {
	db     *store.DB
	folder string // empty: there are no files
	log    *slog.Logger

	// writing is read-locked while files are written, and locked while they are counted.
	writing      sync.RWMutex
	pending      atomic.Int64 // files
	lastName     atomic.Int64 // the newest name, in nanoseconds
	databaseDown atomic.Bool  // the database has refused the last end
	saveFailed   atomic.Bool  // the last end could not be stored
	warned       atomic.Bool  // the log has a line about waiting ends
	wake         chan struct{}
	stop         context.CancelFunc
	work         sync.WaitGroup
}

func newTurnJournal(db *store.DB, folder string, log *slog.Logger) *turnJournal {
	ctx, stop := context.WithCancel(context.Background())
	e := &turnJournal{db: db, log: log, wake: make(chan struct{}, 1), stop: stop}
	if folder == "" {
		return e
	}
	e.folder = filepath.Join(folder, pendingTurnsFolder)
	e.pending.Store(int64(len(e.files())))
	e.work.Go(func() { e.run(ctx) })
	return e
}

// errNotSaved means that the end of a turn is only in memory.
var errNotSaved = errors.New("neither the database nor the disk takes what has happened")

// save returns when an end is in the database or on the disk. The error is [errNotSaved].
func (e *turnJournal) save(end *turnEnd) error {
	err := e.saveOrQueue(end)
	if was := e.saveFailed.Swap(err != nil); err != nil && !was {
		e.log.Error("what happens in turns cannot be kept; askers are told", "error", err)
	}
	return err
}

func (e *turnJournal) saveOrQueue(end *turnEnd) error {
	limit := saveTimeout
	if e.folder == "" {
		limit = writeTimeout
	}
	down := e.databaseDown.Load() // if so, do not wait for the database
	var refused error
	if !down {
		if refused = e.commit(context.Background(), end, limit); refused == nil {
			return nil
		}
	}
	full := e.queueFile(end)
	if full == nil {
		return nil
	}
	if down { // it may be back by now
		if refused = e.commit(context.Background(), end, limit); refused == nil {
			return nil
		}
	}
	return fmt.Errorf("%w: %w; %w", errNotSaved, refused, full)
}

func (e *turnJournal) commit(ctx context.Context, end *turnEnd, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	err := end.write(ctx, e.db)
	e.databaseDown.Store(err != nil)
	return err
}

// queueFile writes an end to the disk.
func (e *turnJournal) queueFile(end *turnEnd) error {
	if e.folder == "" {
		return errors.New("there is no data folder")
	}
	if e.pending.Load() >= maxPendingTurns {
		return fmt.Errorf("%d turns wait for the database", maxPendingTurns)
	}
	text, err := json.Marshal(end)
	if err != nil {
		return err
	}
	e.writing.RLock()
	defer e.writing.RUnlock()
	if err := os.MkdirAll(e.folder, 0o700); err != nil {
		return err
	}
	e.pending.Add(1)
	if err := store.WriteDurably(filepath.Join(e.folder, e.fileName(end)), text); err != nil {
		e.pending.Add(-1)
		return err
	}
	if !e.warned.Swap(true) {
		e.log.Error("the database does not take turns; they wait on the disk and are tried again", "folder", e.folder,
			"every", retryInterval)
	}
	select {
	case e.wake <- struct{}{}:
	default: // it is about to check
	}
	return nil
}

// fileName returns the name of an end's file. Names sort by their time.
func (e *turnJournal) fileName(end *turnEnd) string {
	for {
		last, now := e.lastName.Load(), time.Now().UnixNano()
		if now <= last {
			now = last + 1
		}
		if e.lastName.CompareAndSwap(last, now) {
			return fmt.Sprintf("%020d-%s.json", now, filepath.Base(end.turn()))
		}
	}
}

// files returns the waiting ends, oldest first.
func (e *turnJournal) files() []string {
	list, err := filepath.Glob(filepath.Join(e.folder, "*.json")) // sorted
	if err != nil {
		e.log.Error("turns that wait for the database cannot be listed", "error", err)
	}
	return list
}

// run stores waiting ends until ctx ends.
func (e *turnJournal) run(ctx context.Context) {
	tick := time.NewTicker(retryInterval)
	defer tick.Stop()
	for {
		if e.pending.Load() > 0 {
			e.retryFiles(ctx)
		}
		select {
		case <-tick.C:
		case <-e.wake:
		case <-ctx.Done():
			return
		}
	}
}

// retryFiles stores waiting ends until the database refuses one.
func (e *turnJournal) retryFiles(ctx context.Context) {
	written := 0
	for _, file := range e.files() {
		err := e.retryFile(ctx, file)
		if err != nil {
			if ctx.Err() == nil && written > 0 {
				e.log.Warn("the database took some of the turns that wait", "written", written, "error", err)
			}
			return
		}
		written++
	}
	e.writing.Lock()
	e.pending.Store(int64(len(e.files()))) // other processes may have stored some of them
	e.writing.Unlock()
	if written > 0 {
		e.warned.Store(false)
		e.log.Info("turns that waited on the disk are in the database now", "turns", written)
	}
}

// retryFile stores a waiting end. An invalid file is set aside.
func (e *turnJournal) retryFile(ctx context.Context, file string) error {
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // another process was faster
	}
	if err != nil {
		return err
	}
	var end turnEnd
	if err = json.Unmarshal(text, &end); err != nil || end.Trace == nil && end.Late == nil {
		e.log.Error("a file is no turn that waits for the database; it is laid aside", "file", file, "error", err)
		err = os.Rename(file, file+".bad")
	} else if err = e.commit(ctx, &end, saveTimeout); err == nil {
		err = os.Remove(file)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// failing reports whether the last end could not be stored.
func (e *turnJournal) failing() bool { return e.saveFailed.Load() }

// close tries to store the waiting ends once more; the others wait for the next start.
func (e *turnJournal) close() {
	e.stop()
	e.work.Wait()
	if e.folder == "" || e.pending.Load() == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), saveTimeout)
	defer cancel()
	e.retryFiles(ctx)
	if n := e.pending.Load(); n > 0 {
		e.log.Error("turns are not in the database yet; they stay for the next start", "folder", e.folder, "turns", n)
	}
}
