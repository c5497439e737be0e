package bot

import (
	"context"
	"errors"
	"strings"

	"patchbay/internal/plug/openclaw/client"
	"patchbay/internal/plug/openclaw/wire"
	"patchbay/internal/talk"
)

// Short texts for askers.
var (
	sayNoGateway = talk.Say{Zh: "连不上 OpenClaw 网关", En: "the OpenClaw gateway cannot be reached"}
	sayNotIn     = talk.Say{Zh: "OpenClaw 网关不让我们进去", En: "the OpenClaw gateway does not let us in"}
	sayUnpaired  = talk.Say{Zh: "OpenClaw 网关的主人还没有批准我们", En: "the OpenClaw gateway's owner has not approved us yet"}
	sayStarting  = talk.Say{Zh: "OpenClaw 网关正在启动", En: "the OpenClaw gateway is starting"}
	sayNoAgent   = talk.Say{Zh: "网关里没有这个智能体", En: "the gateway has no such agent"}
	sayNotTaken  = talk.Say{Zh: "网关不接受这条消息", En: "the gateway did not accept the message"}
	sayLarge     = talk.Say{Zh: "图片太大，网关不接受", En: "the picture is too large for the gateway"}
	sayTooMuch   = talk.Say{Zh: "消息太大，网关不接受", En: "the message is too large for the gateway"}
	sayAborted   = talk.Say{Zh: "回答被中止了", En: "the answer was stopped"}
	sayVanished  = talk.Say{Zh: "网关重启，回答丢失了，请再问一次",
		En: "the gateway restarted and the answer is lost, please ask again"}
	sayKey       = talk.Say{Zh: "模型拒绝了网关的密钥", En: "the model refused the gateway's key"}
	saySpent     = talk.Say{Zh: "模型账户没有余额了", En: "the model's account has no credit left"}
	sayThrottled = talk.Say{Zh: "模型太忙了，请稍后再试", En: "the model is too busy, try again in a moment"}
	sayServer    = talk.Say{Zh: "模型服务出了故障", En: "the model's server has a problem"}
	sayRefused   = talk.Say{Zh: "模型不接受这条消息", En: "the model did not accept the message"}
	sayDeclined  = talk.Say{Zh: "模型拒绝回答", En: "the model declined to answer"}
	sayContext   = talk.Say{Zh: "对话太长，模型处理不了", En: "the conversation is too long for the model"}
	sayFailed    = talk.Say{Zh: "智能体出错了", En: "the agent failed"}
	sayRewritten = talk.Say{Zh: "（智能体改写了回答：）", En: "(the agent has rewritten its answer:)"}
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
func failure(l talk.Lang, err error) *talk.Failure {
	if f, ok := errors.AsType[*talk.Failure](err); ok {
		return f
	}
	if t, ok := errors.AsType[*client.ConnectionError](err); ok {
		return &talk.Failure{Code: talk.Offline, Told: connectionErrorMessage(t).In(l), Cause: t.Error()}
	}
	if e, ok := errors.AsType[*wire.Error](err); ok {
		say := sayNotTaken
		switch {
		case strings.HasPrefix(e.Message, "Agent "):
			say = sayNoAgent
		case e.Code == wire.Unavailable:
			say = sayStarting
		case e.Code == wire.Forbidden || e.Code == wire.NotPaired:
			say = sayNotIn
		}
		return &talk.Failure{Code: talk.BotFailed, Told: say.In(l), Cause: clip(e.Error())}
	}
	switch {
	case errors.Is(err, client.ErrTooLarge):
		return talk.Fail(talk.Unreadable, sayTooMuch.In(l), err)
	case errors.Is(err, errTakenForCommand):
		return talk.Fail(talk.NoAnswer, "", err)
	case errors.Is(err, errRunUnknown):
		return talk.Fail(talk.Lost, sayVanished.In(l), err)
	case errors.Is(err, errDeadline), errors.Is(err, context.DeadlineExceeded):
		return talk.Fail(talk.TimedOut, "", err)
	}
	return talk.Fail(talk.BotFailed, "", err)
}

// connectionErrorMessage returns the asker's text for a connection error. The remedy is for the
// owner.
func connectionErrorMessage(t *client.ConnectionError) talk.Say {
	switch t.Problem {
	case client.Pairing:
		return sayUnpaired
	case client.Token, client.Scopes, client.Identity, client.Version, client.Refused, client.Removed:
		return sayNotIn
	case client.Starting:
		return sayStarting
	}
	return sayNoGateway
}

// runFailure returns the failure for a failed run.
func runFailure(l talk.Lang, e *wire.ChatEvent) *talk.Failure {
	f := &talk.Failure{Code: talk.BotFailed, Told: runErrorMessage(e).In(l), Cause: clip(e.ErrorMessage)}
	if e.ErrorKind == "timeout" {
		f.Code, f.Told = talk.TimedOut, ""
	}
	return f
}

func runErrorMessage(e *wire.ChatEvent) talk.Say {
	switch e.ErrorKind {
	case "refusal":
		return sayDeclined
	case "rate_limit":
		return sayThrottled
	case "context_length":
		return sayContext
	}
	d := e.ErrorDetail
	if d == nil {
		return sayFailed
	}
	switch d.Failover {
	case "auth", "auth_permanent":
		return sayKey
	case "billing":
		return saySpent
	case "rate_limit", "overloaded":
		return sayThrottled
	case "format":
		return sayRefused
	case "server_error", "timeout":
		return sayServer
	case "context_overflow":
		return sayContext
	}
	switch s := d.HTTPStatus; {
	case s == 401 || s == 403:
		return sayKey
	case s == 429:
		return sayThrottled
	case s >= 500:
		return sayServer
	case s >= 400:
		return sayRefused
	}
	return sayFailed
}
