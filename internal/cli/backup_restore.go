package cli

import (
	"bufio"
	"context"
	"io"
	"os"
	"path/filepath"

	"patchbay/internal/backup"
	"patchbay/internal/config"
	"patchbay/internal/control"
	"patchbay/internal/i18n"
)

type backupRestoreCmd struct {
	File           string `arg:"" help:"Backup file from backup create or from the console."`
	PassphraseFile string `help:"File that contains the passphrase of the backup." placeholder:"FILE"`
	targetFlags    `embed:""`
}

// Help returns the command's detailed help with examples.
func (backupRestoreCmd) Help() string {
	return `The backup is checked first. The next "patchbay serve" replaces the current data with it, and keeps the old data in a folder next to it. Until then nothing changes: restart a running server.

The passphrase of an encrypted backup is read from --passphrase-file, PATCHBAY_BACKUP_PASSPHRASE or the terminal.

Examples:

    patchbay backup restore patchbay-20261122-093000.tar.gz
    patchbay backup restore patchbay.tar.gz --data /var/lib/patchbay`
}

const (
	msgBackupStaged   = i18n.Message("The backup is valid (%s, by Patchbay %s). The next start of patchbay serve%s restores it; the current data is kept in %s, in before-restore-….")
	msgBackupUpload   = i18n.Message("The backup is valid (%s, by Patchbay %s). The next start of the server restores it.")
	msgBackupPostgres = i18n.Message("the data is in PostgreSQL: back it up with pg_dump, and keep secret")
)

// Run checks the backup and schedules it to be restored at the next start.
func (c *backupRestoreCmd) Run(ctx context.Context, sh *shell) error {
	f, err := os.Open(c.File)
	if err != nil {
		return err
	}
	defer f.Close()
	file := bufio.NewReader(f)
	passphrase := ""
	if backup.Encrypted(file) {
		if passphrase, err = sh.passphrase(ctx, c.PassphraseFile); err != nil {
			return err
		}
	}
	var settings *config.Config
	var staged control.Restoring
	begun := false
	err = c.connect(ctx, sh, func(at *conn) (err error) {
		begun, settings = true, at.settings
		staged, err = at.Restore(ctx, passphrase, file)
		return err
	})
	if err != nil && !begun { // the data cannot be opened: that is what backups are for
		settings, staged, err = c.stage(ctx, sh, passphrase, file)
	}
	if err != nil {
		return err
	}
	result := map[string]any{"file": c.File, "made_at": staged.At, "version": staged.Version}
	if settings == nil {
		return sh.result(result, func() { sh.say(msgBackupUpload, sh.when(staged.At), staged.Version) })
	}
	result["pending"] = filepath.Join(settings.Data, "restore.pending")
	return sh.result(result, func() {
		sh.say(msgBackupStaged, sh.when(staged.At), staged.Version, c.retryFlags(), settings.Data)
	})
}

// stage schedules the backup for a data folder whose database is missing or damaged.
func (c *backupRestoreCmd) stage(ctx context.Context, sh *shell, passphrase string,
	file io.Reader) (*config.Config, control.Restoring, error) {
	var none control.Restoring
	if named, err := c.named(sh); err != nil || named != nil {
		return nil, none, err
	}
	settings, err := c.load(sh)
	if err != nil {
		return nil, none, err
	}
	if settings.Database.URL != "" {
		return nil, none, msgBackupPostgres.Errorf()
	}
	m, err := backup.Stage(ctx, file, passphrase, settings.Data, settings.Secret)
	if err != nil {
		return nil, none, sh.explainBackupError(err)
	}
	return settings, control.Restoring{Pending: true, Version: m.Version, At: m.At}, nil
}
