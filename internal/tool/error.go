package tool

import (
	"encoding/json"
	"errors"
	"fmt"
)

// Code is the stable reason why a call has no result, for programs and metrics.
type Code string

// Reasons why a call has no result.
const (
	Unknown     Code = "unknown_tool"  // no such tool, or not visible to this caller
	BadArgs     Code = "bad_arguments" // the arguments do not match the schema
	Denied      Code = "denied"        // a rule of the owner forbids it
	Held        Code = "held"          // the tool has changed, and its owner has not approved that
	Unapproved  Code = "unapproved"    // it waits for an approval of its owner
	RateLimited Code = "rate_limited"  // the caller exceeds its rate limit
	Busy        Code = "busy"          // too many calls are running
	Stopping    Code = "stopping"      // the server is stopping and accepts no new calls
	Offline     Code = "offline"       // the provider is not connected
	Lost        Code = "lost"          // the provider disconnected during the call
	TimedOut    Code = "timeout"       // no result before the timeout
	Cancelled   Code = "cancelled"     // the caller cancelled the call
	Garbled     Code = "garbled"       // the provider's response is malformed
	TooLarge    Code = "too_large"     // the provider's response exceeds the limit
	Refused     Code = "refused"       // the provider rejected the request; see Error.RPC
	Failed      Code = "failed"        // the provider failed
)

// Error is the reason why a call has no result.
type Error struct {
	Code Code `json:"code"`
	// Told is the message for the caller: short, without secrets, and phrased so that a model
	// knows what to do.
	Told string `json:"told"`
	// Cause is for the owner and the log.
	Cause string `json:"cause,omitempty"`
	// RPC and Data are the code and data of a provider's JSON-RPC error, passed on to callers
	// that speak JSON-RPC; RPC is 0 if there is none.
	RPC  int             `json:"rpc,omitempty"`
	Data json.RawMessage `json:"data,omitempty"`
	// Ask, if not nil, means that nothing was done because the provider wants its owner's approval
	// of this call. The hub asks, and repeats the call with [Call.Approved].
	Ask *Ask `json:"ask,omitempty"`
}

// Ask is what a provider wants its owner to approve.
type Ask struct {
	// Kind is what it is about, for people, [AskRun].
	Kind string `json:"kind"`
	// Title says what is to be done, in a line.
	Title string `json:"title"`
	// Device is the id of the device that does it.
	Device string `json:"device,omitempty"`
	// Prepared is given back to the provider with the approval, in [Call.Prepared].
	Prepared json.RawMessage `json:"prepared,omitempty"`
}

// AskRun is the kind of questions about programs that a device is to run.
const AskRun = "run"

// Fail returns an Error with err, which may be nil, as its cause.
func Fail(code Code, told string, err error) *Error {
	e := &Error{Code: code, Told: told}
	if err != nil {
		e.Cause = err.Error()
	}
	return e
}

func (e *Error) Error() string {
	if e.Cause != "" && e.Cause != e.Told {
		return fmt.Sprintf("%s: %s", e.Told, e.Cause)
	}
	return e.Told
}

// AsError returns the Error that err is or wraps, or else an Error of code [Failed] with err as
// its cause. It returns nil for nil.
func AsError(err error) *Error {
	if err == nil {
		return nil
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return e
	}
	return &Error{Code: Failed, Told: "The tool failed.", Cause: err.Error()}
}
