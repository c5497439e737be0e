package control

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"strings"
	"time"

	"patchbay/internal/account"
	"patchbay/internal/hub"
	"patchbay/internal/i18n"
	"patchbay/internal/problem"
	"patchbay/internal/store"
	"patchbay/internal/tool"
)

const (
	msgAdminLimits = i18n.Message("An administrator has no limits. Make them a member first.")
	msgPauseSelf   = i18n.Message("You cannot pause yourself; another administrator can.")
	msgQuestions   = i18n.Message("Questions in a day are a number from 0, which is no limit, to %d.")
	msgNotInvited  = i18n.Message("There is no invitation for %s.")
)

// MsgPaused tells people that their account is paused.
const MsgPaused = hub.MsgPaused

// MsgSharedOnly tells people that they may add nothing.
const MsgSharedOnly = i18n.Message("Your account uses what is shared with it. It may add no bots, tool servers, nodes, programs or keys. Whoever runs Patchbay can add them for you.")

// PersonLimits bound what a person may do.
type PersonLimits = store.PersonLimits

// maxQuestions bounds the limit of questions in a day.
const maxQuestions = 100_000

// mayAdd refuses callers who may only use what is shared with them.
func (s *Service) mayAdd(c Caller) error {
	if c.Person != "" && !c.Admin && s.Hub.LimitsOf(c.Person).SharedOnly {
		return problem.New(problem.Denied, MsgSharedOnly)
	}
	return nil
}

// checkLimits reports limits that a person of some role cannot have.
func checkLimits(role string, l store.PersonLimits) error {
	rules := hub.Rules{Allow: l.AllowTools, Deny: l.DenyTools}
	switch {
	case role == account.RoleAdmin && !l.IsZero():
		return problem.New(problem.Conflict, msgAdminLimits)
	case l.Questions < 0 || l.Questions > maxQuestions:
		return problem.New(problem.Invalid, msgQuestions, maxQuestions)
	}
	if err := rules.Validate(); err != nil {
		return problem.Wrap(problem.Invalid, err)
	}
	return nil
}

// MatchingTools returns the names of the tools of the caller and of a person that match one of some
// patterns, so that whoever writes the patterns sees what they are about. Tools that are plugged in
// later are not among them.
func (s *Service) MatchingTools(c Caller, person string, patterns []string) ([]string, error) {
	if err := admin(c); err != nil {
		return nil, err
	}
	patterns = s.originalNames(person, nil, patterns)
	var names []string
	for _, owner := range []string{c.Person, person} {
		list, err := s.Hub.Inventory(owner, "")
		if err != nil {
			return nil, err
		}
		for _, l := range list {
			if tool.MatchAny(patterns, l.OriginalName()) {
				names = append(names, l.OriginalName())
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

// sameLimits reports whether limits are alike, whatever the order of their patterns.
func sameLimits(a, b store.PersonLimits) bool {
	for _, list := range []*[]string{&a.AllowTools, &a.DenyTools, &b.AllowTools, &b.DenyTools} {
		*list = slices.Sorted(slices.Values(*list))
	}
	return reflect.DeepEqual(a, b)
}

// setLimits sets what a person may do.
func (s *Service) setLimits(ctx context.Context, c Caller, p store.Person, l store.PersonLimits) error {
	l.AllowTools, l.DenyTools = s.originalNames(p.ID, p.Limits.AllowTools, l.AllowTools),
		s.originalNames(p.ID, p.Limits.DenyTools, l.DenyTools)
	if err := checkLimits(p.Role, l); err != nil {
		return err
	}
	if sameLimits(l, p.Limits) {
		return nil
	}
	if err := s.Hub.Store.People.SetLimits(ctx, p.ID, l); err != nil {
		return err
	}
	s.toolsChanged(ctx)
	s.RecordAdminEvent(ctx, c, EventPersonLimits, p.Name)
	return nil
}

// setPaused pauses an account, or resumes it.
func (s *Service) setPaused(ctx context.Context, c Caller, p store.Person, paused bool) error {
	event, since := EventPersonResumed, time.Time{}
	if paused {
		event, since = EventPersonPaused, time.Now()
		if p.ID == c.Person {
			return problem.New(problem.Conflict, msgPauseSelf)
		}
	}
	if err := aboutPerson(s.Accounts.SetPaused(ctx, p.ID, since)); err != nil {
		return err
	}
	s.toolsChanged(ctx)
	s.RecordAdminEvent(ctx, c, event, p.Name)
	return nil
}

// PersonInvitation is a link with which a person chooses a password. It can be used once.
type PersonInvitation struct {
	// Path is that of the link, and URL the whole link, if the server knows its public address.
	// Both are secret, and returned only here.
	Path    string    `json:"path"`
	URL     string    `json:"url,omitempty"`
	Expires time.Time `json:"expires_at"`
}

// WelcomePath is the path of the page on which an invited person chooses a password, before the
// secret.
const WelcomePath = "/welcome/"

// InvitePerson makes the link with which a person chooses a password, in place of an earlier one.
// For somebody who has a password it replaces a forgotten one.
func (s *Service) InvitePerson(ctx context.Context, c Caller, in PersonRef) (PersonInvitation, error) {
	if err := requireUnrestrictedAdmin(c); err != nil {
		return PersonInvitation{}, err
	}
	if err := checkLifetime(c); err != nil {
		return PersonInvitation{}, err
	}
	p, err := s.Hub.Store.People.ByID(ctx, in.Person)
	if err != nil {
		return PersonInvitation{}, aboutPerson(err)
	}
	return s.invite(ctx, c, p)
}

func (s *Service) invite(ctx context.Context, c Caller, p store.Person) (PersonInvitation, error) {
	secret, i, err := s.Accounts.InvitePerson(ctx, p.ID, c.Person)
	if err != nil {
		return PersonInvitation{}, err
	}
	s.RecordAdminEvent(ctx, c, EventPersonInvited, p.Name)
	out := PersonInvitation{Path: WelcomePath + secret, Expires: i.Expires}
	if s.PublicURL != "" {
		out.URL = strings.TrimSuffix(s.PublicURL, "/") + out.Path
	}
	return out, nil
}

// WithdrawInvitation makes the link of a person useless.
func (s *Service) WithdrawInvitation(ctx context.Context, c Caller, in PersonRef) (Done, error) {
	if err := requireUnrestrictedAdmin(c); err != nil {
		return Done{}, err
	}
	p, err := s.Hub.Store.People.ByID(ctx, in.Person)
	if err != nil {
		return Done{}, aboutPerson(err)
	}
	switch err := s.Hub.Store.Invitations.Withdraw(ctx, p.ID); {
	case errors.Is(err, store.ErrNotFound):
		return Done{}, problem.New(problem.NotFound, msgNotInvited, p.Name)
	case err != nil:
		return Done{}, err
	}
	s.RecordAdminEvent(ctx, c, EventPersonUninvited, p.Name)
	return Done{true}, nil
}
