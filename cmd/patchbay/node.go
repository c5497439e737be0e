package main

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"patchbay/internal/app"
	"patchbay/internal/plug/openclaw/wire"
	"patchbay/internal/store"
	"patchbay/internal/talk"
)

// placeFlags say where nodes and their requests are looked for.
type placeFlags struct {
	dataFlags   `embed:""`
	serverFlags `embed:""`
}

// again is what has to follow a command that is suggested, so that it gets to the same
// place. A key is left out.
func (f placeFlags) again() string {
	suffix := f.dataFlags.again()
	if f.Server != "" {
		suffix += " --server " + quoteWord(f.Server)
	}
	return suffix
}

// at hands the server to there, the one that was named or runs on the data folder, or
// the data to here if none runs.
func (f placeFlags) at(ctx context.Context, sh *shell, there func(*remote) error, here func(*app.Base) error) error {
	r, err := reach(ctx, sh, f.dataFlags, f.serverFlags)
	switch {
	case err != nil:
		return err
	case r != nil:
		return there(r)
	}
	return f.with(ctx, sh, here)
}

// nodeFlags name a node.
type nodeFlags struct {
	Node       string `arg:"" help:"Name or id of the node, or the beginning of its id."`
	placeFlags `embed:""`
}

// found hands the node and the server to there, or the node and the data to here.
func (f *nodeFlags) found(ctx context.Context, sh *shell, there func(*remote, nodeRow) error, here func(*app.Base, nodeRow) error) error {
	return f.at(ctx, sh, func(r *remote) error {
		n, err := r.node(ctx, f.Node)
		if err != nil {
			return err
		}
		return there(r, n)
	}, func(b *app.Base) error {
		n, err := keptNode(ctx, b, f.Node)
		if err != nil {
			return err
		}
		return here(b, n)
	})
}

// nodeRow is a node in the list.
type nodeRow struct {
	wire.Node
	// Connected is nil if nobody knows.
	Connected *bool `json:"connected,omitempty"`
}

func liveNode(n wire.Node) nodeRow { return nodeRow{Node: n, Connected: &n.Connected} }

const (
	// shortNode and shortRequest are how much of an id is shown in lists. It is enough
	// to name one of thousands.
	shortNode    = 12
	shortRequest = 8
)

func shortID(id string, most int) string { return plain(id[:min(len(id), most)]) }

// called is what to call a node in a sentence.
func (n *nodeRow) called() string { return called(n.DisplayName, n.NodeID) }

func called(name, id string) string {
	if name == "" {
		return shortID(id, shortNode)
	}
	return short(name, maxCalled)
}

// maxCalled is how many columns of a node's name are shown: it wrote it itself.
const maxCalled = 40

func nodePath(ref string) string { return "/api/v1/nodes/" + url.PathEscape(ref) }

// nodes lists the nodes that the key may see.
func (r *remote) nodes(ctx context.Context) ([]nodeRow, error) {
	var list wire.NodeList
	if err := r.do(ctx, http.MethodGet, "/api/v1/nodes", nil, &list); err != nil {
		return nil, err
	}
	rows := make([]nodeRow, len(list.Nodes))
	for i, n := range list.Nodes {
		rows[i] = liveNode(n)
	}
	return rows, nil
}

func (r *remote) node(ctx context.Context, ref string) (nodeRow, error) {
	var n wire.NodeDetail
	err := r.do(ctx, http.MethodGet, nodePath(ref), nil, &n)
	return liveNode(n.Node), err
}

// peersPage is how many peers are read from the database at a time.
const peersPage = 1000

// keptNodes lists the nodes of a data folder on which no server runs. What is plugged
// in and only appears as a node is not among them.
func keptNodes(ctx context.Context, b *app.Base) ([]nodeRow, error) {
	requests, err := b.Store.Peers.Requests(ctx, store.RequestSurface, "", time.Now())
	if err != nil {
		return nil, err
	}
	asks := make(map[string]store.PeerRequest, len(requests))
	for _, r := range requests {
		asks[r.Peer] = r
	}
	policy := policyOf(b)
	var rows []nodeRow
	for after := ""; ; {
		page, err := b.Store.Peers.ByOwner(ctx, "", after, peersPage)
		if err != nil {
			return nil, err
		}
		for _, p := range page {
			if slices.Contains(p.Roles, wire.RoleNode) {
				rows = append(rows, nodeRow{Node: nodeOf(p, asks[p.ID], policy)})
			}
		}
		if len(page) < peersPage {
			break
		}
		after = page[len(page)-1].ID
	}
	slices.SortStableFunc(rows, func(a, b nodeRow) int {
		return strings.Compare(strings.ToLower(a.DisplayName), strings.ToLower(b.DisplayName))
	})
	return rows, nil
}

// policyOf is what the settings say of commands.
func policyOf(b *app.Base) wire.Policy {
	return wire.Policy{Allow: b.Config.Nodes.Allow, Deny: b.Config.Nodes.Deny}
}

// surfaceOf is what is kept of what a node can do.
func surfaceOf(p store.Peer) *wire.Surface {
	return &wire.Surface{Platform: p.Platform, Family: p.Family, Caps: p.DeclaredCaps, Declared: p.DeclaredCommands, Approved: p.Commands}
}

// surfaceStates are how far a surface is approved, as servers tell it.
var surfaceStates = map[string]string{
	store.SurfaceApproved: wire.Approved, store.SurfacePending: wire.PendingApproval, store.SurfaceRepending: wire.PendingReapproval,
	store.SurfaceUnapproved: wire.Unapproved,
}

// nodeOf is a node as it is kept, with the request for what it wants to do.
func nodeOf(p store.Peer, ask store.PeerRequest, policy wire.Policy) wire.Node {
	n := wire.Node{
		NodeID: p.ID, DisplayName: p.Name, Platform: p.Platform, Version: p.Version, ClientID: p.ClientID, ClientMode: p.ClientMode, DeviceFamily: p.Family,
		RemoteIP: p.Address, Caps: p.Caps, Commands: policy.Effective(surfaceOf(p)), PluginTools: []wire.PluginTool{}, Approval: surfaceStates[p.Surface], PathEnv: p.PathEnv,
		LastConnectedMS: millisOf(p.Connected), LastDisconnectMS: millisOf(p.Disconnected), LastSeenAtMS: millisOf(p.Seen), LastSeenReason: p.SeenReason,
		ApprovedAtMS: millisOf(p.SurfaceAt), Paired: true,
		PendingRequest: ask.ID, PendingCaps: ask.Ask.Caps, PendingCmds: ask.Ask.Commands,
	}
	slices.Sort(n.Commands)
	return n
}

// millisOf is a time in milliseconds since 1970, 0 for none; timeOf is the way back.
func millisOf(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

func timeOf(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms)
}

// keptNode finds a node of a data folder as servers do.
func keptNode(ctx context.Context, b *app.Base, ref string) (nodeRow, error) {
	rows, err := keptNodes(ctx, b)
	if err != nil {
		return nodeRow{}, err
	}
	var found []nodeRow
	for _, n := range rows {
		if n.NodeID == ref {
			return n, nil
		}
		if ref != "" && (strings.HasPrefix(n.NodeID, ref) || strings.EqualFold(n.DisplayName, ref)) {
			found = append(found, n)
		}
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		return nodeRow{}, talk.Say{Zh: "没有节点 %q；patchbay node list 会列出现有的", En: "there is no node %q; patchbay node list shows those there are"}.Wrong(ref)
	}
	return nodeRow{}, talk.Say{Zh: "有 %d 个节点可能是 %q；请写出其中一个的 id", En: "%d nodes may be meant by %q; give the id of one"}.Wrong(len(found), ref)
}

var (
	sayNodeHere      = talk.Say{Zh: "已连接", En: "connected"}
	sayNodeAway      = talk.Say{Zh: "未连接", En: "away"}
	sayNodeApproved  = talk.Say{Zh: "已批准", En: "approved"}
	sayNodePending   = talk.Say{Zh: "待批准", En: "to be approved"}
	sayNodeRepending = talk.Say{Zh: "要求更多", En: "wants more"}
	sayNodeRejected  = talk.Say{Zh: "已拒绝", En: "rejected"}
)

// nodeState is whether a node is connected, as far as is known.
func (sh *shell) nodeState(n nodeRow) string {
	switch {
	case n.Connected == nil:
		return "–"
	case *n.Connected:
		return sayNodeHere.In(sh.lang)
	}
	return sayNodeAway.In(sh.lang)
}

// nodeApproval is how far what a node can do is approved.
func (sh *shell) nodeApproval(n nodeRow) string {
	switch n.Approval {
	case wire.Approved:
		return sayNodeApproved.In(sh.lang)
	case wire.PendingApproval:
		return sayNodePending.In(sh.lang)
	case wire.PendingReapproval:
		return sayNodeRepending.In(sh.lang)
	case wire.Unapproved:
		return sayNodeRejected.In(sh.lang)
	}
	return "–"
}

// nodeSeen is when a node was heard of last.
func (n *nodeRow) seen() time.Time {
	return timeOf(max(n.LastSeenAtMS, n.LastConnectedMS, n.LastDisconnectMS))
}

// nodeGone is an error of the database about a node that was found a moment ago.
func nodeGone(err error) error {
	if errors.Is(err, store.ErrNotFound) {
		return talk.Say{Zh: "节点刚刚被移除", En: "the node was removed just now"}.Wrong()
	}
	return err
}
