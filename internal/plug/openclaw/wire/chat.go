package wire

import (
	"encoding/json"
	"errors"
	"strings"

	"patchbay/internal/jsonrpc"
)

// The queue modes: how a message is handled while its conversation has an active run
// (packages/gateway-protocol/src/schema/logs-chat.ts, QUEUE_MODES).
const (
	QueueSteer     = "steer"     // added to the active run: one answer to both
	QueueFollowup  = "followup"  // answered afterwards, in a run that is not announced
	QueueCollect   = "collect"   // like followup, together with others
	QueueInterrupt = "interrupt" // the answer is aborted
)

// QueueModes are all of them.
var QueueModes = []string{QueueSteer, QueueFollowup, QueueCollect, QueueInterrupt}

// ChatSend are the parameters of chat.send.
type ChatSend struct {
	SessionKey string `json:"sessionKey"`
	Message    string `json:"message"`
	// IdempotencyKey becomes the id of the run. A repeated message is answered once.
	IdempotencyKey string `json:"idempotencyKey"`
	AgentID        string `json:"agentId,omitempty"`
	SessionID      string `json:"sessionId,omitempty"`
	Thinking       string `json:"thinking,omitempty"`
	QueueMode      string `json:"queueMode,omitempty"` // empty: steer
	Deliver        *bool  `json:"deliver,omitempty"`
	TimeoutMS      int64  `json:"timeoutMs,omitempty"`
	// NoCommands keeps a leading slash from being interpreted as a command, which is never meant in
	// speech. OpenClaw allows it only with [ScopeAdmin], and refuses the whole message otherwise
	// (src/gateway/server-methods/chat-send-request.ts).
	NoCommands  bool         `json:"suppressCommandInterpretation,omitempty"`
	Attachments []Attachment `json:"attachments,omitempty"`
}

// Attachment is a picture or another file.
type Attachment struct {
	Type     string `json:"type,omitempty"` // image, file
	MIMEType string `json:"mimeType"`
	FileName string `json:"fileName,omitempty"`
	Content  []byte `json:"content"` // base64 on the wire
}

// Run is the response to chat.send and agent. A later response to the same agent request has
// another status.
type Run struct {
	RunID       string `json:"runId"`
	Status      string `json:"status"` // started, in_flight, ok; of agent: accepted, then ok, timeout, error
	Interrupted bool   `json:"interruptedActiveRun,omitempty"`
	AcceptedAt  int64  `json:"acceptedAt,omitempty"` // milliseconds since 1970
	Summary     string `json:"summary,omitempty"`
	Result      *struct {
		Payloads []struct {
			Text string `json:"text"`
		} `json:"payloads"`
	} `json:"result,omitempty"`
}

// Agent are the parameters of agent: chat.send with additional instructions
// (packages/gateway-protocol/src/schema/agent.ts).
type Agent struct {
	Message        string `json:"message"`
	IdempotencyKey string `json:"idempotencyKey"`
	SessionKey     string `json:"sessionKey,omitempty"`
	AgentID        string `json:"agentId,omitempty"`
	Thinking       string `json:"thinking,omitempty"`
	Deliver        *bool  `json:"deliver,omitempty"`
	Timeout        int64  `json:"timeout,omitempty"` // seconds
	// System is added to the agent's instructions.
	System string `json:"extraSystemPrompt,omitempty"`
}

// ChatAbort are the parameters of chat.abort. Without a run id, all runs of the conversation are
// aborted.
type ChatAbort struct {
	SessionKey string `json:"sessionKey"`
	RunID      string `json:"runId,omitempty"`
}

// AbortResult is the response to chat.abort. The aborted event may come before it.
type AbortResult struct {
	OK      bool     `json:"ok"`
	Aborted bool     `json:"aborted"`
	RunIDs  []string `json:"runIds"`
}

// Subscribe are the parameters of sessions.messages.subscribe.
type Subscribe struct {
	Key string `json:"key"`
}

// ChatHistory are the parameters of chat.history.
type ChatHistory struct {
	SessionKey string `json:"sessionKey"`
	Limit      int    `json:"limit,omitempty"` // at most 1000
}

// The states of a chat event (packages/gateway-protocol/src/schema/logs-chat.ts).
const (
	ChatStatus  = "status" // progress, see Phase
	ChatDelta   = "delta"
	ChatFinal   = "final"
	ChatAborted = "aborted"
	ChatError   = "error"
)

// ChatEvent is the payload of a chat event: one step of an answer.
type ChatEvent struct {
	RunID      string `json:"runId"`
	SessionKey string `json:"sessionKey"`
	AgentID    string `json:"agentId,omitempty"`
	Seq        int64  `json:"seq"`
	State      string `json:"state"`
	Phase      string `json:"phase,omitempty"` // of status: preparing_context, starting_model, …
	// Delta is the new text; with Replace it replaces all previous text.
	Delta   string `json:"deltaText,omitempty"`
	Replace bool   `json:"replace,omitempty"`
	// Message is the answer so far, and the complete one with final and aborted. A final without
	// a message means an empty answer.
	Message      json.RawMessage `json:"message,omitempty"`
	StopReason   string          `json:"stopReason,omitempty"`
	ErrorMessage string          `json:"errorMessage,omitempty"`
	ErrorKind    string          `json:"errorKind,omitempty"` // refusal, timeout, rate_limit, context_length, unknown
	ErrorDetail  *ErrorDetail    `json:"errorDetail,omitempty"`
}

// ErrorDetail describes the failure of a model.
type ErrorDetail struct {
	Provider   string `json:"provider,omitempty"`
	Model      string `json:"model,omitempty"`
	Failover   string `json:"failoverReason,omitempty"`
	Kind       string `json:"providerRuntimeFailureKind,omitempty"`
	HTTPStatus int    `json:"httpStatus,omitempty"`
}

// IsLast reports whether the event ends its run. OpenClaw sends a second error for failed runs
// (recorded in ../bot/testdata/chats.jsonl); ignore it.
func (e *ChatEvent) IsLast() bool {
	return e.State == ChatFinal || e.State == ChatAborted || e.State == ChatError
}

// Text returns the text of Message.
func (e *ChatEvent) Text() string {
	var m struct {
		Content json.RawMessage `json:"content"`
	}
	if json.Unmarshal(e.Message, &m) != nil {
		return ""
	}
	return ContentText(m.Content)
}

// ErrEvent means that the payload of an event is invalid.
var ErrEvent = errors.New("the gateway's event makes no sense")

// ParseChat parses the payload of a chat event.
func ParseChat(payload []byte) (ChatEvent, error) {
	var e ChatEvent
	if json.Unmarshal(payload, &e) != nil || e.RunID == "" || e.State == "" {
		return ChatEvent{}, ErrEvent
	}
	return e, nil
}

// The agent event streams used here.
const (
	StreamLifecycle = "lifecycle" // phases start, model, finishing, end, error
	StreamTool      = "tool"      // phases start and result
	StreamAssistant = "assistant"
)

// AgentEvent is the payload of an agent event, which has more detail about a run than chat
// events.
type AgentEvent struct {
	RunID      string          `json:"runId"`
	Stream     string          `json:"stream"`
	Data       json.RawMessage `json:"data"`
	SessionKey string          `json:"sessionKey,omitempty"`
	AgentID    string          `json:"agentId,omitempty"`
	Seq        int64           `json:"seq"`
	TS         int64           `json:"ts"` // milliseconds since 1970
	Heartbeat  bool            `json:"isHeartbeat,omitempty"`
}

// ContentText returns the text of a message's content, which is a string or a list of parts.
func ContentText(content []byte) string {
	if !json.Valid(content) {
		return ""
	}
	if s := jsonrpc.Text(content); s != "" {
		return s
	}
	var b strings.Builder
	for _, part := range jsonrpc.Elements(content) {
		var p struct {
			Type string `json:"type"`
			Text string `json:"text"`
		}
		if json.Unmarshal(part, &p) == nil && p.Type == "text" {
			b.WriteString(p.Text)
		}
	}
	return b.String()
}
