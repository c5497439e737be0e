package gateway

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"patchbay/internal/account"
	"patchbay/internal/plug/openclaw/wire"
	"patchbay/internal/store"
)

// What operators do about devices and nodes. Whoever may decide about a person's
// devices (operator.pairing) sees only that person's. OpenClaw wants operator.admin
// of who lets a node run programs, and its command line asks for that: here it is
// enough to have asked, since what can be lost is one's own. A program that was made
// to ask for no more than operator.pairing does not get there by mistake.

// deviceRequest is a device that wants in, as operators see it.
func deviceRequest(r store.PeerRequest, known bool) wire.DeviceRequest {
	d := wire.DeviceRequest{
		RequestID: r.ID, DeviceID: r.Peer, PublicKey: r.Ask.PublicKey, DisplayName: r.Ask.Name, Platform: r.Ask.Platform, DeviceFamily: r.Ask.Family,
		ClientID: r.Ask.ClientID, ClientMode: r.Ask.ClientMode, Roles: r.Ask.Roles, Scopes: r.Ask.Scopes, RemoteIP: r.Address, Repair: known, TS: millis(r.Created),
	}
	if len(d.Roles) > 0 {
		d.Role = d.Roles[0]
	}
	return d
}

// nodeRequest is what a node wants to do, as operators see it.
func nodeRequest(r store.PeerRequest, silent bool) wire.NodeRequest {
	n := wire.NodeRequest{
		RequestID: r.ID, NodeID: r.Peer, ClientID: r.Ask.ClientID, ClientMode: r.Ask.ClientMode, DisplayName: r.Ask.Name, Platform: r.Ask.Platform,
		Version: r.Ask.Version, DeviceFamily: r.Ask.Family, Caps: r.Ask.Caps, Commands: r.Ask.Commands, Scopes: wire.ApproveScopes(r.Ask.Commands),
		RemoteIP: r.Address, Silent: silent, TS: millis(r.Created),
	}
	if n.Caps == nil {
		n.Caps = []string{}
	}
	if n.Commands == nil {
		n.Commands = []string{}
	}
	return n
}

func (g *Gateway) nodePairs(ctx context.Context, c *conn, _ []byte) (any, *wire.Error) {
	rows, err := g.pairedRows(ctx, c)
	if err != nil {
		return nil, g.trouble(err)
	}
	requests, err := g.waiting(ctx, c, store.RequestSurface)
	if err != nil {
		return nil, g.trouble(err)
	}
	out := wire.NodePairs{Pending: []wire.NodeRequest{}, Paired: []wire.Node{}}
	for _, r := range requests {
		p, err := g.Store.Peers.ByID(ctx, r.Peer)
		if err != nil {
			continue // it was removed just now
		}
		out.Pending = append(out.Pending, nodeRequest(r, p.Via == store.ViaSilent))
	}
	for _, row := range rows {
		if row.ApprovedAtMS != 0 {
			out.Paired = append(out.Paired, row)
		}
	}
	return out, nil
}

func (g *Gateway) devicePairs(ctx context.Context, c *conn, _ []byte) (any, *wire.Error) {
	peers, err := g.peers(ctx, c, "")
	if err != nil {
		return nil, g.trouble(err)
	}
	requests, err := g.waiting(ctx, c, store.RequestDevice)
	if err != nil {
		return nil, g.trouble(err)
	}
	out := wire.DevicePairs{Pending: []wire.DeviceRequest{}, Paired: []wire.PairedDevice{}}
	known := map[string]bool{}
	for _, p := range peers {
		known[p.ID] = true
		d, e := g.pairedDevice(ctx, p)
		if e != nil {
			return nil, e
		}
		out.Paired = append(out.Paired, d)
	}
	for _, r := range requests {
		out.Pending = append(out.Pending, deviceRequest(r, known[r.Peer]))
	}
	return out, nil
}

// pairedDevice is a peer as operators see it.
func (g *Gateway) pairedDevice(ctx context.Context, p store.Peer) (wire.PairedDevice, *wire.Error) {
	d := wire.PairedDevice{
		DeviceID: p.ID, PublicKey: p.PublicKey, DisplayName: p.Name, Platform: p.Platform, DeviceFamily: p.Family, ClientID: p.ClientID, ClientMode: p.ClientMode,
		Roles: p.Roles, Scopes: p.Scopes, RemoteIP: p.Address, ApprovedVia: p.Via, CreatedAtMS: millis(p.Created), ApprovedAtMS: millis(p.Approved),
	}
	if len(p.Roles) > 0 {
		d.Role = p.Roles[0]
	}
	tokens, err := g.Store.Peers.Tokens(ctx, p.ID)
	if err != nil {
		return d, g.trouble(err)
	}
	for _, t := range tokens {
		d.Tokens = append(d.Tokens, wire.DeviceToken{Role: t.Role, Scopes: t.Scopes, CreatedAtMS: millis(t.Created)})
	}
	if d.Connected = g.Connected(p.ID); !d.Connected {
		_, d.Connected, _ = g.Hub.Plugged(OutletOf(p.ID))
	}
	return d, nil
}

// request finds a request that an operator may decide about.
func (g *Gateway) request(ctx context.Context, c *conn, kind, id string) (store.PeerRequest, *wire.Error) {
	r, err := g.Store.Peers.RequestByID(ctx, id, time.Now())
	switch {
	case errors.Is(err, store.ErrNotFound) || err == nil && (r.Kind != kind || !c.sees(r.Owner)):
		return r, wire.UnknownRequest
	case err != nil:
		return r, g.trouble(err)
	}
	return r, nil
}

// has says whether an operator may use a scope on what belongs to a person: it has it,
// or it has asked for operator.admin, and that person is its own.
func (c *conn) has(scope, owner string) bool {
	if c.may(scope) {
		return true
	}
	return scope == wire.ScopeAdmin && owner == c.person.ID && slices.Contains(c.asked, wire.ScopeAdmin)
}

// approve grants a request.
func (g *Gateway) approve(ctx context.Context, c *conn, r store.PeerRequest) (store.Peer, *wire.Error) {
	p, r, err := g.Store.Peers.Approve(ctx, store.PeerDecision{ID: r.ID, Owner: r.Owner, At: time.Now()})
	switch {
	case errors.Is(err, store.ErrNotFound), errors.Is(err, store.ErrOccupied):
		return p, wire.UnknownRequest
	case errors.Is(err, store.ErrFull):
		return p, &wire.Error{Code: wire.Unavailable, Message: tooMany.Message}
	case err != nil:
		return p, g.trouble(err)
	}
	g.metrics.pairings.WithLabelValues(r.Kind, wire.DecisionApproved).Inc()
	g.Logger.Info("openclaw: approved", "kind", r.Kind, "device", r.Peer, "owner", r.Owner, "by", c.person.ID, "commands", r.Ask.Commands, "scopes", r.Ask.Scopes)
	g.refresh(p)
	g.resolved(r, wire.DecisionApproved)
	return p, nil
}

// reject takes a request back.
func (g *Gateway) reject(ctx context.Context, c *conn, kind, id string) (store.PeerRequest, *wire.Error) {
	r, e := g.request(ctx, c, kind, id)
	if e != nil {
		return r, e
	}
	r, err := g.Store.Peers.Reject(ctx, store.PeerDecision{ID: r.ID, Owner: r.Owner, At: time.Now()})
	switch {
	case errors.Is(err, store.ErrNotFound):
		return r, wire.UnknownRequest
	case err != nil:
		return r, g.trouble(err)
	}
	g.metrics.pairings.WithLabelValues(r.Kind, wire.DecisionRejected).Inc()
	if p, err := g.Store.Peers.ByID(ctx, r.Peer); err == nil {
		g.refresh(p)
	}
	g.resolved(r, wire.DecisionRejected)
	return r, nil
}

func (g *Gateway) nodeApprove(ctx context.Context, c *conn, params []byte) (any, *wire.Error) {
	r, e := g.request(ctx, c, store.RequestSurface, field(params, "requestId"))
	if e != nil {
		return nil, e
	}
	for _, scope := range wire.ApproveScopes(r.Ask.Commands) {
		if !c.has(scope, r.Owner) {
			return nil, wire.MissingScope(scope)
		}
	}
	p, e := g.approve(ctx, c, r)
	if e != nil {
		return nil, e
	}
	s := surfaceOf(p)
	return wire.ApprovedNode{RequestID: r.ID, Node: wire.PairedNode{
		NodeID: p.ID, ClientID: p.ClientID, ClientMode: p.ClientMode, DisplayName: p.Name, Platform: p.Platform, Version: p.Version, DeviceFamily: p.Family,
		Caps: p.Caps, Commands: g.policy.Effective(&s), CreatedAtMS: millis(p.Created), ApprovedAtMS: millis(p.SurfaceAt), ConnectedAtMS: millis(p.Connected),
		LastSeenAtMS: millis(p.Seen), LastSeenReason: p.SeenReason,
	}}, nil
}

func (g *Gateway) nodeReject(ctx context.Context, c *conn, params []byte) (any, *wire.Error) {
	r, e := g.reject(ctx, c, store.RequestSurface, field(params, "requestId"))
	if e != nil {
		return nil, e
	}
	return map[string]string{"requestId": r.ID, "nodeId": r.Peer}, nil
}

func (g *Gateway) deviceApprove(ctx context.Context, c *conn, params []byte) (any, *wire.Error) {
	r, e := g.request(ctx, c, store.RequestDevice, field(params, "requestId"))
	if e != nil {
		return nil, e
	}
	// A node may be told to do anything, so OpenClaw wants an administrator for it, and
	// its command line asks again as one.
	need := r.Ask.Scopes
	if slices.Contains(r.Ask.Roles, wire.RoleNode) {
		need = append(slices.Clone(need), wire.ScopeAdmin)
	}
	for _, scope := range need {
		if !c.has(scope, r.Owner) && !account.Covers(c.scopes, []string{scope}) {
			return nil, wire.ApprovalDenied
		}
	}
	p, e := g.approve(ctx, c, r)
	if e != nil {
		return nil, e
	}
	d, e := g.pairedDevice(ctx, p)
	if e != nil {
		return nil, e
	}
	return wire.ApprovedDevice{RequestID: r.ID, Device: d}, nil
}

func (g *Gateway) deviceReject(ctx context.Context, c *conn, params []byte) (any, *wire.Error) {
	r, e := g.reject(ctx, c, store.RequestDevice, field(params, "requestId"))
	if e != nil {
		return nil, e
	}
	return map[string]string{"requestId": r.ID, "deviceId": r.Peer}, nil
}

// peer finds a peer that an operator may change.
func (g *Gateway) peer(ctx context.Context, c *conn, id string) (store.Peer, *wire.Error) {
	p, err := g.Store.Peers.ByID(ctx, id)
	switch {
	case errors.Is(err, store.ErrNotFound) || err == nil && !c.sees(p.Owner):
		return p, wire.UnknownNode
	case err != nil:
		return p, g.trouble(err)
	}
	return p, nil
}

// remove forgets a peer, and ends its connections.
func (g *Gateway) remove(ctx context.Context, c *conn, id string) *wire.Error {
	p, e := g.peer(ctx, c, id)
	if e != nil {
		return e
	}
	if err := g.Store.Peers.Remove(ctx, p.ID); errors.Is(err, store.ErrNotFound) {
		return wire.UnknownNode
	} else if err != nil {
		return g.trouble(err)
	}
	g.Logger.Info("openclaw: removed", "device", p.ID, "owner", p.Owner, "by", c.person.ID)
	g.forget(p.ID)
	g.tell(told{Peer: p.ID})
	return nil
}

func (g *Gateway) nodeRemove(ctx context.Context, c *conn, params []byte) (any, *wire.Error) {
	id := field(params, "nodeId")
	if e := g.remove(ctx, c, id); e != nil {
		return nil, e
	}
	return map[string]string{"nodeId": id}, nil
}

func (g *Gateway) deviceRemove(ctx context.Context, c *conn, params []byte) (any, *wire.Error) {
	id := field(params, "deviceId")
	if e := g.remove(ctx, c, id); e == wire.UnknownNode {
		return nil, wire.Invalid("unknown deviceId")
	} else if e != nil {
		return nil, e
	}
	return map[string]string{"deviceId": id}, nil
}

func (g *Gateway) nodeRename(ctx context.Context, c *conn, params []byte) (any, *wire.Error) {
	id, name := field(params, "nodeId"), strings.TrimSpace(field(params, "displayName"))
	p, e := g.peer(ctx, c, id)
	if e != nil {
		return nil, e
	}
	if err := account.CheckName(name); err != nil {
		return nil, wire.Invalid(err.Error())
	}
	if err := g.Accounts.RenamePeer(ctx, p.ID, name); errors.Is(err, store.ErrNotFound) {
		return nil, wire.UnknownNode
	} else if err != nil {
		return nil, g.trouble(err)
	}
	p.Name = name
	g.refresh(p)
	return map[string]string{"nodeId": p.ID, "displayName": name}, nil
}

// expel closes the connections of a device on this instance.
func (g *Gateway) expel(device string, why *wire.Error) {
	for _, c := range g.everybody() {
		if c.device == device {
			if c.node != nil {
				c.node.retire()
			}
			c.bye(why)
		}
	}
}

// forget takes out a peer that was removed.
func (g *Gateway) forget(device string) {
	g.expel(device, wire.Removed)
	g.slots.forget(device)
}

// refresh takes over what has changed about a peer, here and on other instances.
func (g *Gateway) refresh(p store.Peer) {
	g.apply(p)
	g.tell(told{Peer: p.ID})
}

// apply takes over what has changed about a peer that may be connected here.
func (g *Gateway) apply(p store.Peer) {
	if n := g.node(p.ID); n != nil {
		n.approve(p)
		n.offer()
	} else {
		g.settle(p)
	}
	for _, c := range g.everybody() {
		if c.device == p.ID && (p.Owner != c.person.ID || c.secret != 0 && c.secret != p.SecretVersion) {
			c.bye(authChanged)
		}
	}
}

// resolved tells everybody of a decision.
func (g *Gateway) resolved(r store.PeerRequest, decision string) {
	d := wire.Decision{RequestID: r.ID, Decision: decision, TS: time.Now().UnixMilli()}
	event := wire.EventDeviceResolved
	if d.DeviceID = r.Peer; r.Kind == store.RequestSurface {
		d.DeviceID, d.NodeID, event = "", r.Peer, wire.EventNodeResolved
	}
	g.decided(r.Owner, event, d)
}

// decided tells operators, and the node, of a decision.
func (g *Gateway) decided(owner, event string, d wire.Decision) {
	g.tell(told{Owner: owner, Scope: wire.ScopePairing, Event: event, Payload: encoded(d), Node: d.NodeID})
}
