package cli

import (
	"context"

	"patchbay/internal/api"
	"patchbay/internal/control"
	"patchbay/internal/i18n"
)

type userListCmd struct {
	targetFlags `embed:""`
}

// Help returns the command's detailed help with examples.
func (userListCmd) Help() string {
	return `Example:

    patchbay user list`
}

const (
	msgName        = i18n.Message("NAME")
	msgRole        = i18n.Message("ROLE")
	msgLang        = i18n.Message("LANG")
	msgPassword    = i18n.Message("PASSWORD")
	msgCreated     = i18n.Message("CREATED")
	msgSet         = i18n.Message("set")
	msgNone        = i18n.Message("none")
	msgTwoSteps    = i18n.Message("two steps")
	msgUserInvited = i18n.Message("invited")
	msgUserOnPause = i18n.Message("paused")
)

// Run lists the accounts.
func (c *userListCmd) Run(ctx context.Context, sh *shell) error {
	return c.connect(ctx, sh, func(at *conn) error {
		list, err := api.People.Call(ctx, at.Client, control.Empty{})
		if err != nil {
			return err
		}
		return sh.result(list.People, func() {
			var rows [][]string
			for _, p := range list.People {
				password := msgSet
				if !p.Paused.IsZero() {
					password = msgUserOnPause
				} else if !p.Invited.IsZero() {
					password = msgUserInvited
				} else if !p.HasPassword {
					password = msgNone
				} else if p.Authenticator || p.Passkeys > 0 {
					password = msgTwoSteps
				}
				rows = append(rows, []string{p.Name, p.Role, p.Lang, password.In(sh.lang), sh.when(p.Created)})
			}
			sh.table([]i18n.Message{msgName, msgRole, msgLang, msgPassword, msgCreated}, rows)
		})
	})
}

// findPerson finds an account by name.
func findPerson(ctx context.Context, at *conn, name string) (control.Person, error) {
	list, err := api.People.Call(ctx, at.Client, control.Empty{})
	if err != nil {
		return control.Person{}, err
	}
	for _, p := range list.People {
		if p.Name == name {
			return p, nil
		}
	}
	return control.Person{},
		i18n.Message("there is no user %q; patchbay user list lists the users").Errorf(name)
}
