package main

import (
	"context"
	"log/slog"
	"time"

	"patchbay/internal/app"
	"patchbay/internal/hub"
	"patchbay/internal/plug/echo"
	"patchbay/internal/plug/openai"
	agents "patchbay/internal/plug/openclaw/bot"
	"patchbay/internal/plug/rokid"
	"patchbay/internal/store"
	"patchbay/internal/talk"
)

// modelLimit is the timeout of a test request to a model.
const modelLimit = 20 * time.Second

var (
	sayCheckBots    = talk.Say{Zh: "机器人", En: "bots"}
	sayCheckBot     = talk.Say{Zh: "机器人 %d（%s）", En: "bot %d (%s)"}
	sayBotGood      = talk.Say{Zh: "设置有效", En: "its settings are valid"}
	sayBotAnswers   = talk.Say{Zh: "模型可用", En: "the model can be asked"}
	sayModelBefore  = talk.Say{Zh: "现在可以连接，但服务上次遇到：%s", En: "it can be asked now, but the server has met this: %s"}
	sayBotConnected = talk.Say{Zh: "已连接", En: "is connected"}
	sayBotAway      = talk.Say{Zh: "没有连接", En: "is not connected"}
	sayBotUnknown   = talk.Say{Zh: "服务没有运行，不知道是否连接", En: "whether it is connected is known only while the server runs"}
	adviceAddBot    = talk.Say{Zh: "接入一个：patchbay bot add --name 小龙虾 --kind echo%s",
		En: "Plug one in: patchbay bot add --name lobster --kind echo%s"}
	adviceSettings = talk.Say{Zh: "修改：patchbay bot set %d 名称=值%s",
		En: "Change them with: patchbay bot set %d name=value%s"}
	adviceConnect = talk.Say{Zh: "检查它那边的令牌、地址和网络。",
		En: "See whether its far side has the token and the address, and a network."}
	adviceBotSide    = talk.Say{Zh: "在机器人那一侧解决。", En: "That is to be solved on its side."}
	adviceStartFirst = talk.Say{Zh: "启动服务后再检查。", En: "Start the server and look again."}
)

// bots checks every bot.
func (d *doctor) bots(ctx context.Context, b *app.Base) {
	rows, err := localRows(ctx, d.sh, b)
	if err != nil {
		d.fail(sayCheckBots, d.errorText(err), adviceLook)
		return
	}
	if len(rows) == 0 {
		d.warn(sayCheckBots, sayNothingYet.In(d.sh.lang), adviceAddBot, d.retryFlags)
		return
	}
	for _, r := range rows {
		bot, err := b.Store.Bots.ByNumber(ctx, r.Number)
		if err != nil {
			d.fail(sayCheckBots, d.errorText(err), adviceLook)
			return
		}
		r.Bot = bot
		d.bot(ctx, b, r)
	}
}

func (d *doctor) bot(ctx context.Context, b *app.Base, r botRow) {
	name := localizeBoth(sayCheckBot, r.Number, r.Name)
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
		d.ok(name, sayBotGood)
	}
}

func (d *doctor) connected(name talk.Say, r botRow) {
	switch {
	case r.Online == nil:
		d.warn(name, sayBotUnknown.In(d.sh.lang), adviceStartFirst)
	case r.Problem != "":
		d.fail(name, r.Problem, adviceBotSide)
	case !*r.Online:
		d.warn(name, sayBotAway.In(d.sh.lang), adviceConnect)
	default:
		d.ok(name, sayBotConnected)
	}
}

// model checks that a model answers.
func (d *doctor) model(ctx context.Context, b *app.Base, name talk.Say, r botRow) {
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
		d.warn(name, sayModelBefore.In(d.sh.lang, r.Problem), adviceAgentAsk, r.Number, d.retryFlags)
	default:
		d.ok(name, sayBotAnswers)
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
				return talk.Say{Zh: "设置：%v", En: "settings: %v"}.Wrong(err)
			}
		}
	}
	return nil
}
