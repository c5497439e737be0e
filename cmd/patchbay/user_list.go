package main

import (
	"context"

	"patchbay/internal/app"
	"patchbay/internal/store"
	"patchbay/internal/talk"
)

type userListCmd struct {
	dataFlags `embed:""`
}

// Help returns the command's detailed help with examples.
func (userListCmd) Help() string {
	return `Example:

    patchbay user list`
}

var (
	sayName     = talk.Say{Zh: "名称", En: "NAME"}
	sayRole     = talk.Say{Zh: "角色", En: "ROLE"}
	sayLang     = talk.Say{Zh: "语言", En: "LANG"}
	sayPassword = talk.Say{Zh: "密码", En: "PASSWORD"}
	sayCreated  = talk.Say{Zh: "创建于", En: "CREATED"}
	saySet      = talk.Say{Zh: "已设置", En: "set"}
	sayNone     = talk.Say{Zh: "无", En: "none"}
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
				password := saySet
				if p.Password == "" {
					password = sayNone
				}
				rows = append(rows, []string{p.Name, p.Role, p.Lang, password.In(sh.lang), sh.when(p.Created)})
			}
			sh.table([]talk.Say{sayName, sayRole, sayLang, sayPassword, sayCreated}, rows)
		})
	})
}
