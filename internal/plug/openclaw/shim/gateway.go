package shim

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"patchbay/internal/board"
	"patchbay/internal/tool"
)

// shim is a gateway that is joined.
type shim struct {
	m    *Manager
	spec Spec
	log  *slog.Logger

	ctx    context.Context
	cancel context.CancelFunc
	done   chan struct{} // closed when run is over
	slots  chan struct{} // holds the calls that run

	mu    sync.Mutex
	nodes map[string]*node // by the ids of devices; "" in mode One
	many  []Device         // that are too many
}

func newShim(m *Manager, spec Spec) *shim {
	s := &shim{
		m: m, spec: spec, log: m.opt.Logger.With("gateway", spec.ID), done: make(chan struct{}), slots: make(chan struct{}, maxCalls),
		nodes: map[string]*node{},
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s
}

// run has the devices join until the shim is ended.
func (s *shim) run() {
	defer close(s.done)
	var work sync.WaitGroup // of nodes
	defer work.Wait()
	if s.ctx.Err() != nil {
		return
	}
	changes, forget := s.m.opt.Source.Watch()
	defer forget()
	var told <-chan board.Notice
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
				look = time.After(s.m.opt.times.coalesce)
			}
		case <-look:
			look = nil
			if err := s.look(&work); err != nil {
				s.log.Warn("openclaw: the devices for a gateway cannot be listed", "error", err)
				look = time.After(s.m.opt.times.again)
			}
		case n, ok := <-told:
			if !ok {
				told = nil
				continue
			}
			s.pass(n)
		}
	}
}

// look finds out which devices there are, and makes them nodes.
func (s *shim) look(work *sync.WaitGroup) error {
	all, err := s.m.opt.Source.Devices(s.spec)
	if err != nil {
		return err
	}
	all = slices.DeleteFunc(slices.Clone(all), func(d Device) bool {
		return d.ID == "" || d.Slug == "" || len(s.spec.Devices) > 0 && !tool.MatchAny(s.spec.Devices, d.Slug)
	})
	slices.SortFunc(all, func(a, b Device) int { return cmp.Compare(a.ID, b.ID) })
	all = slices.CompactFunc(all, func(a, b Device) bool { return a.ID == b.ID })

	wanted, many := s.wanted(all)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.many = many; len(many) > 0 {
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
			n.set(o)
			continue
		}
		n := newNode(s, key, o)
		s.nodes[key] = n
		work.Go(n.run)
	}
	return nil
}

// wanted are the nodes that there should be, and the devices that are too many.
func (s *shim) wanted(all []Device) (map[string]*offer, []Device) {
	if s.spec.Mode == One {
		return map[string]*offer{"": newOffer(cmp.Or(s.spec.Title, "Patchbay"), all)}, nil
	}
	// Those that have joined stay, whoever else comes.
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
	wanted := make(map[string]*offer, len(some))
	for _, d := range some {
		wanted[d.ID] = newOffer(cmp.Or(d.Title, d.Slug), []Device{d})
	}
	return wanted, all[len(some):]
}

// status tells how the nodes are.
func (s *shim) status() []Status {
	s.mu.Lock()
	nodes, many := make([]*node, 0, len(s.nodes)), s.many
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
		list = append(list, Status{Device: d.ID, Name: cmp.Or(d.Title, d.Slug), State: Failed, Told: say(sayTooMany, maxNodes)})
	}
	return list
}

// pass hands a notice to the node whose device has told it.
func (s *shim) pass(n board.Notice) {
	s.mu.Lock()
	to := s.nodes[n.Outlet]
	if s.spec.Mode == One {
		to = s.nodes[""]
	}
	s.mu.Unlock()
	if to != nil {
		to.tell(n)
	}
}
