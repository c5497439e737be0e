package store

import (
	"context"
	"crypto/rand"
	"database/sql"
	"strings"
)

// How many bytes have to be free where data is written.
const (
	// LittleSpace lasts for a while, NoSpace for hours at most: a day of many
	// turns writes some 100 MB before old rows are deleted.
	LittleSpace = 1 << 30
	NoSpace     = 100 << 20
)

// noted remembers that a write has failed because of the disk.
func (db *DB) noted(err error) {
	if t := Trouble(err); t == ErrDiskFull || t == ErrDisk {
		db.disk.Store(&t)
	}
}

// DiskTrouble is why a write has failed, [ErrDiskFull] or [ErrDisk], if none is known to be
// possible since; otherwise nil.
func (db *DB) DiskTrouble() error {
	if t := db.disk.Load(); t != nil {
		return *t
	}
	return nil
}

// probeText is what is written to see whether the disk takes it: some pages, so that the
// file has to grow.
var probeText = strings.Repeat("x", 64<<10)

// TryWriting writes something and takes it out again. If that works, there is no
// [DB.DiskTrouble] any more.
func (db *DB) TryWriting(ctx context.Context) error {
	err := db.tx(ctx, func(tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, `INSERT INTO counters (name, value) VALUES ($1, 0)`, "probe "+rand.Text()+probeText); err != nil {
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
