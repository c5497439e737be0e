package cli

import (
	"context"
	"maps"
	"slices"
	"strings"

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
		d, err := api.ShowUpstream.Call(ctx, at.Client, control.UpstreamOf{Upstream: u.Number, User: c.User})
		if err != nil {
			return err
		}
		return sh.result(d, func() { sh.showUpstream(&d, c.retryFlags()) })
	})
}

const (
	msgHeadUpstream  = i18n.Message("Upstream %s (%s, of %s): %s")
	msgUpSince       = i18n.Message("since %s")
	msgSignedInSince = i18n.Message("Signed in at %s, %s")
	msgByItself      = i18n.Message("Patchbay signs in to it by itself.")
	msgByItselfSince = i18n.Message("Patchbay signs in by itself at %s; last token: %s")
	msgItsServer     = i18n.Message("Its server: %s %s (MCP %s, %s)")
	msgItsAPI        = i18n.Message("Its API: %s %s (%s)")
	msgItsTools      = i18n.Message("Its tools: %d")
	msgItsPrompts    = i18n.Message("Its prompts: %d")
	msgNextTry       = i18n.Message("Next attempt at %s")
	msgItsLines      = i18n.Message("\nLast output of the command")
	msgShimSee       = i18n.Message("It is an OpenClaw gateway. To see the status of its nodes: patchbay shim status %s")
	msgSharedAll     = i18n.Message("Shared with everybody; signed in: %d")
	msgSharedSome    = i18n.Message("Shared with %s; signed in: %d")
	msgSharedByOwner = i18n.Message("%s shares it with you. Its tools are yours, called with your own sign-in; its settings are not shown.")
	msgCloudCalls    = i18n.Message("This service can call the tools of allow.")
)

// showSignIn prints the state of the sign-in to a server.
func (sh *shell) showSignIn(v *control.UpstreamDetail, flags string) {
	s := v.SignIn
	switch {
	case s != nil && s.Machine:
		if s.SignedIn {
			sh.say(msgByItselfSince, plain(s.Issuer), sh.when(s.Since))
		} else {
			sh.say(msgByItself)
		}
		if s.Problem != "" && s.Problem != v.Problem {
			sh.printf("%s\n", s.Problem)
		}
		return
	case s != nil && s.SignedIn:
		sh.say(msgSignedInSince, plain(s.Issuer), sh.when(s.Since))
	}
	if v.NeedsSignIn || s != nil && s.Need != "" {
		sh.say(msgSignInNow, v.Slug, flags)
	}
}

// showUpstream prints an upstream. Flags are those of commands that it suggests.
func (sh *shell) showUpstream(v *control.UpstreamDetail, flags string) {
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
	switch {
	case v.Member && len(v.Settings) == 0:
		sh.say(msgSharedByOwner, v.OwnerName)
	case v.Shared != nil:
		sh.showSharing(v.Shared)
	}
	if v.Problem != "" {
		sh.printf("%s\n", problemText(v.Problem, v.Cause))
	}
	sh.showSignIn(v, flags)
	if !v.NextTry.IsZero() {
		sh.say(msgNextTry, v.NextTry.Local().Format("15:04:05"))
	}
	if v.Protocol != "" {
		if v.Transport == "openapi" {
			sh.say(msgItsAPI, plain(v.Server), plain(v.ServerVersion), plain(v.Protocol))
		} else {
			sh.say(msgItsServer, plain(v.Server), plain(v.ServerVersion), v.Protocol, v.Transport)
		}
		sh.say(msgItsTools, v.Tools)
		if v.Prompts > 0 {
			sh.say(msgItsPrompts, v.Prompts)
		}
		if v.Held > 0 {
			sh.say(msgItsHeld, v.Held, v.Slug)
		}
		sh.showLeftOut(v.Hidden, v.Skipped, v.Cut, v.LeftOut)
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

// showSharing prints with whom an upstream is shared.
func (sh *shell) showSharing(s *control.UpstreamShared) {
	if s.Everybody {
		sh.say(msgSharedAll, s.SignedIn)
	} else {
		sh.say(msgSharedSome, strings.Join(s.Users, ", "), s.SignedIn)
	}
}
