package hub

import (
	"context"
	"time"

	"patchbay/internal/check"
	"patchbay/internal/i18n"
	"patchbay/internal/store"
)

// BotState is what the running server knows about a bot, for [Registry.CheckBots].
type BotState struct {
	Online      bool
	Connections int
	LastSeen    time.Time // when its peer was heard last
	Gateway     string    // version of its OpenClaw gateway, if it is known
	Problem     string    // the last one
}

const (
	msgCheckBots = i18n.Message("bots")
	msgCheckBot  = i18n.Message("bot %d (%s)")
	msgBotGood   = i18n.Message("its settings are valid")
	msgBotAway   = i18n.Message("is not connected")
	msgBotWrong  = i18n.Message("settings: %v")

	adviceAddBot  = i18n.Message("Plug one in: patchbay bot add --name lobster --kind echo%s")
	adviceConnect = i18n.Message("See whether its far side has the token and the address, and a network.")
	adviceBotSide = i18n.Message("That is to be solved on its side.")
)

// CheckName returns the name of the checks of a bot.
func CheckName(b store.Bot) i18n.Text { return msgCheckBot.With(b.Number, b.Name) }

// CheckBots checks every bot, as its kind does. States returns those of the running server by
// number; nil: no server runs.
func (r *Registry) CheckBots(ctx context.Context, to *check.Report,
	states func(context.Context) (map[int64]BotState, error)) {
	var known map[int64]BotState
	list, err := r.db.Bots.ByOwner(ctx, "")
	if err == nil && states != nil {
		known, err = states(ctx)
	}
	if err != nil {
		to.Error(msgCheckBots.With(), err, check.AdviceLog.With())
		return
	}
	if len(list) == 0 {
		to.Warn(msgCheckBots.With(), check.NothingYet.With(), adviceAddBot.With(to.Flags))
		return
	}
	for _, b := range list {
		r.checkBot(ctx, to, b, known)
	}
}

func (r *Registry) checkBot(ctx context.Context, to *check.Report, b store.Bot, known map[int64]BotState) {
	name := CheckName(b)
	k, settings, err := r.validSettings(b)
	switch {
	case err != nil:
		to.Error(name, err, check.AdviceSettings.With(b.Number, to.Flags))
	case k.Inbound && known == nil:
		to.Warn(name, check.ConnectionUnknown.With(), check.AdviceStart.With())
	case k.Inbound && known[b.Number].Problem != "":
		to.Fail(name, check.Verbatim(known[b.Number].Problem), adviceBotSide.With())
	case k.Inbound && !known[b.Number].Online:
		to.Warn(name, msgBotAway.With(), adviceConnect.With())
	case k.Inbound:
		to.OK(name, check.Connected.With())
	case k.Check != nil:
		k.Check(ctx, to, b, settings, known[b.Number])
	default:
		to.OK(name, msgBotGood.With())
	}
}

// validSettings returns the kind of a bot, and its decoded settings if all of its settings are
// valid.
func (r *Registry) validSettings(b store.Bot) (k Kind, settings any, err error) {
	if k, err = r.Kind(b.Kind); err != nil {
		return k, nil, err
	}
	for _, make := range r.schema(k) {
		settings = make() // the last one is the kind's
		if err := r.Settings(b, settings); err != nil {
			return k, nil, err
		}
		if v, ok := settings.(interface{ Validate() error }); ok {
			if err := v.Validate(); err != nil {
				return k, nil, msgBotWrong.Errorf(err)
			}
		}
	}
	return k, settings, nil
}
