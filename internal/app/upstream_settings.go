package app

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"reflect"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"patchbay/internal/account"
	"patchbay/internal/board"
	"patchbay/internal/control"
	"patchbay/internal/plug/mcp"
	"patchbay/internal/plug/mcp/upstream"
	"patchbay/internal/store"
	"patchbay/internal/talk"
)

// EndpointSettings are those of a tool server that connects to us: of the
// [upstream.Settings] those that do not say how it is reached.
type EndpointSettings struct {
	Allow      []string          `json:"allow,omitempty"`
	Deny       []string          `json:"deny,omitempty"`
	Timeout    upstream.Duration `json:"timeout,omitempty"`
	Concurrent int               `json:"concurrent,omitempty"`
	MaxTools   int               `json:"max_tools,omitempty"`
}

// Validate implements [UpstreamSettings].
func (s *EndpointSettings) Validate() error {
	u := upstream.Settings{Allow: s.Allow, Deny: s.Deny, Timeout: s.Timeout, Concurrent: s.Concurrent, MaxTools: s.MaxTools}
	return u.ValidateDialsIn()
}

// UpstreamSettings are the settings of an upstream: *[upstream.Settings],
// *[EndpointSettings], *[CloudSettings] or *[ShimSettings].
type UpstreamSettings interface {
	// Validate finds what is wrong with them. It tells no secret.
	Validate() error
}

// ReadUpstream reads the settings of an upstream, secrets readable, into the
// struct of its kind.
func (b *Base) ReadUpstream(u store.Upstream) (UpstreamSettings, error) {
	s, err := settingsOf(u.Kind)
	if err != nil {
		return nil, fmt.Errorf("upstream %s: %w", u.Slug, err)
	}
	return s, b.UpstreamSettings(u, s)
}

// settingsOf makes the struct of a kind's settings.
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

// UpstreamWhere is where an upstream's far side is, as it may be shown: an
// address without its query, or a command without its arguments. Empty: it
// connects to us, or the settings cannot be read.
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
		return s.Where()
	case *CloudSettings:
		return s.where()
	case *ShimSettings:
		return s.URL
	}
	return ""
}

// ChangeUpstream changes settings of an upstream, given as text; an empty text
// takes a setting away. Dropped are settings that were given for another address than it
// has now, and not given again.
func (b *Base) ChangeUpstream(ctx context.Context, u store.Upstream, set map[string]string) (dropped []string, err error) {
	s, err := b.ReadUpstream(u)
	if err != nil {
		return nil, err
	}
	if dropped, err = board.Reassign(s, set); err != nil {
		return nil, err
	}
	if err := s.Validate(); err != nil {
		return nil, err
	}
	if m, ok := s.(*upstream.Settings); ok && m.Command != "" {
		owner, err := b.Store.People.ByID(ctx, u.Owner)
		if err != nil {
			return nil, err
		}
		if owner.Role != account.RoleAdmin {
			return nil, errCommand
		}
	}
	return dropped, b.SetUpstream(ctx, u, s)
}

const masked = "••••••"

// ShownUpstream are the settings of an upstream for people to look at, its
// secrets masked.
func (b *Base) ShownUpstream(u store.Upstream) (map[string]json.RawMessage, error) {
	s, err := b.ReadUpstream(u)
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	shown := map[string]json.RawMessage{}
	if err := json.Unmarshal(text, &shown); err != nil {
		return nil, err
	}
	t := reflect.TypeOf(s).Elem()
	for i := range t.NumField() {
		name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		if raw := shown[name]; raw != nil && t.Field(i).Tag.Get("secret") == "true" {
			shown[name] = mask(raw)
		}
	}
	if text := shown["url"]; text != nil {
		shown["url"], _ = json.Marshal(maskedURL(s))
	}
	return shown, nil
}

// mask hides a text, or the values of an object.
func mask(raw json.RawMessage) json.RawMessage {
	var values map[string]string
	if json.Unmarshal(raw, &values) != nil {
		return json.RawMessage(`"` + masked + `"`)
	}
	for name := range values {
		values[name] = masked
	}
	text, _ := json.Marshal(values)
	return text
}

// maskedURL is an address whose query, which may hold a token, is hidden.
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
		return whereOf(s) + "?" + masked
	}
	return whereOf(s)
}

// CheckUpstream connects to a tool server once, as the server would do for its
// owner, and tells what it found. An error is an *[upstream.Trouble], or about
// the settings of the installation.
func (b *Base) CheckUpstream(ctx context.Context, owner store.Person, slug string, s *upstream.Settings, log *slog.Logger, version string) (upstream.Report, error) {
	photos, _, err := fetchers(b.Config, log, prometheus.NewRegistry())
	if err != nil {
		return upstream.Report{}, err
	}
	spec := upstream.Spec{ID: "check", Slug: slug, Owner: owner.ID, Settings: *s, Guarded: owner.Role != account.RoleAdmin}
	return upstream.Check(ctx, spec, upstream.Options{Logger: log, Dial: photos.Dial, Version: version, Installation: b.Installation})
}

// upstreamHealth tells how the connection of an upstream is.
func upstreamHealth(b *Base, hub *board.Board, servers *upstream.Manager, clouds *mcp.Clouds, joined *shims) func(store.Upstream) control.UpstreamHealth {
	return func(u store.Upstream) control.UpstreamHealth {
		var h control.UpstreamHealth
		if s, ok := servers.Status(OutletOf(u)); ok {
			h = serverHealth(s)
			if n := offeredElsewhere(hub, u, s); n > 0 {
				h = control.UpstreamHealth{State: control.UpstreamElsewhere, Tools: n}
			}
		} else if s, ok := clouds.Status(OutletOf(u)); ok {
			h = cloudHealth(s)
		} else if u.Kind == UpstreamShim {
			h = joined.health(OutletOf(u))
		}
		h.Where = b.UpstreamWhere(u)
		return h
	}
}

func serverHealth(s upstream.Status) control.UpstreamHealth {
	h := control.UpstreamHealth{
		State: string(s.State), Since: s.Since, NextTry: s.NextTry, Stderr: s.Stderr,
		Tools: s.Tools, Hidden: s.Hidden, Skipped: s.Skipped, Cut: s.Cut,
		Server: s.Server, ServerVersion: s.ServerVersion, Protocol: s.Protocol, Transport: s.Transport,
	}
	if s.Err != nil {
		h.Trouble, h.Cause = s.Err.Told, s.Err.Cause
	}
	return h
}

func cloudHealth(s mcp.CloudStatus) control.UpstreamHealth {
	h := control.UpstreamHealth{State: control.UpstreamConnecting, Since: s.Since, NextTry: s.NextTry, Trouble: s.Trouble}
	switch {
	case s.Connected:
		h.State = control.UpstreamReady
	case s.Elsewhere:
		h.State = control.UpstreamElsewhere
	case s.Trouble != talk.Say{}:
		h.State = control.UpstreamWaiting
	}
	return h
}
