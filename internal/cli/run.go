// Package cli is the command line: each command parses its flags, calls operations of /api/v1 and
// prints.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"patchbay/internal/config"
	"patchbay/internal/i18n"
)

// Exit codes of every command.
const (
	exitOK          = 0
	exitFailed      = 1
	exitUsage       = 2   // invalid command line
	exitInterrupted = 130 // as shells expect after Ctrl-C
)

// Run runs one command and returns its exit code. It is the whole program except signal handling.
func Run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer, env []string) int {
	sh := newShell(stdin, stdout, stderr, env)
	var c cli
	helped := false
	parser, err := newParser(&c, sh, needSettings(args), func(int) { helped = true })
	if err != nil {
		return sh.fail(err)
	}
	if len(args) == 0 {
		parser.Stdout = stderr
		parser.Parse([]string{"--help"}) //nolint:errcheck // only the help is needed
		return exitUsage
	}
	command, err := parser.Parse(args)
	switch {
	case helped:
		return exitOK
	case err != nil:
		return sh.fail(asUsage(err))
	}
	sh.json = c.JSON
	command.BindTo(ctx, (*context.Context)(nil))
	command.Bind(sh)
	err = command.Run()
	if err != nil && ctx.Err() != nil && errors.Is(err, context.Canceled) {
		fmt.Fprintln(stderr, "patchbay:", msgInterrupted.In(sh.lang))
		return exitInterrupted
	}
	return sh.fail(err)
}

const msgInterrupted = i18n.Message("interrupted")

// needSettings reports whether a command line can have flags for settings, or list them. They are
// more than all other flags, and making them takes most of the time of a short command.
func needSettings(args []string) bool {
	for _, name := range []string{"serve", "config", "completion", "man"} {
		if slices.Contains(args, name) {
			return true
		}
	}
	return false
}

// newParser returns the parser of the command line, with the flags for settings if they are needed.
// It calls exit after printing help; what follows then does not matter.
func newParser(c *cli, sh *shell, settings bool, exit func(int)) (*kong.Kong, error) {
	if settings {
		c.Serve.Settings = newSettings()
		c.Config.Check.Settings = newSettings()
	}
	k, err := kong.New(c,
		kong.Name("patchbay"),
		kong.Description("Connects glasses and other devices with the agents that answer them."),
		kong.Vars{"languages": languageList()},
		kong.Writers(sh.stdout, sh.stderr),
		kong.Exit(exit),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, WrapUpperBound: helpWidth}),
		commandGroups,
	)
	if err == nil {
		translateHelp(k, sh.lang)
	}
	return k, err
}

// languageList returns the codes of all languages, separated by commas.
func languageList() string {
	var list []string
	for _, l := range i18n.Languages() {
		list = append(list, string(l))
	}
	return strings.Join(list, ",")
}

// helpWidth is the maximum width of help texts on wide terminals.
const helpWidth = 100

// exitCode returns the exit code of an error.
func exitCode(err error) int {
	if err == nil {
		return exitOK
	}
	if _, ok := errors.AsType[usageError](err); ok {
		return exitUsage
	}
	if problems, ok := errors.AsType[config.Problems](err); ok && allFlags(problems) {
		return exitUsage
	}
	return exitFailed
}

// allFlags reports whether all problems with the settings come from flags.
func allFlags(problems config.Problems) bool {
	for _, p := range problems {
		if !strings.HasPrefix(p.Where, "--") {
			return false
		}
	}
	return true
}
