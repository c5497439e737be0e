package seal

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"

	"patchbay/internal/check"
	"patchbay/internal/i18n"
)

// CheckName is the name of the check of the key.
const CheckName = i18n.Message("secret key")

// AdviceLost is the advice about a key that is missing or wrong.
const AdviceLost = i18n.Message("Restore it from a backup, or set the bots' keys again.")

const (
	msgKeySettings  = i18n.Message("comes from the settings")
	msgKeyReadable  = i18n.Message("%s can be read")
	msgKeyToCome    = i18n.Message("is made at the first use")
	msgKeyOpen      = i18n.Message("other accounts can read %s")
	adviceKeyRights = i18n.Message("Run: chmod 600 %s")
)

// CheckKey checks that the key is valid and readable: the configured secret, or the file in the
// data folder. A folder that has been used must have the file.
func CheckKey(r *check.Report, secret, folder string, used bool) {
	name := CheckName.With()
	if secret != "" {
		if _, err := New(secret); err != nil {
			r.Error(name, err, AdviceLost.With())
			return
		}
		r.OK(name, msgKeySettings.With())
		return
	}
	path := filepath.Join(folder, FileName)
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist) && !used:
		r.OK(name, msgKeyToCome.With())
	case err != nil:
		r.Error(name, err, AdviceLost.With())
	case runtime.GOOS != "windows" && info.Mode().Perm()&0o077 != 0:
		r.Warn(name, msgKeyOpen.With(path), adviceKeyRights.With(path))
	default:
		if _, err := Open(folder); err != nil {
			r.Error(name, err, AdviceLost.With())
			return
		}
		r.OK(name, msgKeyReadable.With(path))
	}
}
