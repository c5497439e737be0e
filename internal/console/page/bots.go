package page

import (
	"patchbay/internal/control"
	"patchbay/internal/talk"
)

var (
	sayBotReady          = talk.Say{Zh: "就绪", En: "Ready"}
	sayBotUnasked        = talk.Say{Zh: "还没有问过", En: "Not asked yet"}
	sayBotConnected      = talk.Say{Zh: "已连接", En: "Connected"}
	sayBotConnectedTimes = talk.Say{Zh: "已连接 ×%d", En: "Connected ×%d"}
	sayBotFailing        = talk.Say{Zh: "有问题", En: "Failing"}
	sayBotAwaited        = talk.Say{Zh: "等待第一次连接", En: "Waiting for its first connection"}
	sayBotAway           = talk.Say{Zh: "没有连接", En: "Not connected"}
)

// BotState returns the status light of a bot and its text, the same on every page.
func BotState(v *Visit, b control.BotStatus) (State, string) {
	connects := v.Instance.Control.Hub.Registry.IsInbound(b.Kind)
	switch {
	case b.Problem != "":
		return Bad, v.Say(sayBotFailing)
	case b.State == control.BotUnasked:
		return Off, v.Say(sayBotUnasked)
	case b.Online && !connects && b.Connections == 0:
		return On, v.Say(sayBotReady)
	case b.Online && b.Connections > 1:
		return On, v.Say(sayBotConnectedTimes, b.Connections)
	case b.Online:
		return On, v.Say(sayBotConnected)
	case b.Heard().IsZero():
		return Wait, v.Say(sayBotAwaited)
	default:
		return Off, v.Say(sayBotAway)
	}
}
