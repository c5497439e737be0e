package cli

import (
	"context"
	"errors"
	"strings"

	"patchbay/internal/app"
	"patchbay/internal/check"
	"patchbay/internal/config"
	"patchbay/internal/i18n"
)

type doctorCmd struct {
	Ready     bool `help:"Only check that the server runs and is ready, for container platforms."`
	dataFlags `embed:""`
}

// Help returns the command's detailed help with examples.
func (doctorCmd) Help() string {
	return `Each check prints one line: ok, warn or fail. The exit code is 1 if a check fails.

Examples:

    patchbay doctor
    patchbay doctor --ready
    patchbay doctor --data /var/lib/patchbay --json`
}

const (
	msgCheckSettings = i18n.Message("settings")
	adviceSettings   = i18n.Message("Fix this, then run patchbay config check%s.")
)

// Run runs all checks.
func (c *doctorCmd) Run(ctx context.Context, sh *shell) error {
	r := &check.Report{Lang: sh.lang, Flags: c.retryFlags(), EnglishNames: sh.json}
	settings, err := c.load(sh)
	switch {
	case err != nil:
		r.Fail(msgCheckSettings.With(), check.Verbatim(sh.settingsProblem(err)), adviceSettings.With(r.Flags))
	case c.Ready:
		app.ExamineReady(ctx, settings, r)
	default:
		r.OK(msgCheckSettings.With(), msgSettingsGood.With())
		app.Examine(ctx, settings, thisBuild().Version, r)
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err := sh.result(r.Findings, func() { sh.showFindings(r.Findings) }); err != nil {
		return err
	}
	if r.Failed() {
		return errReported
	}
	return nil
}

// settingsProblem returns why settings cannot be loaded, in the language of the terminal.
func (sh *shell) settingsProblem(err error) string {
	problems, ok := errors.AsType[config.Problems](err)
	if !ok {
		return i18n.Localize(app.Explain(err), sh.lang)
	}
	var lines []string
	for _, p := range problems {
		lines = append(lines, sh.problem(p))
	}
	return strings.Join(lines, "\n")
}

// showFindings prints a line for each finding.
func (sh *shell) showFindings(list []check.Finding) {
	wide := 0
	for _, f := range list {
		wide = max(wide, columns(f.Check))
	}
	for _, f := range list {
		advice := ""
		if f.Advice != "" {
			advice = " → " + f.Advice
		}
		sh.printf("%-4s  %s%s  %s%s\n", f.State, f.Check, strings.Repeat(" ", wide-columns(f.Check)), f.Found, advice)
	}
}
