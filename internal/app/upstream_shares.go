package app

import (
	"context"

	"patchbay/internal/control"
	"patchbay/internal/i18n"
	"patchbay/internal/plug/mcp/upstream"
	"patchbay/internal/plug/mcp/upstream/signin"
	"patchbay/internal/problem"
	"patchbay/internal/store"
)

// sharing is who has connections to the upstreams of others.
type sharing struct {
	told    map[int64]int64 // of the owner's sign-in
	members map[int64][]store.UpstreamConnection
	// taken are the names that a person's tools begin with: own upstreams come first, then those
	// that were added first.
	taken map[sharedName]bool
}

type sharedName struct{ person, slug string }

func newSharing(rows []store.Upstream, connections []store.UpstreamConnection) *sharing {
	s := &sharing{told: map[int64]int64{}, members: map[int64][]store.UpstreamConnection{},
		taken: map[sharedName]bool{}}
	for _, u := range rows {
		s.taken[sharedName{u.Owner, u.Slug}] = true
	}
	for _, c := range connections {
		if c.Member {
			s.members[c.Upstream] = append(s.members[c.Upstream], c)
		} else {
			s.told[c.Upstream] = c.Told
		}
	}
	return s
}

// specs returns the connections of others to an upstream, whose owner's is of. It is called in the
// order in which the upstreams were added.
func (s *sharing) specs(u store.Upstream, of upstream.Spec) (out []upstream.Spec) {
	if !canShare(u, &of.Settings) {
		return nil
	}
	for _, c := range s.members[u.Number] {
		name := sharedName{c.Person, u.Slug}
		if s.taken[name] {
			continue
		}
		s.taken[name] = true
		m := of
		m.ID, m.Owner, m.SharedBy, m.SignIns = providerIDFor(u, c.Person), c.Person, u.Owner, c.Told
		out = append(out, m)
	}
	return out
}

// canShare reports whether each person can sign in to an upstream alone. With any other
// credentials, all would be its owner there.
func canShare(u store.Upstream, s *upstream.Settings) bool {
	return u.Kind == UpstreamMCP && signin.CanSignIn(s) && !s.IsMachine() && !s.MayHoldSecret()
}

const msgNotShareable = i18n.Message("Each person signs in to a shared tool server alone, so it has to be an MCP server with a web address that people sign in to, without a token, oauth_grant, a query in its address, or headers that may hold a secret. With any of these, all would act as its owner there.")

// shareable returns an error unless an upstream with these settings can be shared.
func shareable(u store.Upstream, s UpstreamSettings) error {
	if m, ok := s.(*upstream.Settings); ok && canShare(u, m) {
		return nil
	}
	return control.InputProblem(problem.Invalid, msgNotShareable.Errorf())
}

// keepsShared returns an error if an upstream is shared, and could not be with changed settings.
func (b *Base) keepsShared(ctx context.Context, u store.Upstream, s UpstreamSettings) error {
	shares, err := b.Store.Upstreams.Shares(ctx)
	if err != nil || !u.Everybody && len(shares[u.Number]) == 0 {
		return err
	}
	return shareable(u, s)
}
