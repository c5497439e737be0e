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
	"patchbay/internal/i18n"
	"patchbay/internal/plug/openclaw/wire"
	"patchbay/internal/store"
)

// withTarget calls there with the server that was named or runs on the data directory; if there is
// none, it calls here with the data.
func (f targetFlags) withTarget(ctx context.Context, sh *shell, there func(*remote) error,
	here func(*app.Base) error) error {
	r, err := findServer(ctx, sh, f.dataFlags, f.serverFlags)
	switch {
	case err != nil:
		return err
	case r != nil:
		return there(r)
	}
	return f.withData(ctx, sh, here)
}

// nodeFlags name a node.
type nodeFlags struct {
	Node        string `arg:"" help:"Name or id of the node, or the beginning of its id."`
	targetFlags `embed:""`
}

// resolve calls there with the server and the node, or here with the data and the node.
func (f *nodeFlags) resolve(ctx context.Context, sh *shell, there func(*remote, nodeRow) error,
	here func(*app.Base, nodeRow) error) error {
	return f.withTarget(ctx, sh, func(r *remote) error {
		n, err := r.node(ctx, f.Node)
		if err != nil {
			return err
		}
		return there(r, n)
	}, func(b *app.Base) error {
		n, err := localNode(ctx, b, f.Node)
		if err != nil {
			return err
		}
		return here(b, n)
	})
}

// nodeRow is a node in the list.
type nodeRow struct {
	wire.Node
	// Connected is nil if unknown.
	Connected *bool `json:"connected,omitempty"`
}

func liveNode(n wire.Node) nodeRow { return nodeRow{Node: n, Connected: &n.Connected} }

const (
	// shortNode and shortRequest are how many characters of an ID are shown in lists: enough to
	// name one of thousands.
	shortNode    = 12
	shortRequest = 8
)

func shortID(id string, most int) string { return plain(id[:min(len(id), most)]) }

// called returns the name of a node within a sentence.
func (n *nodeRow) called() string { return called(n.DisplayName, n.NodeID) }

func called(name, id string) string {
	if name == "" {
		return shortID(id, shortNode)
	}
	return short(name, maxCalled)
}

// maxCalled is how many columns of a node's name are shown: the node itself chose it.
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

// localNodes lists the nodes of a data directory on which no server runs. Devices that appear as
// nodes only while connected are not included.
func localNodes(ctx context.Context, b *app.Base) ([]nodeRow, error) {
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

// policyOf returns the settings about commands.
func policyOf(b *app.Base) wire.Policy {
	return wire.Policy{Allow: b.Config.Nodes.Allow, Deny: b.Config.Nodes.Deny}
}

// surfaceOf returns the stored surface of a node, that is what it can do.
func surfaceOf(p store.Peer) *wire.Surface {
	return &wire.Surface{Platform: p.Platform, Family: p.Family, Caps: p.DeclaredCaps, Declared: p.DeclaredCommands,
		Approved: p.Commands}
}

// surfaceStates maps the approval states of a surface to the names that servers use.
var surfaceStates = map[string]string{
	store.SurfaceApproved: wire.Approved, store.SurfacePending: wire.PendingApproval,
	store.SurfaceRepending:  wire.PendingReapproval,
	store.SurfaceUnapproved: wire.Unapproved,
}

// nodeOf returns a stored node with its pending request for commands.
func nodeOf(p store.Peer, ask store.PeerRequest, policy wire.Policy) wire.Node {
	n := wire.Node{
		NodeID: p.ID, DisplayName: p.Name, Platform: p.Platform, Version: p.Version, ClientID: p.ClientID,
		ClientMode: p.ClientMode, DeviceFamily: p.Family,
		RemoteIP: p.Address, Caps: p.Caps, Commands: policy.Effective(surfaceOf(p)), PluginTools: []wire.PluginTool{},
		Approval: surfaceStates[p.Surface], PathEnv: p.PathEnv,
		LastConnectedMS: millisOf(p.Connected), LastDisconnectMS: millisOf(p.Disconnected),
		LastSeenAtMS: millisOf(p.Seen), LastSeenReason: p.SeenReason,
		ApprovedAtMS: millisOf(p.SurfaceAt), Paired: true,
		PendingRequest: ask.ID, PendingCaps: ask.Ask.Caps, PendingCmds: ask.Ask.Commands,
	}
	slices.Sort(n.Commands)
	return n
}

// millisOf converts a time to Unix milliseconds, 0 for none; timeOf is the inverse.
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

// localNode finds a node of a data directory as servers do.
func localNode(ctx context.Context, b *app.Base, ref string) (nodeRow, error) {
	rows, err := localNodes(ctx, b)
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
		return nodeRow{}, i18n.Message("there is no node %q; patchbay node list shows those there are").Errorf(ref)
	}
	return nodeRow{}, i18n.Message("%d nodes may be meant by %q; give the id of one").Errorf(len(found), ref)
}

const (
	msgNodeHere      = i18n.Message("connected")
	msgNodeAway      = i18n.Message("away")
	msgNodeApproved  = i18n.Message("approved")
	msgNodePending   = i18n.Message("to be approved")
	msgNodeRepending = i18n.Message("wants more")
	msgNodeRejected  = i18n.Message("rejected")
)

// nodeState returns a text about whether a node is connected, as far as known.
func (sh *shell) nodeState(n nodeRow) string {
	switch {
	case n.Connected == nil:
		return "–"
	case *n.Connected:
		return msgNodeHere.In(sh.lang)
	}
	return msgNodeAway.In(sh.lang)
}

// nodeApproval says how much of what a node offers is approved.
func (sh *shell) nodeApproval(n nodeRow) string {
	switch n.Approval {
	case wire.Approved:
		return msgNodeApproved.In(sh.lang)
	case wire.PendingApproval:
		return msgNodePending.In(sh.lang)
	case wire.PendingReapproval:
		return msgNodeRepending.In(sh.lang)
	case wire.Unapproved:
		return msgNodeRejected.In(sh.lang)
	}
	return "–"
}

// seen returns when the node was last seen.
func (n *nodeRow) seen() time.Time {
	return timeOf(max(n.LastSeenAtMS, n.LastConnectedMS, n.LastDisconnectMS))
}

// nodeError explains an error of the database about a node that existed a moment ago.
func nodeError(err error) error {
	if errors.Is(err, store.ErrNotFound) {
		return i18n.Message("the node was removed just now").Errorf()
	}
	return err
}
