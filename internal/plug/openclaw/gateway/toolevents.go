package gateway

import (
	"encoding/json"

	"patchbay/internal/plug/openclaw/wire"
	"patchbay/internal/talk"
)

// maxToolArgs limits the arguments of a call that clients are shown, in bytes.
const maxToolArgs = 8 << 10

// usesTool tells clients of a call of a tool by the bot (src/gateway/server-chat.ts). Clients that
// show tools get it as an event of the run, all others that follow the list of conversations as
// session.tool.
func (n *run) usesTool(u talk.ToolUse) {
	data := map[string]any{"phase": "start", "name": u.Name, "toolCallId": u.ID}
	switch {
	case u.Ended:
		data["phase"], data["isError"] = "result", u.Failed
		data["result"] = map[string]any{"content": []any{map[string]string{"type": "text", "text": u.Result}}}
	case len(u.Args) <= maxToolArgs && json.Valid(u.Args):
		data["args"] = u.Args
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.state != "" {
		return
	}
	n.flush() // what was said before
	t := n.agentEvent(wire.StreamTool, data)
	t.Tool = true
	n.g.broadcast(t)
	t.Event, t.Index = wire.EventSessionTool, true
	n.g.broadcast(t)
}
