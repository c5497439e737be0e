package control

import (
	"context"
	"slices"

	"patchbay/internal/i18n"
	"patchbay/internal/problem"
	"patchbay/internal/seal"
	"patchbay/internal/store"
)

const (
	msgNoLink   = i18n.Message("There is no such link.")
	msgLastLink = i18n.Message("Without this link you could not sign in any more; an administrator can remove it.")
)

// Link is the link of an account to a person of an OpenID provider, as whom its owner may sign in.
type Link struct {
	ID         string `json:"id"`
	PersonName string `json:"user"`
	store.Linked
}

// LinkList is a list of links, the oldest first.
type LinkList struct {
	Links []Link `json:"links"`
}

// LinkQuery selects links.
type LinkQuery struct {
	User string `query:"user" json:"-"` // name; empty: the caller's, or everybody's for the operator
}

// Links lists links to people of OpenID providers.
func (s *Service) Links(ctx context.Context, c Caller, in LinkQuery) (LinkList, error) {
	if c.Only != 0 {
		return LinkList{}, problem.New(problem.Denied, msgWholeKey)
	}
	people, err := s.targetPeople(ctx, c, in.User)
	if err != nil {
		return LinkList{}, err
	}
	out := LinkList{Links: []Link{}}
	for _, p := range people {
		list, err := s.Accounts.Linked(ctx, p.ID)
		if err != nil {
			return LinkList{}, err
		}
		for _, l := range list {
			out.Links = append(out.Links, Link{linkID(l), p.Name, l})
		}
	}
	return out, nil
}

// linkID identifies a link in addresses.
func linkID(l store.Linked) string { return seal.Hash("link " + l.Issuer + "\n" + l.Subject)[:16] }

// LinkRef identifies a link.
type LinkRef struct {
	Link string `path:"link" json:"-"`
}

// RemoveLink removes a link of the caller, or for admins of anybody. Sign-ins go on.
func (s *Service) RemoveLink(ctx context.Context, c Caller, in LinkRef) (Link, error) {
	if err := requireUnrestrictedKey(c); err != nil {
		return Link{}, err
	}
	list, err := s.Accounts.Linked(ctx, c.Owner())
	if err != nil {
		return Link{}, err
	}
	i := slices.IndexFunc(list, func(l store.Linked) bool { return linkID(l) == in.Link })
	if i < 0 {
		return Link{}, problem.New(problem.NotFound, msgNoLink)
	}
	l := list[i]
	p, err := s.Hub.Store.People.ByID(ctx, l.Person)
	if err != nil {
		return Link{}, aboutPerson(err)
	}
	if p.ID == c.Person {
		if err := s.needsLink(ctx, p); err != nil {
			return Link{}, err
		}
	}
	if err := s.Accounts.Unlink(ctx, l); err != nil {
		return Link{}, err
	}
	s.RecordAdminEvent(ctx, c, EventUnlinked, p.Name+": "+l.Label)
	return Link{linkID(l), p.Name, l}, nil
}

// needsLink refuses to remove the last link of somebody who has no other way in.
func (s *Service) needsLink(ctx context.Context, p store.Person) error {
	if p.Password != "" && (s.OIDC == nil || !s.OIDC.Only) {
		return nil
	}
	if s.OIDC == nil || !s.OIDC.Only {
		if has, err := s.Accounts.HasPasskeys(ctx, p.ID); err != nil || has {
			return err
		}
	}
	list, err := s.Accounts.Linked(ctx, p.ID)
	if err == nil && len(list) < 2 {
		err = problem.New(problem.Conflict, msgLastLink)
	}
	return err
}

// isLinked reports whether a person is among links.
func isLinked(links []store.Linked, p store.Person) bool {
	return slices.ContainsFunc(links, func(l store.Linked) bool { return l.Person == p.ID })
}
