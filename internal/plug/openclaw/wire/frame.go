package wire

import (
	"encoding/json"
	"errors"
	"math"
	"slices"
	"strconv"
	"unicode/utf8"

	"patchbay/internal/jsonrpc"
)

// The types of frames (packages/gateway-protocol/src/schema/frames.ts).
const (
	TypeRequest  = "req"
	TypeResponse = "res"
	TypeEvent    = "event"
)

// ErrSyntax means that a frame is not JSON. Gateways ignore such a frame, or close with CloseNormal
// if it is the first (src/gateway/server/ws-connection/message-handler.ts).
var ErrSyntax = errors.New("this is no JSON")

// ErrFrame means that the input is not a gateway frame.
var ErrFrame = errors.New("this is no frame of an OpenClaw gateway")

// Request is a request frame. The fields share memory with the parsed data.
type Request struct {
	ID     string
	Method string
	Params json.RawMessage // nil if there are none
	// Traceparent is the span of the client (W3C Trace Context); empty if there is none.
	Traceparent string
}

// BadRequest is the error for an invalid request frame.
type BadRequest struct {
	// ID is the id for the response, as raw JSON of any type.
	ID json.RawMessage
	// Message is the error in OpenClaw's words.
	Message string
}

func (b *BadRequest) Error() string { return "invalid request frame: " + b.Message }

// AppendAnswer appends the error response.
func (b *BadRequest) AppendAnswer(to []byte) []byte {
	return appendFailure(to, b.ID, Invalid(b.Error()))
}

// ParseRequest parses a frame received by a gateway. It returns [ErrSyntax] or a [*BadRequest].
func ParseRequest(data []byte) (Request, error) {
	var r Request
	if !jsonrpc.Valid(data) {
		return r, ErrSyntax
	}
	var m members
	if wrong := requestFrame.read(data, &m); wrong != "" {
		id := m.value("id")
		if id == nil {
			id = json.RawMessage(`"invalid"`)
		}
		return r, &BadRequest{ID: id, Message: wrong}
	}
	return Request{ID: jsonrpc.Text(m.value("id")), Method: methodName(jsonrpc.TextBytes(m.value("method"))),
		Params: m.value("params"), Traceparent: jsonrpc.Text(m.value("traceparent"))}, nil
}

// methodName returns a method name, without allocating for frequent ones.
func methodName(name []byte) string {
	switch string(name) {
	case MethodNodeInvoke:
		return MethodNodeInvoke
	case MethodInvokeResult:
		return MethodInvokeResult
	}
	return string(name)
}

// Frame is a response or an event received by a client. The fields share memory with the parsed
// data.
type Frame struct {
	Type    string // TypeResponse or TypeEvent
	Payload json.RawMessage

	ID    string // of a response
	Error *Error // of a response; nil on success

	Event string // the name of an event
	// Seq numbers the events sent to all clients, from 1; other events have 0. A gap means lost
	// events.
	Seq int64
}

// Parse parses a frame received from a gateway. It returns [ErrSyntax] or [ErrFrame].
func Parse(data []byte) (Frame, error) {
	var f Frame
	if !jsonrpc.Valid(data) {
		return f, ErrSyntax
	}
	ok := false
	var failure json.RawMessage
	for in := jsonrpc.Scan(data); in.Next(); {
		switch string(in.Key) {
		case "type":
			f.Type = jsonrpc.Text(in.Value)
		case "id":
			f.ID = jsonrpc.Text(in.Value)
		case "ok":
			ok = string(in.Value) == "true"
		case "payload":
			f.Payload = in.Value
		case "error":
			failure = in.Value
		case "event":
			f.Event = jsonrpc.Text(in.Value)
		case "seq":
			f.Seq = max(0, integer(in.Value))
		}
	}
	switch {
	case f.Type == TypeResponse && f.ID != "":
		if !ok {
			f.Error = parseError(failure)
		}
		return f, nil
	case f.Type == TypeEvent && f.Event != "":
		return f, nil
	}
	return Frame{}, ErrFrame
}

// frameRoom is about the size of a frame without its contents, in bytes.
const frameRoom = 80

// AppendRequest appends a request. Params are JSON, or nil for none.
func AppendRequest(b []byte, id, method string, params []byte) []byte {
	b = slices.Grow(b, frameRoom+len(id)+len(method)+len(params))
	b = append(b, `{"type":"req","id":`...)
	b = appendText(b, id)
	b = append(b, `,"method":`...)
	b = appendText(b, method)
	if params != nil {
		b = append(b, `,"params":`...)
		b = append(b, params...)
	}
	return append(b, '}')
}

// AppendResult appends a success response. The payload is JSON, or nil for none.
func AppendResult(b []byte, id string, payload []byte) []byte {
	b = append(b, `{"type":"res","id":`...)
	b = appendText(b, id)
	b = append(b, `,"ok":true`...)
	if payload != nil {
		b = append(b, `,"payload":`...)
		b = append(b, payload...)
	}
	return append(b, '}')
}

// AppendFailure appends an error response.
func AppendFailure(b []byte, id string, e *Error) []byte {
	return appendFailure(b, appendText(nil, id), e)
}

func appendFailure(b, id []byte, e *Error) []byte {
	b = append(b, `{"type":"res","id":`...)
	b = append(b, id...)
	b = append(b, `,"ok":false,"error":`...)
	b = e.append(b)
	return append(b, '}')
}

// AppendEvent appends an event. The payload is JSON, or nil for none; a seq of 0 is omitted.
func AppendEvent(b []byte, event string, payload []byte, seq int64) []byte {
	b = append(b, `{"type":"event","event":`...)
	b = appendText(b, event)
	if payload != nil {
		b = append(b, `,"payload":`...)
		b = append(b, payload...)
	}
	if seq > 0 {
		b = append(b, `,"seq":`...)
		b = strconv.AppendInt(b, seq, 10)
	}
	return append(b, '}')
}

const hexDigits = "0123456789abcdef"

// appendText appends a text as a JSON string. Unlike encoding/json it leaves < and > as they
// are, which keeps JSON within JSON short. Invalid UTF-8 becomes U+FFFD.
func appendText[T ~string | ~[]byte](b []byte, s T) []byte {
	b = append(b, '"')
	from := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c >= ' ' && c != '"' && c != '\\' && c < utf8.RuneSelf {
			i++
			continue
		}
		if c >= utf8.RuneSelf {
			r, n := utf8.DecodeRuneInString(string(s[i:min(len(s), i+utf8.UTFMax)]))
			if r != utf8.RuneError || n > 1 {
				i += n
				continue
			}
		}
		b = append(b, s[from:i]...)
		switch {
		case c >= utf8.RuneSelf:
			b = append(b, "\ufffd"...)
		case c == '"' || c == '\\':
			b = append(b, '\\', c)
		case c == '\n':
			b = append(b, '\\', 'n')
		default:
			b = append(b, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
		}
		i++
		from = i
	}
	b = append(b, s[from:]...)
	return append(b, '"')
}

// integer parses a JSON number with an integer value, such as 3, 3.0 or 3e2. It returns -1 for
// anything else; valid values are not negative.
func integer(v []byte) int64 {
	if n, err := strconv.ParseInt(string(v), 10, 64); err == nil {
		return n
	}
	f, err := strconv.ParseFloat(string(v), 64)
	if err != nil || f != math.Trunc(f) || math.Abs(f) > 1<<53 {
		return -1
	}
	return int64(f)
}

// mustJSON encodes a value that can always be encoded.
func mustJSON(v any) json.RawMessage {
	data, err := json.Marshal(v)
	if err != nil {
		return json.RawMessage("null")
	}
	return data
}
