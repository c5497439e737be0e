package app

import (
	"context"
	"errors"

	"patchbay/internal/control"
	"patchbay/internal/hub"
	"patchbay/internal/plug/eyeclaw"
	"patchbay/internal/store"
	"patchbay/internal/talk"
)

// plug attaches plugins to the hub, with the limits of their kind.
type plug struct{ hub *hub.Hub }

func (p plug) Attach(bot int64, b talk.Bot, concurrent, waiting int) func() {
	return p.hub.AttachBot(bot, b, hub.Limits{Concurrent: concurrent, Waiting: waiting})
}

func (p plug) Renew(bot int64) { p.hub.RenewBot(bot) }

// tokens finds the bot of a plugin's token.
type tokens struct{ registry *hub.Registry }

func (t tokens) BotByToken(ctx context.Context, token string) (eyeclaw.Bot, error) {
	b, err := t.registry.ByToken(ctx, token)
	if errors.Is(err, store.ErrNotFound) {
		return eyeclaw.Bot{}, eyeclaw.ErrUnknownToken
	}
	return eyeclaw.Bot{Number: b.Number, Kind: b.Kind}, err
}

// eyeclawHealth returns the state of a plugin's connection.
func eyeclawHealth(cable *eyeclaw.Server, bot store.Bot) control.Health {
	s, ok := cable.Status(bot.Number)
	if !ok {
		return control.Health{}
	}
	h := control.Health{Connections: s.Connections, Since: s.Since, LastSeen: s.LastSeen, Gateway: s.OpenClaw,
		Reconnecting: s.Reconnecting && s.Connections == 0}
	if s.LastErrorAt.After(s.LastAnswer) {
		h.Problem, h.Command = s.LastError, s.Command
	}
	return h
}
