package control

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"patchbay/internal/hub"
	"patchbay/internal/store"
)

// ToolFilter selects tools for a page. One that selects all is an overview: its pages have
// providers, with their first tools.
type ToolFilter struct {
	Text  string                   // in the name, the title, the description or the provider's name
	Shown func(text string) string // translates titles and descriptions; nil: unchanged
	From  string                   // a provider's id
	State string                   // one of the Tool…, or ToolWaiting
	After int                      // number of tools that were shown before; in an overview, of providers
	Limit int                      // number of tools on a page
	// Providers is the number of providers on a page of an overview.
	Providers int
}

// IsOverview reports whether it selects all tools.
func (f *ToolFilter) IsOverview() bool { return f.Text == "" && f.From == "" && f.State == "" }

// ToolWaiting selects tools that no rule concerns and programs may not use.
const ToolWaiting = "waiting"

// ToolPage is a page of tools, by provider and then by name, with their states for programs and
// bots.
type ToolPage struct {
	Tools []Tool
	// Groups are the providers on the page, in the same order. In an overview, some may have none
	// of the tools.
	Groups []ToolGroup
	// All and Matching count all tools; Next is the value of After for the next page, or 0.
	All, Matching, Next int
	// Waiting and Denied count tools in these states.
	Waiting, Denied int
}

// ToolGroup counts the tools of a provider that match a filter, on this page or not.
type ToolGroup struct {
	Tool  Tool // the first of them
	Count int
	// Waiting and Denied count tools in these states.
	Waiting, Denied int
}

func (f *ToolFilter) matches(l *hub.Listing) bool {
	at := l.Provider()
	if f.From != "" && at.ID != f.From {
		return false
	}
	switch waits := l.State == ToolDangerous || l.State == ToolPersonal || l.State == ToolHeld; {
	case f.State == ToolWaiting && !waits, f.State != "" && f.State != ToolWaiting && l.State != f.State:
		return false
	}
	if f.Text == "" {
		return true
	}
	text := strings.ToLower(f.Text)
	for _, in := range []string{l.Name, l.OriginalName(), l.Title, at.Title, l.Description} {
		if strings.Contains(strings.ToLower(in), text) {
			return true
		}
	}
	if f.Shown == nil {
		return false
	}
	return strings.Contains(strings.ToLower(f.Shown(l.Title)), text) ||
		strings.Contains(strings.ToLower(f.Shown(l.Description)), text)
}

// toolRun is a part of the inventory: tools that match, follow one another and have one provider.
type toolRun struct {
	title, id string // of the provider
	from, to  int
}

// BrowseTools returns a page of tools.
func (s *Service) BrowseTools(_ context.Context, c Caller, f ToolFilter) (p ToolPage, err error) {
	list, err := s.Hub.Inventory(c.Person, "")
	if err != nil {
		return p, err
	}
	providers := p.count(list, &f)
	skip, left := max(f.After, 0), f.Limit // tools before the page, and tools that it still takes
	if f.IsOverview() {
		from := min(skip, len(providers))
		to := min(from+f.Providers, len(providers))
		if to < len(providers) {
			p.Next = to
		}
		providers, skip = providers[from:to], 0
	} else if skip+left < p.Matching {
		p.Next = skip + left
	}
	for _, runs := range providers {
		if left == 0 && !f.IsOverview() {
			break
		}
		count := 0
		for _, r := range runs {
			count += r.to - r.from
		}
		if skip >= count {
			skip -= count
			continue
		}
		p.Groups = append(p.Groups, toolGroup(list, runs, c.Person))
		for _, r := range runs {
			first := min(r.from+skip, r.to)
			end := min(first+left, r.to)
			skip, left = skip-(first-r.from), left-(end-first)
			for i := first; i < end; i++ {
				p.Tools = append(p.Tools, ToolRow(list[i], store.Person{ID: c.Person}, false))
			}
		}
	}
	return p, nil
}

// count counts all tools, and returns those that match, by provider.
func (p *ToolPage) count(list []hub.Listing, f *ToolFilter) (providers [][]toolRun) {
	// The tools of a provider mostly follow each other, sorted by name: runs are sorted, not
	// thousands of tools.
	var runs []toolRun
	p.All = len(list)
	for i := range list {
		l := &list[i]
		switch l.State {
		case ToolDangerous, ToolPersonal, ToolHeld:
			p.Waiting++
		case ToolDenied:
			p.Denied++
		}
		if !f.matches(l) {
			continue
		}
		p.Matching++
		at := l.Provider()
		if last := len(runs) - 1; last >= 0 && runs[last].to == i && runs[last].id == at.ID {
			runs[last].to++
			continue
		}
		runs = append(runs, toolRun{at.Title, at.ID, i, i + 1})
	}
	slices.SortFunc(runs, func(a, b toolRun) int {
		return cmp.Or(strings.Compare(a.title, b.title), strings.Compare(a.id, b.id), a.from-b.from)
	})
	for i := range runs {
		if last := len(providers) - 1; last >= 0 && providers[last][0].id == runs[i].id {
			providers[last] = append(providers[last], runs[i])
			continue
		}
		providers = append(providers, runs[i:i+1:i+1])
	}
	return providers
}

// toolGroup counts the tools of a provider.
func toolGroup(list []hub.Listing, runs []toolRun, person string) ToolGroup {
	g := ToolGroup{Tool: ToolRow(list[runs[0].from], store.Person{ID: person}, false)}
	for _, r := range runs {
		g.Count += r.to - r.from
		for i := r.from; i < r.to; i++ {
			switch list[i].State {
			case ToolDangerous, ToolPersonal, ToolHeld:
				g.Waiting++
			case ToolDenied:
				g.Denied++
			}
		}
	}
	return g
}
