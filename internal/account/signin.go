package account

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	"patchbay/internal/seal"
	"patchbay/internal/store"
	"patchbay/internal/talk"
)

const (
	// SignInLife is after how long every browser has to sign in again; one that nobody
	// uses has to after [store.SignInIdle].
	SignInLife = 180 * 24 * time.Hour
	// ConfirmLife is for how long a password that was typed lets a browser see secrets.
	ConfirmLife = 10 * time.Minute
	// maxSignIns bounds the browsers of one person.
	maxSignIns = 50
	// maxAgent bounds what a browser calls itself, in bytes.
	maxAgent = 200
	// seenEvery is how exactly it is known when a browser was used last.
	seenEvery = time.Minute
)

// Why nobody is signed in.
var (
	// ErrPassword is a wrong password, or a name that nobody has: which of the two is
	// not told.
	ErrPassword = talk.Say{Zh: "名称或密码不对", En: "the name or the password is wrong"}.Wrong()
	// ErrSetupCode is a wrong code for the first account.
	ErrSetupCode = talk.Say{Zh: "设置码不对；服务启动时会在终端里显示它", En: "the setup code is wrong; the server shows it in the terminal when it starts"}.Wrong()
	// ErrSetUp says that there is a first account already.
	ErrSetUp = talk.Say{Zh: "这里已经设置好了；请登录", En: "this installation is set up already; sign in"}.Wrong()
	// ErrSignedOut is a browser whose sign-in has ended.
	ErrSignedOut = errors.New("signed out")
)

// SetupCode is what whoever opens the first account has to know: eight characters,
// the same on all instances and after a restart, and of no use once there is an
// account. It is empty then.
func (s *Service) SetupCode(ctx context.Context) (string, error) {
	people, err := s.db.People.All(ctx)
	if err != nil || len(people) > 0 {
		return "", err
	}
	return setupCode(s.box.Key()), nil
}

func setupCode(k *seal.Key) string {
	const letters = "23456789ABCDEFGHJKLMNPQRSTUVWXYZ" // 32, none of which looks like another
	sum, err := hex.DecodeString(k.MAC("setup code"))
	if err != nil {
		panic(err) // MAC makes hex
	}
	code := make([]byte, 8)
	for i := range code {
		code[i] = letters[sum[i]%32]
	}
	return string(code[:4]) + "-" + string(code[4:])
}

// SetUp opens the first account, whose person runs the installation; of several at the
// same time one is opened. The error is [ErrSetupCode], [ErrTries], [ErrBusy], [ErrSetUp],
// or says what is wrong with the name or the password.
func (s *Service) SetUp(ctx context.Context, code, name, lang, password string, by Browser) (store.Person, error) {
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
	if !s.made(plain, func(k *seal.Key) string { return strings.ReplaceAll(setupCode(k), "-", "") }) {
		return store.Person{}, ErrSetupCode
	}
	giveBack()
	if password == "" {
		return store.Person{}, ErrPasswordEmpty
	}
	return s.addPerson(ctx, store.Person{Name: name, Role: RoleAdmin, Lang: lang}, password, func(others []store.Person) error {
		if len(others) > 0 {
			return ErrSetUp
		}
		return nil
	})
}

// Browser is who wants to sign in.
type Browser struct {
	Agent   string // what it calls itself
	Address string
	Known   []string // the marks that it has from [Service.Know]
}

// SignIn lets a browser in, if the password is right. The browser keeps the token; it
// is not kept here and cannot be shown again. The error is [ErrPassword] if name or
// password are wrong, and [ErrTries] or [ErrBusy] if that was not looked at.
func (s *Service) SignIn(ctx context.Context, name, password string, by Browser) (token string, p store.Person, err error) {
	if p, err = s.checkSignIn(ctx, strings.TrimSpace(name), password, by); err != nil {
		return "", store.Person{}, err
	}
	token, err = s.Admit(ctx, p, by)
	return token, p, err
}

// Admit lets a browser in without a password: that of who has just opened an account.
func (s *Service) Admit(ctx context.Context, p store.Person, by Browser) (token string, err error) {
	token = seal.Token(32)
	now := s.now()
	if len(by.Agent) > maxAgent {
		by.Agent = strings.ToValidUTF8(by.Agent[:maxAgent], "")
	}
	x := store.SignIn{ID: seal.Hash(token), Person: p.ID, Agent: by.Agent, Address: by.Address, Created: now, Seen: now, Confirmed: now}
	if err := s.db.SignIns.Add(ctx, x, maxSignIns); err != nil {
		return "", fmt.Errorf("keep a sign-in: %w", err)
	}
	return token, nil
}

// SignedIn is who uses a browser.
type SignedIn struct {
	store.SignIn
	Person store.Person
}

// Fresh says whether the password was typed a short time ago.
func (x *SignedIn) Fresh(now time.Time) bool { return now.Sub(x.Confirmed) < ConfirmLife }

// CheckSignIn finds out who uses a browser with a token. The error is [ErrSignedOut]
// if nobody does.
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
	if errors.Is(err, store.ErrNotFound) {
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

// Confirm has somebody who is signed in show the password once more, before something
// is done or shown that not everybody who finds the browser open may do or see. The
// browser gets another token. The error is [ErrPassword], [ErrTries] or [ErrBusy].
func (s *Service) Confirm(ctx context.Context, x SignedIn, password string) (token string, err error) {
	if err := s.checkAgain(ctx, x.Person, password); err != nil {
		return "", err
	}
	token = seal.Token(32)
	switch err := s.db.SignIns.Replace(ctx, x.ID, seal.Hash(token), s.now()); {
	case errors.Is(err, store.ErrNotFound):
		return "", ErrSignedOut
	case err != nil:
		return "", fmt.Errorf("keep a sign-in: %w", err)
	}
	return token, nil
}

// SignOut ends a sign-in. That it has ended already is no error.
func (s *Service) SignOut(ctx context.Context, person, id string) error {
	if err := s.db.SignIns.Remove(ctx, person, id); !errors.Is(err, store.ErrNotFound) {
		return err
	}
	return nil
}

// SignOutOthers ends all sign-ins of a person but one, or all for an empty one.
func (s *Service) SignOutOthers(ctx context.Context, person, but string) error {
	_, err := s.db.SignIns.RemoveOthers(ctx, person, but)
	return err
}
