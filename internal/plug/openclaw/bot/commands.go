package bot

import (
	"regexp"
	"strings"
	"unicode"
)

// commandPattern matches what gateways interpret as commands and settings anywhere in a text:
// "/status", or an attack such as "/exec security=full"
// (docs/tools/slash-commands.md, src/auto-reply/reply/exec/directive.ts).
var commandPattern = regexp.MustCompile(`(^|\s)/(\S)`)

// stopWords are the words that stop OpenClaw's agent without an answer
// (src/auto-reply/reply/abort-trigger-text.ts). Here they are meant for the agent, for example to
// pause the music, and any message interrupts the active answer anyway.
var stopWords = wordSet(`stop, esc, abort, exit, interrupt, halt, stopp, anhalten, aufhören, hoer auf, detente, deten, detén, pare,
	arrete, arrête, 停止, 停下来, 暂停, やめて, 止めて, रुको, توقف, стоп, остановись, останови, остановить, прекрати,
	stop openclaw, openclaw stop, stop action, stop current action, stop run, stop current run, stop agent, stop the agent,
	stop don't do anything, stop dont do anything, stop do not do anything, stop doing anything, do not do that, please stop, stop please`)

func wordSet(list string) map[string]bool {
	all := map[string]bool{}
	for w := range strings.SplitSeq(list, ",") {
		all[strings.TrimSpace(w)] = true
	}
	return all
}

// neutralizeCommands returns the text changed so that the gateway finds no commands in it, which
// are never meant in speech. OpenClaw's switch for that in chat.send requires operator.admin,
// which the bot does not request.
func neutralizeCommands(text string) string {
	text = commandPattern.ReplaceAllString(text, "$1/ $2")
	if rest, ok := strings.CutPrefix(strings.TrimSpace(text), "!"); ok {
		return "！" + rest // "!" would run a shell command
	}
	plain := strings.Join(strings.Fields(strings.ToLower(strings.ReplaceAll(text, "’", "'"))), " ")
	plain = strings.TrimRightFunc(plain, func(r rune) bool { return unicode.IsPunct(r) || unicode.IsSpace(r) })
	if stopWords[plain] {
		return "“" + strings.TrimSpace(text) + "”"
	}
	return text
}
