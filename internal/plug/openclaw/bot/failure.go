package bot

import (
	"context"
	"errors"
	"strings"

	"patchbay/internal/i18n"
	"patchbay/internal/plug/openclaw/client"
	"patchbay/internal/plug/openclaw/wire"
	"patchbay/internal/talk"
)

// Short texts for askers.
const (
	msgNoGateway = i18n.Message("the OpenClaw gateway cannot be reached")
	msgNotIn     = i18n.Message("the OpenClaw gateway does not let us in")
	msgCert      = i18n.Message("the certificate of the OpenClaw gateway is not accepted")
	msgNewCert   = i18n.Message("the certificate of the OpenClaw gateway has changed")
	msgUnpaired  = i18n.Message("the OpenClaw gateway's owner has not approved us yet")
	msgStarting  = i18n.Message("the OpenClaw gateway is starting")
	msgNoAgent   = i18n.Message("the gateway has no such agent")
	msgNotTaken  = i18n.Message("the gateway did not accept the message")
	msgLarge     = i18n.Message("the picture is too large for the gateway")
	msgTooMuch   = i18n.Message("the message is too large for the gateway")
	msgAborted   = i18n.Message("the answer was stopped")
	msgVanished  = i18n.Message("the gateway restarted and the answer is lost, please ask again")
	msgKey       = i18n.Message("the model refused the gateway's key")
	msgSpent     = i18n.Message("the model's account has no credit left")
	msgThrottled = i18n.Message("the model is too busy, try again in a moment")
	msgServer    = i18n.Message("the model's server has a problem")
	msgRefused   = i18n.Message("the model did not accept the message")
	msgDeclined  = i18n.Message("the model declined to answer")
	msgContext   = i18n.Message("the conversation is too long for the model")
	msgFailed    = i18n.Message("the agent failed")
	msgRewritten = i18n.Message("(the agent has rewritten its answer:)")
)

// maxCause limits the gateway's text in a log, in characters.
const maxCause = 300

func clip(s string) string {
	r := []rune(strings.Join(strings.Fields(strings.ToValidUTF8(s, "\ufffd")), " "))
	if len(r) > maxCause {
		r = append(r[:maxCause], '…')
	}
	return string(r)
}

// answerError converts the error that ended a turn into the error of [Bot.Answer].
func (b *Bot) answerError(ctx context.Context, turn *talk.Turn, err error) error {
	if err == nil {
		return nil
	}
	if e, ok := errors.AsType[*emitError](err); ok {
		return e.err
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	f := failure(turn.Lang, err)
	b.log.WarnContext(ctx, "openclaw: the agent failed", "turn", turn.ID, "code", string(f.Code), "error", f.Cause)
	return f
}

// failure converts an error for the asker.
func failure(l i18n.Lang, err error) *talk.Failure {
	if f, ok := errors.AsType[*talk.Failure](err); ok {
		return f
	}
	if t, ok := errors.AsType[*client.ConnectionError](err); ok {
		return &talk.Failure{Code: talk.Offline, Told: connectionErrorMessage(t).In(l), Cause: t.Error()}
	}
	if e, ok := errors.AsType[*wire.Error](err); ok {
		say := msgNotTaken
		switch {
		case strings.HasPrefix(e.Message, "Agent "):
			say = msgNoAgent
		case e.Code == wire.Unavailable:
			say = msgStarting
		case e.Code == wire.Forbidden || e.Code == wire.NotPaired:
			say = msgNotIn
		}
		return &talk.Failure{Code: talk.BotFailed, Told: say.In(l), Cause: clip(e.Error())}
	}
	switch {
	case errors.Is(err, client.ErrTooLarge):
		return talk.Fail(talk.Unreadable, msgTooMuch.In(l), err)
	case errors.Is(err, errTakenForCommand):
		return talk.Fail(talk.NoAnswer, "", err)
	case errors.Is(err, errRunUnknown):
		return talk.Fail(talk.Lost, msgVanished.In(l), err)
	case errors.Is(err, errDeadline), errors.Is(err, context.DeadlineExceeded):
		return talk.Fail(talk.TimedOut, "", err)
	}
	return talk.Fail(talk.BotFailed, "", err)
}

// connectionErrorMessage returns the asker's text for a connection error. The remedy is for the
// owner.
func connectionErrorMessage(t *client.ConnectionError) i18n.Message {
	switch t.Problem {
	case client.Pairing:
		return msgUnpaired
	case client.Untrusted:
		return msgCert
	case client.Changed:
		return msgNewCert
	case client.Token, client.Scopes, client.Identity, client.Version, client.Refused, client.Removed:
		return msgNotIn
	case client.Starting:
		return msgStarting
	}
	return msgNoGateway
}

// runFailure returns the failure for a failed run.
func runFailure(l i18n.Lang, e *wire.ChatEvent) *talk.Failure {
	f := &talk.Failure{Code: talk.BotFailed, Told: runErrorMessage(e).In(l), Cause: clip(e.ErrorMessage)}
	if e.ErrorKind == "timeout" {
		f.Code, f.Told = talk.TimedOut, ""
	}
	return f
}

func runErrorMessage(e *wire.ChatEvent) i18n.Message {
	switch e.ErrorKind {
	case "refusal":
		return msgDeclined
	case "rate_limit":
		return msgThrottled
	case "context_length":
		return msgContext
	}
	d := e.ErrorDetail
	if d == nil {
		return msgFailed
	}
	switch d.Failover {
	case "auth", "auth_permanent":
		return msgKey
	case "billing":
		return msgSpent
	case "rate_limit", "overloaded":
		return msgThrottled
	case "format":
		return msgRefused
	case "server_error", "timeout":
		return msgServer
	case "context_overflow":
		return msgContext
	}
	switch s := d.HTTPStatus; {
	case s == 401 || s == 403:
		return msgKey
	case s == 429:
		return msgThrottled
	case s >= 500:
		return msgServer
	case s >= 400:
		return msgRefused
	}
	return msgFailed
}
