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
	// pendingTurnsFolder is where ends of turns wait that the database has not taken.
	pendingTurnsFolder = "turns.pending"
	// saveTimeout bounds the wait for the database before the end of a turn goes to a file: it
	// is what an asker waits longer when the database has just stopped answering.
	saveTimeout = 2 * time.Second
	// retryInterval is how often the database is asked again for those that wait.
	retryInterval = time.Second
	// maxPendingTurns bounds how many wait. Beyond it askers are told that nothing is kept.
	maxPendingTurns = 100_000
)

// turnEnd is what is to be written of a turn that has ended: its trace and the exchange,
// or, for an answer that came when nobody listened any more, what is added to both.
type turnEnd struct {
	Trace    *store.Trace    `json:"trace,omitempty"`
	Late     *lateEnd        `json:"late,omitempty"`
	Exchange *store.Exchange `json:"exchange,omitempty"`
	// Delivered are turns whose late answers were told in this one.
	Delivered []string `json:"heard,omitempty"`
}

// lateEnd is what is added to a trace that is written already.
type lateEnd struct {
	Turn   string        `json:"turn"`
	After  time.Duration `json:"after"`
	Cause  string        `json:"cause,omitempty"`
	Answer string        `json:"answer,omitempty"`
}

func (e *turnEnd) turn() string {
	if e.Late != nil {
		return e.Late.Turn
	}
	return e.Trace.Turn
}

// write puts it into the database. To do so again changes nothing.
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
		return db.Traces.FinishLate(ctx, l.Turn, l.After, l.Cause, l.Answer, x)
	}
	return db.Traces.Finish(ctx, *e.Trace, x)
}

// turnJournal keeps what is to be written of turns safe from the death of the process and of the
// machine while the database does not take it: each in a file of its own, which is on the
// disk before the asker is told that the turn is done. They are written in their order,
// by this process or by the next.
type turnJournal struct {
	db     *store.DB
	folder string // empty: there are no files
	log    *slog.Logger

	// writing is held, by many, while files are written, and by one who counts them.
	writing      sync.RWMutex
	pending      atomic.Int64 // files
	lastName     atomic.Int64 // the newest name, in nanoseconds
	databaseDown atomic.Bool  // the database has not taken the last one that it was given
	saveFailed   atomic.Bool  // the last end was kept nowhere
	warned       atomic.Bool  // the log says that some wait
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

// errNotSaved says that what happened in a turn is nowhere but in memory.
var errNotSaved = errors.New("neither the database nor the disk takes what has happened")

// save returns when an end is in the database, or on the disk. The error is [errNotSaved].
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
	down := e.databaseDown.Load() // then the database is not waited for
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

// queueFile puts an end on the disk.
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
	default: // it looks anyway
	}
	return nil
}

// fileName is the name of an end's file. Names are in the order in which they were given.
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

// files are the ends that wait, oldest first.
func (e *turnJournal) files() []string {
	list, err := filepath.Glob(filepath.Join(e.folder, "*.json")) // sorted
	if err != nil {
		e.log.Error("turns that wait for the database cannot be listed", "error", err)
	}
	return list
}

// run gives the database what waits, until ctx ends.
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

// retryFiles writes what waits until the database refuses one.
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
	e.pending.Store(int64(len(e.files()))) // other processes may have written some of them
	e.writing.Unlock()
	if written > 0 {
		e.warned.Store(false)
		e.log.Info("turns that waited on the disk are in the database now", "turns", written)
	}
}

// retryFile gives the database one that waits. A file that is none is laid aside.
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

// failing reports that the last turn could not be kept anywhere.
func (e *turnJournal) failing() bool { return e.saveFailed.Load() }

// close gives the database a last chance; what it does not take is for the next start.
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
