package control

import (
	"context"
	"errors"

	"patchbay/internal/account"
	"patchbay/internal/i18n"
	"patchbay/internal/problem"
	"patchbay/internal/store"
)

const (
	msgNoSecondStep = i18n.Message("There is no authenticator app and no passkey like that.")
	msgNoSteps      = i18n.Message("%s has no second step besides the password.")
	msgWrongCode    = i18n.Message("The code is wrong. It changes every 30 seconds; the clocks of the phone and of the server have to be right.")
	msgEnrolOver    = i18n.Message("This QR code was used already, or is too old; here is a new one.")
)

// NewAuthenticator is an authenticator app that has shown its first code.
type NewAuthenticator struct {
	Sealed, Code string // see [account.Service.AddAuthenticator]
	Keep         string // the sign-in that stays confirmed
}

// RecoveryCodes replace a code of the authenticator app, each once.
type RecoveryCodes struct {
	Codes []string
}

// AddAuthenticator adds the caller's authenticator app, in place of the one before. From then on
// the password needs a code besides it.
func (s *Service) AddAuthenticator(ctx context.Context, c Caller, in NewAuthenticator) (RecoveryCodes, error) {
	p, err := s.ownPerson(ctx, c)
	if err != nil {
		return RecoveryCodes{}, err
	}
	codes, err := s.Accounts.AddAuthenticator(ctx, p, in.Keep, in.Sealed, in.Code)
	switch {
	case errors.Is(err, account.ErrCode):
		return RecoveryCodes{}, problem.New(problem.Denied, msgWrongCode)
	case errors.Is(err, account.ErrStep):
		return RecoveryCodes{}, problem.New(problem.Conflict, msgEnrolOver)
	case err != nil:
		return RecoveryCodes{}, err
	}
	s.RecordAdminEvent(ctx, c, EventAppAdded, p.Name)
	return RecoveryCodes{codes}, nil
}

// NewRecoveryCodes replaces the caller's recovery codes.
func (s *Service) NewRecoveryCodes(ctx context.Context, c Caller, _ Empty) (RecoveryCodes, error) {
	p, err := s.ownPerson(ctx, c)
	if err != nil {
		return RecoveryCodes{}, err
	}
	codes, err := s.Accounts.NewRecoveryCodes(ctx, p.ID)
	if errors.Is(err, store.ErrNotFound) {
		return RecoveryCodes{}, problem.New(problem.NotFound, msgNoSecondStep)
	}
	if err == nil {
		s.RecordAdminEvent(ctx, c, EventRecoveryCodes, p.Name)
	}
	return RecoveryCodes{codes}, err
}

// RemoveAuthenticator removes the caller's authenticator app.
func (s *Service) RemoveAuthenticator(ctx context.Context, c Caller, _ Empty) (Done, error) {
	p, err := s.ownPerson(ctx, c)
	if err != nil {
		return Done{}, err
	}
	return s.removed(ctx, c, EventAppRemoved, p.Name, s.Accounts.RemoveAuthenticator(ctx, p.ID))
}

// NewPasskey is a passkey that a browser has created; see [account.Service.AddPasskey].
type NewPasskey struct {
	Site                account.Site
	Sealed, Reply, Name string
	Keep                string // the sign-in that stays confirmed
}

// AddPasskey adds a passkey of the caller. The first one comes with recovery codes.
func (s *Service) AddPasskey(ctx context.Context, c Caller, in NewPasskey) (RecoveryCodes, error) {
	p, err := s.ownPerson(ctx, c)
	if err != nil {
		return RecoveryCodes{}, err
	}
	codes, err := s.Accounts.AddPasskey(ctx, in.Site, p, in.Keep, in.Sealed, in.Reply, in.Name)
	switch {
	case errors.Is(err, account.ErrPasskey), errors.Is(err, account.ErrPasskeyMany):
		return RecoveryCodes{}, InputProblem(problem.Denied, err)
	case errors.Is(err, account.ErrStep):
		return RecoveryCodes{}, InputProblem(problem.Conflict, err)
	case err != nil:
		return RecoveryCodes{}, err
	}
	s.RecordAdminEvent(ctx, c, EventPasskeyAdded, p.Name)
	return RecoveryCodes{codes}, nil
}

// PasskeyRef identifies a passkey of the caller.
type PasskeyRef struct{ ID string }

// RemovePasskey removes a passkey of the caller.
func (s *Service) RemovePasskey(ctx context.Context, c Caller, in PasskeyRef) (Done, error) {
	p, err := s.ownPerson(ctx, c)
	if err != nil {
		return Done{}, err
	}
	return s.removed(ctx, c, EventPasskeyRemoved, p.Name, s.Accounts.RemovePasskey(ctx, p.ID, in.ID))
}

// RemoveSecondSteps removes the authenticator app, the passkeys and the recovery codes of somebody
// who lost them. The password is enough from then on.
func (s *Service) RemoveSecondSteps(ctx context.Context, c Caller, in PersonRef) (Done, error) {
	if err := requireUnrestrictedAdmin(c); err != nil {
		return Done{}, err
	}
	p, err := s.Member(ctx, c, in)
	if err != nil {
		return Done{}, err
	}
	err = s.Accounts.RemoveSecondSteps(ctx, p.ID)
	if errors.Is(err, store.ErrNotFound) {
		return Done{}, problem.New(problem.NotFound, msgNoSteps, p.Name)
	}
	return s.removed(ctx, c, EventSecondStepsRemoved, p.Name, err)
}

// removed converts the result of a removal, and records it if it succeeded.
func (s *Service) removed(ctx context.Context, c Caller, event, name string, err error) (Done, error) {
	if errors.Is(err, store.ErrNotFound) {
		return Done{}, problem.New(problem.NotFound, msgNoSecondStep)
	}
	if err == nil {
		s.RecordAdminEvent(ctx, c, event, name)
	}
	return Done{err == nil}, err
}
