package app

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"patchbay/internal/hub"
	"patchbay/internal/store"
)

// storageEvery is the interval of checking the free disk space and, after failed writes, whether
// writing works again.
const storageEvery = 2 * time.Second

// Problems of the storage.
const (
	diskLow    = "disk_low"    // little space is left; the instance stays ready
	diskFull   = "disk_full"   // no space, or hardly any, is left
	diskErrors = "disk_errors" // the disk reports errors
	notKept    = "storage"     // neither database nor disk could store the last turn
)

// storage monitors the disk of the data folder and the results of database writes.
type storage struct {
	db     *store.DB
	folder string
	unkept func() bool // reports whether the last turn could not be stored anywhere
	rekept func()      // called when writing works again
	space  func(folder string) (free uint64, known bool)
	log    *slog.Logger

	free  atomic.Uint64
	state atomic.Pointer[string] // as last reported; nil: no problem
}

func newStorage(b *Base, h *hub.Hub, log *slog.Logger, reg prometheus.Registerer) *storage {
	s := &storage{db: b.Store, folder: b.Config.Data, unkept: h.SaveFailing, rekept: h.ResetSaveFailing,
		space: store.FreeSpace, log: log}
	if _, known := s.space(s.folder); known {
		reg.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "patchbay_disk_free_bytes",
			Help: "Free space where the data folder is."},
			func() float64 { return float64(s.free.Load()) }))
	}
	reg.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "patchbay_storage_failing",
		Help: "1 while data cannot be written, or hardly any more."},
		func() float64 {
			if len(s.failing()) > 0 {
				return 1
			}
			return 0
		}))
	s.measure(context.Background())
	return s
}

// run monitors the storage until ctx ends.
func (s *storage) run(ctx context.Context) error {
	tick := time.NewTicker(storageEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			s.measure(ctx)
		case <-ctx.Done():
			return nil
		}
	}
}

// measure checks whether failed writes work again, and updates the state.
func (s *storage) measure(ctx context.Context) {
	if s.db.DiskError() != nil || s.unkept() {
		ctx, cancel := context.WithTimeout(ctx, storageEvery)
		if s.db.TryWriting(ctx) == nil {
			s.rekept()
		}
		cancel()
	}
	s.current()
}

// current returns the current problem, or "". It logs one line when a problem begins, and one when
// it is over.
func (s *storage) current() string {
	now, free := s.evaluate()
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

func (s *storage) evaluate() (now string, free uint64) {
	free, known := s.space(s.folder)
	switch trouble := s.db.DiskError(); {
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

// failing returns the problem if it makes the server not ready.
func (s *storage) failing() []string {
	if now := s.current(); now != "" && now != diskLow {
		return []string{now}
	}
	return nil
}
