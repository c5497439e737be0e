package cli

import (
	"context"
	"slices"

	"patchbay/internal/api"
	"patchbay/internal/control"
	"patchbay/internal/i18n"
	"patchbay/internal/plug/openclaw/wire"
)

type pairApproveCmd struct {
	Request     string `arg:"" help:"Id of the request or a prefix of it, or name or id of a device with a single request."`
	targetFlags `embed:""`
}

// Help returns the command's detailed help with examples.
func (pairApproveCmd) Help() string {
	return `Approves what pair list shows. A node that later requests more commands sends a new request; until it is approved, the previous approval applies. Commands that use a camera or microphone or change something are marked as dangerous. Some of them must also be listed in the setting nodes.allow.

Examples:

    patchbay pair approve 3f2a91c0
    patchbay pair approve Desktop
    patchbay pair approve Desktop --server https://board.example.org --key $KEY --json`
}

const (
	msgMayConnect = i18n.Message("%s (%s) can now connect as %s.")
	msgNextAsks   = i18n.Message("After it has connected (within 30 s if it is waiting), its commands must be approved too: patchbay pair approve %s%s")
	msgMayRun     = i18n.Message("%s (%s) can now run these commands: %s")
	msgMayNothing = i18n.Message("The node %s (%s) is approved; it has no commands.")
	msgKeptOff    = i18n.Message("Blocked by the settings nodes.allow and nodes.deny: %s")
	msgNowInvoke  = i18n.Message("To call one: patchbay node invoke %s COMMAND%s")
)

// Run approves the request.
func (c *pairApproveCmd) Run(ctx context.Context, sh *shell) error {
	return c.connect(ctx, sh, func(at *conn) error {
		d, err := at.decide(ctx, c.Request, api.ApprovePair, wire.DecisionApproved)
		if err != nil {
			return err
		}
		if slices.Contains(d.Commands, wire.CommandRun) && !at.local {
			// Only a node that is connected has its policy to show.
			if p, err := api.RunPolicy.Call(ctx, at.Client, control.RunPolicyRef{Node: d.Node}); err == nil {
				d.Policy = &p
			}
		}
		return sh.result(d, func() { sh.approvedPair(d, c.retryFlags()) })
	})
}

func (sh *shell) approvedPair(d decision, again string) {
	name, id := called(d.Name, d.Node), shortID(d.Node, shortNode)
	if !d.surface {
		sh.say(msgMayConnect, name, id, plain(join(d.Roles)))
		if slices.Contains(d.Roles, wire.RoleNode) && !d.again {
			sh.say(msgNextAsks, id, again)
		}
		return
	}
	if len(d.Commands) > 0 {
		names := make([]string, len(d.Commands))
		for i, command := range d.Commands {
			names[i] = sh.commandLabel(command)
		}
		sh.say(msgMayRun, name, id, join(names))
		sh.say(msgNowInvoke, id, again)
	} else {
		sh.say(msgMayNothing, name, id)
	}
	if len(d.Kept) > 0 {
		sh.say(msgKeptOff, plain(join(d.Kept)))
	}
	if d.Policy != nil {
		sh.showRunPolicy(d.Policy, again)
	}
}
