package gateway

import (
	"context"
	"errors"
	"slices"
	"time"

	"patchbay/internal/account"
	"patchbay/internal/plug/openclaw/wire"
	"patchbay/internal/store"
)

// Methods of operators about devices and nodes. An operator with operator.pairing sees only the
// devices of its own person. OpenClaw requires operator.admin to approve a node that runs
// programs, and its command line requests that scope. Here the request for the scope suffices,
// because operators only put their own devices at risk. A program that was made to request only
// operator.pairing does not get there by mistake.

// deviceRequest returns a device's pairing request in the operators' format.
func deviceRequest(r store.PeerRequest, known bool) wire.DeviceRequest {
	d := wire.DeviceRequest{
		RequestID: r.ID, DeviceID: r.Peer, PublicKey: r.Ask.PublicKey, DisplayName: r.Ask.Name,
		Platform: r.Ask.Platform, DeviceFamily: r.Ask.Family,
		ClientID: r.Ask.ClientID, ClientMode: r.Ask.ClientMode, Roles: r.Ask.Roles, Scopes: r.Ask.Scopes,
		RemoteIP: r.Address, Repair: known, TS: millis(r.Created),
	}
	if len(d.Roles) > 0 {
		d.Role = d.Roles[0]
	}
	return d
}

// nodeRequest returns a node's approval request in the operators' format.
func nodeRequest(r store.PeerRequest, silent bool) wire.NodeRequest {
	n := wire.NodeRequest{
		RequestID: r.ID, NodeID: r.Peer, ClientID: r.Ask.ClientID, ClientMode: r.Ask.ClientMode,
		DisplayName: r.Ask.Name, Platform: r.Ask.Platform,
		Version: r.Ask.Version, DeviceFamily: r.Ask.Family, Caps: r.Ask.Caps, Commands: r.Ask.Commands,
		Scopes:   wire.ApproveScopes(r.Ask.Commands),
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
		return nil, g.internalError(err)
	}
	requests, err := g.pendingRequests(ctx, c, store.RequestSurface)
	if err != nil {
		return nil, g.internalError(err)
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
		return nil, g.internalError(err)
	}
	requests, err := g.pendingRequests(ctx, c, store.RequestDevice)
	if err != nil {
		return nil, g.internalError(err)
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

// pairedDevice returns a peer in the operators' format.
func (g *Gateway) pairedDevice(ctx context.Context, p store.Peer) (wire.PairedDevice, *wire.Error) {
	d := wire.PairedDevice{
		DeviceID: p.ID, PublicKey: p.PublicKey, DisplayName: p.Name, Platform: p.Platform, DeviceFamily: p.Family,
		ClientID: p.ClientID, ClientMode: p.ClientMode,
		Roles: p.Roles, Scopes: p.Scopes, RemoteIP: p.Address, ApprovedVia: p.Via, CreatedAtMS: millis(p.Created),
		ApprovedAtMS: millis(p.Approved),
	}
	if len(p.Roles) > 0 {
		d.Role = p.Roles[0]
	}
	tokens, err := g.Store.Peers.Tokens(ctx, p.ID)
	if err != nil {
		return d, g.internalError(err)
	}
	for _, t := range tokens {
		d.Tokens = append(d.Tokens, wire.DeviceToken{Role: t.Role, Scopes: t.Scopes, CreatedAtMS: millis(t.Created),
			LastUsedMS: millis(t.Used), RevokedAtMS: millis(t.Revoked)})
	}
	if d.Connected = g.IsConnected(p.ID); !d.Connected {
		_, d.Connected, _ = g.Hub.FindProvider(ProviderID(p.ID))
	}
	return d, nil
}

// request returns a request that the operator may decide on.
func (g *Gateway) request(ctx context.Context, c *conn, kind, id string) (store.PeerRequest, *wire.Error) {
	r, err := g.Store.Peers.RequestByID(ctx, id, time.Now())
	switch {
	case errors.Is(err, store.ErrNotFound) || err == nil && (r.Kind != kind || !c.canSee(r.Owner)):
		return r, wire.UnknownRequest
	case err != nil:
		return r, g.internalError(err)
	}
	return r, nil
}

// hasScopeFor reports whether an operator may use a scope on what belongs to a person: it has
// the scope, or it has requested operator.admin and the person is its own.
func (c *conn) hasScopeFor(scope, owner string) bool {
	if c.hasScope(scope) {
		return true
	}
	return scope == wire.ScopeAdmin && owner == c.person.ID && slices.Contains(c.requestedScopes, wire.ScopeAdmin)
}

// approve approves a request.
func (g *Gateway) approve(ctx context.Context, c *conn, r store.PeerRequest) (store.Peer, *wire.Error) {
	p, r, err := g.Store.Peers.Approve(ctx, store.PeerDecision{ID: r.ID, Owner: r.Owner, At: time.Now()})
	switch {
	case errors.Is(err, store.ErrNotFound), errors.Is(err, store.ErrOccupied):
		return p, wire.UnknownRequest
	case errors.Is(err, store.ErrFull):
		return p, &wire.Error{Code: wire.Unavailable, Message: errTooManyDevices.Message}
	case err != nil:
		return p, g.internalError(err)
	}
	g.metrics.pairings.WithLabelValues(r.Kind, wire.DecisionApproved).Inc()
	g.Logger.Info("openclaw: approved", "kind", r.Kind, "device", r.Peer, "owner", r.Owner, "by", c.person.ID,
		"commands", r.Ask.Commands, "scopes", r.Ask.Scopes)
	g.announcePeer(p)
	g.announceResolved(r, wire.DecisionApproved)
	return p, nil
}

// reject rejects a request.
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
		return r, g.internalError(err)
	}
	g.metrics.pairings.WithLabelValues(r.Kind, wire.DecisionRejected).Inc()
	if p, err := g.Store.Peers.ByID(ctx, r.Peer); err == nil {
		g.announcePeer(p)
	}
	g.announceResolved(r, wire.DecisionRejected)
	return r, nil
}

func (g *Gateway) nodeApprove(ctx context.Context, c *conn, params []byte) (any, *wire.Error) {
	r, e := g.request(ctx, c, store.RequestSurface, field(params, "requestId"))
	if e != nil {
		return nil, e
	}
	for _, scope := range wire.ApproveScopes(r.Ask.Commands) {
		if !c.hasScopeFor(scope, r.Owner) {
			return nil, wire.MissingScope(scope)
		}
	}
	p, e := g.approve(ctx, c, r)
	if e != nil {
		return nil, e
	}
	s := surfaceOf(p)
	return wire.ApprovedNode{RequestID: r.ID, Node: wire.PairedNode{
		NodeID: p.ID, ClientID: p.ClientID, ClientMode: p.ClientMode, DisplayName: p.Name, Platform: p.Platform,
		Version: p.Version, DeviceFamily: p.Family,
		Caps: p.Caps, Commands: g.policy.Effective(&s), CreatedAtMS: millis(p.Created),
		ApprovedAtMS: millis(p.SurfaceAt), ConnectedAtMS: millis(p.Connected),
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
	// A node may be able to run anything, so OpenClaw requires operator.admin, and its command line
	// retries with it (src/gateway/server-methods/devices.ts, src/cli/devices-cli.runtime.ts).
	need := r.Ask.Scopes
	if slices.Contains(r.Ask.Roles, wire.RoleNode) {
		need = append(slices.Clone(need), wire.ScopeAdmin)
	}
	for _, scope := range need {
		if !c.hasScopeFor(scope, r.Owner) && !account.Covers(c.scopes, []string{scope}) {
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

// peer returns a peer that the operator may change.
func (g *Gateway) peer(ctx context.Context, c *conn, id string) (store.Peer, *wire.Error) {
	p, err := g.Store.Peers.ByID(ctx, id)
	switch {
	case errors.Is(err, store.ErrNotFound) || err == nil && !c.canSee(p.Owner):
		return p, wire.UnknownNode
	case err != nil:
		return p, g.internalError(err)
	}
	return p, nil
}

// remove deletes a peer and closes its connections.
func (g *Gateway) remove(ctx context.Context, c *conn, id string) *wire.Error {
	p, e := g.peer(ctx, c, id)
	if e != nil {
		return e
	}
	if err := g.Store.Peers.Remove(ctx, p.ID); errors.Is(err, store.ErrNotFound) {
		return wire.UnknownNode
	} else if err != nil {
		return g.internalError(err)
	}
	g.Logger.Info("openclaw: removed", "device", p.ID, "owner", p.Owner, "by", c.person.ID)
	g.forgetPeer(p.ID)
	g.broadcast(broadcastEvent{Peer: p.ID})
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
		return nil, wire.UnknownDevice
	} else if e != nil {
		return nil, e
	}
	return map[string]string{"deviceId": id}, nil
}

// disconnectDevice closes the connections of a device on this instance.
func (g *Gateway) disconnectDevice(device string, why *wire.Error) {
	for _, c := range g.connections() {
		if c.device == device {
			if c.node != nil {
				c.node.detach()
			}
			c.closeWith(why)
		}
	}
}

// forgetPeer drops the local state of a removed peer.
func (g *Gateway) forgetPeer(device string) {
	g.disconnectDevice(device, wire.Removed)
	g.slots.remove(device)
}

// announcePeer applies a peer's change here and on other instances.
func (g *Gateway) announcePeer(p store.Peer) {
	g.applyPeer(p)
	g.broadcast(broadcastEvent{Peer: p.ID})
}

// applyPeer applies a peer's change to its connections on this instance.
func (g *Gateway) applyPeer(p store.Peer) {
	if n := g.node(p.ID); n != nil {
		n.applyPeer(p)
		n.offerTools()
	} else {
		g.syncAway(p)
	}
	for _, c := range g.connections() {
		if c.device == p.ID {
			c.closeUnlessValid(p)
		}
	}
}

// closeUnlessValid closes a connection of a peer whose token has ended, or that belongs to somebody
// else now.
func (c *conn) closeUnlessValid(p store.Peer) {
	if p.Owner != c.person.ID || c.secret != 0 && !c.isTokenValid(p) {
		c.closeWith(errAuthChanged)
	}
}

// announceResolved broadcasts a decision.
func (g *Gateway) announceResolved(r store.PeerRequest, decision string) {
	d := wire.Decision{RequestID: r.ID, Decision: decision, TS: time.Now().UnixMilli()}
	event := wire.EventDeviceResolved
	if d.DeviceID = r.Peer; r.Kind == store.RequestSurface {
		d.DeviceID, d.NodeID, event = "", r.Peer, wire.EventNodeResolved
	}
	g.announceDecision(r.Owner, event, d)
}

// announceDecision sends a decision to the operators and the node.
func (g *Gateway) announceDecision(owner, event string, d wire.Decision) {
	g.broadcast(broadcastEvent{Owner: owner, Scope: wire.ScopePairing, Event: event, Payload: encoded(d),
		Node: d.NodeID})
}
