package main

import (
	"context"
	"log/slog"
	"time"

	"patchbay/internal/app"
	"patchbay/internal/hub"
	"patchbay/internal/i18n"
	"patchbay/internal/plug/echo"
	"patchbay/internal/plug/openai"
	agents "patchbay/internal/plug/openclaw/bot"
	"patchbay/internal/plug/rokid"
	"patchbay/internal/store"
)

// modelLimit is the timeout of a test request to a model.
const modelLimit = 20 * time.Second

const (
	msgCheckBots     = i18n.Message("bots")
	msgCheckBot      = i18n.Message("bot %d (%s)")
	msgBotGood       = i18n.Message("its settings are valid")
	msgBotAnswers    = i18n.Message("the model can be asked")
	msgModelBefore   = i18n.Message("it can be asked now, but the server has met this: %s")
	msgBotConnected  = i18n.Message("is connected")
	msgBotAway       = i18n.Message("is not connected")
	msgBotUnknown    = i18n.Message("whether it is connected is known only while the server runs")
	adviceAddBot     = i18n.Message("Plug one in: patchbay bot add --name lobster --kind echo%s")
	adviceSettings   = i18n.Message("Change them with: patchbay bot set %d name=value%s")
	adviceConnect    = i18n.Message("See whether its far side has the token and the address, and a network.")
	adviceBotSide    = i18n.Message("That is to be solved on its side.")
	adviceStartFirst = i18n.Message("Start the server and look again.")
)

// bots checks every bot.
func (d *doctor) bots(ctx context.Context, b *app.Base) {
	rows, err := localRows(ctx, d.sh, b)
	if err != nil {
		d.fail(msgCheckBots.With(), d.errorText(err), adviceLook)
		return
	}
	if len(rows) == 0 {
		d.warn(msgCheckBots.With(), msgNothingYet.In(d.sh.lang), adviceAddBot, d.retryFlags)
		return
	}
	for _, r := range rows {
		bot, err := b.Store.Bots.ByNumber(ctx, r.Number)
		if err != nil {
			d.fail(msgCheckBots.With(), d.errorText(err), adviceLook)
			return
		}
		r.Bot = bot
		d.bot(ctx, b, r)
	}
}

func (d *doctor) bot(ctx context.Context, b *app.Base, r botRow) {
	name := msgCheckBot.With(r.Number, r.Name)
	if err := checkSettings(b, r.Bot); err != nil {
		d.fail(name, d.errorText(err), adviceSettings, r.Number, d.retryFlags)
		return
	}
	switch {
	case isInbound(r.Bot):
		d.connected(name, r)
	case r.Kind == "openai":
		d.model(ctx, b, name, r)
	case r.Kind == agents.KindName:
		d.agent(ctx, b, name, r)
	default:
		d.ok(name, msgBotGood)
	}
}

func (d *doctor) connected(name i18n.Text, r botRow) {
	switch {
	case r.Online == nil:
		d.warn(name, msgBotUnknown.In(d.sh.lang), adviceStartFirst)
	case r.Problem != "":
		d.fail(name, r.Problem, adviceBotSide)
	case !*r.Online:
		d.warn(name, msgBotAway.In(d.sh.lang), adviceConnect)
	default:
		d.ok(name, msgBotConnected)
	}
}

// model checks that a model answers.
func (d *doctor) model(ctx context.Context, b *app.Base, name i18n.Text, r botRow) {
	ctx, cancel := context.WithTimeout(ctx, modelLimit)
	defer cancel()
	var s openai.Settings
	err := b.Registry.Settings(r.Bot, &s)
	if err == nil {
		var m *openai.Bot
		if m, err = openai.New(s, openai.Options{Logger: slog.New(slog.DiscardHandler)}); err == nil {
			defer m.Close()
			err = m.Check(ctx)
		}
	}
	switch {
	case err != nil:
		d.fail(name, d.errorText(err), adviceSettings, r.Number, d.retryFlags)
	case r.Problem != "": // known by the server; may be about something else
		d.warn(name, msgModelBefore.In(d.sh.lang, r.Problem), adviceAgentAsk, r.Number, d.retryFlags)
	default:
		d.ok(name, msgBotAnswers)
	}
}

// checkSettings parses a bot's settings as its plug does.
func checkSettings(b *app.Base, bot store.Bot) error {
	all := []any{new(hub.Common), new(rokid.Settings)}
	switch bot.Kind {
	case "echo":
		all = append(all, new(echo.Settings))
	case "openai":
		all = append(all, new(openai.Settings))
	case agents.KindName:
		all = append(all, new(agents.Settings))
	}
	for _, s := range all {
		if err := b.Registry.Settings(bot, s); err != nil {
			return err
		}
		if v, ok := s.(interface{ Validate() error }); ok {
			if err := v.Validate(); err != nil {
				return i18n.Message("settings: %v").Errorf(err)
			}
		}
	}
	return nil
}
