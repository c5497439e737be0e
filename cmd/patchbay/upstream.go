package main

import (
	"context"
	"errors"
	"strings"

	"patchbay/internal/app"
	"patchbay/internal/config"
	"patchbay/internal/control"
	"patchbay/internal/hub"
	"patchbay/internal/i18n"
	"patchbay/internal/plug/mcp/upstream"
	"patchbay/internal/store"
)

// upstreamFlags name an upstream.
type upstreamFlags struct {
	Name      string `arg:"" help:"Name of the upstream."`
	User      string `help:"Whose upstream, if several people have one of that name." placeholder:"NAME"`
	dataFlags `embed:""`
}

// resolve opens the data, finds the upstream, and calls then with both.
func (f *upstreamFlags) resolve(ctx context.Context, sh *shell, then func(*app.Base, store.Upstream) error) error {
	return f.withData(ctx, sh, func(b *app.Base) error {
		u, err := findUpstream(ctx, b, f.User, f.Name)
		if err != nil {
			return err
		}
		return then(b, u)
	})
}

func findUpstream(ctx context.Context, b *app.Base, user, name string) (u store.Upstream, err error) {
	owner := ""
	if user != "" {
		p, err := person(ctx, b, user)
		if err != nil {
			return u, err
		}
		owner = p.ID
	}
	all, err := b.Store.Upstreams.ByOwner(ctx, owner)
	if err != nil {
		return u, err
	}
	n := 0
	for _, each := range all {
		if each.Slug == name {
			u = each
			n++
		}
	}
	switch n {
	case 0:
		return u, i18n.Message("there is no upstream %q; patchbay upstream list shows those there are").Errorf(name)
	case 1:
		return u, nil
	}
	return u, usage(i18n.Message("%d people have an upstream named %s; say whose with --user NAME"), n, name)
}

// serverFound is the result of checking a server.
type serverFound struct {
	Server    string   `json:"server"`
	Version   string   `json:"server_version,omitempty"`
	Protocol  string   `json:"protocol"`
	Transport string   `json:"transport"`
	Tools     []string `json:"tools"` // full names
	Hidden    int      `json:"hidden,omitempty"`
	Skipped   int      `json:"skipped,omitempty"`
	Cut       bool     `json:"cut,omitempty"`
}

// checkUpstream connects to a server once and reads its tools.
func checkUpstream(ctx context.Context, sh *shell, b *app.Base, owner store.Person, slug string,
	s *upstream.Settings) (*serverFound, error) {
	report, err := b.CheckUpstream(ctx, owner, slug, s, sh.logger(), thisBuild().Version)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if trouble, ok := errors.AsType[*upstream.ConnectionError](err); ok {
		return nil, errors.New(problemText(trouble.Message.In(sh.lang), trouble.Cause))
	}
	if err != nil {
		return nil, err
	}
	f := &serverFound{
		Server: report.Server, Version: report.Version, Protocol: report.Protocol, Transport: report.Transport,
		Tools: []string{}, Hidden: report.Hidden, Skipped: report.Skipped, Cut: report.Truncated,
	}
	at := hub.ProviderRef{Slug: slug}
	for _, t := range report.Tools {
		f.Tools = append(f.Tools, at.FullName(t.Name))
	}
	return f, nil
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
	msgFoundHidden = i18n.Message("Left out by its settings allow and deny: %d more.")
	msgFoundBad    = i18n.Message("Skipped, since their names or schemas cannot be used: %d more.")
	msgFoundCut    = i18n.Message("It has more tools than are taken over; choose with allow, or raise max_tools.")
)

// toolsNamed is how many tools are listed by name after a check.
const toolsNamed = 5

func (sh *shell) showFound(f *serverFound) {
	name := strings.TrimSpace(plain(f.Server + " " + f.Version))
	if name == "" {
		name = "?"
	}
	sh.say(msgFoundServer, name, f.Protocol, f.Transport, len(f.Tools))
	for i, t := range f.Tools {
		if i == toolsNamed {
			sh.printf("  …\n")
			break
		}
		sh.printf("  %s\n", t)
	}
	sh.showLeftOut(f.Hidden, f.Skipped, f.Cut)
}

func (sh *shell) showLeftOut(hidden, skipped int, cut bool) {
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
func endpointURL(c *config.Config, token string) string {
	return "ws" + strings.TrimPrefix(outsideURL(c), "http") + "/mcp_endpoint/mcp/?token=" + token
}

// localUpstreams lists the upstreams of a data directory, with the state from its running server,
// if there is one.
func localUpstreams(ctx context.Context, sh *shell, b *app.Base) (rows []control.Upstream, live bool, err error) {
	r, err := findRunning(ctx, sh, b.Config)
	if err != nil {
		return nil, false, err
	}
	if r != nil {
		rows, err = r.upstreams(ctx)
		return rows, true, err
	}
	list, err := b.Store.Upstreams.ByOwner(ctx, "")
	if err != nil {
		return nil, false, err
	}
	people, err := names(ctx, b)
	for _, u := range list {
		rows = append(rows, control.Upstream{Upstream: u, OwnerName: people[u.Owner],
			UpstreamHealth: control.UpstreamHealth{Where: b.UpstreamWhere(u)}})
	}
	return rows, false, err
}
