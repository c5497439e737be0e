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
	"patchbay/internal/store"
	"patchbay/internal/talk"
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

var (
	sayRuleAllow = talk.Say{Zh: "%s：已放行，即使它是危险的。", En: "%s is allowed, even if it is dangerous."}
	sayRuleDeny  = talk.Say{Zh: "%s：已对所有程序和机器人禁用。", En: "%s is denied to all programs and bots."}
	sayRuleReset = talk.Say{Zh: "%s：规则已取消；不危险的工具可用。",
		En: "The rule for %s is taken back: what is not dangerous is allowed."}
	sayMatches = talk.Say{Zh: "目前符合的工具有 %d 个。", En: "Tools that it matches now: %d."}
	sayStays   = talk.Say{Zh: "但规则 %[1]s 仍然禁用它；取消那条规则：patchbay tool reset %[2]s",
		En: "The rule %[1]s denies it still; take that back with: patchbay tool reset %[2]s"}
	sayUnaware = talk.Say{Zh: "这些实例还没有确认：%s。它们会自行更新，在那之前规则在那里不生效。",
		En: "These instances have not confirmed it: %s. They update by themselves; until then the rule does not hold there."}
	sayUnasked = talk.Say{Zh: "这里没有服务在运行，所以没有确认。在别处运行的服务几秒内会更新。",
		En: "No server runs here that could confirm it. Servers that run elsewhere update within seconds."}
	sayRuleNobody = talk.Say{Zh: "没有关于 %s 的规则；patchbay tool rules 会列出现有的",
		En: "there is no rule for %s; patchbay tool rules shows those there are"}
)

// set sets the rule, and waits until it is in effect.
func (f *ruleFlags) set(ctx context.Context, sh *shell, rule string, done talk.Say) error {
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
				sh.say(sayMatches, *out.Matches)
			}
			if out.denying != "" && rule == hub.RuleAllow {
				sh.say(sayStays, out.denying, quoteWord(out.denying)+f.retryFlags())
			}
			if len(out.Unconfirmed) > 0 {
				sh.say(sayUnaware, strings.Join(out.Unconfirmed, ", "))
			}
			if out.unasked {
				sh.say(sayUnasked)
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
		err = sayRuleNobody.Wrong(f.Tool)
	}
	return ruleSet{User: p.Name, Tool: f.Tool, Rule: rule, Matches: &made.Matches, Unconfirmed: made.Unconfirmed,
		denying: made.Denying}, err
}

// write sets the rule while no server runs on the data directory.
func (f *ruleFlags) write(ctx context.Context, b *app.Base, p store.Person, rule string) (ruleSet, error) {
	err := b.Store.ToolRules.Set(ctx, store.ToolRule{Owner: p.ID, Tool: f.Tool, Rule: rule, Created: time.Now()})
	if errors.Is(err, store.ErrNotFound) {
		err = sayRuleNobody.Wrong(f.Tool)
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
