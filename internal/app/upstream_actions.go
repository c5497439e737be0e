package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"

	"patchbay/internal/account"
	"patchbay/internal/control"
	"patchbay/internal/hub"
	"patchbay/internal/i18n"
	"patchbay/internal/plug/mcp/upstream"
	"patchbay/internal/plug/mcp/upstream/signin"
	"patchbay/internal/problem"
	"patchbay/internal/settings"
	"patchbay/internal/store"
)

// maxConcurrentChecks bounds the concurrent checks of servers. Each check opens a connection or
// starts a program.
const maxConcurrentChecks = 8

const msgManyLooks = i18n.Message("Too many servers are being looked at; try again in a moment.")

// newUpstreamActions provides the operations on upstreams for the console and the API.
func newUpstreamActions(b *Base, signins *signin.Service, log *slog.Logger) control.UpstreamActions {
	looking := make(chan struct{}, maxConcurrentChecks)
	return control.UpstreamActions{
		Save: func(ctx context.Context, owner store.Person, u store.Upstream,
			set control.SettingTexts) (control.SavedUpstream, error) {
			s, dropped, err := b.changedSettings(owner, u, set)
			switch {
			case err != nil:
				return control.SavedUpstream{}, err
			case u.Number != 0:
				if err := b.keepsShared(ctx, u, s); err != nil {
					return control.SavedUpstream{}, err
				}
				return control.SavedUpstream{Upstream: u, Dropped: dropped}, b.SetUpstream(ctx, u, s)
			}
			u, token, err := b.AddUpstream(ctx, owner, u.Slug, u.Kind, s)
			return control.SavedUpstream{Upstream: u, Token: token}, err
		},
		Check: func(ctx context.Context, owner store.Person, u store.Upstream,
			set control.SettingTexts) (control.UpstreamFound, error) {
			s, dropped, err := b.changedSettings(owner, u, set)
			if err != nil {
				return control.UpstreamFound{}, err
			}
			select {
			case looking <- struct{}{}:
				defer func() { <-looking }()
			default:
				return control.UpstreamFound{}, problem.New(problem.RateLimited, msgManyLooks)
			}
			f, err := b.found(ctx, owner, u, s, signins, log)
			f.Dropped = dropped
			return f, err
		},
		Rotate: b.RotateUpstream,
		Shareable: func(u store.Upstream) error {
			s, err := b.ReadUpstream(u)
			if err != nil {
				return err
			}
			return shareable(u, s)
		},
		Shown: b.ShownUpstream,
	}
}

// changedSettings returns the changed settings of an upstream or of a new one. Dropped are the
// secrets that were given for another address than the one it has now.
func (b *Base) changedSettings(owner store.Person, u store.Upstream,
	set control.SettingTexts) (s UpstreamSettings, dropped []string, err error) {
	if s, err = settingsOf(u.Kind); err == nil && u.Number != 0 {
		s, err = b.ReadUpstream(u)
	}
	if err != nil {
		return nil, nil, err
	}
	if set, err = withBase(s, set); err != nil {
		return nil, nil, control.InputProblem(problem.Invalid, err)
	}
	if dropped, err = settings.ChangeStruct(s, set); err != nil {
		return nil, nil, control.InputProblem(problem.Invalid, err)
	}
	if m, ok := s.(*upstream.Settings); ok && m.Command != "" && owner.Role != account.RoleAdmin {
		return nil, nil, control.InputProblem(problem.Denied, errCommand)
	}
	if err := s.Validate(); err != nil {
		return nil, nil, control.InputProblem(problem.Invalid, err)
	}
	return s, dropped, nil
}

// withBase adds the address of an API to settings with the text of its OpenAPI document, which
// names it: the owner has the document, so the address is stored, and secrets are sent there only.
func withBase(s UpstreamSettings, set control.SettingTexts) (control.SettingTexts, error) {
	m, ok := s.(*upstream.Settings)
	if !ok || set["document"] == "" || set["base_url"] != "" || m.BaseURL != "" {
		return set, nil
	}
	base, err := upstream.APIBase(set["document"])
	if err != nil {
		return nil, err
	}
	set = maps.Clone(set)
	set["base_url"] = base
	return set, nil
}

// found checks a server and returns what it offers.
func (b *Base) found(ctx context.Context, owner store.Person, u store.Upstream, s UpstreamSettings,
	signins *signin.Service, log *slog.Logger) (control.UpstreamFound, error) {
	m, ok := s.(*upstream.Settings)
	if !ok {
		return control.UpstreamFound{}, fmt.Errorf("an upstream of kind %s cannot be looked at", u.Kind)
	}
	r, err := b.CheckUpstream(ctx, owner, u.Slug, m, signins, log, cmp.Or(b.Version, "dev"), u.Number)
	if trouble, ok := errors.AsType[*upstream.ConnectionError](err); ok && ctx.Err() == nil {
		return control.UpstreamFound{Tools: []string{}, Message: trouble.Message, Cause: trouble.Cause,
			NeedsSignIn: trouble.NeedsPerson()}, nil
	}
	if err != nil {
		return control.UpstreamFound{}, cmp.Or(ctx.Err(), err)
	}
	f := control.UpstreamFound{
		Server: r.Server, Version: r.Version, Protocol: r.Protocol, Transport: r.Transport, Tools: []string{},
		Hidden: r.Hidden, Skipped: r.Skipped, Cut: r.Truncated, Omitted: r.LeftOut,
	}
	at := hub.ProviderRef{Slug: u.Slug}
	for _, t := range r.Tools {
		f.Tools = append(f.Tools, at.FullName(t.Name))
	}
	return f, nil
}
