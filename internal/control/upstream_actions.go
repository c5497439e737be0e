package control

import (
	"context"
	"encoding/json"
	"errors"
	"slices"

	"patchbay/internal/account"
	"patchbay/internal/hub"
	"patchbay/internal/store"
	"patchbay/internal/talk"
)

// UpstreamActions is what takes knowing the kinds of upstreams. Settings are named as they
// are kept; one that is null is taken away, one that is not given stays. Errors about
// what was given are, or wrap, an [*Error].
type UpstreamActions struct {
	// Save keeps an upstream with changed settings, or a new one, whose number is 0.
	Save func(ctx context.Context, owner store.Person, u store.Upstream, set map[string]json.RawMessage) (SavedUpstream,
		error)
	// Check connects to a server once with such settings, as the server would do for
	// its owner. What is wrong with the server is told by what it found.
	Check func(ctx context.Context, owner store.Person, u store.Upstream,
		set map[string]json.RawMessage) (UpstreamFound, error)
	// Rotate gives one that connects to us a new token.
	Rotate func(context.Context, store.Upstream) (token string, err error)
	// Shown are its settings, secrets masked.
	Shown func(store.Upstream) (map[string]json.RawMessage, error)
}

// SavedUpstream is an upstream that was kept.
type SavedUpstream struct {
	store.Upstream
	// Token is that of a new one that connects to us. It cannot be shown again.
	Token string
	// Dropped are settings that were given for another address than it has now.
	Dropped []string
}

// maxUpstreams bounds how many upstreams one person has: each is a connection that is
// kept, and tools that are looked through.
const maxUpstreams = 100

var (
	sayUpstreamMissing = talk.Say{Zh: "没有这个工具服务器或网关。它可能已被移除。",
		En: "There is no such tool server or gateway. It may have been removed."}
	sayUpstreamName = talk.Say{Zh: "名称由 1 到 32 个小写字母、数字和 - 组成，并以字母或数字开头；%q 不合适。",
		En: "A name has 1 to 32 small letters, digits and -, and begins with a letter or digit; %q does not fit."}
	sayUpstreamTaken = talk.Say{Zh: "已经有一个叫 %s 的了，请换一个名称。",
		En: "There is one called %s already; choose another name."}
	sayUpstreamsMost   = talk.Say{Zh: "最多可以有 %d 个，请先移除一些。", En: "There may be %d at most; remove some first."}
	sayUpstreamCommand = talk.Say{
		Zh: "命令会在服务器的机器上运行，所以只有管理员（使用密钥时需要 admin 权限）可以设置。",
		En: "A command runs on the server's machine, so only an administrator may set one, with a key only if its scope is admin.",
	}
	sayUpstreamNothing = talk.Say{Zh: "%s 没有保存任何内容。", En: "%s Nothing was saved."}
	sayUpstreamNoToken = talk.Say{Zh: "它不是主动连接过来的，所以没有令牌。",
		En: "It does not connect to this server, so it has no token."}
	sayUpstreamNoCheck = talk.Say{Zh: "它不是可以查看的工具服务器：它会自己连接过来，或者只调用你的工具。",
		En: "It is no server that can be looked at: it connects by itself, or calls your tools."}
	sayUpstreamKind = talk.Say{Zh: "种类有 mcp、endpoint、cloud 和 shim；%q 不是其中之一。",
		En: "The kinds are mcp, endpoint, cloud and shim; %q is none of them."}
	sayWhoseUpstream  = talk.Say{Zh: "这里有 %d 个人，请用 user 说明是谁的。", En: "There are %d people; say whose it is with user."}
	sayUpstreamNobody = talk.Say{Zh: "没有叫 %q 的人。", En: "there is nobody named %q"}
	sayUpstreamOthers = talk.Say{Zh: "指明别人需要权限为 admin 的密钥。",
		En: "a key with scope admin is needed to name somebody else"}
)

// NewUpstream is an upstream that is to be added, or looked at.
type NewUpstream struct {
	Name     string                     `json:"name"`
	Kind     string                     `json:"kind"`
	Settings map[string]json.RawMessage `json:"settings"`
	// Unchecked saves a server without a look at it.
	Unchecked bool `json:"unchecked,omitempty"`
	// User is whose it is to be, if an admin adds it for somebody.
	User string `json:"user,omitempty"`
}

// AddedUpstream is what adding an upstream brought.
type AddedUpstream struct {
	ID   int64  `json:"id"`
	Name string `json:"name"`
	Kind string `json:"kind"`
	// Token is by what one that connects to us does so. It is not shown again.
	Token string         `json:"token,omitempty"`
	Found *UpstreamFound `json:"found,omitempty"`
}

// draft checks who adds an upstream, for whom, and how it is called.
func (s *Service) draft(ctx context.Context, c Caller, in NewUpstream) (owner store.Person, u store.Upstream,
	err error) {
	if err := requireUnrestrictedKey(c); err != nil {
		return owner, u, err
	}
	if owner, err = s.singlePerson(ctx, c, in.User); err != nil {
		return owner, u, err
	}
	if !slices.Contains([]string{KindServer, KindDialsIn, KindCloud, KindShim}, in.Kind) {
		return owner, u, Fail(Invalid, sayUpstreamKind, in.Kind)
	}
	if err := hub.CheckSlug(in.Name); err != nil {
		return owner, u, &Error{Reason: Invalid, Say: sayUpstreamName, Args: []any{in.Name}, Cause: err}
	}
	mine, err := s.Hub.Store.Upstreams.ByOwner(ctx, owner.ID)
	if err != nil {
		return owner, u, err
	}
	if len(mine) >= maxUpstreams {
		return owner, u, Fail(Conflict, sayUpstreamsMost, maxUpstreams)
	}
	if slices.ContainsFunc(mine, func(u store.Upstream) bool { return u.Slug == in.Name }) {
		return owner, u, Fail(Conflict, sayUpstreamTaken, in.Name)
	}
	return owner, store.Upstream{Owner: owner.ID, Slug: in.Name, Kind: in.Kind}, commands(c, owner, in.Settings)
}

// commands keeps those who do not run the installation from running programs on its
// machine, also by a key that leaked and is for less.
func commands(c Caller, owner store.Person, set map[string]json.RawMessage) error {
	if text := string(set["command"]); text == "" || text == "null" || text == `""` {
		return nil
	}
	if owner.Role != account.RoleAdmin || c.Key != "" && !c.Admin {
		return Fail(Refused, sayUpstreamCommand)
	}
	return nil
}

// singlePerson finds whom something is for: whom an admin names, or who asks.
func (s *Service) singlePerson(ctx context.Context, c Caller, name string) (store.Person, error) {
	people, err := s.targetPeople(ctx, c, name)
	if err == nil && len(people) != 1 {
		err = Fail(Invalid, sayWhoseUpstream, len(people))
	}
	if err != nil {
		return store.Person{}, err
	}
	return people[0], nil
}

// targetPeople are those whom a request is about: whom it names, or who asks. The
// operator of this machine asks about everybody.
func (s *Service) targetPeople(ctx context.Context, c Caller, name string) ([]store.Person, error) {
	all := s.Hub.Store.People
	switch {
	case name != "":
		p, err := all.ByName(ctx, name)
		switch {
		case err != nil && !errors.Is(err, store.ErrNotFound):
			return nil, err
		case !c.Admin && (err != nil || p.ID != c.Person):
			return nil, Fail(Refused, sayUpstreamOthers)
		case err != nil:
			return nil, Fail(Missing, sayUpstreamNobody, name)
		}
		return []store.Person{p}, nil
	case c.Person == "":
		return all.All(ctx)
	}
	p, err := all.ByID(ctx, c.Person)
	return []store.Person{p}, err
}

// CheckNewUpstream looks at a server before it is added.
func (s *Service) CheckNewUpstream(ctx context.Context, c Caller, in NewUpstream) (UpstreamFound, error) {
	owner, u, err := s.draft(ctx, c, in)
	if err != nil {
		return UpstreamFound{}, err
	}
	return s.look(ctx, c, owner, u, in.Settings)
}

func (s *Service) look(ctx context.Context, c Caller, owner store.Person, u store.Upstream,
	set map[string]json.RawMessage) (UpstreamFound, error) {
	if u.Kind != KindServer {
		return UpstreamFound{}, Fail(Invalid, sayUpstreamNoCheck)
	}
	f, err := s.Upstreams.Check(ctx, owner, u, set)
	f.Problem, f.Notice = f.Message.In(c.Lang), droppedSettingsNotice(c.Lang, f.Dropped)
	if err != nil || f.Cause == "" {
		return f, err
	}
	deep, err := s.canSeeMachine(ctx, c)
	if !deep {
		f.Cause = ""
	}
	return f, err
}

// AddUpstream adds an upstream. A server is looked at first, and not added if it is in
// trouble, unless that was asked for.
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
		if f.Problem != "" {
			return AddedUpstream{}, Fail(Away, sayUpstreamNothing, f.Problem)
		}
		out.Found = &f
	}
	saved, err := s.Upstreams.Save(ctx, owner, u, in.Settings)
	if err != nil {
		if errors.Is(err, store.ErrExists) {
			err = Fail(Conflict, sayUpstreamTaken, in.Name)
		}
		return AddedUpstream{}, err
	}
	out.ID, out.Token = saved.Number, saved.Token
	s.RecordAdminEvent(ctx, c, EventUpstreamAdded, aboutUpstream(saved.Upstream, settingNames(in.Settings)...))
	s.toolsChanged(ctx)
	return out, nil
}

// toolsChanged has all instances take up now what was changed, and returns those that did
// not confirm it in time. What fails is tried again by itself.
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
	Upstream int64                      `path:"upstream" json:"-"`
	Settings map[string]json.RawMessage `json:"settings"`
}

// changeable finds an upstream that the caller may give such settings.
func (s *Service) changeable(ctx context.Context, c Caller, number int64,
	set map[string]json.RawMessage) (owner store.Person, u store.Upstream, err error) {
	if u, err = s.upstream(ctx, c, number); err != nil {
		return owner, u, err
	}
	if err := requireUnrestrictedKey(c); err != nil {
		return owner, u, err
	}
	if owner, err = s.Hub.Store.People.ByID(ctx, u.Owner); err != nil {
		return owner, u, err
	}
	for _, name := range []string{"command", "args", "env", "dir"} {
		if err := commands(c, owner, map[string]json.RawMessage{"command": set[name]}); err != nil {
			return owner, u, err
		}
	}
	return owner, u, nil
}

// ChangeUpstream changes settings of an upstream, which is connected anew.
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
	d, err := s.ShowUpstream(ctx, c, UpstreamRef{in.Upstream})
	d.Dropped, d.Notice = saved.Dropped, droppedSettingsNotice(c.Lang, saved.Dropped)
	return d, err
}

// CheckUpstream looks at a server that was added, with changed settings if any are
// given.
func (s *Service) CheckUpstream(ctx context.Context, c Caller, in UpstreamChange) (UpstreamFound, error) {
	owner, u, err := s.changeable(ctx, c, in.Upstream, in.Settings)
	if err != nil {
		return UpstreamFound{}, err
	}
	return s.look(ctx, c, owner, u, in.Settings)
}

// RotatedUpstream is the new token of an upstream. It is not shown again.
type RotatedUpstream struct {
	ID    int64  `json:"id"`
	Name  string `json:"name"`
	Token string `json:"token"`
}

// RotateUpstream gives an upstream that connects to us a new token. Whoever has the old
// one is cut off.
func (s *Service) RotateUpstream(ctx context.Context, c Caller, in UpstreamRef) (RotatedUpstream, error) {
	_, u, err := s.changeable(ctx, c, in.Upstream, nil)
	if err != nil {
		return RotatedUpstream{}, err
	}
	if u.TokenHash == "" {
		return RotatedUpstream{}, Fail(Invalid, sayUpstreamNoToken)
	}
	token, err := s.Upstreams.Rotate(ctx, u)
	if err != nil {
		return RotatedUpstream{}, err
	}
	s.RecordAdminEvent(ctx, c, EventUpstreamToken, aboutUpstream(u))
	s.toolsChanged(ctx)
	return RotatedUpstream{u.Number, u.Slug, token}, nil
}

// RemoveUpstream takes an upstream out.
func (s *Service) RemoveUpstream(ctx context.Context, c Caller, in UpstreamRef) (RemovedUpstream, error) {
	_, u, err := s.changeable(ctx, c, in.Upstream, nil)
	if err != nil {
		return RemovedUpstream{}, err
	}
	err = s.Hub.Store.Upstreams.Remove(ctx, u.Number)
	if errors.Is(err, store.ErrNotFound) {
		err = Fail(Missing, sayUpstreamMissing)
	}
	if err != nil {
		return RemovedUpstream{}, err
	}
	s.RecordAdminEvent(ctx, c, EventUpstreamRemoved, aboutUpstream(u))
	s.toolsChanged(ctx)
	return RemovedUpstream{u.Number, u.Slug, true}, nil
}

// aboutUpstream names an upstream in the journal, and which settings are meant; not what
// they are, which can be secret.
func aboutUpstream(u store.Upstream, settings ...string) string {
	return aboutSettings(u.Slug+" ("+u.Kind+")", settings)
}

// RemovedUpstream is an upstream that was removed.
type RemovedUpstream struct {
	ID      int64  `json:"id"`
	Name    string `json:"name"`
	Removed bool   `json:"removed"`
}

// Said are the words of an error about what was given, for whoever fills in the functions
// of [Options].
func Said(r Reason, err error) *Error { return said(r, err) }
