package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"patchbay/internal/board"
	"patchbay/internal/plug/openclaw/wire"
	"patchbay/internal/store"
	"patchbay/internal/tool"
)

const (
	// KindNode is the kind of the outlets of nodes.
	KindNode = "node"
	// maxInvoke bounds a call of a command whose caller wants to wait for ever.
	maxInvoke = 24 * time.Hour
	// maxPublished bounds the tools that a node publishes, and maxPublishedBytes their
	// descriptions and schemas together.
	maxPublished      = 512
	maxPublishedBytes = 1 << 20
	// maxStats bounds what a node tells about its machine, in bytes.
	maxStats = 4 << 10
)

// OutletOf is the id of the outlet that a node is plugged into.
func OutletOf(device string) string { return "node:" + device[:min(len(device), 16)] }

// node is a connection of a node. The slot that it is in has it carry out calls.
type node struct {
	c      *conn
	g      *Gateway
	id     string
	owner  string
	old    bool // speaks a version in which tools are not published
	silent bool // nobody was asked before it was paired

	calls   pending       // commands that run
	arrived chan struct{} // closed when it is plugged in, or has gone before

	// mu is never held while the board or the database is asked for something.
	mu         sync.Mutex
	retired    bool
	peer       store.Peer   // as it was read last
	surface    wire.Surface // what it declared, and what of that was approved
	request    string       // the request for its surface that waits; empty: none
	effective  []string
	guarded    []string // those of them that not every operator may call
	published  []wire.PluginTool
	publishes  bool                        // it has said what it publishes
	tools      map[string]*wire.PluginTool // by name, those that can be called
	offered    []*board.Offered            // what the board makes of them
	stats      json.RawMessage
	sessions   map[string]bool // conversations that it hears
	lastSaid   string          // to it, and when
	lastSaidAt time.Time
	socket     *board.Socket // nil: not plugged in
	plugging   sync.Mutex    // one change of the socket at a time
}

func newNode(c *conn, p *wire.Connect, peer store.Peer) *node {
	n := &node{c: c, g: c.g, id: p.Device.ID, owner: c.person.ID, old: p.MaxProtocol < wire.Protocol, silent: peer.Via == store.ViaSilent, arrived: make(chan struct{})}
	n.surface = wire.Surface{Platform: c.client.Platform, Family: c.client.DeviceFamily, Caps: p.Caps, Declared: p.Commands}
	n.surface.Declared = c.g.policy.Declarable(&n.surface)
	return n
}

// declare notes what the node can do. If that is more than was approved, its owner is
// asked.
func (n *node) declare(ctx context.Context) error {
	peers := n.g.Store.Peers
	withdrawn, err := peers.SetSurface(ctx, n.id, n.surface.Caps, n.surface.Declared)
	if errors.Is(err, store.ErrWider) {
		if err = n.ask(ctx); errors.Is(err, store.ErrAgreed) { // an earlier connection's request was approved just now
			withdrawn, err = peers.SetSurface(ctx, n.id, n.surface.Caps, n.surface.Declared)
		}
	}
	if err != nil {
		return err
	}
	if withdrawn != "" {
		n.g.decided(n.owner, wire.EventNodeResolved, wire.Decision{RequestID: withdrawn, NodeID: n.id, Decision: wire.DecisionRejected, TS: time.Now().UnixMilli()})
	}
	peer, err := peers.ByID(ctx, n.id)
	if err != nil {
		return err
	}
	n.approve(peer)
	return nil
}

func (n *node) ask(ctx context.Context) error {
	client := n.c.client
	r, made, err := n.g.Store.Peers.Request(ctx, store.PeerRequest{
		ID: uuid.NewString(), Kind: store.RequestSurface, Peer: n.id, Owner: n.owner, Address: n.c.address.String(), Refreshed: time.Now(),
		Ask: store.PeerAsk{
			Name: nameOf(client), Platform: client.Platform, Family: client.DeviceFamily, ClientID: client.ID, ClientMode: client.Mode, Version: client.Version,
			Caps: n.surface.Caps, Commands: n.surface.Declared,
		},
	})
	if err != nil {
		return err
	}
	n.request = r.ID
	if made {
		n.g.metrics.pairings.WithLabelValues(store.RequestSurface, "requested").Inc()
		n.g.tell(told{Owner: n.owner, Scope: wire.ScopePairing, Event: wire.EventNodeRequested, Payload: encoded(nodeRequest(r, n.silent))})
	}
	return nil
}

// approve takes over what is kept about the node.
func (n *node) approve(peer store.Peer) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.surface.Approved = peer.Commands
	// Thousands of nodes keep only what is needed.
	peer.DeclaredCaps, peer.DeclaredCommands, peer.Permissions, peer.PathEnv, peer.PublicKey = nil, nil, nil, "", ""
	n.peer = peer
	n.effective = n.g.policy.Effective(&n.surface)
	slices.Sort(n.effective)
	n.guarded = slices.DeleteFunc(slices.Clone(n.effective), func(command string) bool { return n.g.policy.Refuse(&n.surface, command, nil) == nil })
	if peer.Surface == store.SurfaceApproved || peer.Surface == store.SurfaceUnapproved {
		n.request = ""
	}
	n.choose()
}

// choose finds out which of the published tools can be called. With mu held.
func (n *node) choose() {
	n.tools = nil
	if len(n.published) == 0 || n.old || n.peer.SurfaceAt.IsZero() {
		return
	}
	n.tools = make(map[string]*wire.PluginTool, len(n.published))
	for i := range n.published {
		t := &n.published[i]
		if t.Command != "" && n.has(t.Command) && !n.has(t.Name) {
			n.tools[t.Name] = t
		}
	}
}

// reachable says whether anything was ever approved.
func (n *node) reachable() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return !n.peer.SurfaceAt.IsZero()
}

// refuse says why an operator may not call a command; nil: it may.
func (n *node) refuse(command string, scopes []string) *wire.Error {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case n.peer.SurfaceAt.IsZero():
		return wire.PairingChanged
	case n.has(command) && !slices.Contains(n.guarded, command):
		return nil
	}
	return n.g.policy.Refuse(&n.surface, command, scopes)
}

// has says whether a command is among those that can be called. With mu held.
func (n *node) has(command string) bool {
	_, has := slices.BinarySearch(n.effective, command)
	return has
}

// arrive plugs the node in. Its greeting is on the way by then.
func (n *node) arrive() {
	defer close(n.arrived)
	n.plug()
	n.offer()
}

// plug plugs the node into the board, without tools yet.
func (n *node) plug() {
	n.plugging.Lock()
	defer n.plugging.Unlock()
	n.mu.Lock()
	gone, peer := n.retired, n.peer
	n.mu.Unlock()
	if gone {
		return
	}
	socket, err := n.g.slots.take(n, peer)
	if err != nil {
		n.g.Logger.Error("openclaw: a node could not be plugged in", "node", n.id, "error", err)
		return
	}
	n.mu.Lock()
	n.socket = socket
	n.mu.Unlock()
}

// offer offers what the node can do now, under the name that it has now.
func (n *node) offer() {
	n.plugging.Lock()
	defer n.plugging.Unlock()
	n.mu.Lock()
	peer := n.peer
	tools := n.g.lists.commands(n.effective)
	if len(n.tools) > 0 {
		tools = slices.Concat(tools, n.behind())
	}
	whole := n.publishes
	n.mu.Unlock()
	if !n.g.slots.offer(n, peer, tools, whole) {
		return
	}
	o, _, offered := n.g.Hub.Plugged(OutletOf(n.id))
	if o.Owner != n.owner {
		offered = nil
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.offered = offered
}

// behind are the tools that it publishes. With mu held.
func (n *node) behind() (tools []tool.Tool) {
	for _, name := range slices.Sorted(maps.Keys(n.tools)) {
		tools = append(tools, toolOf(n.tools[name]))
	}
	return tools
}

// retire takes the node out: it has gone, was removed, or has connected again. What
// runs fails at once. What was approved of it stays listed; the tools that it published
// itself do so for a while.
func (n *node) retire() {
	n.mu.Lock()
	again := n.retired
	n.retired = true
	n.mu.Unlock()
	if again {
		return
	}
	n.calls.end()
	n.plugging.Lock()
	defer n.plugging.Unlock()
	n.mu.Lock()
	n.socket = nil
	peer := n.peer
	var tools, published []tool.Tool
	if !peer.SurfaceAt.IsZero() {
		tools, published = n.g.lists.commands(n.effective), n.behind()
	}
	n.mu.Unlock()
	n.g.slots.leave(n, peer, tools, published)
}

// counts says whether the connection is still the node's.
func (n *node) counts() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return !n.retired
}

// slugOf begins the names of a node's tools. It follows from the node alone: with
// names that depended on what else is connected, decisions about one node's tools
// would hold for another's.
func slugOf(p store.Peer) string {
	const most = 16
	name := strings.Trim(strings.Map(func(r rune) rune {
		switch {
		case 'a' <= r && r <= 'z' || '0' <= r && r <= '9':
			return r
		case 'A' <= r && r <= 'Z':
			return r + 'a' - 'A'
		}
		return '-'
	}, p.Name), "-")
	for strings.Contains(name, "--") {
		name = strings.ReplaceAll(name, "--", "-")
	}
	if name = strings.Trim(name[:min(len(name), most)], "-"); name == "" {
		return "node-" + p.ID[:min(len(p.ID), 8)]
	}
	return "node-" + name + "-" + p.ID[:min(len(p.ID), 6)]
}

func plainSlug(id string) string { return "node-" + id[:min(len(id), 16)] }

// toolLists are the lists of tools that nodes have, which are mostly the same: a
// thousand nodes share one.
type toolLists struct {
	mu    sync.Mutex
	known map[string][]tool.Tool
}

// maxLists bounds how many different lists are kept to be shared.
const maxLists = 256

// commands are the tools of a node with these commands, which are sorted.
func (l *toolLists) commands(commands []string) []tool.Tool {
	key := strings.Join(commands, "\n")
	l.mu.Lock()
	defer l.mu.Unlock()
	if list, ok := l.known[key]; ok {
		return list
	}
	list := make([]tool.Tool, len(commands))
	for i, command := range commands {
		list[i] = commandTool(command)
	}
	if l.known == nil || len(l.known) >= maxLists {
		l.known = map[string][]tool.Tool{}
	}
	l.known[key] = list
	return list
}

var anyObject = json.RawMessage(`{"type":"object"}`)

// toolOf is a tool that a node publishes.
func toolOf(t *wire.PluginTool) tool.Tool {
	made := tool.Tool{Name: t.Name, Description: t.Description, Input: anyObject}
	if len(t.Parameters) > 0 && t.Parameters[0] == '{' {
		made.Input = typed(t.Parameters)
	}
	return made
}

// typed is a schema that says that arguments are an object, as callers must have it.
func typed(schema json.RawMessage) json.RawMessage {
	var s map[string]json.RawMessage
	if json.Unmarshal(schema, &s) != nil || string(s["type"]) == `"object"` {
		return schema
	}
	s["type"] = json.RawMessage(`"object"`)
	return encoded(s)
}

// encoded encodes what is ours and can always be encoded.
func encoded(v any) json.RawMessage {
	data, err := json.Marshal(v)
	if err != nil {
		return json.RawMessage("null")
	}
	return data
}

// same says whether nothing that matters here has changed about the node.
func (n *node) same(p store.Peer) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	was := n.peer
	return was.Name == p.Name && was.Surface == p.Surface && was.SurfaceAt.Equal(p.SurfaceAt) && was.SecretVersion == p.SecretVersion && was.Owner == p.Owner &&
		slices.Equal(was.Commands, p.Commands) && slices.Equal(was.Caps, p.Caps)
}

// hears says whether the node has subscribed to a conversation.
func (n *node) hears(session string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.sessions[session]
}
