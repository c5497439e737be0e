package cli

import (
	"context"
	"os"

	"patchbay/internal/i18n"
	"patchbay/internal/plug/eyeclaw/connector"
)

type connectorOpenclawCmd struct {
	File string `arg:"" optional:"" help:"File to write; optional: standard output."`
}

// Help returns the command's detailed help with examples.
func (connectorOpenclawCmd) Help() string {
	return `The plugin connects an OpenClaw to this Patchbay from behind its router: its agent then answers for a bot of kind connector. patchbay bot add --kind connector prints the commands that install it, and a running server offers the same file at /connector/openclaw.tgz. There is no key in it.

Examples:

    patchbay connector openclaw > patchbay-openclaw.tgz
    openclaw plugins install ./patchbay-openclaw.tgz --force --accept-capabilities`
}

const (
	msgConnectorTerminal = i18n.Message("the plugin is an archive and not for a terminal: patchbay connector openclaw > patchbay-openclaw.tgz")
	msgConnectorWritten  = i18n.Message("%s is written. On the computer where OpenClaw runs: openclaw plugins install ./%s --force --accept-capabilities")
)

// connectorWritten is the result of writing the plugin to a file.
type connectorWritten struct {
	File  string `json:"file"`
	Bytes int    `json:"bytes"`
}

// Run writes the plugin.
func (c *connectorOpenclawCmd) Run(_ context.Context, sh *shell) error {
	archive, err := connector.Archive(thisBuild().Version)
	if err != nil {
		return err
	}
	if c.File == "" {
		if _, isTerminal := terminal(sh.stdout); isTerminal {
			return usage(msgConnectorTerminal)
		}
		_, err := sh.stdout.Write(archive)
		return err
	}
	if err := os.WriteFile(c.File, archive, 0o644); err != nil { //nolint:gosec // there is nothing secret in it
		return err
	}
	return sh.result(connectorWritten{c.File, len(archive)}, func() { sh.say(msgConnectorWritten, c.File, c.File) })
}
