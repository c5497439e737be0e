package hub

import (
	"context"
	"encoding/json"
	"slices"

	"patchbay/internal/tool"
)

// Messages of MCP that set up the session with a device, or tell it something. They are calls of
// tools that are in no list.
const (
	// MessageInitialize has the arguments {capabilities?}. The structured result is the device's
	// answer to initialize.
	MessageInitialize = "mcp.initialize"
	// MessageNotify has the arguments {method, params?}.
	MessageNotify = "mcp.notify"
)

var messageTools = map[string]*tool.Tool{
	MessageInitialize: {Name: MessageInitialize, Input: json.RawMessage(`{"type":"object"}`)},
	MessageNotify:     {Name: MessageNotify, Input: json.RawMessage(`{"type":"object"}`)},
}

// SendMessage sends one of the messages to a device, whose provider must know them. The rules of
// its owner and of the caller apply as to a tool of the device with that name, and the message is
// in the audit trail. Who may call no tool of the device may not send it anything. Otherwise it is
// like [Hub.Call].
func (h *Hub) SendMessage(ctx context.Context, who Access, provider, message string, c *tool.Call) (*tool.Result,
	error) {
	s, name := h.catalog.snapshot(who.Person), message
	i := slices.IndexFunc(s.offers, func(o *offer) bool { return o.ID == provider })
	if i >= 0 {
		name = s.offers[i].FullName(message)
	}
	return h.call(ctx, who, name, c, func(ctx context.Context, v *View) (*RegisteredTool, error) {
		known := func(t *RegisteredTool) bool { return t.offer.ID == provider }
		if i < 0 || messageTools[message] == nil || !slices.ContainsFunc(v.Tools, known) {
			return nil, tool.Fail(tool.Offline, "This device is not there any more.", nil)
		}
		t := &RegisteredTool{Name: name, Tool: messageTools[message], offer: s.offers[i]}
		rules, err := s.cachedView(who.Rules)
		if err != nil {
			return nil, tool.Fail(tool.Failed, "The rules of this key cannot be read.", err)
		}
		if evaluate(t, s.rules, rules.rules) != allowed {
			return nil, tool.Fail(tool.Denied, "The message "+name+" is not allowed here.", nil)
		}
		return t, t.checkArgs(ctx, c.Args)
	})
}
