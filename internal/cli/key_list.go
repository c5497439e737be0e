package cli

import (
	"context"
	"strconv"
	"strings"
	"time"

	"patchbay/internal/api"
	"patchbay/internal/control"
	"patchbay/internal/i18n"
)

type keyListCmd struct {
	User        string `help:"Account whose keys are listed; default: all accounts." placeholder:"NAME"`
	targetFlags `embed:""`
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

// keyHint returns how the secret of a key begins. A key that was made by OAuth has none of its own.
func keyHint(k *control.KeyRow) string {
	if k.Client != "" {
		return "(OAuth)"
	}
	return k.Hint
}

// Run lists the keys.
func (c *keyListCmd) Run(ctx context.Context, sh *shell) error {
	return c.connect(ctx, sh, func(at *conn) error {
		list, err := api.Keys.Call(ctx, at.Client, control.KeyQuery{User: c.User})
		if err != nil {
			return err
		}
		return sh.result(list.Keys, func() {
			var rows [][]string
			for _, k := range list.Keys {
				rows = append(rows, []string{k.ID, k.PersonName, k.Name, join(k.Scopes), keyBot(sh, k), keyHint(&k),
					sh.when(k.Used), keyState(sh, k), sh.rules(k.Rules)})
			}
			sh.table([]i18n.Message{"ID", msgUser, msgName, msgScopes, msgBot, msgHint, msgUsed, msgState,
				msgRulesHead}, rows)
		})
	})
}

func keyBot(sh *shell, k control.KeyRow) string {
	if k.Bot == 0 {
		return msgAny.In(sh.lang)
	}
	return strconv.FormatInt(k.Bot, 10)
}

func keyState(sh *shell, k control.KeyRow) string {
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
