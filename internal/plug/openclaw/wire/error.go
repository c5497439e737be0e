package wire

import (
	"encoding/json"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"patchbay/internal/jsonrpc"
)

// Code says what kind of error it is. There are no others; what exactly happened is
// in the code within the details.
type Code string

// The codes of errors.
const (
	InvalidRequest   Code = "INVALID_REQUEST"
	Unavailable      Code = "UNAVAILABLE"
	Forbidden        Code = "FORBIDDEN"
	NotPaired        Code = "NOT_PAIRED"
	ApprovalNotFound Code = "APPROVAL_NOT_FOUND"
)

// Error is why a request was not carried out. Programs decide by Code and
// [Error.Detail], never by the message. An Error that a function here or a variable
// of this package gives out is shared: nobody may change it.
type Error struct {
	Code    Code
	Message string
	// Details are a JSON object, or nil.
	Details   json.RawMessage
	Retryable bool
	// RetryAfter is how long to wait before; 0 means that nobody says.
	RetryAfter time.Duration
	// Close is with what code the gateway closes the connection after it; 0 means
	// that it stays open. It is not in the answer.
	Close int
}

func (e *Error) Error() string { return string(e.Code) + ": " + e.Message }

// Detail is the code within the details, or "".
func (e *Error) Detail() string { return e.detail("code") }

// Next is what the gateway recommends a client to do, or "".
func (e *Error) Next() string { return e.detail("recommendedNextStep") }

func (e *Error) detail(name string) string {
	if e == nil || !json.Valid(e.Details) {
		return ""
	}
	for in := jsonrpc.Scan(e.Details); in.Next(); {
		if string(in.Key) == name {
			return jsonrpc.Text(in.Value)
		}
	}
	return ""
}

// Reason is what a gateway says when it closes the connection: the message, and of
// a long one what fits.
func (e *Error) Reason() string {
	s := strings.ToValidUTF8(e.Message, "\ufffd")
	if id := e.detail("requestId"); id != "" && e.Detail() == DetailPairing {
		s += " (requestId: " + id + ")"
	}
	if len(s) <= MaxReason {
		return s
	}
	n := MaxReason
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

// append appends the error object of an answer.
func (e *Error) append(b []byte) []byte {
	b = append(b, `{"code":`...)
	b = appendText(b, string(e.Code))
	b = append(b, `,"message":`...)
	b = appendText(b, e.Message)
	if e.Details != nil {
		b = append(b, `,"details":`...)
		b = append(b, e.Details...)
	}
	if e.Retryable {
		b = append(b, `,"retryable":true`...)
	}
	if e.RetryAfter > 0 {
		b = append(b, `,"retryAfterMs":`...)
		b = strconv.AppendInt(b, e.RetryAfter.Milliseconds(), 10)
	}
	return append(b, '}')
}

// maxRetryAfter bounds how long a gateway can make a client wait.
const maxRetryAfter = time.Hour

// parseError reads the error object of an answer. Whatever it is, there is an
// error.
func parseError(v []byte) *Error {
	e := &Error{Code: Unavailable, Message: "the gateway does not say why"}
	if len(v) == 0 {
		return e
	}
	for in := jsonrpc.Scan(v); in.Next(); {
		switch string(in.Key) {
		case "code":
			if s := jsonrpc.Text(in.Value); s != "" {
				e.Code = Code(s)
			}
		case "message":
			if s := jsonrpc.Text(in.Value); s != "" {
				e.Message = s
			}
		case "details":
			if in.Value[0] == '{' {
				e.Details = in.Value
			}
		case "retryable":
			e.Retryable = string(in.Value) == "true"
		case "retryAfterMs":
			ms := min(max(0, integer(in.Value)), maxRetryAfter.Milliseconds())
			e.RetryAfter = time.Duration(ms) * time.Millisecond
		}
	}
	return e
}

// Invalid is an error of a request that makes no sense.
func Invalid(message string) *Error { return &Error{Code: InvalidRequest, Message: message} }

// UnknownMethod is the answer to a method that the gateway does not have.
func UnknownMethod(method string) *Error { return Invalid("unknown method: " + method) }

// WrongRole is the answer to a method that is not for clients of a role. After
// [MaxUnauthorized] in a row, [RepeatedlyUnauthorized] ends the connection.
func WrongRole(role string) *Error { return Invalid("unauthorized role: " + role) }

// MissingScope is the answer to an operator who may not do that.
func MissingScope(scope string) *Error {
	return &Error{Code: Forbidden, Message: "missing scope: " + scope, Details: mustJSON(struct {
		Code     string   `json:"code"`
		Missing  string   `json:"missingScope"`
		Required []string `json:"requiredScopes"`
	}{DetailScope, scope, []string{scope}})}
}

// details makes details of a code and pairs of a name and a text.
func details(code string, pairs ...string) json.RawMessage {
	b := appendText([]byte(`{"code":`), code)
	for i := 0; i+1 < len(pairs); i += 2 {
		b = append(b, ',')
		b = appendText(b, pairs[i])
		b = append(b, ':')
		b = appendText(b, pairs[i+1])
	}
	return append(b, '}')
}
