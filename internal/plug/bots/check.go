package bots

import (
	"context"

	"patchbay/internal/check"
	"patchbay/internal/hub"
	"patchbay/internal/i18n"
	"patchbay/internal/store"
)

const (
	msgBotOpen    = i18n.Message("mcp_open is on: anybody who reaches the server can ask it")
	adviceBotOpen = i18n.Message("If that is not meant: patchbay bot set %d mcp_open=%s")
)

// CheckOpen reports bots that anybody can ask.
func CheckOpen(ctx context.Context, r *check.Report, db *store.DB, registry *hub.Registry) {
	all, err := db.Bots.ByOwner(ctx, "")
	if err != nil {
		return // the check of the bots reports it
	}
	for _, b := range all {
		var s Settings
		if registry.Settings(b, &s) == nil && s.MCPOpen {
			r.Warn(hub.CheckName(b), msgBotOpen.With(), adviceBotOpen.With(b.Number, r.Flags))
		}
	}
}
