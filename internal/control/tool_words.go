package control

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"time"

	"patchbay/internal/hub"
	"patchbay/internal/i18n"
	"patchbay/internal/problem"
	"patchbay/internal/store"
)

const (
	msgToolNameTaken = i18n.Message("The tool %s has the name %s, or had it before it was renamed; choose another one.")
	msgNoWords       = i18n.Message("The tool %s has no name or description of yours.")
	msgWordsMost     = i18n.Message("%d tools have names or descriptions of yours, which are the most.")
	msgWordsEmpty    = i18n.Message("Give a name, a title or a description.")
)

// maxToolWords limits the tools that one person gives other words: they are all in memory.
const maxToolWords = 2000

// ToolWordsList lists the tools that have words of their owners, by their original names.
type ToolWordsList struct {
	Tools []ToolWordsRow `json:"tools"`
}

// ToolWordsRow is what a person calls a tool.
type ToolWordsRow struct {
	store.ToolWords
	OwnerName string `json:"owner_name"`
	// Unconfirmed are instances that did not confirm a change in time, and may not show it yet.
	Unconfirmed []string `json:"unconfirmed,omitempty"`
}

// ToolWords lists the tools that have words of their owners.
func (s *Service) ToolWords(ctx context.Context, c Caller, in ToolRuleQuery) (ToolWordsList, error) {
	whose := c.Owner()
	if in.User != "" {
		p, err := s.singlePerson(ctx, c, in.User)
		if err != nil {
			return ToolWordsList{}, err
		}
		whose = p.ID
	}
	rows, err := s.Hub.Store.ToolWordings.All(ctx)
	if err != nil {
		return ToolWordsList{}, err
	}
	people, err := s.names(ctx)
	if err != nil {
		return ToolWordsList{}, err
	}
	out := ToolWordsList{Tools: []ToolWordsRow{}}
	for _, r := range rows {
		if whose == "" || r.Owner == whose {
			out.Tools = append(out.Tools, ToolWordsRow{ToolWords: r, OwnerName: people[r.Owner]})
		}
	}
	return out, nil
}

// ToolWordsChange changes what a person calls a tool. Missing fields stay; what is empty is as the
// tool's server has it then.
type ToolWordsChange struct {
	Tool        string  `path:"name" json:"-"` // its original name, or the one that it has
	Name        *string `json:"name,omitempty"`
	Title       *string `json:"title,omitempty"`
	Description *string `json:"description,omitempty"`
	User        string  `json:"user,omitempty"` // whose tool; only admins name others
}

// SetToolWords changes what a person calls a tool. When it returns, all instances show it except
// the unconfirmed ones. It changes nobody's rights: these are about the original name.
func (s *Service) SetToolWords(ctx context.Context, c Caller, in ToolWordsChange) (ToolWordsRow, error) {
	if err := requireUnrestrictedKey(c); err != nil {
		return ToolWordsRow{}, err
	}
	p, err := s.singlePerson(ctx, c, in.User)
	if err != nil {
		return ToolWordsRow{}, err
	}
	w, all, err := s.findToolWords(ctx, p, in.Tool)
	if err != nil {
		return ToolWordsRow{}, err
	}
	if states, err := s.Hub.ToolStates(p.ID, w.Tool, []string{""}); err != nil {
		return ToolWordsRow{}, err
	} else if states == nil {
		return ToolWordsRow{}, problem.New(problem.NotFound, msgToolMissing, in.Tool)
	}
	if in.Name == nil && in.Title == nil && in.Description == nil {
		return ToolWordsRow{}, problem.New(problem.Invalid, msgWordsEmpty)
	}
	was := w
	if in.apply(&w); w == was {
		return ToolWordsRow{ToolWords: w, OwnerName: p.Name}, nil
	}
	if err := hub.CheckToolWords(w); err != nil {
		return ToolWordsRow{}, problem.Wrap(problem.Invalid, err)
	}
	if w.Name != was.Name && w.Name != "" {
		if other := s.Hub.NameTaken(p.ID, w.Tool, w.Name); other != "" {
			return ToolWordsRow{}, problem.New(problem.Conflict, msgToolNameTaken, other, w.Name)
		}
	}
	if all >= maxToolWords && was.Created.IsZero() {
		return ToolWordsRow{}, problem.New(problem.Conflict, msgWordsMost, maxToolWords)
	}
	if was.Created.IsZero() {
		w.Created = time.Now()
	}
	switch err := s.Hub.Store.ToolWordings.Save(ctx, w); {
	case errors.Is(err, store.ErrExists): // at the same time
		return ToolWordsRow{}, problem.New(problem.Conflict, msgToolNameTaken, "?", w.Name)
	case errors.Is(err, store.ErrNotFound): // there were none before
	case err != nil:
		return ToolWordsRow{}, err
	}
	s.RecordAdminEvent(ctx, c, EventToolWords, p.Name+": "+wordsChange(was, w))
	return ToolWordsRow{w, p.Name, s.toolsChanged(ctx)}, nil
}

// apply changes words. A name that is the original one is none.
func (in *ToolWordsChange) apply(w *store.ToolWords) {
	if in.Name != nil {
		if w.Name = strings.TrimSpace(*in.Name); w.Name == w.Tool {
			w.Name = ""
		}
	}
	if in.Title != nil {
		w.Title = strings.TrimSpace(*in.Title)
	}
	if in.Description != nil { // browsers send line breaks as CR LF
		w.Description = strings.TrimSpace(strings.ReplaceAll(*in.Description, "\r\n", "\n"))
	}
}

// wordsChange describes a change for the events, without the texts: they may be long.
func wordsChange(was, w store.ToolWords) string {
	what := []string{}
	if w.Name != was.Name {
		what = append(what, "name "+cmp.Or(w.Name, "-"))
	}
	if w.Title != was.Title {
		what = append(what, "title")
	}
	if w.Description != was.Description {
		what = append(what, "description")
	}
	return w.Tool + " → " + cmp.Or(strings.Join(what, ", "), "-")
}

// findToolWords returns what a person calls a tool, and of how many tools there are words.
func (s *Service) findToolWords(ctx context.Context, p store.Person, name string) (store.ToolWords, int, error) {
	rows, err := s.Hub.Store.ToolWordings.All(ctx)
	if err != nil {
		return store.ToolWords{}, 0, err
	}
	w, all := store.ToolWords{Owner: p.ID, Tool: s.Hub.OriginalName(p.ID, name)}, 0
	for _, r := range rows {
		if r.Owner != p.ID {
			continue
		}
		all++
		if r.Name == name || w.Created.IsZero() && r.Tool == w.Tool {
			w = r
		}
	}
	return w, all, nil
}

// ToolWordsRef names a tool.
type ToolWordsRef struct {
	Tool string `path:"name" json:"-"`
	User string `query:"user" json:"-"` // whose tool; only admins name others
}

// ClearToolWords gives a tool back the name and the texts that its server has for it. The tool need
// not be there.
func (s *Service) ClearToolWords(ctx context.Context, c Caller, in ToolWordsRef) (ToolWordsRow, error) {
	if err := requireUnrestrictedKey(c); err != nil {
		return ToolWordsRow{}, err
	}
	p, err := s.singlePerson(ctx, c, in.User)
	if err != nil {
		return ToolWordsRow{}, err
	}
	w, _, err := s.findToolWords(ctx, p, in.Tool)
	if err != nil {
		return ToolWordsRow{}, err
	}
	if err := s.Hub.Store.ToolWordings.Remove(ctx, p.ID, w.Tool); errors.Is(err, store.ErrNotFound) {
		return ToolWordsRow{}, problem.New(problem.NotFound, msgNoWords, in.Tool)
	} else if err != nil {
		return ToolWordsRow{}, err
	}
	s.RecordAdminEvent(ctx, c, EventToolWords, p.Name+": "+wordsChange(w, store.ToolWords{Tool: w.Tool}))
	return ToolWordsRow{store.ToolWords{Owner: p.ID, Tool: w.Tool}, p.Name, s.toolsChanged(ctx)}, nil
}
