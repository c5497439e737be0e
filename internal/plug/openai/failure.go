package openai

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"

	"patchbay/internal/fetch"
	"patchbay/internal/i18n"
	"patchbay/internal/talk"
)

const (
	// maxCause limits a server's error text in the log, in characters.
	maxCause = 300
	// maxMessage limits it before secrets are removed, so that no secret is split and missed.
	maxMessage = 4096
)

// serverError is an error that the server reports, with a status or in a stream (status 0).
type serverError struct {
	status     int
	message    string
	kind, code string
	// param is the field of the request that the error is about.
	param string
	// retryAfter is how long the server asks to wait, negative if it does not ask.
	retryAfter time.Duration
}

func (e *serverError) Error() string {
	text := e.message
	if e.code != "" && !strings.Contains(text, e.code) {
		text = strings.TrimSpace(text + " (" + e.code + ")")
	}
	switch {
	case e.status == 0:
		return "the server reports: " + text
	case text == "":
		return fmt.Sprintf("status %d %s", e.status, http.StatusText(e.status))
	}
	return fmt.Sprintf("status %d: %s", e.status, text)
}

// isTransient reports whether a retry of the same request may succeed.
func (e *serverError) isTransient() bool {
	if e.isOutOfCredit() || e.isAboutTools() {
		return false
	}
	return e.status == http.StatusTooManyRequests || e.status >= 500 && e.status != http.StatusNotImplemented
}

// isOutOfCredit reports whether the account of the key has no credit left.
func (e *serverError) isOutOfCredit() bool {
	return e.status == http.StatusPaymentRequired || e.code == "insufficient_quota" || e.kind == "insufficient_quota"
}

// isAboutTools reports whether the server or the model refuses functions. The texts are those of
// Ollama ("does not support tools", server/images.go), llama.cpp ("Unsupported param: tools",
// "tools param requires --jinja flag", in the parameter parsing of its server), vLLM (`"auto" tool
// choice requires --enable-auto-tool-choice`, entrypoints/openai/serving_chat.py) and OpenRouter
// ("No endpoints found that support tool use").
func (e *serverError) isAboutTools() bool {
	switch e.status {
	case http.StatusBadRequest, http.StatusNotFound, http.StatusUnprocessableEntity, http.StatusInternalServerError,
		http.StatusNotImplemented:
	default:
		return false
	}
	text := strings.ToLower(e.message)
	return strings.Contains(text, "tool") && slices.ContainsFunc(
		[]string{"support", "require", "not permitted", "not allowed", "unrecognized", "unknown"},
		func(word string) bool { return strings.Contains(text, word) })
}

// readServerError parses the body of an error: {"error":{"message":…}}, {"error":"…"},
// {"message":…}, {"detail":…} or plain text.
func readServerError(body []byte) *serverError {
	e := &serverError{retryAfter: -1}
	var outer map[string]json.RawMessage
	if json.Unmarshal(body, &outer) != nil {
		e.message = oneLine(string(body), maxMessage)
		return e
	}
	inner := outer
	if raw := outer["error"]; len(raw) > 0 && string(raw) != "null" {
		inner = nil
		if json.Unmarshal(raw, &inner) != nil {
			e.message = plainJSON(raw)
		}
	}
	for _, key := range []string{"message", "detail", "error_description"} {
		if e.message == "" {
			e.message = plainJSON(inner[key])
		}
	}
	e.kind, e.code = plainJSON(inner["type"]), plainJSON(inner["code"])
	e.param = plainJSON(inner["param"])
	return e
}

// plainJSON returns a JSON string, or any other value, as one line.
func plainJSON(raw json.RawMessage) string {
	var text string
	switch {
	case len(raw) == 0 || string(raw) == "null":
		return ""
	case json.Unmarshal(raw, &text) != nil:
		text = string(raw)
	}
	return oneLine(text, maxMessage)
}

// Short error texts for people.
const (
	msgKey         = i18n.Message("the model refused our key")
	msgSpent       = i18n.Message("the model's account has no credit left")
	msgUnknown     = i18n.Message("the model was not found")
	msgThrottled   = i18n.Message("the model is too busy, try again in a moment")
	msgServer      = i18n.Message("the model's server has a problem")
	msgRefused     = i18n.Message("the model did not accept the message")
	msgBlind       = i18n.Message("the model did not accept the picture")
	msgTooMuch     = i18n.Message("this is too long for the model")
	msgUnreachable = i18n.Message("the model cannot be reached")
	msgPrivate     = i18n.Message("the model's address is in a private network, where it may not be")
	msgBroke       = i18n.Message("the connection to the model broke")
	msgGarbled     = i18n.Message("the model's answer cannot be read")
	msgFiltered    = i18n.Message("the model's content filter stopped the answer")
	msgOutOfLength = i18n.Message("the model used up its length before it said anything")
	msgBadCommand  = i18n.Message("the model's command for the device makes no sense")
)

// toFailure converts an error to the error that [Bot.Answer] returns.
func (b *Bot) toFailure(ctx context.Context, turn *talk.Turn, err error) error {
	if e, ok := errors.AsType[*emitError](err); ok {
		return e.err
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if f, ok := errors.AsType[*talk.Failure](err); ok {
		return f
	}
	if errors.Is(err, errFirstByte) || errors.Is(err, errIdle) {
		b.onEnd(ctx, ProblemTimeout)
		return talk.Fail(talk.TimedOut, "", err)
	}
	say, advice := describe(err, len(turn.Images()) > 0 && b.settings.Sees())
	if p := problemOf(say); p != "" {
		b.onEnd(ctx, p)
	}
	cause := b.redact(err.Error())
	if advice != "" {
		cause += "; " + advice
	}
	f := &talk.Failure{Code: talk.BotFailed, Told: say.In(turn.Lang), Cause: cause}
	if isConnectError(err) {
		f.Code = talk.Unreachable // the bot itself did not fail
	}
	if !b.trusted(ctx) {
		f.Cause = strings.TrimSuffix(say.In(i18n.English)+"; "+advice, "; ")
	}
	b.log.WarnContext(ctx, "the model failed", "turn", turn.ID, "model", b.settings.Model, "error", cause)
	return f
}

// describe returns the error text for people, and advice for the owner.
func describe(err error, pictures bool) (say i18n.Message, advice string) {
	if e, ok := errors.AsType[*serverError](err); ok {
		return e.describe(pictures)
	}
	if fetch.IsForbidden(err) {
		return msgPrivate, "use a public address, or ask an administrator to add its host to fetch.private_hosts"
	}
	if _, ok := errors.AsType[*unreachableError](err); ok {
		return msgUnreachable, "see whether the model's server runs, and whether base_url is right"
	}
	switch {
	case errors.Is(err, errWebPage):
		return msgUnknown, "check base_url"
	case errors.Is(err, errNotJSON), errors.Is(err, errEventTooLong), errors.Is(err, errTooLong),
		errors.Is(err, errTooManyCalls), errors.Is(err, errShape):
		return msgGarbled, ""
	}
	return msgBroke, ""
}

func (e *serverError) describe(pictures bool) (i18n.Message, string) {
	text := strings.ToLower(e.message + " " + e.code)
	switch {
	case e.isOutOfCredit():
		return msgSpent, "the account behind api_key needs credit"
	case e.status == http.StatusUnauthorized || e.status == http.StatusForbidden:
		return msgKey, "check api_key"
	case e.status == http.StatusTooManyRequests:
		return msgThrottled, ""
	case e.status == http.StatusRequestEntityTooLarge || strings.Contains(text, "context_length") ||
		strings.Contains(text, "context length") || strings.Contains(text, "context size"):
		return msgTooMuch, "a smaller history_tokens, or tool_output, leaves more room"
	case pictures && strings.Contains(text, "image"):
		return msgBlind, "set images to false if the model cannot see"
	case e.status == http.StatusNotFound || e.status == http.StatusMethodNotAllowed || e.status/100 == 3:
		return msgUnknown, "check base_url and model"
	case e.status == 0 || e.status >= 500:
		return msgServer, ""
	}
	return msgRefused, ""
}

// keyPattern matches what looks like a key, also if the server has masked a part of it.
var keyPattern = regexp.MustCompile(`(?i)\b(?:bearer\s+|(?:sk|pk|key|api)[-_])[a-z0-9*._~+/=-]{6,}`)

// redact returns an external text as one short line without secrets.
func (b *Bot) redact(text string) string {
	for _, secret := range b.secrets {
		text = strings.ReplaceAll(text, secret, "[hidden]")
	}
	return oneLine(keyPattern.ReplaceAllString(text, "[hidden]"), maxCause)
}

// isConnectError reports whether no connection was made.
func isConnectError(err error) bool {
	if e, ok := errors.AsType[*net.OpError](err); ok && e.Op == "dial" {
		return true
	}
	if _, ok := errors.AsType[*net.DNSError](err); ok {
		return true
	}
	return fetch.IsForbidden(err) || isTLS(err)
}

func isTLS(err error) bool {
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return true
	}
	if _, ok := errors.AsType[tls.RecordHeaderError](err); ok {
		return true
	}
	if _, ok := errors.AsType[x509.UnknownAuthorityError](err); ok {
		return true
	}
	if _, ok := errors.AsType[x509.HostnameError](err); ok {
		return true
	}
	return errors.Is(err, http.ErrSchemeMismatch)
}
