package main

import (
	"context"

	"patchbay/internal/app"
	"patchbay/internal/i18n"
	"patchbay/internal/store"
)

type userListCmd struct {
	dataFlags `embed:""`
}

// Help returns the command's detailed help with examples.
func (userListCmd) Help() string {
	return `Example:

    patchbay user list`
}

const (
	msgName     = i18n.Message("NAME")
	msgRole     = i18n.Message("ROLE")
	msgLang     = i18n.Message("LANG")
	msgPassword = i18n.Message("PASSWORD")
	msgCreated  = i18n.Message("CREATED")
	msgSet      = i18n.Message("set")
	msgNone     = i18n.Message("none")
)

// Run lists the accounts.
func (c *userListCmd) Run(ctx context.Context, sh *shell) error {
	return c.withData(ctx, sh, func(b *app.Base) error {
		people, err := b.Store.People.All(ctx)
		if err != nil {
			return err
		}
		if people == nil {
			people = []store.Person{}
		}
		return sh.result(people, func() {
			var rows [][]string
			for _, p := range people {
				password := msgSet
				if p.Password == "" {
					password = msgNone
				}
				rows = append(rows, []string{p.Name, p.Role, p.Lang, password.In(sh.lang), sh.when(p.Created)})
			}
			sh.table([]i18n.Message{msgName, msgRole, msgLang, msgPassword, msgCreated}, rows)
		})
	})
}
