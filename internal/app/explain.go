package app

import (
	"crypto/x509"
	"errors"
	"io/fs"
	"net"
	"os"
	"strings"
	"syscall"

	"patchbay/internal/bus"
	"patchbay/internal/i18n"
	"patchbay/internal/seal"
	"patchbay/internal/store"
)

// explainedError is an error with advice for people, and its cause.
type explainedError struct {
	error
	cause error
}

// In returns the error in a language.
func (e explainedError) In(l i18n.Lang) string { return i18n.Localize(e.error, l) }

func (e explainedError) Unwrap() error { return e.cause }

const (
	msgDamaged        = i18n.Message("the database is damaged, or the file is no database (%v). Stop the server, restore a backup with patchbay backup restore FILE, and start again")
	msgDiskFull       = i18n.Message("the disk is full. Make room and try again; patchbay doctor shows how much is left")
	msgDiskErrors     = i18n.Message("the disk reports errors (%v). Look after it and the system's log, and keep a backup")
	msgUnwritable     = i18n.Message("this account cannot open or write %s. Change its permissions, or choose another folder with --data")
	msgNoFile         = i18n.Message("%sno such file or folder: %s; check the path")
	msgNotFolder      = i18n.Message("%sa part of the path %s is no folder; check the path")
	msgOtherKey       = i18n.Message("%ssealed with another key: is secret (or secret.key in the data folder) the one it was written with?")
	msgShortKey       = i18n.Message("secret (or secret.key in the data folder) must have at least 32 bytes (64 hex digits); bring the old file back, or for a new server make one with: openssl rand -hex 32")
	msgNewerData      = i18n.Message("the data is of a newer version of Patchbay; use that one or a newer one, or restore a backup from before")
	msgNewerTables    = i18n.Message("the database is of a newer version of Patchbay (state %d of its tables, written by version %v), and this program knows them up to %d. Use that version or a newer one; to go back, restore a backup from before the upgrade")
	msgUnknownVersion = i18n.Message("(unknown)")
	msgNoBus          = i18n.Message("the bus (NATS) cannot be reached; see whether it runs, and whether host and port in bus.url are right")
	msgBusRefused     = i18n.Message("the bus (NATS) refuses; see whether user, password or token in bus.url are right")
	msgTheDatabase    = i18n.Message("the database")
	msgDBUnreachable  = i18n.Message("the database server cannot be reached: %v. See whether it runs, and whether host and port in database.url are right")
	msgDBRefused      = i18n.Message("the database server refuses: %v. See whether user, password and database in database.url are right")
	msgNobodyListens  = i18n.Message("nothing listens there (connection refused)")
	msgNoSuchHost     = i18n.Message("there is no host %s; check its spelling and the DNS")
	msgNoRoute        = i18n.Message("no network leads there")
	msgTooSlow        = i18n.Message("no answer came in time; check the address, firewalls, and whether it runs")
	msgCertificate    = i18n.Message("its certificate is not trusted: %v")
)

// Explain turns errors of the database, the disk or the network into messages that end with advice.
// Other errors, and errors that have a message already, stay as they are.
func Explain(err error) error {
	if err == nil {
		return nil
	}
	if _, ok := errors.AsType[*i18n.Error](err); ok {
		return err
	}
	if _, ok := errors.AsType[explainedError](err); ok {
		return err
	}
	say := func(s i18n.Message, args ...any) error { return explainedError{s.Errorf(args...), err} }
	switch store.ClassifyError(err) {
	case store.ErrDamaged:
		return say(msgDamaged, err)
	case store.ErrDiskFull:
		return say(msgDiskFull)
	case store.ErrDisk:
		return say(msgDiskErrors, err)
	case store.ErrUnwritable:
		return say(msgUnwritable, msgTheDatabase)
	case store.ErrUnreachable:
		why := reason(err)
		if why == nil {
			why = err
		}
		return say(msgDBUnreachable, why)
	case store.ErrRefused:
		return say(msgDBRefused, err)
	}
	switch {
	case errors.Is(err, seal.ErrKey):
		return say(msgOtherKey, errorPrefix(err, seal.ErrKey))
	case errors.Is(err, seal.ErrShort):
		return say(msgShortKey)
	case errors.Is(err, store.ErrNewer):
		if e, ok := errors.AsType[*store.NewerError](err); ok {
			by := any(e.Version)
			if e.Version == "" {
				by = msgUnknownVersion
			}
			return say(msgNewerTables, e.State, by, e.Known)
		}
		return say(msgNewerData)
	case errors.Is(err, bus.ErrUnreachable):
		return say(msgNoBus)
	case errors.Is(err, bus.ErrRefused):
		return say(msgBusRefused)
	}
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		switch {
		case errors.Is(e, fs.ErrPermission):
			return say(msgUnwritable, e.Path)
		case errors.Is(e, fs.ErrNotExist):
			return say(msgNoFile, errorPrefix(err, e), e.Path)
		case errors.Is(e, syscall.ENOTDIR):
			return say(msgNotFolder, errorPrefix(err, e), e.Path)
		}
	}
	if why := reason(err); why != nil {
		return explainedError{why, err}
	}
	return err
}

// errorPrefix returns the text of err in front of its cause: the operation, or the setting.
func errorPrefix(err, cause error) string {
	if text, ok := strings.CutSuffix(err.Error(), cause.Error()); ok {
		return text
	}
	return ""
}

// reason returns why a connection failed, without the operation and the addresses, or nil for other
// errors.
func reason(err error) error {
	dns, isDNS := errors.AsType[*net.DNSError](err)
	op, isOp := errors.AsType[*net.OpError](err)
	network, isNetwork := errors.AsType[net.Error](err)
	unknown, isUnknown := errors.AsType[x509.UnknownAuthorityError](err)
	wrongHost, isWrongHost := errors.AsType[x509.HostnameError](err)
	invalid, isInvalid := errors.AsType[x509.CertificateInvalidError](err)
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return msgNobodyListens.Errorf()
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		return msgNoRoute.Errorf()
	case isDNS && dns.IsNotFound:
		return msgNoSuchHost.Errorf(dns.Name)
	case errors.Is(err, os.ErrDeadlineExceeded), isNetwork && network.Timeout():
		return msgTooSlow.Errorf()
	case isUnknown:
		return msgCertificate.Errorf(unknown)
	case isWrongHost:
		return msgCertificate.Errorf(wrongHost)
	case isInvalid:
		return msgCertificate.Errorf(invalid)
	case isOp:
		return op.Err
	}
	return nil
}
