package cli

import (
	"context"

	"patchbay/internal/api"
	"patchbay/internal/control"
	"patchbay/internal/i18n"
)

type userInviteCmd struct {
	Name        string `arg:"" help:"Name of the account."`
	Withdraw    bool   `help:"Make the link useless instead."`
	targetFlags `embed:""`
}

// Help returns the command's detailed help with examples.
func (userInviteCmd) Help() string {
	return `Whoever opens the link chooses the password of the account, once, within seven days, and is signed in. An earlier link ends. For somebody who has a password, it replaces a forgotten one.

Examples:

    patchbay user invite bob
    patchbay user invite bob --json
    patchbay user invite bob --withdraw`
}

const (
	msgInvited   = i18n.Message("Send this link to %s. It is valid once, until %s:\n\n  %s\n")
	msgWithdrawn = i18n.Message("The invitation of %s is withdrawn.")
)

// Run makes the link.
func (c *userInviteCmd) Run(ctx context.Context, sh *shell) error {
	return c.connect(ctx, sh, func(at *conn) error {
		p, err := findPerson(ctx, at, c.Name)
		if err != nil {
			return err
		}
		ref := control.PersonRef{Person: p.ID}
		if c.Withdraw {
			done, err := api.Uninvite.Call(ctx, at.Client, ref)
			if err != nil {
				return err
			}
			return sh.result(done, func() { sh.say(msgWithdrawn, p.Name) })
		}
		link, err := api.InvitePerson.Call(ctx, at.Client, ref)
		if err != nil {
			return err
		}
		at.completeLink(ctx, &link)
		return sh.result(link, func() { sh.showInvitation(p.Name, link) })
	})
}

// completeLink adds the server's address, as far as this command knows it.
func (at *conn) completeLink(ctx context.Context, link *control.PersonInvitation) {
	if link.URL == "" {
		address, _ := at.address(ctx)
		link.URL = address + link.Path
	}
}

func (sh *shell) showInvitation(name string, link control.PersonInvitation) {
	sh.say(msgInvited, name, sh.when(link.Expires), link.URL)
}
