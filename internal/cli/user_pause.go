package cli

import (
	"context"

	"patchbay/internal/control"
	"patchbay/internal/i18n"
)

type userPauseCmd struct {
	Name        string `arg:"" help:"Name of the account."`
	targetFlags `embed:""`
}

// Help returns the command's detailed help with examples.
func (userPauseCmd) Help() string {
	return `A paused account keeps everything, and does nothing: its browsers are signed out, its keys and programs are refused, its devices are told so when they ask, and no reminders are sent. The last administrator cannot be paused.

Examples:

    patchbay user pause bob
    patchbay user resume bob`
}

const (
	msgUserPaused  = i18n.Message("%s is paused.")
	msgUserResumed = i18n.Message("%s is not paused any more.")
)

// Run pauses the account.
func (c *userPauseCmd) Run(ctx context.Context, sh *shell) error {
	return c.pause(ctx, sh, c.Name, true, msgUserPaused)
}

type userResumeCmd struct {
	Name        string `arg:"" help:"Name of the account."`
	targetFlags `embed:""`
}

// Help returns the command's detailed help with examples.
func (userResumeCmd) Help() string {
	return `Keys, programs and devices go on as before. Browsers have to sign in again.

Example:

    patchbay user resume bob`
}

// Run resumes the account.
func (c *userResumeCmd) Run(ctx context.Context, sh *shell) error {
	return c.pause(ctx, sh, c.Name, false, msgUserResumed)
}

// pause pauses or resumes an account.
func (f targetFlags) pause(ctx context.Context, sh *shell, name string, paused bool, done i18n.Message) error {
	return f.connect(ctx, sh, func(at *conn) error {
		p, err := findPerson(ctx, at, name)
		if err != nil {
			return err
		}
		return sh.changePerson(ctx, at, control.PersonChange{PersonRef: control.PersonRef{Person: p.ID},
			Paused: &paused}, done)
	})
}
