package main

import (
	"bufio"
	"context"
	"errors"
	"os"
	"path/filepath"

	"patchbay/internal/backup"
	"patchbay/internal/i18n"
)

type backupRestoreCmd struct {
	File           string `arg:"" help:"The file that backup create, or the console, has written."`
	PassphraseFile string `help:"File that has the passphrase of the backup." placeholder:"FILE"`
	dataFlags      `embed:""`
}

// Help returns the command's detailed help with examples.
func (backupRestoreCmd) Help() string {
	return `The backup is checked first. Then the next "patchbay serve" puts it in the place of what is there, which is kept in a folder beside it. Until then nothing changes: restart a server that runs.

If it is encrypted its passphrase is asked for in the terminal, unless --passphrase-file or PATCHBAY_BACKUP_PASSPHRASE has it.

Examples:

    patchbay backup restore patchbay-20261122-093000.tar.gz
    patchbay backup restore patchbay.tar.gz --data /var/lib/patchbay`
}

const msgBackupStaged = i18n.Message("The backup is good (%s, by Patchbay %s). The next start of patchbay serve%s restores it; what is there now is kept in %s, in before-restore-….")

// Run checks the backup and schedules it to be restored at the next start.
func (c *backupRestoreCmd) Run(ctx context.Context, sh *shell) error {
	settings, err := c.load(sh)
	if err != nil {
		return err
	}
	if settings.Database.URL != "" {
		return errors.New(msgBackupPostgres.In(sh.lang))
	}
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
	m, err := backup.Stage(ctx, file, passphrase, settings.Data, settings.Secret)
	if err != nil {
		return sh.explainBackupError(err)
	}
	return sh.result(map[string]any{"file": c.File, "made_at": m.At, "version": m.Version,
		"pending": filepath.Join(settings.Data, "restore.pending")}, func() {
		sh.say(msgBackupStaged, sh.when(m.At), m.Version, c.retryFlags(), settings.Data)
	})
}
