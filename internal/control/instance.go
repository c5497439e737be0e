package control

import (
	"context"
	"errors"
	"io"
	"time"

	"patchbay/internal/backup"
	"patchbay/internal/i18n"
	"patchbay/internal/problem"
	"patchbay/internal/store"
)

// Instance describes the running server.
type Instance struct {
	// Failing lists why the server is not ready, as /readyz does.
	Failing func(context.Context) []string
	// Storage returns the problem of the disk, as Failing does, or disk_low; empty if there is
	// none. It may be nil.
	Storage func() string
	// Drain moves the devices of this instance to the others, or accepts them again; nil if this is
	// not possible.
	Drain func(on bool)
	// Settings returns all settings as a configuration file, without secrets.
	Settings func() string
	// Backup describes what is backed up, and the folder that it is restored to. Without a folder
	// there are no backups.
	Backup backup.Source
	// Secret is the configured secret of the installation; empty if it is in the folder.
	Secret string
	// Links returns the connections to relays; nil if there are none.
	Links func() []RelayLink
	// Started is the start time of this instance.
	Started time.Time
	// Certificates returns the state of the certificates that the server gets by itself; nil if
	// there are none.
	Certificates func() []ServerCertificate
}

// ServerCertificate is the state of a certificate that the server gets by itself.
type ServerCertificate struct {
	Name string `json:"name"`
	// Expires and Renews are missing before there is one. Issuer is the common name of its issuer,
	// and Root that of its chain's root.
	Expires time.Time `json:"expires_at,omitzero"`
	Renews  time.Time `json:"renews_at,omitzero"`
	Issuer  string    `json:"issuer,omitempty"`
	Root    string    `json:"root,omitempty"`
	// Failures counts the failed attempts since then. Problem, for administrators only, says why
	// the last one failed, and Retry when the next one is made.
	Failures int       `json:"failures,omitempty"`
	Problem  string    `json:"problem,omitempty"`
	Retry    time.Time `json:"retry_at,omitzero"`
	// Reason is what Problem says, before its translation.
	Reason i18n.Text `json:"-"`
}

const (
	msgBackupElsewhere = i18n.Message("The data is in PostgreSQL: back it up and restore it with pg_dump, and keep secret safe.")
	msgBackupBusy      = i18n.Message("Another backup is being made or read; wait a moment.")
	msgNoBackup        = i18n.Message("This file is no backup of Patchbay.")
	msgBackupBroken    = i18n.Message("The backup is damaged; nothing was changed.")
	msgBackupNewer     = i18n.Message("The backup is of a newer version of Patchbay; upgrade first.")
	msgBackupSecret    = i18n.Message("The credentials in the backup were sealed with another key. Configure the secret it was made with, or put its secret.key into the data folder, and try again.")
	msgBackupSealed    = i18n.Message("The backup is encrypted: give its passphrase.")
	msgPassphraseOther = i18n.Message("The passphrase is wrong; nothing was changed.")
	msgPassphraseShort = i18n.Message("The passphrase is too short: it has to have %d characters at least.")
	msgPassphraseLong  = i18n.Message("The passphrase is too long: it may have %d bytes at most.")
	msgBackupLarge     = i18n.Message("The backup is too large.")
)

// Status is the state of an instance.
type Status struct {
	Version   string   `json:"version"`
	Database  string   `json:"database"` // sqlite or postgres
	Instance  string   `json:"instance"`
	Others    []string `json:"others"` // other known instances
	PublicURL string   `json:"public_url,omitempty"`
	Ready     bool     `json:"ready"`
	// Failing is why the instance is not ready: stopping, draining, database, storage, disk_full,
	// disk_errors, bus, or not_running if no server runs on the data.
	Failing []string  `json:"failing"`
	Started time.Time `json:"started_at,omitzero"`
	// Certificates are those that the server gets by itself.
	Certificates []ServerCertificate `json:"certificates,omitempty"`
	// Links are the connections to the relays through which the instance is reached.
	Links []RelayLink `json:"links,omitempty"`
}

// RelayLink is the connection to a relay.
type RelayLink struct {
	Relay string `json:"relay"`
	// Names are the host names that lead here.
	Names     []string  `json:"names"`
	Connected bool      `json:"connected"`
	Since     time.Time `json:"since,omitzero"`
	// RoundTrip is the time to the relay and back in milliseconds; 0: not measured yet.
	RoundTrip float64 `json:"round_trip_ms,omitempty"`
	Streams   int     `json:"streams"` // open connections of clients
	// Problem is why there is no connection, since FailedAt.
	Problem string    `json:"problem,omitempty"`
	Failed  time.Time `json:"failed_at,omitzero"`
	// Cause is what Problem says in the language of the caller.
	Cause error `json:"-"`
}

// Status returns the state of this instance.
func (s *Service) Status(ctx context.Context, c Caller, _ Empty) (Status, error) {
	out := Status{
		Version: s.Version, Database: s.Hub.Store.Dialect(), Instance: s.Hub.Bus.Instance, Others: s.Hub.Bus.Peers(),
		PublicURL: s.PublicURL, Failing: []string{}, Started: s.Instance.Started,
	}
	if s.Instance.Failing != nil {
		out.Failing = s.Instance.Failing(ctx)
	}
	out.Ready = len(out.Failing) == 0
	if s.Instance.Certificates != nil {
		out.Certificates = s.Instance.Certificates()
	}
	for i := range out.Certificates {
		if at := &out.Certificates[i]; c.Admin && !at.Reason.IsZero() {
			at.Problem = at.Reason.In(c.Lang)
		}
	}
	if s.Instance.Links != nil {
		out.Links = s.Instance.Links()
	}
	for i, l := range out.Links {
		if l.Cause != nil {
			out.Links[i].Problem = i18n.Localize(l.Cause, c.Lang)
		}
	}
	return out, nil
}

// Drain moves the devices of this instance to the others and makes it not ready, so that it can be
// stopped without an interruption. It continues to answer questions.
func (s *Service) Drain(ctx context.Context, c Caller, _ Empty) (Status, error) {
	return s.drain(ctx, c, true)
}

// Undrain accepts devices again.
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

// EffectiveConfig has the settings of this instance.
type EffectiveConfig struct {
	// Settings is a configuration file, without secrets.
	Settings string `json:"settings"`
}

// EffectiveConfig returns the settings of this instance.
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
	if err := requireUnrestrictedAdmin(c); err != nil { // a backup contains everything, and replaces everything
		return err
	}
	if s.Instance.Backup.Folder == "" || s.Hub.Store.Dialect() != "sqlite" {
		return problem.New(problem.Conflict, msgBackupElsewhere)
	}
	return nil
}

// checkBackup checks that the caller may make or read a backup, and excludes others until release:
// each backup writes as much as the database has.
func (s *Service) checkBackup(c Caller) (release func(), err error) {
	if err := s.canBackUp(c); err != nil {
		return nil, err
	}
	select {
	case s.copying <- struct{}{}:
		return func() { <-s.copying }, nil
	default:
		return nil, problem.New(problem.RateLimited, msgBackupBusy)
	}
}

// Backup writes a backup to what begin returns, which is called when nothing can fail before the
// first byte. Name is the file name. With a passphrase the backup is encrypted.
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

// deferredWriter opens its writer at the first write.
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

// Restoring is the backup that the next start restores.
type Restoring struct {
	// Pending reports whether there is one.
	Pending bool      `json:"pending"`
	Version string    `json:"version,omitempty"` // of the program that wrote it
	At      time.Time `json:"at,omitzero"`       // when it was made
}

// Restoring returns the backup that the next start restores.
func (s *Service) Restoring(_ context.Context, c Caller, _ Empty) (Restoring, error) {
	if err := s.canBackUp(c); err != nil {
		return Restoring{}, err
	}
	if m := backup.Staged(s.Instance.Backup.Folder); m != nil {
		return Restoring{true, m.Version, m.At}, nil
	}
	return Restoring{}, nil
}

// Restore checks a backup and prepares it for the next start. The passphrase is used if the backup
// is encrypted.
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

// AboutBackup converts an error of a backup file into a [problem.Error].
func AboutBackup(err error) error {
	for of, e := range map[error]*problem.Error{
		backup.ErrNotBackup:  problem.New(problem.Invalid, msgNoBackup),
		backup.ErrBroken:     problem.New(problem.Invalid, msgBackupBroken),
		store.ErrDamaged:     problem.New(problem.Invalid, msgBackupBroken),
		store.ErrNewer:       problem.New(problem.Invalid, msgBackupNewer),
		backup.ErrSecret:     problem.New(problem.Conflict, msgBackupSecret),
		backup.ErrTooLarge:   problem.New(problem.TooLarge, msgBackupLarge),
		store.ErrNoSnapshot:  problem.New(problem.Conflict, msgBackupElsewhere),
		backup.ErrEncrypted:  problem.New(problem.Invalid, msgBackupSealed),
		backup.ErrPassphrase: problem.New(problem.Invalid, msgPassphraseOther),
		backup.ErrShort:      problem.New(problem.Invalid, msgPassphraseShort, backup.MinPassphrase),
		backup.ErrLong:       problem.New(problem.Invalid, msgPassphraseLong, backup.MaxPassphrase),
	} {
		if errors.Is(err, of) {
			e.Cause = err
			return e
		}
	}
	return err
}

// CancelRestore cancels the prepared restore.
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
