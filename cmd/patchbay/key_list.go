package main

import (
	"context"
	"strconv"
	"strings"
	"time"

	"patchbay/internal/app"
	"patchbay/internal/store"
	"patchbay/internal/talk"
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

var (
	sayUser      = talk.Say{Zh: "用户", En: "USER"}
	sayScopes    = talk.Say{Zh: "权限", En: "SCOPES"}
	sayBot       = talk.Say{Zh: "机器人", En: "BOT"}
	sayHint      = talk.Say{Zh: "开头", En: "BEGINS"}
	sayUsed      = talk.Say{Zh: "最近使用", En: "LAST USED"}
	sayState     = talk.Say{Zh: "状态", En: "STATE"}
	sayRulesHead = talk.Say{Zh: "工具规则", En: "TOOLS"}
	sayAny       = talk.Say{Zh: "任意", En: "any"}
	sayGood      = talk.Say{Zh: "有效", En: "good"}
	sayGoodTil   = talk.Say{Zh: "有效至 %s", En: "until %s"}
	sayExpired   = talk.Say{Zh: "已过期", En: "expired"}
	sayRevoked   = talk.Say{Zh: "已吊销", En: "revoked"}
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
			sh.table([]talk.Say{{Zh: "ID", En: "ID"}, sayUser, sayName, sayScopes, sayBot, sayHint, sayUsed, sayState,
				sayRulesHead}, rows)
		})
	})
}

func keyBot(sh *shell, k store.Key) string {
	if k.Bot == 0 {
		return sayAny.In(sh.lang)
	}
	return strconv.FormatInt(k.Bot, 10)
}

func keyState(sh *shell, k store.Key) string {
	switch {
	case !k.Revoked.IsZero():
		return sayRevoked.In(sh.lang)
	case k.Expires.IsZero():
		return sayGood.In(sh.lang)
	case k.Expires.Before(time.Now()):
		return sayExpired.In(sh.lang)
	}
	return sayGoodTil.In(sh.lang, sh.when(k.Expires))
}

func join(words []string) string { return strings.Join(words, ", ") }
