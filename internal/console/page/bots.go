package page

import (
	"patchbay/internal/control"
	"patchbay/internal/i18n"
)

const (
	msgBotReady          = i18n.Message("Ready")
	msgBotUnasked        = i18n.Message("Not asked yet")
	msgBotConnected      = i18n.Message("Connected")
	msgBotConnectedTimes = i18n.Message("Connected ×%d")
	msgBotFailing        = i18n.Message("Failing")
	msgBotAwaited        = i18n.Message("Waiting for its first connection")
	msgBotReconnecting   = i18n.Message("Reconnecting")
	msgBotAway           = i18n.Message("Not connected")
)

// States of connections to OpenClaw gateways whose certificate is not accepted.
const (
	MsgUntrusted   = i18n.Message("Certificate not accepted")
	MsgCertChanged = i18n.Message("Certificate changed")
)

// BotState returns the status light of a bot and its text, the same on every page.
func BotState(v *Visit, b control.BotStatus) (State, string) {
	connects := v.Instance.Control.IsInbound(b.Kind)
	switch {
	case b.Code == control.NodeUntrusted:
		return Bad, v.Text(MsgUntrusted)
	case b.Code == control.NodeChanged:
		return Bad, v.Text(MsgCertChanged)
	case b.Problem != "":
		return Bad, v.Text(msgBotFailing)
	case b.Reconnecting:
		return Wait, v.Text(msgBotReconnecting)
	case b.State == control.BotUnasked:
		return Off, v.Text(msgBotUnasked)
	case b.Online && !connects && b.Connections == 0:
		return On, v.Text(msgBotReady)
	case b.Online && b.Connections > 1:
		return On, v.Text(msgBotConnectedTimes, b.Connections)
	case b.Online:
		return On, v.Text(msgBotConnected)
	case b.Heard().IsZero():
		return Wait, v.Text(msgBotAwaited)
	default:
		return Off, v.Text(msgBotAway)
	}
}
