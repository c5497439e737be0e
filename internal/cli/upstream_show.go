package cli

import (
	"context"
	"maps"
	"slices"

	"patchbay/internal/api"
	"patchbay/internal/control"
	"patchbay/internal/i18n"
)

type upstreamShowCmd struct {
	upstreamFlags `embed:""`
}

// Help returns the command's detailed help with examples.
func (upstreamShowCmd) Help() string {
	return `Secrets are masked: tokens, headers, environment variables, and the query of a URL.

Examples:

    patchbay upstream show files
    patchbay upstream show files --json`
}

// Run prints the upstream.
func (c *upstreamShowCmd) Run(ctx context.Context, sh *shell) error {
	return c.find(ctx, sh, func(at *conn, u control.Upstream) error {
		d, err := api.ShowUpstream.Call(ctx, at.Client, control.UpstreamRef{Upstream: u.Number})
		if err != nil {
			return err
		}
		return sh.result(d, func() { sh.showUpstream(&d) })
	})
}

const (
	msgHeadUpstream = i18n.Message("Upstream %s (%s, of %s): %s")
	msgUpSince      = i18n.Message("since %s")
	msgItsServer    = i18n.Message("Its server: %s %s (MCP %s, %s)")
	msgItsTools     = i18n.Message("Its tools: %d")
	msgNextTry      = i18n.Message("Next attempt at %s")
	msgItsLines     = i18n.Message("\nLast output of the command")
	msgShimSee      = i18n.Message("It is an OpenClaw gateway. To see the status of its nodes: patchbay shim status %s")
	msgCloudCalls   = i18n.Message("This service can call the tools of allow.")
)

func (sh *shell) showUpstream(v *control.UpstreamDetail) {
	sh.say(msgHeadUpstream, v.Slug, v.Kind, v.OwnerName, sh.upstreamState(v.State))
	if !v.Since.IsZero() {
		sh.say(msgUpSince, sh.when(v.Since))
	}
	if v.Kind == control.KindCloud {
		sh.say(msgCloudCalls)
	}
	if v.Kind == control.KindShim {
		sh.say(msgShimSee, v.Slug)
	}
	if v.Problem != "" {
		sh.printf("%s\n", problemText(v.Problem, v.Cause))
	}
	if !v.NextTry.IsZero() {
		sh.say(msgNextTry, v.NextTry.Local().Format("15:04:05"))
	}
	if v.Protocol != "" {
		sh.say(msgItsServer, plain(v.Server), plain(v.ServerVersion), v.Protocol, v.Transport)
		sh.say(msgItsTools, v.Tools)
		sh.showLeftOut(v.Hidden, v.Skipped, v.Cut)
	}
	if len(v.Settings) > 0 {
		sh.say(msgHeadSettings)
		for _, name := range slices.Sorted(maps.Keys(v.Settings)) {
			sh.printf("  %s = %s\n", name, plainJSON(v.Settings[name]))
		}
	}
	if len(v.Stderr) > 0 {
		sh.say(msgItsLines)
		for _, line := range v.Stderr {
			sh.printf("  %s\n", plain(line))
		}
	}
}
