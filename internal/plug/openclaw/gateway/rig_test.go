package gateway_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/prometheus/client_golang/prometheus"

	"patchbay/internal/account"
	"patchbay/internal/hub"
	"patchbay/internal/hub/hubtest"
	"patchbay/internal/plug/openclaw/gateway"
	"patchbay/internal/plug/openclaw/sim"
	"patchbay/internal/plug/openclaw/wire"
	"patchbay/internal/store"
	"patchbay/internal/store/storetest"
)

func TestMain(m *testing.M) { storetest.Main(m) }

// testTimeout limits each wait, on a machine that is busy with other tests.
const testTimeout = 20 * time.Second

// rig is a gateway with a hub.
type rig struct {
	*hubtest.Rig
	t       testing.TB
	g       *gateway.Gateway
	server  *httptest.Server
	url     string
	token   string // grants all scopes to Person, who is an administrator
	metrics *prometheus.Registry

	lastDecision atomic.Pointer[gateway.Decision]
}

func newRig(t testing.TB, change func(*gateway.Options)) *rig {
	t.Helper()
	return rigOn(t, hubtest.New(t, hubtest.Options{Hub: hub.Options{Installation: "test"}}), change)
}

func rigOn(t testing.TB, b *hubtest.Rig, change func(*gateway.Options)) *rig {
	t.Helper()
	r := &rig{Rig: b, t: t, metrics: prometheus.NewRegistry()}
	r.token = r.Key(t, account.NewKey{Scopes: []string{account.ScopeOperator, account.ScopeAdmin, account.ScopeNode}})
	r.serve(change)
	return r
}

// serve starts a gateway.
func (r *rig) serve(change func(*gateway.Options)) {
	r.t.Helper()
	o := gateway.Options{
		Accounts: r.Accounts, Store: r.Store, Hub: r.Hub, Registerer: r.metrics,
		Version: "1.2.3", AutoApproveLocal: true, Decide: r.decide,
		Guard: account.NewGuard(1000, nil), Logger: slog.New(slog.NewTextHandler(r.t.Output(),
			&slog.HandlerOptions{Level: slog.LevelWarn})),
		Allow: []string{"kitchen.echo", "kitchen.fail", "mcp.tools.call"},
	}
	if change != nil {
		change(&o)
	}
	var err error
	r.g, err = gateway.New(o)
	must(r.t, err)
	r.server = httptest.NewServer(r.g)
	r.url = "ws" + strings.TrimPrefix(r.server.URL, "http") + "/any/path"
	g, s := r.g, r.server
	r.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
		defer cancel()
		g.Shutdown(ctx)
		s.Close()
	})
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func limited(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), testTimeout)
	t.Cleanup(cancel)
	return ctx
}

// operator is an operator that records received events.
type operator struct {
	*sim.Client
	t      testing.TB
	ctx    context.Context
	mu     sync.Mutex
	events []wire.Frame
	more   chan struct{}
}

var allScopes = []string{wire.ScopeRead, wire.ScopeWrite, wire.ScopePairing}

// operator connects an operator without a device.
func (r *rig) operator(token string, scopes ...string) *operator {
	r.t.Helper()
	if scopes == nil {
		scopes = allScopes
	}
	o, err := r.dial(sim.Operator(token, scopes...), nil)
	must(r.t, err)
	return o
}

func (r *rig) dial(hello wire.Connect, device *wire.Identity) (*operator, error) {
	o := &operator{t: r.t, ctx: limited(r.t), more: make(chan struct{})}
	var err error
	o.Client, err = sim.Dial(o.ctx, r.url, hello, device, func(f wire.Frame) {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.events = append(o.events, f)
		close(o.more)
		o.more = make(chan struct{})
	})
	if err == nil {
		r.t.Cleanup(o.Cut)
	}
	return o, err
}

// await waits for a matching event, and removes it and all earlier events.
func (o *operator) await(name string, fits func(json.RawMessage) bool) json.RawMessage {
	o.t.Helper()
	for {
		o.mu.Lock()
		for i, f := range o.events {
			if f.Event == name && (fits == nil || fits(f.Payload)) {
				o.events = o.events[i+1:]
				o.mu.Unlock()
				return f.Payload
			}
		}
		more := o.more
		o.mu.Unlock()
		select {
		case <-more:
		case <-o.ctx.Done():
			o.t.Fatalf("no event %s came", name)
		}
	}
}

// call calls a method that must succeed.
func call[T any](o *operator, method string, params any) T {
	o.t.Helper()
	var out T
	if err := o.Call(o.ctx, method, params, &out); err != nil {
		o.t.Fatalf("%s: %v", method, err)
	}
	return out
}

// refused calls a method that must fail.
func (o *operator) refused(method string, params any) *wire.Error {
	o.t.Helper()
	err := o.Call(o.ctx, method, params, nil)
	var e *wire.Error
	if !errors.As(err, &e) {
		o.t.Fatalf("%s: %v instead of a refusal", method, err)
	}
	return e
}

type m = map[string]any

// handle executes the commands of the tests' nodes.
func handle(ctx context.Context, command string, params json.RawMessage) (json.RawMessage, error) {
	switch command {
	case "kitchen.echo":
		return params, nil
	case wire.CommandTool:
		c, err := wire.ParseToolCall(params)
		if err != nil {
			return nil, err
		}
		return json.RawMessage(`{"content":[{"type":"text","text":"` + c.Server + " " + c.Tool +
			`"}],"structuredContent":` + string(c.Arguments) + `}`), nil
	case "kitchen.fail":
		return nil, sim.Fail("BURNT", "it is black")
	}
	return nil, sim.NotSupported
}

// node connects a node. With approve, its surface is approved.
func (r *rig) node(o sim.Options, approve bool) *sim.Node {
	r.t.Helper()
	o.URL = r.url
	if o.Token == "" {
		o.Token = r.token
	}
	if o.Handler == nil {
		o.Handler = handle
	}
	if o.Commands == nil {
		o.Commands = []string{"kitchen.echo", "kitchen.fail", "kitchen.unknown", wire.CommandTool, "camera.snap"}
	}
	if o.Name == "" {
		o.Name = "Kitchen"
	}
	if o.Caps == nil {
		o.Caps = []string{wire.CapMCP}
	}
	o.MinBackoff = 20 * time.Millisecond
	n := sim.NewNode(o)
	r.t.Cleanup(n.Close)
	must(r.t, n.AwaitConnected(limited(r.t)))
	if approve {
		r.approve(n.ID())
	}
	return n
}

// approve approves the surface of a node.
func (r *rig) approve(node string) {
	r.t.Helper()
	op := r.operator(r.token, wire.ScopePairing, wire.ScopeWrite, wire.ScopeAdmin)
	defer op.Close()
	for _, p := range call[wire.NodePairs](op, wire.MethodNodePairList, m{}).Pending {
		if p.NodeID == node {
			call[wire.ApprovedNode](op, wire.MethodNodeApprove, m{"requestId": p.RequestID})
			return
		}
	}
	r.t.Fatalf("node %s does not wait for anything", node)
}

// invoked is the response to node.invoke.
type invoked struct {
	OK          bool            `json:"ok"`
	NodeID      string          `json:"nodeId"`
	Command     string          `json:"command"`
	Payload     json.RawMessage `json:"payload"`
	PayloadJSON *string         `json:"payloadJSON"`
}

var keys struct {
	sync.Mutex
	n int
}

// invokeParams returns the parameters of node.invoke, with a new idempotency key.
func invokeParams(node, command string, params any) m {
	keys.Lock()
	defer keys.Unlock()
	keys.n++
	p := m{"nodeId": node, "command": command, "idempotencyKey": "key-" +
		string(rune('a'+keys.n%26)) + time.Now().Format("150405.000000000")}
	if params != nil {
		p["params"] = params
	}
	return p
}

// person makes another person, with a key with these scopes.
func (r *rig) person(name string, scopes ...string) (store.Person, string) {
	r.t.Helper()
	p, err := r.Accounts.AddPerson(r.t.Context(), name, account.RoleMember, "en", "")
	must(r.t, err)
	return p, r.Key(r.t, account.NewKey{Person: p.ID, Scopes: scopes})
}

// awaitClose waits for the Close frame of a connection.
func awaitClose(t testing.TB, c *sim.Client) websocket.CloseError {
	t.Helper()
	select {
	case <-c.Done():
	case <-time.After(testTimeout):
		t.Fatal("the connection has not ended")
	}
	var e websocket.CloseError
	if !errors.As(c.Err(), &e) {
		t.Fatalf("the connection has ended with %v", c.Err())
	}
	return e
}
