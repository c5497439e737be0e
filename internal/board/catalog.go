package board

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"time"

	"patchbay/internal/talk"
	"patchbay/internal/tool"
)

// Outlet is what a provider is plugged in as.
type Outlet struct {
	// ID is stable and unique: "upstream:3".
	ID string `json:"id"`
	// Owner is the id of the person whose tools these are; empty: everybody's.
	Owner string `json:"owner,omitempty"`
	// Slug begins the names of the tools: lower case letters, digits and "-". It
	// is unique among those a person sees. Empty: the names stand as they are.
	Slug string `json:"slug,omitempty"`
	// Kind and Title say what it is, to programs and to people.
	Kind  string `json:"kind"`
	Title string `json:"title,omitempty"`
	// Timeout bounds a call; 0: 5 min.
	Timeout time.Duration `json:"timeout,omitempty"`
	// Held says that this instance alone has the provider, as it has a device's
	// connection: the other instances reach it through this one. It changes with
	// [Socket.Hold].
	Held bool `json:"held,omitempty"`
}

// DeviceOutlets is how the ids of the outlets begin that devices are plugged into.
const DeviceOutlets = "board:"

// DeviceOutlet is the id of the outlet that a device is plugged into.
func DeviceOutlet(number int64) string { return DeviceOutlets + strconv.FormatInt(number, 10) }

// callTimeout bounds a call of a provider that says nothing else. A tool may ask
// a person or run a job.
const callTimeout = 5 * time.Minute

// slugForm has no underscore, so that the first one in a tool's name ends the
// slug.
var slugForm = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,31}$`)

// reservedSlugs begin the names of tools without a slug.
var reservedSlugs = []string{"send", "get", "list", "learn", "find", "call"}

// What is wrong with a text that is to begin the names of tools.
var (
	saySlugForm  = talk.Say{Zh: "%q 不能作为工具名称的开头：请使用 1 到 32 个小写字母、数字和 -", En: "%q cannot begin the names of tools: use 1 to 32 small letters, digits and -"}
	saySlugTaken = talk.Say{Zh: "%q 已用于 Patchbay 自己的工具；请换一个名称", En: "%q is taken by Patchbay's own tools; choose another name"}
)

// CheckSlug finds out whether a text can begin the names of tools.
func CheckSlug(slug string) error {
	if !slugForm.MatchString(slug) {
		return saySlugForm.Wrong(slug)
	}
	if slices.Contains(reservedSlugs, slug) {
		return saySlugTaken.Wrong(slug)
	}
	return nil
}

// ErrPlugged says that an outlet, or its slug, is in use.
var ErrPlugged = errors.New("something else is plugged in there")

// place is where calls of a provider go: here, or to another instance.
type place interface {
	Call(ctx context.Context, c *tool.Call) (*tool.Result, error)
}

// catalog knows everything that offers tools. What a person sees of it is put
// together when somebody looks, and kept until it changes: there can be ten
// thousand devices here, which come and go.
type catalog struct {
	log          logger
	installation string
	epochs       *epochs
	schemas      schemas
	noticed      func(Notice) // set before anything is plugged in

	mu   sync.Mutex
	here map[string]*Socket          // by outlet id
	away map[string]map[string]*away // instance → outlet id
	// owned are the ids of the outlets of each owner, here and elsewhere, in
	// order.
	owned map[string][]string
	// slugs are those of the outlets here; slugged counts them over all owners.
	slugs   map[slugOf]*Socket
	slugged map[string]int

	rules     map[string]ownerRules
	snapshots sync.Map // person → *snapshot; changed with mu held
	kept      int      // how many of them there are
	watchers  map[chan struct{}]bool
	updated   []func(Outlet, string)
	tell      func(id string) // tells other instances of an outlet here; may be nil
	unlearn   func(instance, id string) bool
}

type slugOf struct{ slug, owner string }

type logger interface {
	Warn(msg string, args ...any)
}

func newCatalog(log logger, installation string, epochs *epochs) *catalog {
	return &catalog{
		log: log, installation: installation, epochs: epochs, noticed: func(Notice) {}, here: map[string]*Socket{}, away: map[string]map[string]*away{},
		owned: map[string][]string{}, slugs: map[slugOf]*Socket{}, slugged: map[string]int{}, watchers: map[chan struct{}]bool{},
	}
}

// Plug plugs a provider in, without tools yet. It returns [ErrPlugged] if the
// outlet's id is in use on this instance, or its slug by something that the same
// people see.
func (b *Board) Plug(o Outlet, p tool.Provider) (*Socket, error) {
	if o.Slug != "" {
		if err := CheckSlug(o.Slug); err != nil {
			return nil, err
		}
	}
	if o.Timeout == 0 {
		o.Timeout = callTimeout
	}
	c := b.catalog
	c.mu.Lock()
	defer c.mu.Unlock()
	if s := c.here[o.ID]; s != nil {
		return nil, s.inTheWay()
	}
	if err := c.free(o.Slug, o.Owner, nil); err != nil {
		return nil, err
	}
	epoch := c.epochs.next()
	s := &Socket{catalog: c, provider: p, held: epoch}
	s.offer, _ = c.offer(o, p, nil)
	s.offer.since = epoch
	c.here[o.ID] = s
	c.claim(s)
	c.list(o.Owner, o.ID)
	s.changed(o.Held)
	return s, nil
}

// Plugged finds an outlet by its id, here or on another instance, with the tools
// that it offers; the zero Outlet and nil if there is none. Held says whether an
// instance has the provider, this one or another.
func (b *Board) Plugged(id string) (o Outlet, held bool, tools []*Offered) {
	c := b.catalog
	c.mu.Lock()
	defer c.mu.Unlock()
	found := c.find(id)
	if found == nil {
		return Outlet{}, false, nil
	}
	for i := range found.tools {
		tools = append(tools, &found.tools[i])
	}
	return found.Outlet, found.Held, tools
}

// find decides what is offered under an outlet's id: by whoever holds it, and of
// several by the one that its provider connected to last. If nobody does, what the last
// holder offered counts for a while, and otherwise what is here. Nil if there is none. With
// mu held.
func (c *catalog) find(id string) *offer {
	s := c.here[id]
	if s != nil && s.offer.Held {
		return s.offer // it lets go when it hears of a newer one
	}
	var best *away
	for _, outlets := range c.away {
		a := outlets[id]
		if a == nil || a.offer == nil {
			continue
		}
		if best == nil || a.ahead(best) {
			best = a
		}
	}
	switch {
	case best != nil:
		return best.offer
	case s != nil:
		return s.offer
	}
	return nil
}

// ahead reports whether one of two instances counts as the holder: one that holds the outlet
// still does, and otherwise the newer one.
func (a *away) ahead(of *away) bool {
	if held := a.until.IsZero(); held != of.until.IsZero() {
		return held
	}
	return newer(a.Epoch, a.instance, of.Epoch, of.instance)
}

// newer reports whether the first of two holds is the newer one. Two of the same number
// are told apart by their instances, on all of them in the same way.
func newer(epoch int64, instance string, than int64, of string) bool {
	return epoch > than || epoch == than && instance > of
}

// free returns [ErrPlugged] if a slug is in use, by anything but except, where an
// owner's outlet would meet it. With mu held.
func (c *catalog) free(slug, owner string, except *Socket) error {
	if slug == "" {
		return nil
	}
	for _, by := range []string{owner, ""} {
		if s := c.slugs[slugOf{slug, by}]; s != nil && s != except {
			return s.inTheWay()
		}
	}
	others := c.slugged[slug]
	if except != nil && except.offer.Slug == slug {
		others--
	}
	if owner == "" && others > 0 {
		return fmt.Errorf("%w: %q begins the names of somebody's tools", ErrPlugged, slug)
	}
	return nil
}

// claim enters the slug of a socket, and release strikes it out. With mu held.
func (c *catalog) claim(s *Socket) {
	if o := s.offer; o.Slug != "" {
		c.slugs[slugOf{o.Slug, o.Owner}] = s
		c.slugged[o.Slug]++
	}
}

func (c *catalog) release(s *Socket) {
	o := s.offer
	if o.Slug == "" {
		return
	}
	delete(c.slugs, slugOf{o.Slug, o.Owner})
	if c.slugged[o.Slug]--; c.slugged[o.Slug] == 0 {
		delete(c.slugged, o.Slug)
	}
}

// list enters an outlet among its owner's. With mu held.
func (c *catalog) list(owner, id string) {
	ids := c.owned[owner]
	if i, there := slices.BinarySearch(ids, id); !there {
		c.owned[owner] = slices.Insert(ids, i, id)
	}
}

// unlist strikes an outlet out that one instance offered, unless another still
// does. With mu held.
func (c *catalog) unlist(owner, id string) {
	if s := c.here[id]; s != nil && s.offer.Owner == owner {
		return
	}
	for _, outlets := range c.away {
		if a := outlets[id]; a != nil && a.offer != nil && a.offer.Owner == owner {
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

// stale throws away what was put together for those who see an owner's outlets.
// With mu held.
func (c *catalog) stale(owner string) {
	if owner == "" {
		c.snapshots.Clear()
		c.kept = 0
		return
	}
	c.forget(owner)
}

func (c *catalog) forget(person string) {
	if _, there := c.snapshots.LoadAndDelete(person); there {
		c.kept--
	}
}

// wake wakes the watchers. With mu held.
func (c *catalog) wake() {
	for w := range c.watchers {
		select {
		case w <- struct{}{}:
		default: // woken already
		}
	}
}

// setRules replaces what owners decided about tools.
func (c *catalog) setRules(rules map[string]ownerRules) {
	c.mu.Lock()
	defer c.mu.Unlock()
	before := c.rules
	c.rules = rules
	differ := false
	for _, all := range []map[string]ownerRules{before, rules} {
		for person := range all {
			if !before[person].equal(rules[person]) {
				c.forget(person)
				differ = true
			}
		}
	}
	if differ {
		c.wake()
	}
}

func (r ownerRules) equal(o ownerRules) bool {
	return slices.Equal(r.allow, o.allow) && slices.Equal(r.deny, o.deny)
}

// Watch tells of every change of what is offered, and to whom, until forget is
// called. Changes that come together may be told as one.
func (b *Board) Watch() (changes <-chan struct{}, forget func()) {
	w := make(chan struct{}, 1)
	c := b.catalog
	c.mu.Lock()
	defer c.mu.Unlock()
	c.watchers[w] = true
	return w, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.watchers, w)
	}
}

// OnUpdated adds a function that is told of resources that have other contents.
func (b *Board) OnUpdated(f func(Outlet, string)) {
	b.catalog.mu.Lock()
	defer b.catalog.mu.Unlock()
	b.catalog.updated = append(slices.Clone(b.catalog.updated), f)
}

// FullName is how a caller names something of this outlet's.
func (o *Outlet) FullName(name string) string { return fullName(o.Slug, name) }
