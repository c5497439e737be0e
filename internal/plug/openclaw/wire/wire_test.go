package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"
)

// lines reads a file of testdata with one JSON value per line.
func lines[T any](t testing.TB, name string) []T {
	t.Helper()
	data, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	var list []T
	for line := range bytes.Lines(data) {
		var v T
		if err := json.Unmarshal(line, &v); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		list = append(list, v)
	}
	if len(list) < 20 {
		t.Fatalf("only %d lines in %s", len(list), name)
	}
	return list
}

type recorded struct {
	To     string          `json:"to"`
	Method string          `json:"method"`
	Frame  json.RawMessage `json:"frame"`
}

// same reports whether two JSON texts are equivalent.
func same(a, b []byte) bool {
	var x, y any
	return json.Unmarshal(a, &x) == nil && json.Unmarshal(b, &y) == nil && reflect.DeepEqual(x, y)
}

// Every recorded frame is equivalent after parsing and writing.
func TestFrames(t *testing.T) {
	for _, r := range lines[recorded](t, "frames.jsonl") {
		var again []byte
		if r.To == "gateway" {
			q, err := ParseRequest(r.Frame)
			var bad *BadRequest
			if errors.As(err, &bad) {
				continue // TestBadRequests
			}
			if err != nil {
				t.Errorf("%s: %v", r.Frame, err)
				continue
			}
			if q.Method != r.Method {
				t.Errorf("method %q of %s", q.Method, r.Frame)
			}
			again = AppendRequest(nil, q.ID, q.Method, q.Params)
		} else {
			f, err := Parse(r.Frame)
			switch {
			case err != nil && bytes.Contains(r.Frame, []byte(`"id":5`)):
				continue // an id that this package does not send
			case err != nil:
				t.Errorf("%s: %v", r.Frame, err)
				continue
			case f.Error != nil:
				again = AppendFailure(nil, f.ID, f.Error)
			case f.Type == TypeResponse:
				again = AppendResult(nil, f.ID, f.Payload)
			default:
				again = AppendEvent(nil, f.Event, f.Payload, f.Seq)
			}
			if f.Type == TypeEvent && bytes.Contains(r.Frame, []byte(`"stateVersion":{`)) {
				again = bytes.TrimSuffix(again, []byte("}"))
				from := bytes.LastIndex(r.Frame, []byte(`,"stateVersion"`))
				if from >= 0 {
					again = append(again, r.Frame[from:]...)
				}
			}
		}
		if !same(again, r.Frame) {
			t.Errorf("%s was\n%s", again, r.Frame)
		}
	}
}

// The contents of recorded frames are equivalent after parsing and writing.
func TestPayloads(t *testing.T) {
	seen := map[string]int{}
	for _, r := range lines[recorded](t, "frames.jsonl") {
		var body json.RawMessage
		if r.To == "gateway" {
			q, err := ParseRequest(r.Frame)
			if err != nil {
				continue
			}
			body = q.Params
		} else {
			f, err := Parse(r.Frame)
			if err != nil || f.Error != nil {
				continue
			}
			body = f.Payload
		}
		again, ok := reencode(t, r, body)
		if !ok {
			continue
		}
		seen[r.To+" "+r.Method]++
		if !same(again, body) {
			t.Errorf("%s to the %s:\n%s was\n%s", r.Method, r.To, again, body)
		}
	}
	for _, kind := range []string{
		"client connect.challenge", "gateway connect", "client connect", "client node.list", "client node.pair.list",
		"client node.describe",
		"client node.pair.approve", "client node.pair.requested", "client node.pair.resolved", "gateway node.invoke",
		"client node.invoke.request",
		"gateway node.invoke.result", "gateway node.event", "client node.event", "gateway node.pluginTools.update",
		"client chat", "client agent",
		"gateway chat.send", "client chat.send", "gateway chat.abort", "client chat.abort",
		"client device.pair.resolved",
	} {
		if seen[kind] == 0 {
			t.Errorf("no recording of %s was tried", kind)
		}
	}
}

func TestBadRequests(t *testing.T) {
	for _, c := range []struct{ frame, answer string }{
		{`{"type":"req","id":5,"method":"health"}`,
			`{"type":"res","id":5,"ok":false,"error":{"code":"INVALID_REQUEST","message":"invalid request frame: at /id: must be string"}}`},
		{`{"foo":1}`,
			`{"type":"res","id":"invalid","ok":false,"error":{"code":"INVALID_REQUEST","message":"invalid request frame: must have required property 'type'; at root: unexpected property 'foo'"}}`},
		{`[]`, `{"type":"res","id":"invalid","ok":false,"error":{"code":"INVALID_REQUEST","message":"invalid request frame: must be object"}}`},
		{`{"type":"event","id":"x","method":"m"}`,
			`{"type":"res","id":"x","ok":false,"error":{"code":"INVALID_REQUEST","message":"invalid request frame: at /type: must be equal to constant"}}`},
	} {
		_, err := ParseRequest([]byte(c.frame))
		var bad *BadRequest
		if !errors.As(err, &bad) || string(bad.AppendAnswer(nil)) != c.answer {
			t.Errorf("%s: %v", c.frame, err)
		}
	}
	for _, frame := range []string{"", "hello", "[1,2", `{"type":"req"`} {
		if _, err := ParseRequest([]byte(frame)); !errors.Is(err, ErrSyntax) {
			t.Errorf("%q: %v", frame, err)
		}
		if _, err := Parse([]byte(frame)); !errors.Is(err, ErrSyntax) {
			t.Errorf("%q: %v", frame, err)
		}
	}
	for _, frame := range []string{`{}`, `[]`, `"x"`, `{"type":"res","ok":true}`, `{"type":"event"}`,
		`{"type":"res","id":5,"ok":true}`} {
		if _, err := Parse([]byte(frame)); !errors.Is(err, ErrFrame) {
			t.Errorf("%q: %v", frame, err)
		}
	}
}

// The errors of shapes are those of OpenClaw's own validators, as recorded.
func TestComplaints(t *testing.T) {
	shapes := map[string]*Shape{
		"RequestFrame": requestFrame, "ConnectParams": ShapeConnect, "NodeInvokeParams": ShapeInvoke,
		"NodeInvokeResultParams":      ShapeInvokeResult,
		"NodePluginToolsUpdateParams": ShapePluginTools, "NodeEventParams": ShapeNodeEvent,
		"NodePairListParams": ShapeNodePairList,
		"ChatSendParams":     ShapeChatSend, "NodeSkillsUpdateParams": ShapeSkills,
	}
	type complaint struct {
		Check    string          `json:"check"`
		Value    json.RawMessage `json:"value"`
		Sentence string          `json:"sentence"`
	}
	for _, c := range lines[complaint](t, "complaints.jsonl") {
		var m members
		if got := shapes[c.Check].read(c.Value, &m); got != c.Sentence {
			t.Errorf("%s of %s:\n%q, not\n%q", c.Check, c.Value, got, c.Sentence)
		}
	}
}

// First frames have the same outcome as at a real gateway, as recorded.
func TestHandshakes(t *testing.T) {
	type handshake struct {
		Name      string          `json:"name"`
		Challenge Challenge       `json:"challenge"`
		First     json.RawMessage `json:"first"`
		Answer    json.RawMessage `json:"answer"`
		Close     struct {
			Code   int    `json:"code"`
			Reason string `json:"reason"`
		} `json:"close"`
	}
	for _, h := range lines[handshake](t, "handshakes.jsonl") {
		if h.First == nil {
			continue
		}
		if h.First[0] == '"' {
			if _, err := ParseRequest([]byte("hello")); !errors.Is(err, ErrSyntax) || h.Close.Code != CloseNormal {
				t.Errorf("%s: %v", h.Name, err)
			}
			continue
		}
		got := receive(h.First, h.Challenge.Nonce, time.UnixMilli(h.Challenge.TS))
		if got == nil {
			if h.Close.Code != 1005 {
				t.Errorf("%s was admitted; it was refused with %d %s", h.Name, h.Close.Code, h.Close.Reason)
			}
			continue
		}
		if got.Close != h.Close.Code || got.Reason() != h.Close.Reason {
			t.Errorf("%s: closed with %d %q, not %d %q", h.Name, got.Close, got.Reason(), h.Close.Code, h.Close.Reason)
		}
		if h.Answer == nil {
			if got != InvalidFrame {
				t.Errorf("%s: %v", h.Name, got)
			}
			continue
		}
		f, err := Parse(h.Answer)
		if err != nil || !same(AppendFailure(nil, f.ID, got), h.Answer) {
			t.Errorf("%s: %s, not %s", h.Name, AppendFailure(nil, f.ID, got), h.Answer)
		}
	}
}

// receive handles a first frame like a gateway with the token test-token-123.
func receive(first []byte, nonce string, now time.Time) *Error {
	q, err := ParseRequest(first)
	if err != nil {
		return InvalidFrame
	}
	if q.Method != MethodConnect {
		return ConnectRequired
	}
	c, e := ParseConnect(q.Params)
	if e != nil {
		return e
	}
	if c.Device != nil || c.Role == RoleNode || c.Credential() == "" {
		if e := c.Verify(nonce, now); e != nil {
			return e
		}
	}
	switch c.Credential() {
	case "":
		return TokenMissing
	case "test-token-123":
		return nil
	}
	return TokenMismatch(c.Device != nil)
}

// The errors of calls have the recorded texts.
func TestInvokeErrors(t *testing.T) {
	wanted := map[string]string{}
	for _, r := range lines[recorded](t, "frames.jsonl") {
		if f, err := Parse(r.Frame); err == nil && f.Error != nil {
			wanted[f.Error.Message] = string(r.Frame)
		}
	}
	policy := Policy{Allow: []string{"mcp.initialize", "mcp.tools.list", "mcp.tools.call", "mcp.notify"}}
	node := &Surface{Platform: "linux", Family: "Linux", Declared: policy.Allow, Approved: policy.Allow}
	write := []string{ScopeWrite}
	bad := func(params string) *Error {
		_, e := ParseInvoke([]byte(params))
		return e
	}
	badResult := func(params string) *Error {
		_, e := ParseInvokeResult([]byte(params))
		return e
	}
	for _, e := range []*Error{
		PairingChanged, NotConnected, TimedOut(), Disconnected("mcp.tools.call"), NodeMismatch, UnknownNode,
		ConnectTwice,
		NodeFailed(nil), NodeFailed(&NodeError{Code: "X"}), NodeFailed(&NodeError{"NODE_NOT_READY", "not yet"}),
		policy.Refuse(node, "mcp.unknown", write), policy.Refuse(node, "system.notify", write),
		policy.Refuse(node, "camera.snap", write),
		policy.Refuse(node, "system.run", write), policy.Refuse(node, "worker.launch.v1", write),
		UnknownMethod("does.not.exist"), WrongRole(RoleNode), WrongRole(RoleOperator), MissingScope(ScopeWrite),
		MissingScope(ScopePairing),
		bad(`{"nodeId":"a","command":"b"}`), bad(`{"nodeId":"a","command":"b","idempotencyKey":"c","foo":1}`),
		bad(`{"nodeId":"a","command":" ","idempotencyKey":"c"}`),
		badResult(`{"id":"a","nodeId":"b"}`),
	} {
		if e == nil {
			t.Error("something was allowed")
			continue
		}
		frame := wanted[e.Message]
		f, err := Parse([]byte(frame))
		if err != nil {
			t.Errorf("no recording of %q", e.Message)
			continue
		}
		if got := AppendFailure(nil, f.ID, e); !same(got, []byte(frame)) {
			t.Errorf("%s\nwas %s", got, frame)
		}
	}
	if e := policy.Refuse(node, "mcp.notify", write); e != nil {
		t.Errorf("mcp.notify: %v", e)
	}
}

func TestErrors(t *testing.T) {
	e := parseError([]byte(`{"code":"UNAVAILABLE","message":"m","details":{"code":"PAIRING_REQUIRED","recommendedNextStep":"wait_then_retry"},"retryable":true,"retryAfterMs":1500}`))
	if e.Detail() != DetailPairing || e.Next() != NextWait || !e.Retryable || e.RetryAfter != 1500*time.Millisecond {
		t.Errorf("%+v", e)
	}
	if e := parseError([]byte(`{"code":5,"message":null,"details":[],"retryAfterMs":1e300}`)); e.Code != Unavailable ||
		e.Message == "" || e.Details != nil || e.RetryAfter != 0 {
		t.Errorf("%+v", e)
	}
	if e := parseError([]byte(`{"retryAfterMs":999999999999}`)); e.RetryAfter != maxRetryAfter {
		t.Error(e.RetryAfter)
	}
	pair := PairingRequired(PairNew, "c6159fb2", "516894", RoleNode, false)
	if got := pair.Reason(); got != "pairing required: device is not approved yet (requestId: c6159fb2)" {
		t.Error(got)
	}
	if pair.Next() != "" || PairingRequired(PairNew, "r", "d", RoleNode, true).Next() != NextWait {
		t.Error("what a device that is not approved should do next")
	}
	long := &Error{Message: strings.Repeat("€", 100)}
	if got := long.Reason(); len(got) != 123 || strings.Trim(got, "€") != "" {
		t.Errorf("%d bytes: %q", len(got), got)
	}
	if said, sent, ok := NodeErrorOf(Disconnected(CommandTool)); !ok || !sent || said.Code != NodeNoServer {
		t.Errorf("%+v %v %v", said, sent, ok)
	}
	if _, sent, ok := NodeErrorOf(PairingChanged); ok || sent {
		t.Error("nobody has said anything")
	}
}
