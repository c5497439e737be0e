package control

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"patchbay/internal/account"
	"patchbay/internal/hub"
	"patchbay/internal/i18n"
	"patchbay/internal/problem"
	"patchbay/internal/store"
)

const (
	msgNoKey        = i18n.Message("There is no such key.")
	msgKeyName      = i18n.Message("A name has 1 to 60 characters, without control characters.")
	msgKeyScope     = i18n.Message("Choose at least one of what a key is good for: %s.")
	msgNoScope      = i18n.Message("Nothing that a key is good for is called %q; there are %s.")
	msgKeyAdmin     = i18n.Message("Keys with scope admin are for whoever runs the installation.")
	msgKeyExpires   = i18n.Message("A key expires in the future, within ten years.")
	msgKeyBot       = i18n.Message("There is no such bot.")
	msgKeyRule      = i18n.Message("“%s” is no name of a tool: names have 1 to 64 letters, digits, _ and -, and * stands for any text.")
	msgKeyRules     = i18n.Message("There may be 200 rules of each kind.")
	msgKeyRate      = i18n.Message("A rate is 0 to 1000000 calls a minute.")
	msgKeyIsRevoked = i18n.Message("The key is revoked, so its rules cannot be changed any more.")
	msgTooManyKeys  = i18n.Message("There are too many keys; revoke some, %d are the most.")
)

const (
	// keysMost limits the valid keys of one person, so that no list has more than a thousand rows.
	keysMost = 500
	// keyLifeMost limits the lifetime of a key that expires.
	keyLifeMost = 10 * 366 * 24 * time.Hour
	// keyRateMost limits a key's own rate.
	keyRateMost = 1_000_000
)

// Rules are the tools that a key may call.
type Rules = hub.Rules

// KeyRow is a key without its secret, which is not stored.
type KeyRow struct {
	store.Key
	Rules      hub.Rules `json:"rules,omitzero"`
	PersonName string    `json:"person_name,omitempty"`
	BotName    string    `json:"bot_name,omitempty"`
}

// IsValid reports whether the key can be used.
func (k *KeyRow) IsValid() bool {
	return k.Revoked.IsZero() && (k.Expires.IsZero() || k.Expires.After(time.Now()))
}

// KeyQuery selects keys.
type KeyQuery struct {
	User string `query:"user"` // a name; admins may name others
}

// KeyList is a list of keys, newest first.
type KeyList struct {
	Keys []KeyRow `json:"keys"`
}

// Keys lists the caller's keys, including revoked ones.
func (s *Service) Keys(ctx context.Context, c Caller, in KeyQuery) (KeyList, error) {
	if c.Only != 0 {
		return KeyList{}, problem.New(problem.Denied, msgWholeKey)
	}
	whose := c.Owner()
	if in.User != "" {
		p, err := s.singlePerson(ctx, c, in.User)
		if err != nil {
			return KeyList{}, err
		}
		whose = p.ID
	}
	list, err := s.Hub.Store.Keys.ByPerson(ctx, whose)
	if err != nil {
		return KeyList{}, err
	}
	slices.Reverse(list)
	rows, err := s.keyRows(ctx, whose, list)
	return KeyList{Keys: rows}, err
}

// keyRows completes keys with what else is known about them.
func (s *Service) keyRows(ctx context.Context, whose string, list []store.Key) ([]KeyRow, error) {
	people, err := s.names(ctx)
	if err != nil {
		return nil, err
	}
	bots, err := botNames(ctx, s.Hub.Store, whose)
	if err != nil {
		return nil, err
	}
	rows := make([]KeyRow, len(list))
	for i, k := range list {
		rows[i] = KeyRow{Key: k, PersonName: people[k.Person], BotName: bots[k.Bot]}
		if rows[i].Rules, err = hub.ParseRules(k.Rules); err != nil {
			return nil, err
		}
	}
	return rows, nil
}

// KeyRef identifies a key.
type KeyRef struct {
	Key string `path:"key"` // its id
}

// Key returns one of the caller's keys.
func (s *Service) Key(ctx context.Context, c Caller, in KeyRef) (KeyRow, error) {
	if c.Only != 0 {
		return KeyRow{}, problem.New(problem.Denied, msgWholeKey)
	}
	k, err := s.Hub.Store.Keys.ByID(ctx, in.Key)
	if errors.Is(err, store.ErrNotFound) || err == nil && c.Owner() != "" && k.Person != c.Owner() {
		return KeyRow{}, problem.New(problem.NotFound, msgNoKey)
	}
	if err != nil {
		return KeyRow{}, err
	}
	rows, err := s.keyRows(ctx, k.Person, []store.Key{k})
	if err != nil {
		return KeyRow{}, err
	}
	return rows[0], nil
}

// LastUse is the last call of a tool that a key made, as far as records are kept.
type LastUse struct {
	At      time.Time
	Program string // the name that it gives; empty: it gives none
	Address string // empty: unknown
}

// LastUse returns who used a key last, as Key returned it; nil: it has no call in the records.
func (s *Service) LastUse(ctx context.Context, k KeyRow) (*LastUse, error) {
	s.Hub.WaitForCallRecords(ctx)
	calls, err := s.Hub.Store.Calls.Find(ctx, store.CallFilter{Person: k.Person, Key: k.ID}, 1)
	if err != nil || len(calls) == 0 {
		return nil, err
	}
	return &LastUse{calls[0].At, calls[0].Program, calls[0].Address}, nil
}

// NewKey describes a key to create.
type NewKey struct {
	User   string    `json:"user,omitempty"` // the owner, if an admin names one
	Name   string    `json:"name"`
	Scopes []string  `json:"scopes"`
	Bot    int64     `json:"bot,omitempty"`    // the only bot that it may use
	Days   int       `json:"days,omitempty"`   // lifetime; 0: unlimited
	Expire time.Time `json:"expires,omitzero"` // the same, as a time
	Rules  hub.Rules `json:"rules,omitzero"`   // the tools that it may call
}

// CreatedKey is a new key with its secret, which is returned only here.
type CreatedKey struct {
	KeyRow
	Secret string `json:"key"`
}

// AddKey creates a key. Only admins, with a key that is not narrower, create keys for all things of
// the installation. A key that is created with a key ends with it.
func (s *Service) AddKey(ctx context.Context, c Caller, in NewKey) (CreatedKey, error) {
	if err := checkMakesKeys(c); err != nil {
		return CreatedKey{}, err
	}
	if err := s.mayAdd(c); err != nil {
		return CreatedKey{}, err
	}
	owner, err := s.singlePerson(ctx, c, in.User)
	if err != nil {
		return CreatedKey{}, err
	}
	want := account.NewKey{Person: owner.ID, Name: strings.TrimSpace(in.Name), Scopes: in.Scopes, Bot: in.Bot}
	if want.Expires, err = parseKeyLifetime(in); err != nil {
		return CreatedKey{}, err
	}
	if err := inherit(c, &want); err != nil {
		return CreatedKey{}, err
	}
	s.useOriginalNames(owner.ID, hub.Rules{}, &in.Rules)
	if err := s.checkKey(ctx, c, owner, &want, in.Rules); err != nil {
		return CreatedKey{}, err
	}
	k, secret, err := s.Accounts.AddKey(ctx, want)
	if err != nil {
		return CreatedKey{}, err
	}
	s.RecordAdminEvent(ctx, c, EventKeyMade, AboutKey(k, c.Person, owner.Name))
	rows, err := s.keyRows(ctx, k.Person, []store.Key{k})
	if err != nil {
		return CreatedKey{}, err
	}
	return CreatedKey{rows[0], secret}, nil
}

// parseKeyLifetime returns the lifetime of a new key; 0 means unlimited.
func parseKeyLifetime(in NewKey) (time.Duration, error) {
	life := time.Duration(in.Days) * 24 * time.Hour
	if !in.Expire.IsZero() {
		life = time.Until(in.Expire)
	} else if in.Days == 0 {
		return 0, nil
	}
	if in.Days < 0 || in.Days > int(keyLifeMost/(24*time.Hour)) || life <= 0 || life > keyLifeMost {
		return 0, problem.New(problem.Invalid, msgKeyExpires)
	}
	return life, nil
}

// checkKey validates a key to create, and completes its rules.
func (s *Service) checkKey(ctx context.Context, c Caller, owner store.Person, want *account.NewKey,
	rules hub.Rules) error {
	if account.CheckName(want.Name) != nil {
		return problem.New(problem.Invalid, msgKeyName)
	}
	if len(want.Scopes) == 0 {
		return problem.New(problem.Invalid, msgKeyScope, strings.Join(account.Scopes, ", "))
	}
	slices.Sort(want.Scopes)
	want.Scopes = slices.Compact(want.Scopes)
	for _, scope := range want.Scopes {
		if !slices.Contains(account.Scopes, scope) {
			return problem.New(problem.Invalid, msgNoScope, scope, strings.Join(account.Scopes, ", "))
		}
	}
	if slices.Contains(want.Scopes, account.ScopeAdmin) {
		runs, err := s.canSeeMachine(ctx, c)
		if err != nil {
			return err
		}
		if !runs || owner.Role != account.RoleAdmin {
			return problem.New(problem.Denied, msgKeyAdmin)
		}
	}
	if want.Bot != 0 {
		b, err := s.Hub.Store.Bots.ByNumber(ctx, want.Bot)
		if errors.Is(err, store.ErrNotFound) || err == nil && b.Owner != owner.ID {
			return problem.New(problem.Invalid, msgKeyBot)
		} else if err != nil {
			return err
		}
	}
	if err := checkRules(&rules); err != nil {
		return err
	}
	if err := s.checkToolSet(ctx, owner.ID, hub.Rules{}, rules); err != nil {
		return err
	}
	want.Rules = rules.String()
	have, err := s.Hub.Store.Keys.ByPerson(ctx, owner.ID)
	if err != nil {
		return err
	}
	good := 0
	for _, k := range have {
		if k.Revoked.IsZero() {
			good++
		}
	}
	if good >= keysMost {
		return problem.New(problem.Conflict, msgTooManyKeys, keysMost)
	}
	return nil
}

// checkRules validates rules.
func checkRules(r *hub.Rules) error {
	for _, list := range [][]string{r.Allow, r.Deny, r.Dangerous} {
		for _, pattern := range list {
			if hub.CheckPattern(pattern) != nil {
				return problem.New(problem.Invalid, msgKeyRule, pattern)
			}
		}
	}
	if r.PerMinute < 0 || r.PerMinute > keyRateMost {
		return problem.New(problem.Invalid, msgKeyRate)
	}
	if r.Validate() != nil {
		return problem.New(problem.Invalid, msgKeyRules)
	}
	return nil
}

// KeyChange replaces the rules of a key.
type KeyChange struct {
	Key   string    `path:"key" json:"-"`
	Rules hub.Rules `json:"rules"` // all rules; none: it may call all tools that its owner may
	// Original means that all names in the rules are original ones.
	Original bool `json:"-"`
}

// useOriginalNames has rules name tools by their original names.
func (s *Service) useOriginalNames(person string, before hub.Rules, now *hub.Rules) {
	now.Allow = s.originalNames(person, before.Allow, now.Allow)
	now.Deny = s.originalNames(person, before.Deny, now.Deny)
	now.Dangerous = s.originalNames(person, before.Dangerous, now.Dangerous)
}

// ChangeKey replaces the rules of a key.
func (s *Service) ChangeKey(ctx context.Context, c Caller, in KeyChange) (KeyRow, error) {
	if err := checkMakesKeys(c); err != nil {
		return KeyRow{}, err
	}
	k, err := s.Key(ctx, c, KeyRef{in.Key})
	if err != nil {
		return KeyRow{}, err
	}
	if !k.Revoked.IsZero() {
		return KeyRow{}, problem.New(problem.Conflict, msgKeyIsRevoked)
	}
	if err := s.checkKeyWidening(ctx, c, k); err != nil {
		return KeyRow{}, err
	}
	if !in.Original {
		s.useOriginalNames(k.Person, k.Rules, &in.Rules)
	}
	if err := checkRules(&in.Rules); err != nil {
		return KeyRow{}, err
	}
	if err := s.checkToolSet(ctx, k.Person, k.Rules, in.Rules); err != nil {
		return KeyRow{}, err
	}
	if err := s.Hub.Store.Keys.SetRules(ctx, k.ID, in.Rules.String()); err != nil {
		return KeyRow{}, err
	}
	s.RecordAdminEvent(ctx, c, EventKeyRules, AboutKey(k.Key, c.Person, k.PersonName))
	k.Rules = in.Rules
	return k, nil
}

// checkKeyWidening refuses a change by a key with fewer rights than the changed key would have.
func (s *Service) checkKeyWidening(ctx context.Context, c Caller, k KeyRow) error {
	if !slices.Contains(k.Scopes, account.ScopeAdmin) {
		return nil
	}
	runs, err := s.canSeeMachine(ctx, c)
	if err == nil && !runs {
		err = problem.New(problem.Denied, msgKeyAdmin)
	}
	return err
}

// revoke revokes a key, if it is valid.
func (s *Service) revoke(ctx context.Context, c Caller, k *KeyRow) error {
	now := time.Now()
	if err := s.Hub.Store.Keys.Revoke(ctx, k.ID, now); errors.Is(err, store.ErrNotFound) {
		return problem.New(problem.NotFound, msgNoKey) // its owner was removed meanwhile
	} else if err != nil {
		return err
	}
	if k.Revoked.IsZero() {
		k.Revoked = now
		s.RecordAdminEvent(ctx, c, EventKeyRevoked, AboutKey(k.Key, c.Person, k.PersonName))
	}
	return nil
}

// AboutKey describes a key in admin events, with its owner if that is somebody else.
func AboutKey(k store.Key, by, owner string) string {
	about := k.Name + " (" + strings.Join(k.Scopes, ", ") + ")"
	if k.Person != by {
		about = owner + ": " + about
	}
	return about
}
