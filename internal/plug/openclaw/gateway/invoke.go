package gateway

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"patchbay/internal/hub"
	"patchbay/internal/plug/openclaw/mcpnode"
	"patchbay/internal/plug/openclaw/wire"
	"patchbay/internal/store"
	"patchbay/internal/tool"
)

// invoke serves node.invoke and returns the payload or the error. Calls with the same
// idempotency key are executed once.
func (g *Gateway) invoke(ctx context.Context, c *conn, params []byte) ([]byte, *wire.Error) {
	p, e := wire.ParseInvoke(params)
	if e != nil {
		return nil, e
	}
	if p.Command == wire.CommandRun {
		if e := checkRun(&p); e != nil {
			g.metrics.invokes.WithLabelValues(outcomeOf(e)).Inc()
			return nil, e
		}
	}
	fingerprint := callFingerprint(&p)
	mine, before, e := g.invokeCache.begin(ctx, c.person.ID, p.IdempotencyKey, fingerprint)
	switch {
	case e != nil:
		return nil, e
	case before != nil:
		g.metrics.repeated.Inc()
		return before.payload, before.err
	}
	payload, sent, e := g.dispatchInvoke(ctx, c, &p)
	g.invokeCache.end(mine, payload, e, sent)
	if e != nil {
		g.metrics.invokes.WithLabelValues(outcomeOf(e)).Inc()
		return nil, e
	}
	g.metrics.invoked[1].Inc()
	return payload, nil
}

// callFingerprint distinguishes calls that share an idempotency key.
func callFingerprint(p *wire.Invoke) [sha256.Size]byte {
	b := newFrame()
	defer b.free()
	b.b = append(b.b, p.NodeID...)
	b.b = append(append(b.b, 0), p.Command...)
	b.b = append(append(b.b, 0), p.SessionKey...)
	b.b = append(append(b.b, 0), p.Params...)
	return sha256.Sum256(b.b[headRoom:])
}

// outcomeOf returns the metrics label of an error.
func outcomeOf(e *wire.Error) string {
	said, _, ok := wire.NodeErrorOf(e)
	switch {
	case ok && (said.Code == wire.NodeTimeout || said.Code == wire.NodeDisconnected || said.Code == wire.NodeNotReady):
		return strings.ToLower(said.Code)
	case ok:
		return "node_error"
	case e.Detail() != "":
		return strings.ToLower(e.Detail())
	}
	return strings.ToLower(string(e.Code))
}

// dispatchInvoke finds the node and calls it. sent reports whether the node may have received
// the call.
func (g *Gateway) dispatchInvoke(ctx context.Context, c *conn,
	p *wire.Invoke) (payload []byte, sent bool, e *wire.Error) {
	if n := g.node(p.NodeID); n != nil && c.canSee(n.owner) {
		return g.invokeNode(ctx, c, n, p)
	}
	if o, ok := g.findVirtual(c, p.NodeID, false); ok {
		return g.invokeVirtual(ctx, c, o, p)
	}
	return g.invokeRemote(ctx, c, p)
}

// invokeNode calls a node that is connected to this instance.
func (g *Gateway) invokeNode(ctx context.Context, c *conn, n *node, p *wire.Invoke) ([]byte, bool, *wire.Error) {
	if e := n.refuse(p.Command, c.scopes, p.ByMethod); e != nil {
		return nil, false, e
	}
	inv := &invocation{command: commandOf(p)}
	call := tool.Call{Args: argsOf(p.Params)}
	// The node counts as connected after its hello response; its commands are registered a
	// moment later.
	select {
	case <-n.registered:
	case <-ctx.Done():
		return nil, false, wire.NotConnected
	}
	name, ok := n.fullName(p.Command)
	if !ok {
		return nil, false, wire.PairingChanged
	}
	access := c.caller(n.owner)
	access.Rules, access.Unchecked = c.nodeRules, true
	_, err := g.Hub.Call(context.WithValue(ctx, invocationKey{}, inv), access, name, &call)
	switch {
	case inv.err != nil:
		return nil, inv.mayHaveRun, inv.err
	case err != nil:
		return nil, inv.mayHaveRun, wireError(err)
	}
	return inv.result.AppendInvoked(nil, p.Command), true, nil
}

// invokeRemote calls a node that is connected to another instance, or returns why it cannot be
// called.
func (g *Gateway) invokeRemote(ctx context.Context, c *conn, p *wire.Invoke) ([]byte, bool, *wire.Error) {
	peer, err := g.Store.Peers.ByID(ctx, p.NodeID)
	switch {
	case errors.Is(err, store.ErrNotFound):
		if o, ok := g.findVirtual(c, p.NodeID, true); ok {
			return g.invokeVirtual(ctx, c, o, p)
		}
		return nil, false, wire.PairingChanged
	case err == nil && (!c.canSee(peer.Owner) || peer.SurfaceAt.IsZero()):
		return nil, false, wire.PairingChanged
	case err != nil:
		return nil, false, g.internalError(err)
	}
	surface := surfaceOf(peer)
	e := g.policy.Refuse(&surface, p.Command, c.scopes)
	if p.ByMethod && isExecPolicy(p.Command) {
		e = g.policy.RefuseExecPolicy(&surface, p.Command)
	}
	if e != nil {
		return nil, false, e
	}
	o, held, tools := g.Hub.FindProvider(ProviderID(peer.ID))
	if !held || o.Kind != KindNode {
		return nil, false, wire.NotConnected
	}
	name := ""
	for _, t := range tools {
		if t.Tool.Name == p.Command {
			name = t.Name
		}
	}
	if name == "" {
		return nil, false, wire.NotConnected
	}
	access := c.caller(peer.Owner)
	access.Rules, access.Unchecked = c.nodeRules, true
	cmd := commandOf(p)
	call := tool.Call{Args: argsOf(p.Params), Meta: encoded(map[string]command{metaInvoke: cmd})}
	if p.Timeout() > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, p.Timeout()+time.Second) // the other instance enforces it more exactly
		defer cancel()
	}
	res, err := g.Hub.Call(ctx, access, name, &call)
	if err != nil {
		if errors.Is(context.Cause(ctx), context.DeadlineExceeded) {
			return nil, true, errTimedOut
		}
		return nil, tool.AsError(err).Code != tool.Offline, wireError(err)
	}
	var f remoteResult
	if json.Unmarshal(res.Structured, &f) != nil {
		return nil, true, wire.NodeFailed(nil)
	}
	r := wire.InvokeResult{NodeID: p.NodeID, Payload: f.Payload, PayloadJSON: f.PayloadJSON}
	return r.AppendInvoked(nil, p.Command), true, nil
}

// commandOf returns the command for the node.
func commandOf(p *wire.Invoke) command {
	return command{Name: p.Command, Params: p.Params, Timeout: p.Timeout(), Key: p.IdempotencyKey,
		Session: p.SessionKey}
}

// argsOf returns the parameters as tool arguments, as they appear in the audit trail.
func argsOf(params json.RawMessage) json.RawMessage {
	if len(params) > 0 && params[0] == '{' {
		return params
	}
	return nil
}

// fullName returns the tool name of a node's command in the hub.
func (n *node) fullName(command string) (string, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, t := range n.registeredTools {
		if t.Tool.Name == command {
			return t.Name, true
		}
	}
	return "", false
}

// surfaceOf returns the stored surface of a node.
func surfaceOf(p store.Peer) wire.Surface {
	return wire.Surface{Platform: p.Platform, Family: p.Family, Caps: p.DeclaredCaps, Declared: p.DeclaredCommands,
		Approved: p.Commands}
}

// internalError logs an internal error and returns the response.
func (g *Gateway) internalError(err error) *wire.Error {
	if g.ctx.Err() != nil {
		return errStopping
	}
	g.Logger.Error("openclaw: a request failed", "error", err)
	return &wire.Error{Code: wire.Unavailable, Message: "the server failed; try again later", Retryable: true}
}

// fromToolError converts an error of the hub about a node for operators.
func fromToolError(e *tool.Error) *wire.Error {
	switch e.Code {
	case tool.Offline:
		return wire.NotConnected
	case tool.TimedOut:
		return errTimedOut
	}
	f := mcpnode.FailureOf(e)
	if e.Code == tool.Lost {
		f.Code = wire.NodeDisconnected
	}
	return nodeFailure(f)
}

// nodeFailure returns the response for a command that was not carried out.
func nodeFailure(f *mcpnode.Failure) *wire.Error {
	if !f.Sent {
		return wire.NodeUnreached(&f.NodeError, f.Retryable)
	}
	return wire.NodeFailed(&f.NodeError)
}

// visibleTools returns the tools of one provider that an operator may use, with their own names.
func (g *Gateway) visibleTools(c *conn, o hub.ProviderRef) ([]*hub.RegisteredTool, *wire.Error) {
	v, err := c.view(o.Owner)
	if err != nil {
		return nil, wire.Invalid("the rules of this key cannot be read")
	}
	var tools []*hub.RegisteredTool
	for _, t := range v.Tools {
		if t.Provider().ID == o.ID {
			tools = append(tools, t)
		}
	}
	return tools, nil
}
