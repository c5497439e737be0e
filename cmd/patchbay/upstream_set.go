package main

import (
	"context"

	"patchbay/internal/app"
	"patchbay/internal/i18n"
	"patchbay/internal/store"
)

type upstreamSetCmd struct {
	Name      string   `arg:"" help:"Name of the upstream."`
	Set       []string `arg:"" name:"k=v" help:"Settings as name=value; name= takes a setting away, name=@FILE reads the value from a file."`
	User      string   `help:"Whose upstream, if several people have one of that name." placeholder:"NAME"`
	dataFlags `embed:""`
}

// Help returns the command's detailed help with examples.
func (upstreamSetCmd) Help() string {
	return `A running server takes the change up within seconds, and connects anew. Lists are separated by commas; headers and env are JSON objects.

Examples:

    patchbay upstream set files deny=delete_file,move_file timeout=2m
    patchbay upstream set weather token=@token.txt
    patchbay upstream set weather allow= max_tools=200
    patchbay upstream set xiaozhi 'allow=lamp_*,weather_now' most=16`
}

const msgUpstreamChanged = i18n.Message("The upstream %s is changed.")

// changedUpstream is an upstream that was changed.
type changedUpstream struct {
	store.Upstream
	Dropped []string `json:"dropped,omitempty"`
}

// Run changes the upstream.
func (c *upstreamSetCmd) Run(ctx context.Context, sh *shell) error {
	set, err := sh.pairs(c.Set)
	if err != nil {
		return err
	}
	f := upstreamFlags{Name: c.Name, User: c.User, dataFlags: c.dataFlags}
	return f.resolve(ctx, sh, func(b *app.Base, u store.Upstream) error {
		dropped, err := b.ChangeUpstream(ctx, u, set)
		if err != nil {
			return err
		}
		return sh.result(changedUpstream{u, dropped}, func() {
			sh.say(msgUpstreamChanged, u.Slug)
			sh.showDropped(dropped)
		})
	})
}
