// Package translations embeds the translations of all texts into a program that imports it. Other
// packages do not import it, so that a changed translation does not recompile them.
package translations

import (
	"embed"

	"patchbay/internal/i18n"
)

//go:embed *.po
var files embed.FS

func init() { i18n.Register(files) }
