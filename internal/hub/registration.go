package hub

import (
	"fmt"

	"patchbay/internal/tool"
)

// Registration is a registered provider. It is safe for concurrent use.
type Registration struct {
	catalog  *catalog
	provider tool.Provider

	// The fields below are guarded by catalog.mu.
	offer        *offer
	epoch        int64 // number of the newest connection by which the provider is or was held
	unregistered bool
}

func (s *Registration) registrationError() error {
	return fmt.Errorf("%w: %s %s", ErrProviderInUse, s.offer.Kind, s.offer.Title)
}

// notifyChanged invalidates snapshots and wakes watchers after a change of the registration; it
// announces the change to other instances if known is set. Requires catalog.mu.
func (s *Registration) notifyChanged(known bool) {
	s.catalog.invalidate(s.offer.Owner)
	s.catalog.notifyWatchers()
	if known && s.catalog.announce != nil {
		s.catalog.announce(s.offer.ID)
	}
}

// SetTools replaces the provider's tools. The slice is kept, and other registrations may share it:
// the caller must not change it afterwards.
func (s *Registration) SetTools(tools []tool.Tool) {
	for _, t := range s.setTools(tools) {
		s.catalog.log.Warn("a tool is left out, since another of the same provider has its name",
			"provider", s.ref().ID, "tool", t)
	}
}

func (s *Registration) setTools(tools []tool.Tool) (twins []string) {
	s.catalog.mu.Lock()
	defer s.catalog.mu.Unlock()
	if s.unregistered || sameTools(s.offer.list, tools) {
		return nil
	}
	was := s.offer
	s.offer, twins = s.catalog.offer(was.ProviderRef, s.provider, tools)
	s.offer.since, s.offer.changes = was.since, was.changes
	s.notifyChanged(was.Held)
	return twins
}

// NotifyContentChanged tells watchers that the provider's list of prompts or resources has changed.
func (s *Registration) NotifyContentChanged() {
	s.catalog.mu.Lock()
	defer s.catalog.mu.Unlock()
	if s.unregistered {
		return
	}
	next := *s.offer
	next.changes++
	s.offer = &next
	s.notifyChanged(next.Held)
}

// NotifyResourceUpdated tells watchers that the contents of a resource have changed.
func (s *Registration) NotifyResourceUpdated(uri string) {
	s.catalog.mu.Lock()
	tell, tellOthers, o := s.catalog.onUpdated, s.catalog.tellWatchers, s.offer.ProviderRef
	s.catalog.mu.Unlock()
	for _, f := range tell {
		f(o, uri)
	}
	if tellOthers != nil {
		tellOthers(resourceRef{o.ID, uri})
	}
}

// Movable is implemented by a provider that one instance holds and that can connect to another
// instance.
type Movable interface {
	// Moved is called when the provider has connected to another instance: connections with
	// numbers up to the given one (see [Registration.Hold]) must not be used any more. It must
	// not block.
	Moved(upTo int64)
}

// Hold sets whether this instance holds the provider, as it does while a device is connected to it.
// Calls of a provider that is not held here go to the instance that holds it, if there is one.
// Hold(true) makes this instance the newest holder and returns the number of the connection: call
// it for every new connection. A [Movable] provider is told when another instance becomes the
// newer holder.
func (s *Registration) Hold(held bool) (epoch int64) {
	s.catalog.mu.Lock()
	defer s.catalog.mu.Unlock()
	if s.unregistered || !held && !s.offer.Held {
		return s.epoch
	}
	if held {
		s.epoch = s.catalog.epochs.next()
	}
	if s.offer.Held == held {
		if s.catalog.announce != nil {
			s.catalog.announce(s.offer.ID)
		}
		return s.epoch
	}
	s.setHeld(held)
	return s.epoch
}

// setHeld sets whether the provider is held here. Requires catalog.mu.
func (s *Registration) setHeld(held bool) {
	o := s.offer.ProviderRef
	o.Held = held
	s.offer = s.offer.withRef(o)
	s.notifyChanged(true)
}

// Rename changes the provider's slug and title, and with it the full names of its tools. It returns
// [ErrProviderInUse] if the slug is in use, and an error if the slug is invalid or the provider is
// not registered any more; then nothing changes.
func (s *Registration) Rename(slug, title string) error {
	if slug != "" {
		if err := CheckSlug(slug); err != nil {
			return err
		}
	}
	s.catalog.mu.Lock()
	defer s.catalog.mu.Unlock()
	was := s.offer
	switch {
	case s.unregistered:
		return errUnregistered
	case was.Slug == slug && was.Title == title:
		return nil
	}
	if err := s.catalog.checkSlugFree(slug, was.Owner, s); err != nil {
		return err
	}
	o := was.ProviderRef
	o.Slug, o.Title = slug, title
	s.catalog.releaseSlug(s)
	if was.Slug == slug {
		s.offer = was.withRef(o)
	} else {
		s.offer, _ = s.catalog.offer(o, s.provider, was.list)
		s.offer.since, s.offer.changes = was.since, was.changes
	}
	s.catalog.claimSlug(s)
	s.notifyChanged(o.Held)
	return nil
}

// Unregister removes the provider from the hub. Running calls continue.
func (s *Registration) Unregister() {
	c := s.catalog
	c.mu.Lock()
	defer c.mu.Unlock()
	if s.unregistered {
		return
	}
	s.unregistered = true
	c.releaseSlug(s)
	delete(c.local, s.offer.ID)
	c.dropAbsent(s.offer.ID)
	c.removeOwned(s.offer.Owner, s.offer.ID)
	s.notifyChanged(true)
}

func (s *Registration) ref() ProviderRef {
	s.catalog.mu.Lock()
	defer s.catalog.mu.Unlock()
	return s.offer.ProviderRef
}
