package cli

import (
	"context"

	"github.com/alecthomas/kong"
)

// helpCmd prints the same as --help, as a command.
type helpCmd struct {
	Command []string `arg:"" optional:"" help:"The command; default: list all commands."`
}

// Help returns the command's detailed help with examples.
func (helpCmd) Help() string {
	return `Examples:

    patchbay help
    patchbay help bot add`
}

// Run prints the help of a command.
func (c *helpCmd) Run(ctx context.Context, sh *shell) error {
	if Run(ctx, append(c.Command, "--help"), sh.stdin, sh.stdout, sh.stderr, sh.env) != exitOK {
		return usageError{errReported}
	}
	return nil
}

// versionFlag is the flag --version, which runs the command version.
type versionFlag bool

// BeforeReset prints the version before missing arguments can be reported.
func (versionFlag) BeforeReset(k *kong.Kong) error {
	thisBuild().print(k.Stdout)
	k.Exit(exitOK)
	return nil
}
