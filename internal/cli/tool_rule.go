package cli

import (
	"context"
	"strings"

	"patchbay/internal/api"
	"patchbay/internal/control"
	"patchbay/internal/i18n"
)

// ruleFlags name the tools of a rule.
type ruleFlags struct {
	Tool        string `arg:"" help:"Name of the tool, or a pattern with the wildcard *."`
	User        string `help:"Owner of the tools; optional if there is only one account." placeholder:"NAME"`
	targetFlags `embed:""`
}

// ruleSet is a rule that was set.
type ruleSet struct {
	control.DecidedTool
	// Matches is the number of existing tools that match; nil if unknown.
	Matches *int `json:"matches,omitempty"`
}

const (
	msgRuleAllow  = i18n.Message("%s is allowed, even if it is dangerous.")
	msgRuleDeny   = i18n.Message("%s is denied to all programs and bots.")
	msgRuleReset  = i18n.Message("The rule for %s is removed: tools that are not dangerous are allowed.")
	msgMatches    = i18n.Message("Tools that match now: %d.")
	msgStays      = i18n.Message("The rule %[1]s still denies it; remove that rule with: patchbay tool reset %[2]s")
	msgUnaware    = i18n.Message("These instances have not confirmed it: %s. They update automatically; until then, the rule does not apply there.")
	msgUnasked    = i18n.Message("No server runs on this machine to confirm the change. Servers elsewhere update within seconds.")
	msgRuleNobody = i18n.Message("there is no rule for %s; patchbay tool rules lists the rules")
)

// set sets the rule, and waits until it is in effect.
func (f *ruleFlags) set(ctx context.Context, sh *shell, rule string, done i18n.Message) error {
	return f.connect(ctx, sh, func(at *conn) error {
		set, err := api.DecideTool.Call(ctx, at.Client, control.ToolDecision{Name: f.Tool, Rule: rule, User: f.User})
		if isMissing(err) && f.User == "" { // otherwise there may be no such person
			err = msgRuleNobody.Errorf(f.Tool)
		}
		if err != nil {
			return err
		}
		out := ruleSet{DecidedTool: set}
		if !at.local { // only a server knows the tools
			out.Matches = &set.Matches
		}
		return sh.result(out, func() {
			sh.say(done, set.Tool)
			if out.Matches != nil && rule != "" {
				sh.say(msgMatches, set.Matches)
			}
			if set.Denying != "" && rule == control.RuleAllow {
				sh.say(msgStays, set.Denying, quoteWord(set.Denying)+f.retryFlags())
			}
			if len(set.Unconfirmed) > 0 {
				sh.say(msgUnaware, strings.Join(set.Unconfirmed, ", "))
			}
			if at.local && at.settings.Database.URL != "" {
				sh.say(msgUnasked)
			}
		})
	})
}
