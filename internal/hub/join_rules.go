package hub

import (
	"bytes"
	"encoding/json"
	"slices"

	"patchbay/internal/tool"
)

// BotToolNames are the tools that ask bots, the only ones that a key for one bot may call.
var BotToolNames = []string{"send_message", "get_bot_info", "list_bots"}

// maxJoined limits the joined rules: those of a bot, of the caller, and of the bots between them.
const maxJoined = 16

// isNarrow reports whether the rules exclude some tools of the owner.
func (r *Rules) isNarrow() bool {
	return len(r.Allow) > 0 || r.Set != "" || len(r.Deny) > 0 || len(r.Dangerous) > 0 || r.ReadOnly
}

// AreNarrow reports whether stored rules exclude some tools of the owner, or have calls wait for an
// approval. Rules that cannot be parsed exclude all.
func AreNarrow(rules string) bool {
	list, err := parseJoined(rules)
	return err != nil || slices.ContainsFunc(list, func(r Rules) bool { return r.isNarrow() || r.Ask != "" })
}

// Widens reports whether stored rules allow all that others have allowed: they are the same except
// for further dangerous tools.
func Widens(before, after string) bool {
	b, err := ParseRules(before)
	if err != nil {
		return false
	}
	a, err := ParseRules(after)
	if err != nil {
		return false
	}
	for _, name := range b.Dangerous {
		if !slices.Contains(a.Dangerous, name) {
			return false
		}
	}
	a.Dangerous = b.Dangerous
	return a.String() == b.String()
}

// JoinRules returns the stored rules of a caller that acts for others: it may use what they all may
// use. Each of bound is the rules of one of them, or itself the result of a join; rules that are
// not narrow have no effect. If rules cannot be parsed, neither can the result, so that nothing is
// allowed.
func JoinRules(own string, bound ...string) string {
	joined := []json.RawMessage{}
	add := func(raw json.RawMessage) {
		if !slices.ContainsFunc(joined, func(have json.RawMessage) bool { return bytes.Equal(have, raw) }) {
			joined = append(joined, raw)
		}
	}
	if own != "" {
		add(json.RawMessage(own))
	}
	for _, text := range bound {
		list, err := parseJoined(text)
		if err != nil {
			return text
		}
		for i := range list {
			if list[i].isNarrow() {
				add(json.RawMessage(list[i].String()))
			}
		}
	}
	switch {
	case len(joined) == 0:
		return ""
	case len(joined) == 1 && own != "":
		return own
	case own == "":
		joined = slices.Insert(joined, 0, json.RawMessage("{}"))
	}
	text, err := json.Marshal(joined)
	if err != nil {
		return own + "?" // own is not JSON: neither is the result
	}
	return string(text)
}

// parseJoined parses stored rules, joined or not. The first are the caller's own.
func parseJoined(text string) ([]Rules, error) {
	if len(text) == 0 || text[0] != '[' {
		r, err := ParseRules(text)
		return []Rules{r}, err
	}
	var raw []json.RawMessage
	if err := json.Unmarshal([]byte(text), &raw); err != nil {
		return nil, msgNoRules.Errorf(err)
	}
	if len(raw) == 0 || len(raw) > maxJoined {
		return nil, msgManyPatterns.Errorf(len(raw), maxJoined)
	}
	list := make([]Rules, len(raw))
	for i := range raw {
		var err error
		if list[i], err = ParseRules(string(raw[i])); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// NarrowRules restricts stored rules to some tools.
func NarrowRules(text string, names []string) string {
	rules, err := ParseRules(text)
	if err != nil {
		return text // the user of the rules reports the error
	}
	var allow []string
	for _, name := range names {
		if len(rules.Allow) == 0 || tool.MatchAny(rules.Allow, name) {
			allow = append(allow, name)
		}
	}
	if allow == nil {
		allow = []string{"-"} // matches nothing: no tool has this name
	}
	rules.Allow = allow
	return rules.String()
}

// deniesAll reports whether some of the rules deny every tool, regardless of its name.
func deniesAll(rules []Rules) bool {
	return slices.ContainsFunc(rules, func(r Rules) bool { return slices.Contains(r.Deny, "*") })
}
