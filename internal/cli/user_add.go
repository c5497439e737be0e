package cli

import (
	"context"
	"fmt"

	"patchbay/internal/api"
	"patchbay/internal/control"
	"patchbay/internal/i18n"
)

type userAddCmd struct {
	Name          string `arg:"" help:"Name of the account."`
	Role          string `help:"Role: admin (everything) or member (own bots and keys). The first account is admin." enum:"admin,member" default:"member"`
	Lang          string `help:"Language of the account, such as en; default: the terminal's." enum:"${languages}," default:""`
	PasswordStdin bool   `help:"Read the password from standard input instead of the terminal. An account without a password can own bots and keys, but cannot sign in to the console."`
	Invite        bool   `help:"Print a link with which the person chooses a password, instead of asking for one."`
	limitFlags    `embed:""`
	targetFlags   `embed:""`
}

// Help returns the command's detailed help with examples.
func (userAddCmd) Help() string {
	return `Examples:

    patchbay user add ada
    patchbay user add bob --invite --bots Home --questions 40 --shared-only
    echo "$PASSWORD" | patchbay user add bob --role member --password-stdin`
}

const (
	msgPersonAdded  = i18n.Message("%s now has an account (%s).")
	msgPasswordWhat = i18n.Message("Console password for %s (at least 8 characters; press Enter for none).")
	msgCannotSignIn = i18n.Message("%s has no password and cannot sign in to the console; set one: patchbay user passwd %s%s")
)

// Run creates the account, and the data directory if there is none.
func (c *userAddCmd) Run(ctx context.Context, sh *shell) error {
	in := control.NewPerson{Name: c.Name, Role: c.Role, Lang: c.Lang}
	if in.Lang == "" {
		in.Lang = string(sh.lang)
	}
	c.change(&in.Limits)
	in.Bots, in.Invite = withoutNone(c.Bots), c.Invite
	if c.Invite && c.PasswordStdin {
		return usage(i18n.Message("give --invite or --password-stdin, not both"))
	}
	var err error
	if c.PasswordStdin {
		if in.Password, err = sh.readPassword(ctx); err != nil {
			return err
		}
	}
	return c.connectNew(ctx, sh, func(at *conn) error {
		if _, ok := terminal(sh.stdin); ok && !c.PasswordStdin && !c.Invite {
			if in.Password, err = c.ask(ctx, sh, at); err != nil {
				return err
			}
		}
		in.NoPassword = in.Password == "" && !c.Invite
		p, err := api.AddPerson.Call(ctx, at.Client, in)
		if err != nil {
			return err
		}
		if p.Invitation != nil {
			at.completeLink(ctx, p.Invitation)
		}
		return sh.result(p, func() {
			sh.say(msgPersonAdded, p.Name, p.Role)
			if p.Invitation != nil {
				sh.showInvitation(p.Name, *p.Invitation)
				return
			}
			if in.NoPassword {
				sh.say(msgCannotSignIn, p.Name, quoteWord(p.Name), c.retryFlags())
			}
			sh.next(ctx, at, p.ID, c.retryFlags())
		})
	})
}

// ask asks for a password in the terminal, unless the name is already taken.
func (c *userAddCmd) ask(ctx context.Context, sh *shell, at *conn) (string, error) {
	if _, err := findPerson(ctx, at, c.Name); err == nil {
		return "", nil
	}
	fmt.Fprintln(sh.stderr, msgPasswordWhat.In(sh.lang, c.Name))
	return sh.askPassword(ctx)
}

const (
	msgNextBot   = i18n.Message("Next, add a bot:\n  patchbay bot add --name lobster --kind echo%s")
	msgThenServe = i18n.Message("and start the server:\n  patchbay serve%s")
)

// next tells somebody without a bot what to do next.
func (sh *shell) next(ctx context.Context, at *conn, person, again string) {
	if p, err := api.Member.Call(ctx, at.Client, control.PersonRef{Person: person}); err != nil || p.Bots > 0 {
		return
	}
	sh.say(msgNextBot, again)
	if at.local {
		sh.say(msgThenServe, again)
	}
}
