package cli

import (
	"context"
	"errors"
	"io"
	"os"
	"strings"

	"patchbay/internal/backup"
	"patchbay/internal/config"
	"patchbay/internal/control"
	"patchbay/internal/i18n"
)

const (
	msgNewPassphrase   = i18n.Message("New passphrase of the backup: ")
	msgPassphrase      = i18n.Message("Passphrase of the backup: ")
	msgNoPassphrase    = i18n.Message("there is no passphrase; type it in a terminal, or give --passphrase-file or %s")
	msgEmptyPassphrase = i18n.Message("there is no passphrase in %s")
)

// newPassphrase returns the passphrase for a new backup; empty means no encryption. It is not an
// argument, because everybody on the machine can read those.
func (sh *shell) newPassphrase(ctx context.Context, wanted bool, file string) (string, error) {
	passphrase, err := sh.givenPassphrase(file)
	if err != nil || passphrase == "" && !wanted {
		return "", err
	}
	if passphrase == "" {
		fd, ok := terminal(sh.stdin)
		if !ok {
			return "", msgNoPassphrase.Errorf(config.EnvPassphrase)
		}
		if passphrase, err = sh.askTwice(ctx, fd, msgNewPassphrase); err != nil {
			return "", err
		}
		if passphrase == "" {
			return "", msgNoPassphrase.Errorf(config.EnvPassphrase)
		}
	}
	return passphrase, sh.explainBackupError(backup.CheckPassphrase(passphrase))
}

// passphrase returns the passphrase of an existing backup.
func (sh *shell) passphrase(ctx context.Context, file string) (string, error) {
	passphrase, err := sh.givenPassphrase(file)
	if err != nil || passphrase != "" {
		return passphrase, err
	}
	if fd, ok := terminal(sh.stdin); ok {
		if passphrase, err = sh.askSecret(ctx, fd, msgPassphrase); err != nil {
			return "", err
		}
	}
	if passphrase == "" {
		return "", msgEncrypted.Errorf(config.EnvPassphrase)
	}
	return passphrase, nil
}

const msgEncrypted = i18n.Message("the backup is encrypted; type its passphrase in a terminal, or give --passphrase-file or %s")

// givenPassphrase returns the passphrase from a file or, without one, from the environment.
func (sh *shell) givenPassphrase(file string) (string, error) {
	if file == "" {
		return sh.getenv(config.EnvPassphrase), nil
	}
	f, err := os.Open(file)
	if err != nil {
		return "", err
	}
	defer f.Close()
	// One byte more than allowed, and the line ending, so that a passphrase that is too long is
	// refused and not cut.
	text, err := io.ReadAll(io.LimitReader(f, backup.MaxPassphrase+3))
	if err != nil {
		return "", err
	}
	passphrase := strings.TrimRight(string(text), "\r\n")
	if passphrase == "" {
		return "", msgEmptyPassphrase.Errorf(file)
	}
	return passphrase, nil
}

// explainBackupError returns the message about an error of a backup that the console shows too.
func (sh *shell) explainBackupError(err error) error {
	if e := control.AsError(control.AboutBackup(err)); e != nil {
		return errors.New(e.In(sh.lang))
	}
	return err
}
