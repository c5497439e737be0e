package account

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"time"
	"unicode"

	"patchbay/internal/seal"
	"patchbay/internal/store"
)

const (
	// RoundLife is how long a person may take to sign in at an OpenID provider.
	RoundLife = 10 * time.Minute
	// roundsOfAddress bounds the rows that browsers of an address make; the oldest are dropped.
	roundsOfAddress = 50
	// maxLinked bounds the links of one person.
	maxLinked = 10
	// namesTried is how many names with numbers are tried for a new account.
	namesTried = 50
)

// Purposes of a [store.OIDCRound].
const (
	RoundSignIn  = "sign_in"
	RoundConfirm = "confirm" // a person who is signed in proves again who they are
	RoundLink    = "link"    // a person who is signed in links the person of the provider
)

// Reasons why a visit to the provider has no effect.
var (
	ErrRoundUnknown = errors.New("the sign-in was finished already, or was never begun")
	ErrRoundExpired = errors.New("the sign-in has taken too long")
	ErrRoundBrowser = errors.New("the sign-in was begun in another browser")
	// ErrLinkedToOther means that a person of the provider is linked to somebody else here.
	ErrLinkedToOther = errors.New("somebody else is linked to it")
	// ErrLinkedMany means that a person has too many links.
	ErrLinkedMany = errors.New("too many links")
	// ErrNotSetUp means that no account can be opened before the first one.
	ErrNotSetUp = errors.New("the installation is not set up")
)

// BeginRound stores that a browser, with what it keeps, goes to the provider with a state.
func (s *Service) BeginRound(ctx context.Context, r store.OIDCRound, state, browser string) error {
	r.ID, r.Browser, r.Expires = seal.Hash(state), seal.Hash(browser), r.Created.Add(RoundLife)
	if a, err := netip.ParseAddr(r.Address); err == nil {
		r.Address = network(a).String()
	}
	if err := s.db.Linked.AddRound(ctx, r, roundsOfAddress); err != nil {
		return fmt.Errorf("keep a round: %w", err)
	}
	return nil
}

// TakeRound returns what a browser has begun with a state, once. The error is [ErrRoundUnknown],
// [ErrRoundExpired], or [ErrRoundBrowser], which leaves it to its own browser.
func (s *Service) TakeRound(ctx context.Context, state, browser string) (store.OIDCRound, error) {
	r, err := s.db.Linked.Round(ctx, seal.Hash(state))
	switch {
	case errors.Is(err, store.ErrNotFound):
		return r, ErrRoundUnknown
	case err != nil:
		return r, fmt.Errorf("look up a round: %w", err)
	case browser == "" || seal.Hash(browser) != r.Browser:
		return store.OIDCRound{}, ErrRoundBrowser
	}
	switch err := s.db.Linked.TakeRound(ctx, r.ID); {
	case errors.Is(err, store.ErrNotFound):
		return store.OIDCRound{}, ErrRoundUnknown
	case err != nil:
		return store.OIDCRound{}, fmt.Errorf("take a round: %w", err)
	case !s.now().Before(r.Expires):
		return r, ErrRoundExpired
	}
	return r, nil
}

// LinkedPerson returns who a person of the provider is here, and notes that they came. The error is
// [store.ErrNotFound] if they are nobody here.
func (s *Service) LinkedPerson(ctx context.Context, l store.Linked) (store.Person, error) {
	found, err := s.db.Linked.Get(ctx, l.Issuer, l.Subject)
	if err != nil {
		return store.Person{}, err
	}
	l.Used = s.now()
	if err := s.db.Linked.MarkUsed(ctx, l); err != nil && !errors.Is(err, store.ErrNotFound) {
		return store.Person{}, err
	}
	return s.db.People.ByID(ctx, found.Person)
}

// Link links a person of the provider to l.Person. The error is [ErrLinkedToOther] or
// [ErrLinkedMany].
func (s *Service) Link(ctx context.Context, l store.Linked) error {
	l.Created = s.now()
	l.Used = l.Created
	err := s.db.Linked.Add(ctx, l, maxLinked)
	switch {
	case errors.Is(err, store.ErrLast):
		return ErrLinkedMany
	case errors.Is(err, store.ErrExists):
		if found, err := s.db.Linked.Get(ctx, l.Issuer, l.Subject); err == nil && found.Person == l.Person {
			return nil
		}
		return ErrLinkedToOther
	}
	return err
}

// AddLinkedPerson opens an account for a person of the provider, as a member without a password.
// Wanted are names for it, the best first. The error is [ErrNotSetUp] if there is no account yet,
// as the first one may do everything, and [store.ErrExists] if somebody has just done the same.
func (s *Service) AddLinkedPerson(ctx context.Context, l store.Linked, wanted []string,
	lang string) (store.Person, error) {
	p := store.Person{Role: RoleMember, Lang: lang, ID: newID(), Created: s.now()}
	l.Created, l.Used = p.Created, p.Created
	err := s.db.Linked.AddPerson(ctx, &p, l, func(others []store.Person) error {
		if len(others) == 0 {
			return ErrNotSetUp
		}
		p.Name = freeName(p, wanted, others)
		return looksAlike(p, others)
	})
	if err != nil {
		return store.Person{}, err
	}
	return p, nil
}

// freeName returns the first name that nobody has, with a number if need be.
func freeName(p store.Person, wanted []string, others []store.Person) string {
	base := "member"
	for i := len(wanted) - 1; i >= 0; i-- {
		if name := tidyName(wanted[i]); CheckName(name) == nil {
			base = name
		}
	}
	p.Name = base
	for n := 2; looksAlike(p, others) != nil && n < namesTried; n++ {
		p.Name = fmt.Sprintf("%s %d", base, n)
	}
	if looksAlike(p, others) != nil {
		p.Name = base + " " + seal.NewToken(6)
	}
	return p.Name
}

// tidyName makes a name of the provider one that may be chosen here: visible and not too long.
func tidyName(name string) string {
	const most = 50 // characters, so that a number has place
	name = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || unicode.Is(unicode.Cf, r) || r == unicode.ReplacementChar {
			return -1
		}
		return r
	}, name)
	if runes := []rune(strings.TrimSpace(name)); len(runes) > most {
		name = string(runes[:most])
	}
	return strings.TrimSpace(name)
}

// Linked lists the links of a person; of everybody for an empty person.
func (s *Service) Linked(ctx context.Context, person string) ([]store.Linked, error) {
	return s.db.Linked.List(ctx, person)
}

// IsLinked reports whether a person can prove at a provider who they are.
func (s *Service) IsLinked(ctx context.Context, person, issuer string) (bool, error) {
	return s.db.Linked.Has(ctx, person, issuer)
}

// Unlink removes a link.
func (s *Service) Unlink(ctx context.Context, l store.Linked) error {
	return s.db.Linked.Remove(ctx, l.Issuer, l.Subject)
}

// ConfirmLinked is [Service.Confirm] for a person who has just proved at the provider who they are.
// The error is [ErrPassword] if the person of the provider is somebody else here, or nobody.
func (s *Service) ConfirmLinked(ctx context.Context, x SignedIn, l store.Linked) (token string, err error) {
	p, err := s.LinkedPerson(ctx, l)
	if errors.Is(err, store.ErrNotFound) || err == nil && p.ID != x.Person.ID {
		return "", ErrPassword
	}
	if err != nil {
		return "", err
	}
	return s.confirmed(ctx, x)
}
