package control

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"patchbay/internal/hub"
	"patchbay/internal/i18n"
	"patchbay/internal/problem"
	"patchbay/internal/store"
)

const (
	msgSetName  = i18n.Message("A set is named with 1 to 32 lower-case letters, digits, _ or -.")
	msgSetEmpty = i18n.Message("Name at least one tool, and at most %d names and patterns.")
	msgSetTool  = i18n.Message("%q is no name of a tool, nor a pattern.")
	msgSetsMost = i18n.Message("There are %d sets, which are the most.")
	msgNoSet    = i18n.Message("There is no set %s.")
	msgSetLacks = i18n.Message("The set %s does not name %s.")
	msgSetBare  = i18n.Message("Nothing would be left in the set %s; remove the set instead.")
	msgSetHow   = i18n.Message("A change of a set is add, remove, or nothing to replace its tools.")
)

// maxToolSets limits the sets of one person, and maxSetTools the patterns of one set, each of which
// is matched against every tool.
const maxToolSets, maxSetTools = 50, 100

// ToolSetList is a list of sets, by name.
type ToolSetList struct {
	Sets []ToolSetRow `json:"sets"`
}

// ToolSetRow is a set in a list.
type ToolSetRow struct {
	store.ToolSet
	OwnerName string `json:"owner_name"`
	// Matches is the number of tools that are in it now and that its owner's programs may call.
	Matches int `json:"matches"`
}

// ToolSets lists the sets of tools.
func (s *Service) ToolSets(ctx context.Context, c Caller, in ToolRuleQuery) (ToolSetList, error) {
	whose := c.Owner()
	if in.User != "" {
		p, err := s.singlePerson(ctx, c, in.User)
		if err != nil {
			return ToolSetList{}, err
		}
		whose = p.ID
	}
	sets, err := s.Hub.Store.ToolSets.All(ctx)
	if err != nil {
		return ToolSetList{}, err
	}
	people, err := s.names(ctx)
	if err != nil {
		return ToolSetList{}, err
	}
	out := ToolSetList{Sets: []ToolSetRow{}}
	for _, set := range sets {
		if whose == "" || set.Owner == whose {
			row := ToolSetRow{set, people[set.Owner], 0}
			if v, err := s.Hub.View(set.Owner, hub.Rules{Set: set.Name}.String()); err == nil {
				row.Matches = len(v.Tools)
			}
			out.Sets = append(out.Sets, row)
		}
	}
	return out, nil
}

// What is done with the tools of a [ToolSetChange].
const (
	SetAdd    = "add"    // they are added to those of the set
	SetRemove = "remove" // they are taken out of it
)

// ToolSetChange is a set as it is to be, or what is added to it or taken out of it.
type ToolSetChange struct {
	Set   string   `path:"set" json:"-"`   // its name
	Tools []string `json:"tools"`          // names and patterns with *
	User  string   `json:"user,omitempty"` // owner; only admins name others
	// Change is add or remove; empty: the set has these tools and no others then.
	Change string `json:"change,omitempty"`
}

// SaveToolSet makes a set, or changes its tools.
func (s *Service) SaveToolSet(ctx context.Context, c Caller, in ToolSetChange) (ToolSetRow, error) {
	if err := requireUnrestrictedKey(c); err != nil {
		return ToolSetRow{}, err
	}
	if !hub.IsSetName(in.Set) {
		return ToolSetRow{}, problem.New(problem.Invalid, msgSetName)
	}
	p, err := s.singlePerson(ctx, c, in.User)
	if err != nil {
		return ToolSetRow{}, err
	}
	all, err := s.ToolSets(ctx, c, ToolRuleQuery{User: p.Name})
	if err != nil {
		return ToolSetRow{}, err
	}
	var has []string
	at := slices.IndexFunc(all.Sets, func(r ToolSetRow) bool { return r.Name == in.Set })
	if at >= 0 {
		has = all.Sets[at].Tools
	} else if in.Change == SetRemove {
		return ToolSetRow{}, problem.New(problem.NotFound, msgNoSet, in.Set)
	} else if len(all.Sets) >= maxToolSets {
		return ToolSetRow{}, problem.New(problem.Conflict, msgSetsMost, maxToolSets)
	}
	in.Tools = s.originalNames(p.ID, has, in.Tools)
	if in.Tools, err = in.changed(has); err != nil {
		return ToolSetRow{}, err
	}
	row := ToolSetRow{ToolSet: store.ToolSet{Owner: p.ID, Name: in.Set, Tools: in.Tools, Created: time.Now()},
		OwnerName: p.Name}
	if err := s.Hub.Store.ToolSets.Save(ctx, row.ToolSet); err != nil {
		return ToolSetRow{}, err
	}
	s.RecordAdminEvent(ctx, c, EventToolSet, p.Name+": "+in.Set+" → "+strings.Join(in.Tools, " "))
	s.toolsChanged(ctx)
	if v, err := s.Hub.View(p.ID, hub.Rules{Set: in.Set}.String()); err == nil {
		row.Matches = len(v.Tools)
	}
	return row, nil
}

// originalNames returns names and patterns with the original names of tools, except those that were
// there before: a tool that got such a name later is not meant.
func (s *Service) originalNames(person string, before, now []string) (out []string) {
	for _, name := range now {
		if !slices.Contains(before, name) {
			name = s.Hub.OriginalName(person, name)
		}
		out = append(out, name)
	}
	return out
}

// changed returns the tools of a set after the change.
func (in *ToolSetChange) changed(has []string) ([]string, error) {
	for _, pattern := range in.Tools {
		switch {
		case hub.CheckPattern(pattern) != nil:
			return nil, problem.New(problem.Invalid, msgSetTool, pattern)
		case in.Change == SetRemove && !slices.Contains(has, pattern):
			return nil, problem.New(problem.Invalid, msgSetLacks, in.Set, pattern)
		}
	}
	tools := in.Tools
	switch in.Change {
	case "":
	case SetAdd:
		tools = slices.Clone(has)
		for _, pattern := range in.Tools {
			if !slices.Contains(tools, pattern) {
				tools = append(tools, pattern)
			}
		}
	case SetRemove:
		tools = slices.DeleteFunc(slices.Clone(has), func(t string) bool { return slices.Contains(in.Tools, t) })
		if len(tools) == 0 {
			return nil, problem.New(problem.Invalid, msgSetBare, in.Set)
		}
	default:
		return nil, problem.New(problem.Invalid, msgSetHow)
	}
	if len(in.Tools) == 0 || len(tools) > maxSetTools {
		return nil, problem.New(problem.Invalid, msgSetEmpty, maxSetTools)
	}
	return tools, nil
}

// ToolSetRef identifies a set.
type ToolSetRef struct {
	Set  string `path:"set" json:"-"`
	User string `query:"user" json:"-"` // owner; only admins name others
}

// RemoveToolSet removes a set. Keys and addresses that name it have no tools then.
func (s *Service) RemoveToolSet(ctx context.Context, c Caller, in ToolSetRef) (ToolSetRow, error) {
	if err := requireUnrestrictedKey(c); err != nil {
		return ToolSetRow{}, err
	}
	p, err := s.singlePerson(ctx, c, in.User)
	if err != nil {
		return ToolSetRow{}, err
	}
	if err := s.Hub.Store.ToolSets.Remove(ctx, p.ID, in.Set); errors.Is(err, store.ErrNotFound) {
		return ToolSetRow{}, problem.New(problem.NotFound, msgNoSet, in.Set)
	} else if err != nil {
		return ToolSetRow{}, err
	}
	s.RecordAdminEvent(ctx, c, EventToolSet, p.Name+": "+in.Set+" → -")
	s.toolsChanged(ctx)
	return ToolSetRow{ToolSet: store.ToolSet{Owner: p.ID, Name: in.Set, Tools: []string{}}, OwnerName: p.Name}, nil
}

// checkToolSet refuses rules with a set that a person does not have: a key with them has no tools.
// Other rules of a key whose set is gone can be changed.
func (s *Service) checkToolSet(ctx context.Context, person string, before, rules hub.Rules) error {
	if rules.Set == "" || rules.Set == before.Set {
		return nil
	}
	sets, err := s.Hub.Store.ToolSets.All(ctx)
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(sets, func(t store.ToolSet) bool { return t.Owner == person && t.Name == rules.Set }) {
		return problem.New(problem.Invalid, msgNoSet, rules.Set)
	}
	return nil
}
