package gateway

import (
	"context"
	"hash/maphash"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"patchbay/internal/board"
	"patchbay/internal/store"
	"patchbay/internal/tool"
)

// slot is where a node is plugged into the board. A node of which something was approved
// stays plugged in while it is away, on every instance, so that its commands stay listed
// and calls say that it is not connected.
type slot struct {
	node   atomic.Pointer[node] // nil: it is not connected to this instance
	epoch  int64                // the number of its connection. With slots.mu held
	all    *slots
	device string
	owner  string
	title  atomic.Pointer[string]
	socket *board.Socket
	was    uint64 // the print of the peer that settled here last; 0: of none. With slots.mu held

	// lately are the tools that the node published when it was connected last. They stay
	// offered until it publishes again, or for a while: a model that is told of an unknown
	// tool forgets it. With slots.mu held
	lately []tool.Tool
	until  time.Time
	rest   []tool.Tool // what is offered besides
}

// slots are those of all nodes, by the ids of their outlets.
type slots struct {
	hub    *board.Board
	lately time.Duration // see [Timings]

	// mu is held while the board is told something. Locks of nodes and of the gateway are
	// not taken then.
	mu     sync.Mutex
	of     map[string]*slot
	closed bool
}

// Call implements [tool.Provider].
func (s *slot) Call(ctx context.Context, c *tool.Call) (*tool.Result, error) {
	if n := s.node.Load(); n != nil {
		return n.Call(ctx, c)
	}
	name := "The node"
	if title := *s.title.Load(); title != "" {
		name += " " + title
	}
	return nil, tool.Fail(tool.Offline, name+" is not connected at the moment; nothing was done. Call again when it is back.", nil)
}

// Moved implements [board.Movable]: the node has connected to another instance.
func (s *slot) Moved(upTo int64) {
	s.all.mu.Lock()
	n, stays := s.node.Load(), s.epoch > upTo
	s.all.mu.Unlock()
	if n != nil && !stays {
		n.retire()
	}
}

// called notes the name of the node.
func (s *slot) called(name string) { s.title.Store(&name) }

// slugs begin the names of the tools of a node: the second is taken if the first is in
// use.
func slugs(p store.Peer) []string { return []string{slugOf(p), plainSlug(p.ID)} }

// plug makes the slot of a node. With mu held.
func (all *slots) plug(p store.Peer) (*slot, error) {
	s := &slot{all: all, device: p.ID, owner: p.Owner}
	s.called(p.Name)
	o := board.Outlet{ID: OutletOf(p.ID), Owner: p.Owner, Kind: KindNode, Title: p.Name, Timeout: maxInvoke + time.Minute}
	var err error
	for _, o.Slug = range slugs(p) {
		if s.socket, err = all.hub.Plug(o, s); err == nil {
			all.of[o.ID] = s
			return s, nil
		}
	}
	return nil, err
}

// unplug takes a slot out. With mu held.
func (all *slots) unplug(id string) {
	if s := all.of[id]; s != nil {
		s.socket.Unplug()
		delete(all.of, id)
	}
}

// offer offers tools of a node, under the name that it has now. With mu held.
func (s *slot) offer(p store.Peer, tools []tool.Tool) {
	s.called(p.Name)
	s.rest = tools
	for _, slug := range slugs(p) {
		if s.socket.Rename(slug, p.Name) == nil {
			break // or it keeps the name that it has
		}
	}
	s.reoffer()
}

// reoffer offers what there is, and was lately. With mu held.
func (s *slot) reoffer() {
	tools := s.rest
	if len(s.lately) > 0 {
		tools = slices.Concat(tools, s.lately)
	}
	s.socket.Offer(tools)
}

// take puts a node into its slot that has connected.
func (all *slots) take(n *node, p store.Peer) (*board.Socket, error) {
	id := OutletOf(n.id)
	all.mu.Lock()
	defer all.mu.Unlock()
	if s := all.of[id]; s != nil && s.owner != n.owner {
		all.unplug(id)
	}
	s := all.of[id]
	if s == nil {
		var err error
		if s, err = all.plug(p); err != nil {
			return nil, err
		}
	}
	s.was = 0
	s.node.Store(n)
	s.epoch = s.socket.Hold(true) // it is the newest
	return s.socket, nil
}

// offer offers tools of a node, if it is the one in its slot. With whole, they are everything
// that it has; it may have published some lately otherwise.
func (all *slots) offer(n *node, p store.Peer, tools []tool.Tool, whole bool) bool {
	all.mu.Lock()
	defer all.mu.Unlock()
	s := all.of[OutletOf(n.id)]
	if s == nil || s.node.Load() != n {
		return false
	}
	if whole {
		s.lately = nil
	}
	s.offer(p, tools)
	return true
}

// leave takes a node out of its slot that has gone. It keeps tools, and for a while what the
// node published; without either, the slot goes too.
func (all *slots) leave(n *node, p store.Peer, tools, published []tool.Tool) {
	id := OutletOf(n.id)
	all.mu.Lock()
	defer all.mu.Unlock()
	s := all.of[id]
	if s == nil || s.node.Load() != n {
		return
	}
	if len(published) > 0 {
		s.lately = published
	}
	if len(s.lately) > 0 {
		s.until = time.Now().Add(all.lately)
	} else if len(tools) == 0 {
		all.unplug(id)
		return
	}
	s.offer(p, tools)
	s.node.Store(nil)
	s.socket.Hold(false)
}

// lapse takes back what nodes published lately, and did not again for long enough.
func (all *slots) lapse(now time.Time) {
	all.mu.Lock()
	defer all.mu.Unlock()
	for id, s := range all.of {
		if len(s.lately) == 0 || now.Before(s.until) {
			continue
		}
		if s.lately = nil; len(s.rest) == 0 && s.node.Load() == nil {
			all.unplug(id)
		} else {
			s.reoffer()
		}
	}
}

// settle sees to it that a node which is away has a slot with the tools that it is to
// have; if there are none, that it has no slot. It leaves those alone that are connected
// here, and those that are as they were.
func (all *slots) settle(p store.Peer, tools func() []tool.Tool) {
	id, print := OutletOf(p.ID), printOf(&p)
	all.mu.Lock()
	defer all.mu.Unlock()
	s := all.of[id]
	if all.closed || s != nil && (s.node.Load() != nil || s.was == print) {
		return
	}
	list := tools()
	if s != nil && s.was != 0 {
		s.lately = nil // what was approved of it has changed
	}
	if s != nil && (s.owner != p.Owner || len(list)+len(s.lately) == 0) {
		all.unplug(id)
		s = nil
	}
	if s == nil && len(list) > 0 {
		s, _ = all.plug(p) // whoever is in the way of both names is another node of this name
	}
	if s != nil {
		s.offer(p, list)
		s.was = print
	}
}

var printSeed = maphash.MakeSeed()

// printOf tells peers apart that may offer something else.
func printOf(p *store.Peer) uint64 {
	var h maphash.Hash
	h.SetSeed(printSeed)
	for _, words := range [][]string{{p.Owner, p.Name, p.Platform, p.Family, p.SurfaceAt.String()}, p.Commands, p.DeclaredCommands, p.DeclaredCaps} {
		for _, w := range words {
			h.WriteString(w) //nolint:errcheck // never fails
			h.WriteByte(0)   //nolint:errcheck // never fails
		}
		h.WriteByte(1) //nolint:errcheck // never fails
	}
	return max(h.Sum64(), 1)
}

// forget takes out the slot of a node that was removed.
func (all *slots) forget(device string) {
	all.mu.Lock()
	defer all.mu.Unlock()
	all.unplug(OutletOf(device))
}

// away are the nodes that are not connected here, and have a slot nevertheless.
func (all *slots) away() (devices []string) {
	all.mu.Lock()
	defer all.mu.Unlock()
	for _, s := range all.of {
		if s.node.Load() == nil {
			devices = append(devices, s.device)
		}
	}
	return devices
}

// close takes all slots out, and lets nobody in any more.
func (all *slots) close() {
	all.mu.Lock()
	defer all.mu.Unlock()
	all.closed = true
	for id := range all.of {
		all.unplug(id)
	}
}

// settle offers what was approved of a node that is not connected here.
func (g *Gateway) settle(p store.Peer) {
	g.slots.settle(p, func() []tool.Tool {
		if p.SurfaceAt.IsZero() {
			return nil
		}
		surface := surfaceOf(p)
		commands := g.policy.Effective(&surface)
		slices.Sort(commands)
		return g.lists.commands(commands)
	})
}
