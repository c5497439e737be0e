package control

import (
	"context"
	"errors"
	"io"
	"time"

	"patchbay/internal/backup"
	"patchbay/internal/store"
	"patchbay/internal/talk"
)

// Instance is what the installation knows about itself.
type Instance struct {
	// Failing lists what keeps the server from its work, as /readyz tells it.
	Failing func(context.Context) []string
	// Storage tells what is wrong with the disk, as Failing does, or disk_low; empty:
	// nothing. It may be nil.
	Storage func() string
	// Drain sends the devices of this instance to the others, or takes them again; nil:
	// nobody can.
	Drain func(on bool)
	// Settings are all settings as a configuration file, without secrets.
	Settings func() string
	// Backup is what is backed up, and into which folder it is restored. Without a
	// folder there are no backups.
	Backup backup.Source
	// Secret is that of the installation if it is configured; empty: the one in the folder.
	Secret string
	// Started is when this instance began.
	Started time.Time
}

var (
	sayBackupElsewhere = talk.Say{Zh: "数据在 PostgreSQL 里，请用 pg_dump 备份和恢复它，并妥善保管 secret。",
		En: "The data is in PostgreSQL: back it up and restore it with pg_dump, and keep secret safe."}
	sayBackupBusy   = talk.Say{Zh: "正在处理另一个备份，请稍候。", En: "Another backup is being made or read; wait a moment."}
	sayNoBackup     = talk.Say{Zh: "这不是 Patchbay 的备份文件。", En: "This file is no backup of Patchbay."}
	sayBackupBroken = talk.Say{Zh: "备份文件已损坏，没有作任何改动。", En: "The backup is damaged; nothing was changed."}
	sayBackupNewer  = talk.Say{Zh: "备份来自更新版本的 Patchbay，请先升级。",
		En: "The backup is of a newer version of Patchbay; upgrade first."}
	sayBackupSecret = talk.Say{Zh: "备份里的凭据是用另一个密钥加密的。请配置当时的 secret（或放回当时的 secret.key），然后重试。",
		En: "The credentials in the backup were sealed with another key. Configure the secret it was made with, or put its secret.key into the data folder, and try again."}
	sayBackupSealed    = talk.Say{Zh: "备份是加密的：请给出它的口令。", En: "The backup is encrypted: give its passphrase."}
	sayPassphraseOther = talk.Say{Zh: "口令不对，没有作任何改动。", En: "The passphrase is wrong; nothing was changed."}
	sayPassphraseShort = talk.Say{Zh: "口令太短：至少 %d 个字符。",
		En: "The passphrase is too short: it has to have %d characters at least."}
	sayPassphraseLong = talk.Say{Zh: "口令太长：最多 %d 字节。", En: "The passphrase is too long: it may have %d bytes at most."}
	sayBackupLarge    = talk.Say{Zh: "备份文件太大。", En: "The backup is too large."}
)

// Status is how an instance is.
type Status struct {
	Version   string   `json:"version"`
	Database  string   `json:"database"` // sqlite or postgres
	Instance  string   `json:"instance"`
	Others    []string `json:"others"` // instances that this one knows of
	PublicURL string   `json:"public_url,omitempty"`
	Ready     bool     `json:"ready"`
	// Failing is what keeps it from its work, or why it is to have none: stopping, draining,
	// database, storage, disk_full, disk_errors or bus.
	Failing []string  `json:"failing"`
	Started time.Time `json:"started_at,omitzero"`
}

// Status tells how this instance is.
func (s *Service) Status(ctx context.Context, _ Caller, _ Empty) (Status, error) {
	out := Status{
		Version: s.Version, Database: s.Hub.Store.Dialect(), Instance: s.Hub.Bus.Instance, Others: s.Hub.Bus.Peers(),
		PublicURL: s.PublicURL, Failing: []string{}, Started: s.Instance.Started,
	}
	if s.Instance.Failing != nil {
		out.Failing = s.Instance.Failing(ctx)
	}
	out.Ready = len(out.Failing) == 0
	return out, nil
}

// Drain sends the devices of this instance to the others, and says that it is not ready, so
// that it can be stopped without anybody's noticing. Questions are answered nevertheless.
func (s *Service) Drain(ctx context.Context, c Caller, _ Empty) (Status, error) {
	return s.drain(ctx, c, true)
}

// Undrain takes devices again.
func (s *Service) Undrain(ctx context.Context, c Caller, _ Empty) (Status, error) {
	return s.drain(ctx, c, false)
}

func (s *Service) drain(ctx context.Context, c Caller, on bool) (Status, error) {
	if err := requireUnrestrictedAdmin(c); err != nil {
		return Status{}, err
	}
	if s.Instance.Drain != nil {
		s.Instance.Drain(on)
	}
	act := EventUndrained
	if on {
		act = EventDrained
	}
	s.RecordAdminEvent(ctx, c, act, s.Hub.Bus.Instance)
	return s.Status(ctx, c, Empty{})
}

// EffectiveConfig is the settings of this instance.
type EffectiveConfig struct {
	// Settings are a configuration file, without secrets.
	Settings string `json:"settings"`
}

// EffectiveConfig tells the settings of this instance.
func (s *Service) EffectiveConfig(_ context.Context, c Caller, _ Empty) (EffectiveConfig, error) {
	if err := admin(c); err != nil {
		return EffectiveConfig{}, err
	}
	if s.Instance.Settings == nil {
		return EffectiveConfig{}, nil
	}
	return EffectiveConfig{s.Instance.Settings()}, nil
}

// canBackUp reports whether the caller may make and restore backups here.
func (s *Service) canBackUp(c Caller) error {
	if err := requireUnrestrictedAdmin(c); err != nil { // a backup has everything in it, and decides about everything
		return err
	}
	if s.Instance.Backup.Folder == "" || s.Hub.Store.Dialect() != "sqlite" {
		return Fail(Conflict, sayBackupElsewhere)
	}
	return nil
}

// checkBackup lets the caller make or read a backup, if they may, and keeps others from that
// until release: each writes as much as the database has.
func (s *Service) checkBackup(c Caller) (release func(), err error) {
	if err := s.canBackUp(c); err != nil {
		return nil, err
	}
	select {
	case s.copying <- struct{}{}:
		return func() { <-s.copying }, nil
	default:
		return nil, Fail(TooMany, sayBackupBusy)
	}
}

// Backup writes a backup to what begin returns, which is asked once nothing can be in
// the way any more. Name is what the file is called. With a passphrase it is encrypted.
func (s *Service) Backup(ctx context.Context, c Caller, passphrase string, begin func(name string) io.Writer) error {
	release, err := s.checkBackup(c)
	if err != nil {
		return err
	}
	defer release()
	if err := backup.CheckPassphrase(passphrase); err != nil {
		return AboutBackup(err)
	}
	now := time.Now()
	name := backup.FileName(now, passphrase != "")
	s.RecordAdminEvent(ctx, c, EventBackupTaken, name)
	return backup.Write(ctx, &deferredWriter{begin: func() io.Writer { return begin(name) }}, passphrase,
		s.Instance.Backup, now)
}

// deferredWriter asks where to write when there is something to be written.
type deferredWriter struct {
	begin func() io.Writer
	w     io.Writer
}

func (l *deferredWriter) Write(b []byte) (int, error) {
	if l.w == nil {
		l.w = l.begin()
	}
	return l.w.Write(b)
}

// Restoring is the backup that the next start puts in place.
type Restoring struct {
	// Pending says that there is one.
	Pending bool      `json:"pending"`
	Version string    `json:"version,omitempty"` // of the program that wrote it
	At      time.Time `json:"at,omitzero"`       // when it was made
}

// Restoring tells what the next start restores.
func (s *Service) Restoring(_ context.Context, c Caller, _ Empty) (Restoring, error) {
	if err := s.canBackUp(c); err != nil {
		return Restoring{}, err
	}
	if m := backup.Staged(s.Instance.Backup.Folder); m != nil {
		return Restoring{true, m.Version, m.At}, nil
	}
	return Restoring{}, nil
}

// Restore checks a backup, and has the next start put it in place of what there is. The
// passphrase counts if the backup is encrypted.
func (s *Service) Restore(ctx context.Context, c Caller, passphrase string, file io.Reader) (Restoring, error) {
	release, err := s.checkBackup(c)
	if err != nil {
		return Restoring{}, err
	}
	defer release()
	m, err := backup.Stage(ctx, file, passphrase, s.Instance.Backup.Folder, s.Instance.Secret)
	if err != nil {
		return Restoring{}, AboutBackup(err)
	}
	s.RecordAdminEvent(ctx, c, EventBackupStaged, backup.FileName(m.At, passphrase != ""))
	return Restoring{true, m.Version, m.At}, nil
}

// AboutBackup is an error of a backup for whoever gave it, if it is the backup's fault.
func AboutBackup(err error) error {
	for of, e := range map[error]*Error{
		backup.ErrNotBackup: Fail(Invalid, sayNoBackup), backup.ErrBroken: Fail(Invalid, sayBackupBroken),
		store.ErrDamaged: Fail(Invalid, sayBackupBroken),
		store.ErrNewer:   Fail(Invalid, sayBackupNewer), backup.ErrSecret: Fail(Conflict, sayBackupSecret),
		backup.ErrTooLarge:  Fail(TooLarge, sayBackupLarge),
		store.ErrNoSnapshot: Fail(Conflict, sayBackupElsewhere),
		backup.ErrEncrypted: Fail(Invalid, sayBackupSealed), backup.ErrPassphrase: Fail(Invalid, sayPassphraseOther),
		backup.ErrShort: Fail(Invalid, sayPassphraseShort, backup.MinPassphrase),
		backup.ErrLong:  Fail(Invalid, sayPassphraseLong, backup.MaxPassphrase),
	} {
		if errors.Is(err, of) {
			e.Cause = err
			return e
		}
	}
	return err
}

// CancelRestore forgets the backup that the next start would put in place.
func (s *Service) CancelRestore(ctx context.Context, c Caller, _ Empty) (Restoring, error) {
	release, err := s.checkBackup(c)
	if err != nil {
		return Restoring{}, err
	}
	defer release()
	if err := backup.Cancel(s.Instance.Backup.Folder); err != nil {
		return Restoring{}, err
	}
	s.RecordAdminEvent(ctx, c, EventBackupCancelled, "")
	return Restoring{}, nil
}
