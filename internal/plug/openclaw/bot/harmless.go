package bot

import (
	"regexp"
	"strings"
	"unicode"
)

// command is what gateways take for commands and settings wherever it stands:
// "/status", or, from askers who know too much, "/exec security=full".
var command = regexp.MustCompile(`(^|\s)/(\S)`)

// stopWords are what somebody types at OpenClaw who wants it to stop; there is no
// answer to them. Who says one of them here means the agent, perhaps that it should
// pause the music, and the answer that is running is interrupted by any words.
var stopWords = words(`stop, esc, abort, exit, interrupt, halt, stopp, anhalten, aufhören, hoer auf, detente, deten, detén, pare,
	arrete, arrête, 停止, 停下来, 暂停, やめて, 止めて, रुको, توقف, стоп, остановись, останови, остановить, прекрати,
	stop openclaw, openclaw stop, stop action, stop current action, stop run, stop current run, stop agent, stop the agent,
	stop don't do anything, stop dont do anything, stop do not do anything, stop doing anything, do not do that, please stop, stop please`)

func words(list string) map[string]bool {
	all := map[string]bool{}
	for w := range strings.SplitSeq(list, ",") {
		all[strings.TrimSpace(w)] = true
	}
	return all
}

// harmless is a text in which the gateway finds no commands: nobody means one who
// talks to an agent. OpenClaw has a switch for that in chat.send, but only for
// administrators, which we do not want to be.
func harmless(text string) string {
	text = command.ReplaceAllString(text, "$1/ $2")
	if rest, ok := strings.CutPrefix(strings.TrimSpace(text), "!"); ok {
		return "！" + rest // a shell would run it
	}
	plain := strings.Join(strings.Fields(strings.ToLower(strings.ReplaceAll(text, "’", "'"))), " ")
	plain = strings.TrimRightFunc(plain, func(r rune) bool { return unicode.IsPunct(r) || unicode.IsSpace(r) })
	if stopWords[plain] {
		return "“" + strings.TrimSpace(text) + "”"
	}
	return text
}
