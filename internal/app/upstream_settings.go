package app

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"patchbay/internal/account"
	"patchbay/internal/control"
	"patchbay/internal/hub"
	"patchbay/internal/plug/mcp"
	"patchbay/internal/plug/mcp/upstream"
	"patchbay/internal/plug/mcp/upstream/signin"
	"patchbay/internal/settings"
	"patchbay/internal/store"
)

// EndpointSettings are the settings of a tool server that connects to us: those of
// [upstream.Settings] that do not state how it is reached.
type EndpointSettings struct {
	Allow      []string          `json:"allow,omitempty"`
	Deny       []string          `json:"deny,omitempty"`
	Timeout    settings.Duration `json:"timeout,omitempty"`
	Concurrent int               `json:"concurrent,omitempty"`
	MaxTools   int               `json:"max_tools,omitempty"`
	Pass       []string          `json:"pass,omitempty"`
	Roots      []string          `json:"roots,omitempty"`
	Pin        string            `json:"pin,omitempty"`
}

// Validate implements [UpstreamSettings].
func (s *EndpointSettings) Validate() error {
	u := upstream.Settings{Allow: s.Allow, Deny: s.Deny, Timeout: s.Timeout, Concurrent: s.Concurrent,
		MaxTools: s.MaxTools, Pass: s.Pass, Roots: s.Roots, Pin: s.Pin}
	return u.ValidateInbound()
}

// UpstreamSettings are the settings of an upstream: *[upstream.Settings], *[EndpointSettings],
// *[CloudSettings] or *[ShimSettings].
type UpstreamSettings interface {
	// Validate returns what is wrong with them. The error contains no secret.
	Validate() error
}

// ReadUpstream reads the settings of an upstream, with their secrets, into the struct of its kind.
func (b *Base) ReadUpstream(u store.Upstream) (UpstreamSettings, error) {
	s, err := settingsOf(u.Kind)
	if err != nil {
		return nil, fmt.Errorf("upstream %s: %w", u.Slug, err)
	}
	return s, b.UpstreamSettings(u, s)
}

// settingsOf returns a new struct for the settings of a kind.
func settingsOf(kind string) (UpstreamSettings, error) {
	switch kind {
	case UpstreamMCP:
		return new(upstream.Settings), nil
	case UpstreamDialsIn:
		return new(EndpointSettings), nil
	case UpstreamCloud:
		return new(CloudSettings), nil
	case UpstreamShim:
		return new(ShimSettings), nil
	}
	return nil, fmt.Errorf("kind %q is none that this version knows", kind)
}

// UpstreamWhere returns the location of an upstream so that it can be shown: an address without its
// query, or a command without its arguments. It is empty if the upstream connects to us, or its
// settings cannot be read.
func (b *Base) UpstreamWhere(u store.Upstream) string {
	s, err := b.ReadUpstream(u)
	if err != nil {
		return ""
	}
	return whereOf(s)
}

func whereOf(s UpstreamSettings) string {
	switch s := s.(type) {
	case *upstream.Settings:
		return s.DisplayAddress()
	case *CloudSettings:
		return s.where()
	case *ShimSettings:
		return s.URL
	}
	return ""
}

// ShownUpstream returns the settings of an upstream for display, with masked secrets.
func (b *Base) ShownUpstream(u store.Upstream) (map[string]json.RawMessage, error) {
	s, err := b.ReadUpstream(u)
	if err != nil {
		return nil, err
	}
	shown, err := settings.MaskStruct(s)
	if err != nil {
		return nil, err
	}
	if shown["url"] != nil {
		shown["url"], err = json.Marshal(maskedURL(s))
	}
	if m, ok := s.(*upstream.Settings); ok && m.Document != "" {
		shown["document"], err = json.Marshal(fmt.Sprintf("(%d bytes)", len(m.Document)))
	}
	return shown, err
}

// maskedURL returns an address whose query, which may hold a token, is masked.
func maskedURL(s UpstreamSettings) string {
	full := ""
	switch s := s.(type) {
	case *upstream.Settings:
		full = s.URL
	case *CloudSettings:
		full = s.URL
	case *ShimSettings:
		full = s.URL
	}
	if strings.Contains(full, "?") {
		return whereOf(s) + "?" + settings.Masked
	}
	return whereOf(s)
}

// CheckUpstream connects to a tool server once, with the rights of its owner, and returns what it
// offers. An error is an *[upstream.ConnectionError], or is about the settings of the installation.
func (b *Base) CheckUpstream(ctx context.Context, owner store.Person, slug string, s *upstream.Settings,
	signins *signin.Service, log *slog.Logger, version string, number int64) (upstream.Report, error) {
	photos, _, err := fetchers(b.Config, log, prometheus.NewRegistry())
	if err != nil {
		return upstream.Report{}, err
	}
	spec := upstream.Spec{ID: UpstreamProviderID(store.Upstream{Number: number}), Slug: slug,
		Owner: owner.ID, Settings: *s, Untrusted: owner.Role != account.RoleAdmin}
	return upstream.Check(ctx, spec, upstream.Options{Logger: log, Dial: photos.Dial, Version: version,
		Tokens: tokensOf(signins), Installation: b.Installation})
}

// upstreamHealth returns a function that reports the connection state of an upstream, of its owner
// or of a person with whom it is shared.
func upstreamHealth(b *Base, h *hub.Hub, servers *upstream.Manager, clouds *mcp.Clouds,
	joined *shims) func(store.Upstream, string) control.UpstreamHealth {
	return func(u store.Upstream, person string) control.UpstreamHealth {
		var health control.UpstreamHealth
		if s, ok := servers.Status(providerIDFor(u, person)); ok {
			health = serverHealth(s)
			if n := offeredElsewhere(h, u, s); n > 0 {
				health = control.UpstreamHealth{State: control.UpstreamElsewhere, Tools: n}
			}
		} else if person != "" && person != u.Owner {
			health.State = control.UpstreamConnecting // before that, the person has to sign in
		} else if s, ok := clouds.Status(UpstreamProviderID(u)); ok {
			health = cloudHealth(s)
		} else if u.Kind == UpstreamShim {
			health = joined.health(UpstreamProviderID(u))
		}
		health.Where = b.UpstreamWhere(u)
		return health
	}
}

func serverHealth(s upstream.Status) control.UpstreamHealth {
	h := control.UpstreamHealth{
		State: string(s.State), Since: s.Since, NextTry: s.NextTry, Stderr: s.Stderr,
		Tools: s.Tools, Prompts: s.Prompts, Held: s.Held, Hidden: s.Hidden, Skipped: s.Skipped, Cut: s.Truncated,
		Omitted: s.LeftOut,
		Server:  s.Server, ServerVersion: s.ServerVersion, Protocol: s.Protocol, Transport: s.Transport,
	}
	if s.Err != nil {
		h.Problem, h.Cause, h.NeedsSignIn = s.Err.Message, s.Err.Cause, s.Err.NeedsPerson()
	}
	return h
}

func cloudHealth(s mcp.CloudStatus) control.UpstreamHealth {
	h := control.UpstreamHealth{State: control.UpstreamConnecting, Since: s.Since, NextTry: s.NextTry,
		Problem: s.Problem}
	switch {
	case s.Connected:
		h.State = control.UpstreamReady
	case s.OnOtherInstance:
		h.State = control.UpstreamElsewhere
	case !s.Problem.IsZero():
		h.State = control.UpstreamWaiting
	}
	return h
}
