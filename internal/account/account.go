// Package account knows who is who: people, the keys by which programs act for
// them, and the bindings between wearers and bots.
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

	"patchbay/internal/seal"
	"patchbay/internal/store"
	"patchbay/internal/talk"
)

// What a key may be used for.
const (
	ScopeLingzhu  = "lingzhu"  // glasses ask through the Lingzhu door
	ScopeLearn    = "learn"    // programs reach Learn
	ScopeMCP      = "mcp"      // programs call tools
	ScopeNode     = "node"     // programs connect as nodes and ask to be paired
	ScopeOperator = "operator" // programs run the board for their person
	ScopeAdmin    = "admin"    // programs run the whole installation
)

// Scopes lists all scopes.
var Scopes = []string{ScopeLingzhu, ScopeLearn, ScopeMCP, ScopeNode, ScopeOperator, ScopeAdmin}

// The roles of people.
const (
	RoleAdmin  = "admin"
	RoleMember = "member"
)

// What is wrong with what is said about a person, or a key.
var (
	sayRole        = talk.Say{Zh: "角色是 %s 或 %s，不能是 %q", En: "a role is %s or %s, not %q"}
	sayPersonThere = talk.Say{Zh: "%v：%q 已有账户", En: "%v: %q already has an account"}
	sayNeedsScope  = talk.Say{Zh: "密钥至少要有一个权限：%s", En: "a key needs a scope: %s"}
	sayNoScope     = talk.Say{Zh: "没有名为 %q 的权限；有 %s", En: "no scope is called %q; there are %s"}
	sayExpires     = talk.Say{Zh: "密钥不能在过去失效", En: "a key cannot expire in the past"}
	sayKeyOf       = talk.Say{Zh: "密钥所属的人或机器人不存在", En: "the person or the bot of the key does not exist"}
)

// Why a key is refused. The one who shows it learns only that it is refused;
// the log tells which of these it was.
var (
	ErrNoKey   = errors.New("no key was shown")
	ErrUnknown = errors.New("no such key")
	ErrRevoked = errors.New("the key was revoked")
	ErrExpired = errors.New("the key has expired")
	ErrScope   = errors.New("the key has not the needed scope")
)

// Service does what accounts need. It is safe for concurrent use.
type Service struct {
	// Addresses counts, by address, the passwords and setup codes of browsers that are not
	// known. It has to be set before the first one comes; nil: nobody counts.
	Addresses *Guard

	db  *store.DB
	box *seal.Box
	now func() time.Time
	// strangers and trusted are where passwords are hashed: who guesses keeps nobody
	// waiting who is known.
	strangers, trusted lane
	compare            func(password, hash string) (bool, error)
	guesses            *guesses
}

// New makes the service. A nil now means time.Now.
func New(db *store.DB, box *seal.Box, now func() time.Time) *Service {
	if now == nil {
		now = time.Now
	}
	return &Service{db: db, box: box, now: now, strangers: newLane(), trusted: newLane(), compare: argon2id.ComparePasswordAndHash, guesses: newGuesses()}
}

// AddPerson opens an account. The first one becomes admin whatever role is
// asked for. An empty password means that the person cannot sign in with one.
func (s *Service) AddPerson(ctx context.Context, name, role, lang, password string) (store.Person, error) {
	return s.addPerson(ctx, store.Person{Name: name, Role: role, Lang: lang}, password, func([]store.Person) error { return nil })
}

// addPerson opens an account, unless may, which gets everybody there is, returns an error.
func (s *Service) addPerson(ctx context.Context, p store.Person, password string, may func([]store.Person) error) (store.Person, error) {
	p.Name = strings.TrimSpace(p.Name)
	if err := CheckName(p.Name); err != nil {
		return store.Person{}, err
	}
	var err error
	if p.Password, err = s.hashPassword(ctx, password); err != nil {
		return store.Person{}, err
	}
	p.ID, p.Created = newID(), s.now()
	err = s.db.People.AddAmong(ctx, &p, func(others []store.Person) error {
		if len(others) == 0 {
			p.Role = RoleAdmin
		}
		if p.Role != RoleAdmin && p.Role != RoleMember {
			return sayRole.Wrong(RoleAdmin, RoleMember, p.Role)
		}
		if err := may(others); err != nil {
			return err
		}
		return alike(p, others)
	})
	if errors.Is(err, ErrPersonName) || errors.Is(err, store.ErrExists) {
		err = sayPersonThere.Wrong(ErrPersonName, p.Name)
	}
	if err != nil {
		return store.Person{}, err
	}
	return p, nil
}

// SetPassword replaces a person's password, and ends all sign-ins: somebody may know
// the one before.
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

// maxPassword bounds a password, in bytes.
const maxPassword = 1024

// CheckPassword says what is wrong with a password that somebody has chosen.
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

// CheckName keeps names short and printable, so that they fit in lists, logs
// and tool names. Its error is for whoever chose the name.
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

// NewKey says what key is wanted.
type NewKey struct {
	Person  string        // id of whom it acts for
	Name    string        // what its person calls it
	Scopes  []string      // at least one
	Bot     int64         // if not 0, the only bot it opens
	Expires time.Duration // 0: never
	Secret  string        // empty: made here, which is what everybody wants but the demo
	Rules   string        // which tools it may call, as JSON; empty: all that its person may
	Parent  string        // id of the key by which it is made, with which it ends; empty: none
	Latest  time.Time     // it expires then at the latest; zero: it need not
}

// AddKey makes a key and returns its secret, which is not kept and cannot be
// shown again.
func (s *Service) AddKey(ctx context.Context, n NewKey) (store.Key, string, error) {
	if err := CheckName(n.Name); err != nil {
		return store.Key{}, "", err
	}
	if len(n.Scopes) == 0 {
		return store.Key{}, "", sayNeedsScope.Wrong(strings.Join(Scopes, ", "))
	}
	for _, scope := range n.Scopes {
		if !slices.Contains(Scopes, scope) {
			return store.Key{}, "", sayNoScope.Wrong(scope, strings.Join(Scopes, ", "))
		}
	}
	if n.Expires < 0 {
		return store.Key{}, "", sayExpires.Wrong()
	}
	secret := n.Secret
	if secret == "" {
		secret = prefix(n.Scopes) + seal.Token(32)
	}
	k := store.Key{ID: newID(), Person: n.Person, Name: n.Name, Scopes: n.Scopes, Bot: n.Bot, Hash: seal.Hash(secret), Hint: hint(secret), Rules: n.Rules, Parent: n.Parent, Created: s.now()}
	if n.Expires > 0 {
		k.Expires = k.Created.Add(n.Expires)
	}
	if !n.Latest.IsZero() && (k.Expires.IsZero() || k.Expires.After(n.Latest)) {
		k.Expires = n.Latest
	}
	switch err := s.db.Keys.Add(ctx, k); {
	case errors.Is(err, store.ErrNotFound):
		return store.Key{}, "", sayKeyOf.Wrong()
	case err != nil:
		return store.Key{}, "", err
	}
	return k, secret, nil
}

// prefix tells people what a key is for. That of keys for Learn alone is the one
// that its clients know.
func prefix(scopes []string) string {
	if slices.Equal(scopes, []string{ScopeLearn}) {
		return "sk_"
	}
	return "pb_"
}

// hint is enough of a secret to tell it from others: its prefix and 4 of at
// least 43 characters.
func hint(secret string) string {
	const n = len("pb_") + 4
	if len(secret) < 4*n {
		return ""
	}
	return secret[:n]
}

// Principal is whom a key speaks for.
type Principal struct {
	Key    store.Key
	Person store.Person
}

// Authenticate finds out whom a secret speaks for, if it has one of the scopes.
// It returns one of the Err… of this package if the secret is refused, and
// another error if that cannot be found out.
//
// The secret is looked up by its hash, so that the time this takes tells nothing
// about secrets that are close.
func (s *Service) Authenticate(ctx context.Context, secret string, scopes ...string) (Principal, error) {
	if secret == "" {
		return Principal{}, ErrNoKey
	}
	return s.byHash(ctx, seal.Hash(secret), scopes)
}

func (s *Service) byHash(ctx context.Context, hash string, scopes []string) (Principal, error) {
	k, err := s.db.Keys.ByHash(ctx, hash)
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
	case !k.Expires.IsZero() && !now.Before(k.Expires):
		return Principal{}, ErrExpired
	case !slices.ContainsFunc(scopes, func(scope string) bool { return slices.Contains(k.Scopes, scope) }):
		return Principal{}, ErrScope
	}
	p, err := s.db.People.ByID(ctx, k.Person)
	if err != nil {
		return Principal{}, fmt.Errorf("look up the person of a key: %w", err)
	}
	if now.Sub(k.Used) > time.Minute && !s.db.IsAway() {
		if err := s.db.Keys.MarkUsed(ctx, k.ID, now); err != nil && !store.IsAway(err) {
			return Principal{}, fmt.Errorf("note the use of a key: %w", err)
		}
	}
	return Principal{Key: k, Person: p}, nil
}

// Refused says whether an error of Authenticate is about the key, not about us.
func Refused(err error) bool {
	for _, e := range []error{ErrNoKey, ErrUnknown, ErrRevoked, ErrExpired, ErrScope} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

func newID() string { return uuid.Must(uuid.NewV7()).String() }

// digits makes n random decimal digits.
func digits(n int) string {
	const span = 250 // the largest multiple of 10 in a byte: no digit is likelier
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
