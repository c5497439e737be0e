package cli

import (
	"context"
	"encoding/json"
	"time"

	"patchbay/internal/api"
	"patchbay/internal/control"
	"patchbay/internal/i18n"
	"patchbay/internal/plug/openclaw/wire"
)

// nodeFlags name a node.
type nodeFlags struct {
	Node        string `arg:"" help:"Name or id of the node, or a prefix of its id."`
	targetFlags `embed:""`
}

// nodeRow is a node in the list.
type nodeRow struct {
	wire.Node
	// Connected is nil if unknown.
	Connected *bool `json:"connected,omitempty"`
}

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

// nodes lists the nodes that the caller may see. Without a server those are the paired ones: what
// else is plugged in is known only while a server runs.
func (c *conn) nodes(ctx context.Context) ([]nodeRow, error) {
	list, err := callNodes[wire.NodeList](ctx, c, api.Nodes, control.Empty{})
	if err != nil {
		return nil, err
	}
	rows := []nodeRow{}
	for _, n := range list.Nodes {
		if !c.local || !n.Connected { // the parts of this process are connected to it
			rows = append(rows, c.nodeRow(n))
		}
	}
	return rows, nil
}

// node returns a node by name, by ID or by a prefix of it.
func (c *conn) node(ctx context.Context, ref string) (nodeRow, error) {
	n, err := callNodes[wire.NodeDetail](ctx, c, api.DescribeNode, api.NodeRef{Node: ref})
	return c.nodeRow(n.Node), err
}

func (c *conn) nodeRow(n wire.Node) nodeRow {
	if c.local {
		return nodeRow{Node: n}
	}
	return nodeRow{n, &n.Connected}
}

// callNodes calls an operation on nodes and decodes its output, which is that of a method of
// OpenClaw's.
func callNodes[Out, In any](ctx context.Context, c *conn, o *api.Op[In, json.RawMessage], in In) (out Out, err error) {
	text, err := o.Call(ctx, c.Client, in)
	if err == nil && json.Unmarshal(text, &out) != nil {
		err = i18n.Message("%s does not respond like a Patchbay server").Errorf(c.URL)
	}
	return out, err
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

const (
	msgNodeHere      = i18n.Message("connected")
	msgNodeAway      = i18n.Message("away")
	msgNodeApproved  = i18n.Message("approved")
	msgNodePending   = i18n.Message("pending approval")
	msgNodeRepending = i18n.Message("requests more commands")
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
