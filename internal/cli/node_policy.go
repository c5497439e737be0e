package cli

import (
	"context"

	"patchbay/internal/api"
	"patchbay/internal/control"
	"patchbay/internal/i18n"
)

type nodePolicyCmd struct {
	nodeFlags `embed:""`
	Set       string   `placeholder:"MODE" help:"What may run: nothing, listed (only what is listed), ask (others after its owner was asked), always-ask, or everything."`
	Allow     []string `sep:"none" placeholder:"COMMAND" help:"List a program with its arguments, such as \"git status\"; a * at the end allows more. Repeatable."`
	Remove    []string `sep:"none" placeholder:"RULE" help:"Remove a rule, as it is shown. Repeatable."`
}

// Help returns the command's detailed help with examples.
func (nodePolicyCmd) Help() string {
	return `Shows or changes which programs a computer runs. The computer keeps the policy and enforces it, whoever calls system.run. It must be connected. openclaw approvals --node shows and changes the same policy.

Examples:

    patchbay node policy Desktop
    patchbay node policy Desktop --set ask --allow "git status" --allow "git log *"
    patchbay node policy Desktop --remove "git ^status$"`
}

const (
	msgRunModeOf       = i18n.Message("Node %s: %s")
	msgRunsNothing     = i18n.Message("runs no program")
	msgRunsListed      = i18n.Message("runs only the programs below")
	msgRunsAsk         = i18n.Message("runs the programs below, and others after you were asked")
	msgRunsAlwaysAsk   = i18n.Message("runs programs after you were asked")
	msgRunsEverything  = i18n.Message("runs any program without asking")
	msgRunFixed        = i18n.Message("The policy is the operating system's, and is set there.")
	msgRunRule         = i18n.Message("RULE")
	msgRunSource       = i18n.Message("ALLOWED")
	msgRunLast         = i18n.Message("LAST USED")
	msgRunAskedSource  = i18n.Message("when asked")
	msgRunListedSource = i18n.Message("by rule")
	msgRunHint         = i18n.Message("To be asked before programs run: patchbay node policy %s --set ask%s")
)

// runModeTexts say what a node runs.
var runModeTexts = map[string]i18n.Message{
	control.RunNothing: msgRunsNothing, control.RunListed: msgRunsListed, control.RunAsk: msgRunsAsk,
	control.RunAlwaysAsk: msgRunsAlwaysAsk, control.RunEverything: msgRunsEverything,
}

// Run shows or changes the policy.
func (c *nodePolicyCmd) Run(ctx context.Context, sh *shell) error {
	return c.connect(ctx, sh, func(at *conn) error {
		ref := control.RunPolicyRef{Node: c.Node}
		var p control.RunPolicy
		var err error
		if c.Set == "" && len(c.Allow)+len(c.Remove) == 0 {
			p, err = api.RunPolicy.Call(ctx, at.Client, ref)
		} else {
			p, err = api.ChangeRunPolicy.Call(ctx, at.Client,
				control.RunPolicyChange{Node: c.Node, Mode: c.Set, Allow: c.Allow, Remove: c.Remove})
		}
		if err != nil {
			return err
		}
		return sh.result(p, func() { sh.showRunPolicy(&p, c.retryFlags()) })
	})
}

func (sh *shell) showRunPolicy(p *control.RunPolicy, again string) {
	id := shortID(p.Node, shortNode)
	sh.say(msgRunModeOf, id, runModeTexts[p.Mode].In(sh.lang))
	if p.Fixed {
		sh.say(msgRunFixed)
		return
	}
	if len(p.Rules) > 0 {
		var cells [][]string
		for _, r := range p.Rules {
			source, used := msgRunListedSource, "–"
			if r.Asked {
				source = msgRunAskedSource
			}
			if r.Used != nil {
				used = sh.when(*r.Used)
			}
			cells = append(cells, []string{plain(r.Rule), source.In(sh.lang), used})
		}
		sh.table([]i18n.Message{msgRunRule, msgRunSource, msgRunLast}, cells)
	}
	if p.Mode == control.RunEverything {
		sh.say(msgRunHint, id, again)
	}
}
