package main

import (
	"context"
	"errors"
	"io"
	"os"
	"strings"

	"patchbay/internal/backup"
	"patchbay/internal/config"
	"patchbay/internal/control"
	"patchbay/internal/talk"
)

var (
	sayNewPassphrase = talk.Say{Zh: "备份的新口令：", En: "New passphrase of the backup: "}
	sayPassphrase    = talk.Say{Zh: "备份的口令：", En: "Passphrase of the backup: "}
	sayNoPassphrase  = talk.Say{
		Zh: "没有给出口令；请在终端里输入，或用 --passphrase-file，或设置 %s",
		En: "there is no passphrase; type it in a terminal, or give --passphrase-file or %s",
	}
	sayEmptyPassphrase = talk.Say{Zh: "%s 里没有口令", En: "there is no passphrase in %s"}
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
			return "", sayNoPassphrase.Wrong(config.EnvPassphrase)
		}
		if passphrase, err = sh.askTwice(ctx, fd, sayNewPassphrase); err != nil {
			return "", err
		}
		if passphrase == "" {
			return "", sayNoPassphrase.Wrong(config.EnvPassphrase)
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
		if passphrase, err = sh.askSecret(ctx, fd, sayPassphrase); err != nil {
			return "", err
		}
	}
	if passphrase == "" {
		return "", sayEncrypted.Wrong(config.EnvPassphrase)
	}
	return passphrase, nil
}

var sayEncrypted = talk.Say{
	Zh: "备份是加密的；请在终端里输入口令，或用 --passphrase-file，或设置 %s",
	En: "the backup is encrypted; type its passphrase in a terminal, or give --passphrase-file or %s",
}

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
		return "", sayEmptyPassphrase.Wrong(file)
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
