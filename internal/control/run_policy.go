package control

import (
	"cmp"
	"context"
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"time"

	"patchbay/internal/i18n"
	"patchbay/internal/problem"
)

// Modes of the policy by which a node runs programs.
const (
	RunNothing    = "nothing"    // no program
	RunListed     = "listed"     // those that are listed
	RunAsk        = "ask"        // those that are listed; its owner is asked about others
	RunAlwaysAsk  = "always-ask" // its owner is asked about all
	RunEverything = "everything" // any program, without asking
)

// runModes are the modes as a policy of OpenClaw's has them: security, ask, and what happens if
// nobody answers.
var runModes = map[string]execDefaults{
	RunNothing:    {"deny", "off", "deny"},
	RunListed:     {"allowlist", "off", "deny"},
	RunAsk:        {"allowlist", "on-miss", "deny"},
	RunAlwaysAsk:  {"full", "always", "deny"},
	RunEverything: {"full", "off", "full"},
}

const (
	msgRunMode      = i18n.Message("A mode is nothing, listed, ask, always-ask or everything.")
	msgNoRunRule    = i18n.Message("No rule of this node is %q.")
	msgNativePolicy = i18n.Message("The policy of this node is its operating system's, and is set there.")
	msgNoProgram    = i18n.Message("Give the program, as a name or an absolute path, and its arguments: git status")
	msgTooManyRules = i18n.Message("A node has at most %d rules.")
)

const (
	// maxRunRules limits the rules of a node that are shown, and those that are added here.
	maxRunRules = 1000
	// maxRunText limits the parts of a rule that are shown, in bytes.
	maxRunText = 2000
	// maxUsedMS limits the times that a node may tell: JSON has none after the year 9999.
	maxUsedMS = 253_402_300_799_000
)

// RunPolicy is the policy by which a node runs programs. The node keeps it, and enforces it whoever
// calls.
type RunPolicy struct {
	Node  string    `json:"node"`            // its id
	Mode  string    `json:"mode"`            // what holds for calls by Patchbay: a Run… constant
	Rules []RunRule `json:"rules"`           // programs that may run without asking
	Fixed bool      `json:"fixed,omitempty"` // it is the operating system's, and cannot be changed here

	file map[string]json.RawMessage
	hash string
}

// RunRule is a program that may run without asking.
type RunRule struct {
	// Rule is how it is written: the program, and what its arguments have to be.
	Rule    string `json:"rule"`
	Program string `json:"program"`        // path, with wildcards, or name
	Args    string `json:"args,omitempty"` // regular expression, or a hash of arguments and folder; empty: any
	Agent   string `json:"agent,omitempty"`
	// Asked reports whether it was allowed when its owner was asked.
	Asked bool       `json:"asked,omitempty"`
	Used  *time.Time `json:"last_used_at,omitempty"`
	Last  string     `json:"last_command,omitempty"`
}

// RunPolicyRef identifies a node.
type RunPolicyRef struct {
	Node  string `path:"node" json:"-"` // id, beginning of it, or name
	Exact bool   `json:"-"`             // Node is an id
}

// RunPolicyChange changes the policy of a node.
type RunPolicyChange struct {
	Node  string `path:"node" json:"-"`
	Exact bool   `json:"-"`
	Mode  string `json:"mode,omitempty"` // empty: as it is
	// Allow adds programs with their arguments, such as "git status". Without arguments, any are
	// allowed; a * at the end allows more.
	Allow []string `json:"allow,omitempty"`
	// Remove removes rules, each as [RunRule].Rule has it.
	Remove []string `json:"remove,omitempty"`
}

type execDefaults struct {
	Security    string `json:"security,omitempty"`
	Ask         string `json:"ask,omitempty"`
	AskFallback string `json:"askFallback,omitempty"`
}

// or returns the levels, with those of another policy where they are empty.
func (d execDefaults) or(other execDefaults) execDefaults {
	return execDefaults{cmp.Or(d.Security, other.Security), cmp.Or(d.Ask, other.Ask),
		cmp.Or(d.AskFallback, other.AskFallback)}
}

// mode returns the mode of levels (docs/tools/exec-approvals.md of OpenClaw 2026.9.6).
func (d execDefaults) mode() string {
	switch {
	case d.Security == "deny":
		return RunNothing
	case d.Ask == "always":
		return RunAlwaysAsk
	case d.Security == "allowlist" && d.Ask == "on-miss":
		return RunAsk
	case d.Security == "allowlist":
		return RunListed
	}
	return RunEverything // also what asks about what is not listed, but lists everything
}

// execRule is a rule in the form of OpenClaw's.
type execRule struct {
	Pattern    string  `json:"pattern"`
	ArgPattern string  `json:"argPattern,omitempty"`
	Source     string  `json:"source,omitempty"`
	Command    string  `json:"commandText,omitempty"`
	UsedMS     float64 `json:"lastUsedAt,omitempty"`
	Last       string  `json:"lastUsedCommand,omitempty"`
}

// text returns the rule as people read and write it.
func (r *execRule) text() string {
	if r.ArgPattern == "" {
		return r.Pattern
	}
	return r.Pattern + " " + r.ArgPattern
}

// RunPolicy returns the policy of a node that is connected.
func (s *Service) RunPolicy(ctx context.Context, c Caller, in RunPolicyRef) (RunPolicy, error) {
	return s.runPolicy(ctx, c, NodeAction{Action: NodeGetPolicy, Node: in.Node, Exact: in.Exact})
}

// runPolicy does an action whose result is the policy of a node.
func (s *Service) runPolicy(ctx context.Context, c Caller, a NodeAction) (RunPolicy, error) {
	a.Person, a.Key, a.Rules, a.Only, a.Admin, a.Program = c.Person, c.Key, c.Rules, c.Only, c.Admin, c.Program
	do := s.OnNodes
	if a.Exact {
		do = func(ctx context.Context, c Caller, a NodeAction) (json.RawMessage, error) {
			return s.node(ctx, c, a, msgNodeMissing)
		}
	}
	text, err := do(ctx, c, a)
	if err != nil {
		return RunPolicy{}, err
	}
	return readRunPolicy(text)
}

func readRunPolicy(text []byte) (RunPolicy, error) {
	var in struct {
		Node   string `json:"nodeId"`
		Policy struct {
			Hash     string                     `json:"hash"`
			File     map[string]json.RawMessage `json:"file"`
			Resolved execDefaults               `json:"resolvedDefaults"`
			Enabled  *bool                      `json:"enabled"`
			Action   string                     `json:"defaultAction"`
		} `json:"policy"`
	}
	if err := json.Unmarshal(text, &in); err != nil {
		return RunPolicy{}, err
	}
	p := RunPolicy{Node: in.Node, Rules: []RunRule{}, file: in.Policy.File, hash: in.Policy.Hash}
	if in.Policy.Enabled != nil || p.file == nil {
		p.Fixed = true
		p.Mode = map[string]string{"deny": RunListed, "prompt": RunAsk}[in.Policy.Action]
		p.Mode = cmp.Or(p.Mode, RunEverything)
		return p, nil
	}
	var defaults execDefaults
	_ = json.Unmarshal(p.file["defaults"], &defaults) // what is missing is the node's default
	agents := p.agents()
	var main, all execDefaults
	_ = json.Unmarshal(agents[mainAgent], &main)
	_ = json.Unmarshal(agents[allAgents], &all)
	p.Mode = main.or(all).or(defaults).or(in.Policy.Resolved).or(runModes[RunEverything]).mode()
	for _, name := range sortedAgents(agents) {
		var agent struct {
			Allowlist []execRule `json:"allowlist"`
		}
		_ = json.Unmarshal(agents[name], &agent)
		for _, r := range agent.Allowlist {
			if len(p.Rules) == maxRunRules {
				break
			}
			rule := RunRule{Rule: shortened(r.text()), Program: shortened(r.Pattern), Args: shortened(r.ArgPattern), Asked: r.Source == "allow-always",
				Last: shortened(cmp.Or(r.Last, r.Command))}
			if name != allAgents {
				rule.Agent = name
			}
			if r.UsedMS > 0 && r.UsedMS < maxUsedMS {
				rule.Used = new(time.UnixMilli(int64(r.UsedMS)))
			}
			p.Rules = append(p.Rules, rule)
		}
	}
	return p, nil
}

// shortened returns at most maxRunText of a text that a node tells.
func shortened(text string) string {
	if len(text) <= maxRunText {
		return text
	}
	return strings.ToValidUTF8(text[:maxRunText], "") + "…"
}

const (
	// allAgents is the name of the rules for every agent.
	allAgents = "*"
	// mainAgent is the agent for which Patchbay calls a node. A node takes each level from the
	// agent's own policy, from that of all, or from the defaults
	// (src/infra/exec-approvals-core.ts).
	mainAgent = "main"
)

func (p *RunPolicy) agents() map[string]json.RawMessage {
	agents := map[string]json.RawMessage{}
	_ = json.Unmarshal(p.file["agents"], &agents) // none, if there are none
	return agents
}

// sortedAgents returns names in order, the rules for all first.
func sortedAgents(agents map[string]json.RawMessage) []string {
	names := make([]string, 0, len(agents))
	for name := range agents {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int {
		switch {
		case a == b:
			return 0
		case a == allAgents:
			return -1
		case b == allAgents:
			return 1
		}
		return cmp.Compare(a, b)
	})
	return names
}

// ChangeRunPolicy changes the policy of a node that is connected, and returns it as it is then.
func (s *Service) ChangeRunPolicy(ctx context.Context, c Caller, in RunPolicyChange) (RunPolicy, error) {
	if _, known := runModes[in.Mode]; !known && in.Mode != "" {
		return RunPolicy{}, problem.New(problem.Invalid, msgRunMode)
	}
	var allow []execRule
	for _, text := range in.Allow {
		rule, err := parseRunRule(text)
		if err != nil {
			return RunPolicy{}, err
		}
		allow = append(allow, rule)
	}
	p, err := s.RunPolicy(ctx, c, RunPolicyRef{in.Node, in.Exact})
	switch {
	case err != nil:
		return p, err
	case p.Fixed:
		return p, problem.New(problem.Invalid, msgNativePolicy)
	case len(p.Rules)+len(allow) > maxRunRules:
		return p, problem.New(problem.Invalid, msgTooManyRules, maxRunRules)
	}
	if err := p.change(in.Mode, allow, in.Remove); err != nil {
		return p, err
	}
	file, err := json.Marshal(p.file)
	if err != nil {
		return p, err
	}
	about := strings.Join(slices.Concat([]string{in.Mode}, in.Allow, in.Remove), ", ")
	if _, err = s.runPolicy(ctx, c, NodeAction{Action: NodeSetPolicy, Node: p.Node, Exact: true, Params: file,
		Once: p.hash, Name: strings.Trim(about, ", ")}); err != nil {
		return p, err
	}
	return s.RunPolicy(ctx, c, RunPolicyRef{Node: p.Node, Exact: true})
}

// parseRunRule parses a program with its arguments.
func parseRunRule(text string) (execRule, error) {
	program, args, _ := strings.Cut(strings.TrimSpace(text), " ")
	args = strings.Join(strings.Fields(args), " ")
	if program == "" || len(text) > 1000 {
		return execRule{}, problem.New(problem.Invalid, msgNoProgram)
	}
	rule := execRule{Pattern: program}
	if more, ok := strings.CutSuffix(args, "*"); ok && (more == "" || strings.HasSuffix(more, " ")) {
		if more = strings.TrimSpace(more); more != "" {
			rule.ArgPattern = "^" + regexp.QuoteMeta(more) + "( |$)"
		}
		return rule, nil
	}
	if args != "" {
		rule.ArgPattern = "^" + regexp.QuoteMeta(args) + "$"
	}
	return rule, nil
}

// change changes the file of a policy. What is not known here stays.
func (p *RunPolicy) change(mode string, allow []execRule, remove []string) error {
	agents := p.agents()
	members := map[string]map[string]json.RawMessage{}
	for name, text := range agents {
		var m map[string]json.RawMessage
		if json.Unmarshal(text, &m) == nil && m != nil {
			members[name] = m
		}
	}
	if mode != "" {
		defaults := map[string]json.RawMessage{}
		if json.Unmarshal(p.file["defaults"], &defaults) != nil || defaults == nil {
			defaults = map[string]json.RawMessage{}
		}
		for name, value := range map[string]string{"security": runModes[mode].Security, "ask": runModes[mode].Ask,
			"askFallback": runModes[mode].AskFallback} {
			defaults[name] = asJSON(value)
			for _, agent := range members { // it holds for all of them
				delete(agent, name)
			}
		}
		p.file["defaults"] = asJSON(defaults)
	}
	gone := map[string]bool{}
	for name, agent := range members {
		var list []json.RawMessage
		_ = json.Unmarshal(agent["allowlist"], &list)
		kept := slices.DeleteFunc(slices.Clone(list), func(text json.RawMessage) bool {
			var r execRule
			_ = json.Unmarshal(text, &r)
			is := slices.Contains(remove, r.text())
			gone[r.text()] = gone[r.text()] || is
			return is
		})
		if len(kept) != len(list) {
			members[name]["allowlist"] = asJSON(kept)
		}
	}
	for _, rule := range remove {
		if !gone[rule] {
			return problem.New(problem.NotFound, msgNoRunRule, rule)
		}
	}
	if len(allow) > 0 {
		if members[allAgents] == nil {
			members[allAgents] = map[string]json.RawMessage{}
		}
		var list []json.RawMessage
		_ = json.Unmarshal(members[allAgents]["allowlist"], &list)
		for _, rule := range allow {
			if !slices.ContainsFunc(p.Rules, func(r RunRule) bool { return r.Agent == "" && r.Rule == rule.text() }) {
				list = append(list, asJSON(rule))
			}
		}
		members[allAgents]["allowlist"] = asJSON(list)
	}
	if len(members) > 0 {
		p.file["agents"] = asJSON(members)
	}
	return nil
}

// asJSON encodes a value that can always be encoded.
func asJSON(v any) json.RawMessage {
	text, err := json.Marshal(v)
	if err != nil {
		return json.RawMessage("null")
	}
	return text
}
