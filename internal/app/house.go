package app

import (
	"context"
	"strings"
	"sync/atomic"
	"time"

	"patchbay/internal/backup"
	"patchbay/internal/control"
)

// failing lists what keeps the server from its work.
func failing(ready *atomic.Bool, b *Base, disk *storage, devices *handover) func(context.Context) []string {
	return func(ctx context.Context) []string {
		ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
		defer cancel()
		out := []string{}
		if !ready.Load() {
			out = append(out, "stopping")
		}
		if b.Store.Ping(ctx) != nil {
			out = append(out, "database")
		}
		out = append(out, disk.failing()...)
		return append(out, devices.failing()...)
	}
}

// houseOf is what the installation knows about itself.
func houseOf(b *Base, failing func(context.Context) []string, disk *storage, devices *handover) control.House {
	return control.House{
		Failing: failing, Storage: disk.now, Drain: devices.Drain, Started: time.Now(), Backup: b.BackupSource(),
		Settings: func() string {
			var text strings.Builder
			b.Config.WriteEffective(&text) //nolint:errcheck // into memory
			return text.String()
		},
		Secret: b.Config.Secret,
	}
}

// BackupSource is what is backed up.
func (b *Base) BackupSource() backup.Source {
	return backup.Source{Store: b.Store, Box: b.Box, Folder: b.Config.Data, Version: b.Version}
}
