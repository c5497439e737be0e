package cli

import (
	"context"

	"patchbay/internal/api"
	"patchbay/internal/control"
	"patchbay/internal/i18n"
)

type upstreamSetCmd struct {
	upstreamFlags `embed:""`
	Set           []string `arg:"" name:"k=v" help:"Settings as name=value; name= removes a setting, name=@FILE reads the value from a file."`
}

// Help returns the command's detailed help with examples.
func (upstreamSetCmd) Help() string {
	return `A running server applies the change within seconds and reconnects. Lists are comma-separated; headers and env are JSON objects.

Examples:

    patchbay upstream set files deny=delete_file,move_file timeout=2m
    patchbay upstream set weather token=@token.txt
    patchbay upstream set weather allow= max_tools=200
    patchbay upstream set xiaozhi 'allow=lamp_*,weather_now' most=16`
}

const msgUpstreamChanged = i18n.Message("The upstream %s is changed.")

// Run changes the upstream.
func (c *upstreamSetCmd) Run(ctx context.Context, sh *shell) error {
	set, err := sh.pairs(c.Set)
	if err != nil {
		return err
	}
	return c.find(ctx, sh, func(at *conn, u control.Upstream) error {
		return sh.changeUpstream(ctx, at, u, set, msgUpstreamChanged)
	})
}

// changeUpstream changes settings of an upstream.
func (sh *shell) changeUpstream(ctx context.Context, at *conn, u control.Upstream, set control.SettingTexts,
	done i18n.Message) error {
	changed, err := api.ChangeUpstream.Call(ctx, at.Client, control.UpstreamChange{Upstream: u.Number, Settings: set})
	if err != nil {
		return err
	}
	return sh.result(changed, func() {
		sh.say(done, u.Slug)
		sh.showDropped(changed.Dropped)
	})
}
