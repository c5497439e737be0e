package store

import (
	"context"
	"crypto/rand"
	"database/sql"
	"strings"
)

// Thresholds of free disk space, in bytes.
const (
	// LittleSpace lasts for a while, NoSpace for hours at most: a day of many turns writes about
	// 100 MB before old rows are deleted.
	LittleSpace = 1 << 30
	NoSpace     = 100 << 20
)

// noteDiskError records that a write failed because of the disk.
func (db *DB) noteDiskError(err error) {
	if t := ClassifyError(err); t == ErrDiskFull || t == ErrDisk {
		db.disk.Store(&t)
	}
}

// DiskError returns why a write has failed, [ErrDiskFull] or [ErrDisk], until [DB.TryWriting]
// succeeds; nil if no write has.
func (db *DB) DiskError() error {
	if t := db.disk.Load(); t != nil {
		return *t
	}
	return nil
}

// probeText is the test data of TryWriting: several pages, so that the file must grow.
var probeText = strings.Repeat("x", 64<<10)

// TryWriting writes test data and deletes it again. If that succeeds, it clears [DB.DiskError].
func (db *DB) TryWriting(ctx context.Context) error {
	err := db.tx(ctx, func(tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, `INSERT INTO counters (name, value) VALUES ($1, 0)`,
			"probe "+rand.Text()+probeText); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, `DELETE FROM counters WHERE name LIKE 'probe %'`)
		return err
	})
	if err == nil {
		db.disk.Store(nil)
	}
	return err
}
