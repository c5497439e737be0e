package cli

import (
	"context"
	"strings"

	"patchbay/internal/api"
	"patchbay/internal/control"
	"patchbay/internal/i18n"
)

// keyRuleFlags say which tools a key may call.
type keyRuleFlags struct {
	AllowTool []string `help:"Restrict the key to this tool: a name, or a pattern with the wildcard *. Repeatable." placeholder:"PATTERN"`
	Set       *string  `help:"Restrict the key to a set of tools (patchbay tool set); \"\": no set." placeholder:"NAME"`
	DenyTool  []string `help:"A tool that the key may not call. Repeatable." placeholder:"PATTERN"`
	Dangerous []string `help:"A dangerous tool that the key may call. Repeatable." placeholder:"PATTERN"`
	Ask       *string  `help:"Let calls of dangerous tools, and of tools for people, wait for an approval: of the owner (owner), or also in the program's own dialog (program); none: such tools are hidden." placeholder:"owner|program|none"`
	People    *bool    `help:"Allow the key to call tools intended for people, such as recording with a voice board." negatable:""`
	Rate      *int     `help:"Maximum number of calls per minute; 0: the limit in the settings." placeholder:"N"`
	ReadOnly  *bool    `help:"Restrict the key to tools that declare that they change nothing." negatable:""`
	FindTools *bool    `help:"Show the program two tools that find and call all others, instead of a long list." negatable:""`
	Reads     *string  `help:"Conversations and records that the key may read as resources: own (what it did itself), all, none, or its own and those of bots, by number." placeholder:"own|all|none|BOT,…"`
	KeepArgs  *bool    `help:"Store the arguments of the key's calls in the audit trail." negatable:""`
}

// given reports whether any flag is set.
func (f *keyRuleFlags) given() bool {
	return f.AllowTool != nil || f.DenyTool != nil || f.Dangerous != nil || f.People != nil || f.Rate != nil ||
		f.KeepArgs != nil || f.ReadOnly != nil || f.Reads != nil ||
		f.FindTools != nil || f.Ask != nil || f.Set != nil
}

// change applies the flags to rules: given values replace the old ones.
func (f *keyRuleFlags) change(r *control.Rules) {
	for _, list := range []struct {
		given []string
		into  *[]string
	}{{f.AllowTool, &r.Allow}, {f.DenyTool, &r.Deny}, {f.Dangerous, &r.Dangerous}} {
		switch {
		case len(list.given) == 1 && list.given[0] == "":
			*list.into = nil
		case list.given != nil:
			*list.into = list.given
		}
	}
	if f.People != nil {
		r.People = *f.People
	}
	if f.ReadOnly != nil {
		r.ReadOnly = *f.ReadOnly
	}
	if f.FindTools != nil {
		r.FindTools = *f.FindTools
	}
	if f.Set != nil {
		r.Set = *f.Set
	}
	if f.Ask != nil {
		if r.Ask = *f.Ask; r.Ask == "none" {
			r.Ask = ""
		}
	}
	if f.Reads != nil {
		r.Reads = *f.Reads
	}
	if f.Rate != nil {
		r.PerMinute = *f.Rate
	}
	if f.KeepArgs != nil {
		r.KeepArgs = *f.KeepArgs
	}
}

type keyRulesCmd struct {
	ID           string `arg:"" name:"key" help:"The key: its id, a prefix of its id, or its name."`
	Clear        bool   `help:"Remove all rules of the key first."`
	keyRuleFlags `embed:""`
	targetFlags  `embed:""`
}

// Help returns the command's detailed help with examples.
func (keyRulesCmd) Help() string {
	return `Without flags it shows the rules. Each flag replaces the rules of its kind, and "" removes them; other rules are kept. No key can call tools that its owner denies (patchbay tool deny).

Examples:

    patchbay key rules laptop
    patchbay key rules laptop --allow-tool 'weather_*' --allow-tool send_message --rate 60
    patchbay key rules laptop --reads all
    patchbay key rules laptop --dangerous lamp_reset --no-keep-args
    patchbay key rules laptop --ask owner
    patchbay key rules laptop --allow-tool ""
    patchbay key rules 0198c4d2 --clear`
}

const (
	msgKeyRules = i18n.Message("The key “%s” (%s): %s")
	msgAllTools = i18n.Message("all tools of its owner")
)

// Run shows or changes the rules.
func (c *keyRulesCmd) Run(ctx context.Context, sh *shell) error {
	return c.connect(ctx, sh, func(at *conn) error {
		k, err := findKey(ctx, at, c.ID)
		if err != nil {
			return err
		}
		if c.Clear {
			k.Rules = control.Rules{}
		}
		c.change(&k.Rules)
		if c.Clear || c.given() {
			if k, err = api.ChangeKey.Call(ctx, at.Client, control.KeyChange{Key: k.ID, Rules: k.Rules}); err != nil {
				return err
			}
		}
		return sh.result(k, func() {
			rules := sh.rules(k.Rules)
			if rules == "" {
				rules = msgAllTools.In(sh.lang)
			}
			sh.say(msgKeyRules, k.Name, k.ID, rules)
		})
	})
}

// leastPrefix is the minimum length of the prefix of an ID that names a key.
const leastPrefix = 4

// findKey finds a valid key by ID, by prefix of its ID, or by name.
func findKey(ctx context.Context, at *conn, ref string) (control.KeyRow, error) {
	list, err := api.Keys.Call(ctx, at.Client, control.KeyQuery{})
	if err != nil {
		return control.KeyRow{}, err
	}
	var found []control.KeyRow
	for _, k := range list.Keys {
		switch {
		case k.ID == ref:
			return k, nil
		case !k.Revoked.IsZero():
		case k.Name == ref, len(ref) >= leastPrefix && strings.HasPrefix(k.ID, ref):
			found = append(found, k)
		}
	}
	switch len(found) {
	case 0:
		return control.KeyRow{}, i18n.Message("there is no key %q; patchbay key list lists the keys").Errorf(ref)
	case 1:
		return found[0], nil
	}
	return control.KeyRow{},
		i18n.Message("this matches several keys; give more of the id, as shown by key list").Errorf()
}

const (
	msgRuleOnly    = i18n.Message("only %s")
	msgRuleSet     = i18n.Message("the set %s")
	msgRuleNot     = i18n.Message("not %s")
	msgRuleAlso    = i18n.Message("dangerous %s")
	msgRulePeople  = i18n.Message("also tools for people")
	msgRuleReads   = i18n.Message("only tools that change nothing")
	msgRuleFinds   = i18n.Message("finds tools instead of listing them")
	msgRuleReading = i18n.Message("reads %s")
	msgRuleAsks    = i18n.Message("asks for dangerous tools (%s)")
	msgRuleRate    = i18n.Message("%d/min")
	msgRuleKeeps   = i18n.Message("arguments kept")
)

// rules formats a key's rules briefly; empty if there are none.
func (sh *shell) rules(r control.Rules) string {
	var parts []string
	add := func(given bool, s i18n.Message, args ...any) {
		if given {
			parts = append(parts, s.In(sh.lang, args...))
		}
	}
	add(len(r.Allow) > 0, msgRuleOnly, strings.Join(r.Allow, " "))
	add(r.Set != "", msgRuleSet, r.Set)
	add(len(r.Deny) > 0, msgRuleNot, strings.Join(r.Deny, " "))
	add(r.ReadOnly, msgRuleReads)
	add(r.FindTools, msgRuleFinds)
	add(r.Reads != "", msgRuleReading, r.Reads)
	add(r.People, msgRulePeople)
	add(len(r.Dangerous) > 0, msgRuleAlso, strings.Join(r.Dangerous, " "))
	add(r.Ask != "", msgRuleAsks, r.Ask)
	add(r.PerMinute > 0, msgRuleRate, r.PerMinute)
	add(r.KeepArgs, msgRuleKeeps)
	return join(parts)
}
