// Package tool defines the types of a tool call: the tool, its caller, the call and its result.
//
// A [Provider] (the bots, an upstream MCP server, a device) registers its [Tool]s with the hub;
// programs and bots call them through the hub. This package does not know how calls are
// transported, and imports no other package of the project.
//
// Schemas, arguments and content are raw JSON, because others wrote them and others read them:
// they are passed on unchanged.
package tool

import (
	"context"
	"encoding/json"
)

// Provider executes calls of the tools it is registered with. It may also be a
// [ResourceProvider] or a [PromptProvider], or both.
type Provider interface {
	// Call executes one call and returns its result. The arguments have been validated
	// against the tool's schema. When ctx ends, Call stops and returns ctx's error. An error
	// that is or wraps an *[Error] reaches the caller with its code and text; any other
	// becomes [Failed]. Call must be safe for concurrent use.
	Call(ctx context.Context, c *Call) (*Result, error)
}

// Tool describes a tool that can be called.
type Tool struct {
	// Name is the tool's name at its provider, unique there.
	Name        string `json:"name"`
	Title       string `json:"title,omitempty"`
	Description string `json:"description"`
	// Input is the JSON Schema of the arguments; its type is object.
	Input json.RawMessage `json:"inputSchema"`
	// Output is the JSON Schema of Result.Structured; nil if there is none.
	Output json.RawMessage `json:"outputSchema,omitempty"`
	Hints  Hints           `json:"annotations,omitzero"`
	// Icons and Meta are passed on to callers; nil if there are none.
	Icons json.RawMessage `json:"icons,omitempty"`
	Meta  json.RawMessage `json:"_meta,omitempty"`
	// Extra has further members of the tool as its provider lists it, and "annotations" with
	// further ones of those: a JSON object, or nil. They are passed on.
	Extra json.RawMessage `json:"extra,omitempty"`
	// Dangerous tools are hidden and refused until their owner allows them by name. They reboot
	// a device, replace its firmware, or do something that cannot be undone.
	Dangerous bool `json:"dangerous,omitempty"`
	// Held tools have changed since their owner saw them: they are hidden and refused until the
	// owner approves the new form.
	Held bool `json:"held,omitempty"`
	// Audience is MCP's audience annotation: "user" hides the tool from models. Empty means
	// everybody.
	Audience string `json:"for,omitempty"`
}

// Hints are MCP's tool annotations: what a call may change. Nil means unknown.
type Hints struct {
	ReadOnly    *bool `json:"readOnlyHint,omitempty"`    // changes nothing
	Destructive *bool `json:"destructiveHint,omitempty"` // may destroy something
	Idempotent  *bool `json:"idempotentHint,omitempty"`  // twice does no more than once
	OpenWorld   *bool `json:"openWorldHint,omitempty"`   // reaches beyond the provider
}

// ReadOnlyHints returns the hints of a tool that only reads data of its provider.
func ReadOnlyHints() Hints {
	yes, no := true, false
	return Hints{ReadOnly: &yes, Destructive: &no, Idempotent: &yes, OpenWorld: &no}
}

// IsReadOnly reports whether the tool is declared to change nothing. A tool that is also declared
// destructive is not.
func (t *Tool) IsReadOnly() bool {
	return t.Hints.ReadOnly != nil && *t.Hints.ReadOnly && (t.Hints.Destructive == nil || !*t.Hints.Destructive)
}

// Caller identifies the account a call is made for, and the program, key or bot that makes it.
type Caller struct {
	// Person is the id of the account whose tools are called.
	Person string `json:"person"`
	// Actor is the id of the account that calls if it is not Person, such as an administrator;
	// "-" is the person who runs the machine. Address is the network address of the caller.
	Actor   string `json:"actor,omitempty"`
	Address string `json:"address,omitempty"`
	// Key is the id of the API key of the request; empty for a bot.
	Key string `json:"key,omitempty"`
	// OnlyBot is the number of the only bot that the key may use; 0 means any.
	OnlyBot int64 `json:"only,omitempty"`
	// Anonymous is true if there was no key: only what its owner has made public can be
	// called. Person is empty then.
	Anonymous bool `json:"open,omitempty"`
	// Bot is the number of the bot that calls; 0 for a program.
	Bot int64 `json:"bot,omitempty"`
	// Turn is the id of the turn in which a bot calls.
	Turn string `json:"turn,omitempty"`
	// Depth is the number of bots in the chain behind the call; 0 for a program.
	Depth int `json:"depth,omitempty"`
	// KeyRules are the stored rules of the key behind the call. They also bind a bot that
	// the call asks.
	KeyRules string `json:"bound,omitempty"`
	// Channel is the way the call came in: "mcp", "rokid-mcp", "xiaozhi-mcp", "bot", "cli".
	Channel string `json:"channel"`
	// Program is the name the caller gives itself, for the audit trail.
	Program string `json:"program,omitempty"`
	// Device is the id of the device the caller claims to be, if any.
	Device string `json:"device,omitempty"`
	// Via are the ids of the installations of Patchbay that the request came through, separated by
	// spaces.
	Via string `json:"via,omitempty"`
	// Lang is the language of texts for people, "zh" or "en".
	Lang string `json:"lang,omitempty"`
}

// Call is one call of one tool.
type Call struct {
	// ID is globally unique (UUIDv7).
	ID string `json:"id"`
	// Tool is the tool's name at its provider.
	Tool string `json:"tool"`
	// Args are the arguments, a JSON object.
	Args   json.RawMessage `json:"args"`
	Caller Caller          `json:"caller"`
	// Answers and State are what the caller sends after [Result.InputRequired]. Refusals are
	// JSON-RPC errors instead of answers, if [InputRequired.Refusable] is set.
	Answers  map[string]json.RawMessage `json:"answers,omitempty"`
	Refusals map[string]json.RawMessage `json:"refusals,omitempty"`
	State    string                     `json:"state,omitempty"`
	// Approved says how the provider's owner has approved the call: [ApprovedOnce] or
	// [ApprovedAlways]; empty if nobody was asked. Only the hub sets it. Prepared is what the
	// provider has given with its question.
	Approved string          `json:"approved,omitempty"`
	Prepared json.RawMessage `json:"prepared,omitempty"`
	// Abandoned means that the caller will not answer: the call of State ends without a result.
	Abandoned bool `json:"abandoned,omitempty"`
	// Capabilities are what the caller can be asked for.
	Capabilities Capabilities `json:"can,omitzero"`
	// Meta is the caller's _meta for the provider, a JSON object or nil.
	Meta json.RawMessage `json:"meta,omitempty"`
	// Progress and Log report on the work to the caller. They are nil if the caller does not
	// want reports. A provider calls them from one goroutine at a time, and not after Call
	// has returned.
	Progress func(Progress) `json:"-"`
	Log      func(Log)      `json:"-"`
	// LogLevel is the name of the least important level that Log takes; empty means "info".
	LogLevel string `json:"log_level,omitempty"`
	// Detach asks the caller to disconnect and fetch the result later, if its channel supports
	// that; it may be nil.
	Detach func() `json:"-"`
}

// How an owner has approved a call.
const (
	ApprovedOnce   = "once"
	ApprovedAlways = "always" // and those like it, as far as the provider can tell
)

// Capabilities are what a caller can be asked for while a call runs.
type Capabilities struct {
	Elicit      bool `json:"elicit,omitempty"`       // MCP elicitation: its person fills in a form
	ElicitURL   bool `json:"elicit_url,omitempty"`   // or opens an address
	Sample      bool `json:"sample,omitempty"`       // MCP sampling: its model completes a prompt
	SampleTools bool `json:"sample_tools,omitempty"` // with tools of the server
	Roots       bool `json:"roots,omitempty"`        // MCP roots: its folders
	// Tasks means that the caller waits for no result, and fetches it later if the call takes long.
	Tasks bool `json:"tasks,omitempty"`
	// Apps means that the caller shows the pages of tools (MCP Apps).
	Apps bool `json:"apps,omitempty"`
}

// CanAnswer reports whether the caller can be asked with a request of MCP (2025-11-25 client).
func (c Capabilities) CanAnswer(method string, params json.RawMessage) bool {
	var p struct {
		Mode  string            `json:"mode"`
		Tools []json.RawMessage `json:"tools"`
	}
	_ = json.Unmarshal(params, &p) // what is missing has its default
	switch method {
	case "elicitation/create":
		return p.Mode == "url" && c.ElicitURL || p.Mode != "url" && c.Elicit
	case "sampling/createMessage":
		return c.Sample && (len(p.Tools) == 0 || c.SampleTools)
	case "roots/list":
		return c.Roots
	}
	return false
}

// Progress reports how far a call has come.
type Progress struct {
	Done    float64 `json:"progress"`
	Total   float64 `json:"total,omitempty"` // 0 means unknown
	Message string  `json:"message,omitempty"`
}

// LogLevels are the log levels of MCP, least important first (2025-11-25 server/utilities/logging,
// "Log Levels"; RFC 5424 §6.2.1).
var LogLevels = []string{"debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"}

// Log is a log line of a call. Level is the name of a syslog severity, such as "info".
type Log struct {
	Level  string          `json:"level"`
	Logger string          `json:"logger,omitempty"`
	Data   json.RawMessage `json:"data"`
}

// Result is the result of a call.
type Result struct {
	// Content is a JSON array of MCP content blocks.
	Content json.RawMessage `json:"content,omitempty"`
	// Structured is the same result for programs, a JSON object; nil if there is none.
	Structured json.RawMessage `json:"structuredContent,omitempty"`
	// Derived is true if the hub parsed Structured from the text of Content; the provider sent
	// it once.
	Derived bool `json:"derived,omitempty"`
	// Declared is set by the hub if the tool has an output schema: programs that know it require
	// Structured.
	Declared bool `json:"-"`
	// IsError is true if the tool ran and failed; Content has the reason.
	IsError bool            `json:"isError,omitempty"`
	Meta    json.RawMessage `json:"_meta,omitempty"`
	// Extra has the members that MCP does not define, as a JSON object; nil if there are none.
	Extra json.RawMessage `json:"extra,omitempty"`
	// InputRequired, if not nil, means that there is no result yet: the caller provides what
	// is requested, and repeats the call with the answers.
	InputRequired *InputRequired `json:"need,omitempty"`
}

// InputRequired is what a provider needs from the caller before it can continue.
type InputRequired struct {
	// Requests are keyed by names that the provider chooses.
	Requests map[string]Request `json:"requests,omitempty"`
	// State is sent back with the answers. The caller can read it; handlers protect it from
	// being changed.
	State string `json:"state,omitempty"`
	// Refusable means that the provider goes on if the caller answers with errors.
	Refusable bool `json:"refusable,omitempty"`
}

// Request is a request to the caller.
type Request struct {
	Method string          `json:"method"` // elicitation/create, sampling/createMessage, roots/list
	Params json.RawMessage `json:"params,omitempty"`
}
