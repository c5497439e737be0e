package app

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"patchbay/internal/config"
	"patchbay/internal/i18n"
	"patchbay/internal/seal"
	"patchbay/internal/store"
)

// installationFile is the file in the data folder that holds the id of its installation.
const installationFile = "installation"

const (
	msgDataGone = i18n.Message("%[1]s belongs to an installation, but %[2]s is empty. If the address or the folder is wrong, correct it; if the data is lost, restore a backup first with patchbay backup restore FILE. To begin anew all the same: patchbay serve --new")
	msgInURL    = i18n.Message("the database of database.url")
)

// DataGoneError means that the database is empty although the data folder has been used.
type DataGoneError struct{ error }

// In returns the error in a language.
func (e DataGoneError) In(l i18n.Lang) string { return i18n.Localize(e.error, l) }

// Unwrap returns the localizable error.
func (e DataGoneError) Unwrap() error { return e.error }

// refuseLoss returns a [DataGoneError] if the data folder has been used and the database is empty,
// because a mistyped address or a lost file must not start a new installation.
func refuseLoss(ctx context.Context, c *config.Config, o store.Options) error {
	if !FolderUsed(c.Data) {
		return nil
	}
	empty, err := store.Empty(ctx, o)
	if err != nil || !empty {
		return nil //nolint:nilerr // opening it reports the problem
	}
	if c.Database.URL != "" {
		return DataGoneError{msgDataGone.Errorf(c.Data, msgInURL)}
	}
	return DataGoneError{msgDataGone.Errorf(c.Data, filepath.Join(c.Data, store.FileName))}
}

// FolderUsed reports whether a data folder has been used by an installation.
func FolderUsed(folder string) bool {
	return exists(folder, installationFile) || exists(folder, seal.FileName)
}

// FolderOurs reports whether a folder is a data folder, even one with which no start has succeeded.
func FolderOurs(folder string) bool {
	return FolderUsed(folder) || exists(folder, store.FileName) || exists(folder, store.LockName)
}

func exists(folder, name string) bool {
	_, err := os.Stat(filepath.Join(folder, name))
	return err == nil
}

// markFolder writes the installation's id to the data folder.
func markFolder(folder, installation string, log *slog.Logger) {
	if _, err := os.Stat(folder); err != nil {
		return // with PostgreSQL the folder may not exist
	}
	path := filepath.Join(folder, installationFile)
	if text, err := os.ReadFile(path); err == nil && strings.TrimSpace(string(text)) == installation {
		return
	}
	if err := store.WriteDurably(path, []byte(installation+"\n")); err != nil && !errors.Is(err, os.ErrPermission) {
		log.Warn("the data folder could not be marked as that of this installation", "folder", folder, "error", err)
	}
}
