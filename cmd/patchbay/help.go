package main

import (
	"context"

	"github.com/alecthomas/kong"
)

// helpCmd is what --help prints, for who types it as a command.
type helpCmd struct {
	Command []string `arg:"" optional:"" help:"The command that is to be explained; without it, all are listed."`
}

// Help is the command's examples.
func (helpCmd) Help() string {
	return `Examples:

    patchbay help
    patchbay help bot add`
}

// Run prints the help of a command.
func (c *helpCmd) Run(ctx context.Context, sh *shell) error {
	if run(ctx, append(c.Command, "--help"), sh.stdin, sh.stdout, sh.stderr, sh.env) != exitOK {
		return usageError{errTold}
	}
	return nil
}

// versionFlag is --version, which means the command version.
type versionFlag bool

// BeforeReset prints the version, before anything that is missing can be complained about.
func (versionFlag) BeforeReset(k *kong.Kong) error {
	thisBuild().print(k.Stdout)
	k.Exit(exitOK)
	return nil
}
