package main

import (
	"context"
	"fmt"

	"patchbay/internal/app"
	"patchbay/internal/config"
	"patchbay/internal/control"
	"patchbay/internal/i18n"
	"patchbay/internal/store"
)

type userAddCmd struct {
	Name          string `arg:"" help:"What the person is called."`
	Role          string `help:"What they may do: admin (everything) or member (their own bots and keys). The first person is admin." enum:"admin,member" default:"member"`
	Lang          string `help:"Language of the person, such as en; without it, that of this terminal." enum:"${languages}," default:""`
	PasswordStdin bool   `help:"Read a password from standard input instead of asking for it in the terminal. Without one they cannot sign in to the console, but own bots and keys."`
	dataFlags     `embed:""`
}

// Help returns the command's detailed help with examples.
func (userAddCmd) Help() string {
	return `Examples:

    patchbay user add ada
    echo "$PASSWORD" | patchbay user add bob --role member --password-stdin`
}

const (
	msgPersonAdded  = i18n.Message("%s has an account now (%s).")
	msgPasswordWhat = i18n.Message("A password for %s to sign in to the console with (at least 8 characters; none: press Enter).")
	msgCannotSignIn = i18n.Message("%s has no password and cannot sign in to the console; set one: patchbay user passwd %s%s")
)

// Run creates the account, and the data directory if there is none.
func (c *userAddCmd) Run(ctx context.Context, sh *shell) error {
	lang := c.Lang
	if lang == "" {
		lang = string(sh.lang)
	}
	settings, err := c.load(sh)
	if err != nil {
		return err
	}
	password := ""
	if c.PasswordStdin {
		if password, err = sh.readPassword(ctx); err != nil {
			return err
		}
	}
	return withBase(ctx, sh, settings, func(b *app.Base) error {
		if _, ok := terminal(sh.stdin); ok && !c.PasswordStdin {
			if password, err = c.ask(ctx, sh, b); err != nil {
				return err
			}
		}
		p, err := b.Accounts.AddPerson(ctx, c.Name, c.Role, lang, password)
		if err != nil {
			return err
		}
		if err := recordAdminEvent(ctx, b, control.EventPersonAdded, p.Name); err != nil {
			return err
		}
		return sh.result(p, func() {
			sh.say(msgPersonAdded, p.Name, p.Role)
			if password == "" {
				sh.say(msgCannotSignIn, p.Name, quoteWord(p.Name), c.retryFlags())
			}
			sh.next(ctx, b, settings, p, c.retryFlags())
		})
	})
}

// ask asks for a password in the terminal, unless the name is already taken.
func (c *userAddCmd) ask(ctx context.Context, sh *shell, b *app.Base) (string, error) {
	if _, err := b.Store.People.ByName(ctx, c.Name); err == nil {
		return "", nil
	}
	fmt.Fprintln(sh.stderr, msgPasswordWhat.In(sh.lang, c.Name))
	return sh.askPassword(ctx)
}

const (
	msgNextBot   = i18n.Message("Next, plug in a bot:\n  patchbay bot add --name lobster --kind echo%s")
	msgThenServe = i18n.Message("and start the server:\n  patchbay serve%s")
)

// next tells somebody without a bot what to do next.
func (sh *shell) next(ctx context.Context, b *app.Base, c *config.Config, p store.Person, again string) {
	if bots, err := b.Store.Bots.ByOwner(ctx, p.ID); err != nil || len(bots) > 0 {
		return
	}
	sh.say(msgNextBot, again)
	if r, err := findRunning(ctx, sh, c); r == nil && err == nil {
		sh.say(msgThenServe, again)
	}
}
