package control

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"patchbay/internal/account"
	"patchbay/internal/hub"
	"patchbay/internal/i18n"
	"patchbay/internal/plug/learn"
	"patchbay/internal/problem"
	"patchbay/internal/store"
	"patchbay/internal/tool"
)

// States of a [Tool].
const (
	ToolAllowed   = "allowed"
	ToolDenied    = "denied"    // by its owner, or by the rules of the key
	ToolAsked     = "asked"     // each call waits for an approval
	ToolDangerous = "dangerous" // refused until its owner allows it by name
	ToolHeld      = "held"      // changed by its server; refused until its owner approves that
	ToolPersonal  = "personal"  // for people; refused in the same way
)

// Tool is a tool in the list of /api/v1/tools.
type Tool struct {
	Name        string `json:"name"`
	Title       string `json:"title,omitempty"`
	Description string `json:"description"`
	// Original is its original name, which rules and records have, if its owner gave it another
	// one.
	Original string `json:"original_name,omitempty"`
	// ServerTitle and ServerDescription are what its server says, if its owner gave it other words.
	ServerTitle       string `json:"server_title,omitempty"`
	ServerDescription string `json:"server_description,omitempty"`
	// Provider and Kind identify its provider; ProviderName is for people.
	Provider     string `json:"provider"`
	ProviderName string `json:"provider_name,omitempty"`
	Kind         string `json:"kind"`
	// Owner is the tool's owner; empty: everybody's.
	Owner     string `json:"owner,omitempty"`
	OwnerName string `json:"owner_name,omitempty"`
	// State is one of the Tool… constants.
	State string `json:"state"`
	// For is "user" if it is for people: programs and bots may use it only if its owner, or their
	// rules, allow it by name.
	For string `json:"for,omitempty"`
	// ReadOnly reports whether it certainly changes nothing.
	ReadOnly bool `json:"read_only,omitempty"`
	// Input and Output are its schemas, if requested.
	Input  json.RawMessage `json:"inputSchema,omitempty"`
	Output json.RawMessage `json:"outputSchema,omitempty"`
}

// ToolQuery selects tools.
type ToolQuery struct {
	User string `query:"user" json:"-"` // owner; only admins name others
	Name string `query:"name" json:"-"` // tools of that name, with their schemas
	// Schemas includes the schemas.
	Schemas bool `query:"schemas" json:"-"`
}

// ToolList is the response of /api/v1/tools.
type ToolList struct {
	Tools []Tool `json:"tools"`
}

// ListTools lists the tools of a person, or of everybody.
func (s *Service) ListTools(ctx context.Context, c Caller, q ToolQuery) (ToolList, error) {
	people, err := s.targetPeople(ctx, c, q.User)
	if err != nil {
		return ToolList{}, err
	}
	out := []Tool{}
	told := map[string]bool{}
	for _, p := range people {
		original := s.Hub.OriginalName(p.ID, q.Name)
		list, err := s.Hub.Inventory(p.ID, c.Rules)
		if err != nil {
			return ToolList{}, err
		}
		for _, l := range list {
			t := ToolRow(l, p, q.Name != "" || q.Schemas)
			if q.Name != "" && l.OriginalName() != original {
				continue
			}
			// Tools without an owner are listed once, unless somebody has a rule for them.
			if len(people) > 1 && l.Provider().Owner == "" {
				if key := t.Name + " " + t.State; told[key] {
					continue
				} else if t.State == withoutRules(l) && l.Served() == l.Tool {
					told[key] = true
				} else {
					t.Owner, t.OwnerName = p.ID, p.Name
				}
			}
			out = append(out, t)
		}
	}
	slices.SortStableFunc(out, func(a, b Tool) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name),
			cmp.Compare(a.OwnerName, b.OwnerName))
	})
	return ToolList{out}, nil
}

// withoutRules returns the state of a tool that no rule concerns.
func withoutRules(l hub.Listing) string {
	if l.Held {
		return ToolHeld
	}
	if l.Dangerous {
		return ToolDangerous
	}
	return ToolAllowed
}

// ToolRow converts a tool of the inventory for a list.
func ToolRow(l hub.Listing, p store.Person, schemas bool) Tool {
	at := l.Provider()
	t := Tool{
		Name: l.Name, Title: l.Title, Description: l.Description, Provider: at.ID, ProviderName: at.Title,
		Kind:  at.Kind,
		State: l.State, For: l.Audience, ReadOnly: l.IsReadOnly(),
	}
	if at.Owner != "" {
		t.Owner, t.OwnerName = p.ID, p.Name
	}
	if original := l.OriginalName(); original != t.Name {
		t.Original = original
	}
	if served := l.Served(); served.Title != t.Title || served.Description != t.Description {
		t.ServerTitle, t.ServerDescription = served.Title, served.Description
	}
	if schemas {
		t.Input, t.Output = l.Input, l.Output
	}
	return t
}

const (
	msgToolMissing  = i18n.Message("There is no tool called %s. It may be offline for now, or removed.")
	msgRuleForm     = i18n.Message("%q is no name of a tool; names have 1 to 64 letters, digits, _ and -, and * stands for any text.")
	msgRuleWord     = i18n.Message("A rule is allow, deny, or empty to take one back.")
	msgRuleMissing  = i18n.Message("There is no rule for %s.")
	msgRulesMost    = i18n.Message("There may be %d rules at most; join some with *.")
	msgToolAsksBack = i18n.Message("The tool asks back before it goes on, and nobody can be asked here.")
)

// FindTool returns one of the caller's tools with its schemas, and its state for programs and bots.
func (s *Service) FindTool(ctx context.Context, c Caller, name string) (Tool, error) {
	list, err := s.Hub.Inventory(c.Person, "")
	if err != nil {
		return Tool{}, err
	}
	original := s.Hub.OriginalName(c.Person, name)
	i := slices.IndexFunc(list, func(l hub.Listing) bool { return l.OriginalName() == original })
	if i < 0 {
		return Tool{}, problem.New(problem.NotFound, msgToolMissing, name)
	}
	return ToolRow(list[i], store.Person{ID: c.Person}, true), nil
}

// ToolUser is a key or a bot with its access to a tool.
type ToolUser struct {
	Key   string // id of a key
	Bot   int64  // number of a bot
	Name  string
	State string // one of the Tool… constants
}

// maxToolUsers limits the keys and the bots that are checked for one tool.
const maxToolUsers = 50

// ToolUsers lists the keys of programs and the bots that call tools, with their access to a tool.
func (s *Service) ToolUsers(ctx context.Context, c Caller, t Tool) ([]ToolUser, error) {
	keys, err := s.Hub.Store.Keys.ByPerson(ctx, c.Person)
	if err != nil {
		return nil, err
	}
	var users []ToolUser
	var rules []string
	now := time.Now()
	for _, k := range keys {
		if !k.Revoked.IsZero() || !k.Expires.IsZero() && k.Expires.Before(now) || len(users) == maxToolUsers {
			continue
		}
		if !slices.Contains(k.Scopes, account.ScopeMCP) && !(t.Kind == "learn" &&
			slices.Contains(k.Scopes, account.ScopeLearn)) {
			continue
		}
		u := ToolUser{Key: k.ID, Name: k.Name}
		if k.Bot != 0 { // it is only for that bot
			continue
		}
		users, rules = append(users, u), append(rules, k.Rules)
	}
	bots, err := s.Hub.Store.Bots.ByOwner(ctx, c.Person)
	if err != nil {
		return nil, err
	}
	for _, b := range bots {
		var common hub.Common
		if err := s.Hub.Registry.Settings(b, &common); err != nil || len(common.AllowTools) == 0 ||
			len(users) >= 2*maxToolUsers {
			continue
		}
		users = append(users, ToolUser{Bot: b.Number, Name: b.Name})
		rules = append(rules, common.Rules().String())
	}
	states, err := s.Hub.ToolStates(c.Person, t.Name, rules)
	for i := range states {
		users[i].State = states[i]
	}
	return users, err
}

// TryTool calls one of the caller's tools. Its error is a *[tool.Error] or an [*Error].
func (s *Service) TryTool(ctx context.Context, c Caller, name string, args json.RawMessage,
	progress func(tool.Progress)) (*tool.Result, error) {
	who := hub.Access{Rules: c.Rules, Caller: tool.Caller{
		Person: c.Person, Address: c.Address, Key: c.Key, OnlyBot: c.Only, KeyRules: c.Bound, Channel: c.Program,
		Program: c.Program, Lang: string(c.Lang),
	}}
	res, err := s.Hub.Call(ctx, who, name, &tool.Call{Args: args, Progress: progress})
	if err == nil && res.InputRequired != nil {
		err = problem.New(problem.Denied, msgToolAsksBack)
	}
	return res, err
}

// ToolCall is a call of a tool.
type ToolCall struct {
	Name string
	User string // owner; only admins name others
	Args json.RawMessage
	// Progress gets the progress of the call.
	Progress func(tool.Progress)
}

// CallTool calls a tool for a program. Its error may be a *[tool.Error].
func (s *Service) CallTool(ctx context.Context, c Caller, in ToolCall) (*tool.Result, error) {
	p, err := s.singlePerson(ctx, c, in.User)
	if err != nil {
		return nil, err
	}
	who := hub.Access{Rules: c.Rules, Caller: tool.Caller{
		Person: p.ID, Actor: c.ActsFor(p.ID), Address: c.Address, Key: c.Key, OnlyBot: c.Only, KeyRules: c.Bound,
		Channel: "cli", Program: c.Agent, Lang: string(c.Lang),
	}}
	res, err := s.Hub.Call(ctx, who, in.Name, &tool.Call{Args: in.Args, Progress: in.Progress})
	switch {
	case err == nil && res.InputRequired != nil:
		return nil, errToolAsks
	case err != nil && c.Learn && !slices.Contains(learn.ToolNames(), s.Hub.OriginalName(p.ID, in.Name)):
		// Such a key does not reveal which other tools there are.
		return nil, tool.Fail(tool.Unknown, "Unknown tool: "+in.Name, nil)
	}
	return res, err
}

// maxToolRules limits the rules of one person, each of which is matched against every tool.
const maxToolRules = 1000

// ToolRuleRow is a rule in the list of /api/v1/rules.
type ToolRuleRow struct {
	store.ToolRule
	OwnerName string `json:"owner_name"`
}

// ToolRuleList is the response of /api/v1/rules.
type ToolRuleList struct {
	Rules []ToolRuleRow `json:"rules"`
}

// ToolRuleQuery selects rules about tools.
type ToolRuleQuery struct {
	User string `query:"user"` // owner; only admins name others
}

// ListToolRules lists the rules about tools.
func (s *Service) ListToolRules(ctx context.Context, c Caller, in ToolRuleQuery) (ToolRuleList, error) {
	whose := c.Owner()
	if in.User != "" {
		p, err := s.singlePerson(ctx, c, in.User)
		if err != nil {
			return ToolRuleList{}, err
		}
		whose = p.ID
	}
	rules, err := s.Hub.Store.ToolRules.All(ctx)
	if err != nil {
		return ToolRuleList{}, err
	}
	people, err := s.names(ctx)
	out := ToolRuleList{Rules: []ToolRuleRow{}}
	for _, r := range rules {
		if whose == "" || r.Owner == whose {
			out.Rules = append(out.Rules, ToolRuleRow{r, people[r.Owner]})
		}
	}
	return out, err
}

// Rules of a [ToolDecision].
const (
	RuleAllow = hub.RuleAllow
	RuleDeny  = hub.RuleDeny
)

// ToolDecision sets a rule for a tool, or for all that match a pattern.
type ToolDecision struct {
	Name string `path:"name" json:"-"`
	Rule string `json:"rule"`           // allow, deny, or empty: no rule
	User string `json:"user,omitempty"` // owner of the tools; only admins name others
}

// DecidedTool is the result of a decision.
type DecidedTool struct {
	User string `json:"user"`
	Tool string `json:"tool"`
	Rule string `json:"rule"`
	// Matches is the number of matching tools now.
	Matches int `json:"matches"`
	// Denying is another rule that still denies them.
	Denying string `json:"denied_by,omitempty"`
	// Unconfirmed are instances that did not confirm the rule in time, and may not apply it yet.
	Unconfirmed []string `json:"unconfirmed,omitempty"`
}

// DecideTool sets or removes a rule. It is stored with the original name of the tool. When it
// returns, all instances apply it except the unconfirmed ones.
func (s *Service) DecideTool(ctx context.Context, c Caller, in ToolDecision) (DecidedTool, error) {
	if err := requireUnrestrictedKey(c); err != nil {
		return DecidedTool{}, err
	}
	if err := hub.CheckPattern(in.Name); err != nil {
		return DecidedTool{}, problem.New(problem.Invalid, msgRuleForm, in.Name).Because(err)
	}
	if in.Rule != "" && in.Rule != RuleAllow && in.Rule != RuleDeny {
		return DecidedTool{}, problem.New(problem.Invalid, msgRuleWord)
	}
	p, err := s.singlePerson(ctx, c, in.User)
	if err != nil {
		return DecidedTool{}, err
	}
	rules, err := s.Hub.Store.ToolRules.All(ctx)
	if err != nil {
		return DecidedTool{}, err
	}
	// A rule that was there before a tool got the name is removed by what it says.
	if in.Rule != "" || !slices.ContainsFunc(rules,
		func(r store.ToolRule) bool { return r.Owner == p.ID && r.Tool == in.Name }) {
		in.Name = s.Hub.OriginalName(p.ID, in.Name)
	}
	out := DecidedTool{User: p.Name, Tool: in.Name, Rule: in.Rule}
	mine := 0
	for _, r := range rules {
		if r.Owner != p.ID {
			continue
		}
		mine++
		if r.Rule == hub.RuleDeny && r.Tool != in.Name && tool.Match(r.Tool, in.Name) {
			out.Denying = r.Tool
		}
	}
	if in.Rule != "" && mine >= maxToolRules {
		return DecidedTool{}, problem.New(problem.Conflict, msgRulesMost, maxToolRules)
	}
	err = s.Hub.Store.ToolRules.Set(ctx, store.ToolRule{Owner: p.ID, Tool: in.Name, Rule: in.Rule, Created: time.Now()})
	if errors.Is(err, store.ErrNotFound) {
		err = problem.New(problem.NotFound, msgRuleMissing, in.Name)
	}
	if err != nil {
		return DecidedTool{}, err
	}
	s.RecordAdminEvent(ctx, c, EventToolRule, p.Name+": "+in.Name+" → "+cmp.Or(in.Rule, "-"))
	out.Unconfirmed = s.toolsChanged(ctx)
	list, err := s.Hub.Inventory(p.ID, "")
	for _, l := range list {
		if tool.Match(in.Name, l.OriginalName()) {
			out.Matches++
		}
	}
	return out, err
}
