package app

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"reflect"
	"slices"
	"strings"

	"patchbay/internal/account"
	"patchbay/internal/control"
	"patchbay/internal/hub"
	"patchbay/internal/i18n"
	"patchbay/internal/plug/mcp/upstream"
	"patchbay/internal/store"
)

// maxConcurrentChecks bounds the concurrent checks of servers. Each check opens a connection or
// starts a program.
const maxConcurrentChecks = 8

// Messages about invalid settings.
const (
	msgNoSetting    = i18n.Message("no setting is called %q; there are %s")
	msgSettingUnfit = i18n.Message("%s does not fit: it cannot be a JSON %s")
)

const msgManyLooks = i18n.Message("Too many servers are being looked at; try again in a moment.")

// newUpstreamActions provides the operations on upstreams for the console and the API.
func newUpstreamActions(b *Base, log *slog.Logger) control.UpstreamActions {
	looking := make(chan struct{}, maxConcurrentChecks)
	return control.UpstreamActions{
		Save: func(ctx context.Context, owner store.Person, u store.Upstream,
			set map[string]json.RawMessage) (control.SavedUpstream, error) {
			s, dropped, err := b.changedSettings(owner, u, set)
			switch {
			case err != nil:
				return control.SavedUpstream{}, err
			case u.Number != 0:
				return control.SavedUpstream{Upstream: u, Dropped: dropped}, b.SetUpstream(ctx, u, s)
			}
			u, token, err := b.AddUpstream(ctx, owner, u.Slug, u.Kind, s)
			return control.SavedUpstream{Upstream: u, Token: token}, err
		},
		Check: func(ctx context.Context, owner store.Person, u store.Upstream,
			set map[string]json.RawMessage) (control.UpstreamFound, error) {
			s, dropped, err := b.changedSettings(owner, u, set)
			if err != nil {
				return control.UpstreamFound{}, err
			}
			select {
			case looking <- struct{}{}:
				defer func() { <-looking }()
			default:
				return control.UpstreamFound{}, control.Fail(control.TooMany, msgManyLooks)
			}
			f, err := b.found(ctx, owner, u, s, log)
			f.Dropped = dropped
			return f, err
		},
		Rotate: b.RotateUpstream,
		Shown:  b.ShownUpstream,
	}
}

// changedSettings returns the changed settings of an upstream or of a new one. Dropped are the
// secrets that were given for another address than the one it has now.
func (b *Base) changedSettings(owner store.Person, u store.Upstream,
	set map[string]json.RawMessage) (s UpstreamSettings, dropped []string, err error) {
	if s, err = settingsOf(u.Kind); err == nil && u.Number != 0 {
		s, err = b.ReadUpstream(u)
	}
	if err != nil {
		return nil, nil, err
	}
	if dropped, err = overlay(s, set); err != nil {
		return nil, nil, control.Said(control.Invalid, err)
	}
	if m, ok := s.(*upstream.Settings); ok && m.Command != "" && owner.Role != account.RoleAdmin {
		return nil, nil, control.Said(control.Refused, errCommand)
	}
	if err := s.Validate(); err != nil {
		return nil, nil, control.Said(control.Invalid, err)
	}
	return s, dropped, nil
}

// overlay changes settings by their names; null removes a value. Secrets that belong to a previous
// address are dropped.
func overlay(s UpstreamSettings, set map[string]json.RawMessage) (dropped []string, err error) {
	text, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	raw := map[string]json.RawMessage{}
	if err := json.Unmarshal(text, &raw); err != nil {
		return nil, err
	}
	before := maps.Clone(raw)
	names := settingNames(s)
	for name, value := range set {
		switch {
		case !slices.Contains(names, name): // matched exactly; the decoder would ignore case
			return nil, msgNoSetting.Errorf(name, strings.Join(names, ", "))
		case string(bytes.TrimSpace(value)) == "null":
			delete(raw, name)
		default:
			raw[name] = value
		}
	}
	dropped = hub.DropStaleSecrets(s, before, raw, func(name string) bool { return set[name] != nil })
	if text, err = json.Marshal(raw); err != nil {
		return nil, err
	}
	fresh := reflect.New(reflect.TypeOf(s).Elem())
	if err := json.Unmarshal(text, fresh.Interface()); err != nil {
		if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
			return nil, msgSettingUnfit.Errorf(wrong.Field, wrong.Value)
		}
		return nil, err
	}
	reflect.ValueOf(s).Elem().Set(fresh.Elem())
	return dropped, nil
}

func settingNames(s UpstreamSettings) []string {
	names := map[string]bool{}
	for f := range reflect.TypeOf(s).Elem().Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		names[name] = true
	}
	return slices.Sorted(maps.Keys(names))
}

// found checks a server and returns what it offers.
func (b *Base) found(ctx context.Context, owner store.Person, u store.Upstream, s UpstreamSettings,
	log *slog.Logger) (control.UpstreamFound, error) {
	m, ok := s.(*upstream.Settings)
	if !ok {
		return control.UpstreamFound{}, fmt.Errorf("an upstream of kind %s cannot be looked at", u.Kind)
	}
	r, err := b.CheckUpstream(ctx, owner, u.Slug, m, log, cmp.Or(b.Version, "dev"))
	if trouble, ok := errors.AsType[*upstream.ConnectionError](err); ok && ctx.Err() == nil {
		return control.UpstreamFound{Tools: []string{}, Message: trouble.Message, Cause: trouble.Cause}, nil
	}
	if err != nil {
		return control.UpstreamFound{}, cmp.Or(ctx.Err(), err)
	}
	f := control.UpstreamFound{
		Server: r.Server, Version: r.Version, Protocol: r.Protocol, Transport: r.Transport, Tools: []string{},
		Hidden: r.Hidden, Skipped: r.Skipped, Cut: r.Truncated,
	}
	at := hub.ProviderRef{Slug: u.Slug}
	for _, t := range r.Tools {
		f.Tools = append(f.Tools, at.FullName(t.Name))
	}
	return f, nil
}
