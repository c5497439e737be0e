// Package account manages identities: people, the keys with which programs act for them, and the
// bindings between wearers and bots.
package account

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/alexedwards/argon2id"
	"github.com/google/uuid"

	"patchbay/internal/i18n"
	"patchbay/internal/seal"
	"patchbay/internal/store"
)

// Scopes of keys.
const (
	ScopeLingzhu  = "lingzhu"  // glasses ask on the lingzhu channel
	ScopeLearn    = "learn"    // programs use the Learn API
	ScopeMCP      = "mcp"      // programs call tools
	ScopeNode     = "node"     // programs connect as nodes and ask to be paired
	ScopeOperator = "operator" // programs act as operators of what their person owns
	ScopeAdmin    = "admin"    // programs administer the whole installation
)

// ScopeDangerous is a scope of OAuth grants: the program may ask for calls of tools that are
// dangerous or for people, as its rules say. Keys need no such scope.
const ScopeDangerous = "mcp:dangerous"

// Scopes lists all scopes of keys.
var Scopes = []string{ScopeLingzhu, ScopeLearn, ScopeMCP, ScopeNode, ScopeOperator, ScopeAdmin}

// Roles of people.
const (
	RoleAdmin  = "admin"
	RoleMember = "member"
)

// Messages about invalid input for a person or a key.
const (
	msgRole        = i18n.Message("a role is %s or %s, not %q")
	msgPersonThere = i18n.Message("%v: %q already has an account")
	msgNeedsScope  = i18n.Message("a key needs a scope: %s")
	msgNoScope     = i18n.Message("no scope is called %q; there are %s")
	msgExpires     = i18n.Message("a key cannot expire in the past")
	msgKeyOf       = i18n.Message("the person or the bot of the key does not exist")
)

// Reasons why a key is refused. The client gets only the refusal; the log has the reason.
var (
	ErrNoKey   = errors.New("no key was shown")
	ErrUnknown = errors.New("no such key")
	ErrRevoked = errors.New("the key was revoked")
	ErrExpired = errors.New("the key has expired")
	ErrScope   = errors.New("the key has not the needed scope")
	ErrPaused  = i18n.Message("this account is paused; whoever runs Patchbay can resume it").Errorf()
)

// Service manages people, keys, bindings, devices, peers and sign-ins. It is safe for concurrent
// use.
type Service struct {
	// Addresses counts password and setup-code attempts of unknown browsers, by address. Set it
	// before the first attempt. Nil means no counting.
	Addresses *Guard

	db  *store.DB
	box *seal.Box
	now func() time.Time
	// Passwords of unknown and of known browsers are hashed in separate lanes, so that guessing
	// does not delay known people.
	strangers, trusted hashLane
	compare            func(password, hash string) (bool, error)
	guesses            *guessLimiter
}

// New returns a service. A nil now means time.Now.
func New(db *store.DB, box *seal.Box, now func() time.Time) *Service {
	if now == nil {
		now = time.Now
	}
	return &Service{db: db, box: box, now: now, strangers: newHashLane(), trusted: newHashLane(),
		compare: argon2id.ComparePasswordAndHash, guesses: newGuessLimiter()}
}

// AddPerson opens an account. The first one becomes admin whatever the role. With an empty password
// the person cannot sign in with a password.
func (s *Service) AddPerson(ctx context.Context, name, role, lang, password string) (store.Person, error) {
	return s.addPerson(ctx, store.Person{Name: name, Role: role, Lang: lang}, password,
		func([]store.Person) error { return nil })
}

// addPerson opens an account unless may, which gets all existing people, returns an error.
func (s *Service) addPerson(ctx context.Context, p store.Person, password string,
	may func([]store.Person) error) (store.Person, error) {
	p.Name = strings.TrimSpace(p.Name)
	if err := CheckName(p.Name); err != nil {
		return store.Person{}, err
	}
	var err error
	if p.Password, err = s.hashPassword(ctx, password); err != nil {
		return store.Person{}, err
	}
	p.ID, p.Created = newID(), s.now()
	err = s.db.People.AddChecked(ctx, &p, func(others []store.Person) error {
		if len(others) == 0 {
			p.Role = RoleAdmin
		}
		if p.Role != RoleAdmin && p.Role != RoleMember {
			return msgRole.Errorf(RoleAdmin, RoleMember, p.Role)
		}
		if err := may(others); err != nil {
			return err
		}
		return looksAlike(p, others)
	})
	if errors.Is(err, ErrPersonName) || errors.Is(err, store.ErrExists) {
		err = msgPersonThere.Errorf(ErrPersonName, p.Name)
	}
	if err != nil {
		return store.Person{}, err
	}
	return p, nil
}

// SetPassword replaces a person's password, and ends all of their sign-ins and the access of their
// programs as [Service.SignOutOthers] does, because the previous password may be known to others.
func (s *Service) SetPassword(ctx context.Context, person, password string) error {
	if password == "" {
		return ErrPasswordEmpty
	}
	hash, err := s.hashPassword(ctx, password)
	if err != nil {
		return err
	}
	if err := s.db.People.SetPassword(ctx, person, hash); err != nil {
		return err
	}
	return s.SignOutOthers(ctx, person, "")
}

// maxPassword limits a password, in bytes.
const maxPassword = 1024

// CheckPassword returns an error that states why a chosen password is not acceptable.
func CheckPassword(password string) error {
	switch n := utf8.RuneCountInString(password); {
	case n == 0:
		return ErrPasswordEmpty
	case n < 8:
		return ErrPasswordShort
	case len(password) > maxPassword:
		return ErrPasswordLong
	case isCommon(password):
		return ErrPasswordCommon
	}
	return nil
}

// CheckName requires names to be short and printable, so that they fit in lists, logs and tool
// names. Its error is written for the person who chose the name.
func CheckName(name string) error {
	switch {
	case name == "":
		return ErrNameEmpty
	case utf8.RuneCountInString(name) > 60:
		return ErrNameLong
	case strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r == 0x7f }) || !utf8.ValidString(name):
		return ErrNameControl
	}
	return nil
}

// NewKey describes a key to create.
type NewKey struct {
	Person  string        // id of the person it acts for
	Name    string        // chosen by the person
	Scopes  []string      // at least one
	Bot     int64         // the only bot that it may use; 0 means any
	Expires time.Duration // 0 means never
	Secret  string        // empty: generated; only the demo sets it
	Rules   string        // which tools it may call, as JSON; empty: every tool that the person may call
	Parent  string        // id of the key that creates it; it ends with that key; empty: none
	Latest  time.Time     // upper limit of the expiry; zero: none
}

// AddKey creates a key and returns its secret, which is not stored and cannot be shown again.
func (s *Service) AddKey(ctx context.Context, n NewKey) (store.Key, string, error) {
	if err := CheckName(n.Name); err != nil {
		return store.Key{}, "", err
	}
	if len(n.Scopes) == 0 {
		return store.Key{}, "", msgNeedsScope.Errorf(strings.Join(Scopes, ", "))
	}
	for _, scope := range n.Scopes {
		if !slices.Contains(Scopes, scope) {
			return store.Key{}, "", msgNoScope.Errorf(scope, strings.Join(Scopes, ", "))
		}
	}
	if n.Expires < 0 {
		return store.Key{}, "", msgExpires.Errorf()
	}
	secret := n.Secret
	if secret == "" {
		secret = keyPrefix(n.Scopes) + seal.NewToken(32)
	}
	k := store.Key{ID: newID(), Person: n.Person, Name: n.Name, Scopes: n.Scopes, Bot: n.Bot, Hash: seal.Hash(secret),
		Hint: keyHint(secret), Rules: n.Rules, Parent: n.Parent, Created: s.now()}
	if n.Expires > 0 {
		k.Expires = k.Created.Add(n.Expires)
	}
	if !n.Latest.IsZero() && (k.Expires.IsZero() || k.Expires.After(n.Latest)) {
		k.Expires = n.Latest
	}
	switch err := s.db.Keys.Add(ctx, k); {
	case errors.Is(err, store.ErrNotFound):
		return store.Key{}, "", msgKeyOf.Errorf()
	case err != nil:
		return store.Key{}, "", err
	}
	return k, secret, nil
}

// keyPrefix returns the prefix of a secret, which tells people what the key is for. Learn clients
// expect "sk_", so keys with the learn scope alone have it.
func keyPrefix(scopes []string) string {
	if slices.Equal(scopes, []string{ScopeLearn}) {
		return "sk_"
	}
	return "pb_"
}

// keyHint returns as much of a secret as tells it from others: its prefix and 4 of at least 43
// characters.
func keyHint(secret string) string {
	const n = len("pb_") + 4
	if len(secret) < 4*n {
		return ""
	}
	return secret[:n]
}

// Principal is the person that a key acts for.
type Principal struct {
	Key    store.Key
	Person store.Person
}

// Authenticate returns the principal of a secret whose key has at least one of the scopes. A
// refusal is one of the Err… values of this package, for which [Refused] is true; any other error
// means that the lookup failed.
//
// The secret is looked up by its hash, so that the response time reveals nothing about similar
// secrets.
func (s *Service) Authenticate(ctx context.Context, secret string, scopes ...string) (Principal, error) {
	if secret == "" {
		return Principal{}, ErrNoKey
	}
	return s.byHash(ctx, seal.Hash(secret), scopes)
}

func (s *Service) byHash(ctx context.Context, hash string, scopes []string) (Principal, error) {
	k, err := s.db.Keys.ByHash(ctx, hash)
	return s.principal(ctx, k, err, scopes)
}

// principal returns the principal of a key that was looked up with an error.
func (s *Service) principal(ctx context.Context, k store.Key, err error, scopes []string) (Principal, error) {
	if errors.Is(err, store.ErrNotFound) {
		return Principal{}, ErrUnknown
	}
	if err != nil {
		return Principal{}, fmt.Errorf("look up a key: %w", err)
	}
	now := s.now()
	switch {
	case !k.Revoked.IsZero():
		return Principal{}, ErrRevoked
	case !k.Expires.IsZero() && !now.Before(k.Expires), !k.TokenExpires.IsZero() && !now.Before(k.TokenExpires):
		return Principal{}, ErrExpired
	case !slices.ContainsFunc(scopes, func(scope string) bool { return slices.Contains(k.Scopes, scope) }):
		return Principal{}, ErrScope
	}
	p, err := s.db.People.ByID(ctx, k.Person)
	if err != nil {
		return Principal{}, fmt.Errorf("look up the person of a key: %w", err)
	}
	if !p.Paused.IsZero() {
		return Principal{}, ErrPaused
	}
	if now.Sub(k.Used) > time.Minute && !s.db.IsAway() {
		if err := s.db.Keys.MarkUsed(ctx, k.ID, now); err != nil && !store.IsAway(err) {
			return Principal{}, fmt.Errorf("note the use of a key: %w", err)
		}
	}
	return Principal{Key: k, Person: p}, nil
}

// Guessed reports whether a refusal of Authenticate may be that of a guess: what was shown is not,
// and never was, a key of this installation. A program without a key asks how to get one, and one
// whose token has ended asks for the next; counting these would lock out a service from whose
// addresses many people come.
func Guessed(err error) bool { return errors.Is(err, ErrUnknown) }

// Refused reports whether an error of Authenticate is a refusal of the key, not a failure of the
// lookup.
func Refused(err error) bool {
	for _, e := range []error{ErrNoKey, ErrUnknown, ErrRevoked, ErrExpired, ErrScope, ErrPaused} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

func newID() string { return uuid.Must(uuid.NewV7()).String() }

// digits returns n random decimal digits.
func digits(n int) string {
	const span = 250 // the largest multiple of 10 in a byte, so that all digits are equally likely
	out := make([]byte, 0, n)
	var raw [16]byte
	for len(out) < n {
		rand.Read(raw[:])
		for _, b := range raw {
			if b < span && len(out) < n {
				out = append(out, '0'+b%10)
			}
		}
	}
	return string(out)
}
