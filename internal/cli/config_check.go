package cli

import (
	"errors"

	"github.com/alecthomas/kong"

	"patchbay/internal/config"
	"patchbay/internal/i18n"
)

type configCheckCmd struct {
	Effective bool         `help:"Also print all settings with their values as a configuration file, with secrets masked."`
	Config    string       `help:"Configuration file; default: $$PATCHBAY_CONFIG or patchbay.yaml in the data folder." placeholder:"FILE"`
	Settings  kong.Plugins `embed:""`
}

// Help returns the command's detailed help with examples.
func (configCheckCmd) Help() string {
	return `Examples:

    patchbay config check
    patchbay config check --config /etc/patchbay.yaml --effective
    patchbay config check --listen :3000 --public-url https://board.example.org`
}

const (
	msgSettingsGood = i18n.Message("The settings are valid.")
	msgNotDefault   = i18n.Message("%s comes from %s")
)

// Run loads the configuration as serve does.
func (c *configCheckCmd) Run(sh *shell) error {
	settings, origins, err := config.Load(config.Sources{File: c.Config, Env: sh.env, Flags: given(c.Settings)})
	if sh.json {
		return c.report(sh, settings, origins, err)
	}
	if err != nil {
		return err
	}
	if c.Effective {
		return settings.WriteEffective(sh.stdout)
	}
	sh.say(msgSettingsGood)
	for _, o := range origins {
		sh.say(msgNotDefault, o.Path, o.Where())
	}
	return nil
}

// checkReport is the result as JSON.
type checkReport struct {
	OK        bool              `json:"ok"`
	Problems  []checkProblem    `json:"problems,omitempty"`
	Given     map[string]string `json:"given,omitempty"` // key → where its value comes from
	Effective string            `json:"effective,omitempty"`
}

type checkProblem struct {
	Key    string `json:"key"`
	Where  string `json:"where,omitempty"`
	Fault  string `json:"fault"`
	Advice string `json:"advice"`
}

func (c *configCheckCmd) report(sh *shell, settings *config.Config, origins []config.Origin, err error) error {
	problems, _ := errors.AsType[config.Problems](err)
	if err != nil && problems == nil {
		return err
	}
	out := checkReport{OK: err == nil, Given: map[string]string{}}
	for _, p := range problems {
		out.Problems = append(out.Problems, checkProblem(p))
	}
	for _, o := range origins {
		out.Given[o.Path] = o.Where()
	}
	if c.Effective && settings != nil {
		out.Effective = settings.String()
	}
	if err := sh.writeJSON(out, "  "); err != nil {
		return err
	}
	if !out.OK {
		return errReported
	}
	return nil
}
