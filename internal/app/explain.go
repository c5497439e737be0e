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
	"patchbay/internal/seal"
	"patchbay/internal/store"
	"patchbay/internal/talk"
)

// explainedError is an error with advice for people, and its cause.
type explainedError struct {
	error
	cause error
}

// In returns the error in a language.
func (e explainedError) In(l talk.Lang) string { return talk.Localize(e.error, l) }

func (e explainedError) Unwrap() error { return e.cause }

var (
	sayDamaged = talk.Say{
		Zh: "数据库已损坏，或这个文件不是数据库（%v）。停掉服务，用 patchbay backup restore 文件 恢复备份后再启动",
		En: "the database is damaged, or the file is no database (%v). Stop the server, restore a backup with patchbay backup restore FILE, and start again",
	}
	sayDiskFull = talk.Say{
		Zh: "磁盘已满。请腾出空间后重试；patchbay doctor 会显示剩余空间",
		En: "the disk is full. Make room and try again; patchbay doctor shows how much is left",
	}
	sayDiskErrors = talk.Say{
		Zh: "磁盘报告错误（%v）。请检查磁盘和系统日志，并保存一份备份",
		En: "the disk reports errors (%v). Look after it and the system's log, and keep a backup",
	}
	sayUnwritable = talk.Say{
		Zh: "这个账户不能打开或写入 %s。请修改它的权限，或用 --data 指定别的文件夹",
		En: "this account cannot open or write %s. Change its permissions, or choose another folder with --data",
	}
	sayNoFile    = talk.Say{Zh: "%s没有 %s 这个文件或文件夹；请检查路径", En: "%sno such file or folder: %s; check the path"}
	sayNotFolder = talk.Say{Zh: "%s%s 的路径里有一处不是文件夹；请检查路径", En: "%sa part of the path %s is no folder; check the path"}
	sayOtherKey  = talk.Say{
		Zh: "%s是用另一个密钥密封的：secret（或数据文件夹里的 secret.key）是当初写入时用的那个吗？",
		En: "%ssealed with another key: is secret (or secret.key in the data folder) the one it was written with?",
	}
	sayShortKey = talk.Say{
		Zh: "secret（或数据文件夹里的 secret.key）至少要有 32 字节（64 位十六进制）；请恢复原来的文件，新的服务可以这样生成：openssl rand -hex 32",
		En: "secret (or secret.key in the data folder) must have at least 32 bytes (64 hex digits); bring the old file back, or for a new server make one with: openssl rand -hex 32",
	}
	sayNewerData = talk.Say{
		Zh: "数据来自更新版本的 Patchbay；请使用那个版本或更新的版本，或恢复之前的备份",
		En: "the data is of a newer version of Patchbay; use that one or a newer one, or restore a backup from before",
	}
	sayNewerTables = talk.Say{
		Zh: "数据库来自更新版本的 Patchbay（表结构 %d，由版本 %v 写成），而这个程序只认识到 %d。请使用那个版本或更新的版本；要回到旧版本，请恢复升级之前的备份",
		En: "the database is of a newer version of Patchbay (state %d of its tables, written by version %v), and this program knows them up to %d. Use that version or a newer one; to go back, restore a backup from before the upgrade",
	}
	sayUnknownVersion = talk.Say{Zh: "（未知）", En: "(unknown)"}
	sayNoBus          = talk.Say{
		Zh: "无法连接总线（NATS）；请检查它是否在运行，以及 bus.url 里的主机和端口",
		En: "the bus (NATS) cannot be reached; see whether it runs, and whether host and port in bus.url are right",
	}
	sayBusRefused = talk.Say{
		Zh: "总线（NATS）拒绝连接；请检查 bus.url 里的用户、密码或令牌",
		En: "the bus (NATS) refuses; see whether user, password or token in bus.url are right",
	}
	sayTheDatabase   = talk.Say{Zh: "数据库", En: "the database"}
	sayDBUnreachable = talk.Say{
		Zh: "无法连接数据库服务器：%v。请检查它是否在运行，以及 database.url 里的主机和端口",
		En: "the database server cannot be reached: %v. See whether it runs, and whether host and port in database.url are right",
	}
	sayDBRefused = talk.Say{
		Zh: "数据库服务器拒绝连接：%v。请检查 database.url 里的用户、密码和数据库名",
		En: "the database server refuses: %v. See whether user, password and database in database.url are right",
	}
	sayNobodyListens = talk.Say{Zh: "那里没有程序在监听（连接被拒绝）", En: "nothing listens there (connection refused)"}
	sayNoSuchHost    = talk.Say{Zh: "找不到主机 %s，请检查拼写和 DNS", En: "there is no host %s; check its spelling and the DNS"}
	sayNoRoute       = talk.Say{Zh: "到那里的网络不通", En: "no network leads there"}
	sayTooSlow       = talk.Say{Zh: "没有及时应答；请检查地址、防火墙，以及那边是否在运行",
		En: "no answer came in time; check the address, firewalls, and whether it runs"}
	sayCertificate = talk.Say{Zh: "它的证书不可信：%v", En: "its certificate is not trusted: %v"}
)

// Explain turns errors of the database, the disk or the network into messages that end with advice.
// Other errors, and errors that have a message already, stay as they are.
func Explain(err error) error {
	if err == nil {
		return nil
	}
	if _, ok := errors.AsType[*talk.Wrong](err); ok {
		return err
	}
	if _, ok := errors.AsType[explainedError](err); ok {
		return err
	}
	say := func(s talk.Say, args ...any) error { return explainedError{s.Wrong(args...), err} }
	switch store.ClassifyError(err) {
	case store.ErrDamaged:
		return say(sayDamaged, err)
	case store.ErrDiskFull:
		return say(sayDiskFull)
	case store.ErrDisk:
		return say(sayDiskErrors, err)
	case store.ErrUnwritable:
		return say(sayUnwritable, sayTheDatabase)
	case store.ErrUnreachable:
		why := reason(err)
		if why == nil {
			why = err
		}
		return say(sayDBUnreachable, why)
	case store.ErrRefused:
		return say(sayDBRefused, err)
	}
	switch {
	case errors.Is(err, seal.ErrKey):
		return say(sayOtherKey, errorPrefix(err, seal.ErrKey))
	case errors.Is(err, seal.ErrShort):
		return say(sayShortKey)
	case errors.Is(err, store.ErrNewer):
		if e, ok := errors.AsType[*store.NewerError](err); ok {
			by := any(e.Version)
			if e.Version == "" {
				by = sayUnknownVersion
			}
			return say(sayNewerTables, e.State, by, e.Known)
		}
		return say(sayNewerData)
	case errors.Is(err, bus.ErrUnreachable):
		return say(sayNoBus)
	case errors.Is(err, bus.ErrRefused):
		return say(sayBusRefused)
	}
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		switch {
		case errors.Is(e, fs.ErrPermission):
			return say(sayUnwritable, e.Path)
		case errors.Is(e, fs.ErrNotExist):
			return say(sayNoFile, errorPrefix(err, e), e.Path)
		case errors.Is(e, syscall.ENOTDIR):
			return say(sayNotFolder, errorPrefix(err, e), e.Path)
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
		return sayNobodyListens.Wrong()
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		return sayNoRoute.Wrong()
	case isDNS && dns.IsNotFound:
		return sayNoSuchHost.Wrong(dns.Name)
	case errors.Is(err, os.ErrDeadlineExceeded), isNetwork && network.Timeout():
		return sayTooSlow.Wrong()
	case isUnknown:
		return sayCertificate.Wrong(unknown)
	case isWrongHost:
		return sayCertificate.Wrong(wrongHost)
	case isInvalid:
		return sayCertificate.Wrong(invalid)
	case isOp:
		return op.Err
	}
	return nil
}
