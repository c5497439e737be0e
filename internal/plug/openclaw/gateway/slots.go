package gateway

import (
	"context"
	"hash/maphash"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"patchbay/internal/hub"
	"patchbay/internal/store"
	"patchbay/internal/tool"
)

// slot is a node's registration with the hub. An approved node stays registered on every
// instance while it is disconnected, so that its commands stay listed and calls fail with "not
// connected".
type slot struct {
	node            atomic.Pointer[node] // nil: not connected to this instance
	epoch           int64                // number of its connection; guarded by slots.mu
	slots           *slots
	device          string
	owner           string
	title           atomic.Pointer[string]
	registration    *hub.Registration
	awayFingerprint uint64 // fingerprint of the peer last applied by syncAway; 0: none; guarded by slots.mu

	// recentTools are the tools that the node published in its last connection. They stay
	// offered until it publishes again, or for a while: a model that gets an "unknown tool"
	// error stops using the tool. Guarded by slots.mu.
	recentTools   []tool.Tool
	recentUntil   time.Time
	approvedTools []tool.Tool // the other offered tools
}

// slots holds the slots of all nodes, by provider id.
type slots struct {
	hub       *hub.Hub
	recentTTL time.Duration // see [Timings]

	// mu is held during calls of the hub. Locks of nodes and of the gateway are not taken
	// meanwhile.
	mu         sync.Mutex
	byProvider map[string]*slot
	closed     bool
}

// EndsWithContext implements [hub.Cancellable].
func (*slot) EndsWithContext() {}

// Call implements [tool.Provider].
func (s *slot) Call(ctx context.Context, c *tool.Call) (*tool.Result, error) {
	if n := s.node.Load(); n != nil {
		return n.Call(ctx, c)
	}
	name := "The node"
	if title := *s.title.Load(); title != "" {
		name += " " + title
	}
	return nil, tool.Fail(tool.Offline, name+
		" is not connected at the moment; nothing was done. Call again when it is back.", nil)
}

// Moved implements [hub.Movable]: the node has connected to another instance.
func (s *slot) Moved(upTo int64) {
	s.slots.mu.Lock()
	n, stays := s.node.Load(), s.epoch > upTo
	s.slots.mu.Unlock()
	if n != nil && !stays {
		n.detach()
	}
}

// setTitle stores the name of the node.
func (s *slot) setTitle(name string) { s.title.Store(&name) }

// slugs returns the possible prefixes of a node's tool names: the second is used if the first is
// taken.
func slugs(p store.Peer) []string { return []string{slugOf(p), plainSlug(p.ID)} }

// register creates the slot of a node. The caller holds mu.
func (all *slots) register(p store.Peer) (*slot, error) {
	s := &slot{slots: all, device: p.ID, owner: p.Owner}
	s.setTitle(p.Name)
	o := hub.ProviderRef{ID: ProviderID(p.ID), Owner: p.Owner, Kind: KindNode, Title: p.Name,
		Timeout: maxInvokeTimeout + time.Minute}
	var err error
	for _, o.Slug = range slugs(p) {
		if s.registration, err = all.hub.Register(o, s); err == nil {
			all.byProvider[o.ID] = s
			return s, nil
		}
	}
	return nil, err
}

// unregister removes a slot. The caller holds mu.
func (all *slots) unregister(id string) {
	if s := all.byProvider[id]; s != nil {
		s.registration.Unregister()
		delete(all.byProvider, id)
	}
}

// offer offers a node's tools under its current name. The caller holds mu.
func (s *slot) offer(p store.Peer, tools []tool.Tool) {
	s.setTitle(p.Name)
	s.approvedTools = tools
	for _, slug := range slugs(p) {
		if s.registration.Rename(slug, p.Name) == nil {
			break // otherwise it keeps its name
		}
	}
	s.updateTools()
}

// updateTools offers the approved and the recent tools. The caller holds mu.
func (s *slot) updateTools() {
	tools := s.approvedTools
	if len(s.recentTools) > 0 {
		tools = slices.Concat(tools, s.recentTools)
	}
	s.registration.SetTools(tools)
}

// attach puts a connected node into its slot.
func (all *slots) attach(n *node, p store.Peer) (*hub.Registration, error) {
	id := ProviderID(n.id)
	all.mu.Lock()
	defer all.mu.Unlock()
	if s := all.byProvider[id]; s != nil && s.owner != n.owner {
		all.unregister(id)
	}
	s := all.byProvider[id]
	if s == nil {
		var err error
		if s, err = all.register(p); err != nil {
			return nil, err
		}
	}
	s.awayFingerprint = 0
	s.node.Store(n)
	s.epoch = s.registration.Hold(true) // it is the newest connection
	return s.registration, nil
}

// offer offers a node's tools if it occupies its slot. With whole, they are all of its tools;
// otherwise recently published ones stay offered.
func (all *slots) offer(n *node, p store.Peer, tools []tool.Tool, whole bool) bool {
	all.mu.Lock()
	defer all.mu.Unlock()
	s := all.byProvider[ProviderID(n.id)]
	if s == nil || s.node.Load() != n {
		return false
	}
	if whole {
		s.recentTools = nil
	}
	s.offer(p, tools)
	return true
}

// detach removes a disconnected node from its slot. tools stay offered, and published for a
// while; without either, the slot is removed.
func (all *slots) detach(n *node, p store.Peer, tools, published []tool.Tool) {
	id := ProviderID(n.id)
	all.mu.Lock()
	defer all.mu.Unlock()
	s := all.byProvider[id]
	if s == nil || s.node.Load() != n {
		return
	}
	if len(published) > 0 {
		s.recentTools = published
	}
	if len(s.recentTools) > 0 {
		s.recentUntil = time.Now().Add(all.recentTTL)
	} else if len(tools) == 0 {
		all.unregister(id)
		return
	}
	s.offer(p, tools)
	s.node.Store(nil)
	s.registration.Hold(false)
}

// expireRecent withdraws recently published tools after their retention.
func (all *slots) expireRecent(now time.Time) {
	all.mu.Lock()
	defer all.mu.Unlock()
	for id, s := range all.byProvider {
		if len(s.recentTools) == 0 || now.Before(s.recentUntil) {
			continue
		}
		if s.recentTools = nil; len(s.approvedTools) == 0 && s.node.Load() == nil {
			all.unregister(id)
		} else {
			s.updateTools()
		}
	}
}

// syncAway gives a disconnected node a slot with its approved tools, or removes the slot if
// there are none. It ignores nodes that are connected here and nodes that did not change.
func (all *slots) syncAway(p store.Peer, tools func() []tool.Tool) {
	id, fingerprint := ProviderID(p.ID), peerFingerprint(&p)
	all.mu.Lock()
	defer all.mu.Unlock()
	s := all.byProvider[id]
	if all.closed || s != nil && (s.node.Load() != nil || s.awayFingerprint == fingerprint) {
		return
	}
	list := tools()
	if s != nil && s.awayFingerprint != 0 {
		s.recentTools = nil // its approved commands have changed
	}
	if s != nil && (s.owner != p.Owner || len(list)+len(s.recentTools) == 0) {
		all.unregister(id)
		s = nil
	}
	if s == nil && len(list) > 0 {
		s, _ = all.register(p) // fails if another node of this name has both prefixes
	}
	if s != nil {
		s.offer(p, list)
		s.awayFingerprint = fingerprint
	}
}

var fingerprintSeed = maphash.MakeSeed()

// peerFingerprint returns a hash of what determines a peer's tools.
func peerFingerprint(p *store.Peer) uint64 {
	var h maphash.Hash
	h.SetSeed(fingerprintSeed)
	for _, words := range [][]string{{p.Owner, p.Name, p.Platform, p.Family, p.SurfaceAt.String()}, p.Commands,
		p.DeclaredCommands, p.DeclaredCaps} {
		for _, w := range words {
			h.WriteString(w) //nolint:errcheck // never fails
			h.WriteByte(0)   //nolint:errcheck // never fails
		}
		h.WriteByte(1) //nolint:errcheck // never fails
	}
	return max(h.Sum64(), 1)
}

// remove removes the slot of a removed node.
func (all *slots) remove(device string) {
	all.mu.Lock()
	defer all.mu.Unlock()
	all.unregister(ProviderID(device))
}

// awayDevices returns the nodes that have a slot but are not connected here.
func (all *slots) awayDevices() (devices []string) {
	all.mu.Lock()
	defer all.mu.Unlock()
	for _, s := range all.byProvider {
		if s.node.Load() == nil {
			devices = append(devices, s.device)
		}
	}
	return devices
}

// close removes all slots and rejects further ones.
func (all *slots) close() {
	all.mu.Lock()
	defer all.mu.Unlock()
	all.closed = true
	for id := range all.byProvider {
		all.unregister(id)
	}
}

// syncAway offers the approved tools of a node that is not connected here.
func (g *Gateway) syncAway(p store.Peer) {
	g.slots.syncAway(p, func() []tool.Tool {
		if p.SurfaceAt.IsZero() {
			return nil
		}
		surface := surfaceOf(p)
		commands := g.policy.Effective(&surface)
		slices.Sort(commands)
		return g.toolLists.commands(commands)
	})
}
