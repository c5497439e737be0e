package gateway

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"patchbay/internal/plug/openclaw/wire"
	"patchbay/internal/store"
)

// pageOfPeers is the page size when reading peers from the database.
const pageOfPeers = 1000

// peers returns the peers that a client may see in a role; an empty role means any.
func (g *Gateway) peers(ctx context.Context, c *conn, role string) ([]store.Peer, error) {
	owner := c.person.ID
	if c.isAdmin {
		owner = ""
	}
	var out []store.Peer
	for after := ""; ; {
		page, err := g.Store.Peers.ByOwner(ctx, owner, after, pageOfPeers)
		if err != nil {
			return nil, err
		}
		for _, p := range page {
			if role == "" || slices.Contains(p.Roles, role) {
				out = append(out, p)
			}
		}
		if len(page) < pageOfPeers {
			return out, nil
		}
		after = page[len(page)-1].ID
	}
}

// pendingRequests returns the requests of a kind that a client may see.
func (g *Gateway) pendingRequests(ctx context.Context, c *conn, kind string) ([]store.PeerRequest, error) {
	owner := c.person.ID
	if c.isAdmin {
		owner = ""
	}
	return g.Store.Peers.Requests(ctx, kind, owner, time.Now())
}

// nodeRows returns all nodes that a client may see: connected ones first, then by name.
func (g *Gateway) nodeRows(ctx context.Context, c *conn) ([]wire.Node, error) {
	rows, err := g.pairedRows(ctx, c)
	if err != nil {
		return nil, err
	}
	all, err := g.virtuals(ctx, c)
	if err != nil {
		return nil, err
	}
	for i := range all {
		_, held, _ := g.Hub.FindProvider(all[i].ID)
		all[i].Held = held
		rows = append(rows, g.virtualRow(&all[i], false))
	}
	slices.SortStableFunc(rows, func(a, b wire.Node) int {
		if a.Connected != b.Connected {
			if a.Connected {
				return -1
			}
			return 1
		}
		return cmp.Or(strings.Compare(strings.ToLower(a.DisplayName), strings.ToLower(b.DisplayName)),
			strings.Compare(a.NodeID, b.NodeID))
	})
	return rows, nil
}

// pairedRows returns the paired nodes.
func (g *Gateway) pairedRows(ctx context.Context, c *conn) ([]wire.Node, error) {
	peers, err := g.peers(ctx, c, wire.RoleNode)
	if err != nil {
		return nil, err
	}
	pending, err := g.pendingRequests(ctx, c, store.RequestSurface)
	if err != nil {
		return nil, err
	}
	asks := make(map[string]*store.PeerRequest, len(pending))
	for i := range pending {
		asks[pending[i].Peer] = &pending[i]
	}
	rows := make([]wire.Node, len(peers))
	for i, p := range peers {
		rows[i] = g.nodeRow(p, asks[p.ID])
	}
	return rows, nil
}

// approvals maps approval states to the wire.
var approvals = map[string]string{
	store.SurfaceApproved: wire.Approved, store.SurfacePending: wire.PendingApproval,
	store.SurfaceRepending:  wire.PendingReapproval,
	store.SurfaceUnapproved: wire.Unapproved,
}

// nodeRow returns a paired node, with its pending approval request.
func (g *Gateway) nodeRow(p store.Peer, ask *store.PeerRequest) wire.Node {
	surface := surfaceOf(p)
	row := wire.Node{
		NodeID: p.ID, DisplayName: p.Name, Platform: p.Platform, Version: p.Version, ClientID: p.ClientID,
		ClientMode: p.ClientMode, DeviceFamily: p.Family,
		RemoteIP: p.Address, Caps: p.Caps, Commands: g.policy.Effective(&surface), PluginTools: []wire.PluginTool{},
		Approval: approvals[p.Surface], PathEnv: p.PathEnv,
		LastConnectedMS: millis(p.Connected), LastDisconnectMS: millis(p.Disconnected), LastSeenAtMS: millis(p.Seen),
		LastSeenReason: p.SeenReason,
		ApprovedAtMS:   millis(p.SurfaceAt), Paired: true,
	}
	if row.Caps == nil {
		row.Caps = []string{}
	}
	slices.Sort(row.Commands)
	if ask != nil {
		row.PendingRequest, row.PendingCaps, row.PendingCmds = ask.ID, ask.Ask.Caps, ask.Ask.Commands
	}
	if n := g.node(p.ID); n != nil && n.owner == p.Owner {
		n.describe(&row)
	} else if o, held, _ := g.Hub.FindProvider(ProviderID(p.ID)); held && o.Kind == KindNode {
		row.Connected, row.ConnectedAtMS = true, row.LastConnectedMS
	}
	return row
}

// describe adds the state of the connection.
func (n *node) describe(row *wire.Node) {
	n.mu.Lock()
	defer n.mu.Unlock()
	row.Connected = !n.detached
	row.ConnectedAtMS = millis(n.c.connectedAt)
	row.HostStats = n.stats
	for i := range n.published {
		if t := &n.published[i]; n.tools[t.Name] == t {
			row.PluginTools = append(row.PluginTools, *t)
		}
	}
}

// nodeList serves node.list.
func (g *Gateway) nodeList(ctx context.Context, c *conn, _ []byte) (any, *wire.Error) {
	rows, err := g.nodeRows(ctx, c)
	if err != nil {
		return nil, g.internalError(err)
	}
	return wire.NodeList{TS: time.Now().UnixMilli(), Nodes: rows}, nil
}

// nodeDescribe serves node.describe.
func (g *Gateway) nodeDescribe(ctx context.Context, c *conn, params []byte) (any, *wire.Error) {
	id := field(params, "nodeId")
	now := time.Now()
	p, err := g.Store.Peers.ByID(ctx, id)
	if errors.Is(err, store.ErrNotFound) {
		return g.describeVirtual(c, id, now)
	}
	if err == nil && (!c.canSee(p.Owner) || !slices.Contains(p.Roles, wire.RoleNode)) {
		return nil, wire.UnknownNode
	}
	var r store.PeerRequest
	if err == nil {
		r, err = g.Store.Peers.RequestOf(ctx, store.RequestSurface, id, now)
	}
	switch {
	case errors.Is(err, store.ErrNotFound):
		return wire.NodeDetail{TS: now.UnixMilli(), Node: g.nodeRow(p, nil)}, nil
	case err != nil:
		return nil, g.internalError(err)
	}
	return wire.NodeDetail{TS: now.UnixMilli(), Node: g.nodeRow(p, &r)}, nil
}

// describeVirtual serves node.describe for a virtual node.
func (g *Gateway) describeVirtual(c *conn, id string, now time.Time) (any, *wire.Error) {
	o, ok := g.findVirtual(c, id, false)
	if !ok {
		if o, ok = g.findVirtual(c, id, true); !ok {
			return nil, wire.UnknownNode
		}
	}
	tools, e := g.visibleTools(c, o)
	if e != nil {
		return nil, e
	}
	return wire.NodeDetail{TS: now.UnixMilli(), Node: g.virtualRow(&virtual{o, tools}, true)}, nil
}
