package app

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"patchbay/internal/board"
	"patchbay/internal/store"
)

// storageEvery is how often it is looked how much room there is on the disk, and, after
// writes have failed, whether they work again.
const storageEvery = 2 * time.Second

// What can be wrong with what data is written to.
const (
	diskLow    = "disk_low"    // there is little room: no reason not to be ready
	diskFull   = "disk_full"   // there is none, or hardly any
	diskErrors = "disk_errors" // it reports errors
	notKept    = "storage"     // neither database nor disk has taken the last turn
)

// storage watches what data is written to: the disk of the data folder, and what comes of
// writes to the database.
type storage struct {
	db     *store.DB
	folder string
	unkept func() bool // whether the last turn could be kept nowhere
	rekept func()      // is told that writes work again
	space  func(folder string) (free uint64, known bool)
	log    *slog.Logger

	free  atomic.Uint64
	state atomic.Pointer[string] // as it was told last; nil: all is well
}

func newStorage(b *Base, hub *board.Board, log *slog.Logger, reg prometheus.Registerer) *storage {
	s := &storage{db: b.Store, folder: b.Config.Data, unkept: hub.Unkept, rekept: hub.Rekept, space: store.FreeSpace, log: log}
	if _, known := s.space(s.folder); known {
		reg.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "patchbay_disk_free_bytes", Help: "Free space where the data folder is."},
			func() float64 { return float64(s.free.Load()) }))
	}
	reg.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "patchbay_storage_failing", Help: "1 while data cannot be written, or hardly any more."},
		func() float64 {
			if len(s.failing()) > 0 {
				return 1
			}
			return 0
		}))
	s.look(context.Background())
	return s
}

// run watches until ctx ends.
func (s *storage) run(ctx context.Context) error {
	tick := time.NewTicker(storageEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			s.look(ctx)
		case <-ctx.Done():
			return nil
		}
	}
}

// look finds out whether what failed works again, and what is wrong now.
func (s *storage) look(ctx context.Context) {
	if s.db.DiskTrouble() != nil || s.unkept() {
		ctx, cancel := context.WithTimeout(ctx, storageEvery)
		if s.db.TryWriting(ctx) == nil {
			s.rekept()
		}
		cancel()
	}
	s.now()
}

// now is what is wrong at the moment; empty: nothing. The log has one line when something
// begins, and one when it is over.
func (s *storage) now() string {
	now, free := s.judge()
	s.free.Store(free)
	if was := s.state.Swap(&now); was == nil && now == "" || was != nil && *was == now {
		return now
	}
	about := []any{"free_bytes", free, "folder", s.folder}
	switch now {
	case "":
		s.log.Info("there is room on the disk again, and data can be written", about...)
	case diskLow:
		s.log.Warn("there is little room on the disk; make some", about...)
	default:
		s.log.Error("data cannot be written, or hardly any more: this instance is not ready until it can be; reading goes on", append(about, "failing", now)...)
	}
	return now
}

func (s *storage) judge() (now string, free uint64) {
	free, known := s.space(s.folder)
	switch trouble := s.db.DiskTrouble(); {
	case trouble == store.ErrDisk:
		now = diskErrors
	case trouble != nil, known && free < store.NoSpace:
		now = diskFull
	case s.unkept():
		now = notKept
	case known && free < store.LittleSpace:
		now = diskLow
	}
	return now, free
}

// failing is what keeps the server from its work.
func (s *storage) failing() []string {
	if now := s.now(); now != "" && now != diskLow {
		return []string{now}
	}
	return nil
}
