package main

import (
	"context"
	"fmt"
	"strconv"

	"patchbay/internal/app"
	"patchbay/internal/control"
	"patchbay/internal/i18n"
	"patchbay/internal/store"
)

type botListCmd struct {
	dataFlags   `embed:""`
	serverFlags `embed:""`
}

// Help returns the command's detailed help with examples.
func (botListCmd) Help() string {
	return `Whether bots are connected is known only while a server runs.

Examples:

    patchbay bot list
    patchbay bot list --json
    patchbay bot list --server https://board.example.org --key $KEY`
}

// botRow is a bot in the list.
type botRow struct {
	store.Bot
	control.Health
	OwnerName string `json:"owner_name,omitempty"`
	// Online is nil if unknown.
	Online  *bool  `json:"online,omitempty"`
	Problem string `json:"problem,omitempty"`
}

// Run lists the bots.
func (c *botListCmd) Run(ctx context.Context, sh *shell) error {
	r, err := c.remote(sh)
	if err != nil {
		return err
	}
	if r != nil {
		list, err := r.bots(ctx)
		if err != nil {
			return err
		}
		return sh.botTable(liveRows(list), "")
	}
	return c.withData(ctx, sh, func(b *app.Base) error {
		rows, err := localRows(ctx, sh, b)
		if err != nil {
			return err
		}
		return sh.botTable(rows, c.retryFlags())
	})
}

// localRows lists the bots of a data directory, with the state from its running server, if there is
// one.
func localRows(ctx context.Context, sh *shell, b *app.Base) ([]botRow, error) {
	var rows []botRow
	r, err := findRunning(ctx, sh, b.Config)
	switch {
	case err != nil:
		return nil, err
	case r != nil:
		list, err := r.bots(ctx)
		if err != nil {
			return nil, err
		}
		rows = liveRows(list)
	default:
		bots, err := b.Store.Bots.ByOwner(ctx, "")
		if err != nil {
			return nil, err
		}
		for _, bot := range bots {
			rows = append(rows, botRow{Bot: bot})
		}
	}
	people, err := names(ctx, b)
	for i := range rows {
		rows[i].OwnerName = people[rows[i].Owner]
	}
	return rows, err
}

func liveRows(list []control.BotStatus) []botRow {
	var rows []botRow
	for _, s := range list {
		rows = append(rows, botRow{Bot: s.Bot, Health: s.Health, Online: &s.Online, Problem: s.Problem})
	}
	return rows
}

const (
	msgID           = i18n.Message("ID")
	msgKind         = i18n.Message("KIND")
	msgOwner        = i18n.Message("OWNER")
	msgSeen         = i18n.Message("LAST SEEN")
	msgOnline       = i18n.Message("online")
	msgOffline      = i18n.Message("offline")
	msgNotAsked     = i18n.Message("not asked yet")
	msgFailingSince = i18n.Message("failing since %s")
	msgReady        = i18n.Message("ready")
	msgNoBots       = i18n.Message("There are no bots yet. Plug one in: patchbay bot add --name lobster --kind echo%s")
)

func (sh *shell) botTable(rows []botRow, again string) error {
	if rows == nil {
		rows = []botRow{}
	}
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
	case r.State == control.BotUnasked:
		return msgNotAsked.In(sh.lang)
	case r.State == control.BotFailing:
		return msgFailingSince.In(sh.lang, sh.when(r.FailingSince))
	case r.State == control.BotReady:
		return msgReady.In(sh.lang)
	case !*r.Online:
		return msgOffline.In(sh.lang)
	case r.Seen.IsZero() && r.Connections == 0:
		return msgReady.In(sh.lang)
	case r.Connections > 1: // two plugins with one token: the owner should know
		return fmt.Sprintf("%s ×%d", msgOnline.In(sh.lang), r.Connections)
	}
	return msgOnline.In(sh.lang)
}
