package eyeclaw

import (
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"patchbay/internal/talk"
)

// What can be wrong with a plugin, in words for its owner.
var (
	errIncompatible = talk.Say{
		Zh: "EyeClaw 插件 2.4.0 及更早版本与 OpenClaw 2026.3.2 及更新版本不兼容：OpenClaw 取消了插件用来登记自己网址的接口，插件访问自己时得到 404，所以每个问题都会失败。" +
			"请换用支持新接口的插件版本，或使用 2026.3.1 之前的 OpenClaw，或把这个机器人改成 openclaw 类型、直接连接 OpenClaw，不再需要插件。",
		En: "The EyeClaw plugin up to 2.4.0 does not work with OpenClaw 2026.3.2 and newer: OpenClaw removed the interface by which the plugin registers its own address, " +
			"so the plugin gets a 404 from itself and every question fails. " +
			"Install a plugin version that knows the new interface, or use an OpenClaw older than 2026.3.1, or make this a bot of kind openclaw, which connects to OpenClaw directly and needs no plugin.",
	}
	errEndpoint = talk.Say{
		Zh: "插件已连接，但它那边的 OpenClaw 没有打开对话接口，所以插件把问题交给 OpenClaw 时得到 404。在运行 OpenClaw 的电脑上打开它，再重启网关。",
		En: "The plugin is connected, but the OpenClaw beside it has its chat endpoint turned off, so OpenClaw answers the plugin's questions with a 404. Turn it on at the computer where OpenClaw runs, and restart the gateway.",
	}
	errSlow = talk.Say{
		Zh: "插件不读取发给它的数据，连接已断开。它所在的电脑或网络可能过载。",
		En: "The plugin did not read what was sent to it, so it was disconnected. Its computer or network may be overloaded.",
	}
	errOversize = talk.Say{
		Zh: "插件发来一条超过 1 MiB 的消息，连接已断开。",
		En: "The plugin sent a message larger than 1 MiB and was disconnected.",
	}
	errTooMany = talk.Say{
		Zh: "同一个令牌的连接太多，新的连接被拒绝。请检查是否有多个插件在使用这个令牌。",
		En: "There are too many connections with this bot's token, so a new one was refused. See whether several plugins use it.",
	}
)

// fixCommand is what the owner has to run where OpenClaw is, if that helps against
// something that is wrong.
func fixCommand(fault talk.Say) string {
	if fault == errEndpoint {
		return "openclaw config set gateway.http.endpoints.chatCompletions.enabled true && openclaw gateway restart"
	}
	return ""
}

// sayIncompatible is what the person hears of errIncompatible.
var sayIncompatible = talk.Say{Zh: "插件与 OpenClaw 的版本不兼容，请联系机器人的主人",
	En: "the plugin does not fit this version of OpenClaw; please tell the bot's owner"}

// sayReported is what the person hears of every other error. The plugin's own words are
// for the owner: they are in English and name the inside of programs.
var sayReported = talk.Say{Zh: "OpenClaw 没能回答，请稍后再试；原因机器人的主人可以看到",
	En: "OpenClaw could not answer; try again later, the bot's owner can see why"}

// incompatiblePattern is what the plugin says when OpenClaw has no route for it: its
// request to itself gets 404, or 405 from the control page.
var incompatiblePattern = regexp.MustCompile(`^HTTP error: (404|405)\b`)

// endpointOffPattern is what the plugin says when OpenClaw has no address for chats.
var endpointOffPattern = regexp.MustCompile(`^OpenClaw API error: (404|405)\b`)

// Lengths of what is passed on of an error.
const (
	maxPublicMessage = 80      // characters, of a status
	maxCause         = 2 << 10 // bytes
)

// explain makes a failure of what a plugin reported, and a sentence for the
// owner.
func explain(text string, lang talk.Lang) (*talk.Failure, talk.Say) {
	text = oneLine(text)
	cause := truncate(hideSecrets(text), maxCause)
	if incompatiblePattern.MatchString(text) {
		return &talk.Failure{Code: talk.BotFailed, Told: sayIncompatible.In(lang),
			Cause: cause + ": " + errIncompatible.Zh + " / " + errIncompatible.En}, errIncompatible
	}
	short := publicMessage(text)
	if endpointOffPattern.MatchString(text) {
		return &talk.Failure{Code: talk.BotFailed, Told: sayReported.In(lang), Cause: cause}, errEndpoint
	}
	owner := talk.Say{Zh: "OpenClaw 或插件报告错误：" + short, En: "OpenClaw or the plugin reported an error: " + short}
	if short == "" {
		owner = talk.Say{Zh: "OpenClaw 或插件报告错误，但没有说明原因。",
			En: "OpenClaw or the plugin reported an error without saying which."}
	}
	if cause == "" {
		cause = "the plugin reported an error without saying which"
	}
	return &talk.Failure{Code: talk.BotFailed, Told: sayReported.In(lang), Cause: cause}, owner
}

var (
	secretPattern  = regexp.MustCompile(`(?i)\b(bearer|basic)\s+[^\s"',;]+|\b(sk|ak|pk|ghp|xox[a-z])[-_][\w-]{8,}|\b[\w+/=-]{32,}|((?:token|key|secret|password)["']?\s*[=:]\s*["']?)[^\s"',;&]+`)
	addressPattern = regexp.MustCompile(`(?i)\b[a-z][a-z0-9+.-]*://\S+|\b\d{1,3}(\.\d{1,3}){3}(:\d+)?\b|(^|\s)(/[\w.@-]+){2,}`)
)

// hideSecrets replaces what looks like a key.
func hideSecrets(s string) string { return secretPattern.ReplaceAllString(s, "${3}…") }

// publicMessage shortens an error to what fits a status: no keys, no addresses,
// no markup.
func publicMessage(s string) string {
	if i := strings.Index(s, "<"); i >= 0 {
		s = s[:i] // an error page
	}
	s = addressPattern.ReplaceAllString(hideSecrets(s), "${3}…")
	s = strings.TrimRight(strings.TrimSpace(s), " -:,")
	if utf8.RuneCountInString(s) > maxPublicMessage {
		s = string([]rune(s)[:maxPublicMessage-1]) + "…"
	}
	return s
}

// oneLine makes one line of a text.
func oneLine(s string) string {
	s = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, truncate(s, 16<<10))
	return strings.Join(strings.Fields(s), " ")
}
