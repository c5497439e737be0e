// Package jsonrpc parses and writes JSON-RPC 2.0 messages (https://www.jsonrpc.org/specification).
// Ids, params and results are kept as raw bytes.
package jsonrpc

import (
	"encoding/json"
	"errors"
	"strconv"
)

// Error codes (JSON-RPC 2.0 §5.1).
const (
	ParseError     = -32700
	InvalidRequest = -32600
	MethodNotFound = -32601
	InvalidParams  = -32602
	InternalError  = -32603
)

// Message is a request, a notification (no ID), or a response (no Method). Missing members are nil.
// The fields share memory with the parsed data.
type Message struct {
	ID     json.RawMessage // string or number; not null, as in MCP (schema 2025-11-25, RequestId)
	Method string
	Params json.RawMessage // an object or an array
	Result json.RawMessage
	Error  json.RawMessage // an object
	Raw    json.RawMessage // the whole message as received
}

// IsRequest reports whether the message is a request, which needs a response.
func (m *Message) IsRequest() bool { return m.Method != "" && m.ID != nil }

// IsNotification reports whether the message is a notification.
func (m *Message) IsNotification() bool { return m.Method != "" && m.ID == nil }

// Errors of [Parse].
var (
	ErrSyntax  = errors.New("this is no JSON")
	ErrMessage = errors.New("this is no JSON-RPC 2.0 message")
)

// Parse parses one message. It returns [ErrSyntax] or [ErrMessage]; with the latter, the message's
// ID is set if it is valid.
func Parse(data []byte) (Message, error) {
	var m Message
	if !Valid(data) {
		return m, ErrSyntax
	}
	m.Raw = data
	in := Scan(data)
	version, twice := false, false
	set := func(field *json.RawMessage, value []byte) {
		twice = twice || *field != nil
		*field = value
	}
	var method json.RawMessage
	for in.Next() {
		switch string(in.Key) {
		case "jsonrpc":
			version = string(in.Value) == `"2.0"`
		case "id":
			set(&m.ID, in.Value)
		case "method":
			set(&method, in.Value)
		case "params":
			set(&m.Params, in.Value)
		case "result":
			set(&m.Result, in.Value)
		case "error":
			set(&m.Error, in.Value)
		}
	}
	if m.ID != nil && !isID(m.ID) {
		m.ID, twice = nil, true
	}
	if method != nil {
		m.Method = Text(method)
	}
	if !in.IsObject() || !version || twice || !m.isValid(method != nil) {
		return m, ErrMessage
	}
	return m, nil
}

// isValid reports whether the combination of members is valid (JSON-RPC 2.0 §4, §5).
func (m *Message) isValid(method bool) bool {
	if method {
		return m.Method != "" && m.Result == nil && m.Error == nil &&
			(m.Params == nil || m.Params[0] == '{' || m.Params[0] == '[')
	}
	return m.ID != nil && (m.Result == nil) != (m.Error == nil) && (m.Error == nil || m.Error[0] == '{')
}

// isID reports whether a value is a valid id: a string or a number.
func isID(v []byte) bool {
	return v[0] == '"' || v[0] == '-' || '0' <= v[0] && v[0] <= '9'
}

// Text returns the value of a JSON string, or "" if v is no string.
func Text(v []byte) string {
	if b, ok := unescapedText(v); ok {
		return string(b)
	}
	var s string
	if json.Unmarshal(v, &s) != nil {
		return ""
	}
	return s
}

// TextBytes returns the value of a JSON string, or nil if v is no string. It shares memory with v
// if the string has no escapes.
func TextBytes(v []byte) []byte {
	if b, ok := unescapedText(v); ok {
		return b
	}
	return []byte(Text(v))
}

// unescapedText returns the value of a JSON string without escapes, or nil if v is no string. ok is
// false if the string needs decoding.
func unescapedText(v []byte) (text []byte, ok bool) {
	if len(v) < 2 || v[0] != '"' {
		return nil, true
	}
	inner := v[1 : len(v)-1]
	for _, c := range inner {
		if c == '\\' || c >= 0x80 {
			return nil, false
		}
	}
	return inner, true
}

// AppendText appends s as a JSON string.
func AppendText(b []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c == '"' || c == '\\' || c >= 0x7f {
			quoted, _ := json.Marshal(s)
			return append(b, quoted...)
		}
	}
	b = append(b, '"')
	b = append(b, s...)
	return append(b, '"')
}

// Error is the error object of a response (JSON-RPC 2.0 §5.1).
type Error struct {
	Code    int             `json:"code"`
	Message string          `json:"message"`
	Data    json.RawMessage `json:"data,omitempty"`
}

func (e *Error) Error() string { return e.Message }

// AppendResult appends a successful response.
func AppendResult(b []byte, id, result []byte) []byte {
	b = append(b, `{"jsonrpc":"2.0","id":`...)
	b = append(b, id...)
	b = append(b, `,"result":`...)
	b = append(b, result...)
	return append(b, '}')
}

// AppendError appends an error response. A nil id, for a request whose id could not be read, is
// left out.
func AppendError(b []byte, id []byte, e *Error) []byte {
	b = append(b, `{"jsonrpc":"2.0",`...)
	if id != nil {
		b = append(b, `"id":`...)
		b = append(b, id...)
		b = append(b, ',')
	}
	b = append(b, `"error":{"code":`...)
	b = strconv.AppendInt(b, int64(e.Code), 10)
	b = append(b, `,"message":`...)
	b = AppendText(b, e.Message)
	if len(e.Data) > 0 {
		b = append(b, `,"data":`...)
		b = append(b, e.Data...)
	}
	return append(b, "}}"...)
}

// AppendRequest appends a request, or with a nil id a notification. params may be nil.
func AppendRequest(b []byte, id []byte, method string, params []byte) []byte {
	b = append(b, `{"jsonrpc":"2.0",`...)
	if id != nil {
		b = append(b, `"id":`...)
		b = append(b, id...)
		b = append(b, ',')
	}
	b = append(b, `"method":`...)
	b = AppendText(b, method)
	if params != nil {
		b = append(b, `,"params":`...)
		b = append(b, params...)
	}
	return append(b, '}')
}
