package board

import (
	"encoding/json"
	"time"

	"github.com/google/uuid"

	"patchbay/internal/tool"
)

// Admit says whether a caller may do by itself what a tool does, as an operation of
// /api/v1 does: by the rules and at the rate that hold for calls of that tool. Its error
// is a *[tool.Error]. What the caller changes then is told to [Board.Note].
func (b *Board) Admit(who Access, name string) error {
	v, err := b.View(who.Person, who.Rules)
	switch {
	case err != nil:
		return tool.Fail(tool.Failed, "The rules of this key cannot be read.", err)
	case !b.rates.allow(who.Caller, v.rules.PerMinute):
		return tool.Fail(tool.TooMany, "Too many calls; wait a minute and call again.", nil)
	case v.Tool(name) == nil:
		return v.missing(name)
	}
	return nil
}

// Note records what somebody did otherwise than by a call, and what a tool of an outlet
// does too, as a call of that tool; args are what it would have been called with. As of
// any call that has done something, the row is safe when Note returns.
func (b *Board) Note(who Access, outlet Outlet, name string, args json.RawMessage, res *tool.Result, err error, began time.Time) {
	joined, wrong := parseJoined(who.Rules)
	rules := Rules{} // it was let in, whatever they are
	if wrong == nil {
		rules = joined[0]
	}
	o := &Offered{Name: name, Tool: &tool.Tool{Name: name}, of: &offer{Outlet: outlet}}
	c := &tool.Call{ID: uuid.Must(uuid.NewV7()).String(), Tool: name, Args: args, Caller: who.Caller}
	if res == nil {
		res = &tool.Result{}
	}
	b.record(o, b.callRow(o, name, rules, c, began), res, err, true)
}
