package wire

import (
	"encoding/json"
	"errors"
	"slices"
	"time"

	"patchbay/internal/jsonrpc"
)

// Invoke are the parameters of node.invoke: an operator calls a command of a node.
type Invoke struct {
	NodeID  string          `json:"nodeId"`
	Command string          `json:"command"`
	Params  json.RawMessage `json:"params,omitempty"` // anything; nil: none
	// TimeoutMS limits the call, in ms; nil: [InvokeTimeout], 0: no limit.
	TimeoutMS *int64 `json:"timeoutMs,omitempty"`
	// IdempotencyKey is passed on to the node. Gateways do nothing with it
	// (src/gateway/node-registry-private.ts).
	IdempotencyKey string `json:"idempotencyKey"`
	SessionKey     string `json:"sessionKey,omitempty"`
	// ByMethod is set for a command that operators reach by a method of its own alone.
	ByMethod bool `json:"-"`
}

// ParseInvoke parses the parameters. The error is the response to the operator.
func ParseInvoke(params []byte) (Invoke, *Error) {
	var m members
	if e := ShapeInvoke.readParams(params, &m); e != nil {
		return Invoke{}, e
	}
	p := Invoke{
		NodeID: trimmed(m.value("nodeId")), Command: trimmed(m.value("command")), Params: m.value("params"),
		IdempotencyKey: jsonrpc.Text(m.value("idempotencyKey")), SessionKey: jsonrpc.Text(m.value("sessionKey")),
	}
	if v := m.value("timeoutMs"); v != nil {
		n := min(integer(v), maxMillis)
		if n < 0 { // too large to count
			n = maxMillis
		}
		p.TimeoutMS = &n
	}
	if p.NodeID == "" || p.Command == "" {
		return Invoke{}, Invalid("nodeId and command required")
	}
	return p, nil
}

// maxMillis limits durations from clients, so that they do not overflow in nanoseconds.
const maxMillis = int64(24 * time.Hour / time.Millisecond)

// Timeout returns the time limit of the call; 0: none.
func (p *Invoke) Timeout() time.Duration {
	if p.TimeoutMS == nil {
		return InvokeTimeout
	}
	return time.Duration(min(*p.TimeoutMS, maxMillis)) * time.Millisecond
}

// InvokeRequest is the payload of node.invoke.request: a gateway calls a command of
// a node.
type InvokeRequest struct {
	ID      string
	NodeID  string
	Command string
	// Params are JSON, as the operator wrote it; nil: none.
	Params json.RawMessage
	// Timeout is how long the gateway waits; 0: no limit. It is rounded to milliseconds.
	Timeout        time.Duration
	IdempotencyKey string
	SessionKey     string
}

// Append appends the payload. The parameters are sent as JSON within a JSON string.
func (r *InvokeRequest) Append(b []byte) []byte {
	b = append(b, `{"id":`...)
	b = appendText(b, r.ID)
	b = append(b, `,"nodeId":`...)
	b = appendText(b, r.NodeID)
	b = append(b, `,"command":`...)
	b = appendText(b, r.Command)
	b = append(b, `,"paramsJSON":`...)
	if r.Params == nil {
		b = append(b, "null"...)
	} else {
		b = appendText(b, r.Params)
	}
	b = appendNumber(append(b, `,"timeoutMs":`...), r.Timeout.Milliseconds())
	if r.IdempotencyKey != "" {
		b = append(b, `,"idempotencyKey":`...)
		b = appendText(b, r.IdempotencyKey)
	}
	if r.SessionKey != "" {
		b = append(b, `,"sessionKey":`...)
		b = appendText(b, r.SessionKey)
	}
	return append(b, '}')
}

// ErrInvokeRequest means that a call is invalid.
var ErrInvokeRequest = errors.New("this is no call of a node's command")

// ParseInvokeRequest parses the payload. Parameters that are not JSON are an error; the ID is
// set nevertheless, if there is one, so that the call can be answered.
func ParseInvokeRequest(payload []byte) (InvokeRequest, error) {
	r := InvokeRequest{Timeout: InvokeTimeout}
	if !jsonrpc.Valid(payload) {
		return r, ErrInvokeRequest
	}
	bad := false
	for in := jsonrpc.Scan(payload); in.Next(); {
		switch string(in.Key) {
		case "id":
			r.ID = jsonrpc.Text(in.Value)
		case "nodeId":
			r.NodeID = jsonrpc.Text(in.Value)
		case "command":
			r.Command = jsonrpc.Text(in.Value)
		case "paramsJSON":
			r.Params, bad = nil, false
			if s := jsonrpc.Text(in.Value); s != "" {
				r.Params, bad = json.RawMessage(s), !jsonrpc.Valid([]byte(s))
			}
		case "timeoutMs":
			if n := integer(in.Value); n >= 0 {
				r.Timeout = time.Duration(min(n, maxMillis)) * time.Millisecond
			}
		case "idempotencyKey":
			r.IdempotencyKey = jsonrpc.Text(in.Value)
		case "sessionKey":
			r.SessionKey = jsonrpc.Text(in.Value)
		}
	}
	if bad || r.ID == "" || r.NodeID == "" || r.Command == "" {
		return InvokeRequest{ID: r.ID, NodeID: r.NodeID}, ErrInvokeRequest
	}
	return r, nil
}

// InvokeResult are the parameters of node.invoke.result: the result of a call.
type InvokeResult struct {
	ID     string
	NodeID string
	OK     bool
	// Payload is JSON, or nil for none.
	Payload json.RawMessage
	// PayloadJSON is the payload within a JSON string, as OpenClaw's own commands prefer; it
	// takes precedence over Payload. nil: none.
	PayloadJSON *string
	// Error is the reason of a failure; nil if the node gives none.
	Error *NodeError
}

// NodeError is the reason why a node did not execute a call.
type NodeError struct {
	Code    string `json:"code,omitempty"`
	Message string `json:"message,omitempty"`
}

// The NodeError codes that gateways and agents interpret. A node may use others.
const (
	// NodeNotReady means that nothing was executed: gateways retry, four times
	// (src/gateway/node-invoke-readiness.ts, READINESS_RETRY_DELAYS_MS).
	NodeNotReady = "NODE_NOT_READY"
	// NodeTimeout and NodeDisconnected stand for a missing result (src/gateway/node-registry.ts).
	NodeTimeout      = "TIMEOUT"
	NodeDisconnected = "DISCONNECTED"
	// NodeUnavailable is the answer to a command that the node does not have
	// (src/node-host/invoke.ts).
	NodeUnavailable = "UNAVAILABLE"
	// NodeNoServer means that an MCP server is out of reach (src/gateway/node-registry.ts).
	NodeNoServer = "MCP_SERVER_UNAVAILABLE"
)

// Append appends the parameters.
func (r *InvokeResult) Append(b []byte) []byte {
	b = slices.Grow(b, frameRoom+len(r.ID)+len(r.NodeID)+len(r.Payload))
	b = append(b, `{"id":`...)
	b = appendText(b, r.ID)
	b = append(b, `,"nodeId":`...)
	b = appendText(b, r.NodeID)
	if r.OK {
		b = append(b, `,"ok":true`...)
	} else {
		b = append(b, `,"ok":false`...)
	}
	if r.Payload != nil {
		b = append(b, `,"payload":`...)
		b = append(b, r.Payload...)
	}
	if r.PayloadJSON != nil {
		b = append(b, `,"payloadJSON":`...)
		b = appendText(b, *r.PayloadJSON)
	}
	if r.Error != nil {
		b = append(b, `,"error":`...)
		b = append(b, mustJSON(r.Error)...)
	}
	return append(b, '}')
}

// ParseInvokeResult parses the parameters. The error is the response to the node.
func ParseInvokeResult(params []byte) (InvokeResult, *Error) {
	var r InvokeResult
	var wild json.RawMessage // a payloadJSON that is not a string counts as the payload
	mend := false
	for in := jsonrpc.Scan(params); in.Next(); {
		switch string(in.Key) {
		case "id":
			r.ID = jsonrpc.Text(in.Value)
		case "nodeId":
			r.NodeID = jsonrpc.Text(in.Value)
		case "ok":
			r.OK = in.Value[0] == 't'
		case "payload":
			r.Payload = in.Value
		case "payloadJSON":
			r.PayloadJSON, wild = nil, nil
			if in.Value[0] == '"' {
				r.PayloadJSON = new(jsonrpc.Text(in.Value))
			} else if mend = true; in.Value[0] != 'n' {
				wild = in.Value
			}
		case "error":
			r.Error = nil
			if in.Value[0] == '{' {
				r.Error = new(NodeError)
				_ = json.Unmarshal(in.Value, r.Error) // its shape is validated below
			} else {
				mend = true
			}
		}
	}
	if mend {
		params = normalizeResult(params)
	}
	if e := ShapeInvokeResult.Invalid(params); e != nil {
		return InvokeResult{}, e
	}
	if r.Payload == nil {
		r.Payload = wild
	}
	return r, nil
}

// normalizeResult removes what OpenClaw ignores before it validates a result: a payloadJSON that
// is not a string, and an error that is null.
func normalizeResult(params []byte) []byte {
	overlooked := func(key string, v []byte) bool {
		return key == "payloadJSON" && v[0] != '"' || key == "error" && v[0] == 'n'
	}
	b := []byte{'{'}
	for in := jsonrpc.Scan(params); in.Next(); {
		if overlooked(string(in.Key), in.Value) {
			continue
		}
		if len(b) > 1 {
			b = append(b, ',')
		}
		b = appendText(b, in.Key)
		b = append(b, ':')
		b = append(b, in.Value...)
	}
	return append(b, '}')
}

// Value returns the result of the call: JSON, or nil. Text that is not JSON is wrapped in an
// object, as gateways do.
func (r *InvokeResult) Value() json.RawMessage {
	if r.PayloadJSON == nil || *r.PayloadJSON == "" {
		return r.Payload
	}
	if s := []byte(*r.PayloadJSON); jsonrpc.Valid(s) {
		return s
	}
	return append(appendText([]byte(`{"payloadJSON":`), *r.PayloadJSON), '}')
}

// AppendInvoked appends the operator's response to a successful call.
func (r *InvokeResult) AppendInvoked(b []byte, command string) []byte {
	b = slices.Grow(b, frameRoom+len(r.NodeID)+len(command)+len(r.Payload))
	b = append(b, `{"ok":true,"nodeId":`...)
	b = appendText(b, r.NodeID)
	b = append(b, `,"command":`...)
	b = appendText(b, command)
	if v := r.Value(); v != nil {
		b = append(b, `,"payload":`...)
		b = append(b, v...)
	}
	b = append(b, `,"payloadJSON":`...)
	if r.PayloadJSON == nil {
		b = append(b, "null"...)
	} else {
		b = appendText(b, *r.PayloadJSON)
	}
	return append(b, '}')
}

// ToolCall are the parameters of [CommandTool].
type ToolCall struct {
	Server    string          `json:"server"`
	Tool      string          `json:"tool"`
	Arguments json.RawMessage `json:"arguments,omitempty"` // an object; nil: none
}

// ErrToolCall means that the parameters are not those of a tool call.
var ErrToolCall = errors.New("server and tool required")

// ParseToolCall parses the parameters of [CommandTool].
func ParseToolCall(params []byte) (ToolCall, error) {
	var c ToolCall
	if json.Unmarshal(params, &c) != nil || c.Server == "" || c.Tool == "" {
		return ToolCall{}, ErrToolCall
	}
	if string(c.Arguments) == "null" {
		c.Arguments = nil
	}
	if c.Arguments != nil && c.Arguments[0] != '{' {
		return ToolCall{}, ErrToolCall
	}
	return c, nil
}
