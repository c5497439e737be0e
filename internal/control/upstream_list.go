package control

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"time"

	"patchbay/internal/account"
	"patchbay/internal/i18n"
	"patchbay/internal/problem"
	"patchbay/internal/store"
)

// UpstreamQuery selects upstreams.
type UpstreamQuery struct {
	User string `query:"user"` // a name; admins may name others
}

// ListUpstreams lists the caller's upstreams with the states of their connections.
func (s *Service) ListUpstreams(ctx context.Context, c Caller, in UpstreamQuery) (UpstreamList, error) {
	whose := c.Owner()
	if in.User != "" {
		p, err := s.singlePerson(ctx, c, in.User)
		if err != nil {
			return UpstreamList{}, err
		}
		whose = p.ID
	}
	rows, err := s.upstreamsSeen(ctx, c, whose)
	if err != nil {
		return UpstreamList{}, err
	}
	view, err := s.upstreamView(ctx, c)
	if err != nil {
		return UpstreamList{}, err
	}
	out := UpstreamList{Upstreams: make([]Upstream, len(rows))}
	for i, u := range rows {
		out.Upstreams[i] = s.upstreamRow(ctx, c, u, &view)
	}
	return out, nil
}

// UpstreamList is the response of /api/v1/upstreams.
type UpstreamList struct {
	Upstreams []Upstream `json:"upstreams"`
}

// canSeeMachine reports whether the caller may see details of this machine and its network: an
// admin, without a narrower key.
func (s *Service) canSeeMachine(ctx context.Context, c Caller) (bool, error) {
	if c.Admin || c.Key != "" {
		return c.Admin, nil
	}
	p, err := s.Hub.Store.People.ByID(ctx, c.Person)
	return p.Role == account.RoleAdmin, err
}

// upstreamView is what rows of upstreams need.
type upstreamView struct {
	people   map[string]string
	shares   map[int64][]string
	signedIn map[int64]int
	deep     bool // adds details of this machine and its network
}

func (s *Service) upstreamView(ctx context.Context, c Caller) (v upstreamView, err error) {
	if v.people, err = s.names(ctx); err != nil {
		return v, err
	}
	if v.shares, err = s.Hub.Store.Upstreams.Shares(ctx); err != nil {
		return v, err
	}
	if v.signedIn, err = s.Hub.Store.Upstreams.SignedIn(ctx); err != nil {
		return v, err
	}
	v.deep, err = s.canSeeMachine(ctx, c)
	return v, err
}

// upstreamRow returns an upstream for whoever sees it.
func (s *Service) upstreamRow(ctx context.Context, c Caller, u seenUpstream, v *upstreamView) Upstream {
	var h UpstreamHealth
	if s.Upstream != nil {
		h = s.Upstream(u.Upstream, u.person)
	}
	out := Upstream{Upstream: u.Upstream, OwnerName: v.people[u.Owner], Member: u.isMember(),
		Provider: u.provider()}
	out.isOffered = s.addSignIn(ctx, u, &h)
	if u.isHidden {
		h.State, h.NeedsSignIn, h.Problem, h.NextTry = UpstreamFailed, false, msgSharedHidden.With(u.Slug), time.Time{}
	}
	if !v.deep || !u.full {
		h.Cause, h.Stderr = "", nil
	}
	if u.full {
		out.Shared = sharedWith(u.Upstream, v)
		h.LeftOut = omitted(c, h.Omitted)
	} else {
		h.Where = hostOf(h.Where)
	}
	for j := range h.Nodes {
		h.Nodes[j].Problem = h.Nodes[j].Message.In(c.Lang)
	}
	out.UpstreamHealth, out.Problem = h, h.Problem.In(c.Lang)
	return out
}

// maxOmitted limits the operations that are listed as left out.
const maxOmitted = 50

const msgOmittedMore = i18n.Message("and %d more")

// omitted returns why operations of a document are no tools, in the caller's language.
func omitted(c Caller, list []i18n.Text) (out []string) {
	for i, t := range list {
		if i == maxOmitted {
			return append(out, msgOmittedMore.In(c.Lang, len(list)-i))
		}
		out = append(out, t.In(c.Lang))
	}
	return out
}

// UpstreamsOf lists a page of the caller's upstreams of some kinds, and of those that are shared
// with the caller, by number, and reports whether more follow.
func (s *Service) UpstreamsOf(ctx context.Context, c Caller, after int64, limit int,
	kinds ...string) (page []Upstream, more bool, err error) {
	rows, err := s.upstreamsSeen(ctx, c, c.Owner())
	if err != nil {
		return nil, false, err
	}
	slices.SortFunc(rows, func(a, b seenUpstream) int { return cmp.Compare(a.Number, b.Number) })
	view, err := s.upstreamView(ctx, c)
	if err != nil {
		return nil, false, err
	}
	for _, u := range rows {
		if u.Number <= after || !slices.Contains(kinds, u.Kind) {
			continue
		}
		if len(page) == limit {
			return page, true, nil
		}
		page = append(page, s.upstreamRow(ctx, c, u, &view))
	}
	return page, false, nil
}

// upstream returns one of the caller's upstreams.
func (s *Service) upstream(ctx context.Context, c Caller, number int64) (store.Upstream, error) {
	rows, err := s.Hub.Store.Upstreams.ByOwner(ctx, c.Owner())
	if err != nil {
		return store.Upstream{}, err
	}
	for _, u := range rows {
		if u.Number == number {
			return u, nil
		}
	}
	return store.Upstream{}, problem.New(problem.NotFound, msgUpstreamMissing)
}

// UpstreamRef identifies an upstream.
type UpstreamRef struct {
	Upstream int64 `path:"upstream" json:"-"`
}

// UpstreamOf identifies an upstream, and the person whose sign-in to it is meant; empty: the
// caller, if it is shared with the caller, else its owner. Admins may name others.
type UpstreamOf struct {
	Upstream int64  `path:"upstream" json:"-"`
	User     string `query:"user" json:"-"`
}

// ShowUpstream returns one upstream with its settings, secrets masked.
func (s *Service) ShowUpstream(ctx context.Context, c Caller, in UpstreamOf) (UpstreamDetail, error) {
	u, err := s.seenUpstream(ctx, c, in.Upstream, in.User)
	if err != nil {
		return UpstreamDetail{}, err
	}
	return s.upstreamDetail(ctx, c, u)
}

func (s *Service) upstreamDetail(ctx context.Context, c Caller, u seenUpstream) (UpstreamDetail, error) {
	view, err := s.upstreamView(ctx, c)
	if err != nil {
		return UpstreamDetail{}, err
	}
	d := UpstreamDetail{Upstream: s.upstreamRow(ctx, c, u, &view), Settings: map[string]json.RawMessage{}}
	if u.full {
		if d.Settings, err = s.Upstreams.Shown(u.Upstream); err != nil {
			// An upstream whose settings cannot be read can still be shown and removed.
			s.Logger.WarnContext(ctx, "the settings of an upstream cannot be read", "upstream", u.Slug, "error", err)
		}
	}
	if s.UpstreamSignIns.State == nil {
		return d, nil
	}
	if d.SignIn, err = s.UpstreamSignIns.State(ctx, u.Upstream, u.person); err != nil {
		s.Logger.WarnContext(ctx, "the sign-in to a tool server cannot be read", "upstream", u.Slug, "error", err)
	}
	if d.SignIn != nil {
		d.SignIn.Problem = d.SignIn.Message.In(c.Lang)
	}
	return d, nil
}
