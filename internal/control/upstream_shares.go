package control

import (
	"context"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"patchbay/internal/account"
	"patchbay/internal/i18n"
	"patchbay/internal/problem"
	"patchbay/internal/store"
)

const (
	msgShareOwner   = i18n.Message("Only a tool server that belongs to an administrator can be shared.")
	msgShareBoth    = i18n.Message("Share it with everybody, or name people; not both.")
	msgShareSelf    = i18n.Message("%s owns it, and need not be named.")
	msgShareMost    = i18n.Message("%d people can be named at most; share it with everybody instead.")
	msgSharedTaken  = i18n.Message("A tool server called %s is shared with you already; choose another name.")
	msgSharedHidden = i18n.Message("You have another tool server called %s, which is used instead of this one. Remove yours to use this one.")
	msgOwnSignIn    = i18n.Message("Each person signs in alone, so only %s can do that.")
)

// maxShares limits the people with whom an upstream or a bot is shared by name: they are in events
// and lists.
const maxShares = 200

// UpstreamShared is with whom an upstream is shared.
type UpstreamShared struct {
	Everybody bool     `json:"everybody"`
	Users     []string `json:"users,omitempty"` // names
	// SignedIn is how many of them have signed in.
	SignedIn int `json:"signed_in"`
}

// sharedWith returns with whom an upstream is shared; nil: with nobody.
func sharedWith(u store.Upstream, v *upstreamView) *UpstreamShared {
	if !u.Everybody && len(v.shares[u.Number]) == 0 {
		return nil
	}
	out := &UpstreamShared{Everybody: u.Everybody, SignedIn: v.signedIn[u.Number]}
	for _, id := range v.shares[u.Number] {
		out.Users = append(out.Users, v.people[id])
	}
	slices.Sort(out.Users)
	return out
}

// seenUpstream is an upstream as a caller sees it.
type seenUpstream struct {
	store.Upstream
	person string // whose connection and sign-in it is about
	full   bool   // the caller sees and changes all of it, as its owner or an admin
	// isHidden means that the person has another one of that name, which is used.
	isHidden bool
}

// isMember reports whether it is about somebody with whom the upstream is shared.
func (u *seenUpstream) isMember() bool { return u.person != u.Owner }

// provider returns the id under which its tools are offered.
func (u *seenUpstream) provider() string {
	id := "upstream:" + strconv.FormatInt(u.Number, 10)
	if u.isMember() {
		id += ":" + u.person
	}
	return id
}

// upstreamsSeen lists a person's upstreams, then those that are shared with the person; for an
// empty person all, of which those that are shared with the caller are about the caller.
func (s *Service) upstreamsSeen(ctx context.Context, c Caller, person string) ([]seenUpstream, error) {
	all := s.Hub.Store.Upstreams
	own, err := all.ByOwner(ctx, person)
	if err != nil {
		return nil, err
	}
	member := person
	if member == "" {
		member = c.Person
	}
	shared, err := all.SharedWith(ctx, member)
	if err != nil {
		return nil, err
	}
	taken, of := map[string]bool{}, map[int64]int{}
	var out []seenUpstream
	for _, u := range own {
		taken[u.Slug] = taken[u.Slug] || u.Owner == member
		of[u.Number] = len(out)
		out = append(out, seenUpstream{Upstream: u, person: u.Owner, full: c.Admin || u.Owner == c.Person})
	}
	for _, u := range shared {
		v := seenUpstream{Upstream: u, person: member, full: c.Admin, isHidden: taken[u.Slug]}
		taken[u.Slug] = true
		if i, ok := of[u.Number]; ok {
			out[i] = v
		} else {
			out = append(out, v)
		}
	}
	return out, nil
}

// seenUpstream returns an upstream of the caller, or one that is shared with the caller. User names
// whose sign-in is meant.
func (s *Service) seenUpstream(ctx context.Context, c Caller, number int64, user string) (seenUpstream, error) {
	whose := c.Owner()
	if user != "" {
		p, err := s.singlePerson(ctx, c, user)
		if err != nil {
			return seenUpstream{}, err
		}
		whose = p.ID
	}
	list, err := s.upstreamsSeen(ctx, c, whose)
	if err != nil {
		return seenUpstream{}, err
	}
	for _, u := range list {
		if u.Number == number {
			return u, nil
		}
	}
	return seenUpstream{}, problem.New(problem.NotFound, msgUpstreamMissing)
}

// ownSignIn is seenUpstream for who signs in. Nobody signs in as another person with whom an
// upstream is shared, except the operator of this machine.
func (s *Service) ownSignIn(ctx context.Context, c Caller, number int64, user string) (seenUpstream, error) {
	if err := requireUnrestrictedKey(c); err != nil {
		return seenUpstream{}, err
	}
	u, err := s.seenUpstream(ctx, c, number, user)
	if err != nil || !u.isMember() || c.Person == "" || c.Person == u.person {
		return u, err
	}
	people, err := s.names(ctx)
	if err != nil {
		return u, err
	}
	return u, problem.New(problem.Denied, msgOwnSignIn, people[u.person])
}

// hostOf returns the host of an address: its path may hold a secret.
func hostOf(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	return u.Host
}

// UpstreamSharing says with whom an upstream is to be shared: with everybody, with some people, or
// with nobody.
type UpstreamSharing struct {
	Upstream int64 `path:"upstream" json:"-"`
	Sharing
}

// ShareUpstream shares an upstream: each person signs in to it alone, and calls it with that
// sign-in.
func (s *Service) ShareUpstream(ctx context.Context, c Caller, in UpstreamSharing) (UpstreamDetail, error) {
	if err := requireUnrestrictedAdmin(c); err != nil {
		return UpstreamDetail{}, err
	}
	owner, u, err := s.changeable(ctx, c, in.Upstream, nil)
	if err != nil {
		return UpstreamDetail{}, err
	}
	ids, about, err := s.shareTargets(ctx, c, owner, in.Sharing)
	if err != nil {
		return UpstreamDetail{}, err
	}
	event := EventUpstreamUnshared
	if about != "" {
		event = EventUpstreamShared
		if owner.Role != account.RoleAdmin {
			return UpstreamDetail{}, problem.New(problem.Denied, msgShareOwner)
		}
		if err := s.Upstreams.Shareable(u); err != nil {
			return UpstreamDetail{}, err
		}
	}
	if err := s.Hub.Store.Upstreams.Share(ctx, u.Number, in.Everybody, ids); err != nil {
		return UpstreamDetail{}, err
	}
	s.RecordAdminEvent(ctx, c, event, aboutUpstream(u)+about)
	s.toolsChanged(ctx)
	return s.ShowUpstream(ctx, c, UpstreamOf{Upstream: u.Number})
}

// shareTargets returns the ids of the people with whom somebody's upstream or bot is to be shared,
// and describes that for an event; an empty text means nobody.
func (s *Service) shareTargets(ctx context.Context, c Caller, owner store.Person,
	in Sharing) (ids []string, about string, err error) {
	switch {
	case in.Everybody && len(in.Users) > 0:
		return nil, "", problem.New(problem.Invalid, msgShareBoth)
	case in.Everybody:
		return nil, ": *", nil
	case len(in.Users) > maxShares:
		return nil, "", problem.New(problem.Invalid, msgShareMost, maxShares)
	}
	var names []string
	for _, name := range in.Users {
		p, err := s.singlePerson(ctx, c, name)
		switch {
		case name == "":
			return nil, "", problem.New(problem.NotFound, msgNoUser, name)
		case err != nil:
			return nil, "", err
		case p.ID == owner.ID:
			return nil, "", problem.New(problem.Invalid, msgShareSelf, p.Name)
		case !slices.Contains(ids, p.ID):
			ids, names = append(ids, p.ID), append(names, p.Name)
		}
	}
	if len(names) > 0 {
		about = ": " + strings.Join(names, ", ")
	}
	return ids, about, nil
}
