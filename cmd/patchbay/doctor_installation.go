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
	"patchbay/internal/i18n"
	"patchbay/internal/seal"
	"patchbay/internal/store"
)

const (
	msgCheckFolder = i18n.Message("data folder")
	msgWritable    = i18n.Message("%s can be written")
	msgMissing     = i18n.Message("%s does not exist")
)

// checkDataFolder checks that the data directory is writable.
func (d *doctor) checkDataFolder() {
	folder := d.settings.Data
	probe, err := os.CreateTemp(folder, ".doctor-*")
	if errors.Is(err, fs.ErrNotExist) {
		d.warn(msgCheckFolder.With(), msgMissing.In(d.sh.lang, folder), msgBegin, d.retryFlags)
		return
	}
	if err != nil {
		d.fail(msgCheckFolder.With(), d.errorText(err),
			i18n.Message("Let the account that runs the server write there."))
		return
	}
	defer os.Remove(probe.Name())
	if err := errors.Join(probe.Sync(), probe.Close()); err != nil {
		d.fail(msgCheckFolder.With(), d.errorText(err), i18n.Message("Look after the disk."))
		return
	}
	d.ok(msgCheckFolder.With(), msgWritable, folder)
}

const (
	msgCheckSpace = i18n.Message("free space")
	msgFree       = i18n.Message("%.1f GiB")
	adviceSpace   = i18n.Message("Make room, or writes will fail.")
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
		d.fail(msgCheckSpace.With(), msgFree.In(d.sh.lang, gib), adviceSpace)
	case free < store.LittleSpace:
		d.warn(msgCheckSpace.With(), msgFree.In(d.sh.lang, gib), adviceSpace)
	default:
		d.ok(msgCheckSpace.With(), msgFree, gib)
	}
}

const (
	msgCheckKey     = i18n.Message("secret key")
	msgKeySettings  = i18n.Message("comes from the settings")
	msgKeyReadable  = i18n.Message("%s can be read")
	msgKeyToCome    = i18n.Message("is made at the first use")
	msgKeyOpen      = i18n.Message("other accounts can read %s")
	adviceKeyRights = i18n.Message("Run: chmod 600 %s")
	adviceKey       = i18n.Message("Restore it from a backup, or set the bots' keys again.")
)

// key checks that the key that encrypts the bots' credentials is readable.
func (d *doctor) key() {
	if d.settings.Secret != "" {
		if _, err := seal.New(d.settings.Secret); err != nil {
			d.fail(msgCheckKey.With(), d.errorText(err), adviceKey)
			return
		}
		d.ok(msgCheckKey.With(), msgKeySettings)
		return
	}
	path := filepath.Join(d.settings.Data, seal.FileName)
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist) && !hasData(d.settings):
		d.ok(msgCheckKey.With(), msgKeyToCome)
	case err != nil:
		d.fail(msgCheckKey.With(), d.errorText(err), adviceKey)
	case runtime.GOOS != "windows" && info.Mode().Perm()&0o077 != 0:
		d.warn(msgCheckKey.With(), msgKeyOpen.In(d.sh.lang, path), adviceKeyRights, path)
	default:
		if _, err := seal.Open(d.settings.Data); err != nil {
			d.fail(msgCheckKey.With(), d.errorText(err), adviceKey)
			return
		}
		d.ok(msgCheckKey.With(), msgKeyReadable, path)
	}
}

const (
	msgOldSecretHere = i18n.Message("the one that this instance starts with was replaced and holds until %s")
	adviceOldSecret  = i18n.Message("Put the new one into the settings as secret (patchbay secret show --reveal%s), and restart.")
	msgHalfRotated   = i18n.Message("a change of the secret was begun on %s and has not ended")
	adviceRotate     = i18n.Message("Run: patchbay secret rotate%s")
	msgOldHolds      = i18n.Message("the old one holds until %s")
)

// secrets checks whether a rotation of the secret is unfinished. With a single secret [doctor.key]
// has reported everything.
func (d *doctor) secrets(b *app.Base) {
	list := b.Secrets.State()
	if at := b.Secrets.Pending(); !at.IsZero() {
		d.warn(msgCheckKey.With(), msgHalfRotated.In(d.sh.lang, d.sh.when(at)), adviceRotate, d.retryFlags)
		return
	}
	for _, x := range list[1:] {
		if x.Own && b.Config.Secret != "" {
			d.warn(msgCheckKey.With(), msgOldSecretHere.In(d.sh.lang, d.sh.when(x.Until)), adviceOldSecret,
				d.retryFlags)
			return
		}
	}
	if len(list) > 1 {
		d.ok(msgCheckKey.With(), msgOldHolds, d.sh.when(list[1].Until))
	}
}

const (
	msgCheckCert   = i18n.Message("certificate")
	msgCertUntil   = i18n.Message("is good until %s")
	msgCertExpired = i18n.Message("expired on %s")
	adviceCert     = i18n.Message("Renew it and restart the server.")
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
		d.fail(msgCheckCert.With(), d.errorText(err), i18n.Message("See whether tls.cert and tls.key are right."))
		return
	}
	leaf, err := x509.ParseCertificate(pair.Certificate[0])
	if err != nil {
		d.fail(msgCheckCert.With(), d.errorText(err), adviceCert)
		return
	}
	until := d.sh.when(leaf.NotAfter)
	switch {
	case now.After(leaf.NotAfter):
		d.fail(msgCheckCert.With(), msgCertExpired.In(d.sh.lang, until), adviceCert)
	case now.Add(expiryWarning).After(leaf.NotAfter):
		d.warn(msgCheckCert.With(), msgCertUntil.In(d.sh.lang, until), adviceCert)
	default:
		d.ok(msgCheckCert.With(), msgCertUntil, until)
	}
}

const msgDatabaseGood = i18n.Message("%s answers and is up to date (%s)")

// wholeLimit is the timeout for checking the whole database file: enough for some GB.
const wholeLimit = 30 * time.Second

const (
	msgFileDamaged = i18n.Message("the database is damaged: %s (%v)")
	adviceDamaged  = i18n.Message("Stop the server, keep a copy of the file, and restore a backup: patchbay backup restore FILE%s. Without one, .recover of sqlite3 may save a part.")
	msgFileLong    = i18n.Message("answers; its file is so large that %v were not enough to see whether it is whole")
	adviceLong     = i18n.Message("Stop the server, and run: sqlite3 %s \"PRAGMA integrity_check\"")
)

// reportDamaged reports a damaged database file, of SQLite or PostgreSQL.
func (d *doctor) reportDamaged(err error) {
	cause := err
	for e := errors.Unwrap(cause); e != nil; e = errors.Unwrap(e) { // the advice is below
		cause = e
	}
	d.fail(msgCheckDatabase.With(), msgFileDamaged.In(d.sh.lang, d.file(), singleLine(cause.Error())), adviceDamaged,
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
		d.fail(msgCheckDatabase.With(), d.errorText(err), i18n.Message("See whether it runs."))
		return
	}
	if err := b.Store.TryWriting(ctx); err != nil {
		d.fail(msgCheckDatabase.With(), d.errorText(err), adviceSpace)
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
		d.warn(msgCheckDatabase.With(), msgFileLong.In(d.sh.lang, wholeLimit), adviceLong, quoteWord(d.file()))
		return
	case err != nil:
		d.fail(msgCheckDatabase.With(), d.errorText(err), adviceLook)
		return
	}
	d.ok(msgCheckDatabase.With(), msgDatabaseGood, b.Store.Dialect(), answered)
}

const (
	msgCheckPeople = i18n.Message("people")
	msgPeople      = i18n.Message("%d")
)

func (d *doctor) people(ctx context.Context, b *app.Base) {
	people, err := b.Store.People.All(ctx)
	switch {
	case err != nil:
		d.fail(msgCheckPeople.With(), d.errorText(err), adviceLook)
	case len(people) == 0:
		d.warn(msgCheckPeople.With(), msgNothingYet.In(d.sh.lang), msgBegin, d.retryFlags)
	default:
		d.ok(msgCheckPeople.With(), msgPeople, len(people))
		d.console(people)
	}
}

const (
	msgCheckConsole = i18n.Message("console")
	msgNobodySigns  = i18n.Message("nobody can sign in: no account has a password")
	advicePassword  = i18n.Message("Set one: patchbay user passwd %s%s")
	msgSignsIn      = i18n.Message("%d can sign in at %s")
	msgClear        = i18n.Message("passwords travel to %s in the clear")
	adviceClear     = i18n.Message("Set tls.cert and tls.key, or put a proxy that speaks https in front and set public_url.")
)

// console checks that people can sign in to the console, and that their passwords are encrypted in
// transit.
func (d *doctor) console(people []store.Person) {
	with := 0
	for _, p := range people {
		if p.Password != "" {
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
		d.warn(msgCheckConsole.With(), msgNobodySigns.In(d.sh.lang), advicePassword, quoteWord(people[0].Name),
			d.retryFlags)
	case !strings.HasPrefix(address, "https:") && c.TLS.Cert == "" && (!here || c.PublicURL != ""):
		d.warn(msgCheckConsole.With(), msgClear.In(d.sh.lang, address), adviceClear)
	default:
		d.ok(msgCheckConsole.With(), msgSignsIn, with, address)
	}
}

const (
	adviceLook     = i18n.Message("See the server's log.")
	msgCheckClock  = i18n.Message("clock")
	msgClockGood   = i18n.Message("%s")
	msgClockBehind = i18n.Message("it is %s, which is before the newest record")
	adviceClock    = i18n.Message("Set it (NTP), or keys and invitations end too early or too late.")
)

// clock checks that the clock has not gone back behind the latest record. Some seconds are
// tolerated, since several instances write.
func (d *doctor) clock(ctx context.Context, b *app.Base, now time.Time) {
	const forgiven = time.Minute
	newest, err := b.Store.Traces.Newest(ctx, "", now.AddDate(100, 0, 0), 1)
	shown := now.Format("2006-01-02 15:04:05 MST")
	switch {
	case err != nil:
		d.fail(msgCheckClock.With(), d.errorText(err), adviceLook)
	case len(newest) > 0 && newest[0].At.After(now.Add(forgiven)):
		d.fail(msgCheckClock.With(), msgClockBehind.In(d.sh.lang, shown), adviceClock)
	default:
		d.ok(msgCheckClock.With(), msgClockGood, shown)
	}
}
