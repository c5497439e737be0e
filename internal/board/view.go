package board

import (
	"cmp"
	"fmt"
	"hash/maphash"
	"slices"
	"sync"
	"sync/atomic"

	"patchbay/internal/tool"
)

// View is what one caller may use. It is immutable.
type View struct {
	Tools []*Offered // by name
	// Print tells lists of tools apart; Rest those of everything else.
	Print, Rest uint64

	rules  Rules // the caller's own
	byName map[string]*Offered
	hidden map[string]verdict
	offers []*offer // whose prompts and resources may be used
}

const (
	// snapshotsMost bounds for how many people what they see is kept.
	snapshotsMost = 16_384
	// viewsMost bounds how many views are kept of what one person sees: as many as
	// callers with different rules.
	viewsMost = 256
)

// snapshot is what one person sees at one time; immutable but for the views.
type snapshot struct {
	offers []*offer // by outlet id
	rules  ownerRules
	views  sync.Map // rules (as kept) → *viewing
	kept   atomic.Int64
}

// snapshot returns what a person sees now.
func (c *catalog) snapshot(person string) *snapshot {
	if s, ok := c.snapshots.Load(person); ok {
		return s.(*snapshot)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if s, ok := c.snapshots.Load(person); ok {
		return s.(*snapshot)
	}
	s := &snapshot{rules: c.rules[person], offers: c.offers("")}
	if person != "" {
		s.offers = append(s.offers, c.offers(person)...)
		slices.SortFunc(s.offers, func(a, b *offer) int { return cmp.Compare(a.ID, b.ID) })
	}
	if c.kept >= snapshotsMost {
		c.stale("")
	}
	c.snapshots.Store(person, s)
	c.kept++
	return s
}

// offers are what an owner's outlets offer, by id. With mu held.
func (c *catalog) offers(owner string) (out []*offer) {
	for _, id := range c.owned[owner] {
		if o := c.find(id); o != nil && o.Owner == owner {
			out = append(out, o)
		}
	}
	return out
}

// Outlets lists what is plugged in that a person sees, by id: the person's own and
// everybody's, whether they offer tools or not.
func (b *Board) Outlets(person string) []Outlet {
	offers := b.catalog.snapshot(person).offers
	out := make([]Outlet, len(offers))
	for i, o := range offers {
		out[i] = o.Outlet
	}
	return out
}

// View returns what a person's caller with some rules (as kept) may use now.
func (b *Board) View(person, rules string) (*View, error) {
	s := b.catalog.snapshot(person)
	v, err := s.viewing(rules)
	if err != nil {
		return nil, err
	}
	return v.get(s), nil
}

// viewing is where the view of callers with some rules (as kept) is kept.
func (s *snapshot) viewing(rules string) (*viewing, error) {
	if v, ok := s.views.Load(rules); ok {
		return v.(*viewing), nil
	}
	if s.kept.Load() >= viewsMost {
		s.views.Clear()
		s.kept.Store(0)
	}
	r, err := parseJoined(rules)
	if err != nil {
		return nil, err
	}
	v, known := s.views.LoadOrStore(rules, &viewing{rules: r})
	if !known {
		s.kept.Add(1)
	}
	return v.(*viewing), nil
}

// viewing is a view that is made once, however many ask for it at the same time, and so
// is the list of all that its person is offered.
type viewing struct {
	rules  []Rules
	once   sync.Once
	view   *View
	listed sync.Once
	list   []Listing
}

func (v *viewing) get(s *snapshot) *View {
	v.once.Do(func() { v.view = s.view(v.rules) })
	return v.view
}

func (v *viewing) inventory(s *snapshot) []Listing {
	v.listed.Do(func() { v.list = s.inventory(v.rules) })
	return v.list
}

var printSeed = maphash.MakeSeed()

func (s *snapshot) view(rules []Rules) *View {
	v := &View{rules: rules[0], byName: map[string]*Offered{}, hidden: map[string]verdict{}}
	v.rules.KeepArgs = slices.ContainsFunc(rules, func(r Rules) bool { return r.KeepArgs })
	only := slices.ContainsFunc(rules, func(r Rules) bool { return len(r.Allow) > 0 })
	var rest maphash.Hash
	rest.SetSeed(printSeed)
	for _, o := range s.offers {
		// What can be read there is for those who may use something there. Without tools
		// it is for everybody who is not kept to some, or kept from all.
		usable := len(o.tools) == 0 && !only && !deniesAll(rules)
		for i := range o.tools {
			t := &o.tools[i]
			switch how := judge(t, s.rules, rules); {
			case how != allowed:
				v.hidden[t.Name] = how
				usable = usable || how != denied && !only
			case v.byName[t.Name] == nil:
				v.byName[t.Name] = t
				v.Tools = append(v.Tools, t)
				usable = true
			}
		}
		if usable && (o.book() != nil || o.shelf() != nil) {
			v.offers = append(v.offers, o)
			fmt.Fprintf(&rest, "%s %s %d %d\n", o.ID, o.Slug, o.since, o.changes)
		}
	}
	slices.SortFunc(v.Tools, func(a, b *Offered) int { return cmp.Compare(a.Name, b.Name) })
	v.Print, v.Rest = viewPrint(v.Tools), rest.Sum64()
	return v
}

// viewPrint tells lists apart as callers see them, without writing them out.
func viewPrint(tools []*Offered) uint64 {
	var h maphash.Hash
	h.SetSeed(printSeed)
	var buf []byte
	for _, t := range tools {
		buf = appendParts(buf[:0], t.Name, t.of.ID, t.of.Slug)
		buf = appendTool(buf, t.Tool)
		h.Write(buf)
	}
	return h.Sum64()
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
		if shelf := o.shelf(); shelf != nil {
			out = append(out, Shelf{o.Outlet, shelf})
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
		if book := o.book(); book != nil {
			out = append(out, Book{o.Outlet, book})
		}
	}
	return out
}
