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

	"patchbay/internal/hub"
	"patchbay/internal/plug/openclaw/wire"
	"patchbay/internal/store"
	"patchbay/internal/tool"
)

const (
	// KindNode is the provider kind of nodes.
	KindNode = "node"
	// maxInvokeTimeout limits a call without a timeout.
	maxInvokeTimeout = 24 * time.Hour
	// maxPublished limits the tools that a node publishes, and maxPublishedBytes their
	// descriptions and schemas together.
	maxPublished      = 512
	maxPublishedBytes = 1 << 20
	// maxStats limits a node's report about its machine, in bytes.
	maxStats = 4 << 10
)

// ProviderID returns the provider id of a node.
func ProviderID(device string) string { return "node:" + device[:min(len(device), 16)] }

// node is a connected node. The slot it occupies passes calls to it.
type node struct {
	c              *conn
	g              *Gateway
	id             string
	owner          string
	legacyProtocol bool // protocol version without published tools
	autoApproved   bool // paired without approval by a person
	invited        bool // the commands that it declares first are approved

	calls      pending       // running commands
	registered chan struct{} // closed when it is registered, or has disconnected before

	// mu is never held during calls of the hub or the database.
	mu               sync.Mutex
	detached         bool
	peer             store.Peer   // as last read
	surface          wire.Surface // declared and approved commands
	request          string       // pending approval request; empty: none
	effective        []string
	restricted       []string // commands that not every operator may call
	published        []wire.PluginTool
	hasPublished     bool                        // it has published its tools
	tools            map[string]*wire.PluginTool // callable tools by name
	registeredTools  []*hub.RegisteredTool       // the same as registered with the hub
	stats            json.RawMessage
	sessions         map[string]bool // subscribed conversations
	lastTranscript   string          // last transcript, and its time
	lastTranscriptAt time.Time
	registration     *hub.Registration // nil: not registered
	registering      sync.Mutex        // serializes changes of the registration
}

func newNode(c *conn, p *wire.Connect, peer store.Peer) *node {
	n := &node{c: c, g: c.g, id: p.Device.ID, owner: c.person.ID, legacyProtocol: p.MaxProtocol < wire.Protocol,
		autoApproved: peer.Via == store.ViaSilent, registered: make(chan struct{})}
	n.surface = wire.Surface{Platform: c.client.Platform, Family: c.client.DeviceFamily, Caps: p.Caps,
		Declared: p.Commands}
	n.surface.Declared = c.g.policy.Declarable(&n.surface)
	return n
}

// declare records the node's surface. If it exceeds the approved one, it creates an approval
// request.
func (n *node) declare(ctx context.Context) error {
	peers := n.g.Store.Peers
	withdrawn, err := peers.SetSurface(ctx, n.id, n.surface.Caps, n.surface.Declared)
	if errors.Is(err, store.ErrExceedsApproval) {
		// an earlier connection's request was approved just now
		if err = n.requestApproval(ctx); errors.Is(err, store.ErrAlreadyApproved) {
			withdrawn, err = peers.SetSurface(ctx, n.id, n.surface.Caps, n.surface.Declared)
		}
	}
	if err != nil {
		return err
	}
	if withdrawn != "" {
		n.g.announceDecision(n.owner, wire.EventNodeResolved,
			wire.Decision{RequestID: withdrawn, NodeID: n.id, Decision: wire.DecisionRejected,
				TS: time.Now().UnixMilli()})
	}
	peer, err := peers.ByID(ctx, n.id)
	if err != nil {
		return err
	}
	n.applyPeer(peer)
	return nil
}

func (n *node) requestApproval(ctx context.Context) error {
	client := n.c.client
	r, made, err := n.g.Store.Peers.Request(ctx, store.PeerRequest{
		ID: uuid.NewString(), Kind: store.RequestSurface, Peer: n.id, Owner: n.owner, Address: n.c.address.String(),
		Refreshed: time.Now(),
		Ask: store.PeerAsk{
			Name: nameOf(client), Platform: client.Platform, Family: client.DeviceFamily, ClientID: client.ID,
			ClientMode: client.Mode, Version: client.Version,
			Caps: n.surface.Caps, Commands: n.surface.Declared,
		},
	})
	if err != nil {
		return err
	}
	if n.invited {
		n.invited = false
		_, err = n.g.approveUnasked(ctx, r, store.ViaInvite)
		return err
	}
	n.request = r.ID
	if made {
		n.g.metrics.pairings.WithLabelValues(store.RequestSurface, "requested").Inc()
		n.g.broadcast(broadcastEvent{Owner: n.owner, Scope: wire.ScopePairing, Event: wire.EventNodeRequested,
			Payload: encoded(nodeRequest(r, n.autoApproved))})
	}
	return nil
}

// applyPeer applies the stored state of the node.
func (n *node) applyPeer(peer store.Peer) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.surface.Approved = peer.Commands
	// Keep only what is needed: there may be thousands of nodes.
	peer.DeclaredCaps, peer.DeclaredCommands, peer.Permissions, peer.PathEnv, peer.PublicKey = nil, nil, nil, "", ""
	n.peer = peer
	n.effective = n.g.policy.Effective(&n.surface)
	slices.Sort(n.effective)
	n.restricted = slices.DeleteFunc(slices.Clone(n.effective),
		func(command string) bool { return n.g.policy.Refuse(&n.surface, command, nil) == nil })
	if peer.Surface == store.SurfaceApproved || peer.Surface == store.SurfaceUnapproved {
		n.request = ""
	}
	n.selectTools()
}

// selectTools selects the published tools that can be called. The caller holds mu.
func (n *node) selectTools() {
	n.tools = nil
	if len(n.published) == 0 || n.legacyProtocol || n.peer.SurfaceAt.IsZero() {
		return
	}
	n.tools = make(map[string]*wire.PluginTool, len(n.published))
	for i := range n.published {
		t := &n.published[i]
		if t.Command != "" && n.hasCommand(t.Command) && !n.hasCommand(t.Name) {
			n.tools[t.Name] = t
		}
	}
}

// isApproved reports whether any surface was ever approved.
func (n *node) isApproved() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return !n.peer.SurfaceAt.IsZero()
}

// refuse returns why an operator may not call a command, or nil. ByMethod is true for commands that
// operators reach by a method of their own.
func (n *node) refuse(command string, scopes []string, byMethod bool) *wire.Error {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case n.peer.SurfaceAt.IsZero():
		return wire.PairingChanged
	case byMethod && isExecPolicy(command):
		return n.g.policy.RefuseExecPolicy(&n.surface, command)
	case n.hasCommand(command) && !slices.Contains(n.restricted, command):
		return nil
	}
	return n.g.policy.Refuse(&n.surface, command, scopes)
}

// hasCommand reports whether a command is callable. The caller holds mu.
func (n *node) hasCommand(command string) bool {
	_, has := slices.BinarySearch(n.effective, command)
	return has
}

// attach registers the node. Its hello response has been queued before.
func (n *node) attach() {
	defer close(n.registered)
	n.register()
	n.offerTools()
}

// register registers the node with the hub, without tools.
func (n *node) register() {
	n.registering.Lock()
	defer n.registering.Unlock()
	n.mu.Lock()
	gone, peer := n.detached, n.peer
	n.mu.Unlock()
	if gone {
		return
	}
	socket, err := n.g.slots.attach(n, peer)
	if err != nil {
		n.g.Logger.Error("openclaw: a node could not be plugged in", "node", n.id, "error", err)
		return
	}
	n.mu.Lock()
	n.registration = socket
	n.mu.Unlock()
}

// offerTools offers the node's current tools under its current name.
func (n *node) offerTools() {
	n.registering.Lock()
	defer n.registering.Unlock()
	n.mu.Lock()
	peer := n.peer
	tools := n.g.toolLists.commands(n.effective)
	if len(n.tools) > 0 {
		tools = slices.Concat(tools, n.publishedTools())
	}
	whole := n.hasPublished
	n.mu.Unlock()
	if !n.g.slots.offer(n, peer, tools, whole) {
		return
	}
	o, _, offered := n.g.Hub.FindProvider(ProviderID(n.id))
	if o.Owner != n.owner {
		offered = nil
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.registeredTools = offered
}

// publishedTools returns the tools that the node publishes. The caller holds mu.
func (n *node) publishedTools() (tools []tool.Tool) {
	for _, name := range slices.Sorted(maps.Keys(n.tools)) {
		tools = append(tools, toolOf(n.tools[name]))
	}
	return tools
}

// detach removes the connection, which has ended or was replaced, or whose node was removed.
// Running calls fail at once. Approved commands stay listed; published tools stay for a while.
func (n *node) detach() {
	n.mu.Lock()
	again := n.detached
	n.detached = true
	n.mu.Unlock()
	if again {
		return
	}
	n.calls.end()
	n.registering.Lock()
	defer n.registering.Unlock()
	n.mu.Lock()
	n.registration = nil
	peer := n.peer
	var tools, published []tool.Tool
	if !peer.SurfaceAt.IsZero() {
		tools, published = n.g.toolLists.commands(n.effective), n.publishedTools()
	}
	n.mu.Unlock()
	n.g.slots.detach(n, peer, tools, published)
}

// isCurrent reports whether this is the node's current connection.
func (n *node) isCurrent() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return !n.detached
}

// slugOf returns the prefix of a node's tool names. It depends on the node alone: if it depended
// on what else is connected, rules for one node's tools would apply to another's.
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

// toolLists shares equal tool lists: many nodes have the same one.
type toolLists struct {
	mu    sync.Mutex
	known map[string][]tool.Tool
}

// maxLists limits the number of shared lists.
const maxLists = 256

// commands returns the tools for a sorted list of commands.
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

// toolOf returns a published tool as a tool of the hub.
func toolOf(t *wire.PluginTool) tool.Tool {
	made := tool.Tool{Name: t.Name, Description: t.Description, Input: anyObject}
	if len(t.Parameters) > 0 && t.Parameters[0] == '{' {
		made.Input = withObjectType(t.Parameters)
	}
	return made
}

// withObjectType returns the schema with type object, which callers require.
func withObjectType(schema json.RawMessage) json.RawMessage {
	var s map[string]json.RawMessage
	if json.Unmarshal(schema, &s) != nil || string(s["type"]) == `"object"` {
		return schema
	}
	s["type"] = json.RawMessage(`"object"`)
	return encoded(s)
}

// encoded encodes a value that can always be encoded.
func encoded(v any) json.RawMessage {
	data, err := json.Marshal(v)
	if err != nil {
		return json.RawMessage("null")
	}
	return data
}

// isUnchanged reports whether the stored state of the node has no relevant changes.
func (n *node) isUnchanged(p store.Peer) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	was := n.peer
	return was.Name == p.Name && was.Surface == p.Surface && was.SurfaceAt.Equal(p.SurfaceAt) &&
		was.SecretVersion == p.SecretVersion && was.TokenChanges == p.TokenChanges && was.Owner == p.Owner &&
		slices.Equal(was.Commands, p.Commands) && slices.Equal(was.Caps, p.Caps)
}

// isSubscribed reports whether the node has subscribed to a conversation.
func (n *node) isSubscribed(session string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.sessions[session]
}
