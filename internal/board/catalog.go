package board

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"regexp"
	"slices"
	"sync"
	"sync/atomic"
	"time"

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
	// connection: the other instances reach it through this one.
	Held bool `json:"held,omitempty"`
}

// callTimeout bounds a call of a provider that says nothing else. A tool may ask
// a person or run a job.
const callTimeout = 5 * time.Minute

// slugForm has no underscore, so that the first one in a tool's name ends the
// slug.
var slugForm = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,31}$`)

// reservedSlugs begin the names of tools without a slug.
var reservedSlugs = []string{"send", "get", "list", "learn", "find", "call"}

// CheckSlug finds out whether a text can begin the names of tools.
func CheckSlug(slug string) error {
	if !slugForm.MatchString(slug) {
		return fmt.Errorf("%q cannot begin the names of tools: use 1 to 32 small letters, digits and -", slug)
	}
	if slices.Contains(reservedSlugs, slug) {
		return fmt.Errorf("%q is taken by Patchbay's own tools; choose another name", slug)
	}
	return nil
}

// ErrPlugged says that an outlet, or its slug, is in use.
var ErrPlugged = errors.New("something else is plugged in there")

// offer is an outlet with what it offers at one time; immutable.
type offer struct {
	Outlet
	tools []*Offered
	// since and changes tell the state of its prompts and resources from others.
	since, changes int64
	// book and shelf are what a provider on this instance has besides tools.
	book  tool.Promptbook
	shelf tool.Library
}

// place is where calls of a provider go: here, or to another instance.
type place interface {
	Call(ctx context.Context, c *tool.Call) (*tool.Result, error)
}

// Socket holds a provider in its outlet. It is safe for concurrent use.
type Socket struct {
	catalog  *catalog
	outlet   Outlet
	provider tool.Provider
	since    int64
	offer    *offer // with catalog.mu held
	changes  int64  // of prompts and resources; with catalog.mu held
	out      bool
}

// catalog knows everything that offers tools. Readers take the snapshot; there is
// one writer at a time.
type catalog struct {
	log          logger
	installation string

	mu   sync.Mutex
	here map[string]*Socket          // by outlet id
	away map[string]map[string]*away // instance → outlet id

	rules    map[string]ownerRules
	snapshot atomic.Pointer[snapshot]
	watchers map[chan struct{}]bool
	updated  []func(Outlet, string)
	announce func() // tells other instances; may be nil
}

type logger interface {
	Warn(msg string, args ...any)
}

// snapshot is what is offered at one time; immutable but for the cache of views.
type snapshot struct {
	offers []*offer // by outlet id
	rules  map[string]ownerRules
	views  sync.Map // viewKey → *View
	kept   atomic.Int64
}

func newCatalog(log logger, installation string) *catalog {
	c := &catalog{log: log, installation: installation, here: map[string]*Socket{}, away: map[string]map[string]*away{}, watchers: map[chan struct{}]bool{}}
	c.snapshot.Store(&snapshot{})
	return c
}

// Plug plugs a provider in, without tools yet. It returns [ErrPlugged] if the
// outlet's id is in use, or its slug by something that the same people see.
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
	for _, s := range c.here {
		if s.outlet.ID == o.ID || o.Slug != "" && s.outlet.Slug == o.Slug && (s.outlet.Owner == o.Owner || s.outlet.Owner == "" || o.Owner == "") {
			return nil, fmt.Errorf("%w: %s %s", ErrPlugged, s.outlet.Kind, s.outlet.Title)
		}
	}
	s := &Socket{catalog: c, outlet: o, provider: p, since: time.Now().UnixMilli()}
	s.set(nil)
	c.here[o.ID] = s
	c.publish()
	return s, nil
}

// Offer says which tools the provider has from now on.
func (s *Socket) Offer(tools []tool.Tool) {
	named, twins := s.catalog.name(s.outlet, s.provider, tools)
	for _, t := range twins {
		s.catalog.log.Warn("a tool is left out, since another of the same provider has its name", "provider", s.outlet.ID, "tool", t)
	}
	s.catalog.mu.Lock()
	defer s.catalog.mu.Unlock()
	if s.out || same(s.offer.tools, named) {
		return
	}
	s.set(named)
	s.catalog.publish()
}

// Changed says that the provider's prompts or resources have changed.
func (s *Socket) Changed() {
	s.catalog.mu.Lock()
	defer s.catalog.mu.Unlock()
	if !s.out {
		s.changes++
		s.set(s.offer.tools)
		s.catalog.publish()
	}
}

// Updated says that one of the provider's resources has other contents now.
func (s *Socket) Updated(uri string) {
	s.catalog.mu.Lock()
	tell := s.catalog.updated
	s.catalog.mu.Unlock()
	for _, f := range tell {
		f(s.outlet, uri)
	}
}

// OnUpdated adds a function that is told of resources that have other contents.
func (b *Board) OnUpdated(f func(Outlet, string)) {
	b.catalog.mu.Lock()
	defer b.catalog.mu.Unlock()
	b.catalog.updated = append(slices.Clone(b.catalog.updated), f)
}

// Unplug takes the provider out. Running calls are not ended by that.
func (s *Socket) Unplug() {
	s.catalog.mu.Lock()
	defer s.catalog.mu.Unlock()
	if s.out {
		return
	}
	s.out = true
	delete(s.catalog.here, s.outlet.ID)
	s.catalog.publish()
}

// set replaces what the socket offers. With the catalog's mu held.
func (s *Socket) set(tools []*Offered) {
	s.offer = &offer{Outlet: s.outlet, tools: tools, since: s.since, changes: s.changes}
	s.offer.book, _ = s.provider.(tool.Promptbook)
	s.offer.shelf, _ = s.provider.(tool.Library)
}

// publish makes a new snapshot and wakes the watchers. With mu held.
func (c *catalog) publish() {
	next := &snapshot{rules: c.rules}
	for _, s := range c.here {
		next.offers = append(next.offers, s.offer)
	}
	for _, outlets := range c.away {
		for id, a := range outlets {
			if _, mine := c.here[id]; !mine && a.offer != nil {
				next.offers = append(next.offers, a.offer)
			}
		}
	}
	slices.SortFunc(next.offers, func(a, b *offer) int { return cmp.Compare(a.ID, b.ID) })
	next.offers = slices.CompactFunc(next.offers, func(a, b *offer) bool { return a.ID == b.ID })
	c.snapshot.Store(next)
	for w := range c.watchers {
		select {
		case w <- struct{}{}:
		default: // woken already
		}
	}
	if c.announce != nil {
		c.announce()
	}
}

// setRules replaces what owners decided about tools.
func (c *catalog) setRules(rules map[string]ownerRules) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.rules = rules
	c.publish()
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

// View is what one caller may use. It is immutable.
type View struct {
	Tools []*Offered // by name
	// Print tells lists of tools apart; Rest those of everything else.
	Print, Rest uint64

	rules  Rules
	byName map[string]*Offered
	hidden map[string]verdict
	offers []*offer // whose prompts and resources may be used
}

type viewKey struct{ person, rules string }

// viewsMost bounds how many views are kept of one state of the board.
const viewsMost = 4096

// View returns what a person's caller with some rules (as kept) may use now.
func (b *Board) View(person, rules string) (*View, error) {
	s := b.catalog.snapshot.Load()
	key := viewKey{person, rules}
	if v, ok := s.views.Load(key); ok {
		return v.(*View), nil
	}
	if s.kept.Load() >= viewsMost {
		s.views.Clear()
		s.kept.Store(0)
	}
	r, err := ParseRules(rules)
	if err != nil {
		return nil, err
	}
	v := s.view(person, &r)
	s.views.Store(key, v)
	s.kept.Add(1)
	return v, nil
}

var printSeed = maphash.MakeSeed()

func (s *snapshot) view(person string, r *Rules) *View {
	v := &View{rules: *r, byName: map[string]*Offered{}, hidden: map[string]verdict{}}
	var rest maphash.Hash
	rest.SetSeed(printSeed)
	for _, o := range s.offers {
		if o.Owner != "" && o.Owner != person {
			continue
		}
		usable := len(r.Allow) == 0
		for _, t := range o.tools {
			switch how := judge(t, s.rules[person], r); {
			case how != allowed:
				v.hidden[t.Name] = how
			case v.byName[t.Name] == nil:
				v.byName[t.Name] = t
				v.Tools = append(v.Tools, t)
				usable = true
			}
		}
		if usable && (o.book != nil || o.shelf != nil) {
			v.offers = append(v.offers, o)
			fmt.Fprintf(&rest, "%s %d %d\n", o.ID, o.since, o.changes)
		}
	}
	slices.SortFunc(v.Tools, func(a, b *Offered) int { return cmp.Compare(a.Name, b.Name) })
	var print maphash.Hash
	print.SetSeed(printSeed)
	for _, t := range v.Tools {
		print.Write(t.Listed())
	}
	v.Print, v.Rest = print.Sum64(), rest.Sum64()
	return v
}

// Tool finds a tool by its full name; nil if there is none for this caller.
func (v *View) Tool(name string) *Offered { return v.byName[name] }

// Shelf is a provider's library, and where it is plugged in.
type Shelf struct {
	Outlet
	tool.Library
}

// Shelves are the libraries that the caller may read, in a stable order.
func (v *View) Shelves() []Shelf {
	var out []Shelf
	for _, o := range v.offers {
		if o.shelf != nil {
			out = append(out, Shelf{o.Outlet, o.shelf})
		}
	}
	return out
}

// Book is a provider's prompts, and where it is plugged in.
type Book struct {
	Outlet
	tool.Promptbook
}

// Books are the prompts that the caller may use, in a stable order.
func (v *View) Books() []Book {
	var out []Book
	for _, o := range v.offers {
		if o.book != nil {
			out = append(out, Book{o.Outlet, o.book})
		}
	}
	return out
}

// FullName is how a caller names something of this outlet's.
func (o *Outlet) FullName(name string) string { return fullName(o.Slug, name) }
