package wire

import (
	"encoding/json"
	"strconv"
	"strings"

	"patchbay/internal/jsonrpc"
)

// The events that gateways take from nodes and that matter here. The list is
// closed: other events are accepted, and nothing comes of them.
const (
	NodeStats         = "node.host.stats"
	NodeAlive         = "node.presence.alive"
	NodeSubscribe     = "chat.subscribe"   // {sessionKey}: send me this conversation
	NodeUnsubscribe   = "chat.unsubscribe" // {sessionKey}
	NodeTranscript    = "voice.transcript" // see [Transcript]
	NodeAgentRequest  = "agent.request"
	NodeNotifications = "notifications.changed"
)

// NodeEvent are the parameters of node.event: a node tells something.
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

// ParseNodeEvent reads the parameters. The error is what the node is told. A payload
// that is no JSON is as if there were none.
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

// Handled is what a gateway answers to node.event. Without a reason it is only
// {"ok":true}.
type Handled struct {
	OK      bool   `json:"ok"`
	Event   string `json:"event,omitempty"`
	Handled *bool  `json:"handled,omitempty"`
	Reason  string `json:"reason,omitempty"` // unsupported_event, updated, …
}

// Unsupported is the answer to an event that is not on the list.
func Unsupported(event string) Handled {
	return Handled{OK: true, Event: event, Handled: new(false), Reason: "unsupported_event"}
}

// Transcript is the payload of voice.transcript: somebody said something to a node.
// The answer comes as chat events to nodes that have subscribed to the conversation.
type Transcript struct {
	Text       string `json:"text"`
	SessionKey string `json:"sessionKey,omitempty"`
	// EventID makes it another one than the same words a second ago.
	EventID string `json:"eventId,omitempty"`
}

// trimmed is a JSON string without space around it.
func trimmed(v []byte) string { return strings.TrimSpace(jsonrpc.Text(v)) }

func appendNumber(b []byte, n int64) []byte { return strconv.AppendInt(b, n, 10) }
