package hub

import (
	"slices"

	"patchbay/internal/account"
	"patchbay/internal/i18n"
	"patchbay/internal/settings"
)

// Messages about invalid settings.
const (
	msgAgentID  = i18n.Message("agent_id is owner, anyone or off, not %q")
	msgHangup   = i18n.Message("hangup is finish or cancel, not %q")
	msgNegative = i18n.Message("concurrent and waiting cannot be negative")
)

// Common has the settings of all kinds of bots.
type Common struct {
	account.Audience
	// AgentID decides who may ask the bot by its number: keys of its owner ("owner", also when
	// empty), any key ("anyone") or none ("off").
	AgentID string `json:"agent_id,omitempty"`
	// OnDisconnect decides what happens when the asker disconnects: the bot finishes and the answer
	// is delivered later ("finish", also when empty), or it is stopped ("cancel").
	OnDisconnect string `json:"hangup,omitempty"`
	// FirstPiece and Idle override the timeouts for the first piece and for each further one.
	FirstPiece settings.Duration `json:"first_piece,omitempty"`
	Idle       settings.Duration `json:"idle,omitempty"`
	// Concurrent and Waiting override the number of concurrent and of waiting turns.
	Concurrent int `json:"concurrent,omitempty"`
	Waiting    int `json:"waiting,omitempty"`
	// KeepContent stores questions and answers in traces.
	KeepContent *bool `json:"keep_content,omitempty"`
	// AllowTools are the tools that the bot may call, names and patterns with *; empty: none.
	// DenyTools are excluded from them, and DangerousTools may be called although they are
	// dangerous.
	AllowTools     []string `json:"allow_tools,omitempty"`
	DenyTools      []string `json:"deny_tools,omitempty"`
	DangerousTools []string `json:"dangerous_tools,omitempty"`
	// LendTools are the owner's tools that the bot may call for people with whom it is shared,
	// besides their own; names and patterns with *; empty: none.
	LendTools []string `json:"lend_tools,omitempty"`
	// AskDangerous has calls of other dangerous tools wait for the owner's approval, instead of
	// hiding these tools.
	AskDangerous bool `json:"ask_dangerous,omitempty"`
}

// Rules returns the rules of the bot as a caller.
func (c *Common) Rules() Rules {
	r := Rules{Allow: c.AllowTools, Deny: c.DenyTools, Dangerous: c.DangerousTools}
	if c.AskDangerous {
		r.Ask = AskOwner
	}
	return r
}

// Validate reports invalid values.
func (c *Common) Validate() error {
	if !slices.Contains([]string{"", "owner", "anyone", "off"}, c.AgentID) {
		return msgAgentID.Errorf(c.AgentID)
	}
	if !slices.Contains([]string{"", "finish", "cancel"}, c.OnDisconnect) {
		return msgHangup.Errorf(c.OnDisconnect)
	}
	if c.Concurrent < 0 || c.Waiting < 0 {
		return msgNegative.Errorf()
	}
	r := c.Rules()
	r.Allow = slices.Concat(r.Allow, c.LendTools)
	return r.Validate()
}
