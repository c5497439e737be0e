package app

import (
	"errors"
	"io/fs"
	"log/slog"
	"net"
	"syscall"

	"patchbay/internal/config"
	"patchbay/internal/i18n"
	"patchbay/internal/store"
)

const (
	msgHeld         = i18n.Message("a server runs on %s already: process %d, at %s. Use that one, or stop it; for a second server choose another folder with --data")
	msgHeldStarting = i18n.Message("(it is starting)")
)

// lockFolder locks the SQLite database of a data folder against a second server. Each of two
// servers would serve stale data from its cache. Instances on PostgreSQL may share a folder.
func lockFolder(c *config.Config, log *slog.Logger) (*store.FolderLock, error) {
	if c.Database.URL != "" {
		return nil, nil
	}
	lock, err := store.LockFolder(c.Data)
	if held, ok := errors.AsType[*store.HeldError](err); ok {
		at := any(held.Holder.URL)
		if held.Holder.URL == "" {
			at = msgHeldStarting
		}
		return nil, msgHeld.Errorf(c.Data, held.Holder.PID, at)
	}
	if errors.Is(err, store.ErrCannotLock) {
		log.Warn("the data folder cannot be locked; see to it that only one server runs on it", "folder", c.Data,
			"error", err)
		return nil, nil
	}
	return lock, err
}

const (
	msgCannotListen  = i18n.Message("cannot listen on %s: %v. %v")
	msgPortTaken     = i18n.Message("another program has that port")
	msgOtherPort     = i18n.Message("Stop it, or choose another address with %s")
	msgPortForbidden = i18n.Message("this account may not")
	msgHigherPort    = i18n.Message("Ports below 1024 need privileges; choose another with %s")
	msgNotOurs       = i18n.Message("this machine does not have that address")
	msgOwnAddress    = i18n.Message("Choose another with %s; :3000 means all addresses of this machine")
	msgOtherAddress  = i18n.Message("Choose another address with %s")
)

// listen opens an address for a setting, and explains errors.
func listen(address, flag string) (net.Listener, error) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, listenError(address, flag, err)
	}
	return l, nil
}

func listenError(address, flag string, err error) error {
	cause, advice := ExplainListen(flag, err)
	return msgCannotListen.Errorf(address, cause, advice)
}

// ExplainListen returns why an address cannot be listened on, and advice. Flag names the setting of
// the address.
func ExplainListen(flag string, err error) (cause, advice error) {
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return msgPortTaken.Errorf(), msgOtherPort.Errorf(flag)
	case errors.Is(err, fs.ErrPermission):
		return msgPortForbidden.Errorf(), msgHigherPort.Errorf(flag)
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return msgNotOurs.Errorf(), msgOwnAddress.Errorf(flag)
	}
	if op, ok := errors.AsType[*net.OpError](err); ok {
		err = op.Err // the message has the operation and the address already
	}
	return err, msgOtherAddress.Errorf(flag)
}
