package cli

import (
	"context"
	"strings"

	"patchbay/internal/api"
	"patchbay/internal/control"
	"patchbay/internal/i18n"
)

type drainCmd struct {
	Undo        bool `help:"End draining: accept devices again."`
	targetFlags `embed:""`
}

// Help returns the command's detailed help with examples.
func (drainCmd) Help() string {
	return `The server reports at /readyz that it is draining, asks its devices over several seconds to reconnect, and rejects them from then on, so that they connect to another instance. Questions are answered until it is stopped. On shutdown a server does the same for five seconds if there are other instances; run this command first if the load balancer checks less often.

Examples:

    patchbay drain
    patchbay drain --undo`
}

const (
	msgDrains    = i18n.Message("The instance %s is draining: its devices move to the other instances.")
	msgDrainsOff = i18n.Message("The instance %s accepts devices again.")
	msgDrainsTo  = i18n.Message("Other instances: %s")
	msgDrainsTo0 = i18n.Message("There is no other instance: devices stay disconnected until it is started again.")
)

// Run drains a server.
func (c *drainCmd) Run(ctx context.Context, sh *shell) error {
	do := api.Drain
	if c.Undo {
		do = api.Undrain
	}
	return c.connect(ctx, sh, func(at *conn) error {
		if at.local {
			return i18n.Message("no server runs on this data folder; give --server").Errorf()
		}
		s, err := do.Call(ctx, at.Client, control.Empty{})
		if err != nil {
			return err
		}
		return sh.result(s, func() {
			switch {
			case c.Undo:
				sh.say(msgDrainsOff, s.Instance)
			case len(s.Others) == 0:
				sh.say(msgDrains, s.Instance)
				sh.say(msgDrainsTo0)
			default:
				sh.say(msgDrains, s.Instance)
				sh.say(msgDrainsTo, strings.Join(s.Others, ", "))
			}
		})
	})
}
