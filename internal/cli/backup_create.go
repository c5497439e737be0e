package cli

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"time"

	"patchbay/internal/backup"
	"patchbay/internal/i18n"
)

type backupCreateCmd struct {
	File           string `arg:"" optional:"" help:"File to write; default: patchbay-DATE-TIME.tar.gz in the current folder. An existing file is not overwritten."`
	Encrypt        bool   `help:"Encrypt the file with a passphrase from --passphrase-file, PATCHBAY_BACKUP_PASSPHRASE or the terminal."`
	PassphraseFile string `help:"File that contains the passphrase of the backup." placeholder:"FILE"`
	targetFlags    `embed:""`
}

// Help returns the command's detailed help with examples.
func (backupCreateCmd) Help() string {
	return `The file contains the database and the key that decrypts its credentials. Unless it is encrypted, anyone who has the file can read all data. A running server is not interrupted.

The passphrase is read from a file, from PATCHBAY_BACKUP_PASSPHRASE, or from the terminal. In the first two cases the backup is encrypted even without --encrypt.

Examples:

    patchbay backup create
    patchbay backup create /mnt/backups/patchbay.tar.gz
    patchbay backup create --encrypt
    patchbay backup create --encrypt --passphrase-file /run/secrets/backup`
}

const (
	msgBackupMade   = i18n.Message("The backup is in %s. Whoever has it can read everything, so keep it safe.")
	msgBackupSealed = i18n.Message("The encrypted backup is in %s. If its passphrase is lost, nobody can open it.")
)

// Run writes the backup.
func (c *backupCreateCmd) Run(ctx context.Context, sh *shell) error {
	return c.connect(ctx, sh, func(at *conn) error {
		passphrase, err := sh.newPassphrase(ctx, c.Encrypt, c.PassphraseFile)
		if err != nil {
			return err
		}
		if c.File == "" {
			c.File = backup.FileName(time.Now(), passphrase != "")
		}
		if err := c.write(ctx, at, passphrase); err != nil {
			return err
		}
		made := msgBackupMade
		if passphrase != "" {
			made = msgBackupSealed
		}
		return sh.result(map[string]any{"file": c.File, "encrypted": passphrase != ""}, func() { sh.say(made, c.File) })
	})
}

// write writes the backup to the file, which it removes if the backup is incomplete.
func (c *backupCreateCmd) write(ctx context.Context, at *conn, passphrase string) (err error) {
	f, err := os.OpenFile(c.File, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() {
		if err = errors.Join(err, f.Close()); err != nil {
			err = errors.Join(err, ignoreNotExist(os.Remove(c.File)))
		}
	}()
	made, err := at.Backup(ctx, passphrase)
	if err != nil {
		return err
	}
	defer made.Close()
	if _, err := io.Copy(f, made); err != nil {
		return i18n.Message("the backup was interrupted: %v").Errorf(err)
	}
	return f.Sync()
}

func ignoreNotExist(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
