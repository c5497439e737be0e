package account

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"patchbay/internal/i18n"
	"patchbay/internal/seal"
	"patchbay/internal/store"
)

// Reasons why a person is not changed.
var (
	// ErrLastAdmin means that the change would leave the installation without an administrator.
	ErrLastAdmin = i18n.Message("somebody has to run this installation, and there would be nobody").Errorf()
	// ErrPersonName means that another person has the name; see [ErrNameAlike] for names that only
	// look like it.
	ErrPersonName = i18n.Message("the name is taken").Errorf()
	// ErrZone means that a time zone is unknown.
	ErrZone = i18n.Message("there is no such time zone; they are called Europe/Berlin or Asia/Shanghai").Errorf()
)

// Reasons why a chosen name or password is invalid.
var (
	ErrNameEmpty     = i18n.Message("a name cannot be empty").Errorf()
	ErrNameLong      = i18n.Message("a name may have 60 characters at most").Errorf()
	ErrNameControl   = i18n.Message("a name cannot have control characters").Errorf()
	ErrPasswordEmpty = i18n.Message("a password cannot be empty").Errorf()
	ErrPasswordShort = i18n.Message("a password needs at least 8 characters").Errorf()
	ErrPasswordLong  = i18n.Message("a password may have 1,024 bytes at most").Errorf()
)

// SetProfile replaces a person's name, language and time zone. The error is [ErrPersonName],
// [ErrNameAlike], [ErrZone], or one of [CheckName].
func (s *Service) SetProfile(ctx context.Context, p store.Person) error {
	p.Name, p.Zone = strings.TrimSpace(p.Name), strings.TrimSpace(p.Zone)
	if err := CheckName(p.Name); err != nil {
		return err
	}
	if p.Zone != "" && !isZone(p.Zone) {
		return ErrZone
	}
	err := s.db.People.SetProfile(ctx, p, func(others []store.Person) error { return looksAlike(p, others) })
	if errors.Is(err, store.ErrExists) {
		return ErrPersonName
	}
	return err
}

// isZone reports whether a time zone has a name. Go accepts "Local", but it means a different zone
// on each machine.
func isZone(name string) bool {
	_, err := time.LoadLocation(name)
	return err == nil && name != "Local"
}

// SetRole changes a person's role. For the last admin the error is [ErrLastAdmin].
func (s *Service) SetRole(ctx context.Context, person, role string) error {
	if role != RoleAdmin && role != RoleMember {
		return msgRole.Errorf(RoleAdmin, RoleMember, role)
	}
	err := s.db.People.SetRole(ctx, person, role, RoleAdmin)
	if errors.Is(err, store.ErrLast) {
		return ErrLastAdmin
	}
	return err
}

// SetPaused pauses an account since a time: the person, their programs and devices are refused. The
// zero time resumes it. For the last admin who is not paused the error is [ErrLastAdmin].
func (s *Service) SetPaused(ctx context.Context, person string, since time.Time) error {
	err := s.db.People.SetPaused(ctx, person, since, RoleAdmin)
	if errors.Is(err, store.ErrLast) {
		return ErrLastAdmin
	}
	return err
}

// RemovePerson deletes a person and all of their data. For the last admin the error is
// [ErrLastAdmin].
func (s *Service) RemovePerson(ctx context.Context, person string) error {
	err := s.db.People.Remove(ctx, person, RoleAdmin)
	if errors.Is(err, store.ErrLast) {
		return ErrLastAdmin
	}
	return err
}

// ChangePassword replaces a person's password after checking the previous one, and ends all
// sign-ins except the one with the id in but, whose browser gets a new token, and the access of
// programs as [Service.SignOutOthers] does; an empty but ends all sign-ins. The
// error is [ErrPassword], [ErrTries], [ErrBusy], or one of [CheckPassword].
func (s *Service) ChangePassword(ctx context.Context, person, before, password, but string) (token string, err error) {
	p, err := s.db.People.ByID(ctx, person)
	if err != nil {
		return "", err
	}
	if err := CheckPassword(password); err != nil {
		return "", err
	}
	if err := s.checkAgain(ctx, p, before); err != nil {
		return "", err
	}
	hash, err := s.hashPassword(ctx, password)
	if err != nil {
		return "", err
	}
	if err := s.db.People.SetPassword(ctx, person, hash); err != nil {
		return "", err
	}
	if but != "" {
		token = seal.NewToken(32)
		switch err := s.db.SignIns.Rename(ctx, but, seal.Hash(token)); {
		case errors.Is(err, store.ErrNotFound): // it has ended in the meantime
			but, token = "", ""
		case err != nil:
			return "", fmt.Errorf("keep a sign-in: %w", err)
		default:
			but = seal.Hash(token)
		}
	}
	return token, s.SignOutOthers(ctx, person, but)
}

// SignIns lists the browsers in which a person is signed in.
func (s *Service) SignIns(ctx context.Context, person string) ([]store.SignIn, error) {
	list, err := s.db.SignIns.ByPerson(ctx, person)
	now, n := s.now(), 0
	for _, x := range list {
		if now.Sub(x.Seen) < store.SignInIdle && now.Sub(x.Created) < SignInLife {
			list[n], n = x, n+1
		}
	}
	return list[:n], err
}
