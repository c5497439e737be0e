package hub

import (
	"bytes"
	"encoding/json"
	"slices"

	"patchbay/internal/tool"
)

// BotToolNames are the tools that ask bots, the only ones that a key for one bot may call.
var BotToolNames = []string{"send_message", "get_bot_info", "list_bots"}

// maxJoined bounds how many rules are joined: those of a bot, of who asks, and of the bots
// between them.
const maxJoined = 16

// isNarrow reports whether the rules keep their caller from some tools of its person's.
func (r *Rules) isNarrow() bool { return len(r.Allow) > 0 || len(r.Deny) > 0 || len(r.Dangerous) > 0 }

// AreNarrow reports whether rules (as kept) keep their caller from some tools of its
// person's. Rules that cannot be read keep it from all.
func AreNarrow(rules string) bool {
	list, err := parseJoined(rules)
	return err != nil || slices.ContainsFunc(list, func(r Rules) bool { return r.isNarrow() })
}

// JoinRules returns the rules (as kept) of a caller that acts for others: what it may use, they
// all may use. Each of bound is the rules of one of them, or is itself such a join; those
// that are not narrow bind nobody. Rules that cannot be read make a join that cannot be
// read, so that nothing is allowed.
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
		return own + "?" // own is no JSON: neither is this
	}
	return string(text)
}

// parseJoined reads rules as they are kept, joined or not. The first are the caller's own.
func parseJoined(text string) ([]Rules, error) {
	if len(text) == 0 || text[0] != '[' {
		r, err := ParseRules(text)
		return []Rules{r}, err
	}
	var raw []json.RawMessage
	if err := json.Unmarshal([]byte(text), &raw); err != nil {
		return nil, sayNoRules.Wrong(err)
	}
	if len(raw) == 0 || len(raw) > maxJoined {
		return nil, sayManyPatterns.Wrong(len(raw), maxJoined)
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

// NarrowRules leaves of rules (as kept) no more than some tools.
func NarrowRules(text string, names []string) string {
	rules, err := ParseRules(text)
	if err != nil {
		return text // whoever uses them says what is wrong
	}
	var allow []string
	for _, name := range names {
		if len(rules.Allow) == 0 || tool.MatchAny(rules.Allow, name) {
			allow = append(allow, name)
		}
	}
	if allow == nil {
		allow = []string{"-"} // nothing: no tool has this name
	}
	rules.Allow = allow
	return rules.String()
}

// deniesAll reports whether some of the rules deny every tool, whatever it is called.
func deniesAll(rules []Rules) bool {
	return slices.ContainsFunc(rules, func(r Rules) bool { return slices.Contains(r.Deny, "*") })
}
