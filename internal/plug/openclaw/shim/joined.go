package shim

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"patchbay/internal/hub"
	"patchbay/internal/tool"
)

// joinedGateway is a gateway that devices join.
type joinedGateway struct {
	m    *Manager
	spec Spec
	log  *slog.Logger

	ctx    context.Context
	cancel context.CancelFunc
	done   chan struct{} // closed when run has returned
	slots  chan struct{} // one entry per running call

	mu     sync.Mutex
	nodes  map[string]*node // by device id; "" in mode OneNode
	excess []Device         // beyond maxNodes
}

func newJoinedGateway(m *Manager, spec Spec) *joinedGateway {
	s := &joinedGateway{
		m: m, spec: spec, log: m.opt.Logger.With("gateway", spec.ID), done: make(chan struct{}),
		slots: make(chan struct{}, maxCalls),
		nodes: map[string]*node{},
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s
}

// run keeps the devices joined until it is stopped.
func (s *joinedGateway) run() {
	defer close(s.done)
	var work sync.WaitGroup // of nodes
	defer work.Wait()
	if s.ctx.Err() != nil {
		return
	}
	changes, forget := s.m.opt.Source.Watch()
	defer forget()
	var told <-chan hub.Notice
	if s.spec.Notices {
		notices, forget := s.m.opt.Source.Notices(s.spec.Owner)
		defer forget()
		told = notices
	}
	look := time.After(0) // nil: nothing has changed
	for {
		select {
		case <-s.ctx.Done():
			return
		case _, ok := <-changes:
			if !ok {
				changes = nil
			}
			if look == nil {
				look = time.After(s.m.opt.times.refreshDelay)
			}
		case <-look:
			look = nil
			if err := s.refresh(&work); err != nil {
				s.log.Warn("openclaw: the devices for a gateway cannot be listed", "error", err)
				look = time.After(s.m.opt.times.retryDelay)
			}
		case n, ok := <-told:
			if !ok {
				told = nil
				continue
			}
			s.forwardNotice(n)
		}
	}
}

// refresh reads the devices and updates the nodes.
func (s *joinedGateway) refresh(work *sync.WaitGroup) error {
	all, err := s.m.opt.Source.Devices(s.spec)
	if err != nil {
		return err
	}
	all = slices.DeleteFunc(slices.Clone(all), func(d Device) bool {
		return d.ID == "" || d.Slug == "" || len(s.spec.Devices) > 0 && !tool.MatchAny(s.spec.Devices, d.Slug)
	})
	slices.SortFunc(all, func(a, b Device) int { return cmp.Compare(a.ID, b.ID) })
	all = slices.CompactFunc(all, func(a, b Device) bool { return a.ID == b.ID })

	wanted, many := s.planNodes(all)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.excess = many; len(many) > 0 {
		s.log.Warn("openclaw: there are more devices than may join one gateway", "most", maxNodes, "left", len(many))
	}
	for key, n := range s.nodes {
		if _, ok := wanted[key]; !ok {
			delete(s.nodes, key)
			n.cancel()
		}
	}
	for key, o := range wanted {
		if n := s.nodes[key]; n != nil {
			n.setSurface(o)
			continue
		}
		n := newNode(s, key, o)
		s.nodes[key] = n
		work.Go(n.run)
	}
	return nil
}

// planNodes returns the wanted nodes, and the devices beyond the limit.
func (s *joinedGateway) planNodes(all []Device) (map[string]*surface, []Device) {
	if s.spec.Mode == OneNode {
		return map[string]*surface{"": newSurface(cmp.Or(s.spec.Title, "Patchbay"), all)}, nil
	}
	// Nodes that have joined keep their places.
	s.mu.Lock()
	slices.SortStableFunc(all, func(a, b Device) int {
		_, joinedA := s.nodes[a.ID]
		_, joinedB := s.nodes[b.ID]
		switch {
		case joinedA == joinedB:
			return 0
		case joinedA:
			return -1
		}
		return 1
	})
	s.mu.Unlock()
	some := all[:min(len(all), maxNodes)]
	wanted := make(map[string]*surface, len(some))
	for _, d := range some {
		wanted[d.ID] = newSurface(cmp.Or(d.Title, d.Slug), []Device{d})
	}
	return wanted, all[len(some):]
}

// status returns the status of the nodes.
func (s *joinedGateway) status() []Status {
	s.mu.Lock()
	nodes, many := make([]*node, 0, len(s.nodes)), s.excess
	for _, n := range s.nodes {
		nodes = append(nodes, n)
	}
	s.mu.Unlock()
	list := make([]Status, 0, len(nodes)+len(many))
	for _, n := range nodes {
		list = append(list, n.report())
	}
	slices.SortFunc(list, func(a, b Status) int { return cmp.Compare(a.Device, b.Device) })
	for _, d := range many {
		list = append(list, Status{Device: d.ID, Name: cmp.Or(d.Title, d.Slug), State: Failed,
			Message: msgTooMany.With(maxNodes)})
	}
	return list
}

// forwardNotice passes a notification to the node of its device.
func (s *joinedGateway) forwardNotice(n hub.Notice) {
	s.mu.Lock()
	to := s.nodes[n.Provider]
	if s.spec.Mode == OneNode {
		to = s.nodes[""]
	}
	s.mu.Unlock()
	if to != nil {
		to.forwardNotice(n)
	}
}
