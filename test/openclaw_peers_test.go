package test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"patchbay/internal/plug/openclaw/openclawtest"
	"patchbay/internal/plug/openclaw/sim"
	"patchbay/internal/plug/openclaw/wire"
)

// refusals compares the refusals of a real gateway with ours.
func refusals(t *testing.T, g *openclawtest.RealGateway) {
	for name, spoil := range map[string]func(*wire.Connect){
		"token":     func(c *wire.Connect) { c.Auth.Token = "another" },
		"signature": func(c *wire.Connect) { c.Device.Signature = strings.Repeat("A", 86) },
		"time":      func(c *wire.Connect) { c.Device.SignedAt -= 2 * wire.MaxClockSkew.Milliseconds() },
		"nonce":     func(c *wire.Connect) { c.Device.Nonce = "another" },
		"device":    func(c *wire.Connect) { c.Device.ID = strings.Repeat("0", 64) },
		"key":       func(c *wire.Connect) { c.Device.PublicKey = "no key" },
		"nobody":    func(c *wire.Connect) { c.Device = nil },
		"client":    func(c *wire.Connect) { c.Client.ID = "patchbay" },
		"version":   func(c *wire.Connect) { c.MinProtocol, c.MaxProtocol = 1, 2 },
		"role":      func(c *wire.Connect) { c.Role = "cook" },
	} {
		t.Run(name, func(t *testing.T) {
			limit := limited(t, 20*time.Second)
			c, challenge := challenged(limit, t, g.URL)
			hello := nodeHello(g.Token)
			if name == "token" { // a signed value
				spoil(hello)
			}
			wire.NewIdentity().Sign(hello, challenge)
			spoil(hello)
			params, err := json.Marshal(hello)
			must(t, err)
			must(t, c.Write(limit, websocket.MessageText, wire.AppendRequest(nil, "1", wire.MethodConnect, params)))
			theirs, bye := refusedWith(limit, t, c)
			ours, e := wire.ParseConnect(params)
			if e == nil {
				e = ours.Verify(challenge.Nonce, time.UnixMilli(challenge.TS))
			}
			if e == nil && ours.Credential() != g.Token {
				e = wire.TokenMismatch(true)
			}
			if theirs == nil || e == nil || theirs.Code != e.Code || theirs.Detail() != e.Detail() {
				t.Fatalf("the gateway says %v, we %v", theirs, e)
			}
			if theirs.Message != e.Message && name != "token" { // the real gateway gives a hint there
				t.Errorf("the gateway says %q, we %q", theirs.Message, e.Message)
			}
			if int(bye.Code) != e.Close {
				t.Errorf("closed with %v, not %d", bye, e.Close)
			}
		})
	}
}

// challenged connects and reads the challenge.
func challenged(ctx context.Context, t *testing.T, url string) (*websocket.Conn, wire.Challenge) {
	t.Helper()
	c, _, err := websocket.Dial(ctx, url, nil)
	must(t, err)
	t.Cleanup(func() { c.CloseNow() })
	c.SetReadLimit(wire.MaxFrame)
	_, data, err := c.Read(ctx)
	must(t, err)
	f, err := wire.Parse(data)
	must(t, err)
	challenge, err := wire.ParseChallenge(f.Payload)
	must(t, err)
	return c, challenge
}

// refusedWith reads the refusal and how the connection ends.
func refusedWith(ctx context.Context, t *testing.T, c *websocket.Conn) (why *wire.Error, bye websocket.CloseError) {
	t.Helper()
	for {
		_, data, err := c.Read(ctx)
		if err != nil {
			if !errors.As(err, &bye) {
				t.Fatal(err)
			}
			return why, bye
		}
		f, err := wire.Parse(data)
		must(t, err)
		if f.Type == wire.TypeResponse {
			why = f.Error
		}
	}
}

// nodeHello returns the hello message of a node.
func nodeHello(token string) *wire.Connect {
	return &wire.Connect{
		MinProtocol: wire.Protocol, MaxProtocol: wire.Protocol, Role: wire.RoleNode, Caps: []string{wire.CapMCP},
		Client: wire.Client{ID: wire.ClientNode, Mode: wire.ModeNode,
			Version: "1", Platform: "linux", DeviceFamily: "Linux", DisplayName: "Kitchen"},
		Commands: []string{"kitchen.echo", wire.CommandTool, "not.allowed"},
		Auth:     &wire.Auth{Token: token},
	}
}

// simulated connects our simulated node and operator to a real gateway, which must accept them.
func simulated(t *testing.T, g *openclawtest.RealGateway) {
	limit := limited(t, time.Minute)
	turnedAway := func(token string, me wire.Identity) string {
		n := sim.NewNode(sim.Options{URL: g.URL, Token: token, Identity: me, Name: "Kitchen"})
		defer n.Close()
		must(t, n.Await(limit, func(s sim.State) bool { return s.Paused }))
		s, _ := n.State()
		return s.Refused.Detail()
	}
	me := wire.NewIdentity()
	for token, want := range map[string]string{"wrong": wire.DetailTokenMismatch, g.Token: wire.DetailPairing} {
		if got := turnedAway(token, me); got != want {
			t.Errorf("%q: %s instead of %s", token, got, want)
		}
	}
	op, err := sim.Dial(limit, g.URL, sim.Operator(g.Token, wire.ScopeRead, wire.ScopeWrite, wire.ScopePairing,
		wire.ScopeAdmin), nil, nil)
	must(t, err)
	defer op.Close()
	var devices wire.DevicePairs
	must(t, op.Call(limit, wire.MethodDevicePairList, given{}, &devices))
	if len(devices.Pending) != 1 || devices.Pending[0].DeviceID != me.ID() {
		t.Fatalf("%+v", devices)
	}
	must(t, op.Call(limit, wire.MethodDeviceApprove, given{"requestId": devices.Pending[0].RequestID}, nil))

	declared := nodeHello("").Commands
	approved := make(chan struct{}, 1)
	n := sim.NewNode(sim.Options{
		URL: g.URL, Token: g.Token, Identity: me, Name: "Kitchen", Caps: []string{wire.CapMCP}, Commands: declared,
		MinBackoff: 50 * time.Millisecond,
		Handler: func(_ context.Context, command string, params json.RawMessage) (json.RawMessage, error) {
			return params, nil
		},
		OnEvent: func(f wire.Frame) {
			if f.Event == wire.EventNodeResolved {
				approved <- struct{}{}
			}
		},
	})
	defer n.Close()
	must(t, n.AwaitConnected(limit))
	var pairs wire.NodePairs
	must(t, op.Call(limit, wire.MethodNodePairList, given{}, &pairs))
	if len(pairs.Pending) != 1 || pairs.Pending[0].NodeID != n.ID() {
		t.Fatalf("%+v", pairs)
	}
	surface := &wire.Surface{Platform: "linux", Family: "Linux", Declared: declared}
	policy := wire.Policy{Allow: []string{"kitchen.echo"}}
	if got, want := pairs.Pending[0].Commands, policy.Declarable(surface); !slices.Equal(got, want) {
		t.Errorf("the gateway asks about %q, we would about %q", got, want)
	}
	if got, want := pairs.Pending[0].Scopes, wire.ApproveScopes(pairs.Pending[0].Commands); !slices.Equal(got, want) {
		t.Errorf("the gateway wants %q, we would %q", got, want)
	}
	must(t, op.Call(limit, wire.MethodNodeApprove, given{"requestId": pairs.Pending[0].RequestID}, nil))
	<-approved
	echo := func() (string, error) {
		var out struct{ Payload json.RawMessage }
		err := op.Call(limit, wire.MethodNodeInvoke, wire.Invoke{NodeID: n.ID(),
			Command: "kitchen.echo", Params: json.RawMessage(`{"a":1}`), IdempotencyKey: rand.Text(),
			TimeoutMS: new(int64(2000))}, &out)
		return string(out.Payload), err
	}
	if got, err := echo(); err != nil || got != `{"a":1}` {
		t.Errorf("%s, %v", got, err)
	}
	if s, _ := n.State(); s.Token == "" {
		t.Error("the node got no token of its own")
	}
	n.Cut()
	must(t, n.Await(limit, func(s sim.State) bool { return s.Connected && s.ConnectCount == 2 }))
	// The gateway refuses calls while it still puts the new connection in place of the old one, and
	// a call that it gave to the old one is lost: each has a short limit of its own.
	waitUntil(t, "the node is called again", func() bool {
		got, err := echo()
		if err != nil {
			t.Logf("called again: %v", err)
		}
		return err == nil && got == `{"a":1}`
	})
}
