package hub

import (
	"bytes"
	"cmp"
	"encoding/json"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"patchbay/internal/i18n"
	"patchbay/internal/store"
	"patchbay/internal/tool"
)

// Rules limit the tools of a caller, beyond its owner's rules for all callers. In patterns, *
// stands for any text.
type Rules struct {
	Allow     []string `json:"allow,omitempty"`      // only these; empty: all
	Set       string   `json:"set,omitempty"`        // only those of the owner's set of this name
	Deny      []string `json:"deny,omitempty"`       // never these
	Dangerous []string `json:"dangerous,omitempty"`  // these, although they are dangerous or for people
	People    bool     `json:"people,omitempty"`     // also those for people
	PerMinute int      `json:"per_minute,omitempty"` // limit of calls; 0: the installation's
	KeepArgs  bool     `json:"keep_args,omitempty"`  // store the arguments in the audit trail
	ReadOnly  bool     `json:"read_only,omitempty"`  // only those that say that they change nothing
	// Ask has calls of dangerous tools and of those for people wait for an approval, instead of
	// hiding the tools: [AskOwner] or [AskProgram], or empty.
	Ask string `json:"ask,omitempty"`
	// FindTools shows programs two tools that find and call the others.
	FindTools bool `json:"find_tools,omitempty"`
	// Reads says which conversations and records a caller may read as resources: "own", which is
	// the default, are those of what it did itself, "all" those of its owner, "none" none, and
	// numbers of bots, such as "3,7", its own and those of these bots.
	Reads string `json:"reads,omitempty"`
}

// Who may approve a call, see [Rules.Ask].
const (
	AskOwner = "owner" // the owner, who is signed in
	// AskProgram means the owner, or whoever answers the program's own dialog. A program can answer
	// it without asking anybody.
	AskProgram = "program"
)

// Reading is what [Rules.Reads] says.
type Reading struct {
	All, None bool
	Bots      []int64
}

// maxReadBots limits the bots in [Rules.Reads].
const maxReadBots = 100

// ParseReads parses [Rules.Reads].
func ParseReads(text string) (r Reading, err error) {
	switch text {
	case "", "own":
		return r, nil
	case "all":
		return Reading{All: true}, nil
	case "none":
		return Reading{None: true}, nil
	}
	for part := range strings.SplitSeq(text, ",") {
		n, err := strconv.ParseInt(strings.TrimSpace(part), 10, 64)
		if err != nil || n < 1 || len(r.Bots) == maxReadBots {
			return Reading{}, msgReads.Errorf(text)
		}
		r.Bots = append(r.Bots, n)
	}
	return r, nil
}

// maxPatterns limits the time to match a list of tools.
const maxPatterns = 200

// Messages about invalid rules.
const (
	msgManyPatterns = i18n.Message("%d patterns are too many; %d are the most")
	msgNegativeRate = i18n.Message("a rate cannot be negative")
	msgNoPattern    = i18n.Message("%q is no name of a tool; names have 1 to 64 letters, digits, _ and -, and * stands for any text")
	msgReads        = i18n.Message("%q cannot be read: choose own, all or none, or numbers of bots, such as 3,7")
	msgSetForm      = i18n.Message("%q is no name of a set; names have 1 to 32 lower-case letters, digits, _ and -")
	msgAsk          = i18n.Message("%q asks nobody: choose owner or program")
	msgNoRules      = i18n.Message("rules: %v")
)

// patternForm matches a tool's name with stars.
var patternForm = regexp.MustCompile(`^[A-Za-z0-9_*-]{1,64}$`)

// Validate reports invalid rules.
func (r *Rules) Validate() error {
	for _, list := range [][]string{r.Allow, r.Deny, r.Dangerous} {
		if len(list) > maxPatterns {
			return msgManyPatterns.Errorf(len(list), maxPatterns)
		}
		for _, p := range list {
			if err := CheckPattern(p); err != nil {
				return err
			}
		}
	}
	if _, err := ParseReads(r.Reads); err != nil {
		return err
	}
	if r.Set != "" && !IsSetName(r.Set) {
		return msgSetForm.Errorf(r.Set)
	}
	if r.Ask != "" && r.Ask != AskOwner && r.Ask != AskProgram {
		return msgAsk.Errorf(r.Ask)
	}
	if r.PerMinute < 0 {
		return msgNegativeRate.Errorf()
	}
	return nil
}

// setForm matches the name of a set.
var setForm = regexp.MustCompile(`^[a-z0-9_-]{1,32}$`)

// IsSetName reports whether a set of tools can have a name.
func IsSetName(name string) bool { return setForm.MatchString(name) }

// HasToolSet reports whether a person has a set of tools of this name.
func (h *Hub) HasToolSet(person, name string) bool {
	_, ok := h.catalog.snapshot(person).rules.sets[name]
	return ok
}

// CheckPattern reports a pattern that cannot match a tool's name.
func CheckPattern(p string) error {
	if !patternForm.MatchString(p) {
		return msgNoPattern.Errorf(p)
	}
	return nil
}

// String returns the rules in their stored form; the zero Rules are "".
func (r Rules) String() string {
	text, err := json.Marshal(r)
	if err != nil || string(text) == "{}" {
		return ""
	}
	return string(text)
}

// ParseRules parses rules in their stored form, or as a person writes them.
func ParseRules(text string) (r Rules, err error) {
	if text == "" {
		return r, nil
	}
	dec := json.NewDecoder(bytes.NewReader([]byte(text)))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&r); err != nil {
		return r, msgNoRules.Errorf(err)
	}
	return r, r.Validate()
}

// Rules of an owner about tools.
const (
	RuleAllow = "allow" // although it is dangerous or for people
	RuleDeny  = "deny"
)

// ownerRules are the rules of one person for all callers, and the person's sets by name.
type ownerRules struct {
	allow, deny []string
	only        []string // the only tools that an administrator lets the person use; empty: all
	sets        map[string][]string
	words       map[string]store.ToolWords // by the original names of the tools
	names       map[string]string          // the person's own names of tools → the original ones
}

func rulesByOwner(rows []store.ToolRule, sets []store.ToolSet, words []store.ToolWords,
	people restricted) map[string]ownerRules {
	out := map[string]ownerRules{}
	for _, row := range rows {
		r := out[row.Owner]
		switch row.Rule {
		case RuleAllow:
			r.allow = append(r.allow, row.Tool)
		case RuleDeny:
			r.deny = append(r.deny, row.Tool)
		}
		out[row.Owner] = r
	}
	for _, set := range sets {
		r := out[set.Owner]
		if r.sets == nil {
			r.sets = map[string][]string{}
		}
		r.sets[set.Name] = set.Tools
		out[set.Owner] = r
	}
	for _, w := range words {
		r := out[w.Owner]
		if r.words == nil {
			r.words, r.names = map[string]store.ToolWords{}, map[string]string{}
		}
		r.words[w.Tool] = w
		if w.Name != "" {
			r.names[w.Name] = w.Tool
		}
		out[w.Owner] = r
	}
	for id, p := range people {
		r := out[id]
		r.only, r.deny = p.Limits.AllowTools, append(r.deny, p.Limits.DenyTools...)
		out[id] = r
	}
	return out
}

// verdict is the result of applying rules to a tool.
type verdict int

const (
	allowed   verdict = iota
	asked             // after an approval
	denied            // by the owner's or the caller's rules
	dangerous         // not denied, but not allowed by name
	personal          // for people, and not allowed by name
	held              // changed since its owner saw it
)

func (v verdict) String() string {
	return [...]string{"allowed", "asked", "denied", "dangerous", "personal", "held"}[v]
}

// audienceUser is [tool.Tool].Audience of tools that programs and models may use only if their
// owner allows it.
const audienceUser = "user"

// evaluate applies the rules of a caller, and of those for whom it calls.
func evaluate(o *RegisteredTool, owner ownerRules, rules []Rules) verdict {
	all := allowed
	for i := range rules {
		switch v := evaluateRules(o, owner, &rules[i]); v {
		case allowed:
		case asked:
			all = asked
		default:
			return v
		}
	}
	return all
}

// evaluateRules knows tools by their original names: what a person calls a tool decides nothing.
func evaluateRules(o *RegisteredTool, owner ownerRules, r *Rules) verdict {
	name := o.OriginalName()
	switch {
	case tool.MatchAny(owner.deny, name), tool.MatchAny(r.Deny, name):
		return denied
	case len(owner.only) > 0 && !tool.MatchAny(owner.only, name):
		return denied
	case r.Set != "" && !tool.MatchAny(owner.sets[r.Set], name): // also if there is no such set
		return denied
	case len(r.Allow) > 0 && !tool.MatchAny(r.Allow, name), r.ReadOnly && !o.IsReadOnly():
		return denied
	case o.Held: // a rule that allows it was about another tool
		return held
	case !o.Dangerous && (o.Audience != audienceUser || r.People), tool.MatchAny(owner.allow, name),
		tool.MatchAny(r.Dangerous, name):
		return allowed
	case r.Ask != "":
		return asked
	case o.Dangerous:
		return dangerous
	}
	return personal
}

// Listing is a tool of a person's inventory, with its state.
type Listing struct {
	*RegisteredTool
	// State is "allowed", "asked" (each call waits for an approval), "denied" (by the owner's or
	// the caller's rules), "dangerous" or "personal" (for people): not denied, but not allowed by
	// name. "held": it has changed, and the owner has not approved that.
	State string
}

// Inventory lists all tools that a person has, by name, with their state under the owner's rules
// and a caller's stored rules. It is for people who look at their tools; callers use [Hub.View].
// The list must not be changed: it is cached, like views, until the person's tools change.
func (h *Hub) Inventory(person, rules string) ([]Listing, error) {
	s := h.catalog.snapshot(person)
	v, err := s.cachedView(rules)
	if err != nil {
		return nil, err
	}
	return v.inventory(s), nil
}

// inventory is the list of [Hub.Inventory].
func (s *snapshot) inventory(r []Rules) []Listing {
	all := 0
	for _, o := range s.offers {
		all += len(o.tools)
	}
	out := make([]Listing, 0, all)
	for _, o := range s.offers {
		for i := range o.tools {
			t := &o.tools[i]
			out = append(out, Listing{t, evaluate(t, s.rules, r).String()})
		}
	}
	// Of duplicates the view has the first that is allowed, or else that of the first provider. One
	// provider has no duplicates, so this is the whole order: a stable sort of thousands would take
	// twice as long.
	slices.SortFunc(out, func(a, b Listing) int {
		if c := strings.Compare(a.Name, b.Name); c != 0 {
			return c
		}
		return cmp.Or(strings.Compare(a.State, b.State), strings.Compare(a.offer.ID, b.offer.ID))
	})
	return slices.Clip(slices.CompactFunc(out, func(a, b Listing) bool { return a.Name == b.Name }))
}

// Registered returns a person's tools with some original names, as records have them, whatever
// their state. Of duplicates it has the one of the first provider.
func (h *Hub) Registered(person string, names []string) map[string]*RegisteredTool {
	found := make(map[string]*RegisteredTool, len(names))
	for _, name := range names {
		found[name] = nil
	}
	for _, o := range h.catalog.snapshot(person).offers {
		for i := range o.tools {
			t := &o.tools[i]
			if first, wanted := found[t.OriginalName()]; wanted && first == nil {
				found[t.OriginalName()] = t
			}
		}
	}
	return found
}

// ToolStates returns the states of a tool under the owner's rules and each of some callers' stored
// rules, as in [Listing].State; nil if the tool does not exist. It shows people who may use a tool.
func (h *Hub) ToolStates(person, name string, rules []string) ([]string, error) {
	s := h.catalog.snapshot(person)
	name = s.originalName(name)
	found := h.Registered(person, []string{name})[name]
	if found == nil {
		return nil, nil
	}
	out := make([]string, len(rules))
	for i, text := range rules {
		r, err := parseJoined(text)
		if err != nil {
			return nil, err
		}
		out[i] = evaluate(found, s.rules, r).String()
	}
	return out, nil
}

// ProviderInventory is [Hub.Inventory] of one provider, by the tools' own names, because a person
// may have thousands of tools. It is empty if the provider is not registered.
func (h *Hub) ProviderInventory(provider, rules string) ([]Listing, error) {
	r, err := parseJoined(rules)
	if err != nil {
		return nil, err
	}
	o, _, tools := h.FindProvider(provider)
	c := h.catalog
	c.mu.Lock()
	owner := c.rules[o.Owner]
	c.mu.Unlock()
	out := make([]Listing, len(tools))
	for i, t := range tools {
		out[i] = Listing{t, evaluate(t, owner, r).String()}
	}
	slices.SortStableFunc(out, func(a, b Listing) int { return cmp.Compare(a.Tool.Name, b.Tool.Name) })
	return out, nil
}
