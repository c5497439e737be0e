package hub

import (
	"bytes"
	"cmp"
	"encoding/json"
	"regexp"
	"slices"
	"strings"

	"patchbay/internal/store"
	"patchbay/internal/talk"
	"patchbay/internal/tool"
)

// Rules say which tools a caller may use, beyond what its person decided for all
// callers. In patterns, * stands for any text.
type Rules struct {
	Allow     []string `json:"allow,omitempty"`      // these alone; empty: all
	Deny      []string `json:"deny,omitempty"`       // never these
	Dangerous []string `json:"dangerous,omitempty"`  // these, although they are dangerous, or for people
	People    bool     `json:"people,omitempty"`     // those too that are for people and not for programs
	PerMinute int      `json:"per_minute,omitempty"` // calls; 0: as the installation has it
	KeepArgs  bool     `json:"keep_args,omitempty"`  // the audit keeps the arguments
}

// maxPatterns keeps the look at a list of tools short.
const maxPatterns = 200

// What is wrong with rules.
var (
	sayManyPatterns = talk.Say{Zh: "%d 个模式太多了；最多 %d 个", En: "%d patterns are too many; %d are the most"}
	sayNegativeRate = talk.Say{Zh: "频率不能是负数", En: "a rate cannot be negative"}
	sayNoPattern    = talk.Say{
		Zh: "%q 不是工具的名称；名称由 1 到 64 个字母、数字、_ 和 - 组成，* 代表任意文本",
		En: "%q is no name of a tool; names have 1 to 64 letters, digits, _ and -, and * stands for any text",
	}
	sayNoRules = talk.Say{Zh: "规则：%v", En: "rules: %v"}
)

// patternForm is what a name of a tool, with stars, can look like.
var patternForm = regexp.MustCompile(`^[A-Za-z0-9_*-]{1,64}$`)

// Validate finds rules that cannot be.
func (r *Rules) Validate() error {
	for _, list := range [][]string{r.Allow, r.Deny, r.Dangerous} {
		if len(list) > maxPatterns {
			return sayManyPatterns.Wrong(len(list), maxPatterns)
		}
		for _, p := range list {
			if err := CheckPattern(p); err != nil {
				return err
			}
		}
	}
	if r.PerMinute < 0 {
		return sayNegativeRate.Wrong()
	}
	return nil
}

// CheckPattern finds out whether a pattern can match a tool's name.
func CheckPattern(p string) error {
	if !patternForm.MatchString(p) {
		return sayNoPattern.Wrong(p)
	}
	return nil
}

// String is the rules as they are kept; the zero Rules are "".
func (r Rules) String() string {
	text, err := json.Marshal(r)
	if err != nil || string(text) == "{}" {
		return ""
	}
	return string(text)
}

// ParseRules reads rules as they are kept, or as a person writes them.
func ParseRules(text string) (r Rules, err error) {
	if text == "" {
		return r, nil
	}
	dec := json.NewDecoder(bytes.NewReader([]byte(text)))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&r); err != nil {
		return r, sayNoRules.Wrong(err)
	}
	return r, r.Validate()
}

// An owner's decisions about tools.
const (
	RuleAllow = "allow" // although it is dangerous, or for people
	RuleDeny  = "deny"
)

// ownerRules are what one person decided for all callers.
type ownerRules struct{ allow, deny []string }

func rulesByOwner(rows []store.ToolRule) map[string]ownerRules {
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
	return out
}

// verdict is what the rules say about a tool.
type verdict int

const (
	allowed   verdict = iota
	denied            // by the owner or the caller's rules
	dangerous         // not denied, but nobody asked for it
	personal          // for people, and nobody asked for it
)

func (v verdict) String() string { return [...]string{"allowed", "denied", "dangerous", "personal"}[v] }

// audienceUser is [tool.Tool].For of tools that are not for programs and models unless
// their owner says so.
const audienceUser = "user"

// evaluate applies the rules of a caller, and of those on whose behalf it calls.
func evaluate(o *RegisteredTool, owner ownerRules, rules []Rules) verdict {
	for i := range rules {
		if v := evaluateRules(o, owner, &rules[i]); v != allowed {
			return v
		}
	}
	return allowed
}

func evaluateRules(o *RegisteredTool, owner ownerRules, r *Rules) verdict {
	switch {
	case tool.MatchAny(owner.deny, o.Name), tool.MatchAny(r.Deny, o.Name):
		return denied
	case len(r.Allow) > 0 && !tool.MatchAny(r.Allow, o.Name):
		return denied
	case !o.Dangerous && (o.Audience != audienceUser || r.People), tool.MatchAny(owner.allow, o.Name),
		tool.MatchAny(r.Dangerous, o.Name):
		return allowed
	case o.Dangerous:
		return dangerous
	}
	return personal
}

// Listing is a tool that is offered to a person, also if it may not be used.
type Listing struct {
	*RegisteredTool
	// State is "allowed", "denied" (by the owner or the caller's rules), "dangerous"
	// or "personal" (for people): not denied, but nobody has asked for it by name.
	State string
}

// Inventory lists all that is offered to a person, by name, with what the
// person's decisions and a caller's rules (as kept) say about it. It is for
// people who look at their tools; callers have their [Board.View]. Nobody may change
// the list: it is kept, as views are, until what the person sees changes.
func (h *Hub) Inventory(person, rules string) ([]Listing, error) {
	s := h.catalog.snapshot(person)
	v, err := s.cachedView(rules)
	if err != nil {
		return nil, err
	}
	return v.inventory(s), nil
}

// inventory is what [Board.Inventory] lists.
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
	// Of twins the view has the one that is allowed first, and otherwise that of the
	// first provider. One provider has no two of a name, so that this is the whole order: a
	// stable sort of thousands would take twice as long.
	slices.SortFunc(out, func(a, b Listing) int {
		if c := strings.Compare(a.Name, b.Name); c != 0 {
			return c
		}
		return cmp.Or(strings.Compare(a.State, b.State), strings.Compare(a.offer.ID, b.offer.ID))
	})
	return slices.Clip(slices.CompactFunc(out, func(a, b Listing) bool { return a.Name == b.Name }))
}

// ToolStates says what a person's decisions and each of some callers' rules (as kept) say
// about a tool, as [Listing].State has it. Nobody is offered a tool that does not exist:
// it is nil then. It is for people who want to know who may use a tool.
func (h *Hub) ToolStates(person, name string, rules []string) ([]string, error) {
	s := h.catalog.snapshot(person)
	var found *RegisteredTool
	for _, o := range s.offers {
		for i := range o.tools {
			if found == nil && o.tools[i].Name == name {
				found = &o.tools[i]
			}
		}
	}
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

// ProviderInventory is [Board.Inventory] of one provider alone, by the names that the tools have
// there: a person may have thousands of them. It is empty if nothing is plugged in there.
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
