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

// Problem says what kind of trouble it is.
type Problem string

// The kinds of trouble.
const (
	Unreachable Problem = "unreachable" // nobody is there
	Private     Problem = "private"     // the address is where this connection may not go
	Insecure    Problem = "insecure"    // TLS fails
	NoGateway   Problem = "no_gateway"  // somebody else is there
	Silent      Problem = "silent"      // no answer, or no tick
	Starting    Problem = "starting"    // it starts, stops, or is too busy
	Token       Problem = "token"       // the credential is missing or wrong
	Pairing     Problem = "pairing"     // the device has to be approved; see Trouble.Command
	Scopes      Problem = "scopes"      // the client may not do what it is here for
	Identity    Problem = "identity"    // the device's signature is refused
	Version     Problem = "version"     // no common protocol
	Refused     Problem = "refused"     // for another reason
	Removed     Problem = "removed"     // the device was removed, or its credentials changed
	Broken      Problem = "broken"      // the connection broke
	Closed      Problem = "closed"      // we have closed it
)

// Trouble is why there is no connection. It holds no secret.
type Trouble struct {
	Problem Problem
	// Told is for the owner, and says what to do where that is known.
	Told talk.Say
	// Command is what the gateway's owner has to run on its machine, if that helps.
	Command string
	// RetryAfter is how long the gateway wants to be left alone; 0: it does not say.
	RetryAfter time.Duration
	// Cause is for the log.
	Cause string
	// Err is what the gateway said, if it did, or the error of the network.
	Err error
}

func (t *Trouble) Error() string {
	if t.Cause == "" {
		return t.Told.En
	}
	return t.Told.En + " (" + t.Cause + ")"
}

// Unwrap is the error behind it.
func (t *Trouble) Unwrap() error { return t.Err }

// Lasting says that it does not go away by itself: somebody has to do something.
func (t *Trouble) Lasting() bool {
	switch t.Problem {
	case Private, Insecure, NoGateway, Token, Pairing, Scopes, Identity, Version, Refused, Removed:
		return true
	}
	return false
}

// What is wrong, in words for the owner.
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

// maxCause bounds what of a gateway's words gets into a log, in characters.
const maxCause = 300

var (
	errSilent = trouble(Silent, saySilent, errors.New("no tick in time"))
	errClosed = trouble(Closed, sayClosed, nil)
)

// say fills a sentence in.
func say(s talk.Say, args ...any) talk.Say {
	s.Zh, s.En = fmt.Sprintf(s.Zh, args...), fmt.Sprintf(s.En, args...)
	return s
}

func trouble(p Problem, told talk.Say, err error) *Trouble {
	t := &Trouble{Problem: p, Told: told, Err: err}
	if err != nil {
		t.Cause = clip(err.Error())
	}
	return t
}

// clip makes a text short, and one line of it.
func clip(s string) string {
	r := []rune(strings.Join(strings.Fields(strings.ToValidUTF8(s, "\ufffd")), " "))
	if len(r) > maxCause {
		r = append(r[:maxCause], '…')
	}
	return string(r)
}

// asTrouble finds out what is wrong.
func asTrouble(err error) *Trouble {
	if t, ok := errors.AsType[*Trouble](err); ok {
		return t
	}
	if e, ok := errors.AsType[*wire.Error](err); ok {
		return refusal(e)
	}
	if e, ok := errors.AsType[*statusError](err); ok {
		if e.status == http.StatusForbidden {
			return trouble(NoGateway, sayForbidden, err)
		}
		if e.status >= 500 {
			return trouble(Starting, sayStarting, err)
		}
		return trouble(NoGateway, sayNoGateway, err)
	}
	if e, ok := errors.AsType[websocket.CloseError](err); ok {
		return closed(e)
	}
	if errors.Is(err, wire.ErrChallenge) || errors.Is(err, wire.ErrHello) || errors.Is(err, wire.ErrFrame) || errors.Is(err, wire.ErrSyntax) {
		return trouble(NoGateway, sayNoGateway, err)
	}
	return network(err)
}

// network is the trouble of an error below the WebSocket.
func network(err error) *Trouble {
	if fetch.Forbidden(err) {
		return trouble(Private, sayPrivate, err)
	}
	if dns, ok := errors.AsType[*net.DNSError](err); ok && dns.IsNotFound {
		return trouble(Unreachable, sayNoHost, err)
	}
	_, op := errors.AsType[*net.OpError](err)
	switch {
	case isTLS(err):
		return trouble(Insecure, sayInsecure, err)
	case errors.Is(err, syscall.ECONNREFUSED):
		return trouble(Unreachable, sayUnreachable, err)
	case errors.Is(err, context.DeadlineExceeded):
		return trouble(Silent, saySilent, err)
	case op:
		return trouble(Unreachable, sayUnreachable, err)
	}
	return trouble(Broken, sayBroken, err)
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

// closed is the trouble of a connection that the gateway has closed.
func closed(e websocket.CloseError) *Trouble {
	switch e.Code {
	case wire.CloseRestart, wire.CloseStarting:
		return trouble(Starting, sayStarting, e)
	case wire.CloseRemoved:
		return trouble(Removed, sayRemoved, e)
	case wire.CloseProtocol:
		return trouble(Version, sayVersion, e)
	case wire.ClosePolicy:
		if e.Reason == wire.SlowConsumer.Message {
			return trouble(Broken, sayBroken, e)
		}
		return trouble(Refused, say(sayRefused, clip(e.Reason)), e)
	}
	return trouble(Broken, sayBroken, e)
}

// refusal is the trouble of an answer to connect.
func refusal(e *wire.Error) *Trouble {
	t := trouble(Refused, say(sayRefused, clip(e.Message)), e)
	switch code := e.Detail(); {
	case code == wire.DetailPairing:
		t.Problem, t.Command = Pairing, approval(e)
		t.Told = say(sayPairing, t.Command)
	case code == wire.DetailTokenMissing:
		t.Problem, t.Told = Token, sayNoToken
	case code == wire.DetailRateLimited:
		t.Problem, t.Told = Starting, sayLimited
	case code == wire.DetailScopeMismatch:
		t.Problem = Scopes
	case strings.HasPrefix(code, "AUTH_"):
		t.Problem, t.Told = Token, sayToken
	case strings.HasPrefix(code, "DEVICE_AUTH_"):
		t.Problem, t.Told = Identity, sayIdentity
	case code == wire.DetailIdentity:
		t.Problem = Identity
	case code == wire.DetailProtocol:
		t.Problem, t.Told = Version, sayVersion
	case e.Code == wire.Unavailable || e.Retryable:
		t.Problem, t.Told = Starting, sayStarting
	}
	t.RetryAfter = e.RetryAfter
	return t
}

// approval is what the gateway's owner runs to let a device in.
func approval(e *wire.Error) string {
	var d struct {
		Request string `json:"requestId"`
	}
	if json.Unmarshal(e.Details, &d) != nil || !plain(d.Request) {
		return "openclaw devices list"
	}
	return "openclaw devices approve " + d.Request
}

// plain says whether a text of a stranger can stand in a command that an owner
// copies into a shell.
func plain(s string) bool {
	return s != "" && len(s) <= 64 && s[0] != '-' && !strings.ContainsFunc(s, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_')
	})
}
