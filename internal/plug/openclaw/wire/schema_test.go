package wire_test

import (
	"bytes"
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"patchbay/internal/plug/openclaw/openclawtest"
	"patchbay/internal/plug/openclaw/wire"
)

// What this package writes matches the published schema.
func TestPublishedSchema(t *testing.T) {
	s := openclawtest.LoadSchema(t)
	check := func(definition string, value []byte) {
		t.Helper()
		if err := s.Check(t, definition, value); err != nil {
			t.Errorf("%s is no %s: %v", value, definition, err)
		}
	}
	encode := func(v any) []byte {
		t.Helper()
		data, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return data
	}

	check("RequestFrame", wire.AppendRequest(nil, "1", wire.MethodHealth, nil))
	check("ResponseFrame", wire.AppendResult(nil, "1", []byte(`{}`)))
	check("EventFrame", wire.AppendEvent(nil, wire.EventTick, []byte(`{"ts":1}`), 7))
	for _, e := range []*wire.Error{
		wire.ConnectRequired, wire.IdentityRequired, wire.TokenMissing, wire.TokenMismatch(true), wire.Starting,
		wire.PairingChanged, wire.TimedOut(),
		wire.NodeFailed(nil), wire.MissingScope(wire.ScopeRead), wire.RateLimited(time.Minute),
		wire.ProtocolMismatch(1, 2),
		wire.PairingRequired(wire.PairNew, "r", "d", wire.RoleNode, true),
	} {
		check("ResponseFrame", wire.AppendFailure(nil, "1", e))
	}

	c := &wire.Connect{
		MinProtocol: 4, MaxProtocol: 4, Role: wire.RoleNode,
		Client: wire.Client{ID: wire.ClientNode, Mode: wire.ModeNode, Version: "1", Platform: "linux"},
		Auth:   &wire.Auth{Token: "t"}, Commands: []string{wire.CommandTool}, Permissions: map[string]bool{"a": true},
	}
	check("ConnectParams", encode(c))
	wire.NewIdentity().Sign(c, wire.Challenge{Nonce: "n", TS: 1})
	check("ConnectParams", encode(c))
	check("HelloOk", wire.Hello{Server: wire.Server{Version: "1", ConnID: "c"},
		Auth: wire.Granted{Role: wire.RoleNode}}.JSON())
	check("HelloOk", wire.Hello{
		Server:   wire.Server{Version: "1", ConnID: "c", BootID: "b"},
		Features: wire.Features{Methods: []string{wire.MethodHealth}, Events: []string{wire.EventTick}},
		Snapshot: wire.Snapshot{Sessions: &wire.SessionDefaults{AgentID: "main", MainKey: "main",
			MainSessionKey: "agent:main:main"}},
		Auth: wire.Granted{Role: wire.RoleNode, DeviceToken: "d", IssuedAtMS: 1},
	}.JSON())

	check("NodeInvokeParams", encode(wire.Invoke{NodeID: "n", Command: "c", IdempotencyKey: "k",
		TimeoutMS: new(int64(5)), Params: []byte(`{}`), SessionKey: "s"}))
	// Requests without parameters, which are null in a real gateway's, and with a session are left
	// out: the schema has neither.
	check("NodeInvokeRequestEvent", (&wire.InvokeRequest{ID: "i", NodeID: "n", Command: "c",
		Params: []byte(`{"a":"\\u003c\n"}`), Timeout: time.Second, IdempotencyKey: "k"}).Append(nil))
	for _, r := range []wire.InvokeResult{
		{ID: "i", NodeID: "n", OK: true, Payload: []byte(`[1]`)},
		{ID: "i", NodeID: "n", OK: true, PayloadJSON: new("[1]")},
		{ID: "i", NodeID: "n"}, {ID: "i", NodeID: "n", Error: &wire.NodeError{Code: "X"}},
	} {
		check("NodeInvokeResultParams", r.Append(nil))
	}
	check("NodeEventParams", (&wire.NodeEvent{Event: "e", Payload: []byte(`{}`)}).Append(nil))
	check("NodeEventResult", encode(wire.UnsupportedEvent("e")))
	names := wire.NewNames([]wire.ToolRef{{Server: "厨房", Tool: "self.灯"}})
	check("NodePluginToolsUpdateParams", encode(wire.PluginTools{Tools: []wire.PluginTool{{
		PluginID: wire.PluginMCP, Name: names.Name(wire.ToolRef{Server: "厨房", Tool: "self.灯"}),
		Description: "d", Parameters: []byte(`{"type":"object"}`),
		Command: wire.CommandTool, MCP: &wire.ToolRef{Server: "厨房", Tool: "self.灯"},
	}}}))
	check("ChatSendParams", encode(wire.ChatSend{
		SessionKey: "s", Message: "m", IdempotencyKey: "k", QueueMode: wire.QueueInterrupt, Deliver: new(false),
		TimeoutMS: 5, NoCommands: true,
		Attachments: []wire.Attachment{{Type: "image", MIMEType: "image/png", FileName: "a.png", Content: []byte("x")}},
	}))
	check("AgentParams", encode(wire.Agent{Message: "m", IdempotencyKey: "k", System: "s", Timeout: 5,
		Deliver: new(true)}))
	check("ChatAbortParams", encode(wire.ChatAbort{SessionKey: "s", RunID: "r"}))
	check("ChatHistoryParams", encode(wire.ChatHistory{SessionKey: "s", Limit: 5}))
	check("SessionsMessagesSubscribeParams", encode(wire.Subscribe{Key: "s"}))
	check("DevicePairRequestedEvent", encode(wire.DeviceRequest{RequestID: "r", DeviceID: "d", PublicKey: "p",
		Role: "node", Repair: true, TS: 1}))
	check("DevicePairResolvedEvent", encode(wire.Decision{RequestID: "r", DeviceID: "d",
		Decision: wire.DecisionApproved, TS: 1}))
	check("ChatDeltaEvent", encode(wire.ChatEvent{RunID: "r", SessionKey: "s", State: wire.ChatDelta,
		Delta: "d", Seq: 1}))
	check("ChatErrorEvent", encode(wire.ChatEvent{RunID: "r", SessionKey: "s", State: wire.ChatError,
		ErrorMessage: "m", ErrorKind: "timeout", ErrorDetail: &wire.ErrorDetail{HTTPStatus: 500}}))
}

// OpenClaw's validators still return the recorded errors, with which TestComplaints compares those
// of this package.
func TestRecordedComplaints(t *testing.T) {
	data, err := os.ReadFile("testdata/complaints.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	var questions []openclawtest.Validation
	var recorded []string
	for line := range bytes.Lines(data) {
		var c struct {
			openclawtest.Validation
			Sentence string `json:"sentence"`
		}
		if err := json.Unmarshal(line, &c); err != nil {
			t.Fatal(err)
		}
		questions, recorded = append(questions, c.Validation), append(recorded, c.Sentence)
	}
	for i, sentence := range openclawtest.ValidationErrors(t, questions) {
		if sentence != recorded[i] {
			t.Errorf("%s: %q, and %q was recorded", questions[i].Value, sentence, recorded[i])
		}
	}
	if !strings.Contains(strings.Join(recorded, " "), "unexpected property") {
		t.Error("nothing was recorded")
	}
}
