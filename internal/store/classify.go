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

// Errors about the database as a whole, besides [ErrDamaged].
var (
	ErrDiskFull    = errors.New("the disk is full")
	ErrDisk        = errors.New("the disk reports errors")
	ErrUnwritable  = errors.New("the database cannot be opened or written by this account")
	ErrUnreachable = errors.New("the database server cannot be reached")
	ErrRefused     = errors.New("the database server refuses the user, the password or the database")
)

// ClassifyError classifies an error that concerns the database as a whole: it returns [ErrDamaged]
// or one of the errors above, or nil for any other error.
func ClassifyError(err error) error {
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
		if e.Code() == sqlite3.SQLITE_IOERR_SHORT_READ { // the file is truncated
			return ErrDamaged
		}
		switch e.Code() & 0xff { // the upper bits are the extended code
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

// IsAway reports whether an error means that the database was unreachable or did not answer, so
// that the next statement would fail too.
func IsAway(err error) bool {
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		switch e.Code {
		case "57P01", "57P02", "57P03", // admin_shutdown, crash_shutdown, cannot_connect_now
			"53300",          // too_many_connections
			"57014", "25P03": // our own timeouts (query_canceled, idle_in_transaction_session_timeout), see postgres.go
			return true
		}
	}
	_, network := errors.AsType[net.Error](err)
	return network || ClassifyError(err) != nil || errors.Is(err, driver.ErrBadConn) || errors.Is(err, io.EOF) ||
		errors.Is(err, io.ErrUnexpectedEOF)
}
