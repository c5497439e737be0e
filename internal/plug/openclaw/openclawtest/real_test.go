package openclawtest

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"

	"patchbay/internal/plug/openai/openaitest"
	"patchbay/internal/plug/openclaw/wire"
)

// client is a connection to a gateway, made of package wire alone. What it sends is
// checked with the schema that OpenClaw publishes.
type client struct {
	t      *testing.T
	ctx    context.Context
	conn   *websocket.Conn
	schema *Schema
	events chan wire.Frame
	gone   chan struct{} // everything that came was handed on
	bye    error         // how the connection ended; to be read after gone

	mu      sync.Mutex
	waiting map[string]chan wire.Frame
}

// dial connects, and reads the challenge.
func dial(t *testing.T, url string, s *Schema) (*client, wire.Challenge) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), Patience)
	conn, _, err := websocket.Dial(ctx, url, nil)
	if err != nil {
		cancel()
		t.Fatal(err)
	}
	conn.SetReadLimit(wire.MaxFrame)
	c := &client{
		t: t, ctx: ctx, conn: conn, schema: s, events: make(chan wire.Frame, 1000), gone: make(chan struct{}), waiting: map[string]chan wire.Frame{},
	}
	go c.read()
	t.Cleanup(func() {
		conn.Close(websocket.StatusNormalClosure, "")
		cancel()
		<-c.gone
	})
	ch, err := wire.ParseChallenge(c.await(wire.EventChallenge).Payload)
	if err != nil {
		t.Fatal(err)
	}
	return c, ch
}

func (c *client) read() {
	defer close(c.gone)
	for {
		_, data, err := c.conn.Read(c.ctx)
		if err != nil {
			c.bye = err
			return
		}
		f, err := wire.Parse(data)
		if err != nil {
			c.t.Errorf("%s: %v", data, err)
			continue
		}
		if f.Type == wire.TypeEvent {
			select {
			case c.events <- f:
			default: // nobody is interested any more
			}
			continue
		}
		c.mu.Lock()
		answer := c.waiting[f.ID]
		delete(c.waiting, f.ID)
		c.mu.Unlock()
		if answer != nil {
			answer <- f
		}
	}
}

// call calls a method and waits for its answer. Definition is what the schema calls
// its parameters; with none, they are not checked.
func (c *client) call(id, method, definition string, params []byte) wire.Frame {
	c.t.Helper()
	data := wire.AppendRequest(nil, id, method, params)
	if definition != "" {
		if err := c.schema.Check(c.t, definition, params); err != nil {
			c.t.Errorf("%s: %v", params, err)
		}
	}
	if err := c.schema.Check(c.t, "RequestFrame", data); err != nil {
		c.t.Errorf("%s: %v", data, err)
	}
	answer := make(chan wire.Frame, 1)
	c.mu.Lock()
	c.waiting[id] = answer
	c.mu.Unlock()
	if err := c.conn.Write(c.ctx, websocket.MessageText, data); err != nil {
		c.t.Fatal(err)
	}
	select {
	case f := <-answer:
		return f
	case <-c.gone:
	}
	select {
	case f := <-answer: // and then it hung up
		return f
	default:
		c.t.Fatalf("the gateway has hung up on %s: %v", method, c.bye)
		return wire.Frame{}
	}
}

// await waits for an event. Others are ignored.
func (c *client) await(event string) wire.Frame {
	c.t.Helper()
	for {
		select {
		case f := <-c.events:
			if f.Event == event {
				return f
			}
		case <-c.gone:
			c.t.Fatalf("the gateway has hung up before %s", event)
		case <-c.ctx.Done():
			c.t.Fatalf("no %s came", event)
		}
	}
}

// asNode is what a node of ours says about itself.
func asNode(token string) *wire.Connect {
	return &wire.Connect{
		MinProtocol: wire.Protocol, MaxProtocol: wire.Protocol, Role: wire.RoleNode, Caps: []string{wire.CapMCP},
		Client:   wire.Client{ID: wire.ClientNode, Mode: wire.ModeNode, Version: "1", Platform: "linux", DeviceFamily: "Linux", DisplayName: "Kitchen"},
		Commands: []string{"kitchen.echo", wire.CommandTool, "not.allowed"},
		Auth:     &wire.Auth{Token: token},
	}
}

func encoded(t *testing.T, v any) []byte {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func decoded[T any](t *testing.T, data []byte) T {
	t.Helper()
	var v T
	if err := json.Unmarshal(data, &v); err != nil {
		t.Fatalf("%s: %v", data, err)
	}
	return v
}

// The whole story with a real gateway: a node of ours connects, the real command
// line approves and calls it.
func TestRealGateway(t *testing.T) {
	s := LoadSchema(t)
	began := time.Now()
	g := Gateway(t, Options{Allow: []string{"kitchen.echo"}})
	t.Logf("the gateway was ready after %v", time.Since(began).Round(time.Millisecond))

	t.Run("refusals", func(t *testing.T) { refusals(t, g, s) })

	me := wire.NewIdentity()
	c, challenge := dial(t, g.URL, s)
	hello := asNode(g.Token)
	me.Sign(hello, challenge)
	answer := c.call("1", wire.MethodConnect, "ConnectParams", encoded(t, hello))
	if answer.Error != nil {
		t.Fatal(answer.Error)
	}
	greeting, err := wire.ParseHello(answer.Payload)
	if err != nil || greeting.Protocol != wire.Protocol || greeting.Auth.Role != wire.RoleNode || greeting.Auth.DeviceToken == "" {
		t.Fatalf("%v: %.500s", err, answer.Payload)
	}
	if got := greeting.Policy; got != (wire.Limits{MaxPayload: wire.MaxFrame, MaxBuffered: wire.MaxBuffered, TickIntervalMS: wire.TickInterval.Milliseconds()}) {
		t.Errorf("the gateway's limits are %+v", got)
	}

	listed := decoded[wire.NodePairs](t, g.CLI(t, "nodes", "list", "--json"))
	if len(listed.Pending) != 1 || listed.Pending[0].NodeID != me.ID() || listed.Pending[0].DisplayName != "Kitchen" {
		t.Fatalf("%+v", listed)
	}
	surface := &wire.Surface{Platform: "linux", Family: "Linux", Declared: hello.Commands}
	policy := wire.Policy{Allow: []string{"kitchen.echo"}}
	if got, want := listed.Pending[0], policy.Declarable(surface); strings.Join(got.Commands, " ") != strings.Join(want, " ") {
		t.Errorf("the gateway asks about %q, we would about %q", got.Commands, want)
	}
	if got, want := listed.Pending[0].Scopes, wire.ApproveScopes(listed.Pending[0].Commands); strings.Join(got, " ") != strings.Join(want, " ") {
		t.Errorf("the gateway wants %q, we would %q", got, want)
	}

	t.Logf("approved: %s", g.CLI(t, "nodes", "approve", listed.Pending[0].RequestID, "--json"))
	d := decoded[wire.Decision](t, c.await(wire.EventNodeResolved).Payload)
	if d.NodeID != me.ID() || d.Decision != wire.DecisionApproved {
		t.Errorf("%+v", d)
	}

	names := wire.NameTools([]wire.ToolRef{{Server: "kitchen", Tool: "self.lamp.set"}})
	tools := wire.PluginTools{Tools: []wire.PluginTool{{
		PluginID: wire.PluginMCP, Name: names.Of(wire.ToolRef{Server: "kitchen", Tool: "self.lamp.set"}), Description: "Turns the lamp on or off",
		Parameters: json.RawMessage(`{"type":"object","properties":{"on":{"type":"boolean"}}}`), Command: wire.CommandTool,
		MCP: &wire.ToolRef{Server: "kitchen", Tool: "self.lamp.set"},
	}}}
	published := c.call("2", wire.MethodPluginTools, "NodePluginToolsUpdateParams", encoded(t, tools))
	if published.Error != nil || len(decoded[wire.PluginTools](t, published.Payload).Tools) != 1 {
		t.Errorf("%+v", published)
	}
	told := wire.NodeEvent{Event: "kitchen.smells", Payload: json.RawMessage(`{"good":true}`)}
	if f := c.call("3", wire.MethodNodeEvent, "NodeEventParams", told.Append(nil)); f.Error != nil || !strings.Contains(string(f.Payload), "unsupported_event") {
		t.Errorf("%+v", f)
	}

	t.Run("call", func(t *testing.T) { called(t, g, c, me) })
	t.Run("device token", func(t *testing.T) {
		again, challenge := dial(t, g.URL, s)
		hello := asNode(greeting.Auth.DeviceToken)
		me.Sign(hello, challenge)
		if f := again.call("1", wire.MethodConnect, "ConnectParams", encoded(t, hello)); f.Error != nil {
			t.Error(f.Error)
		}
	})
}

// called has the real command line call our node.
func called(t *testing.T, g *RealGateway, c *client, me wire.Identity) {
	type said struct {
		out []byte
		err error
	}
	cli := func(command, params string) (wire.InvokeRequest, <-chan said) {
		ch := make(chan said, 1)
		go func() {
			out, err := TryCLI(t, g.URL, g.Token, "nodes", "invoke", "--node", "Kitchen", "--command", command, "--params", params, "--json")
			ch <- said{out, err}
		}()
		r, err := wire.ParseInvokeRequest(c.await(wire.EventInvoke).Payload)
		if err != nil || r.NodeID != me.ID() || r.Command != command || string(r.Params) != params || r.Timeout <= 0 {
			t.Errorf("%+v: %v", r, err)
		}
		return r, ch
	}

	const params = `{"words":"<a & \"b\"> 厨房"}`
	r, out := cli("kitchen.echo", params)
	result := wire.InvokeResult{ID: r.ID, NodeID: me.ID(), OK: true, Payload: r.Params}
	if f := c.call("4", wire.MethodInvokeResult, "NodeInvokeResultParams", result.Append(nil)); f.Error != nil {
		t.Error(f.Error)
	}
	got := <-out
	var printed struct {
		Payload json.RawMessage `json:"payload"`
	}
	if got.err != nil || json.Unmarshal(got.out, &printed) != nil || string(encoded(t, decoded[any](t, printed.Payload))) != string(encoded(t, decoded[any](t, []byte(params)))) {
		t.Errorf("%v: %s", got.err, got.out)
	}

	r, out = cli("kitchen.echo", `{}`)
	result = wire.InvokeResult{ID: r.ID, NodeID: me.ID(), Error: &wire.NodeError{Code: "BURNT", Message: "it is black"}}
	if f := c.call("5", wire.MethodInvokeResult, "NodeInvokeResultParams", result.Append(nil)); f.Error != nil {
		t.Error(f.Error)
	}
	if got := <-out; got.err == nil || !strings.Contains(string(got.out), "BURNT: it is black") {
		t.Errorf("%v: %s", got.err, got.out)
	}
}

// refusals compares what the real gateway says with what we would.
func refusals(t *testing.T, g *RealGateway, s *Schema) {
	for name, spoil := range map[string]func(*wire.Connect){
		"token":     func(c *wire.Connect) { c.Auth.Token = "another" },
		"signature": func(c *wire.Connect) { c.Device.Signature = strings.Repeat("A", 86) },
		"time":      func(c *wire.Connect) { c.Device.SignedAt -= 2 * wire.Skew.Milliseconds() },
		"device":    func(c *wire.Connect) { c.Device.ID = strings.Repeat("0", 64) },
		"key":       func(c *wire.Connect) { c.Device.PublicKey = "no key" },
		"nobody":    func(c *wire.Connect) { c.Device = nil },
		"client":    func(c *wire.Connect) { c.Client.ID = "patchbay" },
		"version":   func(c *wire.Connect) { c.MinProtocol, c.MaxProtocol = 1, 2 },
		"role":      func(c *wire.Connect) { c.Role = "cook" },
	} {
		t.Run(name, func(t *testing.T) {
			c, challenge := dial(t, g.URL, s)
			hello := asNode(g.Token)
			if name == "token" { // which is signed
				spoil(hello)
			}
			wire.NewIdentity().Sign(hello, challenge)
			spoil(hello)
			data := encoded(t, hello)
			theirs := c.call("1", wire.MethodConnect, "", data).Error
			ours, e := wire.ParseConnect(data)
			if e == nil {
				e = ours.Verify(challenge.Nonce, time.UnixMilli(challenge.TS))
			}
			if e == nil && ours.Credential() != g.Token {
				e = wire.TokenMismatch(true)
			}
			if theirs == nil || e == nil || theirs.Code != e.Code || theirs.Detail() != e.Detail() {
				t.Errorf("the gateway says %v, we %v", theirs, e)
			}
			if theirs != nil && e != nil && theirs.Message != e.Message && name != "token" { // there it gives a hint
				t.Errorf("the gateway says %q, we %q", theirs.Message, e.Message)
			}
			<-c.gone
			var bye websocket.CloseError
			if !errors.As(c.bye, &bye) || e != nil && int(bye.Code) != e.Close {
				t.Errorf("closed with %v, not %d", c.bye, e.Close)
			}
		})
	}
}

// The real node host gets to a real gateway, and the real command line sees and calls
// it; and the gateway answers with the words of a model of ours.
func TestRealNodeHost(t *testing.T) {
	model, err := openaitest.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(model.Close)
	g := Gateway(t, Options{Model: model.URL})
	n := NodeHost(t, g.Port, g.Token, HostOptions{Name: "Hall", Servers: map[string]any{"demo": LampServer(t)}})
	n.Await("awaiting operator approval")
	listed := decoded[wire.NodePairs](t, g.CLI(t, "nodes", "list", "--json"))
	if len(listed.Pending) != 1 || listed.Pending[0].DisplayName != "Hall" {
		t.Fatalf("%+v", listed)
	}
	g.CLI(t, "nodes", "approve", listed.Pending[0].RequestID)

	invoke := func(command, params string) string {
		return string(g.CLI(t, "nodes", "invoke", "--node", "Hall", "--command", command, "--params", params, "--json"))
	}
	if out := invoke("system.which", `{"bins":["sh"]}`); !strings.Contains(out, "/sh") {
		t.Error(out)
	}
	if out := invoke(wire.CommandTool, `{"server":"demo","tool":"self.lamp.set","arguments":{"on":true}}`); !strings.Contains(out, "the lamp is on") {
		t.Error(out)
	}
	devices := decoded[wire.DevicePairs](t, g.CLI(t, "devices", "list", "--json"))
	if len(devices.Paired) != 1 || devices.Paired[0].DeviceID != listed.Pending[0].NodeID {
		t.Errorf("%+v", devices)
	}
	node := decoded[wire.Node](t, g.CLI(t, "nodes", "describe", "--node", "Hall", "--json"))
	ref := wire.ToolRef{Server: "demo", Tool: "self.lamp.set"}
	if len(node.PluginTools) != 1 || node.PluginTools[0].Name != wire.NameTools([]wire.ToolRef{ref}).Of(ref) || *node.PluginTools[0].MCP != ref {
		t.Errorf("%+v", node)
	}

	t.Run("chat", func(t *testing.T) { chatted(t, g, model) })

	n.Stop()
	g.Stop()
	for _, p := range []*Program{n, g.Program} {
		select {
		case <-p.Gone():
		default:
			t.Error("a program was stopped and runs")
		}
	}
}

// chatted asks the gateway's agent something, as an operator.
func chatted(t *testing.T, g *RealGateway, model *openaitest.Server) {
	c, _ := dial(t, g.URL, LoadSchema(t))
	hello := &wire.Connect{
		MinProtocol: wire.Protocol, MaxProtocol: wire.Protocol, Role: wire.RoleOperator, Scopes: []string{wire.ScopeAdmin}, // for NoCommands
		Client: wire.Client{ID: wire.ClientGateway, Mode: wire.ModeBackend, Version: "1", Platform: "linux"},
		Caps:   []string{wire.CapSessionScoped}, Auth: &wire.Auth{Token: g.Token},
	}
	if f := c.call("1", wire.MethodConnect, "ConnectParams", encoded(t, hello)); f.Error != nil {
		t.Fatal(f.Error)
	}
	const key = "agent:main:kitchen"
	if f := c.call("2", wire.MethodSubscribe, "SessionsMessagesSubscribeParams", encoded(t, wire.Subscribe{Key: key})); f.Error != nil {
		t.Fatal(f.Error)
	}
	send := wire.ChatSend{SessionKey: key, Message: "/status is what I say", IdempotencyKey: "run-1", QueueMode: wire.QueueInterrupt, NoCommands: true}
	f := c.call("3", wire.MethodChatSend, "ChatSendParams", encoded(t, send))
	if f.Error != nil || decoded[wire.Run](t, f.Payload).RunID != "run-1" {
		t.Fatalf("%+v", f)
	}
	for { // the context ends it
		e, err := wire.ParseChat(c.await(wire.EventChat).Payload)
		if err != nil {
			t.Fatal(err)
		}
		if e.Last() {
			if e.State != wire.ChatFinal || e.Text() != "Hello there." || e.RunID != "run-1" {
				t.Errorf("%+v: %s", e, e.Text())
			}
			break
		}
	}
	if len(model.Requests()) == 0 || !strings.Contains(string(model.Requests()[0].Body), "/status is what I say") {
		t.Errorf("the model was asked %d times", len(model.Requests()))
	}
}
