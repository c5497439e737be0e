package cli

import (
	"context"

	"patchbay/internal/api"
	"patchbay/internal/control"
	"patchbay/internal/i18n"
)

type userRemoveSecondStepsCmd struct {
	Name        string `arg:"" help:"Name of the account."`
	targetFlags `embed:""`
}

// Help returns the command's detailed help with examples.
func (userRemoveSecondStepsCmd) Help() string {
	return `For somebody who lost authenticator app or passkeys, and the recovery codes. The password is enough from then on, until they set up a second step again on the settings page of the console.

Example:

    patchbay user remove-second-steps ada`
}

const msgStepsGone = i18n.Message("%s signs in without a code now.")

// Run removes the second steps.
func (c *userRemoveSecondStepsCmd) Run(ctx context.Context, sh *shell) error {
	return c.connect(ctx, sh, func(at *conn) error {
		p, err := findPerson(ctx, at, c.Name)
		if err != nil {
			return err
		}
		done, err := api.RemoveSecondSteps.Call(ctx, at.Client, control.PersonRef{Person: p.ID})
		if err != nil {
			return err
		}
		return sh.result(done, func() { sh.say(msgStepsGone, p.Name) })
	})
}
