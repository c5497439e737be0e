package control

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"patchbay/internal/account"
	"patchbay/internal/hub"
	"patchbay/internal/store"
	"patchbay/internal/talk"
	"patchbay/internal/tool"
)

// The states of a [Tool].
const (
	ToolAllowed   = "allowed"
	ToolDenied    = "denied"    // by its owner, or by the key that asks
	ToolDangerous = "dangerous" // refused until its owner allows it by name
	ToolPersonal  = "personal"  // for people; the same
)

// Tool is a tool as /api/v1/tools lists it.
type Tool struct {
	Name        string `json:"name"`
	Title       string `json:"title,omitempty"`
	Description string `json:"description"`
	// Provider and Kind say where it is plugged in; ProviderName is for people.
	Provider     string `json:"provider"`
	ProviderName string `json:"provider_name,omitempty"`
	Kind         string `json:"kind"`
	// Owner is whose tool it is; empty: everybody's.
	Owner     string `json:"owner,omitempty"`
	OwnerName string `json:"owner_name,omitempty"`
	// State is one of the Tool… of this package.
	State string `json:"state"`
	// For is "user" if it is for people: programs and bots get it only if its owner, or
	// their rules, allow it by name.
	For string `json:"for,omitempty"`
	// ReadOnly says that it surely changes nothing.
	ReadOnly bool `json:"read_only,omitempty"`
	// Input and Output are its schemas, if they were asked for.
	Input  json.RawMessage `json:"inputSchema,omitempty"`
	Output json.RawMessage `json:"outputSchema,omitempty"`
}

// ToolQuery says which tools are listed.
type ToolQuery struct {
	User string `query:"user" json:"-"` // whose; only admins name others
	Name string `query:"name" json:"-"` // those of that name alone, with their schemas
	// Schemas lists the schemas too.
	Schemas bool `query:"schemas" json:"-"`
}

// ToolList is the answer of /api/v1/tools.
type ToolList struct {
	Tools []Tool `json:"tools"`
}

// ListTools lists what is offered to a person, or to everybody.
func (s *Service) ListTools(ctx context.Context, c Caller, q ToolQuery) (ToolList, error) {
	people, err := s.targetPeople(ctx, c, q.User)
	if err != nil {
		return ToolList{}, err
	}
	out := []Tool{}
	told := map[string]bool{}
	for _, p := range people {
		list, err := s.Hub.Inventory(p.ID, c.Rules)
		if err != nil {
			return ToolList{}, err
		}
		for _, l := range list {
			t := ToolRow(l, p, q.Name != "" || q.Schemas)
			if q.Name != "" && t.Name != q.Name {
				continue
			}
			// What is everybody's is listed once, unless somebody has decided about it.
			if len(people) > 1 && l.Provider().Owner == "" {
				if key := t.Name + " " + t.State; told[key] {
					continue
				} else if t.State == withoutRules(l) {
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

// withoutRules is the state of a tool about which nobody has decided.
func withoutRules(l hub.Listing) string {
	if l.Dangerous {
		return ToolDangerous
	}
	return ToolAllowed
}

// ToolRow is a tool of somebody's as it is listed.
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
	if schemas {
		t.Input, t.Output = l.Input, l.Output
	}
	return t
}

// ToolFilter says which tools somebody looks at.
type ToolFilter struct {
	Text  string                   // in the name, the title, the description or the provider's name
	Shown func(text string) string // how titles and descriptions are shown; nil: as they are
	From  string                   // a provider's id
	State string                   // one of the Tool…, or ToolWaiting
	After int                      // how many are left out, which were shown already
	Limit int
}

// ToolWaiting are tools that nobody has decided about and programs do not get until then.
const ToolWaiting = "waiting"

// ToolPage is a part of the tools somebody looks at: by where they come from, and then by
// name, in the states that they have for programs and bots.
type ToolPage struct {
	Tools []Tool
	// All and Matching count them all; Next is the After of the next page, 0: there is
	// none.
	All, Matching, Next int
	// Waiting and Denied count those in these states.
	Waiting, Denied int
}

func (f *ToolFilter) matches(l *hub.Listing) bool {
	at := l.Provider()
	if f.From != "" && at.ID != f.From {
		return false
	}
	switch waits := l.State == ToolDangerous || l.State == ToolPersonal; {
	case f.State == ToolWaiting && !waits, f.State != "" && f.State != ToolWaiting && l.State != f.State:
		return false
	}
	if f.Text == "" {
		return true
	}
	text := strings.ToLower(f.Text)
	for _, in := range []string{l.Name, l.Title, at.Title, l.Description} {
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

// BrowseTools is for people who look at their tools.
func (s *Service) BrowseTools(ctx context.Context, c Caller, f ToolFilter) (p ToolPage, err error) {
	list, err := s.Hub.Inventory(c.Person, "")
	if err != nil {
		return p, err
	}
	// Sorted by name, the tools of one place mostly lie together: runs are put in order,
	// and not each of thousands of tools.
	type run struct {
		title, id string
		from, to  int
	}
	var runs []run
	p.All = len(list)
	for i := range list {
		l := &list[i]
		switch l.State {
		case ToolDangerous, ToolPersonal:
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
		runs = append(runs, run{at.Title, at.ID, i, i + 1})
	}
	slices.SortFunc(runs, func(a, b run) int {
		return cmp.Or(strings.Compare(a.title, b.title), strings.Compare(a.id, b.id), a.from-b.from)
	})
	from := min(max(f.After, 0), p.Matching)
	to := min(from+f.Limit, p.Matching)
	if to < p.Matching {
		p.Next = to
	}
	at := 0 // how many tools come before the run
	for _, r := range runs {
		first, end := r.from+max(from-at, 0), r.from+min(to-at, r.to-r.from)
		for i := first; i < end; i++ {
			p.Tools = append(p.Tools, ToolRow(list[i], store.Person{ID: c.Person}, false))
		}
		at += r.to - r.from
	}
	return p, nil
}

var (
	sayToolMissing = talk.Say{Zh: "没有叫 %s 的工具。它可能暂时离线，或已被移除。",
		En: "There is no tool called %s. It may be offline for now, or removed."}
	sayRuleForm = talk.Say{Zh: "%q 不是工具名；名称由 1 到 64 个字母、数字、_ 和 - 组成，* 代表任意文字。",
		En: "%q is no name of a tool; names have 1 to 64 letters, digits, _ and -, and * stands for any text."}
	sayRuleWord     = talk.Say{Zh: "规则是 allow、deny，或留空以取消。", En: "A rule is allow, deny, or empty to take one back."}
	sayRuleMissing  = talk.Say{Zh: "没有关于 %s 的规则。", En: "There is no rule for %s."}
	sayRulesMost    = talk.Say{Zh: "最多可以有 %d 条规则，请用 * 合并一些。", En: "There may be %d rules at most; join some with *."}
	sayToolAsksBack = talk.Say{Zh: "这个工具还要问一些内容才能继续，而这里没有人可以回答。",
		En: "The tool asks back before it goes on, and nobody can be asked here."}
)

// FindTool finds one of the caller's tools, with its schemas, in the state that it has
// for programs and bots.
func (s *Service) FindTool(ctx context.Context, c Caller, name string) (Tool, error) {
	list, err := s.Hub.Inventory(c.Person, "")
	if err != nil {
		return Tool{}, err
	}
	i := slices.IndexFunc(list, func(l hub.Listing) bool { return l.Name == name })
	if i < 0 {
		return Tool{}, Fail(Missing, sayToolMissing, name)
	}
	return ToolRow(list[i], store.Person{ID: c.Person}, true), nil
}

// ToolUser is somebody who could call a tool, and whether it may.
type ToolUser struct {
	Key   string // id of a key
	Bot   int64  // number of a bot
	Name  string
	State string // one of the Tool…
}

// maxToolUsers bounds how many keys and how many bots are looked at for one tool.
const maxToolUsers = 50

// ToolUsers lists the keys of programs, and the bots that call tools, with whether they
// may call one.
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
		if k.Bot != 0 { // it opens that bot and nothing else
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
		rules = append(rules, hub.Rules{Allow: common.AllowTools, Deny: common.DenyTools,
			Dangerous: common.DangerousTools}.String())
	}
	states, err := s.Hub.ToolStates(c.Person, t.Name, rules)
	for i := range states {
		users[i].State = states[i]
	}
	return users, err
}

// TryTool calls one of the caller's tools. Its error is a *[tool.Error], or an [*Error].
func (s *Service) TryTool(ctx context.Context, c Caller, name string, args json.RawMessage,
	progress func(tool.Progress)) (*tool.Result, error) {
	who := hub.Access{Rules: c.Rules, Caller: tool.Caller{
		Person: c.Person, Address: c.Address, Key: c.Key, OnlyBot: c.Only, KeyRules: c.Bound, Channel: c.Program,
		Program: c.Program, Lang: string(c.Lang),
	}}
	res, err := s.Hub.Call(ctx, who, name, &tool.Call{Args: args, Progress: progress})
	if err == nil && res.InputRequired != nil {
		err = Fail(Refused, sayToolAsksBack)
	}
	return res, err
}

// maxToolRules bounds the rules of one person, each of which is tried on every tool.
const maxToolRules = 1000

// ToolRuleRow is a rule as /api/v1/rules lists it.
type ToolRuleRow struct {
	store.ToolRule
	OwnerName string `json:"owner_name"`
}

// ToolRuleList is the answer of /api/v1/rules.
type ToolRuleList struct {
	Rules []ToolRuleRow `json:"rules"`
}

// ListToolRules lists what was decided about tools.
func (s *Service) ListToolRules(ctx context.Context, c Caller, _ struct{}) (ToolRuleList, error) {
	rules, err := s.Hub.Store.ToolRules.All(ctx)
	if err != nil {
		return ToolRuleList{}, err
	}
	people, err := s.names(ctx)
	out := ToolRuleList{Rules: []ToolRuleRow{}}
	for _, r := range rules {
		if c.Owner() == "" || r.Owner == c.Person {
			out.Rules = append(out.Rules, ToolRuleRow{r, people[r.Owner]})
		}
	}
	return out, err
}

// ToolDecision is what somebody decides about a tool, or about all that a pattern
// matches.
type ToolDecision struct {
	Name string `path:"name" json:"-"`
	Rule string `json:"rule"`           // allow, deny, or empty: as if nothing was decided
	User string `json:"user,omitempty"` // whose tools; only admins name others
}

// DecidedTool is a decision that was made.
type DecidedTool struct {
	User string `json:"user"`
	Tool string `json:"tool"`
	Rule string `json:"rule"`
	// Matches counts the tools that there are now.
	Matches int `json:"matches"`
	// Denying is another rule, which denies the same nevertheless.
	Denying string `json:"denied_by,omitempty"`
	// Unconfirmed are instances that did not confirm in time that they have taken it up. It
	// does not hold there yet.
	Unconfirmed []string `json:"unconfirmed,omitempty"`
}

// DecideTool allows or denies tools to programs and bots, or takes that back. When it
// returns, the decision holds on every instance that is not among the unconfirmed ones.
func (s *Service) DecideTool(ctx context.Context, c Caller, in ToolDecision) (DecidedTool, error) {
	if err := requireUnrestrictedKey(c); err != nil {
		return DecidedTool{}, err
	}
	if err := hub.CheckPattern(in.Name); err != nil {
		return DecidedTool{}, &Error{Reason: Invalid, Say: sayRuleForm, Args: []any{in.Name}, Cause: err}
	}
	if in.Rule != "" && in.Rule != hub.RuleAllow && in.Rule != hub.RuleDeny {
		return DecidedTool{}, Fail(Invalid, sayRuleWord)
	}
	p, err := s.singlePerson(ctx, c, in.User)
	if err != nil {
		return DecidedTool{}, err
	}
	out := DecidedTool{User: p.Name, Tool: in.Name, Rule: in.Rule}
	rules, err := s.Hub.Store.ToolRules.All(ctx)
	if err != nil {
		return DecidedTool{}, err
	}
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
		return DecidedTool{}, Fail(Conflict, sayRulesMost, maxToolRules)
	}
	err = s.Hub.Store.ToolRules.Set(ctx, store.ToolRule{Owner: p.ID, Tool: in.Name, Rule: in.Rule, Created: time.Now()})
	if errors.Is(err, store.ErrNotFound) {
		err = Fail(Missing, sayRuleMissing, in.Name)
	}
	if err != nil {
		return DecidedTool{}, err
	}
	s.RecordAdminEvent(ctx, c, EventToolRule, p.Name+": "+in.Name+" → "+cmp.Or(in.Rule, "-"))
	out.Unconfirmed = s.toolsChanged(ctx)
	list, err := s.Hub.Inventory(p.ID, "")
	for _, l := range list {
		if tool.Match(in.Name, l.Name) {
			out.Matches++
		}
	}
	return out, err
}
