package cli

import (
	"context"
	"slices"
	"strings"

	"patchbay/internal/api"
	"patchbay/internal/control"
	"patchbay/internal/i18n"
)

// upstreamFlags name an upstream.
type upstreamFlags struct {
	Name        string `arg:"" help:"Name of the upstream."`
	User        string `help:"Owner of the upstream, if several accounts have one with this name." placeholder:"NAME"`
	targetFlags `embed:""`
}

// find connects, finds the upstream, and calls use with both.
func (f *upstreamFlags) find(ctx context.Context, sh *shell, use func(*conn, control.Upstream) error) error {
	return f.connect(ctx, sh, func(at *conn) error {
		all, err := at.upstreams(ctx, f.User)
		if err != nil {
			return err
		}
		all = slices.DeleteFunc(all, func(u control.Upstream) bool { return u.Slug != f.Name })
		switch len(all) {
		case 0:
			return i18n.Message("there is no upstream %q; patchbay upstream list lists the upstreams").Errorf(f.Name)
		case 1:
			return use(at, all[0])
		}
		return usage(i18n.Message("%d people have an upstream named %s; choose one with --user NAME"), len(all), f.Name)
	})
}

// upstreams lists the upstreams that the caller may see, or those of a person.
func (c *conn) upstreams(ctx context.Context, user string) ([]control.Upstream, error) {
	list, err := api.ListUpstreams.Call(ctx, c.Client, control.UpstreamQuery{User: user})
	return list.Upstreams, err
}

// problemText joins an error message and its cause.
func problemText(told, cause string) string {
	if cause == "" {
		return told
	}
	return told + " (" + plain(singleLine(cause)) + ")"
}

const (
	msgFoundServer = i18n.Message("Connected to %s (MCP %s, %s): tools: %d.")
	msgFoundAPI    = i18n.Message("Read the document of %s (%s): tools: %d.")
	msgFoundLeft   = i18n.Message("Operations that are left out:")
	msgFoundHidden = i18n.Message("Excluded by its settings allow and deny: %d more.")
	msgFoundBad    = i18n.Message("Skipped because their names or schemas are not usable: %d more.")
	msgFoundCut    = i18n.Message("It has more tools than max_tools; select tools with allow, or raise max_tools.")
)

// toolsNamed is how many tools are listed by name after a check.
const toolsNamed = 5

func (sh *shell) showFound(f *control.UpstreamFound) {
	name := strings.TrimSpace(plain(f.Server + " " + f.Version))
	if name == "" {
		name = "?"
	}
	if f.Transport == "openapi" {
		sh.say(msgFoundAPI, name, plain(f.Protocol), len(f.Tools))
	} else {
		sh.say(msgFoundServer, name, f.Protocol, f.Transport, len(f.Tools))
	}
	for i, t := range f.Tools {
		if i == toolsNamed {
			sh.printf("  …\n")
			break
		}
		sh.printf("  %s\n", t)
	}
	sh.showLeftOut(f.Hidden, f.Skipped, f.Cut, f.LeftOut)
}

// showLeftOut prints what of an upstream is no tool; operations are those of an OpenAPI document.
func (sh *shell) showLeftOut(hidden, skipped int, cut bool, operations []string) {
	if len(operations) > 0 {
		sh.say(msgFoundLeft)
		for _, line := range operations {
			sh.printf("  %s\n", plain(line))
		}
	}
	if hidden > 0 {
		sh.say(msgFoundHidden, hidden)
	}
	if skipped > 0 {
		sh.say(msgFoundBad, skipped)
	}
	if cut {
		sh.say(msgFoundCut)
	}
}

// endpointURL returns the URL that a tool server connects to, with its token.
func (c *conn) endpointURL(ctx context.Context, token string) string {
	return "ws" + strings.TrimPrefix(c.publicURL(ctx), "http") + "/mcp_endpoint/mcp/?token=" + token
}
