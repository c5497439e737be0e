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
	"patchbay/internal/talk"
	"patchbay/internal/tool"
)

// Errors of an upstream, as shown to its owner.
var (
	sayAuth = talk.Say{
		Zh: "服务器要求令牌，或拒绝了现有的令牌（%d）。请为这个上游设置 token。",
		En: "The server wants a token, or refuses the one that it gets (%d). Set the token of this upstream.",
	}
	sayStatus = talk.Say{
		Zh: "服务器返回 %d %s。请检查地址是否就是 MCP 服务的地址。",
		En: "The server answered %d %s. See whether the address is that of the MCP server itself.",
	}
	sayRedirect = talk.Say{
		Zh: "服务器把请求转到别处：%s。如果那里可信，请改用那个地址。",
		En: "The server points elsewhere: %s. If that is to be trusted, use that address.",
	}
	sayNoHost = talk.Say{
		Zh: "找不到这个主机名。请检查地址的拼写。",
		En: "There is no host of that name. See whether the address is spelt right.",
	}
	sayRefused = talk.Say{
		Zh: "无法连接：那个地址和端口上没有服务在运行。请确认服务器已启动。",
		En: "Nothing listens at that address and port. See whether the server is running.",
	}
	sayTLS = talk.Say{
		Zh: "无法建立加密连接：服务器的证书不可信，或它不使用 https。",
		En: "No secure connection: the server's certificate cannot be trusted, or it does not speak https.",
	}
	sayPrivate = talk.Say{
		Zh: "这个地址通向内网或特殊网络，只有管理员添加的服务器才能到那里。请使用公网地址，或请管理员放行那台主机（fetch.private_hosts）。",
		En: "The address leads to a private or special network, where only the servers of administrators may be. Use a public address, or ask an administrator to allow that host (fetch.private_hosts).",
	}
	sayUnreachable = talk.Say{
		Zh: "无法连接到服务器。",
		En: "The server cannot be reached.",
	}
	saySilent = talk.Say{
		Zh: "服务器没有在规定时间内应答。请确认它是 MCP 服务器，并且没有过载。",
		En: "The server did not answer in time. See whether it is an MCP server, and not overloaded.",
	}
	sayGarbled = talk.Say{
		Zh: "服务器的应答不是 MCP。请检查地址是否就是 MCP 服务的地址。",
		En: "What the server answers is not MCP. See whether the address is that of the MCP server itself.",
	}
	sayVersion = talk.Say{
		Zh: "服务器只支持这里不认识的 MCP 版本，请升级 Patchbay 或那个服务器。",
		En: "The server speaks only revisions of MCP that are not known here. Update Patchbay, or that server.",
	}
	sayNoCommand = talk.Say{
		Zh: "命令无法启动。请检查它是否已安装、名称是否正确、文件夹是否存在。",
		En: "The command cannot be started. See whether it is installed, spelt right, and its folder exists.",
	}
	sayEnded = talk.Say{
		Zh: "命令自己退出了。它最后的输出可能说明了原因。",
		En: "The command ended by itself. The last lines of its output may say why.",
	}
	sayBroke = talk.Say{
		Zh: "与服务器的连接断开了。",
		En: "The connection to the server broke.",
	}
	saySaysNo = talk.Say{
		Zh: "服务器拒绝了连接：%s",
		En: "The server refused to be connected to: %s",
	}
	sayNotRead = talk.Say{
		Zh: "命令不读取发给它的内容。",
		En: "The command does not read what it is sent.",
	}
	sayElsewhere = talk.Say{
		Zh: "服务器要求把消息发到另一台服务器，那样令牌会泄露，所以没有照做。",
		En: "The server wants messages sent to another server. That would give the token away, so it is not done.",
	}
	sayGuarded = talk.Say{
		Zh: "命令只能由这台服务器的运营者设置，请改用网络地址。",
		En: "Commands can be set up only by who runs this server. Use a web address.",
	}
	sayStuck = talk.Say{
		Zh: "连续多次调用超时，正在重新连接。",
		En: "Several calls in a row took too long, so the server is connected to anew.",
	}
)

// ConnectionError is the error state of an upstream. It contains no secret.
type ConnectionError struct {
	// Message is the text for the owner, with a remedy if one is known.
	Message talk.Say
	// Cause is the detail for the log; may be empty.
	Cause string
	// Auth means that the token is missing or wrong.
	Auth bool
	// Lasting means that a retry will hardly help.
	Lasting bool
}

func (t *ConnectionError) Error() string {
	if t.Cause == "" {
		return t.Message.En
	}
	return t.Message.En + " (" + t.Cause + ")"
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
	say := func(s talk.Say, args ...any) {
		t.Message.Zh, t.Message.En = redact(s.In(talk.Chinese, args...)), redact(s.In(talk.English, args...))
	}
	status, isStatus := errors.AsType[*statusError](err)
	refused, isRefused := errors.AsType[*rpcError](err)
	command, isCommand := errors.AsType[*commandError](err)
	dns, isDNS := errors.AsType[*net.DNSError](err)
	_, isVersion := errors.AsType[*versionError](err)
	_, isGone := errors.AsType[*connectionLostError](err)
	switch {
	case isStatus && status.isAuth():
		t.Auth, t.Lasting = true, true
		say(sayAuth, status.code)
	case isStatus && status.location != "":
		t.Lasting = true
		say(sayRedirect, status.location)
	case isStatus:
		t.Lasting = status.code/100 == 4
		say(sayStatus, status.code, http.StatusText(status.code))
	case isRefused:
		t.Lasting = true
		say(saySaysNo, clip(refused.Message, 200))
	case isVersion:
		t.Lasting = true
		say(sayVersion)
	case errors.Is(err, errUntrusted):
		t.Lasting = true
		say(sayGuarded)
	case isCommand && !command.started, errors.Is(err, exec.ErrNotFound):
		t.Lasting = true
		say(sayNoCommand)
	case isCommand:
		say(sayEnded)
	case fetch.IsForbidden(err):
		t.Lasting = true
		say(sayPrivate)
	case isDNS && dns.IsNotFound:
		say(sayNoHost)
	case errors.Is(err, syscall.ECONNREFUSED):
		say(sayRefused)
	case isTLS(err), errors.Is(err, http.ErrSchemeMismatch):
		t.Lasting = true
		say(sayTLS)
	case errors.Is(err, errInputNotRead):
		say(sayNotRead)
	case errors.Is(err, errUnresponsive):
		say(sayStuck)
	case errors.Is(err, errForeignEndpoint):
		t.Lasting = true
		say(sayElsewhere)
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded):
		say(saySilent)
	case errors.Is(err, errMalformed), errors.Is(err, errTooLarge), errors.Is(err, errNoEndpoint):
		t.Lasting = true
		say(sayGarbled)
	case isGone, errors.Is(err, io.ErrUnexpectedEOF):
		say(sayBroke)
	default:
		say(sayUnreachable)
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
