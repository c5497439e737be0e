package cli

import (
	"strings"

	"patchbay/internal/config"
)

type configDefaultCmd struct{}

// Help returns the command's detailed help with examples.
func (configDefaultCmd) Help() string {
	return `It contains all settings with their defaults, commented out.

Example:

    patchbay config default > ~/.local/share/patchbay/patchbay.yaml`
}

// Run prints the file.
func (c *configDefaultCmd) Run(sh *shell) error {
	var b strings.Builder
	if err := config.WriteDefault(&b); err != nil {
		return err
	}
	return sh.result(map[string]string{"yaml": b.String()}, func() { sh.printf("%s", b.String()) })
}
