package cli

import (
	"context"
	"fmt"
	"strconv"

	"patchbay/internal/api"
	"patchbay/internal/control"
	"patchbay/internal/i18n"
)

type botListCmd struct {
	targetFlags `embed:""`
}

// Help returns the command's detailed help with examples.
func (botListCmd) Help() string {
	return `The connection status is known only while a server runs.

Examples:

    patchbay bot list
    patchbay bot list --json
    patchbay bot list --server https://board.example.org --key $KEY`
}

// botRow is a bot in the list.
type botRow struct {
	control.BotStatus
	Online *bool `json:"online,omitempty"` // nil if unknown
}

// newBotRow returns a bot for output. Without a server it is unknown whether the bot is connected.
func newBotRow(b control.BotStatus, local bool) botRow {
	if local {
		return botRow{BotStatus: b}
	}
	return botRow{b, &b.Online}
}

// Run lists the bots.
func (c *botListCmd) Run(ctx context.Context, sh *shell) error {
	return c.connect(ctx, sh, func(at *conn) error {
		list, err := api.Bots.Call(ctx, at.Client, struct{}{})
		if err != nil {
			return err
		}
		rows := make([]botRow, len(list.Bots))
		for i, b := range list.Bots {
			rows[i] = newBotRow(b, at.local)
		}
		return sh.botTable(rows, c.retryFlags())
	})
}

const (
	msgID           = i18n.Message("ID")
	msgKind         = i18n.Message("KIND")
	msgOwner        = i18n.Message("OWNER")
	msgSeen         = i18n.Message("LAST SEEN")
	msgOnline       = i18n.Message("online")
	msgOffline      = i18n.Message("offline")
	msgReconnecting = i18n.Message("reconnecting")
	msgNotAsked     = i18n.Message("not asked yet")
	msgFailingSince = i18n.Message("failing since %s")
	msgReady        = i18n.Message("ready")
	msgNoBots       = i18n.Message("There are no bots yet. Add one: patchbay bot add --name lobster --kind echo%s")
)

func (sh *shell) botTable(rows []botRow, again string) error {
	return sh.result(rows, func() {
		if len(rows) == 0 {
			sh.say(msgNoBots, again)
			return
		}
		var cells [][]string
		for _, r := range rows {
			seen := ""
			if !r.Seen.IsZero() {
				seen = sh.when(r.Seen)
			}
			cells = append(cells, []string{strconv.FormatInt(r.Number, 10), r.Name, r.Kind, r.OwnerName,
				botState(sh, r), seen, r.Problem})
		}
		sh.table([]i18n.Message{msgID, msgName, msgKind, msgOwner, msgState, msgSeen, i18n.Message("")}, cells)
	})
}

// botState returns a text about whether a bot can be asked, as far as known.
func botState(sh *shell, r botRow) string {
	switch {
	case r.Online == nil:
		return "–"
	case r.Code == control.NodeUntrusted:
		return msgUntrusted.In(sh.lang)
	case r.Code == control.NodeChanged:
		return msgCertChanged.In(sh.lang)
	case r.State == control.BotUnasked:
		return msgNotAsked.In(sh.lang)
	case r.State == control.BotFailing:
		return msgFailingSince.In(sh.lang, sh.when(r.FailingSince))
	case r.State == control.BotReady:
		return msgReady.In(sh.lang)
	case r.Reconnecting:
		return msgReconnecting.In(sh.lang)
	case !*r.Online:
		return msgOffline.In(sh.lang)
	case r.Seen.IsZero() && r.Connections == 0:
		return msgReady.In(sh.lang)
	case r.Connections > 1: // two plugins with one token: the owner should know
		return fmt.Sprintf("%s ×%d", msgOnline.In(sh.lang), r.Connections)
	}
	return msgOnline.In(sh.lang)
}
