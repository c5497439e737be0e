package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"patchbay/internal/app"
	"patchbay/internal/seal"
	"patchbay/internal/store"
	"patchbay/internal/talk"
)

var (
	sayCheckFolder = talk.Say{Zh: "数据文件夹", En: "data folder"}
	sayWritable    = talk.Say{Zh: "%s 可写", En: "%s can be written"}
	sayMissing     = talk.Say{Zh: "%s 不存在", En: "%s does not exist"}
)

// checkDataFolder checks that the data directory is writable.
func (d *doctor) checkDataFolder() {
	folder := d.settings.Data
	probe, err := os.CreateTemp(folder, ".doctor-*")
	if errors.Is(err, fs.ErrNotExist) {
		d.warn(sayCheckFolder, sayMissing.In(d.sh.lang, folder), sayBegin, d.retryFlags)
		return
	}
	if err != nil {
		d.fail(sayCheckFolder, d.errorText(err), talk.Say{Zh: "让运行服务的账户可以写这个文件夹。",
			En: "Let the account that runs the server write there."})
		return
	}
	defer os.Remove(probe.Name())
	if err := errors.Join(probe.Sync(), probe.Close()); err != nil {
		d.fail(sayCheckFolder, d.errorText(err), talk.Say{Zh: "检查磁盘。", En: "Look after the disk."})
		return
	}
	d.ok(sayCheckFolder, sayWritable, folder)
}

var (
	sayCheckSpace = talk.Say{Zh: "磁盘空间", En: "free space"}
	sayFree       = talk.Say{Zh: "剩余 %.1f GiB", En: "%.1f GiB"}
	adviceSpace   = talk.Say{Zh: "请腾出空间，否则写入会失败。", En: "Make room, or writes will fail."}
)

// checkDiskSpace checks that the disk of the data directory is not full.
func (d *doctor) checkDiskSpace() {
	free, ok := store.FreeSpace(d.settings.Data)
	if !ok {
		return // the directory is missing, or the system does not support it
	}
	gib := float64(free) / (1 << 30)
	switch {
	case free < store.NoSpace:
		d.fail(sayCheckSpace, sayFree.In(d.sh.lang, gib), adviceSpace)
	case free < store.LittleSpace:
		d.warn(sayCheckSpace, sayFree.In(d.sh.lang, gib), adviceSpace)
	default:
		d.ok(sayCheckSpace, sayFree, gib)
	}
}

var (
	sayCheckKey     = talk.Say{Zh: "密封密钥", En: "secret key"}
	sayKeySettings  = talk.Say{Zh: "来自设置", En: "comes from the settings"}
	sayKeyReadable  = talk.Say{Zh: "%s 可读", En: "%s can be read"}
	sayKeyToCome    = talk.Say{Zh: "首次使用时生成", En: "is made at the first use"}
	sayKeyOpen      = talk.Say{Zh: "其他账户也能读取 %s", En: "other accounts can read %s"}
	adviceKeyRights = talk.Say{Zh: "运行：chmod 600 %s", En: "Run: chmod 600 %s"}
	adviceKey       = talk.Say{Zh: "从备份恢复它，或重新输入各机器人的密钥。", En: "Restore it from a backup, or set the bots' keys again."}
)

// key checks that the key that encrypts the bots' credentials is readable.
func (d *doctor) key() {
	if d.settings.Secret != "" {
		if _, err := seal.New(d.settings.Secret); err != nil {
			d.fail(sayCheckKey, d.errorText(err), adviceKey)
			return
		}
		d.ok(sayCheckKey, sayKeySettings)
		return
	}
	path := filepath.Join(d.settings.Data, seal.FileName)
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist) && !hasData(d.settings):
		d.ok(sayCheckKey, sayKeyToCome)
	case err != nil:
		d.fail(sayCheckKey, d.errorText(err), adviceKey)
	case runtime.GOOS != "windows" && info.Mode().Perm()&0o077 != 0:
		d.warn(sayCheckKey, sayKeyOpen.In(d.sh.lang, path), adviceKeyRights, path)
	default:
		if _, err := seal.Open(d.settings.Data); err != nil {
			d.fail(sayCheckKey, d.errorText(err), adviceKey)
			return
		}
		d.ok(sayCheckKey, sayKeyReadable, path)
	}
}

var (
	sayOldSecretHere = talk.Say{Zh: "启动时用的密钥已经更换，到 %s 失效",
		En: "the one that this instance starts with was replaced and holds until %s"}
	adviceOldSecret = talk.Say{Zh: "把设置里的 secret 换成新的（patchbay secret show --reveal%s）并重启。",
		En: "Put the new one into the settings as secret (patchbay secret show --reveal%s), and restart."}
	sayHalfRotated = talk.Say{Zh: "%s 开始更换密钥，没有完成", En: "a change of the secret was begun on %s and has not ended"}
	adviceRotate   = talk.Say{Zh: "运行：patchbay secret rotate%s", En: "Run: patchbay secret rotate%s"}
	sayOldHolds    = talk.Say{Zh: "旧密钥有效至 %s", En: "the old one holds until %s"}
)

// secrets checks whether a rotation of the secret is unfinished. With a single secret [doctor.key]
// has reported everything.
func (d *doctor) secrets(b *app.Base) {
	list := b.Secrets.State()
	if at := b.Secrets.Pending(); !at.IsZero() {
		d.warn(sayCheckKey, sayHalfRotated.In(d.sh.lang, d.sh.when(at)), adviceRotate, d.retryFlags)
		return
	}
	for _, x := range list[1:] {
		if x.Own && b.Config.Secret != "" {
			d.warn(sayCheckKey, sayOldSecretHere.In(d.sh.lang, d.sh.when(x.Until)), adviceOldSecret, d.retryFlags)
			return
		}
	}
	if len(list) > 1 {
		d.ok(sayCheckKey, sayOldHolds, d.sh.when(list[1].Until))
	}
}

var (
	sayCheckCert   = talk.Say{Zh: "证书", En: "certificate"}
	sayCertUntil   = talk.Say{Zh: "有效期至 %s", En: "is good until %s"}
	sayCertExpired = talk.Say{Zh: "已于 %s 过期", En: "expired on %s"}
	adviceCert     = talk.Say{Zh: "请更新证书并重启服务。", En: "Renew it and restart the server."}
)

// expiryWarning is how long before its expiry a certificate is reported.
const expiryWarning = 14 * 24 * time.Hour

// certificate checks the files of the TLS certificate.
func (d *doctor) certificate(now time.Time) {
	if d.settings.TLS.Cert == "" {
		return
	}
	pair, err := tls.LoadX509KeyPair(d.settings.TLS.Cert, d.settings.TLS.Key)
	if err != nil {
		d.fail(sayCheckCert, d.errorText(err), talk.Say{Zh: "检查 tls.cert 和 tls.key。",
			En: "See whether tls.cert and tls.key are right."})
		return
	}
	leaf, err := x509.ParseCertificate(pair.Certificate[0])
	if err != nil {
		d.fail(sayCheckCert, d.errorText(err), adviceCert)
		return
	}
	until := d.sh.when(leaf.NotAfter)
	switch {
	case now.After(leaf.NotAfter):
		d.fail(sayCheckCert, sayCertExpired.In(d.sh.lang, until), adviceCert)
	case now.Add(expiryWarning).After(leaf.NotAfter):
		d.warn(sayCheckCert, sayCertUntil.In(d.sh.lang, until), adviceCert)
	default:
		d.ok(sayCheckCert, sayCertUntil, until)
	}
}

var sayDatabaseGood = talk.Say{Zh: "%s 可用，表结构是最新的（%s）", En: "%s answers and is up to date (%s)"}

// wholeLimit is the timeout for checking the whole database file: enough for some GB.
const wholeLimit = 30 * time.Second

var (
	sayFileDamaged = talk.Say{Zh: "数据库已损坏：%s（%v）", En: "the database is damaged: %s (%v)"}
	adviceDamaged  = talk.Say{
		Zh: "停掉服务，把这个文件另存一份，再恢复备份：patchbay backup restore 文件%s。没有备份时，sqlite3 的 .recover 也许能救回一部分。",
		En: "Stop the server, keep a copy of the file, and restore a backup: patchbay backup restore FILE%s. Without one, .recover of sqlite3 may save a part.",
	}
	sayFileLong = talk.Say{Zh: "可用；文件太大，%v 内没有查完是否完整",
		En: "answers; its file is so large that %v were not enough to see whether it is whole"}
	adviceLong = talk.Say{Zh: "停掉服务后运行：sqlite3 %s \"PRAGMA integrity_check\"",
		En: "Stop the server, and run: sqlite3 %s \"PRAGMA integrity_check\""}
)

// reportDamaged reports a damaged database file, of SQLite or PostgreSQL.
func (d *doctor) reportDamaged(err error) {
	cause := err
	for e := errors.Unwrap(cause); e != nil; e = errors.Unwrap(e) { // the advice is below
		cause = e
	}
	d.fail(sayCheckDatabase, sayFileDamaged.In(d.sh.lang, d.file(), singleLine(cause.Error())), adviceDamaged,
		d.retryFlags)
}

// file returns the location of the database.
func (d *doctor) file() string {
	if d.settings.Database.URL != "" {
		return "PostgreSQL"
	}
	return filepath.Join(d.settings.Data, store.FileName)
}

// database checks that the database responds. Opening it has migrated it.
func (d *doctor) database(ctx context.Context, b *app.Base) {
	begin := time.Now()
	if err := b.Store.Ping(ctx); err != nil {
		d.fail(sayCheckDatabase, d.errorText(err), talk.Say{Zh: "检查数据库是否在运行。", En: "See whether it runs."})
		return
	}
	if err := b.Store.TryWriting(ctx); err != nil {
		d.fail(sayCheckDatabase, d.errorText(err), adviceSpace)
		return
	}
	answered := took(time.Since(begin))
	limited, cancel := context.WithTimeout(ctx, wholeLimit)
	defer cancel()
	switch err := b.Store.Check(limited); {
	case errors.Is(err, store.ErrDamaged):
		d.reportDamaged(err)
		return
	case limited.Err() != nil:
		d.warn(sayCheckDatabase, sayFileLong.In(d.sh.lang, wholeLimit), adviceLong, quoteWord(d.file()))
		return
	case err != nil:
		d.fail(sayCheckDatabase, d.errorText(err), adviceLook)
		return
	}
	d.ok(sayCheckDatabase, sayDatabaseGood, b.Store.Dialect(), answered)
}

var (
	sayCheckPeople = talk.Say{Zh: "账户", En: "people"}
	sayPeople      = talk.Say{Zh: "%d 个账户", En: "%d"}
)

func (d *doctor) people(ctx context.Context, b *app.Base) {
	people, err := b.Store.People.All(ctx)
	switch {
	case err != nil:
		d.fail(sayCheckPeople, d.errorText(err), adviceLook)
	case len(people) == 0:
		d.warn(sayCheckPeople, sayNothingYet.In(d.sh.lang), sayBegin, d.retryFlags)
	default:
		d.ok(sayCheckPeople, sayPeople, len(people))
		d.console(people)
	}
}

var (
	sayCheckConsole = talk.Say{Zh: "网页", En: "console"}
	sayNobodySigns  = talk.Say{Zh: "没有人能登录：账户都没有密码", En: "nobody can sign in: no account has a password"}
	advicePassword  = talk.Say{Zh: "设置密码：patchbay user passwd %s%s", En: "Set one: patchbay user passwd %s%s"}
	saySignsIn      = talk.Say{Zh: "%d 人可以在 %s 登录", En: "%d can sign in at %s"}
	sayClear        = talk.Say{Zh: "密码会不加密地传到 %s", En: "passwords travel to %s in the clear"}
	adviceClear     = talk.Say{
		Zh: "设置 tls.cert 和 tls.key，或在前面放一个用 https 的代理并设置 public_url。",
		En: "Set tls.cert and tls.key, or put a proxy that speaks https in front and set public_url.",
	}
)

// console checks that people can sign in to the console, and that their passwords are encrypted in
// transit.
func (d *doctor) console(people []store.Person) {
	with := 0
	for _, p := range people {
		if canSignIn(p) {
			with++
		}
	}
	c := d.settings
	address := outsideURL(c)
	host, _, err := net.SplitHostPort(c.Listen)
	ip := net.ParseIP(host)
	here := err == nil && (host == "localhost" || ip != nil && ip.IsLoopback())
	switch {
	case with == 0:
		d.warn(sayCheckConsole, sayNobodySigns.In(d.sh.lang), advicePassword, quoteWord(people[0].Name), d.retryFlags)
	case !strings.HasPrefix(address, "https:") && c.TLS.Cert == "" && (!here || c.PublicURL != ""):
		d.warn(sayCheckConsole, sayClear.In(d.sh.lang, address), adviceClear)
	default:
		d.ok(sayCheckConsole, saySignsIn, with, address)
	}
}

var (
	adviceLook     = talk.Say{Zh: "查看服务日志。", En: "See the server's log."}
	sayCheckClock  = talk.Say{Zh: "时钟", En: "clock"}
	sayClockGood   = talk.Say{Zh: "%s", En: "%s"}
	sayClockBehind = talk.Say{Zh: "现在是 %s，比最近的记录还早", En: "it is %s, which is before the newest record"}
	adviceClock    = talk.Say{Zh: "请校准时间（NTP），否则密钥和绑定会过早或过晚失效。",
		En: "Set it (NTP), or keys and invitations end too early or too late."}
)

// clock checks that the clock has not gone back behind the latest record. Some seconds are
// tolerated, since several instances write.
func (d *doctor) clock(ctx context.Context, b *app.Base, now time.Time) {
	const forgiven = time.Minute
	newest, err := b.Store.Traces.Newest(ctx, "", now.AddDate(100, 0, 0), 1)
	shown := now.Format("2006-01-02 15:04:05 MST")
	switch {
	case err != nil:
		d.fail(sayCheckClock, d.errorText(err), adviceLook)
	case len(newest) > 0 && newest[0].At.After(now.Add(forgiven)):
		d.fail(sayCheckClock, sayClockBehind.In(d.sh.lang, shown), adviceClock)
	default:
		d.ok(sayCheckClock, sayClockGood, shown)
	}
}
