package store

import (
	"database/sql/driver"
	"errors"
	"io"
	"net"
	"syscall"

	"github.com/jackc/pgx/v5/pgconn"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// What can be wrong with a database as a whole, beside [ErrDamaged].
var (
	ErrDiskFull    = errors.New("the disk is full")
	ErrDisk        = errors.New("the disk reports errors")
	ErrUnwritable  = errors.New("the database cannot be opened or written by this account")
	ErrUnreachable = errors.New("the database server cannot be reached")
	ErrRefused     = errors.New("the database server refuses the user, the password or the database")
)

// Trouble is what an error says about the database as a whole, [ErrDamaged] or one of the above; nil if it
// says nothing of the kind.
func Trouble(err error) error {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return ErrDiskFull
	}
	if errors.Is(err, syscall.EIO) {
		return ErrDisk
	}
	if errors.Is(err, ErrDamaged) {
		return ErrDamaged
	}
	if e, ok := errors.AsType[*sqlite.Error](err); ok {
		if e.Code() == sqlite3.SQLITE_IOERR_SHORT_READ { // the file has an end where it should go on
			return ErrDamaged
		}
		switch e.Code() & 0xff { // what is above tells details
		case sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB:
			return ErrDamaged
		case sqlite3.SQLITE_FULL:
			return ErrDiskFull
		case sqlite3.SQLITE_IOERR:
			return ErrDisk
		case sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM:
			return ErrUnwritable
		}
		return nil
	}
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		switch e.Code {
		case "53100": // disk_full
			return ErrDiskFull
		case "58030": // io_error
			return ErrDisk
		case "XX001", "XX002": // data_corrupted, index_corrupted
			return ErrDamaged
		case "28000", "28P01", "3D000", "42501": // authorization, password, no such database, privilege
			return ErrRefused
		}
		return nil
	}
	if _, ok := errors.AsType[*pgconn.ConnectError](err); ok {
		return ErrUnreachable
	}
	return nil
}

// IsAway reports whether an error says that the database could not be asked, or did not
// answer: the next statement would find the same.
func IsAway(err error) bool {
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		switch e.Code {
		case "57P01", "57P02", "57P03", // it stops, has crashed, or starts
			"53300",          // too_many_connections
			"57014", "25P03": // our own limits of time, see postgres.go
			return true
		}
	}
	_, network := errors.AsType[net.Error](err)
	return network || Trouble(err) != nil || errors.Is(err, driver.ErrBadConn) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
}
