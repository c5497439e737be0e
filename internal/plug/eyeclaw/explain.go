package eyeclaw

import (
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"patchbay/internal/i18n"
	"patchbay/internal/talk"
)

// Errors of a plugin, in words for its owner.
const (
	errIncompatible = i18n.Message("The EyeClaw plugin up to 2.4.0 does not work with OpenClaw 2026.3.2 and newer: OpenClaw removed the interface by which the plugin registers its own address, " +
		"so the plugin gets a 404 from itself and every question fails. " +
		"Install a plugin version that knows the new interface, or use an OpenClaw older than 2026.3.1, or make this a bot of kind openclaw, which connects to OpenClaw directly and needs no plugin.")
	msgPluginError        = i18n.Message("OpenClaw or the plugin reported an error: %s")
	msgPluginErrorUnknown = i18n.Message("OpenClaw or the plugin reported an error without saying which.")
	errEndpoint           = i18n.Message("The plugin is connected, but the OpenClaw beside it has its chat endpoint turned off, so OpenClaw answers the plugin's questions with a 404. Turn it on at the computer where OpenClaw runs, and restart the gateway.")
	errSlow               = i18n.Message("The plugin did not read what was sent to it, so it was disconnected. Its computer or network may be overloaded.")
	errOversize           = i18n.Message("The plugin sent a message larger than 1 MiB and was disconnected.")
	errTooMany            = i18n.Message("There are too many connections with this bot's token, so a new one was refused. See whether several plugins use it.")
)

// fixCommand returns a command for the owner to run where OpenClaw is, if one helps against an
// error.
func fixCommand(fault i18n.Text) string {
	if fault.Message == errEndpoint {
		return "openclaw config set gateway.http.endpoints.chatCompletions.enabled true && openclaw gateway restart"
	}
	return ""
}

// msgIncompatible is the text for the person about errIncompatible.
const msgIncompatible = i18n.Message("the plugin does not fit this version of OpenClaw; please tell the bot's owner")

// msgReported is the text for the person about every other error. The plugin's own text is for the
// owner: it is in English and names internals.
const msgReported = i18n.Message("OpenClaw could not answer; try again later, the bot's owner can see why")

// incompatiblePattern matches the plugin's error when its request to its own route in OpenClaw
// fails (sdk/src/websocket-client.ts). OpenClaw 2026.3.2 removed api.registerHttpHandler, so the
// route does not exist and gives 404 (openclaw/openclaw, issue 32316); in 2026.3.1 the Control UI
// answers 405.
var incompatiblePattern = regexp.MustCompile(`^HTTP error: (404|405)\b`)

// endpointOffPattern matches the plugin's error when OpenClaw's chat endpoint is off
// (sdk/src/http-handler.ts).
var endpointOffPattern = regexp.MustCompile(`^OpenClaw API error: (404|405)\b`)

// Limits of the parts of an error that are passed on.
const (
	maxPublicMessage = 80      // characters, in a status
	maxCause         = 2 << 10 // bytes
)

// explain converts an error that a plugin reported to a failure, and to a sentence for the owner.
func explain(text string, lang i18n.Lang) (*talk.Failure, i18n.Text) {
	text = oneLine(text)
	cause := truncate(hideSecrets(text), maxCause)
	if incompatiblePattern.MatchString(text) {
		return &talk.Failure{Code: talk.BotFailed, Told: msgIncompatible.In(lang),
			Cause: cause + ": " + errIncompatible.In(i18n.English)}, errIncompatible.With()
	}
	short := publicMessage(text)
	if endpointOffPattern.MatchString(text) {
		return &talk.Failure{Code: talk.BotFailed, Told: msgReported.In(lang), Cause: cause}, errEndpoint.With()
	}
	owner := msgPluginError.With(short)
	if short == "" {
		owner = msgPluginErrorUnknown.With()
	}
	if cause == "" {
		cause = "the plugin reported an error without saying which"
	}
	return &talk.Failure{Code: talk.BotFailed, Told: msgReported.In(lang), Cause: cause}, owner
}

var (
	secretPattern  = regexp.MustCompile(`(?i)\b(bearer|basic)\s+[^\s"',;]+|\b(sk|ak|pk|ghp|xox[a-z])[-_][\w-]{8,}|\b[\w+/=-]{32,}|((?:token|key|secret|password)["']?\s*[=:]\s*["']?)[^\s"',;&]+`)
	addressPattern = regexp.MustCompile(`(?i)\b[a-z][a-z0-9+.-]*://\S+|\b\d{1,3}(\.\d{1,3}){3}(:\d+)?\b|(^|\s)(/[\w.@-]+){2,}`)
)

// hideSecrets replaces text that looks like a key.
func hideSecrets(s string) string { return secretPattern.ReplaceAllString(s, "${3}…") }

// publicMessage shortens an error for a status, without keys, addresses and markup.
func publicMessage(s string) string {
	if i := strings.Index(s, "<"); i >= 0 {
		s = s[:i] // an HTML error page
	}
	s = addressPattern.ReplaceAllString(hideSecrets(s), "${3}…")
	s = strings.TrimRight(strings.TrimSpace(s), " -:,")
	if utf8.RuneCountInString(s) > maxPublicMessage {
		s = string([]rune(s)[:maxPublicMessage-1]) + "…"
	}
	return s
}

// oneLine returns a text as one line.
func oneLine(s string) string {
	s = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, truncate(s, 16<<10))
	return strings.Join(strings.Fields(s), " ")
}
