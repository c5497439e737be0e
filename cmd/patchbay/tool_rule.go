package main

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	"patchbay/internal/app"
	"patchbay/internal/control"
	"patchbay/internal/hub"
	"patchbay/internal/i18n"
	"patchbay/internal/store"
	"patchbay/internal/tool"
)

// ruleFlags name the tools of a rule.
type ruleFlags struct {
	Tool      string `arg:"" help:"Name of the tool, or a pattern in which * stands for any text."`
	User      string `help:"Whose tools; may be left out while there is one person." placeholder:"NAME"`
	dataFlags `embed:""`
}

// ruleSet is a rule that was set.
type ruleSet struct {
	User string `json:"user"`
	Tool string `json:"tool"`
	Rule string `json:"rule"` // allow, deny, or empty for none
	// Matches is the number of existing tools that match; nil if unknown.
	Matches *int `json:"matches,omitempty"`
	// Unconfirmed lists instances on which the rule may not be in effect yet.
	Unconfirmed []string `json:"unconfirmed,omitempty"`

	denying string // another rule that still denies the same tools
	unasked bool   // servers may run elsewhere and were not informed
}

const (
	msgRuleAllow  = i18n.Message("%s is allowed, even if it is dangerous.")
	msgRuleDeny   = i18n.Message("%s is denied to all programs and bots.")
	msgRuleReset  = i18n.Message("The rule for %s is taken back: what is not dangerous is allowed.")
	msgMatches    = i18n.Message("Tools that it matches now: %d.")
	msgStays      = i18n.Message("The rule %[1]s denies it still; take that back with: patchbay tool reset %[2]s")
	msgUnaware    = i18n.Message("These instances have not confirmed it: %s. They update by themselves; until then the rule does not hold there.")
	msgUnasked    = i18n.Message("No server runs here that could confirm it. Servers that run elsewhere update within seconds.")
	msgRuleNobody = i18n.Message("there is no rule for %s; patchbay tool rules shows those there are")
)

// set sets the rule, and waits until it is in effect.
func (f *ruleFlags) set(ctx context.Context, sh *shell, rule string, done i18n.Message) error {
	if err := hub.CheckPattern(f.Tool); err != nil {
		return err
	}
	return f.withData(ctx, sh, func(b *app.Base) error {
		p, err := person(ctx, b, f.User)
		if err != nil {
			return err
		}
		r, err := findRunning(ctx, sh, b.Config)
		if err != nil {
			return err
		}
		var out ruleSet
		if r != nil {
			out, err = f.decide(ctx, r, p, rule)
		} else {
			out, err = f.write(ctx, b, p, rule)
		}
		if err != nil {
			return err
		}
		return sh.result(out, func() {
			sh.say(done, f.Tool)
			if out.Matches != nil && rule != "" {
				sh.say(msgMatches, *out.Matches)
			}
			if out.denying != "" && rule == hub.RuleAllow {
				sh.say(msgStays, out.denying, quoteWord(out.denying)+f.retryFlags())
			}
			if len(out.Unconfirmed) > 0 {
				sh.say(msgUnaware, strings.Join(out.Unconfirmed, ", "))
			}
			if out.unasked {
				sh.say(msgUnasked)
			}
		})
	})
}

// decide sets the rule on a running server. It is in effect on all instances when the server
// responds.
func (f *ruleFlags) decide(ctx context.Context, r *remote, p store.Person, rule string) (ruleSet, error) {
	var made control.DecidedTool
	err := r.do(ctx, http.MethodPost, "/api/v1/tools/"+url.PathEscape(f.Tool)+"/rule",
		control.ToolDecision{Rule: rule, User: p.Name}, &made)
	if refused, ok := errors.AsType[*serverError](err); ok && refused.status == http.StatusNotFound {
		err = msgRuleNobody.Errorf(f.Tool)
	}
	return ruleSet{User: p.Name, Tool: f.Tool, Rule: rule, Matches: &made.Matches, Unconfirmed: made.Unconfirmed,
		denying: made.Denying}, err
}

// write sets the rule while no server runs on the data directory.
func (f *ruleFlags) write(ctx context.Context, b *app.Base, p store.Person, rule string) (ruleSet, error) {
	err := b.Store.ToolRules.Set(ctx, store.ToolRule{Owner: p.ID, Tool: f.Tool, Rule: rule, Created: time.Now()})
	if errors.Is(err, store.ErrNotFound) {
		err = msgRuleNobody.Errorf(f.Tool)
	}
	if err != nil {
		return ruleSet{}, err
	}
	denying, err := f.findDenyingRule(ctx, b, p)
	return ruleSet{User: p.Name, Tool: f.Tool, Rule: rule, denying: denying, unasked: b.Config.Database.URL != ""}, err
}

// findDenyingRule finds another rule that denies the same tools.
func (f *ruleFlags) findDenyingRule(ctx context.Context, b *app.Base, p store.Person) (string, error) {
	rules, err := b.Store.ToolRules.All(ctx)
	for _, r := range rules {
		if r.Owner == p.ID && r.Rule == hub.RuleDeny && r.Tool != f.Tool && tool.Match(r.Tool, f.Tool) {
			return r.Tool, nil
		}
	}
	return "", err
}
