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

// View has what one caller may use. It is immutable, and made by [Hub.View].
type View struct {
	Tools []*RegisteredTool // by name
	// Fingerprint identifies the list of tools, and Rest everything else.
	Fingerprint, RestFingerprint uint64
	// FindsTools is [Rules.FindTools] of the caller.
	FindsTools bool

	rules  Rules // the caller's
	byName map[string]*RegisteredTool
	asks   map[string]bool // names of tools whose calls wait for an approval
	hidden map[string]hiddenTool
	// shown are the names of tools that their owner calls otherwise, by their original names. They
	// can be called by both.
	shown  map[string]string
	offers []*offer // whose prompts and resources may be used

	indexed sync.Once // the index is made for the first search
	index   *toolIndex
}

const (
	// maxSnapshots limits the people whose snapshots are cached.
	maxSnapshots = 16_384
	// maxViews limits the cached views of one person: one for each set of rules.
	maxViews = 256
)

// hiddenTool is a tool that a caller may not use.
type hiddenTool struct {
	verdict
	original string // its original name
}

// snapshot is what one person sees at one time. It is immutable except for the views.
type snapshot struct {
	offers    []*offer // everybody's, then the person's own, each by provider id
	rules     ownerRules
	views     sync.Map // stored rules → *cachedView
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
	if person != "" { // after everybody's: of two tools with one name the first counts
		s.offers = append(s.offers, c.offers(person)...)
	}
	for i := range s.offers {
		s.offers[i] = s.offers[i].withWords(s.rules)
	}
	if c.snapshotCount >= maxSnapshots {
		c.invalidate("")
	}
	c.snapshots.Store(person, s)
	c.snapshotCount++
	return s
}

// offers returns the offers of an owner's providers, by id. Requires mu.
func (c *catalog) offers(owner string) (out []*offer) {
	for _, id := range c.owned[owner] {
		if o := c.find(id); o != nil && o.Owner == owner {
			out = append(out, o)
		}
	}
	return out
}

// Providers lists the providers that a person sees: everybody's, then the person's own, each by
// id, with or without tools.
func (h *Hub) Providers(person string) []ProviderRef {
	offers := h.catalog.snapshot(person).offers
	out := make([]ProviderRef, len(offers))
	for i, o := range offers {
		out[i] = o.ProviderRef
	}
	return out
}

// View returns what a person's caller with the stored rules may use now.
func (h *Hub) View(person, rules string) (*View, error) {
	s := h.catalog.snapshot(person)
	v, err := s.cachedView(rules)
	if err != nil {
		return nil, err
	}
	return v.get(s), nil
}

// cachedView returns the cache entry for the stored rules.
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

// cachedView is a view that is computed once, however many callers need it at the same time, and so
// is the inventory.
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
	v := &View{rules: rules[0], FindsTools: rules[0].FindTools, byName: map[string]*RegisteredTool{},
		asks: map[string]bool{}, hidden: map[string]hiddenTool{}, shown: map[string]string{}}
	v.rules.KeepArgs = slices.ContainsFunc(rules, func(r Rules) bool { return r.KeepArgs })
	only := slices.ContainsFunc(rules, func(r Rules) bool { return len(r.Allow) > 0 || r.Set != "" })
	var rest maphash.Hash
	rest.SetSeed(fingerprintSeed)
	for _, o := range s.offers {
		// Resources are for callers that may use some tool of the provider. Without tools they are
		// for everybody whose rules are not narrow.
		usable := len(o.tools) == 0 && !only && !deniesAll(rules)
		for i := range o.tools {
			t := &o.tools[i]
			if original := t.OriginalName(); original != t.Name && s.rules.names[original] == "" {
				v.shown[original] = t.Name
			}
			switch how := evaluate(t, s.rules, rules); {
			case how != allowed && how != asked:
				v.hidden[t.Name] = hiddenTool{how, t.OriginalName()}
				usable = usable || how != denied && !only
			case v.byName[t.Name] == nil:
				v.byName[t.Name] = t
				if how == asked {
					v.asks[t.Name] = true
				}
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

// viewFingerprint returns a hash of a list as callers see it.
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

// Tool returns a tool by its name, also by its original one; nil if this caller has none.
func (v *View) Tool(name string) *RegisteredTool { return v.byName[v.shownName(name)] }

// HasOriginal reports whether this caller has a tool with this original name.
func (v *View) HasOriginal(name string) bool {
	t := v.Tool(name)
	return t != nil && t.OriginalName() == name
}

// Asks reports whether calls of a tool wait for an approval, see [Rules.Ask].
func (v *View) Asks(name string) bool { return v.asks[v.shownName(name)] }

// HasContent reports whether the caller may use the prompts and resources of a provider.
func (v *View) HasContent(id string) bool {
	return slices.ContainsFunc(v.offers, func(o *offer) bool { return o.ID == id })
}

// ResourceSet has the resources of a provider.
type ResourceSet struct {
	ProviderRef
	tool.ResourceProvider
}

// ResourceSets returns the resources that the caller may read, in a stable order.
func (v *View) ResourceSets() []ResourceSet {
	var out []ResourceSet
	for _, o := range v.offers {
		if resources := o.resourceProvider(); resources != nil {
			out = append(out, ResourceSet{o.ProviderRef, resources})
		}
	}
	return out
}

// PromptSet has the prompts of a provider.
type PromptSet struct {
	ProviderRef
	tool.PromptProvider
}

// PromptSets returns the prompts that the caller may use, in a stable order.
func (v *View) PromptSets() []PromptSet {
	var out []PromptSet
	for _, o := range v.offers {
		if book := o.promptProvider(); book != nil {
			out = append(out, PromptSet{o.ProviderRef, book})
		}
	}
	return out
}
