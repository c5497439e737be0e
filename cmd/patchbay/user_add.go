package main

import (
	"context"

	"patchbay/internal/app"
	"patchbay/internal/control"
	"patchbay/internal/store"
	"patchbay/internal/talk"
)

type userAddCmd struct {
	Name          string `arg:"" help:"What the person is called."`
	Role          string `help:"What they may do: admin (everything) or member (their own bots and keys). The first person is admin." enum:"admin,member" default:"member"`
	Lang          string `help:"Language they are spoken to in: zh or en; without it, that of this terminal." enum:"zh,en," default:""`
	PasswordStdin bool   `help:"Read a password from standard input. Without one they cannot sign in, but own bots and keys."`
	dataFlags     `embed:""`
}

// Help is the command's examples.
func (userAddCmd) Help() string {
	return `Examples:

    patchbay user add ada
    echo "$PASSWORD" | patchbay user add bob --role member --password-stdin`
}

var sayPersonAdded = talk.Say{Zh: "已为 %s 开通账户（%s）。", En: "%s has an account now (%s)."}

// Run opens the account, and makes the data folder if there is none.
func (c *userAddCmd) Run(ctx context.Context, sh *shell) error {
	password := ""
	if c.PasswordStdin {
		var err error
		if password, err = sh.readPassword(ctx); err != nil {
			return err
		}
	}
	lang := c.Lang
	if lang == "" {
		lang = string(sh.lang)
	}
	settings, err := c.load(sh)
	if err != nil {
		return err
	}
	return withBase(ctx, sh, settings, func(b *app.Base) error {
		p, err := b.Accounts.AddPerson(ctx, c.Name, c.Role, lang, password)
		if err != nil {
			return err
		}
		if err := noteAct(ctx, b, control.ActPersonAdded, p.Name); err != nil {
			return err
		}
		return sh.result(p, func() {
			sh.say(sayPersonAdded, p.Name, p.Role)
			sh.next(ctx, b, p, c.again())
		})
	})
}

var sayNextBot = talk.Say{
	Zh: "下一步，接入一个机器人：\n  patchbay bot add --name 小龙虾 --kind echo%[1]s\n然后启动服务：\n  patchbay serve%[1]s",
	En: "Next, plug in a bot:\n  patchbay bot add --name lobster --kind echo%[1]s\nand start the server:\n  patchbay serve%[1]s",
}

// next tells somebody who has no bot yet how to go on.
func (sh *shell) next(ctx context.Context, b *app.Base, p store.Person, again string) {
	if bots, err := b.Store.Bots.ByOwner(ctx, p.ID); err == nil && len(bots) == 0 {
		sh.say(sayNextBot, again)
	}
}
