package board

import (
	"fmt"

	"patchbay/internal/tool"
)

// Socket holds a provider in its outlet. It is safe for concurrent use.
type Socket struct {
	catalog  *catalog
	provider tool.Provider

	// The rest with catalog.mu held.
	offer *offer
	held  int64 // the number of the newest connection by which it is held, or was
	out   bool
}

func (s *Socket) inTheWay() error {
	return fmt.Errorf("%w: %s %s", ErrPlugged, s.offer.Kind, s.offer.Title)
}

// changed tells everybody who has to know that the socket offers something else;
// other instances, if they know of it. With catalog.mu held.
func (s *Socket) changed(known bool) {
	s.catalog.stale(s.offer.Owner)
	s.catalog.wake()
	if known && s.catalog.tell != nil {
		s.catalog.tell(s.offer.ID)
	}
}

// Offer says which tools the provider has from now on. The slice is kept, and
// can be offered by other sockets too: nobody may change it any more.
func (s *Socket) Offer(tools []tool.Tool) {
	for _, t := range s.offerTools(tools) {
		s.catalog.log.Warn("a tool is left out, since another of the same provider has its name", "provider", s.outlet().ID, "tool", t)
	}
}

func (s *Socket) offerTools(tools []tool.Tool) (twins []string) {
	s.catalog.mu.Lock()
	defer s.catalog.mu.Unlock()
	if s.out || same(s.offer.list, tools) {
		return nil
	}
	was := s.offer
	s.offer, twins = s.catalog.offer(was.Outlet, s.provider, tools)
	s.offer.since, s.offer.changes = was.since, was.changes
	s.changed(was.Held)
	return twins
}

// Changed says that the provider's prompts or resources have changed.
func (s *Socket) Changed() {
	s.catalog.mu.Lock()
	defer s.catalog.mu.Unlock()
	if s.out {
		return
	}
	next := *s.offer
	next.changes++
	s.offer = &next
	s.changed(false)
}

// Updated says that one of the provider's resources has other contents now.
func (s *Socket) Updated(uri string) {
	s.catalog.mu.Lock()
	tell, o := s.catalog.updated, s.offer.Outlet
	s.catalog.mu.Unlock()
	for _, f := range tell {
		f(o, uri)
	}
}

// Movable is a provider that this instance may hold alone, and that can connect to another
// one.
type Movable interface {
	// Moved says that it has: connections with numbers up to the given one (see
	// [Socket.Hold]) are not to be used any more. It does not block.
	Moved(upTo int64)
}

// Hold says whether this instance alone has the provider from now on, as it has a
// device's connection. Calls of an outlet that is not held go to the instance that
// holds it, if there is one. To say again that it is held makes this the newest
// holder: call it for every new connection, of which it returns the number. A
// provider that is [Movable] hears if another instance becomes a newer holder.
func (s *Socket) Hold(held bool) (epoch int64) {
	s.catalog.mu.Lock()
	defer s.catalog.mu.Unlock()
	if s.out || !held && !s.offer.Held {
		return s.held
	}
	if held {
		s.held = s.catalog.epochs.next()
	}
	if s.offer.Held == held {
		if s.catalog.tell != nil {
			s.catalog.tell(s.offer.ID)
		}
		return s.held
	}
	s.setHeld(held)
	return s.held
}

// setHeld changes whether the provider is held here. With catalog.mu held.
func (s *Socket) setHeld(held bool) {
	o := s.offer.Outlet
	o.Held = held
	s.offer = s.offer.as(o)
	s.changed(true)
}

// Rename gives the outlet another slug and title: the same tools have other full
// names. It returns [ErrPlugged] if the slug is in use, and an error if it cannot
// begin names or the outlet is not plugged in any more; nothing changes then.
func (s *Socket) Rename(slug, title string) error {
	if slug != "" {
		if err := CheckSlug(slug); err != nil {
			return err
		}
	}
	s.catalog.mu.Lock()
	defer s.catalog.mu.Unlock()
	was := s.offer
	switch {
	case s.out:
		return errGone
	case was.Slug == slug && was.Title == title:
		return nil
	}
	if err := s.catalog.free(slug, was.Owner, s); err != nil {
		return err
	}
	o := was.Outlet
	o.Slug, o.Title = slug, title
	s.catalog.release(s)
	if was.Slug == slug {
		s.offer = was.as(o)
	} else {
		s.offer, _ = s.catalog.offer(o, s.provider, was.list)
		s.offer.since, s.offer.changes = was.since, was.changes
	}
	s.catalog.claim(s)
	s.changed(o.Held)
	return nil
}

// Unplug takes the provider out. Running calls are not ended by that.
func (s *Socket) Unplug() {
	c := s.catalog
	c.mu.Lock()
	defer c.mu.Unlock()
	if s.out {
		return
	}
	s.out = true
	c.release(s)
	delete(c.here, s.offer.ID)
	c.dropAbsent(s.offer.ID)
	c.unlist(s.offer.Owner, s.offer.ID)
	s.changed(true)
}

func (s *Socket) outlet() Outlet {
	s.catalog.mu.Lock()
	defer s.catalog.mu.Unlock()
	return s.offer.Outlet
}
