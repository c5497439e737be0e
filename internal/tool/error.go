package tool

import (
	"encoding/json"
	"errors"
	"fmt"
)

// Code says why a call brought no result, for programs and for metrics.
type Code string

// The reasons why a call brings no result.
const (
	Unknown   Code = "unknown_tool"  // there is no such tool, or not for this caller
	BadArgs   Code = "bad_arguments" // the arguments do not fit the schema
	Denied    Code = "denied"        // the owner does not allow it
	TooMany   Code = "rate_limited"  // the caller calls too often
	Busy      Code = "busy"          // too many calls are running already
	Stopping  Code = "stopping"      // the server stops, and takes no new calls
	Offline   Code = "offline"       // the provider is not plugged in
	Lost      Code = "lost"          // the provider went away in mid-call
	TimedOut  Code = "timeout"       // no result came in time
	Cancelled Code = "cancelled"     // the caller gave up
	Garbled   Code = "garbled"       // the provider's answer cannot be used
	TooLarge  Code = "too_large"     // the provider's answer is too large
	Refused   Code = "refused"       // the provider refused the call as such (Error.RPC says how)
	Failed    Code = "failed"        // the provider failed
)

// Error is why a call brought no result.
type Error struct {
	Code Code `json:"code"`
	// Told is what the caller is told: short, without secrets, and such that a
	// model knows what to do about it.
	Told string `json:"told"`
	// Cause is for the owner and the log.
	Cause string `json:"cause,omitempty"`
	// RPC and Data are the error of a provider that speaks JSON-RPC itself, for
	// callers that do too; RPC is 0 if there is none.
	RPC  int             `json:"rpc,omitempty"`
	Data json.RawMessage `json:"data,omitempty"`
}

// Fail makes an Error whose cause is err (which may be nil).
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

// AsError finds the Error in err, or makes one of code [Failed] out of an error
// that has none. It returns nil for nil.
func AsError(err error) *Error {
	if err == nil {
		return nil
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return e
	}
	return &Error{Code: Failed, Told: "The tool failed.", Cause: err.Error()}
}
