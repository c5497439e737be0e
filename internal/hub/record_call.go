package hub

import (
	"encoding/json"
	"time"

	"github.com/google/uuid"

	"patchbay/internal/tool"
)

// AuthorizeTool checks whether a caller may do what a tool does without calling that tool, as
// operations of /api/v1 do. The rules and the rate limit of calls of the tool apply. Its error
// is a *[tool.Error]. The caller then records what it changed with [Hub.RecordCall].
func (h *Hub) AuthorizeTool(who Access, name string) error { return h.authorizeTool(who, name, true) }

// PermitTool is [Hub.AuthorizeTool] for a part of an action that was counted already: only the
// rules apply.
func (h *Hub) PermitTool(who Access, name string) error { return h.authorizeTool(who, name, false) }

func (h *Hub) authorizeTool(who Access, name string, counts bool) error {
	v, err := h.View(who.Person, who.Rules)
	switch {
	case err != nil:
		return tool.Fail(tool.Failed, "The rules of this key cannot be read.", err)
	case counts && !h.rates.allow(who.Caller, v.rules.PerMinute):
		return tool.Fail(tool.RateLimited, "Too many calls; wait a minute and call again.", nil)
	case !v.HasOriginal(name):
		return v.missingToolError(name)
	}
	return nil
}

// RecordCall records an action that was not a tool call, but that a tool of the provider also
// performs, as a call of that tool with these args. As for any call that is not read-only, the
// call record is durable when RecordCall returns.
func (h *Hub) RecordCall(who Access, provider ProviderRef, name string, args json.RawMessage, res *tool.Result,
	err error, began time.Time) {
	joined, wrong := parseJoined(who.Rules)
	rules := Rules{} // the action was already allowed
	if wrong == nil {
		rules = joined[0]
	}
	o := &RegisteredTool{Name: name, Tool: &tool.Tool{Name: name}, offer: &offer{ProviderRef: provider}}
	c := &tool.Call{ID: uuid.Must(uuid.NewV7()).String(), Tool: name, Args: args, Caller: who.Caller}
	if res == nil {
		res = &tool.Result{}
	}
	row := h.callRow(o, name, rules, c, began)
	h.record(o, &row, res, err, true, true)
}
