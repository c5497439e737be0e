package wire

import (
	"encoding/json"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"patchbay/internal/jsonrpc"
)

// Code is an error code. The list is closed; the code within the details is more specific.
type Code string

// The codes of errors (packages/gateway-protocol/src/schema/error-codes.ts).
const (
	InvalidRequest Code = "INVALID_REQUEST"
	Unavailable    Code = "UNAVAILABLE"
	Forbidden      Code = "FORBIDDEN"
	NotPaired      Code = "NOT_PAIRED"
)

// Error is the error response to a request. Programs decide by Code and [Error.Detail], never by
// the message. Errors returned by functions or stored in variables of this package are shared:
// do not modify them.
type Error struct {
	Code    Code
	Message string
	// Details are a JSON object, or nil.
	Details   json.RawMessage
	Retryable bool
	// RetryAfter is the delay before a retry; 0: not given.
	RetryAfter time.Duration
	// Close is the code with which the gateway closes the connection after the response; 0: it
	// stays open. It is not part of the response.
	Close int
}

func (e *Error) Error() string { return string(e.Code) + ": " + e.Message }

// Detail returns the code within the details, or "".
func (e *Error) Detail() string { return e.detail("code") }

// Next returns the gateway's recommended next step for a client, or "".
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

// Reason returns the reason for a Close frame: the message, cut to MaxReason bytes.
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

// append appends the error object of a response.
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

// maxRetryAfter limits the delay a gateway can request.
const maxRetryAfter = time.Hour

// parseError parses the error object of a response. Invalid input is an error as well.
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

// Invalid returns the error for an invalid request.
func Invalid(message string) *Error { return &Error{Code: InvalidRequest, Message: message} }

// UnknownMethod returns the error for an unsupported method.
func UnknownMethod(method string) *Error { return Invalid("unknown method: " + method) }

// WrongRole returns the error for a method that a role may not call. After [MaxUnauthorized] in
// a row, [RepeatedlyUnauthorized] ends the connection.
func WrongRole(role string) *Error { return Invalid("unauthorized role: " + role) }

// MissingScope returns the error for an operator without the scope.
func MissingScope(scope string) *Error {
	return &Error{Code: Forbidden, Message: "missing scope: " + scope, Details: mustJSON(struct {
		Code     string   `json:"code"`
		Missing  string   `json:"missingScope"`
		Required []string `json:"requiredScopes"`
	}{DetailScope, scope, []string{scope}})}
}

// details returns details with a code and pairs of keys and texts.
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
