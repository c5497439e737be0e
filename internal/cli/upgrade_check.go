package cli

import (
	"context"

	"patchbay/internal/app"
	"patchbay/internal/i18n"
	"patchbay/internal/upgrade"
)

type upgradeCheckCmd struct {
	dataFlags `embed:""`
	Feed      string `help:"Address of the latest.json to read, instead of the setting upgrade.feed." placeholder:"URL"`
}

// Help returns the command's detailed help with examples.
func (upgradeCheckCmd) Help() string {
	return `The newest release is described by the file latest.json that each release has; its address is the setting upgrade.feed. Nothing is downloaded or installed, and no other command or server reads the address.

Examples:

    patchbay upgrade check --feed https://downloads.example.org/latest.json
    patchbay upgrade check --json`
}

const (
	msgUpToDate  = i18n.Message("This is %[1]s; the newest release is %[2]s.")
	msgNewer     = i18n.Message("%[2]s is there; this is %[1]s.")
	msgUnknown   = i18n.Message("The newest release is %[2]s; this program is %[1]s, which is no release.")
	msgGetIt     = i18n.Message("Get it from %s")
	msgUpgradeBy = i18n.Message("Before the new version changes the data it makes a backup. How to upgrade, and back: docs/operating.md.")
)

// Run compares the newest release with this program.
func (c *upgradeCheckCmd) Run(ctx context.Context, sh *shell) error {
	settings, err := c.load(sh)
	if err != nil {
		return err
	}
	latest, err := app.LatestRelease(ctx, settings, c.Feed)
	if err != nil {
		return err
	}
	own := thisBuild().Version
	newer, known := upgrade.Newer(latest.Version, own)
	result := map[string]any{"version": own, "latest": latest, "newer": newer}
	return sh.result(result, func() {
		text := msgUpToDate
		switch {
		case !known:
			text = msgUnknown
		case newer:
			text = msgNewer
		}
		sh.say(text, own, latest.Version)
		if !newer && known {
			return
		}
		if latest.Notes != "" {
			sh.printf("%s\n", latest.Notes)
		}
		if latest.URL != "" {
			sh.say(msgGetIt, latest.URL)
		}
		sh.say(msgUpgradeBy)
	})
}
