package cli

import (
	"context"

	"patchbay/internal/api"
	"patchbay/internal/control"
	"patchbay/internal/i18n"
)

type oauthListCmd struct {
	User        string `help:"Account whose programs are listed; default: all accounts." placeholder:"NAME"`
	targetFlags `embed:""`
}

// Help returns the command's detailed help with examples.
func (oauthListCmd) Help() string {
	return `A program that can sign in by OAuth, such as claude.ai, ChatGPT or Cursor, gets no key: its person lets it in with a browser. HOST is the host that the program has proved to belong to; the name is only what it says.

Examples:

    patchbay oauth list
    patchbay oauth list --user ada --json`
}

const (
	msgHostHead = i18n.Message("HOST")
)

// Run lists the programs.
func (c *oauthListCmd) Run(ctx context.Context, sh *shell) error {
	return c.connect(ctx, sh, func(at *conn) error {
		list, err := api.Grants.Call(ctx, at.Client, control.KeyQuery{User: c.User})
		if err != nil {
			return err
		}
		return sh.result(list.Grants, func() {
			var rows [][]string
			for _, g := range list.Grants {
				rows = append(rows, []string{g.ID, g.PersonName, g.Program.Name, g.Program.Host, join(g.Scopes),
					sh.when(g.Created), sh.when(g.Used), keyState(sh, g.KeyRow), sh.rules(g.Rules)})
			}
			sh.table([]i18n.Message{"ID", msgUser, msgName, msgHostHead, msgScopes, msgAsked, msgUsed, msgState,
				msgRulesHead}, rows)
		})
	})
}

type oauthRevokeCmd struct {
	ID          string `arg:"" name:"id" help:"Id, as listed by oauth list."`
	targetFlags `embed:""`
}

// Help returns the command's detailed help with examples.
func (oauthRevokeCmd) Help() string {
	return `The program is refused within a second, and its open connections end. It can ask again.

Example:

    patchbay oauth revoke 0198c4d2-7a51-7c3e-9d2f-0d6a3b1f5e77`
}

const msgGrantRevoked = i18n.Message("%s has no access any more.")

// Run ends the access of a program.
func (c *oauthRevokeCmd) Run(ctx context.Context, sh *shell) error {
	return c.connect(ctx, sh, func(at *conn) error {
		g, err := api.RevokeGrant.Call(ctx, at.Client, control.GrantRef{Grant: c.ID})
		if err != nil {
			return err
		}
		return sh.result(map[string]any{"id": c.ID, "revoked": true}, func() { sh.say(msgGrantRevoked, g.Program.Name) })
	})
}

type oauthClientListCmd struct {
	targetFlags `embed:""`
}

// Help returns the command's detailed help with examples.
func (oauthClientListCmd) Help() string {
	return `Programs that register themselves are not listed here.

Example:

    patchbay oauth client list`
}

const (
	msgRedirects = i18n.Message("REDIRECTS")
	msgSecretKey = i18n.Message("Its secret, which is shown only once: %s")
	msgClientID  = i18n.Message("%s may ask people to let it in, with the client id %s.")
	msgClientOut = i18n.Message("%s is removed; it has no access any more.")
)

// Run lists the clients.
func (c *oauthClientListCmd) Run(ctx context.Context, sh *shell) error {
	return c.connect(ctx, sh, func(at *conn) error {
		list, err := api.OAuthClients.Call(ctx, at.Client, struct{}{})
		if err != nil {
			return err
		}
		return sh.result(list.Clients, func() {
			var rows [][]string
			for _, p := range list.Clients {
				rows = append(rows, []string{p.ID, p.Name, join(p.Redirects), sh.when(p.Created), sh.when(p.Used)})
			}
			sh.table([]i18n.Message{"ID", msgName, msgRedirects, msgCreated, msgUsed}, rows)
		})
	})
}

type oauthClientAddCmd struct {
	Name        string   `help:"Name of the program, as people are asked." placeholder:"NAME" required:""`
	Redirect    []string `help:"Address at which the program gets its codes, as it shows it. Repeatable." placeholder:"URL" required:"" sep:"none"`
	Secret      bool     `help:"Also create a secret, for a program that asks for one."`
	targetFlags `embed:""`
}

// Help returns the command's detailed help with examples.
func (oauthClientAddCmd) Help() string {
	return `For programs that ask for a client id, such as the advanced settings of Claude's and ChatGPT's connectors; others register themselves. The program gets no access by that: people let it in.

Examples:

    patchbay oauth client add --name VSCode --redirect https://vscode.dev/redirect --redirect http://127.0.0.1:33418/
    patchbay oauth client add --name Claude --redirect https://claude.ai/api/mcp/auth_callback --secret`
}

// Run adds a client.
func (c *oauthClientAddCmd) Run(ctx context.Context, sh *shell) error {
	return c.connect(ctx, sh, func(at *conn) error {
		p, err := api.AddOAuthClient.Call(ctx, at.Client,
			control.NewOAuthClient{Name: c.Name, Redirects: c.Redirect, Secret: c.Secret})
		if err != nil {
			return err
		}
		return sh.result(p, func() {
			sh.say(msgClientID, p.Name, p.ID)
			if p.Secret != "" {
				sh.say(msgSecretKey, p.Secret)
			}
		})
	})
}

type oauthClientRmCmd struct {
	ID          string `arg:"" name:"id" help:"Client id, as listed by oauth client list."`
	targetFlags `embed:""`
}

// Help returns the command's detailed help with examples.
func (oauthClientRmCmd) Help() string {
	return `Everybody who has let the program in takes its access back by that.

Example:

    patchbay oauth client rm 0198c4d2-7a51-7c3e-9d2f-0d6a3b1f5e77`
}

// Run removes a client.
func (c *oauthClientRmCmd) Run(ctx context.Context, sh *shell) error {
	return c.connect(ctx, sh, func(at *conn) error {
		p, err := api.RemoveOAuthClient.Call(ctx, at.Client, control.OAuthClientRef{Client: c.ID})
		if err != nil {
			return err
		}
		return sh.result(map[string]any{"id": c.ID, "removed": true}, func() { sh.say(msgClientOut, p.Name) })
	})
}
