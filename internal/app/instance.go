package app

import (
	"context"
	"strings"
	"sync/atomic"
	"time"

	"patchbay/internal/backup"
	"patchbay/internal/certs"
	"patchbay/internal/control"
)

// failing returns a function that lists why the server is not ready.
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

// instanceInfo returns what the control service knows about this instance.
func instanceInfo(b *Base, failing func(context.Context) []string, disk *storage, devices *handover,
	certificates *certs.Manager, links *reach) control.Instance {
	return control.Instance{
		Failing: failing, Links: links.status, Storage: disk.current, Drain: devices.Drain, Started: time.Now(),
		Backup: b.BackupSource(),
		Settings: func() string {
			var text strings.Builder
			b.Config.WriteEffective(&text) //nolint:errcheck // a write to memory does not fail
			return text.String()
		},
		Secret: b.Config.Secret, Certificates: certificateStates(certificates),
	}
}

// BackupSource returns the data that a backup contains.
func (b *Base) BackupSource() backup.Source {
	return backup.Source{Store: b.Store, Box: b.Box, Folder: b.Config.Data, Version: b.Version}
}
