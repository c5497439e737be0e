package cli

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"

	"github.com/alecthomas/kong"

	"patchbay/internal/app"
	"patchbay/internal/config"
	"patchbay/internal/i18n"
	"patchbay/internal/service"
)

// serviceFlags say which service is meant.
type serviceFlags struct {
	User bool   `help:"A service of your own instead of one for the whole machine; it needs no rights."`
	Data string `help:"Data folder of the service; default: /var/lib/patchbay (macOS /usr/local/var/patchbay, Windows %ProgramData%\\Patchbay), with --user the usual one." placeholder:"DIR"`
}

// spec returns the service that the flags mean.
func (f serviceFlags) spec(sh *shell, h service.Host) (service.Spec, error) {
	s := service.Spec{User: f.User, Data: f.Data}
	if !f.User {
		s.Account = h.Account()
	}
	switch {
	case f.Data != "":
		full, err := filepath.Abs(f.Data)
		if err != nil {
			return s, err
		}
		s.Data = full
	case !f.User:
		s.Data = h.Data()
	default:
		c, _, err := config.Load(config.Sources{Env: sh.env})
		if err != nil {
			return s, err
		}
		s.Data = c.Data
	}
	return s, nil
}

// installed returns the service that the flags mean, with the data folder and the account of the
// one that is installed, and refuses another folder. Without a service it is as the flags say.
func (f serviceFlags) installed(ctx context.Context, sh *shell, h service.Host) (service.Spec, error) {
	s, err := f.spec(sh, h)
	if err != nil {
		return s, err
	}
	found, err := h.Installed(ctx, s)
	if err == nil && f.Data != "" && found.Data != s.Data {
		err = msgServiceElsewhere.Errorf(found.Data, s.Data)
	}
	return found, err
}

type serviceInstallCmd struct {
	serviceFlags `embed:""`
	Config       string   `help:"Configuration file of the server." placeholder:"FILE"`
	EnvFile      string   `help:"File with environment variables of the server, such as PATCHBAY_DATABASE_URL=…, one a line (systemd only)." placeholder:"FILE"`
	Account      string   `help:"Account that the service runs as; default: patchbay, which is made (macOS: whoever uses sudo)." placeholder:"NAME"`
	Force        bool     `help:"Replace an installed service."`
	DryRun       bool     `help:"Print what would be written and run, and do nothing."`
	Flags        []string `arg:"" optional:"" help:"Further flags of patchbay serve, after --."`
}

// Help returns the command's detailed help with examples.
func (serviceInstallCmd) Help() string {
	return `The service starts at once and at every boot, is restarted when it fails, and sees only its data folder. systemd (Linux), launchd (macOS) and Windows services are supported.

Examples:

    patchbay service install --dry-run
    sudo patchbay service install
    sudo patchbay service install -- --listen :3000 --public-url https://board.example.org
    patchbay service install --user --data ~/patchbay`
}

const (
	msgServiceInstalled = i18n.Message("Patchbay is installed as a service and runs; its data is in %s.\nIts address and the setup code are in its log: patchbay service logs%s")
	msgServiceRemoved   = i18n.Message("The service is removed. Its data is still in %s; remove it with --purge, or by hand.")
	msgServicePurged    = i18n.Message("The service and its data in %s are removed.")
	msgServiceSecret    = i18n.Message("%[1]s is a secret, and everybody on this machine can read the flags of a service: put it into the file of --config or --env-file, or into a file of its own with %[1]s-file")
	msgServiceElsewhere = i18n.Message("the data folder of the installed service is %s, not %s: leave --data out")
	msgServiceNone      = i18n.Message("The service is not installed.")
	msgServiceState     = i18n.Message("Service:   %[1]s\nProgram:   %[2]s\nState:     %[3]s\nProcess:   %[4]d\nAt boot:   %[5]s")
	msgServiceOther     = i18n.Message("This program is %s, another one than the service runs.")
	msgServiceYes       = i18n.Message("yes")
	msgServiceNo        = i18n.Message("no")
	msgPurgeService     = i18n.Message("Remove the service and all data in %s?")
)

// Run installs the service.
func (c *serviceInstallCmd) Run(ctx context.Context, sh *shell) error {
	return c.install(ctx, sh, service.ThisHost())
}

func (c *serviceInstallCmd) install(ctx context.Context, sh *shell, h service.Host) error {
	s, err := c.full(sh, h)
	if err != nil {
		return err
	}
	if err := c.checkSettings(sh, s); err != nil {
		return err
	}
	if !c.DryRun {
		if err := h.CheckInstall(ctx, s, c.Force); err != nil {
			return err
		}
	}
	steps := h.Install(s)
	if c.DryRun {
		return sh.showSteps(steps)
	}
	if !s.User { // whose account gets the folder
		if err := h.CheckFolder(s.Data, app.FolderOurs); err != nil {
			return err
		}
	}
	if err := h.Do(ctx, steps); err != nil {
		return err
	}
	return sh.result(map[string]any{"installed": true, "data": s.Data, "steps": steps}, func() {
		sh.say(msgServiceInstalled, s.Data, c.retry())
	})
}

// retry returns the flags to append to a suggested command about the same service.
func (f serviceFlags) retry() string {
	flags := ""
	if f.User {
		flags += " --user"
	}
	if f.Data != "" {
		flags += " --data " + quoteWord(f.Data)
	}
	return flags
}

// full returns the service with its program, files and flags.
func (c *serviceInstallCmd) full(sh *shell, h service.Host) (service.Spec, error) {
	s, err := c.spec(sh, h)
	if err != nil {
		return s, err
	}
	if c.Account != "" && !c.User {
		s.Account = c.Account
	}
	if s.Binary, err = os.Executable(); err != nil {
		return s, err
	}
	if real, err := filepath.EvalSymlinks(s.Binary); err == nil && h.OS != "linux" {
		s.Binary = real // on Linux packages of other makers keep a link that outlives upgrades
	}
	for from, to := range map[string]*string{c.Config: &s.Config, c.EnvFile: &s.EnvFile} {
		if from == "" {
			continue
		}
		if *to, err = filepath.Abs(from); err != nil {
			return s, err
		}
		if _, err := os.Stat(*to); err != nil {
			return s, err
		}
	}
	s.Flags = c.Flags
	return s, nil
}

// checkSettings refuses settings with which the server would not start.
func (c *serviceInstallCmd) checkSettings(sh *shell, s service.Spec) error {
	var parsed cli
	parser, err := newParser(&parsed, sh, true, func(int) {})
	if err != nil {
		return err
	}
	if _, err := parser.Parse(append([]string{"serve"}, c.Flags...)); err != nil {
		return asUsage(err)
	}
	flags := given(parsed.Serve.Settings)
	for _, k := range config.Keys() {
		if _, ok := flags[k.Path]; ok && k.Secret {
			return usage(msgServiceSecret, k.Flag)
		}
	}
	flags["data"] = s.Data
	if s.EnvFile != "" {
		return nil // what is in it is known to systemd only
	}
	_, _, err = config.Load(config.Sources{File: s.Config, Flags: flags})
	return err
}

// showSteps prints what would be done.
func (sh *shell) showSteps(steps []service.Step) error {
	return sh.result(map[string]any{"steps": steps}, func() {
		for _, s := range steps {
			sh.printf("%s\n", s)
			if s.Text != "" {
				sh.printf("\n%s\n", s.Text)
			}
		}
	})
}

type serviceStatusCmd struct {
	serviceFlags `embed:""`
}

// Help returns the command's detailed help with examples.
func (serviceStatusCmd) Help() string {
	return `The exit code is 1 if the service does not run.

Examples:

    patchbay service status
    patchbay service status --user --json`
}

// Run shows the state of the service.
func (c *serviceStatusCmd) Run(ctx context.Context, sh *shell) error {
	return c.show(ctx, sh, service.ThisHost())
}

func (c *serviceStatusCmd) show(ctx context.Context, sh *shell, h service.Host) error {
	s, err := h.State(ctx, c.User)
	if err != nil {
		return err
	}
	err = sh.result(s, func() {
		if !s.Installed {
			sh.say(msgServiceNone)
			return
		}
		boot := msgServiceNo
		if s.AtBoot {
			boot = msgServiceYes
		}
		sh.say(msgServiceState, s.File, s.Binary, s.Detail, s.PID, boot.In(sh.lang))
		if self, err := os.Executable(); err == nil && s.Binary != "" && !sameFile(self, s.Binary) {
			sh.say(msgServiceOther, self)
		}
	})
	if err == nil && !s.Running {
		return errReported
	}
	return err
}

// sameFile reports whether two paths lead to the same file.
func sameFile(a, b string) bool {
	one, err := os.Stat(a)
	if err != nil {
		return false
	}
	other, err := os.Stat(b)
	return err == nil && os.SameFile(one, other)
}

type serviceLogsCmd struct {
	serviceFlags `embed:""`
	Follow       bool `short:"f" help:"Go on until Ctrl-C."`
	Lines        int  `short:"n" default:"100" help:"Number of lines."`
}

// Help returns the command's detailed help with examples.
func (serviceLogsCmd) Help() string {
	return `Examples:

    sudo patchbay service logs
    patchbay service logs --user --follow`
}

// Run shows the log of the service.
func (c *serviceLogsCmd) Run(ctx context.Context, sh *shell) error {
	h := service.ThisHost()
	s, err := c.installed(ctx, sh, h)
	if err != nil {
		return err
	}
	state, err := h.State(ctx, c.User)
	if err != nil {
		return err
	}
	if !state.Installed {
		return service.ErrNotInstalled
	}
	return h.Logs(ctx, s, c.Follow, c.Lines, sh.stdout, sh.stderr)
}

type serviceUninstallCmd struct {
	serviceFlags `embed:""`
	Purge        bool `help:"Remove the data folder too, with everything in it."`
	Yes          bool `short:"y" help:"Do not ask for confirmation."`
	DryRun       bool `help:"Print what would be removed and run, and do nothing."`
}

// Help returns the command's detailed help with examples.
func (serviceUninstallCmd) Help() string {
	return `The data stays unless --purge is given.

Examples:

    sudo patchbay service uninstall
    patchbay service uninstall --user --purge --dry-run`
}

// Run removes the service.
func (c *serviceUninstallCmd) Run(ctx context.Context, sh *shell) error {
	return c.uninstall(ctx, sh, service.ThisHost())
}

func (c *serviceUninstallCmd) uninstall(ctx context.Context, sh *shell, h service.Host) error {
	if !c.DryRun {
		if err := h.CheckUninstall(ctx, c.User); err != nil {
			return err
		}
	}
	s, err := c.installed(ctx, sh, h)
	if err != nil {
		return err
	}
	steps := h.Uninstall(s, c.Purge)
	if c.DryRun {
		return sh.showSteps(steps)
	}
	if c.Purge {
		if err := h.CheckFolder(s.Data, app.FolderOurs); err != nil {
			return err
		}
	}
	if c.Purge && !c.Yes && !sh.confirm(ctx, msgPurgeService, s.Data) {
		return errReported
	}
	if err := h.Do(ctx, steps); err != nil {
		return err
	}
	done, args := msgServiceRemoved, []any{s.Data}
	if c.Purge {
		done = msgServicePurged
	}
	return sh.result(map[string]any{"removed": true, "purged": c.Purge, "data": s.Data}, func() { sh.say(done, args...) })
}

// serviceRunCmd is what launchd and Windows run: the server, with a log file of limited size.
type serviceRunCmd struct {
	Log  string   `required:"" help:"Log file." placeholder:"FILE"`
	Args []string `arg:"" help:"Command to run, after --."`
}

// Help returns the command's detailed help with examples.
func (serviceRunCmd) Help() string {
	return `Services of macOS and Windows begin with this command; nobody else needs it.

Example:

    patchbay service run --log service.log -- serve --data /srv/patchbay`
}

// Run runs the command until ctx ends or the service is stopped.
func (c *serviceRunCmd) Run(ctx context.Context, sh *shell) (err error) {
	log, err := service.OpenLog(c.Log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	code, err := service.Run(ctx, func(ctx context.Context) int {
		return Run(ctx, c.Args, eof{}, log, log, sh.env)
	})
	if err == nil && code != exitOK {
		return errReported
	}
	return err
}

// eof is an empty standard input.
type eof struct{}

// Read implements [io.Reader].
func (eof) Read([]byte) (int, error) { return 0, io.EOF }

// serviceUnitCmd prints the unit that packages contain.
type serviceUnitCmd struct{}

// Help returns the command's detailed help with examples.
func (serviceUnitCmd) Help() string {
	return `Example:

    patchbay service unit > patchbay.service`
}

// Run prints the unit.
func (serviceUnitCmd) Run(sh *shell, _ *kong.Kong) error {
	unit := service.Unit(service.Spec{Binary: "/usr/bin/patchbay", Data: "/var/lib/patchbay",
		Config: "/etc/patchbay/patchbay.yaml", EnvFile: "/etc/patchbay/patchbay.env", Account: service.Name})
	return sh.result(map[string]string{"unit": unit}, func() { sh.printf("%s", unit) })
}
