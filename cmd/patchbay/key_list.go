package main

import (
	"context"
	"strconv"
	"strings"
	"time"

	"patchbay/internal/app"
	"patchbay/internal/i18n"
	"patchbay/internal/store"
)

type keyListCmd struct {
	User      string `help:"Whose keys; without it, everybody's." placeholder:"NAME"`
	dataFlags `embed:""`
}

// Help returns the command's detailed help with examples.
func (keyListCmd) Help() string {
	return `Examples:

    patchbay key list
    patchbay key list --user ada --json`
}

const (
	msgUser      = i18n.Message("USER")
	msgScopes    = i18n.Message("SCOPES")
	msgBot       = i18n.Message("BOT")
	msgHint      = i18n.Message("BEGINS")
	msgUsed      = i18n.Message("LAST USED")
	msgState     = i18n.Message("STATE")
	msgRulesHead = i18n.Message("TOOLS")
	msgAny       = i18n.Message("any")
	msgGood      = i18n.Message("good")
	msgGoodTil   = i18n.Message("until %s")
	msgExpired   = i18n.Message("expired")
	msgRevoked   = i18n.Message("revoked")
)

// Run lists the keys.
func (c *keyListCmd) Run(ctx context.Context, sh *shell) error {
	return c.withData(ctx, sh, func(b *app.Base) error {
		whose := ""
		if c.User != "" {
			p, err := person(ctx, b, c.User)
			if err != nil {
				return err
			}
			whose = p.ID
		}
		keys, err := b.Store.Keys.ByPerson(ctx, whose)
		if err != nil {
			return err
		}
		people, err := names(ctx, b)
		if err != nil {
			return err
		}
		list := []keyRow{}
		for _, k := range keys {
			row, err := readKeyRow(k)
			if err != nil {
				return err
			}
			list = append(list, row)
		}
		return sh.result(list, func() {
			var rows [][]string
			for _, k := range list {
				rows = append(rows, []string{k.ID, people[k.Person], k.Name, join(k.Scopes), keyBot(sh, k.Key), k.Hint,
					sh.when(k.Used), keyState(sh, k.Key), sh.rules(k.Rules)})
			}
			sh.table([]i18n.Message{"ID", msgUser, msgName, msgScopes, msgBot, msgHint, msgUsed, msgState,
				msgRulesHead}, rows)
		})
	})
}

func keyBot(sh *shell, k store.Key) string {
	if k.Bot == 0 {
		return msgAny.In(sh.lang)
	}
	return strconv.FormatInt(k.Bot, 10)
}

func keyState(sh *shell, k store.Key) string {
	switch {
	case !k.Revoked.IsZero():
		return msgRevoked.In(sh.lang)
	case k.Expires.IsZero():
		return msgGood.In(sh.lang)
	case k.Expires.Before(time.Now()):
		return msgExpired.In(sh.lang)
	}
	return msgGoodTil.In(sh.lang, sh.when(k.Expires))
}

func join(words []string) string { return strings.Join(words, ", ") }
