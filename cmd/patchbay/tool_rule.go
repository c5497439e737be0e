package main

import (
	"context"
	"errors"
	"time"

	"patchbay/internal/api"
	"patchbay/internal/app"
	"patchbay/internal/board"
	"patchbay/internal/store"
	"patchbay/internal/talk"
	"patchbay/internal/tool"
)

// ruleFlags say about which tools somebody decides.
type ruleFlags struct {
	Tool      string `arg:"" help:"Name of the tool, or a pattern in which * stands for any text."`
	User      string `help:"Whose tools; may be left out while there is one person." placeholder:"NAME"`
	dataFlags `embed:""`
}

// ruleSet is a decision that was made.
type ruleSet struct {
	User string `json:"user"`
	Tool string `json:"tool"`
	Rule string `json:"rule"` // allow, deny, or empty: none
	// Matches counts the tools that there are now; nil if nobody knows.
	Matches *int `json:"matches,omitempty"`
}

var (
	sayRuleAllow = talk.Say{Zh: "%s：已放行，即使它是危险的。", En: "%s is allowed, even if it is dangerous."}
	sayRuleDeny  = talk.Say{Zh: "%s：已对所有程序和机器人禁用。", En: "%s is denied to all programs and bots."}
	sayRuleReset = talk.Say{Zh: "%s：规则已取消；不危险的工具可用。", En: "The rule for %s is taken back: what is not dangerous is allowed."}
	sayMatches   = talk.Say{Zh: "目前符合的工具有 %d 个。", En: "Tools that it matches now: %d."}
	sayStays     = talk.Say{Zh: "但规则 %[1]s 仍然禁用它；取消那条规则：patchbay tool reset %[2]s", En: "The rule %[1]s denies it still; take that back with: patchbay tool reset %[2]s"}
)

// set makes the decision.
func (f *ruleFlags) set(ctx context.Context, sh *shell, rule string, done talk.Say) error {
	if err := board.CheckPattern(f.Tool); err != nil {
		return err
	}
	return f.with(ctx, sh, func(b *app.Base) error {
		p, err := person(ctx, b, f.User)
		if err != nil {
			return err
		}
		err = b.Store.ToolRules.Set(ctx, store.ToolRule{Owner: p.ID, Tool: f.Tool, Rule: rule, Created: time.Now()})
		if errors.Is(err, store.ErrNotFound) {
			return talk.Say{Zh: "没有关于 %s 的规则；patchbay tool rules 会列出现有的", En: "there is no rule for %s; patchbay tool rules shows those there are"}.Wrong(f.Tool)
		}
		if err != nil {
			return err
		}
		out := ruleSet{User: p.Name, Tool: f.Tool, Rule: rule, Matches: f.matches(ctx, sh, b, p)}
		denying, err := f.denying(ctx, b, p)
		if err != nil {
			return err
		}
		return sh.result(out, func() {
			sh.say(done, f.Tool)
			if out.Matches != nil && rule != "" {
				sh.say(sayMatches, *out.Matches)
			}
			if denying != "" && rule == board.RuleAllow {
				sh.say(sayStays, denying, quoteWord(denying)+f.again())
			}
		})
	})
}

// matches counts the tools that are decided about, if a server runs that knows.
func (f *ruleFlags) matches(ctx context.Context, sh *shell, b *app.Base, p store.Person) *int {
	r, err := running(ctx, sh, b.Config)
	if err != nil || r == nil {
		return nil
	}
	list, err := r.tools(ctx, p.Name, "")
	if err != nil {
		return nil // the decision is made, whatever the server says
	}
	n := countMatches(list, f.Tool)
	return &n
}

func countMatches(list []api.Tool, pattern string) int {
	n := 0
	for _, t := range list {
		if tool.Match(pattern, t.Name) {
			n++
		}
	}
	return n
}

// denying finds another rule that denies the same tools.
func (f *ruleFlags) denying(ctx context.Context, b *app.Base, p store.Person) (string, error) {
	rules, err := b.Store.ToolRules.All(ctx)
	for _, r := range rules {
		if r.Owner == p.ID && r.Rule == board.RuleDeny && r.Tool != f.Tool && tool.Match(r.Tool, f.Tool) {
			return r.Tool, nil
		}
	}
	return "", err
}
