package control

import (
	"patchbay/internal/i18n"
	"patchbay/internal/talk"
)

// TurnProblem explains a failed turn to the owner of its bot.
type TurnProblem struct {
	Problem string // what happened
	Do      string // what may help; empty: nothing is known
}

// Problems of a bot and their remedies, by the code of the failure.
const (
	msgWhyOffline     = i18n.Message("The bot was not connected here.")
	msgDoPlugin       = i18n.Message("On the computer where OpenClaw runs, check that the gateway is running and that the plugin has the correct address and token. If the token is lost, create a new one in the settings.")
	msgDoGateway      = i18n.Message("Check that the gateway is running, and that its address and token in the settings are correct.")
	msgWhyTimeout     = i18n.Message("The bot did not answer in time.")
	msgDoTimeout      = i18n.Message("A model can be slow while it is loading. Try again in a moment, or allow more time in the settings.")
	msgWhyBusy        = i18n.Message("Too many questions were queued.")
	msgDoBusy         = i18n.Message("Try again in a moment, or let the bot answer more questions at the same time in the settings.")
	msgWhyLost        = i18n.Message("The connection was lost during the answer.")
	msgDoAgain        = i18n.Message("Try again. If the problem persists, check the bot's network and its log.")
	msgWhyNoAnswer    = i18n.Message("The bot ended without an answer.")
	msgWhyStopping    = i18n.Message("The server was restarting.")
	msgDoSoon         = i18n.Message("Try again in a moment.")
	msgWhyInternal    = i18n.Message("An internal error occurred.")
	msgDoInternal     = i18n.Message("See the log of the server.")
	msgWhyUnreachable = i18n.Message("The server could not connect to the bot.")
	msgWhyUnreadable  = i18n.Message("The question could not be used, such as a broken picture.")
	msgWhyNotAllowed  = i18n.Message("Who asked may not ask this bot, or not now.")
	msgDoNotAllowed   = i18n.Message("The account is paused, has asked all its questions of today, or the bot is not shared with it.")
	msgWhyNotHeard    = i18n.Message("No speech engine recognised what was said.")
	msgDoNotHeard     = i18n.Message("Whoever runs the server can see in Settings, Voice, whether an engine recognises speech, and test it.")
	msgWhyNotSaved    = i18n.Message("The answer was sent, but it could not be saved.")
	msgDoNotSaved     = i18n.Message("Check whether the disk is full, and whether the database is running.")
	msgWhyFailed      = i18n.Message("The bot reported an error: %s")
	msgWhyFailed0     = i18n.Message("The bot reported an error.")
	msgDoModel        = i18n.Message("Check the address, the name of the model and the key in the settings.")
)

// ExplainTurn explains why a bot of some kind did not answer. What the person was told is used
// where it says more than the code does; records do not keep it.
func (s *Service) ExplainTurn(f *talk.Failure, kind string, l i18n.Lang) TurnProblem {
	why, do := msgWhyFailed0, msgDoAgain
	switch f.Code {
	case talk.Offline:
		why, do = msgWhyOffline, s.connectBotAction(kind)
	case talk.TimedOut:
		why, do = msgWhyTimeout, msgDoTimeout
	case talk.Busy:
		why, do = msgWhyBusy, msgDoBusy
	case talk.Lost:
		why = msgWhyLost
	case talk.NoAnswer:
		why = msgWhyNoAnswer
	case talk.Unreadable:
		why, do = msgWhyUnreadable, ""
	case talk.NotAllowed:
		why, do = msgWhyNotAllowed, msgDoNotAllowed
	case talk.NotHeard:
		why, do = msgWhyNotHeard, msgDoNotHeard
	case talk.NotSaved:
		why, do = msgWhyNotSaved, msgDoNotSaved
	case talk.Stopping:
		why, do = msgWhyStopping, msgDoSoon
	case talk.Internal:
		why, do = msgWhyInternal, msgDoInternal
	case talk.BotFailed:
		do = s.connectBotAction(kind)
	case talk.Unreachable:
		why, do = msgWhyUnreachable, s.connectBotAction(kind)
	}
	p := TurnProblem{Problem: why.In(l)}
	if do != "" {
		p.Do = do.In(l)
	}
	switch {
	case f.Told == "":
	case f.Code == talk.BotFailed:
		p.Problem = msgWhyFailed.In(l, f.Told)
	case f.Code == talk.NotAllowed, f.Code == talk.Unreadable:
		p = TurnProblem{Problem: f.Told}
	}
	return p
}

// connectBotAction returns the remedy for a peer that is not connected or answers wrongly.
func (s *Service) connectBotAction(kind string) i18n.Message {
	switch kind {
	case "openai":
		return msgDoModel
	case "openclaw":
		return msgDoGateway
	}
	if s.Hub.Registry.IsInbound(kind) {
		return msgDoPlugin
	}
	return msgDoAgain
}
