package main

import (
	"context"
	"errors"
	"strings"
	"time"

	"patchbay/internal/app"
	"patchbay/internal/config"
	"patchbay/internal/i18n"
	"patchbay/internal/store"
)

type doctorCmd struct {
	dataFlags `embed:""`
}

// Help returns the command's detailed help with examples.
func (doctorCmd) Help() string {
	return `Each check is one line: ok, warn or fail. The exit code is 1 if anything fails.

Examples:

    patchbay doctor
    patchbay doctor --data /var/lib/patchbay --json`
}

// verdict is the result of a check.
type verdict string

const (
	good verdict = "ok"
	warn verdict = "warn" // works, but perhaps not as intended
	bad  verdict = "fail"
)

// finding is a result of one check.
type finding struct {
	Check  string  `json:"check"`
	State  verdict `json:"state"`
	Found  string  `json:"found"`
	Advice string  `json:"advice,omitempty"`
}

// doctor runs checks and collects their findings.
type doctor struct {
	sh         *shell
	retryFlags string // appended to suggested commands
	settings   *config.Config
	findings   []finding
}

// Run runs all checks.
func (c *doctorCmd) Run(ctx context.Context, sh *shell) error {
	d := &doctor{sh: sh, retryFlags: c.retryFlags()}
	d.runChecks(ctx, c.dataFlags)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err := sh.result(d.findings, d.show); err != nil {
		return err
	}
	for _, f := range d.findings {
		if f.State == bad {
			return errReported
		}
	}
	return nil
}

func (d *doctor) runChecks(ctx context.Context, flags dataFlags) {
	var err error
	if d.settings, err = flags.load(d.sh); err != nil {
		d.fail(msgCheckSettings.With(), singleLine(d.errorText(err)),
			i18n.Message("Correct that, then run patchbay config check%s."),
			d.retryFlags)
		return
	}
	d.ok(msgCheckSettings.With(), msgSettingsGood)
	d.checkDataFolder()
	d.checkDiskSpace()
	d.key()
	d.certificate(time.Now())
	d.server(ctx)
	d.publicURL(ctx)
	if !hasData(d.settings) && !app.FolderUsed(d.settings.Data) {
		d.warn(msgCheckDatabase.With(), msgNothingYet.In(d.sh.lang), msgBegin, d.retryFlags)
		return
	}
	b, err := app.OpenBase(ctx, d.settings, thisBuild().Version, d.sh.logger())
	if app.IsSecretWrong(err) {
		d.fail(msgCheckKey.With(), d.errorText(err), adviceKey)
		return
	}
	switch _, gone := errors.AsType[app.DataGoneError](err); {
	case gone:
		d.fail(msgCheckDatabase.With(), d.errorText(err), i18n.Message("Correct the address, or restore a backup."))
		return
	case errors.Is(err, store.ErrNewer):
		d.fail(msgCheckDatabase.With(), d.errorText(err), i18n.Message("Upgrade this program."))
		return
	case store.ClassifyError(err) == store.ErrDamaged:
		d.reportDamaged(err)
		return
	}
	if err != nil {
		d.fail(msgCheckDatabase.With(), d.errorText(err),
			i18n.Message("See whether its address, its rights and the secret key are right."))
		return
	}
	defer b.Close() //nolint:errcheck // nothing was written
	d.database(ctx, b)
	d.secrets(b)
	d.people(ctx, b)
	d.audit(ctx, b)
	d.clock(ctx, b, time.Now())
	d.bots(ctx, b)
	d.tools(ctx, b)
	d.boards(ctx, b)
	d.nodes(ctx, b)
	d.learning(ctx, b)
}

// The names of the checks.
const (
	msgCheckSettings = i18n.Message("settings")
	msgCheckDatabase = i18n.Message("database")
	msgNothingYet    = i18n.Message("there is nothing yet")
	msgBegin         = i18n.Message("Begin with: patchbay serve%[1]s, and open the address it prints in a browser; or patchbay user add NAME%[1]s")
)

func (d *doctor) add(check i18n.Text, v verdict, found, advice string) {
	name := check.In(d.sh.lang)
	if d.sh.json {
		name = check.String()
	}
	d.findings = append(d.findings, finding{Check: name, State: v, Found: found, Advice: advice})
}

func (d *doctor) ok(check i18n.Text, found i18n.Message, args ...any) {
	d.add(check, good, found.In(d.sh.lang, args...), "")
}

func (d *doctor) warn(check i18n.Text, found string, advice i18n.Message, args ...any) {
	d.add(check, warn, found, advice.In(d.sh.lang, args...))
}

func (d *doctor) fail(check i18n.Text, found string, advice i18n.Message, args ...any) {
	d.add(check, bad, singleLine(found), advice.In(d.sh.lang, args...))
}

// errorText returns the message of an error.
func (d *doctor) errorText(err error) string {
	problems, ok := errors.AsType[config.Problems](err)
	if !ok {
		return i18n.Localize(app.Explain(err), d.sh.lang)
	}
	var lines []string
	for _, p := range problems {
		lines = append(lines, d.sh.problem(p))
	}
	return strings.Join(lines, "\n")
}

// show prints a line for each finding.
func (d *doctor) show() {
	wide := 0
	for _, f := range d.findings {
		wide = max(wide, columns(f.Check))
	}
	for _, f := range d.findings {
		advice := ""
		if f.Advice != "" {
			advice = " → " + f.Advice
		}
		d.sh.printf("%-4s  %s%s  %s%s\n", f.State, f.Check, strings.Repeat(" ", wide-columns(f.Check)), f.Found, advice)
	}
}
