package hub

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"time"

	"patchbay/internal/i18n"
	"patchbay/internal/tool"
)

// ProviderRef identifies a registered provider.
type ProviderRef struct {
	// ID is stable and unique: "upstream:3".
	ID string `json:"id"`
	// Owner is the id of the person who owns the tools; empty means that they are everybody's.
	Owner string `json:"owner,omitempty"`
	// Slug is the prefix of the tools' full names: lower-case letters, digits and "-". It is
	// unique among the providers that a person sees. Empty means no prefix.
	Slug string `json:"slug,omitempty"`
	// Kind and Title describe the provider, for programs and for people.
	Kind  string `json:"kind"`
	Title string `json:"title,omitempty"`
	// Timeout is the limit of a call; 0 means 5 min.
	Timeout time.Duration `json:"timeout,omitempty"`
	// Held means that this instance holds the provider, as it does while a device is connected
	// to it: other instances reach it through this one. [Registration.Hold] changes it.
	Held bool `json:"held,omitempty"`
}

// DeviceProviderPrefix is the prefix of the provider ids of devices.
const DeviceProviderPrefix = "board:"

// DeviceProviderID returns the provider id of a device.
func DeviceProviderID(number int64) string {
	return DeviceProviderPrefix + strconv.FormatInt(number, 10)
}

// callTimeout is the default of [ProviderRef].Timeout. It is long because a tool may ask a person
// or run a job.
const callTimeout = 5 * time.Minute

// slugForm allows no underscore, so that the first one in a full name ends the slug.
var slugForm = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,31}$`)

// reservedSlugs are prefixes of tool names without a slug.
var reservedSlugs = []string{"send", "get", "list", "learn", "find", "call"}

// Errors about slugs.
const (
	msgSlugForm  = i18n.Message("%q cannot begin the names of tools: use 1 to 32 small letters, digits and -")
	msgSlugTaken = i18n.Message("%q is taken by Patchbay's own tools; choose another name")
)

// CheckSlug returns an error if a text is not a valid slug.
func CheckSlug(slug string) error {
	if !slugForm.MatchString(slug) {
		return msgSlugForm.Errorf(slug)
	}
	if slices.Contains(reservedSlugs, slug) {
		return msgSlugTaken.Errorf(slug)
	}
	return nil
}

// ErrProviderInUse is returned if a provider's id or slug is in use.
var ErrProviderInUse = errors.New("something else is plugged in there")

// backend executes the calls of a provider, on this instance or on another one.
type backend interface {
	Call(ctx context.Context, c *tool.Call) (*tool.Result, error)
}

// catalog has all registered providers, of this instance and of others. What a person sees of it is
// computed on demand and cached until it changes, since there can be ten thousand devices that
// connect and disconnect.
type catalog struct {
	log          logger
	installation string
	epochs       *epochs
	schemas      schemas
	onNotice     func(Notice) // set before the first registration

	mu     sync.Mutex
	local  map[string]*Registration              // by provider id
	remote map[string]map[string]*remoteProvider // instance → provider id
	// owned are the provider ids of each owner, on all instances, sorted.
	owned map[string][]string
	// slugs are those of this instance's providers; slugged counts them over all owners.
	slugs      map[slugKey]*Registration
	slugCounts map[string]int

	rules          map[string]ownerRules
	snapshots      sync.Map // person → *snapshot; changed with mu held
	snapshotCount  int      // how many of them there are
	watchers       map[chan struct{}]bool
	onUpdated      []func(ProviderRef, string)
	announce       func(id string) // announces a provider to other instances; may be nil
	forgetProvider func(instance, id string) bool
	onLog          []func(ProviderRef, tool.Log)
	tellLog        func(provider string, l tool.Log) // passes it to other instances; may be nil
	tellWatchers   func(resourceRef)                 // tells other instances of an update; may be nil
}

type slugKey struct{ slug, owner string }

type logger interface {
	Warn(msg string, args ...any)
}

func newCatalog(log logger, installation string, epochs *epochs) *catalog {
	return &catalog{
		log: log, installation: installation, epochs: epochs, onNotice: func(Notice) {},
		local: map[string]*Registration{}, remote: map[string]map[string]*remoteProvider{},
		owned: map[string][]string{}, slugs: map[slugKey]*Registration{}, slugCounts: map[string]int{},
		watchers: map[chan struct{}]bool{},
	}
}

// Register registers a provider, without tools yet. It returns [ErrProviderInUse] if the id is in
// use on this instance, or the slug by another provider that the same people see.
func (h *Hub) Register(o ProviderRef, p tool.Provider) (*Registration, error) {
	if o.Slug != "" {
		if err := CheckSlug(o.Slug); err != nil {
			return nil, err
		}
	}
	if o.Timeout == 0 {
		o.Timeout = callTimeout
	}
	c := h.catalog
	c.mu.Lock()
	defer c.mu.Unlock()
	if s := c.local[o.ID]; s != nil {
		return nil, s.registrationError()
	}
	if err := c.checkSlugFree(o.Slug, o.Owner, nil); err != nil {
		return nil, err
	}
	epoch := c.epochs.next()
	s := &Registration{catalog: c, provider: p, epoch: epoch}
	s.offer, _ = c.offer(o, p, nil)
	s.offer.since = epoch
	c.local[o.ID] = s
	c.claimSlug(s)
	c.addOwned(o.Owner, o.ID)
	s.notifyChanged(o.Held)
	return s, nil
}

// FindProvider returns a provider by its id, on any instance, with its tools; the zero ProviderRef
// and nil if there is none. The tools have the words of the provider's owner. Held reports whether
// any instance holds the provider.
func (h *Hub) FindProvider(id string) (o ProviderRef, held bool, tools []*RegisteredTool) {
	c := h.catalog
	c.mu.Lock()
	defer c.mu.Unlock()
	found := c.find(id)
	if found == nil {
		return ProviderRef{}, false, nil
	}
	found = found.withWords(c.rules[found.Owner])
	for i := range found.tools {
		tools = append(tools, &found.tools[i])
	}
	return found.ProviderRef, found.Held, tools
}

// find returns the offer that is valid for a provider id: that of the instance that holds the
// provider, and of several the one with the newest connection. If none does, the last holder's
// offer stays valid for a while, and then that of this instance. Nil if there is none. Requires mu.
func (c *catalog) find(id string) *offer {
	switch here, elsewhere := c.search(id); {
	case elsewhere != nil:
		return elsewhere.offer
	case here != nil:
		return here.offer
	}
	return nil
}

// search returns what [catalog.find] takes the offer of: one of the two, or neither. Requires mu.
func (c *catalog) search(id string) (here *Registration, elsewhere *remoteProvider) {
	s := c.local[id]
	if s != nil && s.offer.Held {
		return s, nil // released once a newer holder is announced
	}
	var best *remoteProvider
	for _, providers := range c.remote {
		a := providers[id]
		if a == nil || a.offer == nil {
			continue
		}
		if best == nil || a.ahead(best) {
			best = a
		}
	}
	if best != nil {
		return nil, best
	}
	return s, nil
}

// ahead reports whether a takes precedence over another instance's provider: one that is still held
// does, and otherwise the newer one.
func (a *remoteProvider) ahead(of *remoteProvider) bool {
	if held := a.expiresAt.IsZero(); held != of.expiresAt.IsZero() {
		return held
	}
	return newer(a.Epoch, a.instance, of.Epoch, of.instance)
}

// newer reports whether the first of two holds is the newer one. Ties are broken by the instance
// ids, in the same way on all instances.
func newer(epoch int64, instance string, than int64, of string) bool {
	return epoch > than || epoch == than && instance > of
}

// checkSlugFree returns [ErrProviderInUse] if a registration other than except uses the slug among
// the providers that the owner sees. Requires mu.
func (c *catalog) checkSlugFree(slug, owner string, except *Registration) error {
	if slug == "" {
		return nil
	}
	for _, by := range []string{owner, ""} {
		if s := c.slugs[slugKey{slug, by}]; s != nil && s != except {
			return s.registrationError()
		}
	}
	others := c.slugCounts[slug]
	if except != nil && except.offer.Slug == slug {
		others--
	}
	if owner == "" && others > 0 {
		return fmt.Errorf("%w: %q begins the names of somebody's tools", ErrProviderInUse, slug)
	}
	return nil
}

// claimSlug adds the slug of a registration; releaseSlug removes it. Requires mu.
func (c *catalog) claimSlug(s *Registration) {
	if o := s.offer; o.Slug != "" {
		c.slugs[slugKey{o.Slug, o.Owner}] = s
		c.slugCounts[o.Slug]++
	}
}

func (c *catalog) releaseSlug(s *Registration) {
	o := s.offer
	if o.Slug == "" {
		return
	}
	delete(c.slugs, slugKey{o.Slug, o.Owner})
	if c.slugCounts[o.Slug]--; c.slugCounts[o.Slug] == 0 {
		delete(c.slugCounts, o.Slug)
	}
}

// addOwned adds a provider id to its owner's list. Requires mu.
func (c *catalog) addOwned(owner, id string) {
	ids := c.owned[owner]
	if i, there := slices.BinarySearch(ids, id); !there {
		c.owned[owner] = slices.Insert(ids, i, id)
	}
}

// removeOwned removes a provider id from its owner's list, unless another instance still offers
// it. Requires mu.
func (c *catalog) removeOwned(owner, id string) {
	if s := c.local[id]; s != nil && s.offer.Owner == owner {
		return
	}
	for _, providers := range c.remote {
		if a := providers[id]; a != nil && a.offer != nil && a.offer.Owner == owner {
			return
		}
	}
	ids := c.owned[owner]
	if i, there := slices.BinarySearch(ids, id); there {
		ids = slices.Delete(ids, i, i+1)
	}
	if c.owned[owner] = ids; len(ids) == 0 {
		delete(c.owned, owner)
	}
}

// invalidate deletes the cached snapshots of the people who see an owner's providers. Requires mu.
func (c *catalog) invalidate(owner string) {
	if owner == "" {
		c.snapshots.Clear()
		c.snapshotCount = 0
		return
	}
	c.dropSnapshot(owner)
}

func (c *catalog) dropSnapshot(person string) {
	if _, there := c.snapshots.LoadAndDelete(person); there {
		c.snapshotCount--
	}
}

// notifyWatchers wakes the watchers. Requires mu.
func (c *catalog) notifyWatchers() {
	for w := range c.watchers {
		select {
		case w <- struct{}{}:
		default: // already woken
		}
	}
}

// setRules replaces the owners' rules about tools.
func (c *catalog) setRules(rules map[string]ownerRules) {
	c.mu.Lock()
	defer c.mu.Unlock()
	before := c.rules
	c.rules = rules
	differ := false
	for _, all := range []map[string]ownerRules{before, rules} {
		for person := range all {
			if !before[person].equal(rules[person]) {
				c.dropSnapshot(person)
				differ = true
			}
		}
	}
	if differ {
		c.notifyWatchers()
	}
}

func (r ownerRules) equal(o ownerRules) bool {
	return slices.Equal(r.allow, o.allow) && slices.Equal(r.deny, o.deny) && slices.Equal(r.only, o.only) &&
		maps.EqualFunc(r.sets, o.sets, slices.Equal) && maps.EqualFunc(r.words, o.words, sameWords)
}

// WatchTools returns a channel that receives a value after every change of the catalog or of the
// owners' rules, until unsubscribe is called. Several changes may be combined into one value.
func (h *Hub) WatchTools() (changes <-chan struct{}, unsubscribe func()) {
	w := make(chan struct{}, 1)
	c := h.catalog
	c.mu.Lock()
	defer c.mu.Unlock()
	c.watchers[w] = true
	return w, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.watchers, w)
	}
}

// OnResourceUpdated adds a function that is called when the contents of a resource have changed.
func (h *Hub) OnResourceUpdated(f func(ProviderRef, string)) {
	h.catalog.mu.Lock()
	defer h.catalog.mu.Unlock()
	h.catalog.onUpdated = append(slices.Clone(h.catalog.onUpdated), f)
}

// FullName returns the name by which callers know a tool or prompt of the provider.
func (o *ProviderRef) FullName(name string) string { return fullName(o.Slug, name) }
