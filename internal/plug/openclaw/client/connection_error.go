package client

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"strings"
	"syscall"
	"time"

	"github.com/coder/websocket"

	"patchbay/internal/fetch"
	"patchbay/internal/i18n"
	"patchbay/internal/plug/openclaw/wire"
)

// Problem is a kind of connection error.
type Problem string

// The kinds of connection errors.
const (
	Unreachable Problem = "unreachable" // no connection
	Private     Problem = "private"     // the address is not allowed for this connection
	Insecure    Problem = "insecure"    // TLS fails
	// The certificate is neither pinned nor of an authority that this machine knows, or not the
	// pinned one; see ConnectionError.Certificate.
	Untrusted Problem = "certificate_untrusted"
	Changed   Problem = "certificate_changed"
	NoGateway Problem = "no_gateway" // another kind of server
	Silent    Problem = "silent"     // no response, or no tick
	Starting  Problem = "starting"   // it starts, stops, or is overloaded
	Token     Problem = "token"      // the credential is missing or wrong
	Pairing   Problem = "pairing"    // the device has to be approved; see ConnectionError.Command
	Scopes    Problem = "scopes"     // missing scopes
	Identity  Problem = "identity"   // the device's signature is refused
	Version   Problem = "version"    // no common protocol
	Refused   Problem = "refused"    // for another reason
	Removed   Problem = "removed"    // the device was removed, or its credentials changed
	Broken    Problem = "broken"     // the connection broke
	Closed    Problem = "closed"     // closed by this side
)

// ConnectionError is a connection error. It contains no secret.
type ConnectionError struct {
	Problem Problem
	// Message is the text for the owner, with a remedy if one is known.
	Message i18n.Text
	// Command is a command for the gateway's owner to run on its machine, if that helps.
	Command string
	// Certificate is the certificate that is not accepted; nil: the problem is another one.
	Certificate *Certificate
	// RetryAfter is the delay the gateway requests; 0: none.
	RetryAfter time.Duration
	// Cause is the detail for the log.
	Cause string
	// Err is the gateway's error, or the network's.
	Err error
}

func (t *ConnectionError) Error() string {
	if t.Cause == "" {
		return t.Message.String()
	}
	return t.Message.String() + " (" + t.Cause + ")"
}

// Unwrap returns the underlying error.
func (t *ConnectionError) Unwrap() error { return t.Err }

// Lasting reports whether a person has to fix the error.
func (t *ConnectionError) Lasting() bool {
	switch t.Problem {
	case Private, Insecure, Untrusted, Changed, NoGateway, Token, Pairing, Scopes, Identity, Version, Refused, Removed:
		return true
	}
	return false
}

// Texts for the owner.
const (
	msgUnreachable = i18n.Message("The gateway cannot be reached. See whether OpenClaw's gateway is running, and its address and port are right.")
	msgNoHost      = i18n.Message("There is no host of the gateway's name. See whether the address is spelt right.")
	msgPrivate     = i18n.Message("The gateway's address leads to a private or special network, where only the gateways of administrators may be. Use a public address, or ask an administrator to allow that host (fetch.private_hosts).")
	msgInsecure    = i18n.Message("No secure connection to the gateway: it does not speak TLS, or no version that is safe.")
	msgUntrusted   = i18n.Message("No authority that this machine knows has issued the gateway's certificate, whose SHA-256 fingerprint is %s. Compare it with the one at the gateway, and if they are the same, set tls_fingerprint to it.")
	msgOtherName   = i18n.Message("The gateway's certificate is for another name than the one in the address; its SHA-256 fingerprint is %s. Correct the address, or compare the fingerprint with the one at the gateway, and if they are the same, set tls_fingerprint to it.")
	msgOutOfDate   = i18n.Message("The gateway's certificate has expired, or is not valid yet; its SHA-256 fingerprint is %s. See whether the clocks of both machines are right, and have the certificate renewed.")
	msgChanged     = i18n.Message("The gateway's certificate has changed, so nothing connects to it: tls_fingerprint is %[1]s, and its fingerprint is %[2]s now. If its owner has renewed it, set tls_fingerprint to the new one; otherwise somebody else may answer there.")
	msgNoGateway   = i18n.Message("What answers at that address is no OpenClaw gateway. See whether the address is right.")
	msgForbidden   = i18n.Message("The gateway does not trust the proxy in front of it. Put the proxy into the gateway's gateway.trustedProxies.")
	msgSilent      = i18n.Message("The gateway does not answer, so it is connected to anew.")
	msgStarting    = i18n.Message("The gateway is starting or restarting; one moment.")
	msgToken       = i18n.Message("The gateway does not accept the token. Set token to what the gateway's settings have as gateway.auth.token.")
	msgNoToken     = i18n.Message("The gateway wants a token. Set token to what the gateway's settings have as gateway.auth.token.")
	msgLimited     = i18n.Message("The gateway takes no connections for a while, because there were too many wrong tokens.")
	msgPairing     = i18n.Message("The gateway's owner has to approve Patchbay first. Run this on the gateway's machine: %s")
	msgScopes      = i18n.Message("The gateway does not let Patchbay have %s. Approve this device's scopes at the gateway.")
	msgIdentity    = i18n.Message("The gateway does not accept the device's signature. See whether the clocks of both machines are right.")
	msgVersion     = i18n.Message("The gateway speaks another version of the protocol. Update OpenClaw, or Patchbay.")
	msgRefused     = i18n.Message("The gateway refused the connection: %s")
	msgRemoved     = i18n.Message("The gateway has removed this device, or its token was changed.")
	msgBroken      = i18n.Message("The connection to the gateway broke.")
	msgClosed      = i18n.Message("The connection is closed.")
)

// maxCause limits the gateway's text in a log, in characters.
const maxCause = 300

var (
	errSilent = newConnectionError(Silent, msgSilent.With(), errors.New("no tick in time"))
	errClosed = newConnectionError(Closed, msgClosed.With(), nil)
)

func newConnectionError(p Problem, told i18n.Text, err error) *ConnectionError {
	t := &ConnectionError{Problem: p, Message: told, Err: err}
	if err != nil {
		t.Cause = clip(err.Error())
	}
	return t
}

// clip shortens a text to one line.
func clip(s string) string {
	r := []rune(strings.Join(strings.Fields(strings.ToValidUTF8(s, "\ufffd")), " "))
	if len(r) > maxCause {
		r = append(r[:maxCause], '…')
	}
	return string(r)
}

// asConnectionError converts an error into a ConnectionError.
func asConnectionError(err error) *ConnectionError {
	if t, ok := errors.AsType[*ConnectionError](err); ok {
		return t
	}
	if e, ok := errors.AsType[*wire.Error](err); ok {
		return refusalError(e)
	}
	if e, ok := errors.AsType[*statusError](err); ok {
		if e.status == http.StatusForbidden {
			return newConnectionError(NoGateway, msgForbidden.With(), err)
		}
		if e.status >= 500 {
			return newConnectionError(Starting, msgStarting.With(), err)
		}
		return newConnectionError(NoGateway, msgNoGateway.With(), err)
	}
	if e, ok := errors.AsType[websocket.CloseError](err); ok {
		return closeFrameError(e)
	}
	if errors.Is(err, wire.ErrChallenge) || errors.Is(err, wire.ErrHello) || errors.Is(err, wire.ErrFrame) ||
		errors.Is(err, wire.ErrSyntax) {
		return newConnectionError(NoGateway, msgNoGateway.With(), err)
	}
	return networkError(err)
}

// networkError converts an error below the WebSocket.
func networkError(err error) *ConnectionError {
	if fetch.IsForbidden(err) {
		return newConnectionError(Private, msgPrivate.With(), err)
	}
	if dns, ok := errors.AsType[*net.DNSError](err); ok && dns.IsNotFound {
		return newConnectionError(Unreachable, msgNoHost.With(), err)
	}
	_, op := errors.AsType[*net.OpError](err)
	switch {
	case isTLS(err):
		return newConnectionError(Insecure, msgInsecure.With(), err)
	case errors.Is(err, syscall.ECONNREFUSED):
		return newConnectionError(Unreachable, msgUnreachable.With(), err)
	case errors.Is(err, context.DeadlineExceeded):
		return newConnectionError(Silent, msgSilent.With(), err)
	case op:
		return newConnectionError(Unreachable, msgUnreachable.With(), err)
	}
	return newConnectionError(Broken, msgBroken.With(), err)
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
	return errors.Is(err, http.ErrSchemeMismatch)
}

// closeFrameError converts the Close frame of the gateway.
func closeFrameError(e websocket.CloseError) *ConnectionError {
	switch e.Code {
	case wire.CloseRestart, wire.CloseStarting:
		return newConnectionError(Starting, msgStarting.With(), e)
	case wire.CloseRemoved:
		return newConnectionError(Removed, msgRemoved.With(), e)
	case wire.CloseProtocol:
		return newConnectionError(Version, msgVersion.With(), e)
	case wire.ClosePolicy:
		if e.Reason == wire.SlowConsumer.Message {
			return newConnectionError(Broken, msgBroken.With(), e)
		}
		return newConnectionError(Refused, msgRefused.With(clip(e.Reason)), e)
	}
	return newConnectionError(Broken, msgBroken.With(), e)
}

// refusalError converts an error response to connect.
func refusalError(e *wire.Error) *ConnectionError {
	t := newConnectionError(Refused, msgRefused.With(clip(e.Message)), e)
	switch code := e.Detail(); {
	case code == wire.DetailPairing:
		t.Problem, t.Command = Pairing, approvalCommand(e)
		t.Message = msgPairing.With(t.Command)
	case code == wire.DetailTokenMissing:
		t.Problem, t.Message = Token, msgNoToken.With()
	case code == wire.DetailRateLimited:
		t.Problem, t.Message = Starting, msgLimited.With()
	case code == wire.DetailScopeMismatch:
		t.Problem = Scopes
	case strings.HasPrefix(code, "AUTH_"):
		t.Problem, t.Message = Token, msgToken.With()
	case strings.HasPrefix(code, "DEVICE_AUTH_"):
		t.Problem, t.Message = Identity, msgIdentity.With()
	case code == wire.DetailIdentity:
		t.Problem = Identity
	case code == wire.DetailProtocol:
		t.Problem, t.Message = Version, msgVersion.With()
	case e.Code == wire.Unavailable || e.Retryable:
		t.Problem, t.Message = Starting, msgStarting.With()
	}
	t.RetryAfter = e.RetryAfter
	return t
}

// approvalCommand returns the command with which the gateway's owner approves a device.
func approvalCommand(e *wire.Error) string {
	var d struct {
		Request string `json:"requestId"`
	}
	if json.Unmarshal(e.Details, &d) != nil || !isShellSafe(d.Request) {
		return "openclaw devices list"
	}
	return "openclaw devices approve " + d.Request
}

// isShellSafe reports whether an untrusted text may be part of a command that an owner copies
// into a shell.
func isShellSafe(s string) bool {
	return s != "" && len(s) <= 64 && s[0] != '-' && !strings.ContainsFunc(s, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_')
	})
}
