package upstream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"syscall"

	"patchbay/internal/fetch"
	"patchbay/internal/i18n"
	"patchbay/internal/tool"
)

// Errors of an upstream, as shown to its owner.
const (
	msgAuth        = i18n.Message("The server wants a token, or refuses the one that it gets (%d). Set the token of this upstream.")
	msgStatus      = i18n.Message("The server answered %d %s. See whether the address is that of the MCP server itself.")
	msgRedirect    = i18n.Message("The server points elsewhere: %s. If that is to be trusted, use that address.")
	msgNoHost      = i18n.Message("There is no host of that name. See whether the address is spelt right.")
	msgRefused     = i18n.Message("Nothing listens at that address and port. See whether the server is running.")
	msgTLS         = i18n.Message("No secure connection: the server's certificate cannot be trusted, or it does not speak https.")
	msgPrivate     = i18n.Message("The address leads to a private or special network, where only the servers of administrators may be. Use a public address, or ask an administrator to allow that host (fetch.private_hosts).")
	msgUnreachable = i18n.Message("The server cannot be reached.")
	msgSilent      = i18n.Message("The server did not answer in time. See whether it is an MCP server, and not overloaded.")
	msgGarbled     = i18n.Message("What the server answers is not MCP. See whether the address is that of the MCP server itself.")
	msgVersion     = i18n.Message("The server speaks only revisions of MCP that are not known here. Update Patchbay, or that server.")
	msgNoCommand   = i18n.Message("The command cannot be started. See whether it is installed, spelt right, and its folder exists.")
	msgEnded       = i18n.Message("The command ended by itself. The last lines of its output may say why.")
	msgBroke       = i18n.Message("The connection to the server broke.")
	msgSaysNo      = i18n.Message("The server refused to be connected to: %s")
	msgNotRead     = i18n.Message("The command does not read what it is sent.")
	msgElsewhere   = i18n.Message("The server wants messages sent to another server. That would give the token away, so it is not done.")
	msgGuarded     = i18n.Message("Commands can be set up only by who runs this server. Use a web address.")
	msgStuck       = i18n.Message("Several calls in a row took too long, so the server is connected to anew.")
)

// ConnectionError is the error state of an upstream. It contains no secret.
type ConnectionError struct {
	// Message is the text for the owner, with a remedy if one is known.
	Message i18n.Text
	// Cause is the detail for the log; may be empty.
	Cause string
	// Auth means that the token is missing or wrong.
	Auth bool
	// Lasting means that a retry will hardly help.
	Lasting bool
	// SignIn is set if the owner has to sign in to the server, or to see to it that Patchbay can.
	SignIn *SignInError
	// SignInFails means that Patchbay tries to sign in, in vain so far.
	SignInFails bool
}

// NeedsPerson reports whether somebody has to sign in.
func (t *ConnectionError) NeedsPerson() bool { return t.SignIn != nil && !t.SignIn.BySettings }

func (t *ConnectionError) Error() string {
	if t.Cause == "" {
		return t.Message.String()
	}
	return t.Message.String() + " (" + t.Cause + ")"
}

// maxCause limits the kept text of an error, in bytes.
const maxCause = 1 << 10

var (
	errUnresponsive = errors.New("too many calls in a row got no answer")
	errUntrusted    = errors.New("a command of somebody who may not start commands")
)

// explain converts an error into a ConnectionError without secrets.
func explain(err error, redact func(string) string) *ConnectionError {
	if t, ok := errors.AsType[*ConnectionError](err); ok {
		return t
	}
	t := &ConnectionError{Cause: clip(redact(err.Error()), maxCause)}
	say := func(s i18n.Message, args ...any) {
		for i, a := range args {
			if text, ok := a.(string); ok {
				args[i] = redact(text)
			}
		}
		t.Message = s.With(args...)
	}
	status, isStatus := errors.AsType[*statusError](err)
	refused, isRefused := errors.AsType[*rpcError](err)
	command, isCommand := errors.AsType[*commandError](err)
	signIn, isSignIn := errors.AsType[*SignInError](err)
	dns, isDNS := errors.AsType[*net.DNSError](err)
	_, isVersion := errors.AsType[*versionError](err)
	_, isGone := errors.AsType[*connectionLostError](err)
	switch {
	case isSignIn:
		t.Auth, t.Lasting, t.SignIn, t.Message, t.Cause = true, true, signIn, signIn.Message, ""
	case isStatus && status.isAuth():
		t.Auth, t.Lasting = true, true
		say(msgAuth, status.code)
	case isStatus && status.location != "":
		t.Lasting = true
		say(msgRedirect, status.location)
	case isStatus:
		t.Lasting = status.code/100 == 4
		say(msgStatus, status.code, http.StatusText(status.code))
	case isRefused:
		t.Lasting = true
		say(msgSaysNo, clip(refused.Message, 200))
	case isVersion:
		t.Lasting = true
		say(msgVersion)
	case errors.Is(err, errUntrusted):
		t.Lasting = true
		say(msgGuarded)
	case isCommand && !command.started, errors.Is(err, exec.ErrNotFound):
		t.Lasting = true
		say(msgNoCommand)
	case isCommand:
		say(msgEnded)
	case fetch.IsForbidden(err):
		t.Lasting = true
		say(msgPrivate)
	case isDNS && dns.IsNotFound:
		say(msgNoHost)
	case errors.Is(err, syscall.ECONNREFUSED):
		say(msgRefused)
	case isTLS(err), errors.Is(err, http.ErrSchemeMismatch):
		t.Lasting = true
		say(msgTLS)
	case errors.Is(err, errInputNotRead):
		say(msgNotRead)
	case errors.Is(err, errUnresponsive):
		say(msgStuck)
	case errors.Is(err, errForeignEndpoint):
		t.Lasting = true
		say(msgElsewhere)
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded):
		say(msgSilent)
	case errors.Is(err, errMalformed), errors.Is(err, errTooLarge), errors.Is(err, errNoEndpoint):
		t.Lasting = true
		say(msgGarbled)
	case isGone, errors.Is(err, io.ErrUnexpectedEOF):
		say(msgBroke)
	default:
		say(msgUnreachable)
	}
	return t
}

// callError returns the error of a call. Its text is shown to models.
func (u *upstream) callError(err error) error {
	if e, ok := errors.AsType[*tool.Error](err); ok {
		return e
	}
	if e, ok := errors.AsType[*rpcError](err); ok {
		told := u.redact(clip(e.Message, maxCause))
		if strings.TrimSpace(told) == "" {
			told = "The server refused the call."
		}
		t := &tool.Error{Code: tool.Refused, Told: told, RPC: e.Code}
		if !isNull(e.Data) && len(e.Data) <= maxErrorBody {
			t.Data = []byte(u.redact(string(e.Data)))
		}
		return t
	}
	name := u.spec.name()
	fail := func(code tool.Code, told string) error {
		return &tool.Error{Code: code, Told: fmt.Sprintf(told, name), Cause: clip(u.redact(err.Error()), maxCause)}
	}
	if e, ok := errors.AsType[*SignInError](err); ok {
		return &tool.Error{Code: tool.Offline, Told: name + " " + e.Told, Cause: clip(u.redact(err.Error()), maxCause)}
	}
	if e, ok := errors.AsType[*ConnectionError](err); ok && e.SignInFails {
		return fail(tool.Offline, "%s cannot be signed in to at the moment. Try again later.")
	}
	_, unsent := errors.AsType[*unsentError](err)
	_, gone := errors.AsType[*connectionLostError](err)
	status, isStatus := errors.AsType[*statusError](err)
	switch {
	case errors.Is(err, errTooLarge):
		return fail(tool.TooLarge, "The result of the tool of %s is too large. Ask for less at once.")
	case errors.Is(err, errMalformed):
		return fail(tool.Garbled, "The tool of %s gave an answer that cannot be used.")
	case isStatus && status.isAuth():
		return fail(tool.Offline, "%s wants a token, which only its owner can set.")
	case unsent:
		return fail(tool.Offline, "%s is not connected at the moment. Try again later.")
	case gone:
		return fail(tool.Lost,
			"The connection to %s broke during the call. It is not known whether the call was carried out.")
	case isStatus && (status.code == http.StatusTooManyRequests || status.code == http.StatusServiceUnavailable):
		return fail(tool.Busy, "%s is overloaded. Try again in a moment.")
	}
	return fail(tool.Failed, "The tool of %s failed.")
}
