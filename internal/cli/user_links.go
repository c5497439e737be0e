package cli

import (
	"context"

	"patchbay/internal/api"
	"patchbay/internal/control"
	"patchbay/internal/i18n"
)

type userLinksCmd struct {
	User        string `help:"Account whose links are listed; default: all accounts." placeholder:"NAME"`
	targetFlags `embed:""`
}

// Help returns the command's detailed help with examples.
func (userLinksCmd) Help() string {
	return `A link says as whom of the OpenID provider (oidc.issuer) an account may sign in. People link their accounts themselves, on the settings page of the console.

Examples:

    patchbay user links
    patchbay user links --user ada --json`
}

const (
	msgIssuer     = i18n.Message("ISSUER")
	msgLinkedAs   = i18n.Message("LINKED AS")
	msgLinkAway   = i18n.Message("%s can no longer sign in as %s.")
	msgLinkedWhen = i18n.Message("LINKED")
)

// Run lists the links.
func (c *userLinksCmd) Run(ctx context.Context, sh *shell) error {
	return c.connect(ctx, sh, func(at *conn) error {
		list, err := api.Links.Call(ctx, at.Client, control.LinkQuery{User: c.User})
		if err != nil {
			return err
		}
		return sh.result(list.Links, func() {
			var rows [][]string
			for _, l := range list.Links {
				rows = append(rows, []string{l.ID, l.PersonName, l.Label, l.Issuer, sh.when(l.Created),
					sh.when(l.Used)})
			}
			sh.table([]i18n.Message{"ID", msgUser, msgLinkedAs, msgIssuer, msgLinkedWhen, msgUsed}, rows)
		})
	})
}

type userUnlinkCmd struct {
	ID          string `arg:"" name:"id" help:"Id, as listed by user links."`
	targetFlags `embed:""`
}

// Help returns the command's detailed help with examples.
func (userUnlinkCmd) Help() string {
	return `Browsers that are signed in stay so. With oidc.create, whoever is in oidc.allow gets a new account at the next sign-in.

Example:

    patchbay user unlink 5f1d7a84e96d0b33`
}

// Run removes the link.
func (c *userUnlinkCmd) Run(ctx context.Context, sh *shell) error {
	return c.connect(ctx, sh, func(at *conn) error {
		l, err := api.RemoveLink.Call(ctx, at.Client, control.LinkRef{Link: c.ID})
		if err != nil {
			return err
		}
		return sh.result(map[string]any{"id": c.ID, "removed": true},
			func() { sh.say(msgLinkAway, l.PersonName, l.Label) })
	})
}
