package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"patchbay/internal/i18n"
)

// Class is the kind of an [Error]. Classes are stable: metrics and records have them.
type Class string

// The classes.
const (
	Auth    Class = "auth"    // the key is missing or refused
	Quota   Class = "quota"   // the account's limit is reached
	Busy    Class = "busy"    // the engine has too much to do
	Input   Class = "input"   // the engine does not accept the model, voice, text or sound
	Timeout Class = "timeout" // no result in time
	Broken  Class = "broken"  // the engine violates its protocol, or has an error of its own
	Closed  Class = "closed"  // the engine cannot be reached, or closed the connection
	Spent   Class = "spent"   // a limit of this server is reached, see [Account]
)

// What people are told of each class. Details are in [Error.Err], for the owner.
var classTexts = map[Class]i18n.Message{
	Auth:    "the speech engine refused its key",
	Quota:   "the limit of the speech engine's account is reached",
	Busy:    "the speech engine has too much to do",
	Input:   "the speech engine did not accept the request",
	Timeout: "the speech engine did not answer in time",
	Broken:  "the speech engine has a problem",
	Closed:  "the speech engine cannot be reached",
	Spent:   "the limit of speech for today is reached",
}

// Error is a failure of an engine.
type Error struct {
	Class Class
	// RetryAfter is how long the engine asks to wait; 0: it did not ask.
	RetryAfter time.Duration
	// Err is the cause, without secrets.
	Err error
}

// Errorf returns an error of a class; see [fmt.Errorf].
func Errorf(c Class, format string, args ...any) *Error {
	return &Error{Class: c, Err: fmt.Errorf(format, args...)}
}

// Error implements error, for the owner and the log.
func (e *Error) Error() string { return string(e.Class) + ": " + e.Err.Error() }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Text returns what people are told.
func (e *Error) Text() i18n.Text { return classTexts[e.Class].With() }

// In returns what people are told, in a language.
func (e *Error) In(l i18n.Lang) string { return classTexts[e.Class].In(l) }

// AsError returns err as an [*Error]: Timeout for the end of a deadline, and Broken for what the
// engine did not classify. It returns nil for nil and for a canceled context.
func AsError(err error) *Error {
	if e, ok := errors.AsType[*Error](err); ok {
		return e
	}
	switch {
	case err == nil, errors.Is(err, context.Canceled):
		return nil
	case errors.Is(err, context.DeadlineExceeded):
		return &Error{Class: Timeout, Err: err}
	}
	return &Error{Class: Broken, Err: err}
}
