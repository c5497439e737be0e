package app

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"time"

	"patchbay/internal/api"
	"patchbay/internal/backup"
	"patchbay/internal/check"
	"patchbay/internal/config"
	"patchbay/internal/control"
	"patchbay/internal/fetch"
	"patchbay/internal/i18n"
	"patchbay/internal/seal"
	"patchbay/internal/service"
	"patchbay/internal/store"
	"patchbay/internal/upgrade"
)

// upgradeFolder has the backups that are made before migrations, inside the data folder.
const upgradeFolder = "before-upgrade"

// partSuffix ends the names of backups that are being written.
const partSuffix = ".part"

const msgNoRoomFirst = i18n.Message("the database is of an older version, and a backup of it is made before it is changed. That needs %.1f GiB in %s, and only %.1f GiB are free: make room, or make a backup elsewhere and set upgrade.backups to 0")

// backUpFirst makes a backup of a SQLite database that is about to be migrated, and removes the
// oldest ones. Own is the key of the installation; nil: there is none here. If the data was sealed
// the error is errNoSecret, as a start that is refused must leave the database to the program that
// ran before.
func backUpFirst(ctx context.Context, c *config.Config, own *seal.Key, p store.Pending, log *slog.Logger) error {
	about := []any{"from", p.From, "to", p.To, "written_by", p.Version}
	if own == nil {
		sealed, err := p.HasSecrets(ctx)
		if err == nil && sealed {
			err = errNoSecret
		}
		return err // without an error: the installation never came to its first start
	}
	switch {
	case p.DB.Dialect() != "sqlite":
		log.Warn("the database is brought up to date; there is no way back but a backup by pg_dump", about...)
		return nil
	case c.Upgrade.Backups == 0:
		log.Warn("the database is brought up to date; no backup is made, as upgrade.backups is 0", about...)
		return nil
	}
	if err := removeLeftovers(c.Data); err != nil {
		log.Warn("what backups have left over cannot be removed", "folder", c.Data, "error", err)
	}
	if need, free, ok := roomForBackup(c.Data, p.DB.Size()); !ok {
		return msgNoRoomFirst.Errorf(gibi(need), c.Data, gibi(free))
	}
	folder := filepath.Join(c.Data, upgradeFolder)
	file, err := writeBackup(ctx, folder, own, c.Data, p)
	if err != nil {
		return i18n.Message("the database is of an older version, and the backup before it is changed failed: %v").Errorf(err)
	}
	log.Info("the database is brought up to date; a backup from before was made", append(about, "file", file)...)
	if err := keepNewest(folder, c.Upgrade.Backups, filepath.Base(file)); err != nil {
		log.Warn("old backups cannot be removed", "folder", folder, "error", err)
	}
	return nil
}

func gibi(n uint64) float64 { return float64(n) / (1 << 30) }

// roomForBackup reports whether there is room for a backup of a database: for its copy, and for the
// archive, which is no larger.
func roomForBackup(folder string, size int64) (need, free uint64, ok bool) {
	need = 2*uint64(size) + store.NoSpace //nolint:gosec // a size is not negative
	free, known := store.FreeSpace(folder)
	return need, free, !known || free >= need
}

// unsafeName matches what a version must not bring into the name of a file.
var unsafeName = regexp.MustCompile(`[^A-Za-z0-9._+-]+`)

// writeBackup writes a backup to a new file of the folder, named by the time and the version.
func writeBackup(ctx context.Context, folder string, own *seal.Key, data string,
	p store.Pending) (file string, err error) {
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return "", err
	}
	version := unsafeName.ReplaceAllString(p.Version, "-")
	if version == "" {
		version = "unknown"
	}
	now := time.Now()
	file = filepath.Join(folder, now.UTC().Format("20060102-150405")+"-"+version+".tar.gz")
	f, err := os.OpenFile(file+partSuffix, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return "", err
	}
	store.LockFile(f) //nolint:errcheck // where there are no locks, nobody removes it
	source := backup.Source{Store: p.DB, Box: seal.NewBox(own), Folder: data, Version: p.Version}
	err = backup.Write(ctx, f, "", source, now)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return "", errors.Join(err, os.Remove(file+partSuffix))
	}
	return file, os.Rename(file+partSuffix, file)
}

// backupName matches the names of backups that writeBackup writes.
var backupName = regexp.MustCompile(`^\d{8}-\d{6}-.*\.tar\.gz$`)

// keepNewest removes all backups of the folder but the newest ones. The one that was just written
// is one of them whatever its name says: clocks of small boards begin in the past. Files with other
// names are not ours.
func keepNewest(folder string, keep int, written string) error {
	list, err := os.ReadDir(folder) // sorted by name, and so by time
	if err != nil {
		return err
	}
	keep--
	for _, e := range slices.Backward(list) {
		switch {
		case e.Name() == written, !backupName.MatchString(e.Name()):
		case keep > 0:
			keep--
		default:
			err = errors.Join(err, os.Remove(filepath.Join(folder, e.Name())))
		}
	}
	return err
}

const (
	msgCheckUpgrade = i18n.Message("upgrade")
	msgRoom         = i18n.Message("there is room for the backup before the next upgrade; %d are kept in %s")
	msgNoRoom       = i18n.Message("the backup before an upgrade needs %.1f GiB, and %.1f GiB are free")
	msgNoBackups    = i18n.Message("no backup is made before an upgrade, as upgrade.backups is 0")

	adviceRoom    = i18n.Message("Make room, or an upgrade will refuse to start.")
	adviceBackups = i18n.Message("Make one yourself first: patchbay backup create%s")

	msgVersions    = i18n.Message("the server is of version %s, and this program of %s")
	adviceVersions = i18n.Message("Restart the server, so that it is the installed program that runs.")

	msgCheckService  = i18n.Message("service")
	msgServiceRuns   = i18n.Message("%s runs, and starts with the machine")
	msgServiceNoBoot = i18n.Message("%s runs, but does not start with the machine")
	msgServiceDown   = i18n.Message("%s does not run: %s")

	adviceBoot = i18n.Message("Let it: systemctl enable patchbay")
	adviceLogs = i18n.Message("See why: patchbay service logs")
)

// checkUpgrade checks that a backup can be made before the next upgrade.
func (e *examination) checkUpgrade() {
	info, err := os.Stat(filepath.Join(e.settings.Data, store.FileName))
	if e.settings.Database.URL != "" || err != nil {
		return
	}
	name, keep := msgCheckUpgrade.With(), e.settings.Upgrade.Backups
	if keep == 0 {
		e.Warn(name, msgNoBackups.With(), adviceBackups.With(e.Flags))
		return
	}
	if need, free, ok := roomForBackup(e.settings.Data, info.Size()); !ok {
		e.Warn(name, msgNoRoom.With(gibi(need), gibi(free)), adviceRoom.With())
		return
	}
	list, err := os.ReadDir(filepath.Join(e.settings.Data, upgradeFolder))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		e.Error(name, err, adviceDisk.With())
		return
	}
	e.OK(name, msgRoom.With(len(list), upgradeFolder))
}

// checkVersion compares the server that runs with this program: an upgrade is not done before the
// server was restarted.
func (e *examination) checkVersion(ctx context.Context) {
	if e.server == nil {
		return
	}
	s, err := api.Status.Call(ctx, e.server, control.Empty{})
	if err == nil && s.Version != e.base.Version {
		e.Warn(msgCheckUpgrade.With(), msgVersions.With(s.Version, e.base.Version), adviceVersions.With())
	}
}

// checkService reports the state of the service of this machine, or else of this person, if one is
// installed.
func (e *examination) checkService(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	h := service.ThisHost()
	for _, user := range []bool{false, true} {
		s, err := h.State(ctx, user)
		if err != nil || !s.Installed {
			continue // without a service manager there is nothing to report
		}
		reportService(e.Report, s)
		return
	}
}

func reportService(r *check.Report, s service.State) {
	name := msgCheckService.With()
	switch {
	case !s.Running:
		r.Warn(name, msgServiceDown.With(s.File, s.Detail), adviceLogs.With())
	case !s.AtBoot:
		r.Warn(name, msgServiceNoBoot.With(s.File), adviceBoot.With())
	default:
		r.OK(name, msgServiceRuns.With(s.File))
	}
}

// LatestRelease returns what the feed of releases says. Address replaces upgrade.feed if it is not
// empty. The connection is guarded as those to other untrusted addresses are.
func LatestRelease(ctx context.Context, c *config.Config, address string) (upgrade.Release, error) {
	if address == "" {
		address = c.Upgrade.Feed
	}
	nets, err := config.ParsePrefixes(c.Fetch.AllowNets)
	if err != nil {
		return upgrade.Release{}, err
	}
	guarded := fetch.New(fetch.Options{AllowNets: nets, PrivateHosts: c.Fetch.Private})
	return upgrade.Latest(ctx, address, guarded.Dial)
}
