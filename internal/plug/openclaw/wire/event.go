package wire

import (
	"encoding/json"
	"strconv"
	"strings"

	"patchbay/internal/jsonrpc"
)

// The node events that gateways handle and that are used here (src/gateway/server-node-events.ts).
// The list is closed: other events are accepted and ignored.
const (
	NodeStats         = "node.host.stats"
	NodeAlive         = "node.presence.alive"
	NodeSubscribe     = "chat.subscribe"   // {sessionKey}: send me this conversation
	NodeUnsubscribe   = "chat.unsubscribe" // {sessionKey}
	NodeTranscript    = "voice.transcript" // see [Transcript]
	NodeAgentRequest  = "agent.request"
	NodeNotifications = "notifications.changed"
	// NodeMCPNotification is a notification of an MCP server behind the node, as JSON-RPC. OpenClaw
	// does not know it, and answers that it is not supported.
	NodeMCPNotification = "mcp.notification"
)

// NodeEvent are the parameters of node.event.
type NodeEvent struct {
	Event string
	// Payload is JSON, or nil for none. It travels as JSON within a JSON string.
	Payload json.RawMessage
}

// Append appends the parameters.
func (e *NodeEvent) Append(b []byte) []byte {
	b = append(b, `{"event":`...)
	b = appendText(b, e.Event)
	if e.Payload != nil {
		b = append(b, `,"payloadJSON":`...)
		b = appendText(b, e.Payload)
	}
	return append(b, '}')
}

// ParseNodeEvent parses the parameters. The error is the response to the node. A payload that is
// not JSON counts as absent.
func ParseNodeEvent(params []byte) (NodeEvent, *Error) {
	var e NodeEvent
	if wrong := ShapeNodeEvent.Invalid(params); wrong != nil {
		return e, wrong
	}
	var plain json.RawMessage
	for in := jsonrpc.Scan(params); in.Next(); {
		switch string(in.Key) {
		case "event":
			e.Event = jsonrpc.Text(in.Value)
		case "payload":
			plain = in.Value
		case "payloadJSON":
			e.Payload = nil
			if s := []byte(jsonrpc.Text(in.Value)); json.Valid(s) {
				e.Payload = s
			}
		}
	}
	if e.Payload == nil {
		e.Payload = plain
	}
	return e, nil
}

// EventAck is the response to node.event. Without a reason it is only {"ok":true}.
type EventAck struct {
	OK      bool   `json:"ok"`
	Event   string `json:"event,omitempty"`
	Handled *bool  `json:"handled,omitempty"`
	Reason  string `json:"reason,omitempty"` // unsupported_event, updated, …
}

// UnsupportedEvent returns the response to an event that is not on the list.
func UnsupportedEvent(event string) EventAck {
	return EventAck{OK: true, Event: event, Handled: new(false), Reason: "unsupported_event"}
}

// Transcript is the payload of voice.transcript: speech recognized by a node. The answer is sent as
// chat events to nodes that have subscribed to the conversation
// (src/gateway/server-node-events.ts).
type Transcript struct {
	Text       string `json:"text"`
	SessionKey string `json:"sessionKey,omitempty"`
	// EventID distinguishes it from the same words a second ago.
	EventID string `json:"eventId,omitempty"`
}

// trimmed returns a JSON string without surrounding white space.
func trimmed(v []byte) string { return strings.TrimSpace(jsonrpc.Text(v)) }

func appendNumber(b []byte, n int64) []byte { return strconv.AppendInt(b, n, 10) }
