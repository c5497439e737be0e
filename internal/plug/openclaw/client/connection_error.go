package client

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"syscall"
	"time"

	"github.com/coder/websocket"

	"patchbay/internal/fetch"
	"patchbay/internal/plug/openclaw/wire"
	"patchbay/internal/talk"
)

// Problem is a kind of connection error.
type Problem string

// The kinds of connection errors.
const (
	Unreachable Problem = "unreachable" // no connection
	Private     Problem = "private"     // the address is not allowed for this connection
	Insecure    Problem = "insecure"    // TLS fails
	NoGateway   Problem = "no_gateway"  // another kind of server
	Silent      Problem = "silent"      // no response, or no tick
	Starting    Problem = "starting"    // it starts, stops, or is overloaded
	Token       Problem = "token"       // the credential is missing or wrong
	Pairing     Problem = "pairing"     // the device has to be approved; see ConnectionError.Command
	Scopes      Problem = "scopes"      // missing scopes
	Identity    Problem = "identity"    // the device's signature is refused
	Version     Problem = "version"     // no common protocol
	Refused     Problem = "refused"     // for another reason
	Removed     Problem = "removed"     // the device was removed, or its credentials changed
	Broken      Problem = "broken"      // the connection broke
	Closed      Problem = "closed"      // closed by this side
)

// ConnectionError is a connection error. It contains no secret.
type ConnectionError struct {
	Problem Problem
	// Message is the text for the owner, with a remedy if one is known.
	Message talk.Say
	// Command is a command for the gateway's owner to run on its machine, if that helps.
	Command string
	// RetryAfter is the delay the gateway requests; 0: none.
	RetryAfter time.Duration
	// Cause is the detail for the log.
	Cause string
	// Err is the gateway's error, or the network's.
	Err error
}

func (t *ConnectionError) Error() string {
	if t.Cause == "" {
		return t.Message.En
	}
	return t.Message.En + " (" + t.Cause + ")"
}

// Unwrap returns the underlying error.
func (t *ConnectionError) Unwrap() error { return t.Err }

// Lasting reports whether a person has to fix the error.
func (t *ConnectionError) Lasting() bool {
	switch t.Problem {
	case Private, Insecure, NoGateway, Token, Pairing, Scopes, Identity, Version, Refused, Removed:
		return true
	}
	return false
}

// Texts for the owner.
var (
	sayUnreachable = talk.Say{
		Zh: "连不上网关：那个地址没有回应。请确认 OpenClaw 网关正在运行，地址和端口正确。",
		En: "The gateway cannot be reached. See whether OpenClaw's gateway is running, and its address and port are right.",
	}
	sayNoHost = talk.Say{
		Zh: "找不到网关的主机名。请检查地址的拼写。",
		En: "There is no host of the gateway's name. See whether the address is spelt right.",
	}
	sayPrivate = talk.Say{
		Zh: "网关的地址通向内网或特殊网络，只有管理员添加的网关才能在那里。请使用公网地址，或请管理员放行那台主机（fetch.private_hosts）。",
		En: "The gateway's address leads to a private or special network, where only the gateways of administrators may be. Use a public address, or ask an administrator to allow that host (fetch.private_hosts).",
	}
	sayInsecure = talk.Say{
		Zh: "无法与网关建立加密连接：证书不可信，或它不使用 TLS。",
		En: "No secure connection to the gateway: its certificate cannot be trusted, or it does not speak TLS.",
	}
	sayNoGateway = talk.Say{
		Zh: "那个地址上不是 OpenClaw 网关。请检查地址。",
		En: "What answers at that address is no OpenClaw gateway. See whether the address is right.",
	}
	sayForbidden = talk.Say{
		Zh: "网关前面的代理没有放行。请把它加入网关的 gateway.trustedProxies。",
		En: "The gateway does not trust the proxy in front of it. Put the proxy into the gateway's gateway.trustedProxies.",
	}
	saySilent = talk.Say{
		Zh: "网关没有应答，正在重新连接。",
		En: "The gateway does not answer, so it is connected to anew.",
	}
	sayStarting = talk.Say{
		Zh: "网关正在启动或重启，请稍等。",
		En: "The gateway is starting or restarting; one moment.",
	}
	sayToken = talk.Say{
		Zh: "网关不接受令牌。请把网关设置里的 gateway.auth.token 填到 token。",
		En: "The gateway does not accept the token. Set token to what the gateway's settings have as gateway.auth.token.",
	}
	sayNoToken = talk.Say{
		Zh: "网关需要令牌。请把网关设置里的 gateway.auth.token 填到 token。",
		En: "The gateway wants a token. Set token to what the gateway's settings have as gateway.auth.token.",
	}
	sayLimited = talk.Say{
		Zh: "网关因为错误的令牌太多，暂时不再接受连接。",
		En: "The gateway takes no connections for a while, because there were too many wrong tokens.",
	}
	sayPairing = talk.Say{
		Zh: "网关的主人需要先批准 Patchbay。请在网关的机器上运行：%s",
		En: "The gateway's owner has to approve Patchbay first. Run this on the gateway's machine: %s",
	}
	sayScopes = talk.Say{
		Zh: "网关不允许 Patchbay 使用 %s。请在网关上批准这台设备的权限。",
		En: "The gateway does not let Patchbay have %s. Approve this device's scopes at the gateway.",
	}
	sayIdentity = talk.Say{
		Zh: "网关不接受设备的签名。请检查两台机器的时间是否一致。",
		En: "The gateway does not accept the device's signature. See whether the clocks of both machines are right.",
	}
	sayVersion = talk.Say{
		Zh: "网关使用另一个版本的协议。请升级 OpenClaw 或 Patchbay。",
		En: "The gateway speaks another version of the protocol. Update OpenClaw, or Patchbay.",
	}
	sayRefused = talk.Say{
		Zh: "网关拒绝了连接：%s",
		En: "The gateway refused the connection: %s",
	}
	sayRemoved = talk.Say{
		Zh: "网关移除了这台设备，或更换了令牌。",
		En: "The gateway has removed this device, or its token was changed.",
	}
	sayBroken = talk.Say{
		Zh: "与网关的连接断了。",
		En: "The connection to the gateway broke.",
	}
	sayClosed = talk.Say{
		Zh: "连接已经关闭。",
		En: "The connection is closed.",
	}
)

// maxCause limits the gateway's text in a log, in characters.
const maxCause = 300

var (
	errSilent = newConnectionError(Silent, saySilent, errors.New("no tick in time"))
	errClosed = newConnectionError(Closed, sayClosed, nil)
)

// say fills in the arguments of a message.
func say(s talk.Say, args ...any) talk.Say {
	s.Zh, s.En = fmt.Sprintf(s.Zh, args...), fmt.Sprintf(s.En, args...)
	return s
}

func newConnectionError(p Problem, told talk.Say, err error) *ConnectionError {
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
			return newConnectionError(NoGateway, sayForbidden, err)
		}
		if e.status >= 500 {
			return newConnectionError(Starting, sayStarting, err)
		}
		return newConnectionError(NoGateway, sayNoGateway, err)
	}
	if e, ok := errors.AsType[websocket.CloseError](err); ok {
		return closeFrameError(e)
	}
	if errors.Is(err, wire.ErrChallenge) || errors.Is(err, wire.ErrHello) || errors.Is(err, wire.ErrFrame) ||
		errors.Is(err, wire.ErrSyntax) {
		return newConnectionError(NoGateway, sayNoGateway, err)
	}
	return networkError(err)
}

// networkError converts an error below the WebSocket.
func networkError(err error) *ConnectionError {
	if fetch.IsForbidden(err) {
		return newConnectionError(Private, sayPrivate, err)
	}
	if dns, ok := errors.AsType[*net.DNSError](err); ok && dns.IsNotFound {
		return newConnectionError(Unreachable, sayNoHost, err)
	}
	_, op := errors.AsType[*net.OpError](err)
	switch {
	case isTLS(err):
		return newConnectionError(Insecure, sayInsecure, err)
	case errors.Is(err, syscall.ECONNREFUSED):
		return newConnectionError(Unreachable, sayUnreachable, err)
	case errors.Is(err, context.DeadlineExceeded):
		return newConnectionError(Silent, saySilent, err)
	case op:
		return newConnectionError(Unreachable, sayUnreachable, err)
	}
	return newConnectionError(Broken, sayBroken, err)
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
		return newConnectionError(Starting, sayStarting, e)
	case wire.CloseRemoved:
		return newConnectionError(Removed, sayRemoved, e)
	case wire.CloseProtocol:
		return newConnectionError(Version, sayVersion, e)
	case wire.ClosePolicy:
		if e.Reason == wire.SlowConsumer.Message {
			return newConnectionError(Broken, sayBroken, e)
		}
		return newConnectionError(Refused, say(sayRefused, clip(e.Reason)), e)
	}
	return newConnectionError(Broken, sayBroken, e)
}

// refusalError converts an error response to connect.
func refusalError(e *wire.Error) *ConnectionError {
	t := newConnectionError(Refused, say(sayRefused, clip(e.Message)), e)
	switch code := e.Detail(); {
	case code == wire.DetailPairing:
		t.Problem, t.Command = Pairing, approvalCommand(e)
		t.Message = say(sayPairing, t.Command)
	case code == wire.DetailTokenMissing:
		t.Problem, t.Message = Token, sayNoToken
	case code == wire.DetailRateLimited:
		t.Problem, t.Message = Starting, sayLimited
	case code == wire.DetailScopeMismatch:
		t.Problem = Scopes
	case strings.HasPrefix(code, "AUTH_"):
		t.Problem, t.Message = Token, sayToken
	case strings.HasPrefix(code, "DEVICE_AUTH_"):
		t.Problem, t.Message = Identity, sayIdentity
	case code == wire.DetailIdentity:
		t.Problem = Identity
	case code == wire.DetailProtocol:
		t.Problem, t.Message = Version, sayVersion
	case e.Code == wire.Unavailable || e.Retryable:
		t.Problem, t.Message = Starting, sayStarting
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
