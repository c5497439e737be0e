package account

import (
	"context"
	"errors"
	"fmt"
	"time"

	"patchbay/internal/i18n"
	"patchbay/internal/seal"
	"patchbay/internal/store"
)

// PersonInviteLife is how long an invitation to an account is valid.
const PersonInviteLife = 7 * 24 * time.Hour

// ErrNotInvited means that an invitation to an account is unknown, was used or has expired.
var ErrNotInvited = i18n.Message("this invitation is used, withdrawn or too old; ask for another one").Errorf()

// InvitePerson makes the link with which a person chooses a password, once. A previous one ends. It
// returns the secret of the link, which is not stored and cannot be shown again.
func (s *Service) InvitePerson(ctx context.Context, person, by string) (secret string, i store.Invitation, err error) {
	secret = seal.NewToken(32)
	i = store.Invitation{Person: person, Hash: seal.Hash(secret), By: by, Created: s.now()}
	i.Expires = i.Created.Add(PersonInviteLife)
	if err := s.db.Invitations.Save(ctx, i); err != nil {
		return "", i, fmt.Errorf("keep an invitation: %w", err)
	}
	return secret, i, nil
}

// InvitedPerson returns the person who is invited by a link, and the invitation. The error is
// [ErrNotInvited], [ErrPaused], or [ErrTries] after many wrong ones from one address.
func (s *Service) InvitedPerson(ctx context.Context, secret string,
	by Browser) (store.Person, store.Invitation, error) {
	giveBack, err := s.takeAddress(by)
	if err != nil {
		return store.Person{}, store.Invitation{}, err
	}
	i, err := s.db.Invitations.ByHash(ctx, seal.Hash(secret))
	if errors.Is(err, store.ErrNotFound) {
		return store.Person{}, i, ErrNotInvited
	}
	giveBack()
	if err != nil {
		return store.Person{}, i, fmt.Errorf("look up an invitation: %w", err)
	}
	if !s.now().Before(i.Expires) {
		return store.Person{}, i, ErrNotInvited
	}
	p, err := s.db.People.ByID(ctx, i.Person)
	switch {
	case errors.Is(err, store.ErrNotFound):
		err = ErrNotInvited
	case err == nil && !p.Paused.IsZero():
		err = ErrPaused
	}
	return p, i, err
}

// AcceptInvitation sets the password of the person who is invited by a link, which ends, and signs
// the browser in. The token is empty if the person has to sign in anyway, because a password is not
// enough for them. The time zone is that of the browser; it becomes the person's unless they have
// one or it is unknown. The error is as with [Service.InvitedPerson], or one of [CheckPassword].
func (s *Service) AcceptInvitation(ctx context.Context, secret, password, zone string, by Browser) (token string,
	p store.Person, err error) {
	if p, _, err = s.InvitedPerson(ctx, secret, by); err != nil {
		return "", p, err
	}
	if password == "" {
		return "", p, ErrPasswordEmpty
	}
	hash, err := s.hashPassword(ctx, password)
	if err != nil {
		return "", p, err
	}
	if !isZone(zone) {
		zone = ""
	}
	switch err := s.db.Invitations.Accept(ctx, seal.Hash(secret), hash, zone, s.now()); {
	case errors.Is(err, store.ErrNotFound): // somebody else was faster
		return "", p, ErrNotInvited
	case err != nil:
		return "", p, fmt.Errorf("accept an invitation: %w", err)
	}
	steps, err := s.SecondSteps(ctx, p.ID)
	if err != nil || steps.Any() {
		return "", p, err
	}
	token, err = s.Admit(ctx, p, by)
	return token, p, err
}
