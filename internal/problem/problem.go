// Package problem has the error that people and programs get: a stable code, a text in the language
// of whoever asked, and a cause for the owner and the log.
package problem

import (
	"errors"
	"time"

	"patchbay/internal/i18n"
)

// Error is the reason why a request was not carried out.
type Error struct {
	Code Code
	// Text is for whoever asked: what is wrong, and what to do. It has no secrets, and nothing that
	// belongs to other people.
	Text i18n.Text
	// Cause is for the owner and the log; nil: none.
	Cause error
	// Retry is how long to wait before another attempt; 0: unknown. See [Error.RetryAfter].
	Retry time.Duration
}

// New returns an error.
func New(c Code, m i18n.Message, args ...any) *Error {
	return &Error{Code: c, Text: i18n.Text{Message: m, Args: args}}
}

// Wrap returns an error with the text of err, translated as far as err is. It returns nil for nil.
func Wrap(c Code, err error) error {
	if err == nil {
		return nil
	}
	e := New(c, i18n.Message("%v"), err)
	e.Cause = err
	return e
}

// Because sets the cause, and returns the error.
func (e *Error) Because(cause error) *Error {
	e.Cause = cause
	return e
}

// RetryIn sets how long to wait before another attempt, and returns the error.
func (e *Error) RetryIn(d time.Duration) *Error {
	e.Retry = d
	return e
}

// Error implements error, with the text in English.
func (e *Error) Error() string { return e.Text.In(i18n.English) }

// In returns the text in a language.
func (e *Error) In(l i18n.Lang) string { return e.Text.In(l) }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Cause }

// defaultRetry is the wait after too many attempts, unless the error says another.
const defaultRetry = time.Minute

// RetryAfter returns how long to wait before another attempt; 0: unknown.
func (e *Error) RetryAfter() time.Duration {
	if e.Retry == 0 && e.Code == RateLimited {
		return defaultRetry
	}
	return e.Retry
}

// Is reports whether err is or wraps an [Error] with the code.
func Is(err error, c Code) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && e.Code == c
}
