package talk

import "patchbay/internal/i18n"

// Texts about answers, for all channels.
const (
	msgOffline     = i18n.Message("The bot is offline. Please check its connection and try again.")
	msgTimedOut    = i18n.Message("That took too long. The bot may be offline or slow; please try again later.")
	msgBusy        = i18n.Message("Too many questions are waiting. Please try again in a moment.")
	msgBotFailed   = i18n.Message("Something went wrong: %s")
	msgBotFailed0  = i18n.Message("Something went wrong. Please try again later.")
	msgLost        = i18n.Message("The connection broke before the answer was finished. Please ask again.")
	msgNoAnswer    = i18n.Message("I got no answer. Please say it again.")
	msgUnreadable  = i18n.Message("I could not make sense of that. Please try again.")
	msgNotHeard    = i18n.Message("What was said could not be recognised.")
	msgNotAllowed  = i18n.Message("You may not ask this bot, or not now.")
	msgUnreachable = i18n.Message("The bot cannot be reached. Please try again later.")
	msgNotKept     = i18n.Message("That was the answer, but it could not be kept: the server's storage fails. Try again later, and tell whoever runs it.")
	msgStopping    = i18n.Message("The server is restarting. Please ask again in a moment.")
	msgInternal    = i18n.Message("Something is wrong on our side. Please try again later.")

	// MsgWaiting has the number of questions that are answered before this one.
	MsgWaiting = i18n.Message("%d before you, one moment…")
	// MsgWaitingOne is MsgWaiting for one question.
	MsgWaitingOne = i18n.Message("One before you, one moment…")
	// MsgReconnecting says that the hub waits for the bot to reconnect.
	MsgReconnecting = i18n.Message("The bot's connection broke; waiting for it to come back…")
	// MsgStillWaiting says that what the asker was told they wait for goes on.
	MsgStillWaiting = i18n.Message("Still waiting…")
	// MsgLate introduces the answer to an earlier question.
	MsgLate = i18n.Message("Your earlier question has an answer: ")
	// MsgCut marks an incomplete answer.
	MsgCut = i18n.Message(" (unfinished)")
)

// Sentence returns the text about the failure for the person.
func (f *Failure) Sentence(l i18n.Lang) string {
	switch f.Code {
	case Offline:
		if f.Told == "" {
			return msgOffline.In(l)
		}
	case TimedOut:
		return msgTimedOut.In(l)
	case Busy:
		return msgBusy.In(l)
	case Lost:
		if f.Told == "" {
			return msgLost.In(l)
		}
	case NoAnswer:
		return msgNoAnswer.In(l)
	case NotAllowed:
		if f.Told != "" {
			return f.Told
		}
		return msgNotAllowed.In(l)
	case Unreadable:
		if f.Told != "" {
			return f.Told
		}
		return msgUnreadable.In(l)
	case NotHeard:
		return msgNotHeard.In(l)
	case Stopping:
		return msgStopping.In(l)
	case NotSaved:
		return msgNotKept.In(l)
	case Internal:
		return msgInternal.In(l)
	case Unreachable:
		if f.Told == "" {
			return msgUnreachable.In(l)
		}
	}
	if f.Told == "" {
		return msgBotFailed0.In(l)
	}
	return msgBotFailed.In(l, f.Told)
}
