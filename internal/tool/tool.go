// Package tool is the vocabulary of an action: what a program can call, who
// calls it, and what comes back.
//
// A [Provider] (the bots, an upstream MCP server, a device) is plugged into the
// board with the [Tool]s it offers; programs and bots call them through the
// board. Nothing here knows who carries the calls, and this package imports
// nothing else of the project.
//
// What tools take and give is JSON that others wrote and others will read, so it
// is passed on as it is: schemas, arguments and content are raw JSON.
package tool

import (
	"context"
	"encoding/json"
)

// Provider carries out calls of the tools that it was plugged in with.
//
// It may also be a [Library] or a [Promptbook], or both.
type Provider interface {
	// Call carries out one call and returns when there is a result. Arguments
	// have been checked against the tool's schema. It stops early when ctx ends
	// and returns ctx's error then. An error that is, or wraps, an *[Error] is
	// told to the caller as it says; any other is told as [Failed]. It is called
	// by many goroutines at once.
	Call(ctx context.Context, c *Call) (*Result, error)
}

// Tool is something that can be called.
type Tool struct {
	// Name is the tool's name at its provider, unique there.
	Name        string `json:"name"`
	Title       string `json:"title,omitempty"`
	Description string `json:"description"`
	// Input is the JSON Schema of the arguments; its type is object.
	Input json.RawMessage `json:"inputSchema"`
	// Output is the JSON Schema of Result.Structured; null if there is none.
	Output json.RawMessage `json:"outputSchema,omitempty"`
	Hints  Hints           `json:"annotations,omitzero"`
	// Icons and Meta are passed on to callers; null if there are none.
	Icons json.RawMessage `json:"icons,omitempty"`
	Meta  json.RawMessage `json:"_meta,omitempty"`
	// Dangerous tools are hidden and refused until their owner asks for them by
	// name: what reboots a device, replaces its firmware, or cannot be undone.
	Dangerous bool `json:"dangerous,omitempty"`
	// For says whom the tool is for, in the words of MCP's audience: "user" keeps
	// it from models. Empty: for everybody.
	For string `json:"for,omitempty"`
}

// Hints describe what a call does to the world; null means that it is not known.
type Hints struct {
	ReadOnly    *bool `json:"readOnlyHint,omitempty"`    // changes nothing
	Destructive *bool `json:"destructiveHint,omitempty"` // may destroy something
	Idempotent  *bool `json:"idempotentHint,omitempty"`  // twice does no more than once
	OpenWorld   *bool `json:"openWorldHint,omitempty"`   // reaches beyond the provider
}

// Reads are the hints of a tool that only looks something up at home.
func Reads() Hints {
	yes, no := true, false
	return Hints{ReadOnly: &yes, Destructive: &no, Idempotent: &yes, OpenWorld: &no}
}

// OnlyReads says whether a tool surely changes nothing.
func (t *Tool) OnlyReads() bool { return t.Hints.ReadOnly != nil && *t.Hints.ReadOnly }

// Caller is on whose behalf a call is made, and by what.
type Caller struct {
	// Person is the id of the account whose tools are called.
	Person string `json:"person"`
	// Actor is the id of the account that calls, if it is another, as an administrator's
	// is; "-" for whoever runs the machine. Address is from which the call came.
	Actor   string `json:"actor,omitempty"`
	Address string `json:"address,omitempty"`
	// Key is the id of the key that was shown; empty for a bot.
	Key string `json:"key,omitempty"`
	// Only is the number of the only bot that the key opens; 0: any.
	Only int64 `json:"only,omitempty"`
	// Open says that nobody showed a key: only what its owner has opened to
	// anybody may be reached. Person is empty then.
	Open bool `json:"open,omitempty"`
	// Bot is the number of the bot that calls; 0 for a program.
	Bot int64 `json:"bot,omitempty"`
	// Turn is the id of the turn in which a bot calls.
	Turn string `json:"turn,omitempty"`
	// Depth counts how many bots stand behind the call: a bot that is asked by a
	// bot that is asked by … Programs have 0.
	Depth int `json:"depth,omitempty"`
	// Bound are the rules of the key behind the call, as they are kept: a bot that is
	// asked by the call is bound by them too.
	Bound string `json:"bound,omitempty"`
	// Door names the way in: "mcp", "rokid-mcp", "xiaozhi-mcp", "bot", "cli".
	Door string `json:"door"`
	// Program is what the caller calls itself, for the audit.
	Program string `json:"program,omitempty"`
	// Device is the id of the device that the caller says it is, if it does.
	Device string `json:"device,omitempty"`
	// Lang is the language of sentences for people, "zh" or "en".
	Lang string `json:"lang,omitempty"`
}

// Call is one call of one tool.
type Call struct {
	// ID is unique for ever (UUIDv7).
	ID string `json:"id"`
	// Tool is the tool's name at its provider.
	Tool string `json:"tool"`
	// Args are the arguments, a JSON object.
	Args   json.RawMessage `json:"args"`
	Caller Caller          `json:"caller"`
	// Answers and State come back from a caller that was asked for more by
	// [Result.Need].
	Answers map[string]json.RawMessage `json:"answers,omitempty"`
	State   string                     `json:"state,omitempty"`
	// Can is what the caller can be asked for.
	Can Abilities `json:"can,omitzero"`
	// Meta is what the caller sent along for the provider, a JSON object or null.
	Meta json.RawMessage `json:"meta,omitempty"`
	// Progress and Log tell the caller how the work goes. They are nil if nobody
	// wants to know; a provider calls them from one goroutine at a time and not
	// after Call has returned.
	Progress func(Progress) `json:"-"`
	Log      func(Log)      `json:"-"`
	// Pause asks the caller to hang up and come back for the result, if its door
	// knows how; it may be nil.
	Pause func() `json:"-"`
}

// Abilities are what a caller can be asked for while a call runs.
type Abilities struct {
	Elicit bool `json:"elicit,omitempty"` // its person, by a form
	Sample bool `json:"sample,omitempty"` // its model
	Roots  bool `json:"roots,omitempty"`  // its folders
}

// Progress says how far a call is.
type Progress struct {
	Done    float64 `json:"progress"`
	Total   float64 `json:"total,omitempty"` // 0: not known
	Message string  `json:"message,omitempty"`
}

// Log is a line about the work, of one of syslog's levels in words ("info").
type Log struct {
	Level  string          `json:"level"`
	Logger string          `json:"logger,omitempty"`
	Data   json.RawMessage `json:"data"`
}

// Result is what came of a call.
type Result struct {
	// Content is a JSON array of content blocks as MCP has them.
	Content json.RawMessage `json:"content,omitempty"`
	// Structured is the same for programs, a JSON object; null if there is none.
	Structured json.RawMessage `json:"structuredContent,omitempty"`
	// Derived reports that Structured was parsed out of the text of Content by us: its
	// provider said it once.
	Derived bool `json:"derived,omitempty"`
	// IsError says that the tool was carried out and failed; Content says why.
	IsError bool            `json:"isError,omitempty"`
	Meta    json.RawMessage `json:"_meta,omitempty"`
	// Need, if not nil, says that there is no result yet: the caller is asked for
	// something, and the same call comes again with the answers.
	Need *Need `json:"need,omitempty"`
}

// Need is what a provider must know before it can go on.
type Need struct {
	// Requests by names of the provider's choosing.
	Requests map[string]Request `json:"requests,omitempty"`
	// State comes back with the answers. The caller can read it; doors see to it
	// that it cannot be changed.
	State string `json:"state,omitempty"`
}

// Request asks the caller for something.
type Request struct {
	Method string          `json:"method"` // elicitation/create, sampling/createMessage, roots/list
	Params json.RawMessage `json:"params,omitempty"`
}
