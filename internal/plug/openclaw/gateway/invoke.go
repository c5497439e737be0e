package gateway

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"patchbay/internal/board"
	"patchbay/internal/plug/openclaw/wire"
	"patchbay/internal/store"
	"patchbay/internal/tool"
)

// invoke carries out node.invoke: the payload of the answer, or why not. The same call
// with the same key is carried out once.
func (g *Gateway) invoke(ctx context.Context, c *conn, params []byte) ([]byte, *wire.Error) {
	p, e := wire.ParseInvoke(params)
	if e != nil {
		return nil, e
	}
	print := callPrint(&p)
	mine, before, e := g.repeats.begin(ctx, c.person.ID, p.IdempotencyKey, print)
	switch {
	case e != nil:
		return nil, e
	case before != nil:
		g.metrics.repeated.Inc()
		return before.payload, before.err
	}
	payload, sent, e := g.invoked(ctx, c, &p)
	g.repeats.end(mine, payload, e, sent)
	if e != nil {
		g.metrics.invokes.WithLabelValues(outcomeOf(e)).Inc()
		return nil, e
	}
	g.metrics.invoked[1].Inc()
	return payload, nil
}

// callPrint tells calls apart that come with the same key.
func callPrint(p *wire.Invoke) [sha256.Size]byte {
	b := newFrame()
	defer b.free()
	b.b = append(b.b, p.NodeID...)
	b.b = append(append(b.b, 0), p.Command...)
	b.b = append(append(b.b, 0), p.SessionKey...)
	b.b = append(append(b.b, 0), p.Params...)
	return sha256.Sum256(b.b[headRoom:])
}

// outcomeOf is an error in metrics.
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

// invoked finds the node and calls it. Sent says whether it may have heard of the call.
func (g *Gateway) invoked(ctx context.Context, c *conn, p *wire.Invoke) (payload []byte, sent bool, e *wire.Error) {
	if n := g.node(p.NodeID); n != nil && c.sees(n.owner) {
		return g.invokeNode(ctx, c, n, p)
	}
	if o, ok := g.outlet(c, p.NodeID, false); ok {
		return g.invokeOutlet(ctx, c, o, p)
	}
	return g.invokeAway(ctx, c, p)
}

// invokeNode calls a node that is connected here.
func (g *Gateway) invokeNode(ctx context.Context, c *conn, n *node, p *wire.Invoke) ([]byte, bool, *wire.Error) {
	if e := n.refuse(p.Command, c.scopes); e != nil {
		return nil, false, e
	}
	inv := &invocation{command: commandOf(p)}
	call := tool.Call{Args: argsOf(p.Params)}
	// It counts as connected since its greeting, and its commands have names a moment later.
	select {
	case <-n.arrived:
	case <-ctx.Done():
		return nil, false, wire.NotConnected
	}
	name, ok := n.fullName(p.Command)
	if !ok {
		return nil, false, wire.PairingChanged
	}
	access := c.caller(n.owner)
	access.Rules = c.nodeView
	_, err := g.Hub.Call(context.WithValue(ctx, invocationKey{}, inv), access, name, &call)
	switch {
	case inv.err != nil:
		return nil, inv.reached, inv.err
	case err != nil:
		return nil, inv.reached, wireError(err)
	}
	return inv.result.AppendInvoked(nil, p.Command), true, nil
}

// invokeAway calls a node that is connected to another instance, or says why there is
// none to call.
func (g *Gateway) invokeAway(ctx context.Context, c *conn, p *wire.Invoke) ([]byte, bool, *wire.Error) {
	peer, err := g.Store.Peers.ByID(ctx, p.NodeID)
	switch {
	case errors.Is(err, store.ErrNotFound):
		if o, ok := g.outlet(c, p.NodeID, true); ok {
			return g.invokeOutlet(ctx, c, o, p)
		}
		return nil, false, wire.PairingChanged
	case err == nil && (!c.sees(peer.Owner) || peer.SurfaceAt.IsZero()):
		return nil, false, wire.PairingChanged
	case err != nil:
		return nil, false, g.trouble(err)
	}
	surface := surfaceOf(peer)
	if e := g.policy.Refuse(&surface, p.Command, c.scopes); e != nil {
		return nil, false, e
	}
	o, held, tools := g.Hub.Plugged(OutletOf(peer.ID))
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
	access.Rules = c.nodeView
	cmd := commandOf(p)
	call := tool.Call{Args: argsOf(p.Params), Meta: encoded(map[string]command{metaInvoke: cmd})}
	if p.Timeout() > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, p.Timeout()+time.Second) // the other instance knows it more exactly
		defer cancel()
	}
	res, err := g.Hub.Call(ctx, access, name, &call)
	if err != nil {
		if errors.Is(context.Cause(ctx), context.DeadlineExceeded) {
			return nil, true, timedOut
		}
		return nil, tool.AsError(err).Code != tool.Offline, wireError(err)
	}
	var f far
	if json.Unmarshal(res.Structured, &f) != nil {
		return nil, true, wire.NodeFailed(nil)
	}
	r := wire.InvokeResult{NodeID: p.NodeID, Payload: f.Payload, PayloadJSON: f.PayloadJSON}
	return r.AppendInvoked(nil, p.Command), true, nil
}

// commandOf is what a node is to do.
func commandOf(p *wire.Invoke) command {
	return command{Name: p.Command, Params: p.Params, Timeout: p.Timeout(), Key: p.IdempotencyKey, Session: p.SessionKey}
}

// argsOf are the parameters as arguments of a tool, as the audit trail knows them.
func argsOf(params json.RawMessage) json.RawMessage {
	if len(params) > 0 && params[0] == '{' {
		return params
	}
	return nil
}

// fullName is how the board calls a command of the node.
func (n *node) fullName(command string) (string, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, t := range n.offered {
		if t.Tool.Name == command {
			return t.Name, true
		}
	}
	return "", false
}

// surfaceOf is what is kept of what a node can do.
func surfaceOf(p store.Peer) wire.Surface {
	return wire.Surface{Platform: p.Platform, Family: p.Family, Caps: p.DeclaredCaps, Declared: p.DeclaredCommands, Approved: p.Commands}
}

// trouble is our own fault.
func (g *Gateway) trouble(err error) *wire.Error {
	if g.ctx.Err() != nil {
		return stopping
	}
	g.Logger.Error("openclaw: a request failed", "error", err)
	return &wire.Error{Code: wire.Unavailable, Message: "the server failed; try again later", Retryable: true}
}

// refusedBy is an error of the board, or of another provider than a node, as operators
// are told it.
func refusedBy(e *tool.Error) *wire.Error {
	code := strings.ToUpper(string(e.Code))
	sent := true
	switch e.Code {
	case tool.Offline:
		return wire.NotConnected
	case tool.Unknown:
		code, sent = "-32601", false
	case tool.BadArgs:
		code, sent = "-32602", false
	case tool.Denied, tool.TooMany, tool.Busy, tool.Stopping:
		sent = false
	case tool.TimedOut:
		return timedOut
	case tool.Lost:
		code = wire.NodeDisconnected
	}
	if e.RPC != 0 {
		code = encodedNumber(e.RPC)
	}
	failed := wire.NodeFailed(&wire.NodeError{Code: code, Message: e.Told})
	if !sent {
		failed.Details = encoded(struct {
			Node wire.NodeError `json:"nodeError"`
			Sent bool           `json:"nodeCommandDispatched"`
		}{wire.NodeError{Code: code, Message: e.Told}, false})
		failed.Retryable = e.Code == tool.TooMany || e.Code == tool.Busy || e.Code == tool.Stopping
	}
	return failed
}

func encodedNumber(n int) string { return string(encoded(n)) }

// viewOf is what an operator may use of one outlet, by the tools' own names.
func (g *Gateway) viewOf(c *conn, o board.Outlet) ([]*board.Offered, *wire.Error) {
	v, err := c.view(o.Owner)
	if err != nil {
		return nil, wire.Invalid("the rules of this key cannot be read")
	}
	var tools []*board.Offered
	for _, t := range v.Tools {
		if t.Outlet().ID == o.ID {
			tools = append(tools, t)
		}
	}
	return tools, nil
}
