package hub

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
	Tools []*RegisteredTool // by name
	// Fingerprint tells lists of tools apart; Rest those of everything else.
	Fingerprint, RestFingerprint uint64

	rules  Rules // the caller's own
	byName map[string]*RegisteredTool
	hidden map[string]verdict
	offers []*offer // whose prompts and resources may be used
}

const (
	// maxSnapshots bounds for how many people what they see is kept.
	maxSnapshots = 16_384
	// maxViews bounds how many views are kept of what one person sees: as many as
	// callers with different rules.
	maxViews = 256
)

// snapshot is what one person sees at one time; immutable but for the views.
type snapshot struct {
	offers    []*offer // by provider id
	rules     ownerRules
	views     sync.Map // rules (as kept) → *viewing
	viewCount atomic.Int64
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
	if c.snapshotCount >= maxSnapshots {
		c.invalidate("")
	}
	c.snapshots.Store(person, s)
	c.snapshotCount++
	return s
}

// offers are what an owner's providers offer, by id. With mu held.
func (c *catalog) offers(owner string) (out []*offer) {
	for _, id := range c.owned[owner] {
		if o := c.find(id); o != nil && o.Owner == owner {
			out = append(out, o)
		}
	}
	return out
}

// Providers lists what is plugged in that a person sees, by id: the person's own and
// everybody's, whether they offer tools or not.
func (h *Hub) Providers(person string) []ProviderRef {
	offers := h.catalog.snapshot(person).offers
	out := make([]ProviderRef, len(offers))
	for i, o := range offers {
		out[i] = o.ProviderRef
	}
	return out
}

// View returns what a person's caller with some rules (as kept) may use now.
func (h *Hub) View(person, rules string) (*View, error) {
	s := h.catalog.snapshot(person)
	v, err := s.cachedView(rules)
	if err != nil {
		return nil, err
	}
	return v.get(s), nil
}

// cachedView is where the view of callers with some rules (as kept) is kept.
func (s *snapshot) cachedView(rules string) (*cachedView, error) {
	if v, ok := s.views.Load(rules); ok {
		return v.(*cachedView), nil
	}
	if s.viewCount.Load() >= maxViews {
		s.views.Clear()
		s.viewCount.Store(0)
	}
	r, err := parseJoined(rules)
	if err != nil {
		return nil, err
	}
	v, known := s.views.LoadOrStore(rules, &cachedView{rules: r})
	if !known {
		s.viewCount.Add(1)
	}
	return v.(*cachedView), nil
}

// cachedView is a view that is made once, however many ask for it at the same time, and so
// is the list of all that its person is offered.
type cachedView struct {
	rules  []Rules
	once   sync.Once
	view   *View
	listed sync.Once
	list   []Listing
}

func (v *cachedView) get(s *snapshot) *View {
	v.once.Do(func() { v.view = s.view(v.rules) })
	return v.view
}

func (v *cachedView) inventory(s *snapshot) []Listing {
	v.listed.Do(func() { v.list = s.inventory(v.rules) })
	return v.list
}

var fingerprintSeed = maphash.MakeSeed()

func (s *snapshot) view(rules []Rules) *View {
	v := &View{rules: rules[0], byName: map[string]*RegisteredTool{}, hidden: map[string]verdict{}}
	v.rules.KeepArgs = slices.ContainsFunc(rules, func(r Rules) bool { return r.KeepArgs })
	only := slices.ContainsFunc(rules, func(r Rules) bool { return len(r.Allow) > 0 })
	var rest maphash.Hash
	rest.SetSeed(fingerprintSeed)
	for _, o := range s.offers {
		// What can be read there is for those who may use something there. Without tools
		// it is for everybody who is not kept to some, or kept from all.
		usable := len(o.tools) == 0 && !only && !deniesAll(rules)
		for i := range o.tools {
			t := &o.tools[i]
			switch how := evaluate(t, s.rules, rules); {
			case how != allowed:
				v.hidden[t.Name] = how
				usable = usable || how != denied && !only
			case v.byName[t.Name] == nil:
				v.byName[t.Name] = t
				v.Tools = append(v.Tools, t)
				usable = true
			}
		}
		if usable && (o.promptProvider() != nil || o.resourceProvider() != nil) {
			v.offers = append(v.offers, o)
			fmt.Fprintf(&rest, "%s %s %d %d\n", o.ID, o.Slug, o.since, o.changes)
		}
	}
	slices.SortFunc(v.Tools, func(a, b *RegisteredTool) int { return cmp.Compare(a.Name, b.Name) })
	v.Fingerprint, v.RestFingerprint = viewFingerprint(v.Tools), rest.Sum64()
	return v
}

// viewFingerprint tells lists apart as callers see them, without writing them out.
func viewFingerprint(tools []*RegisteredTool) uint64 {
	var h maphash.Hash
	h.SetSeed(fingerprintSeed)
	var buf []byte
	for _, t := range tools {
		buf = appendParts(buf[:0], t.Name, t.offer.ID, t.offer.Slug)
		buf = appendTool(buf, t.Tool)
		h.Write(buf)
	}
	return h.Sum64()
}

// Tool finds a tool by its full name; nil if there is none for this caller.
func (v *View) Tool(name string) *RegisteredTool { return v.byName[name] }

// ResourceSet is a provider's library, and where it is plugged in.
type ResourceSet struct {
	ProviderRef
	tool.ResourceProvider
}

// ResourceSets are the libraries that the caller may read, in a stable order.
func (v *View) ResourceSets() []ResourceSet {
	var out []ResourceSet
	for _, o := range v.offers {
		if resources := o.resourceProvider(); resources != nil {
			out = append(out, ResourceSet{o.ProviderRef, resources})
		}
	}
	return out
}

// PromptSet is a provider's prompts, and where it is plugged in.
type PromptSet struct {
	ProviderRef
	tool.PromptProvider
}

// PromptSets are the prompts that the caller may use, in a stable order.
func (v *View) PromptSets() []PromptSet {
	var out []PromptSet
	for _, o := range v.offers {
		if book := o.promptProvider(); book != nil {
			out = append(out, PromptSet{o.ProviderRef, book})
		}
	}
	return out
}
