package app

import (
	"errors"
	"io/fs"
	"log/slog"
	"net"
	"syscall"

	"patchbay/internal/config"
	"patchbay/internal/store"
	"patchbay/internal/talk"
)

var (
	sayHeld = talk.Say{
		Zh: "已有一个服务在使用 %s：进程 %d，地址 %s。可直接使用它，或先停掉它；要另开一个，请用 --data 指定另一个文件夹",
		En: "a server runs on %s already: process %d, at %s. Use that one, or stop it; for a second server choose another folder with --data",
	}
	sayHeldStarting = talk.Say{Zh: "（正在启动）", En: "(it is starting)"}
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
			at = sayHeldStarting
		}
		return nil, sayHeld.Wrong(c.Data, held.Holder.PID, at)
	}
	if errors.Is(err, store.ErrCannotLock) {
		log.Warn("the data folder cannot be locked; see to it that only one server runs on it", "folder", c.Data,
			"error", err)
		return nil, nil
	}
	return lock, err
}

var (
	sayCannotListen  = talk.Say{Zh: "无法监听 %s：%v。%v", En: "cannot listen on %s: %v. %v"}
	sayPortTaken     = talk.Say{Zh: "另一个程序已占用这个端口", En: "another program has that port"}
	sayOtherPort     = talk.Say{Zh: "停掉它，或用 %s 换一个地址", En: "Stop it, or choose another address with %s"}
	sayPortForbidden = talk.Say{Zh: "这个账户没有权限", En: "this account may not"}
	sayHigherPort    = talk.Say{Zh: "1024 以下的端口需要特权；请用 %s 换一个",
		En: "Ports below 1024 need privileges; choose another with %s"}
	sayNotOurs    = talk.Say{Zh: "本机没有这个地址", En: "this machine does not have that address"}
	sayOwnAddress = talk.Say{
		Zh: "请用 %s 换一个；:3000 表示本机的所有地址",
		En: "Choose another with %s; :3000 means all addresses of this machine",
	}
	sayOtherAddress = talk.Say{Zh: "请用 %s 换一个地址", En: "Choose another address with %s"}
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
	return sayCannotListen.Wrong(address, cause, advice)
}

// ExplainListen returns why an address cannot be listened on, and advice. Flag names the setting of
// the address.
func ExplainListen(flag string, err error) (cause, advice error) {
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return sayPortTaken.Wrong(), sayOtherPort.Wrong(flag)
	case errors.Is(err, fs.ErrPermission):
		return sayPortForbidden.Wrong(), sayHigherPort.Wrong(flag)
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return sayNotOurs.Wrong(), sayOwnAddress.Wrong(flag)
	}
	if op, ok := errors.AsType[*net.OpError](err); ok {
		err = op.Err // the message has the operation and the address already
	}
	return err, sayOtherAddress.Wrong(flag)
}
