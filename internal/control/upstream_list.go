package control

import (
	"context"
	"slices"

	"patchbay/internal/account"
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
	rows, err := s.Hub.Store.Upstreams.ByOwner(ctx, whose)
	if err != nil {
		return UpstreamList{}, err
	}
	people, err := s.names(ctx)
	if err != nil {
		return UpstreamList{}, err
	}
	deep, err := s.canSeeMachine(ctx, c)
	if err != nil {
		return UpstreamList{}, err
	}
	out := UpstreamList{Upstreams: make([]Upstream, len(rows))}
	for i, u := range rows {
		out.Upstreams[i] = s.upstreamRow(c, u, people, deep)
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

// upstreamRow returns an upstream for its owner. Deep adds details of this machine and its network.
func (s *Service) upstreamRow(c Caller, u store.Upstream, people map[string]string, deep bool) Upstream {
	var h UpstreamHealth
	if s.Upstream != nil {
		h = s.Upstream(u)
	}
	if !deep {
		h.Cause, h.Stderr = "", nil
	}
	for j := range h.Nodes {
		h.Nodes[j].Problem = h.Nodes[j].Message.In(c.Lang)
	}
	return Upstream{Upstream: u, OwnerName: people[u.Owner], UpstreamHealth: h, Problem: h.Problem.In(c.Lang)}
}

// UpstreamsOf lists a page of the caller's upstreams of some kinds, and reports whether more
// follow.
func (s *Service) UpstreamsOf(ctx context.Context, c Caller, after int64, limit int,
	kinds ...string) (page []Upstream, more bool, err error) {
	rows, err := s.Hub.Store.Upstreams.ByOwner(ctx, c.Owner())
	if err != nil {
		return nil, false, err
	}
	deep, err := s.canSeeMachine(ctx, c)
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
		page = append(page, s.upstreamRow(c, u, nil, deep))
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

// ShowUpstream returns one upstream with its settings, secrets masked.
func (s *Service) ShowUpstream(ctx context.Context, c Caller, in UpstreamRef) (UpstreamDetail, error) {
	u, err := s.upstream(ctx, c, in.Upstream)
	if err != nil {
		return UpstreamDetail{}, err
	}
	people, err := s.names(ctx)
	if err != nil {
		return UpstreamDetail{}, err
	}
	deep, err := s.canSeeMachine(ctx, c)
	if err != nil {
		return UpstreamDetail{}, err
	}
	d := UpstreamDetail{Upstream: s.upstreamRow(c, u, people, deep)}
	if d.Settings, err = s.Upstreams.Shown(u); err != nil {
		// An upstream whose settings cannot be read can still be shown and removed.
		s.Logger.WarnContext(ctx, "the settings of an upstream cannot be read", "upstream", u.Slug, "error", err)
	}
	return d, nil
}
