package control

import (
	"context"
	"encoding/json"
	"errors"
	"slices"

	"patchbay/internal/account"
	"patchbay/internal/hub"
	"patchbay/internal/i18n"
	"patchbay/internal/problem"
	"patchbay/internal/store"
)

// UpstreamActions are the operations that depend on the kind of an upstream. Settings are named as
// they are stored; an empty text removes one, a missing one stays. Errors about input are, or wrap,
// an [*Error].
type UpstreamActions struct {
	// Save stores an upstream with changed settings, or a new one, with number 0.
	Save func(ctx context.Context, owner store.Person, u store.Upstream, set SettingTexts) (SavedUpstream, error)
	// Check connects to a server once with the settings, as the server would for its owner.
	// Problems of that server are in the result.
	Check func(ctx context.Context, owner store.Person, u store.Upstream, set SettingTexts) (UpstreamFound, error)
	// Rotate gives an inbound upstream a new token.
	Rotate func(context.Context, store.Upstream) (token string, err error)
	// Shareable returns an error if not each person can sign in to it alone.
	Shareable func(store.Upstream) error
	// Shown returns its settings, with secrets masked.
	Shown func(store.Upstream) (map[string]json.RawMessage, error)
}

// SavedUpstream is an upstream that was stored.
type SavedUpstream struct {
	store.Upstream
	// Token is that of a new inbound upstream. It is returned only here.
	Token string
	// Dropped are settings that were removed because the address changed.
	Dropped []string
}

// maxUpstreams limits the upstreams of one person: each is a connection, and a list of tools.
const maxUpstreams = 100

const (
	msgUpstreamMissing = i18n.Message("There is no such tool server or gateway. It may have been removed.")
	msgUpstreamTaken   = i18n.Message("There is one called %s already; choose another name.")
	msgUpstreamsMost   = i18n.Message("There may be %d at most; remove some first.")
	msgUpstreamCommand = i18n.Message("A command runs on the server's machine, so only an administrator may set one, with a key only if its scope is admin.")
	msgUpstreamNothing = i18n.Message("%s Nothing was saved.")
	msgUpstreamNoToken = i18n.Message("It does not connect to this server, so it has no token.")
	msgUpstreamNoCheck = i18n.Message("It is no server that can be looked at: it connects by itself, or calls your tools.")
	msgUpstreamKind    = i18n.Message("The kinds are mcp, endpoint, cloud and shim; %q is none of them.")
)

// NewUpstream describes an upstream to add or to check.
type NewUpstream struct {
	Name     string       `json:"name"`
	Kind     string       `json:"kind"`
	Settings SettingTexts `json:"settings"`
	// Unchecked stores it without a check.
	Unchecked bool `json:"unchecked,omitempty"`
	// User is the owner, if an admin adds it for somebody.
	User string `json:"user,omitempty"`
}

// AddedUpstream is the result of adding an upstream.
type AddedUpstream struct {
	ID   int64  `json:"id"`
	Name string `json:"name"`
	Kind string `json:"kind"`
	// Token is the token of an inbound upstream. It is returned only here.
	Token string         `json:"token,omitempty"`
	Found *UpstreamFound `json:"found,omitempty"`
}

// draft validates the owner, the name and the kind of a new upstream.
func (s *Service) draft(ctx context.Context, c Caller, in NewUpstream) (owner store.Person, u store.Upstream,
	err error) {
	if err := requireUnrestrictedKey(c); err != nil {
		return owner, u, err
	}
	if err := s.mayAdd(c); err != nil {
		return owner, u, err
	}
	if owner, err = s.singlePerson(ctx, c, in.User); err != nil {
		return owner, u, err
	}
	if !slices.Contains([]string{KindServer, KindDialsIn, KindCloud, KindShim}, in.Kind) {
		return owner, u, problem.New(problem.Invalid, msgUpstreamKind, in.Kind)
	}
	if err := hub.CheckSlug(in.Name); err != nil {
		return owner, u, InputProblem(problem.Invalid, err)
	}
	mine, err := s.Hub.Store.Upstreams.ByOwner(ctx, owner.ID)
	if err != nil {
		return owner, u, err
	}
	if len(mine) >= maxUpstreams {
		return owner, u, problem.New(problem.Conflict, msgUpstreamsMost, maxUpstreams)
	}
	if slices.ContainsFunc(mine, func(u store.Upstream) bool { return u.Slug == in.Name }) {
		return owner, u, problem.New(problem.Conflict, msgUpstreamTaken, in.Name)
	}
	shared, err := s.Hub.Store.Upstreams.SharedWith(ctx, owner.ID)
	if err != nil {
		return owner, u, err
	}
	if slices.ContainsFunc(shared, func(u store.Upstream) bool { return u.Slug == in.Name }) {
		return owner, u, problem.New(problem.Conflict, msgSharedTaken, in.Name)
	}
	return owner, store.Upstream{Owner: owner.ID, Slug: in.Name, Kind: in.Kind}, commands(c, owner, in.Settings)
}

// commands refuses upstreams that run programs on this machine from callers that are not admins,
// and from keys that are narrower.
func commands(c Caller, owner store.Person, set SettingTexts) error {
	if set["command"] == "" {
		return nil
	}
	if owner.Role != account.RoleAdmin || c.Key != "" && !c.Admin {
		return problem.New(problem.Denied, msgUpstreamCommand)
	}
	return nil
}

// CheckNewUpstream checks a server that is not added yet.
func (s *Service) CheckNewUpstream(ctx context.Context, c Caller, in NewUpstream) (UpstreamFound, error) {
	owner, u, err := s.draft(ctx, c, in)
	if err != nil {
		return UpstreamFound{}, err
	}
	return s.look(ctx, c, owner, u, in.Settings)
}

func (s *Service) look(ctx context.Context, c Caller, owner store.Person, u store.Upstream,
	set SettingTexts) (UpstreamFound, error) {
	if u.Kind != KindServer {
		return UpstreamFound{}, problem.New(problem.Invalid, msgUpstreamNoCheck)
	}
	f, err := s.Upstreams.Check(ctx, owner, u, set)
	f.Problem, f.Notice = f.Message.In(c.Lang), droppedSettingsNotice(c.Lang, f.Dropped)
	f.LeftOut = omitted(c, f.Omitted)
	if err != nil || f.Cause == "" {
		return f, err
	}
	deep, err := s.canSeeMachine(ctx, c)
	if !deep {
		f.Cause = ""
	}
	return f, err
}

// AddUpstream adds an upstream. A server is checked first, and refused if that fails, unless the
// caller skips the check.
func (s *Service) AddUpstream(ctx context.Context, c Caller, in NewUpstream) (AddedUpstream, error) {
	owner, u, err := s.draft(ctx, c, in)
	if err != nil {
		return AddedUpstream{}, err
	}
	out := AddedUpstream{Name: in.Name, Kind: in.Kind}
	if u.Kind == KindServer && !in.Unchecked {
		f, err := s.look(ctx, c, owner, u, in.Settings)
		if err != nil {
			return AddedUpstream{}, err
		}
		if f.Problem != "" && !f.NeedsSignIn {
			if f.Cause != "" {
				f.Problem += " (" + f.Cause + ")"
			}
			return AddedUpstream{}, problem.New(problem.Unavailable, msgUpstreamNothing, f.Problem)
		}
		out.Found = &f
	}
	saved, err := s.Upstreams.Save(ctx, owner, u, in.Settings)
	if err != nil {
		if errors.Is(err, store.ErrExists) {
			err = problem.New(problem.Conflict, msgUpstreamTaken, in.Name)
		}
		return AddedUpstream{}, err
	}
	out.ID, out.Token = saved.Number, saved.Token
	s.RecordAdminEvent(ctx, c, EventUpstreamAdded, aboutUpstream(saved.Upstream, givenNames(in.Settings)...))
	s.toolsChanged(ctx)
	return out, nil
}

// toolsChanged makes all instances apply a change of tools, and returns those that did not confirm
// it in time. They retry by themselves.
func (s *Service) toolsChanged(ctx context.Context) (unconfirmed []string) {
	unconfirmed, err := s.Hub.RefreshToolsEverywhere(ctx)
	if err != nil {
		unconfirmed = []string{s.Hub.Bus.Instance}
	}
	if len(unconfirmed) > 0 && ctx.Err() == nil {
		s.Logger.WarnContext(ctx, "what was changed about tools could not be taken up yet", "instances", unconfirmed,
			"error", err)
	}
	return unconfirmed
}

// UpstreamChange changes settings of an upstream.
type UpstreamChange struct {
	Upstream int64        `path:"upstream" json:"-"`
	Settings SettingTexts `json:"settings"`
}

// changeable returns an upstream whose settings the caller may change.
func (s *Service) changeable(ctx context.Context, c Caller, number int64,
	set SettingTexts) (owner store.Person, u store.Upstream, err error) {
	if u, err = s.upstream(ctx, c, number); err != nil {
		return owner, u, err
	}
	if err := requireUnrestrictedKey(c); err != nil {
		return owner, u, err
	}
	if err := s.mayAdd(c); err != nil {
		return owner, u, err
	}
	if owner, err = s.Hub.Store.People.ByID(ctx, u.Owner); err != nil {
		return owner, u, err
	}
	for _, name := range []string{"command", "args", "env", "dir"} {
		if err := commands(c, owner, SettingTexts{"command": set[name]}); err != nil {
			return owner, u, err
		}
	}
	return owner, u, nil
}

// ChangeUpstream changes settings of an upstream, which reconnects.
func (s *Service) ChangeUpstream(ctx context.Context, c Caller, in UpstreamChange) (UpstreamDetail, error) {
	owner, u, err := s.changeable(ctx, c, in.Upstream, in.Settings)
	if err != nil {
		return UpstreamDetail{}, err
	}
	saved, err := s.Upstreams.Save(ctx, owner, u, in.Settings)
	if err != nil {
		return UpstreamDetail{}, err
	}
	s.RecordAdminEvent(ctx, c, EventUpstreamChanged, aboutUpstream(u, settingNames(in.Settings)...))
	s.toolsChanged(ctx)
	d, err := s.ShowUpstream(ctx, c, UpstreamOf{Upstream: in.Upstream})
	d.Dropped, d.Notice = saved.Dropped, droppedSettingsNotice(c.Lang, saved.Dropped)
	return d, err
}

// CheckUpstream checks an upstream, with changed settings if any are given.
func (s *Service) CheckUpstream(ctx context.Context, c Caller, in UpstreamChange) (UpstreamFound, error) {
	owner, u, err := s.changeable(ctx, c, in.Upstream, in.Settings)
	if err != nil {
		return UpstreamFound{}, err
	}
	return s.look(ctx, c, owner, u, in.Settings)
}

// RotatedUpstream is the new token of an upstream. It is returned only here.
type RotatedUpstream struct {
	ID    int64  `json:"id"`
	Name  string `json:"name"`
	Token string `json:"token"`
}

// RotateUpstream gives an inbound upstream a new token, and closes the connection that uses the old
// one.
func (s *Service) RotateUpstream(ctx context.Context, c Caller, in UpstreamRef) (RotatedUpstream, error) {
	_, u, err := s.changeable(ctx, c, in.Upstream, nil)
	if err != nil {
		return RotatedUpstream{}, err
	}
	if u.TokenHash == "" {
		return RotatedUpstream{}, problem.New(problem.Invalid, msgUpstreamNoToken)
	}
	token, err := s.Upstreams.Rotate(ctx, u)
	if err != nil {
		return RotatedUpstream{}, err
	}
	s.RecordAdminEvent(ctx, c, EventUpstreamToken, aboutUpstream(u))
	s.toolsChanged(ctx)
	return RotatedUpstream{u.Number, u.Slug, token}, nil
}

// RemoveUpstream removes an upstream.
func (s *Service) RemoveUpstream(ctx context.Context, c Caller, in UpstreamRef) (RemovedUpstream, error) {
	_, u, err := s.changeable(ctx, c, in.Upstream, nil)
	if err != nil {
		return RemovedUpstream{}, err
	}
	err = s.Hub.Store.Upstreams.Remove(ctx, u.Number)
	if errors.Is(err, store.ErrNotFound) {
		err = problem.New(problem.NotFound, msgUpstreamMissing)
	}
	if err != nil {
		return RemovedUpstream{}, err
	}
	s.RecordAdminEvent(ctx, c, EventUpstreamRemoved, aboutUpstream(u))
	s.toolsChanged(ctx)
	return RemovedUpstream{u.Number, u.Slug, true}, nil
}

// aboutUpstream describes an upstream in admin events, with the names of settings; their values can
// be secret.
func aboutUpstream(u store.Upstream, settings ...string) string {
	return aboutSettings(u.Slug+" ("+u.Kind+")", settings)
}

// RemovedUpstream is an upstream that was removed.
type RemovedUpstream struct {
	ID      int64  `json:"id"`
	Name    string `json:"name"`
	Removed bool   `json:"removed"`
}
