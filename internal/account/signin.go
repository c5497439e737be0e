package account

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	"patchbay/internal/i18n"
	"patchbay/internal/seal"
	"patchbay/internal/store"
)

const (
	// SignInLife is after how long every browser has to sign in again. Unused ones have to after
	// [store.SignInIdle].
	SignInLife = 180 * 24 * time.Hour
	// ConfirmLife is for how long a browser may show secrets after the password was typed.
	ConfirmLife = 10 * time.Minute
	// maxSignIns bounds the sign-ins of one person.
	maxSignIns = 50
	// maxAgent limits the User-Agent of a browser, in bytes.
	maxAgent = 200
	// seenEvery is the resolution of the last use of a browser.
	seenEvery = time.Minute
)

// Reasons why nobody is signed in.
var (
	// ErrPassword means a wrong password or an unknown name. It does not tell which of the two.
	ErrPassword = i18n.Message("the name or the password is wrong").Errorf()
	// ErrSetupCode means a wrong code for the first account.
	ErrSetupCode = i18n.Message("the setup code is wrong; the server shows it in the terminal when it starts").Errorf()
	// ErrSetUp means that the first account exists already.
	ErrSetUp = i18n.Message("this installation is set up already; sign in").Errorf()
	// ErrSignedOut means that the sign-in of a browser has ended.
	ErrSignedOut = errors.New("signed out")
)

// SetupCode returns the code that is required to open the first account: eight characters, the same
// on all instances and after a restart. It is empty once there is an account.
func (s *Service) SetupCode(ctx context.Context) (string, error) {
	people, err := s.db.People.All(ctx)
	if err != nil || len(people) > 0 {
		return "", err
	}
	return setupCode(s.box.Key()), nil
}

func setupCode(k *seal.Key) string {
	const letters = "23456789ABCDEFGHJKLMNPQRSTUVWXYZ" // 32 letters and digits, without those that look alike
	sum, err := hex.DecodeString(k.MAC("setup code"))
	if err != nil {
		panic(err) // MAC returns hex
	}
	code := make([]byte, 8)
	for i := range code {
		code[i] = letters[sum[i]%32]
	}
	return string(code[:4]) + "-" + string(code[4:])
}

// SetUp opens the first account, as an administrator. A time zone that is unknown counts as none.
// Of several concurrent calls one succeeds. The error is [ErrSetupCode], [ErrTries], [ErrBusy],
// [ErrSetUp], or states why the name or the password is invalid.
func (s *Service) SetUp(ctx context.Context, code string, p store.Person, password string,
	by Browser) (store.Person, error) {
	people, err := s.db.People.All(ctx)
	if err != nil {
		return store.Person{}, err
	}
	if len(people) > 0 {
		return store.Person{}, ErrSetUp
	}
	giveBack, err := s.takeAddress(by)
	if err != nil {
		return store.Person{}, err
	}
	plain := strings.ToUpper(strings.Map(func(r rune) rune {
		if r == '-' || r == ' ' {
			return -1
		}
		return r
	}, code))
	if !s.madeWithAnyKey(plain, func(k *seal.Key) string { return strings.ReplaceAll(setupCode(k), "-", "") }) {
		return store.Person{}, ErrSetupCode
	}
	giveBack()
	if password == "" {
		return store.Person{}, ErrPasswordEmpty
	}
	if p.Role = RoleAdmin; !isZone(p.Zone) {
		p.Zone = ""
	}
	return s.addPerson(ctx, p, password,
		func(others []store.Person) error {
			if len(others) > 0 {
				return ErrSetUp
			}
			return nil
		})
}

// Browser identifies the client of a sign-in.
type Browser struct {
	Agent   string // its User-Agent
	Address string
	Known   []string // its marks from [Service.RememberBrowser]
}

// SignIn signs a browser in if the password is correct, and returns its token, which is not stored
// here and cannot be shown again. The error is [ErrPassword] if the name or the password is wrong,
// and [ErrTries] or [ErrBusy] if the password was not checked. It is [CodeNeeded] if the password
// is correct, but a code is missing.
func (s *Service) SignIn(ctx context.Context, name, password string,
	by Browser) (token string, p store.Person, err error) {
	if p, err = s.checkSignIn(ctx, strings.TrimSpace(name), password, by); err != nil {
		return "", store.Person{}, err
	}
	if err = s.needCode(ctx, p); err != nil {
		return "", p, err
	}
	token, err = s.Admit(ctx, p, by)
	return token, p, err
}

// Admit signs a browser in without a password, for a person who has just opened an account.
func (s *Service) Admit(ctx context.Context, p store.Person, by Browser) (token string, err error) {
	return s.AdmitProved(ctx, p, by, s.now())
}

// AdmitProved is Admit for a person who proved elsewhere, at a time, who they are. With the zero
// time they have to prove it again before actions that need that. The error is [ErrPaused] if their
// account is paused.
func (s *Service) AdmitProved(ctx context.Context, p store.Person, by Browser, proved time.Time) (token string,
	err error) {
	if !p.Paused.IsZero() {
		return "", ErrPaused
	}
	token = seal.NewToken(32)
	now := s.now()
	if proved.IsZero() {
		proved = time.UnixMilli(0)
	}
	if proved.After(now) {
		proved = now
	}
	if len(by.Agent) > maxAgent {
		by.Agent = strings.ToValidUTF8(by.Agent[:maxAgent], "")
	}
	x := store.SignIn{ID: seal.Hash(token), Person: p.ID, Agent: by.Agent, Address: by.Address, Created: now, Seen: now,
		Confirmed: proved}
	if err := s.db.SignIns.Add(ctx, x, maxSignIns); err != nil {
		return "", fmt.Errorf("keep a sign-in: %w", err)
	}
	return token, nil
}

// SignedIn is a sign-in and its person.
type SignedIn struct {
	store.SignIn
	Person store.Person
}

// Fresh reports whether the password was typed within [ConfirmLife].
func (x *SignedIn) Fresh(now time.Time) bool { return now.Sub(x.Confirmed) < ConfirmLife }

// CheckSignIn returns the sign-in of a token. The error is [ErrSignedOut] if there is none.
func (s *Service) CheckSignIn(ctx context.Context, token, address string) (SignedIn, error) {
	if token == "" {
		return SignedIn{}, ErrSignedOut
	}
	x, err := s.db.SignIns.ByID(ctx, seal.Hash(token))
	if errors.Is(err, store.ErrNotFound) {
		return SignedIn{}, ErrSignedOut
	}
	if err != nil {
		return SignedIn{}, fmt.Errorf("look up a sign-in: %w", err)
	}
	now := s.now()
	if now.Sub(x.Seen) >= store.SignInIdle || now.Sub(x.Created) >= SignInLife {
		return SignedIn{}, ErrSignedOut
	}
	p, err := s.db.People.ByID(ctx, x.Person)
	if errors.Is(err, store.ErrNotFound) || err == nil && !p.Paused.IsZero() {
		return SignedIn{}, ErrSignedOut
	}
	if err != nil {
		return SignedIn{}, fmt.Errorf("look up the person of a sign-in: %w", err)
	}
	if now.Sub(x.Seen) > seenEvery {
		if err := s.db.SignIns.Seen(ctx, x.ID, address, now); err != nil && !errors.Is(err, store.ErrNotFound) {
			return SignedIn{}, fmt.Errorf("note the use of a sign-in: %w", err)
		}
	}
	return SignedIn{SignIn: x, Person: p}, nil
}

// Confirm checks the password of a signed-in person again, before actions and secrets that are not
// open to everybody who finds the browser open. A person with an authenticator app or a passkey has
// to send a code too. The browser gets a new token. The error is [ErrPassword], [ErrCode],
// [ErrTries] or [ErrBusy].
func (s *Service) Confirm(ctx context.Context, x SignedIn, password, code string) (token string, err error) {
	if err := s.checkAgain(ctx, x.Person, password); err != nil {
		return "", err
	}
	steps, err := s.SecondSteps(ctx, x.Person.ID)
	if err == nil && steps.Any() {
		err = s.checkCode(ctx, limit{"signed in code|" + x.Person.ID, triesOfCode, accountWindow}, x.Person, code)
	}
	if err != nil {
		return "", err
	}
	return s.confirmed(ctx, x)
}

// confirmed gives the browser of a person who has proved again who they are a new token.
func (s *Service) confirmed(ctx context.Context, x SignedIn) (token string, err error) {
	token = seal.NewToken(32)
	switch err := s.db.SignIns.Replace(ctx, x.ID, seal.Hash(token), s.now()); {
	case errors.Is(err, store.ErrNotFound):
		return "", ErrSignedOut
	case err != nil:
		return "", fmt.Errorf("keep a sign-in: %w", err)
	}
	return token, nil
}

// SignOut ends a sign-in. A sign-in that has ended already is no error.
func (s *Service) SignOut(ctx context.Context, person, id string) error {
	if err := s.db.SignIns.Remove(ctx, person, id); !errors.Is(err, store.ErrNotFound) {
		return err
	}
	return nil
}

// SignOutOthers ends all sign-ins of a person except the one with the id in but, and the access of
// all programs that the person let in by OAuth; an empty but ends all sign-ins.
func (s *Service) SignOutOthers(ctx context.Context, person, but string) error {
	_, err := s.db.SignIns.RemoveOthers(ctx, person, but, s.now())
	return err
}
