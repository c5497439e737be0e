package gateway_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"patchbay/internal/account"
	"patchbay/internal/hub"
	"patchbay/internal/hub/hubtest"
	"patchbay/internal/plug/openclaw/gateway"
	"patchbay/internal/plug/openclaw/sim"
	"patchbay/internal/plug/openclaw/wire"
	"patchbay/internal/store"
	"patchbay/internal/store/storetest"
)

// A node connects, is approved, called, renamed and removed.
func TestNodeStory(t *testing.T) {
	r := newRig(t, nil)
	op := r.operator(r.token)
	resolved := make(chan wire.Frame, 10)
	n := r.node(sim.Options{OnEvent: func(f wire.Frame) {
		if f.Event == wire.EventNodeResolved {
			resolved <- f
		}
	}}, false)
	op.await(wire.EventDeviceResolved, func(p json.RawMessage) bool {
		return decoded[wire.Decision](t,
			p).DeviceID == n.ID()
	})
	asked := decoded[wire.NodeRequest](t, op.await(wire.EventNodeRequested, nil))
	want := []string{"kitchen.echo", "kitchen.fail", wire.CommandTool}
	if asked.NodeID != n.ID() || !slices.Equal(asked.Commands, want) || !asked.Silent ||
		!slices.Equal(asked.Scopes, []string{wire.ScopePairing, wire.ScopeWrite}) {
		t.Fatalf("%+v", asked)
	}
	if e := op.refused(wire.MethodNodeInvoke, invokeParams(n.ID(),
		"kitchen.echo", m{})); e.Detail() != wire.DetailPairChanged {
		t.Error(e)
	}
	row := describe(op, n.ID())
	if row.Approval != wire.PendingApproval || row.PendingRequest != asked.RequestID || !row.Connected ||
		len(row.Commands) != 0 {
		t.Errorf("%+v", row)
	}
	if _, err := n.SendEvent(t.Context(), wire.NodeStats, m{"cpuCount": 1}); err == nil {
		t.Error("a node that is not approved tells something")
	}

	approved := call[wire.ApprovedNode](op, wire.MethodNodeApprove, m{"requestId": asked.RequestID})
	if approved.Node.NodeID != n.ID() || !slices.Equal(approved.Node.Commands, want) {
		t.Errorf("%+v", approved)
	}
	if d := decoded[wire.Decision](t, (<-resolved).Payload); d.Decision != wire.DecisionApproved ||
		d.NodeID != n.ID() || d.RequestID != asked.RequestID {
		t.Errorf("%+v", d)
	}
	op.await(wire.EventNodeResolved, nil)
	got := call[invoked](op, wire.MethodNodeInvoke, invokeParams(n.ID(), "kitchen.echo", m{"words": "<a & \"b\"> 厨房"}))
	if !got.OK || got.NodeID != n.ID() || got.Command != "kitchen.echo" ||
		string(got.Payload) != `{"words":"\u003ca \u0026 \"b\"\u003e 厨房"}` || got.PayloadJSON != nil {
		t.Errorf("%+v %s", got, got.Payload)
	}
	if _, err := n.SendEvent(t.Context(), wire.NodeStats, m{"cpuCount": 7}); err != nil {
		t.Error(err)
	}
	if row := describe(op, n.ID()); row.Approval != wire.Approved || !slices.Equal(row.Commands, want) ||
		decoded[m](t, row.HostStats)["cpuCount"] != 7.0 {
		t.Errorf("%+v", row)
	}

	call[m](op, wire.MethodNodeRename, m{"nodeId": n.ID(), "displayName": "Stove"})
	if row := describe(op, n.ID()); row.DisplayName != "Stove" {
		t.Errorf("%+v", row)
	}
	call[m](op, wire.MethodNodeRemove, m{"nodeId": n.ID()})
	must(t, n.Await(limited(t), func(s sim.State) bool { return s.ConnectCount > 1 })) // it reconnects with the key
	again := decoded[wire.NodeRequest](t, op.await(wire.EventNodeRequested, nil))
	if again.NodeID != n.ID() || again.RequestID == asked.RequestID {
		t.Errorf("%+v", again)
	}
}

func describe(op *operator, id string) wire.NodeDetail {
	op.t.Helper()
	return call[wire.NodeDetail](op, wire.MethodNodeDescribe, m{"nodeId": id})
}

func decoded[T any](t testing.TB, data []byte) T {
	t.Helper()
	var v T
	if err := json.Unmarshal(data, &v); err != nil {
		t.Fatalf("%s: %v", data, err)
	}
	return v
}

// Without automatic approval a device waits, and only its owner can approve it.
func TestDevicePairing(t *testing.T) {
	r := newRig(t, func(o *gateway.Options) { o.AutoApproveLocal = false })
	op := r.operator(r.token)
	_, other := r.person("bob", account.ScopeOperator, account.ScopeNode)
	bob := r.operator(other)
	n := sim.NewNode(sim.Options{URL: r.url, Token: r.token, Handler: handle, MinBackoff: 10 * time.Millisecond,
		MaxBackoff: 10 * time.Millisecond})
	t.Cleanup(n.Close)
	asked := decoded[wire.DeviceRequest](t, op.await(wire.EventDeviceRequested, nil))
	if asked.DeviceID != n.ID() || asked.Role != wire.RoleNode {
		t.Fatalf("%+v", asked)
	}
	must(t, n.Await(limited(t), func(s sim.State) bool { return s.Refused != nil }))
	if s, _ := n.State(); s.Refused.Detail() != wire.DetailPairing || s.Refused.Next() != wire.NextWait ||
		s.Refused.Code != wire.NotPaired {
		t.Errorf("%+v", s.Refused)
	}
	if l := call[wire.DevicePairs](bob, wire.MethodDevicePairList, m{}); len(l.Pending) != 0 || len(l.Paired) != 0 {
		t.Errorf("another person sees %+v", l)
	}
	if e := bob.refused(wire.MethodDeviceApprove,
		m{"requestId": asked.RequestID}); e.Message != wire.UnknownRequest.Message {
		t.Error(e)
	}
	if e := op.refused(wire.MethodDeviceApprove,
		m{"requestId": asked.RequestID}); e.Message != wire.ApprovalDenied.Message {
		t.Error(e)
	}
	boss := r.operator(r.token, wire.ScopePairing, wire.ScopeAdmin)
	device := call[wire.ApprovedDevice](boss, wire.MethodDeviceApprove, m{"requestId": asked.RequestID}).Device
	if device.DeviceID != n.ID() || device.ApprovedVia != "owner" ||
		!slices.Equal(device.Roles, []string{wire.RoleNode}) {
		t.Errorf("%+v", device)
	}
	must(t, n.AwaitConnected(limited(t)))
	if s, _ := n.State(); len(s.Token) != 43 {
		t.Errorf("the token is %q", s.Token)
	}
	call[m](boss, wire.MethodDeviceRemove, m{"deviceId": n.ID()})
	must(t, n.Await(limited(t), func(s sim.State) bool {
		return s.Refused != nil && s.ConnectCount == 1 &&
			!s.Connected
	}))
	if e := boss.refused(wire.MethodDeviceRemove, m{"deviceId": n.ID()}); e.Message != "unknown deviceId" {
		t.Error(e)
	}
}

// Approving a device and its surface while it tries to connect leaves no pending request.
func TestApprovedWhileConnecting(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db store.Options) {
		r := rigOn(t, hubtest.New(t, hubtest.Options{DB: db, Hub: hub.Options{Installation: "test"}}),
			func(o *gateway.Options) { o.AutoApproveLocal = false })
		op := r.operator(r.token, wire.ScopePairing, wire.ScopeWrite, wire.ScopeAdmin)
		// The race between the lookup and the new request is a matter of chance. With so many
		// attempts it occurs.
		for range 12 {
			me := wire.NewIdentity()
			load := newReconnector(r, &me, 6)
			asked := decoded[wire.DeviceRequest](t, op.await(wire.EventDeviceRequested,
				func(p json.RawMessage) bool { return decoded[wire.DeviceRequest](t, p).DeviceID == me.ID() }))
			call[wire.ApprovedDevice](op, wire.MethodDeviceApprove, m{"requestId": asked.RequestID})
			wants := decoded[wire.NodeRequest](t, op.await(wire.EventNodeRequested,
				func(p json.RawMessage) bool { return decoded[wire.NodeRequest](t, p).NodeID == me.ID() }))
			call[wire.ApprovedNode](op, wire.MethodNodeApprove, m{"requestId": wants.RequestID})
			load.end()
			if l := call[wire.DevicePairs](op, wire.MethodDevicePairList, m{}); len(l.Pending) != 0 {
				t.Fatalf("after it was let in, %+v waits", l.Pending)
			}
			if l := call[wire.NodePairs](op, wire.MethodNodePairList, m{}); len(l.Pending) != 0 {
				t.Fatalf("after it was approved, %+v waits", l.Pending)
			}
			if row := describe(op, me.ID()); row.Approval != wire.Approved ||
				!slices.Equal(row.Commands, []string{"kitchen.echo"}) {
				t.Errorf("%+v", row)
			}
		}
	})
}

// reconnector is one node that connects repeatedly, several times at once.
type reconnector struct {
	stop context.CancelFunc
	wg   sync.WaitGroup
}

func newReconnector(r *rig, me *wire.Identity, size int) *reconnector {
	ctx, stop := context.WithCancel(limited(r.t))
	c := &reconnector{stop: stop}
	hello := wire.Connect{
		MinProtocol: wire.Protocol, MaxProtocol: wire.Protocol, Role: wire.RoleNode, Commands: []string{"kitchen.echo"},
		Auth:   &wire.Auth{Token: r.token},
		Client: wire.Client{ID: "node-host", Version: "1", Platform: "linux", DeviceFamily: "Linux", Mode: "node"},
	}
	for range size {
		c.wg.Go(func() {
			for ctx.Err() == nil {
				client, err := sim.Dial(ctx, r.url, hello, me, nil)
				if e, refused := errors.AsType[*wire.Error](err); refused && e.Detail() != wire.DetailPairing {
					r.t.Errorf("it is refused with %v", e)
				}
				if err == nil {
					client.Cut()
				}
			}
		})
	}
	r.t.Cleanup(c.end)
	return c
}

// end stops connecting, and waits for the goroutines.
func (c *reconnector) end() {
	c.stop()
	c.wg.Wait()
}

// A member can approve the surface of their own node, with a program that requests the scope.
func TestMemberApproves(t *testing.T) {
	r := newRig(t, nil)
	_, key := r.person("bob", account.ScopeOperator, account.ScopeNode)
	n := r.node(sim.Options{Token: key, Commands: []string{"system.which"}}, false)
	boss, bob := r.operator(r.token), r.operator(key)
	if p := call[wire.NodePairs](boss, wire.MethodNodePairList, m{}); len(p.Pending) != 0 {
		t.Errorf("somebody else sees %+v", p)
	}
	admin := r.operator(r.token, wire.ScopePairing, wire.ScopeAdmin)
	if p := call[wire.NodePairs](admin, wire.MethodNodePairList, m{}); len(p.Pending) != 1 {
		t.Errorf("an administrator sees %+v", p)
	}
	p := call[wire.NodePairs](bob, wire.MethodNodePairList, m{}).Pending
	if len(p) != 1 || !slices.Equal(p[0].Scopes, []string{wire.ScopePairing, wire.ScopeAdmin}) {
		t.Fatalf("%+v", p)
	}
	if e := bob.refused(wire.MethodNodeApprove, m{"requestId": p[0].RequestID}); e.Code != wire.Forbidden ||
		e.Detail() != wire.DetailScope {
		t.Error(e)
	}
	cli := r.operator(key, wire.ScopePairing, wire.ScopeAdmin)
	if !slices.Equal(cli.Hello.Auth.Scopes,
		[]string{wire.ScopePairing, wire.ScopeRead, wire.ScopeWrite, wire.ScopeApprovals}) {
		t.Errorf("a member was granted %v", cli.Hello.Auth.Scopes)
	}
	// OpenClaw's command line approves devices with operator.admin alone
	// (src/cli/devices-cli.runtime.ts).
	alone := r.operator(key, wire.ScopeAdmin)
	call[wire.DevicePairs](alone, wire.MethodDevicePairList, m{})
	if e := alone.refused(wire.MethodNodeRemove, m{"nodeId": wire.NewIdentity().
		ID()}); e.Message != wire.UnknownNode.Message {
		t.Error(e)
	}
	call[wire.ApprovedNode](cli, wire.MethodNodeApprove, m{"requestId": p[0].RequestID})
	if e := boss.refused(wire.MethodNodeInvoke, invokeParams(n.ID(),
		"system.which", m{})); e.Detail() != wire.DetailPairChanged {
		t.Errorf("somebody else calls the node: %v", e)
	}
	if e := bob.refused(wire.MethodNodeInvoke, invokeParams(n.ID(),
		"system.which", m{})); e.Message != "UNAVAILABLE: command not supported" {
		t.Error(e)
	}
}

// A wider surface needs approval; a narrower one does not.
func TestSurfaceChanges(t *testing.T) {
	r := newRig(t, nil)
	me := wire.NewIdentity()
	n := r.node(sim.Options{Identity: me, Commands: []string{"kitchen.echo"}}, true)
	n.Close()
	n = r.node(sim.Options{Identity: me, Commands: []string{"kitchen.echo", "kitchen.fail"}}, false)
	op := r.operator(r.token)
	row := describe(op, n.ID())
	if row.Approval != wire.PendingReapproval || !slices.Equal(row.Commands, []string{"kitchen.echo"}) ||
		!slices.Equal(row.PendingCmds, []string{"kitchen.echo", "kitchen.fail"}) {
		t.Errorf("%+v", row)
	}
	// Its hello response is sent a moment before it is registered; until then, operators get a
	// retryable error.
	for again := true; again; {
		err := op.Call(op.ctx, wire.MethodNodeInvoke, invokeParams(n.ID(), "kitchen.echo", m{}), nil)
		e, refused := errors.AsType[*wire.Error](err)
		if again = refused && e.Retryable; err != nil && !again {
			t.Fatal(err)
		}
	}
	if e := op.refused(wire.MethodNodeInvoke, invokeParams(n.ID(),
		"kitchen.fail", m{})); e.Code != wire.InvalidRequest {
		t.Error(e)
	}
	n.Close()
	n = r.node(sim.Options{Identity: me, Commands: []string{"kitchen.echo"}}, false)
	d := decoded[wire.Decision](t, op.await(wire.EventNodeResolved, nil))
	if d.Decision != wire.DecisionRejected || d.RequestID != row.PendingRequest {
		t.Errorf("%+v", d)
	}
	if row := describe(op, n.ID()); row.Approval != wire.Approved || row.PendingRequest != "" {
		t.Errorf("%+v", row)
	}
}

// A second connection of a device replaces the first.
func TestSecondConnection(t *testing.T) {
	r := newRig(t, nil)
	me := wire.NewIdentity()
	began := make(chan struct{})
	first := r.node(sim.Options{Identity: me, Handler: blocking(began)}, true)
	op := r.operator(r.token)
	answers, stop, err := op.StartRequest(op.ctx, wire.MethodNodeInvoke,
		encode(t, invokeParams(first.ID(), "kitchen.echo", m{})))
	must(t, err)
	defer stop()
	<-began
	second := r.node(sim.Options{Identity: me}, false)
	_, err = op.AwaitAnswer(op.ctx, answers)
	e, _ := err.(*wire.Error)
	if said, sent, _ := wire.NodeErrorOf(e); said.Code != wire.NodeDisconnected || !sent {
		t.Errorf("%v", err)
	}
	if _, err := first.SendEvent(t.Context(), "anything", m{}); err == nil ||
		err.Error() != wire.PairingReplaced.Error() {
		t.Errorf("the first connection is told %v", err)
	}
	call[invoked](op, wire.MethodNodeInvoke, invokeParams(second.ID(), "kitchen.echo", m{}))
	first.Close()
	call[invoked](op, wire.MethodNodeInvoke, invokeParams(second.ID(), "kitchen.echo", m{}))
}
